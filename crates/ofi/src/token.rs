//! Tokens: the first word of every message. libfabric gives us no say in how connections are made, so each
//! message itself shows that its sender knows the job's secret: the word is an HMAC-SHA256 of the pair and the
//! direction, cut to 64 bits, plus how many messages went before. Whoever does not know the secret cannot make the first; a message
//! that was lost, doubled or recorded and sent again does not fit. Who can read the wire can follow the count: against
//! that only encryption helps, which libfabric does not offer.
//!
//! Cost class: *set-up path*; what is done with tokens per message is an addition and a comparison.

use farpost_fabric::Peer;
use farpost_net::SECRET_BYTES;

/// The first token of messages from `from` to `to`.
pub fn first(secret: &[u8; SECRET_BYTES], from: Peer, to: Peer) -> u64 {
    keyed(
        secret,
        b"message",
        &[from.0.to_le_bytes(), to.0.to_le_bytes()].concat(),
    )
}

fn keyed(secret: &[u8; SECRET_BYTES], purpose: &[u8], rest: &[u8]) -> u64 {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let mut context = ring::hmac::Context::with_key(&key);
    context.update(b"farpost ofi ");
    context.update(purpose);
    context.update(b" ");
    context.update(rest);
    let tag = context.sign();
    u64::from_le_bytes(tag.as_ref()[..8].try_into().expect("eight bytes"))
}

/// A number that nobody guesses.
pub fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: eight writable bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 8, "the system has no random numbers");
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_by_secret_pair_and_direction() {
        let (a, b) = ([1; SECRET_BYTES], [2; SECRET_BYTES]);
        let mut half = a;
        half[31] = 7;
        let all = [
            first(&a, Peer(0), Peer(1)),
            first(&a, Peer(1), Peer(0)),
            first(&a, Peer(0), Peer(2)),
            first(&b, Peer(0), Peer(1)),
            first(&half, Peer(0), Peer(1)),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| y != x));
        }
        assert_eq!(all[0], first(&a, Peer(0), Peer(1)));
    }
}
