//! Which ranks run on which host. Decided here and told to the launcher in full, so that a job looks the same
//! whichever of them starts it.

use crate::hosts::Host;
use crate::options::Options;

/// Consecutive ranks of one program on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub host: String,
    pub ranks: u32,
}

/// The blocks of each app, in the order of ranks; empty where no host is named.
///
/// Apps without hosts of their own go on where the last such app stopped, on the hosts named first. A host takes as many
/// ranks as it has slots (one, if not said; `-ppn` comes before both); when all are full, each takes so many again. Ranks
/// on a host are consecutive, unless `--map-by node` asks for one host after the other.
pub fn place(options: &Options) -> Vec<Vec<Block>> {
    let apps = &options.apps;
    let first: &[Host] = apps
        .iter()
        .map(|a| a.hosts.as_slice())
        .find(|h| !h.is_empty())
        .unwrap_or_default();
    // The app that names the common hosts shares them.
    let shares = |i: usize| apps[i].hosts.is_empty() || std::ptr::eq(apps[i].hosts.as_slice(), first);
    let ranks = |i: usize| apps[i].ranks.unwrap_or(1);
    let common: u32 = (0..apps.len()).filter(|i| shares(*i)).map(ranks).sum();
    let far = &options.far;
    let mut common = sequence(first, common, far.per_host, far.cyclic).into_iter();
    (0..apps.len())
        .map(|i| {
            if shares(i) {
                blocks(common.by_ref().take(ranks(i) as usize))
            } else {
                blocks(sequence(&apps[i].hosts, ranks(i), far.per_host, far.cyclic).into_iter())
            }
        })
        .collect()
}

/// The host of each of `total` ranks.
fn sequence(hosts: &[Host], total: u32, per_host: Option<u32>, cyclic: bool) -> Vec<&str> {
    // (name, slots, ranks)
    let mut all: Vec<(&str, u64, u64)> = Vec::new();
    for host in hosts {
        let slots = u64::from(host.slots.unwrap_or(1));
        match all.iter_mut().find(|h| h.0 == host.name) {
            Some(known) => known.1 += slots,
            None => all.push((&host.name, slots, 0)),
        }
    }
    if let Some(per_host) = per_host {
        all.iter_mut().for_each(|h| h.1 = per_host.into());
    }
    let capacity: u64 = all.iter().map(|h| h.1).sum();
    if capacity == 0 {
        return Vec::new();
    }
    let total = u64::from(total);
    if cyclic {
        let rounds = total.div_ceil(capacity);
        let mut sequence = Vec::with_capacity(total as usize);
        while (sequence.len() as u64) < total {
            for host in &mut all {
                if host.2 < host.1 * rounds && (sequence.len() as u64) < total {
                    host.2 += 1;
                    sequence.push(host.0);
                }
            }
        }
        return sequence;
    }
    let mut left = total % capacity;
    for host in &mut all {
        let more = left.min(host.1);
        left -= more;
        host.2 = host.1 * (total / capacity) + more;
    }
    all.iter()
        .flat_map(|h| std::iter::repeat_n(h.0, h.2 as usize))
        .collect()
}

fn blocks<'a>(sequence: impl Iterator<Item = &'a str>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for host in sequence {
        match blocks.last_mut() {
            Some(last) if last.host == host => last.ranks += 1,
            _ => blocks.push(Block {
                host: host.to_owned(),
                ranks: 1,
            }),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Request, parse};
    use proptest::prelude::*;

    fn placed(line: &str) -> String {
        let args = line.split_whitespace().map(Into::into).collect();
        let Ok(Request::Run(options)) = parse(args, &|_| None) else {
            panic!("{line}")
        };
        let app = |blocks: &Vec<Block>| {
            let each = blocks.iter().map(|b| format!("{}:{}", b.host, b.ranks));
            each.collect::<Vec<_>>().join(" ")
        };
        place(&options).iter().map(app).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn ranks_fill_hosts_in_order() {
        for (line, wanted) in [
            ("-n 4 p", ""),
            ("-n 4 -host a,b p", "a:2 b:2"),
            ("-n 3 -host a,b p", "a:2 b:1"),
            ("-n 1 -host a,b p", "a:1"),
            ("-n 4 -host a:3,b:3 p", "a:3 b:1"),
            ("-n 9 -host a:3,b:1 p", "a:7 b:2"),
            ("-n 4 -host a,b,a p", "a:3 b:1"),
            ("-n 6 -ppn 1 -host a:4,b p", "a:3 b:3"),
            ("-ppn 3 -host a,b p", "a:3 b:3"),
            ("-host a:4,b:2,c p", "a:4 b:2 c:1"),
            ("--map-by node -host a:2,b p", "a:1 b:1 a:1"),
            ("-host a:4,b p : q", "a:1 | a:1"),
            ("-n 4 --map-by ppr:2:node -host a,b,c p", "a:2 b:2"),
            ("-n 4 --map-by node -host a:3,b:3 p", "a:1 b:1 a:1 b:1"),
            ("-n 5 --map-by node -host a:1,b:3 p", "a:1 b:1 a:1 b:2"),
        ] {
            assert_eq!(placed(line), wanted, "{line}");
        }
    }

    #[test]
    fn programs_share_hosts_or_have_their_own() {
        for (line, wanted) in [
            ("-n 1 -host a:2,b:2 x : -n 3 y", "a:1 | a:1 b:2"),
            ("-n 2 -host a x : -n 2 -host b y", "a:2 | b:2"),
            ("-n 2 x : -n 2 -host a,b y", "a:2 | b:2"),
            ("-n 2 -host a,b x : -n 1 -host c y : -n 2 z", "a:2 | c:1 | b:2"),
        ] {
            assert_eq!(placed(line), wanted, "{line}");
        }
    }

    proptest! {
        #[test]
        fn every_rank_has_a_place_and_no_host_is_fuller_than_fair(
            slots in proptest::collection::vec(proptest::option::of(1u32..5), 1..6), ranks in 1u32..60, cyclic: bool)
        {
            let hosts: Vec<Host> = slots.iter().enumerate().map(|(i, s)| Host { name: format!("h{i}"), slots: *s }).collect();
            let placed = sequence(&hosts, ranks, None, cyclic);
            prop_assert_eq!(placed.len(), ranks as usize);
            let capacity: u32 = slots.iter().map(|s| s.unwrap_or(1)).sum();
            for host in &hosts {
                let here = placed.iter().filter(|n| **n == host.name).count() as u32;
                prop_assert!(here <= host.slots.unwrap_or(1) * ranks.div_ceil(capacity));
            }
        }
    }
}
