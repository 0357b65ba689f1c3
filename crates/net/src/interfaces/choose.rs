//! Which of this host's interfaces to use: `FARPOST_INTERFACE`, and what is sensible without it.

use super::rails::rate;
use super::subnet::{Subnet, unusable};
use super::system::{Class, Interface};

/// The environment variable that says which interfaces to use.
pub const INTERFACE_VARIABLE: &str = "FARPOST_INTERFACE";

/// Why no interface could be chosen. Each names the value, or lists what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A part of the value has no meaning.
    #[error(
        "{INTERFACE_VARIABLE}={value}: \"{part}\" is neither an interface's name (with * and ?) nor a network such as \
         10.1.0.0/16; put ! before what is to be left out"
    )]
    Malformed { value: String, part: String },
    /// Nothing on this host is meant by it.
    #[error("{INTERFACE_VARIABLE}={value} matches no usable interface of this host, which has {there}")]
    NothingMatches { value: String, there: String },
    /// There is no interface at all with an address.
    #[error("this host has no network interface with a usable address: it has {there}")]
    Nothing { there: String },
}

/// What a person said about interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    value: String,
    only: Vec<Term>,
    without: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Name(String),
    Net(Subnet),
}

/// An interface that will be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Its name.
    pub name: String,
    /// What kind it is. One that was asked for by name or network is as good as a network card.
    pub class: Class,
    /// Megabits per second; 0: unknown.
    pub speed: u32,
    /// The addresses to use, IPv4 before IPv6; at least one.
    pub addresses: Vec<Subnet>,
}

/// What came of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What will be used, best first.
    pub interfaces: Vec<Usable>,
    /// About each interface and address that will not, or only when all else fails, why: "docker0: last choice, it is a bridge".
    pub notes: Vec<String>,
}

impl Chosen {
    /// For people, in one line: "eth0 (10.0.0.5, 10 Gbit/s), docker0 (172.17.0.1; last choice)".
    pub fn sentence(&self) -> String {
        let one = |u: &Usable| {
            let note = match u.class {
                Class::Network => "",
                Class::Virtual => "; last choice",
                Class::Loopback => "; this host only",
            };
            let ips: Vec<String> = u.addresses.iter().map(|a| a.ip.to_string()).collect();
            format!("{} ({}{}{note})", u.name, ips.join(", "), rate(u.speed))
        };
        self.interfaces.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Choice {
    /// Read the value of the variable: names with `*` and `?`, addresses and networks, separated by commas; `!` before
    /// one leaves it out. An empty value leaves the choice to Farpost.
    ///
    /// # Errors
    /// [`ChoiceError::Malformed`].
    pub fn parse(value: &str) -> Result<Choice, ChoiceError> {
        let mut choice = Choice {
            value: value.to_owned(),
            ..Choice::default()
        };
        for part in value.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (list, text) = match part.strip_prefix('!') {
                Some(rest) => (&mut choice.without, rest.trim()),
                None => (&mut choice.only, part),
            };
            let term = if let Some(net) = Subnet::parse(text) {
                Term::Net(net)
            } else if is_name(text) {
                Term::Name(text.to_owned())
            } else {
                return Err(ChoiceError::Malformed {
                    value: value.to_owned(),
                    part: part.to_owned(),
                });
            };
            list.push(term);
        }
        Ok(choice)
    }

    /// Choose among `all`.
    ///
    /// # Errors
    /// [`ChoiceError::NothingMatches`] or [`ChoiceError::Nothing`].
    pub fn apply(&self, all: &[Interface]) -> Result<Chosen, ChoiceError> {
        let mut notes = Vec::new();
        let mut taken: Vec<((usize, Class, u32, u32), Usable)> = Vec::new();
        for interface in all.iter().flat_map(divided) {
            let interface = &interface;
            if let Some((order, usable)) = self.consider(interface, &mut notes) {
                // Those that were asked for in the order asked, then by kind, the fastest, the first.
                let key = (order, usable.class, u32::MAX - usable.speed, interface.index);
                taken.push((key, usable));
            }
        }
        taken.sort_by_key(|(key, _)| *key);
        if taken.is_empty() {
            let there = list(all);
            return Err(if self.only.is_empty() && self.without.is_empty() {
                ChoiceError::Nothing { there }
            } else {
                ChoiceError::NothingMatches {
                    value: self.value.clone(),
                    there,
                }
            });
        }
        Ok(Chosen {
            interfaces: taken.into_iter().map(|(_, u)| u).collect(),
            notes,
        })
    }

    fn consider(&self, i: &Interface, notes: &mut Vec<String>) -> Option<(usize, Usable)> {
        let mut skip = |why: &str| {
            notes.push(format!("{}: skipped, {why}", i.name));
            None
        };
        if i.addresses.is_empty() {
            return skip("it has no address");
        }
        if !i.up {
            return skip("it is down");
        }
        if let Some(term) = self.without.iter().find(|t| t.names(&i.name)) {
            return skip(&format!("{INTERFACE_VARIABLE} leaves out {term}"));
        }
        let named = self.only.iter().position(|t| t.names(&i.name));
        let mut order = named;
        let mut addresses = Vec::new();
        for &a in &i.addresses {
            if let Some(term) = self.without.iter().find(|t| t.holds(a)) {
                notes.push(format!(
                    "{}: {} skipped, {INTERFACE_VARIABLE} leaves out {term}",
                    i.name, a.ip
                ));
            } else if let Some(why) = unusable(a.ip) {
                notes.push(format!("{}: {} skipped, {why}", i.name, a.ip));
            } else if self.only.is_empty() || named.is_some() {
                addresses.push(a);
            } else if let Some(at) = self.only.iter().position(|t| t.holds(a)) {
                order = Some(order.map_or(at, |o| o.min(at)));
                addresses.push(a);
            }
        }
        if addresses.is_empty() {
            notes.push(match self.only.is_empty() {
                true => format!("{}: skipped, it has no address that others can use", i.name),
                false => format!(
                    "{}: skipped, {INTERFACE_VARIABLE}={} does not name it",
                    i.name, self.value
                ),
            });
            return None;
        }
        addresses.sort();
        let class = match (i.class, order.filter(|&at| self.only[at].says_which())) {
            (class @ (Class::Virtual | Class::Loopback), None) => {
                let why = match class {
                    Class::Loopback => "for processes of the same host only",
                    _ => "last choice",
                };
                notes.push(format!("{}: {why}, it is {}", i.name, i.class_reason));
                class
            }
            // Asked for is asked for; but loopback stays what reaches this host alone.
            (Class::Loopback, Some(_)) => Class::Loopback,
            _ => Class::Network,
        };
        let usable = Usable {
            name: i.name.clone(),
            class,
            speed: i.speed,
            addresses,
        };
        Some((order.unwrap_or(0), usable))
    }
}

/// Routed networks put a host's own address on the loopback interface: as good as on a card, unlike 127.0.0.1.
fn divided(i: &Interface) -> Vec<Interface> {
    let part = |loopback: bool, class: Class| {
        let of = |a: &&Subnet| a.ip.is_loopback() == loopback;
        Interface {
            class,
            addresses: i.addresses.iter().filter(of).copied().collect(),
            ..i.clone()
        }
    };
    if i.class != Class::Loopback || i.addresses.iter().all(|a| a.ip.is_loopback()) {
        return vec![i.clone()];
    }
    vec![part(false, Class::Network), part(true, Class::Loopback)]
}

impl Term {
    fn names(&self, name: &str) -> bool {
        matches!(self, Term::Name(pattern) if glob(pattern.as_bytes(), name.as_bytes()))
    }

    /// False for what means everything, and so does not say that a bridge was meant.
    fn says_which(&self) -> bool {
        match self {
            Term::Name(pattern) => pattern.bytes().any(|b| b != b'*'),
            Term::Net(net) => net.prefix > 0,
        }
    }

    fn holds(&self, address: Subnet) -> bool {
        matches!(self, Term::Net(net) if net.contains(address.ip))
    }
}

impl core::fmt::Display for Term {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Term::Name(name) => f.write_str(name),
            Term::Net(net) => net.fmt(f),
        }
    }
}

/// What there is, for people: "eth0 (10.0.0.1/24), eth1 (down)".
pub fn list(all: &[Interface]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let one = |i: &Interface| {
        let what: Vec<String> = if i.up {
            i.addresses.iter().map(ToString::to_string).collect()
        } else {
            vec!["down".to_owned()]
        };
        let what = if what.is_empty() {
            "no address".to_owned()
        } else {
            what.join(", ")
        };
        format!("{} ({what})", i.name)
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Whether it can be a pattern for names: what the kernel permits, and not what was meant as an address.
fn is_name(text: &str) -> bool {
    let fits = (1..=64).contains(&text.len());
    fits && text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"/!,=".contains(&b))
        && text.contains(|c: char| !c.is_ascii_digit() && c != '.')
}

/// `*` is any text, `?` any character. Linear but for one point to return to, as patterns need no more.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == b'?' || pattern[p] == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, from)) = star {
            (p, t) = (at + 1, from + 1);
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}
