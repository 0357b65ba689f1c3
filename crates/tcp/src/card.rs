//! The card: what a process publishes about where it listens, and which rails two cards permit.
//!
//! ```text
//! byte 0   format number
//! byte 1   bytes of Farpost's version, which follows
//! then     the interfaces (`net::interfaces::Card`)
//! ```
//!
//! Cost class: *set-up path*. A card read is input.

use super::socket;
use farpost_fabric::{FabricError, Peer};
use farpost_net::CARD_BYTES;
use farpost_net::interfaces::{
    Card, Choice, End, Plan, PortRange, Usable, interfaces, kernel_route, network_namespace, plan,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

const FORMAT: u8 = 2;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Connections that may wait to be accepted: the kernel's own limit may be lower.
const BACKLOG: i32 = 4096;

/// Why a process cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface fits.
    #[error(transparent)]
    Interface(#[from] farpost_net::interfaces::ChoiceError),
    /// No port to be had.
    #[error(transparent)]
    Port(#[from] farpost_net::interfaces::PortsError),
    /// The system refused.
    #[error("{what}: {why}")]
    System { what: &'static str, why: std::io::Error },
    /// The job has no such process, or the like.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// The interfaces of this host to be used.
pub fn usable(choice: &Choice) -> Result<Vec<Usable>, OpenError> {
    let all = interfaces().map_err(|why| OpenError::System {
        what: "list the interfaces of this host",
        why,
    })?;
    Ok(choice.apply(&all)?.interfaces)
}

/// Listen on all addresses of these interfaces, one port for each interface.
pub fn listen(on: &[Usable], ports: PortRange) -> Result<(Vec<OwnedFd>, Card), OpenError> {
    let mut listeners = Vec::new();
    let mut listening = Vec::new();
    let start = std::process::id();
    for interface in on.iter().take(farpost_net::interfaces::MAX_INTERFACES) {
        let mut interface = interface.clone();
        let Some(first) = interface.addresses.first().copied() else {
            continue;
        };
        let name = format!("{} ({})", interface.name, first.ip);
        let bind = |port| socket::listen(SocketAddr::new(first.ip, port), BACKLOG);
        let (listener, port) = ports.bind(start, &name, bind)?;
        listeners.push(listener);
        let mut others = Vec::new();
        interface.addresses.retain(|address| {
            if address.ip == first.ip {
                return true;
            }
            // The same port there, or the address is left out.
            let also = socket::listen(SocketAddr::new(address.ip, port), BACKLOG);
            let listens = also.is_ok();
            others.extend(also.ok().map(|(listener, _)| listener));
            listens
        });
        listeners.append(&mut others);
        listening.push((interface, port));
    }
    let on: Vec<Usable> = listening.iter().map(|(interface, _)| interface.clone()).collect();
    let port_of = |of: &Usable| {
        let found = listening.iter().find(|(interface, _)| interface == of);
        found.map_or(0, |(_, port)| *port)
    };
    Ok((listeners, Card::new(&on, network_namespace(), port_of)))
}

/// The bytes to publish.
pub fn encode(card: &Card) -> Vec<u8> {
    let mut bytes = vec![FORMAT, VERSION.len() as u8];
    bytes.extend_from_slice(VERSION.as_bytes());
    bytes.extend_from_slice(&card.encode(CARD_BYTES - bytes.len()));
    bytes
}

/// What a card says. The error is a sentence.
pub fn decode(bytes: &[u8]) -> Result<Card, String> {
    let short = || "its card ends too early".to_owned();
    let [format, len, rest @ ..] = bytes else {
        return Err(short());
    };
    let (version, rest) = rest.split_at_checked(usize::from(*len)).ok_or_else(short)?;
    if *format != FORMAT || version != VERSION.as_bytes() {
        let version = String::from_utf8_lossy(version);
        return Err(format!(
            "its card is of Farpost {version} (card format {format}), this process is Farpost {VERSION} (format \
             {FORMAT}): start all processes with one version"
        ));
    }
    let (card, used) = Card::decode(rest).map_err(|error| error.to_string())?;
    if used != rest.len() {
        return Err("its card goes on after its end".to_owned());
    }
    Ok(card)
}

/// The rails from `me` to `peer`. The error is a sentence.
pub fn plan_rails(me: (Peer, &Card), peer: (Peer, &Card)) -> Result<Plan, String> {
    let end = |(peer, card): (Peer, _)| End { rank: peer.0, card };
    let plan = plan(end(me), end(peer), &kernel_route);
    if plan.rails.is_empty() {
        return Err(format!("no way leads to it: {}", plan.why_none()));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cards_survive_and_other_versions_are_named() {
        let choice = Choice::parse("lo").unwrap();
        let (_listeners, card) = listen(&usable(&choice).unwrap(), PortRange::ANY).unwrap();
        let mut bytes = encode(&card);
        assert_eq!(decode(&bytes), Ok(card));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
        bytes[2] = b'9';
        let error = decode(&bytes).unwrap_err();
        assert!(error.contains(VERSION) && error.contains("Farpost 9"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
