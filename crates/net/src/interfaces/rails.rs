//! Which of my interfaces talks to which of a peer's: the rails between two processes, and the addresses to try.
//!
//! The same two cards give the same rails with the same numbers whoever asks: the process with the lower rank counts
//! as the first, and the order of its interfaces decides. Only what the routing table says is local; it adds
//! addresses to try, never rails.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::card::{Card, Listed};
use super::subnet::Subnet;
use super::system::Class;

/// An address of a peer to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where to connect to.
    pub to: SocketAddr,
    /// The address of mine to connect from; `None`: as the routing table says.
    pub from: Option<IpAddr>,
    /// The interface of mine that it goes through, as far as is known.
    pub interface: String,
    /// Why this may work, for people.
    pub why: String,
}

/// A path between two processes that shares no interface with another one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rail {
    /// The interface of mine that it uses, by its place on my card. `None`: as the routing table says.
    pub mine: Option<usize>,
    /// Megabits per second of the slower end; 0: unknown.
    pub speed: u32,
    /// Addresses to try, best first.
    pub candidates: Vec<Candidate>,
}

/// How two processes reach each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rails, by number.
    pub rails: Vec<Rail>,
    /// To be tried for rail 0 if no rail ever came up: that two addresses are in one network by their numbers does not prove that a
    /// wire joins them.
    pub fallback: Vec<Candidate>,
    /// Why each combination was taken or not, for people.
    pub notes: Vec<String>,
}

/// What the routing table says: the address from which a packet to that one would go, or why none would.
pub type Route<'a> = &'a dyn Fn(SocketAddr) -> Result<IpAddr, String>;

/// The kernel's answer. No packet is sent: connecting a datagram socket only looks up the route.
///
/// # Errors
/// What the kernel says, such as that the network is unreachable.
pub fn kernel_route(to: SocketAddr) -> Result<IpAddr, String> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let ask = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.local_addr()
    };
    ask().map(|a| a.ip()).map_err(|e: std::io::Error| e.to_string())
}

/// One end of a pair.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The process.
    pub rank: u32,
    /// What it published.
    pub card: &'a Card,
}

/// How `me` reaches `peer`.
pub fn plan(me: End<'_>, peer: End<'_>, route: Route<'_>) -> Plan {
    let lower = me.rank < peer.rank;
    let together = same_namespace(me.card, peer.card);
    let mut plan = Plan::default();

    // Rails: a function of the two cards alone.
    let (low, high) = if lower {
        (me.card, peer.card)
    } else {
        (peer.card, me.card)
    };
    for (l, h) in matched(low, high, together) {
        let (mine, theirs) = if lower { (l, h) } else { (h, l) };
        let (a, b) = (&me.card.interfaces[mine], &peer.card.interfaces[theirs]);
        let candidates = same_network(a, b, together);
        plan.notes.push(format!(
            "rail {}: {} to {}, {}",
            plan.rails.len(),
            a.name,
            b.name,
            candidates[0].why
        ));
        plan.rails.push(Rail {
            mine: Some(mine),
            speed: slower(a.speed, b.speed),
            candidates,
        });
    }
    why_not(me.card, peer.card, together, &mut plan.notes);

    // What else might work.
    if !together || plan.rails.is_empty() {
        plan.fallback = others(&me, &peer, together, &plan.rails, route, &mut plan.notes);
    }
    if plan.rails.is_empty() && !plan.fallback.is_empty() {
        let candidates = core::mem::take(&mut plan.fallback);
        plan.notes.push(format!("rail 0: {}", candidates[0].why));
        plan.rails.push(Rail {
            mine: None,
            speed: 0,
            candidates,
        });
    }
    plan
}

impl Plan {
    /// For people, a line per rail: "0 to 5 via eth0 (10.0.0.1 to 10.0.0.2 port 4000) because both are in 10.0.0.0/24".
    pub fn lines(&self, me: impl Display, peer: impl Display) -> Vec<String> {
        if self.rails.is_empty() {
            return vec![format!("{me} to {peer}: no way, because {}", self.why_none())];
        }
        let line = |(number, rail): (usize, &Rail)| {
            let c = rail.candidates.first()?;
            let from = c.from.map(|a| format!("{a} to ")).unwrap_or_default();
            let rail = if self.rails.len() > 1 {
                format!(", rail {number},")
            } else {
                String::new()
            };
            Some(format!(
                "{me} to {peer}{rail} via {} ({from}{} port {}) because {}",
                c.interface,
                c.to.ip(),
                c.to.port(),
                c.why
            ))
        };
        self.rails.iter().enumerate().filter_map(line).collect()
    }

    /// Why there is no rail, for people.
    pub fn why_none(&self) -> String {
        if self.notes.is_empty() {
            "one of them published no address".to_owned()
        } else {
            self.notes.join("; ")
        }
    }
}

/// Whether loopback leads from one to the other.
fn same_namespace(a: &Card, b: &Card) -> bool {
    let alone = |c: &Card| c.interfaces.iter().all(|i| i.class == Class::Loopback);
    // Where the system does not tell, two processes that have nothing but loopback can only mean each other by it.
    a.namespace == b.namespace && (a.namespace != 0 || (alone(a) && alone(b)))
}

/// Interfaces that are in one network, each in at most one pair.
fn matched(low: &Card, high: &Card, together: bool) -> Vec<(usize, usize)> {
    let all = |class: Class| {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (l, a) in low.interfaces.iter().enumerate() {
            let fits = |h: usize, b: &Listed| {
                a.class == class
                    && b.class == class
                    && pairs.iter().all(|p| p.1 != h)
                    && !same_network(a, b, together).is_empty()
            };
            if let Some(h) = (0..high.interfaces.len()).find(|&h| fits(h, &high.interfaces[h])) {
                pairs.push((l, h));
            }
        }
        pairs
    };
    if together {
        // Whatever the interface, the way is loopback: one rail.
        let loopback = all(Class::Loopback);
        if !loopback.is_empty() {
            return loopback[..1].to_vec();
        }
    }
    all(Class::Network)
}

/// Pairs of addresses of two interfaces in one network, IPv4 first.
fn same_network(a: &Listed, b: &Listed, together: bool) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for mine in &a.addresses {
        for theirs in &b.addresses {
            let bogus = mine.ip == theirs.ip && !together;
            if bogus || !mine.shares(theirs) {
                continue;
            }
            let to = SocketAddr::new(theirs.ip, b.port);
            if found.iter().any(|c| c.to == to) {
                continue;
            }
            let why = if mine.ip.is_loopback() {
                "both are on the same host".to_owned()
            } else {
                format!("both are in {}{}", mine.network(), rate(slower(a.speed, b.speed)))
            };
            found.push(Candidate {
                to,
                from: Some(mine.ip),
                interface: a.name.clone(),
                why,
            });
        }
    }
    found.sort_by_key(|c| c.to.is_ipv6());
    found
}

/// Addresses that the routing table leads to, and networks of bridges and tunnels.
fn others(
    me: &End<'_>,
    peer: &End<'_>,
    together: bool,
    rails: &[Rail],
    route: Route<'_>,
    notes: &mut Vec<String>,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let tried = |found: &[Candidate], to: SocketAddr| {
        let known = |c: &Candidate| c.to == to && c.from.is_some();
        rails.iter().flat_map(|r| &r.candidates).any(known) || found.iter().any(|c| c.to == to)
    };
    for class in [Class::Network, Class::Virtual] {
        if class == Class::Virtual {
            for a in me.card.interfaces.iter().filter(|i| i.class != Class::Loopback) {
                for b in peer.card.interfaces.iter().filter(|i| i.class != Class::Loopback) {
                    if a.class == Class::Network && b.class == Class::Network {
                        continue;
                    }
                    let new = same_network(a, b, together).into_iter();
                    found.extend(new.filter(|c| !tried(&found, c.to)).collect::<Vec<_>>());
                }
            }
        }
        for b in peer.card.interfaces.iter().filter(|i| i.class == class) {
            for theirs in &b.addresses {
                let to = SocketAddr::new(theirs.ip, b.port);
                if tried(&found, to) {
                    continue;
                }
                let own = me.card.interfaces.iter().flat_map(|i| &i.addresses);
                if !together && own.clone().any(|a| a.ip == theirs.ip) {
                    notes.push(format!("{to}: skipped, it is an address of this host as well"));
                    continue;
                }
                match route(to) {
                    Ok(from) if from.is_loopback() && !theirs.ip.is_loopback() && !together => {
                        notes.push(format!("{to}: skipped, it leads back to this host"));
                    }
                    Ok(from) => found.push(Candidate {
                        to,
                        from: None,
                        interface: owner(me.card, from),
                        why: format!("the routing table leads to {} from {from}", theirs.ip),
                    }),
                    Err(why) => notes.push(format!("{to}: skipped, no route ({why})")),
                }
            }
        }
    }
    found
}

/// The name of the interface with that address.
fn owner(card: &Card, ip: IpAddr) -> String {
    let has = |i: &&Listed| i.addresses.iter().any(|a: &Subnet| a.ip == ip);
    let found = card.interfaces.iter().find(has);
    found.map_or_else(|| format!("the interface with {ip}"), |i| i.name.clone())
}

/// What a person would wonder about: equal addresses, nothing but loopback.
fn why_not(me: &Card, peer: &Card, together: bool, notes: &mut Vec<String>) {
    for a in &me.interfaces {
        for b in &peer.interfaces {
            if a.class == Class::Loopback || b.class == Class::Loopback || together {
                continue;
            }
            let both = a
                .addresses
                .iter()
                .find(|x| b.addresses.iter().any(|y| x.ip == y.ip));
            if let Some(both) = both {
                notes.push(format!(
                    "{} to {}: skipped, both have the address {}, so it is a network inside each host",
                    a.name, b.name, both.ip
                ));
            }
        }
    }
    for (card, who) in [(me, "this process"), (peer, "the peer")] {
        if !together && card.interfaces.iter().all(|i| i.class == Class::Loopback) {
            notes.push(format!(
                "{who} has no interface but loopback, and they are on different hosts"
            ));
        }
    }
}

/// The slower of two speeds, of which either may be unknown.
fn slower(a: u32, b: u32) -> u32 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

/// For people.
pub(super) fn rate(speed: u32) -> String {
    match speed {
        0 => String::new(),
        s if s >= 1000 && s.is_multiple_of(1000) => format!(", {} Gbit/s", s / 1000),
        s => format!(", {s} Mbit/s"),
    }
}
