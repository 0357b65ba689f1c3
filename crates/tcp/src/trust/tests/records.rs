use super::*;
use proptest::prelude::*;
use std::io::IoSlice;

/// Sealer of one end, opener of the other.
fn pair() -> (Sealer, Opener) {
    let (a, b) = sessions(true);
    (a.records.unwrap().0, b.records.unwrap().1)
}

fn sealed(s: &mut Sealer, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; Sealer::sealed_len(plain.len())];
    let n = s.seal(&[IoSlice::new(plain)], &mut out);
    assert_eq!(n, out.len());
    out
}

/// Open every record of a stream.
fn opened(o: &mut Opener, stream: &mut [u8]) -> Result<Vec<u8>, BadRecord> {
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let n = o.record_len(&stream[at..])?.unwrap();
        plain.extend_from_slice(o.open(&mut stream[at..at + n])?);
        at += n;
    }
    Ok(plain)
}

#[test]
fn both_directions_carry_what_was_put_in() {
    let (a, b) = sessions(true);
    let ((mut sa, mut oa), (mut sb, mut ob)) = (a.records.unwrap(), b.records.unwrap());
    for text in [&b"one"[..], b"two", b"a third"] {
        let mut there = sealed(&mut sa, text);
        assert!(there.windows(3).all(|w| w != &text[..3]));
        assert_eq!(opened(&mut ob, &mut there).unwrap(), text);
        let mut back = sealed(&mut sb, text);
        assert_ne!(back, there);
        assert_eq!(opened(&mut oa, &mut back).unwrap(), text);
    }
    // A record does not open in the direction it came from.
    let mut own = sealed(&mut sa, b"echo");
    assert!(opened(&mut oa, &mut own).is_err());
}

#[test]
fn the_same_plaintext_never_looks_the_same() {
    let (mut s, _) = pair();
    assert_ne!(sealed(&mut s, b"again"), sealed(&mut s, b"again"));
}

#[test]
fn a_record_changed_in_any_byte_does_not_open() {
    let len = Sealer::sealed_len(9);
    for byte in 0..len {
        let (mut s, mut o) = pair();
        let mut r = sealed(&mut s, b"a message");
        r[byte] ^= 0x10;
        let n = r.len();
        assert!(
            o.record_len(&r).map(|l| l != Some(n)).unwrap_or(true) || o.open(&mut r).is_err(),
            "byte {byte}"
        );
    }
}

#[test]
fn records_left_out_repeated_exchanged_or_cut_do_not_open() {
    let three = |s: &mut Sealer| [sealed(s, b"one"), sealed(s, b"two"), sealed(s, b"six")];
    let altered = |number| Err(BadRecord::Altered { number });

    let (mut s, mut o) = pair();
    let [_, mut second, _] = three(&mut s);
    assert_eq!(opened(&mut o, &mut second), altered(0));

    let (mut s, mut o) = pair();
    let [mut first, _, _] = three(&mut s);
    let mut again = first.clone();
    assert!(opened(&mut o, &mut first).is_ok());
    assert_eq!(opened(&mut o, &mut again), altered(1));

    let (mut s, mut o) = pair();
    let [mut first, mut second, mut third] = three(&mut s);
    assert!(opened(&mut o, &mut first).is_ok());
    assert_eq!(opened(&mut o, &mut third), altered(1));
    assert!(opened(&mut o, &mut second).is_err());

    let (mut s, mut o) = pair();
    let [mut first, _, _] = three(&mut s);
    first.pop();
    assert_eq!(o.open(&mut first), Err(BadRecord::Altered { number: 0 }));
}

#[test]
fn impossible_lengths_are_refused_before_anything_is_read() {
    let (_, o) = pair();
    assert_eq!(o.record_len(&[1, 0, 0]), Ok(None));
    for length in [0u32, RECORD_PLAIN_MAX as u32 + 1, u32::MAX] {
        assert_eq!(
            o.record_len(&length.to_le_bytes()),
            Err(BadRecord::Length { number: 0, length })
        );
    }
    assert_eq!(
        o.record_len(&(RECORD_PLAIN_MAX as u32).to_le_bytes()),
        Ok(Some(RECORD_MAX))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn gathered_parts_of_any_size_come_out_joined(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9000), 0..8),
    ) {
        let (mut s, mut o) = pair();
        let whole = parts.concat();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
        let mut out = vec![0; Sealer::sealed_len(whole.len())];
        prop_assert_eq!(s.seal(&slices, &mut out), out.len());
        prop_assert_eq!(opened(&mut o, &mut out).unwrap(), whole);
    }

    #[test]
    fn bytes_from_anywhere_do_not_open(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_, mut o) = pair();
        prop_assert!(o.open(&mut bytes).is_err());
    }
}
