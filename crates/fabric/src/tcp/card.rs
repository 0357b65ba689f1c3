//! The card: what a process publishes about where it listens.
//!
//! ```text
//! byte 0   format number
//! byte 1   bytes of Farpost's version, which follows
//! then     number of addresses; each: 4 or 6, the address, the port (big-endian)
//! ```
//!
//! Cost class: *set-up path*. A card read is input.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const FORMAT: u8 = 1;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Most addresses of a card.
pub const ADDRESSES_MAX: usize = 16;

/// The card of a process that listens at `addresses`.
pub fn encode(addresses: &[SocketAddr]) -> Vec<u8> {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    let mut card = vec![FORMAT, VERSION.len() as u8];
    card.extend_from_slice(VERSION.as_bytes());
    card.push(addresses.len() as u8);
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                card.push(4);
                card.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                card.push(6);
                card.extend_from_slice(&ip.octets());
            }
        }
        card.extend_from_slice(&address.port().to_be_bytes());
    }
    card
}

/// What a card says. The error is a sentence's end: "its card ...".
pub fn decode(card: &[u8]) -> Result<Vec<SocketAddr>, String> {
    let short = || "its card ends too early".to_owned();
    let mut rest = card;
    let mut take = |len: usize| -> Result<&[u8], String> {
        let (taken, left) = rest.split_at_checked(len).ok_or_else(short)?;
        rest = left;
        Ok(taken)
    };
    let format = take(1)?[0];
    let len = usize::from(take(1)?[0]);
    let version = String::from_utf8_lossy(take(len)?).into_owned();
    if format != FORMAT || version != VERSION {
        return Err(format!(
            "its card is of Farpost {version} (card format {format}), this process is Farpost {VERSION} (format \
             {FORMAT}): start all processes with one version"
        ));
    }
    let count = usize::from(take(1)?[0]);
    if count > ADDRESSES_MAX {
        return Err(format!(
            "its card claims {count} addresses, {ADDRESSES_MAX} are allowed"
        ));
    }
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        let ip = match take(1)?[0] {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(take(4)?).expect("four bytes"))),
            6 => IpAddr::V6(Ipv6Addr::from(
                <[u8; 16]>::try_from(take(16)?).expect("sixteen bytes"),
            )),
            other => return Err(format!("its card has an address of family {other}")),
        };
        let port = u16::from_be_bytes(take(2)?.try_into().expect("two bytes"));
        addresses.push(SocketAddr::new(ip, port));
    }
    if !rest.is_empty() {
        return Err("its card goes on after its end".to_owned());
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cards_survive_and_other_versions_are_named() {
        let addresses = ["10.1.2.3:4567".parse().unwrap(), "[fe80::1]:9".parse().unwrap()];
        let mut card = encode(&addresses);
        assert_eq!(decode(&card).unwrap(), addresses);
        for len in 0..card.len() {
            assert!(decode(&card[..len]).is_err());
        }
        card[2] = b'9';
        let error = decode(&card).unwrap_err();
        assert!(error.contains(VERSION) && error.contains("Farpost 9"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
