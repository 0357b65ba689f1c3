//! Message sizes: lists a person types, powers of two, and those of [NetPIPE](crate::netpipe).

use crate::abi::Result;
use crate::netpipe::Schedule;

/// The largest message measured: its length fits the `int` counts of the calls used.
pub const LARGEST: usize = 1 << 30;

/// Parse `64`, `4k`, `1m`, `1g` (powers of 1024) as bytes.
pub fn parse(text: &str) -> Result<usize> {
    let refuse = || {
        usage!(
            "size \"{text}\": allowed are whole numbers of bytes from 0 to 1g, with suffix k, m or g for powers of 1024"
        )
    };
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let lower = lower
        .strip_suffix("ib")
        .or_else(|| lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, shift) = match lower.chars().last() {
        Some('k') => (&lower[..lower.len() - 1], 10),
        Some('m') => (&lower[..lower.len() - 1], 20),
        Some('g') => (&lower[..lower.len() - 1], 30),
        _ => (lower, 0),
    };
    let number: usize = digits.parse().map_err(|_| refuse())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes <= LARGEST => Ok(bytes),
        _ => Err(refuse()),
    }
}

/// Parse a list such as `8,64k,1m`.
pub fn parse_list(text: &str) -> Result<Vec<usize>> {
    text.split(',').map(parse).collect()
}

/// Powers of two from `min` to `max`, with `min` and `max` themselves.
pub fn powers(min: usize, max: usize) -> Vec<usize> {
    let mut sizes = vec![min, max];
    sizes.extend(
        (0..usize::BITS)
            .map(|bit| 1usize << bit)
            .filter(|s| (min..=max).contains(s)),
    );
    sorted(sizes)
}

/// The sizes of [NetPIPE's walk](crate::netpipe) from `min` to `max`, and what lies `perturbation` bytes around them, in order.
pub fn netpipe(min: usize, max: usize, perturbation: usize) -> Vec<usize> {
    let steps = Schedule::of(min, max, perturbation).steps();
    let mut sizes: Vec<usize> = steps.map(|step| step.bytes).collect();
    sizes.retain(|s| *s >= min && *s <= LARGEST);
    sorted(sizes)
}

fn sorted(mut sizes: Vec<usize>) -> Vec<usize> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A size as people write it: `8`, `64 KiB`, `1 MiB`, and exact bytes between.
pub fn human(bytes: usize) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suffixes_count_in_1024_and_the_limit_is_one_gibibyte() {
        assert_eq!(parse("8").unwrap(), 8);
        assert_eq!(parse("64K").unwrap(), 65536);
        assert_eq!(parse("1MiB").unwrap(), 1 << 20);
        assert_eq!(parse_list("0,4k,1g").unwrap(), [0, 4096, LARGEST]);
        for bad in [
            "",
            "k",
            "-1",
            "1.5k",
            "2g",
            "many",
            "18446744073709551615k",
            "8,,9",
        ] {
            let err = parse_list(bad).unwrap_err().to_string();
            assert!(err.contains("allowed are"), "{bad}: {err}");
        }
    }

    #[test]
    fn netpipe_walks_around_each_size() {
        assert_eq!(netpipe(1, 16, 3), [1, 2, 3, 4, 6, 8, 12, 13, 16, 19]);
        assert_eq!(netpipe(1, 8, 0), [1, 2, 3, 4, 6, 8]);
        assert_eq!(powers(8, 40), [8, 16, 32, 40]);
    }

    proptest! {
        #[test]
        fn sizes_are_increasing_and_in_range(min in 0usize..5000, span in 0usize..1 << 22, p in 0usize..64) {
            let sizes = netpipe(min, min + span, p);
            prop_assert!(sizes.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(sizes.iter().all(|s| *s >= min && *s <= min + span + p));
            prop_assert!(sizes.contains(&min));
        }

        #[test]
        fn human_sizes_parse_back(bytes in 0usize..=LARGEST) {
            prop_assert_eq!(parse(&human(bytes).replace(' ', "")).unwrap(), bytes);
        }
    }
}
