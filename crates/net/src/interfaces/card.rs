//! What a process publishes about where it is reached: its addresses, in few bytes.
//!
//! ```text
//! 0      format: 1
//! 1      number of interfaces
//! 2..10  network namespace
//! then by interface, best first:
//!   class (8 bits), speed in Mbit/s (32), port (16), length of the name (8), the name,
//!   number of addresses (8), then by address: family 4 or 6 (8), prefix (8), the address (4 or 16 bytes)
//! ```
//! Numbers are little-endian. What is read was written by another process: every length is checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::choose::Usable;
use super::subnet::{Subnet, unusable, width};
use super::system::Class;

/// Most interfaces on a card.
pub const MAX_INTERFACES: usize = 8;
/// Most addresses of an interface on a card.
pub const MAX_ADDRESSES: usize = 4;
/// Longest name: what the kernel permits.
const MAX_NAME: usize = 15;
const FORMAT: u8 = 1;

/// Where a process is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// [`network_namespace`](super::network_namespace) of the process; 0: unknown.
    pub namespace: u64,
    /// Its interfaces, best first.
    pub interfaces: Vec<Listed>,
}

/// An interface on a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name there, for people.
    pub name: String,
    /// What kind it is.
    pub class: Class,
    /// Megabits per second; 0: unknown.
    pub speed: u32,
    /// The port on which the process listens there.
    pub port: u16,
    /// Its addresses, at least one.
    pub addresses: Vec<Subnet>,
}

/// Why a card could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// Another format, of a later version perhaps.
    #[error("its list of addresses has format {0}, and this version of Farpost knows format {FORMAT}")]
    Format(u8),
    /// It ends too early.
    #[error("its list of addresses is cut short after {0} bytes")]
    Short(usize),
    /// A value cannot be.
    #[error("its list of addresses has {value} at byte {at}, where {what} was expected")]
    Bad {
        at: usize,
        value: u64,
        what: &'static str,
    },
}

impl Card {
    /// The card of a process that listens on `port_of` each interface.
    pub fn new(interfaces: &[Usable], namespace: u64, port_of: impl Fn(&Usable) -> u16) -> Card {
        let listed = |u: &Usable| Listed {
            name: u
                .name
                .chars()
                .filter(char::is_ascii_graphic)
                .take(MAX_NAME)
                .collect(),
            class: u.class,
            speed: u.speed,
            port: port_of(u),
            addresses: u.addresses.iter().copied().take(MAX_ADDRESSES).collect(),
        };
        Card {
            namespace,
            interfaces: interfaces.iter().take(MAX_INTERFACES).map(listed).collect(),
        }
    }

    /// The bytes, at most `room` of them: what does not fit is left out, second addresses first, then the interfaces
    /// that are the last choice.
    pub fn encode(&self, room: usize) -> Vec<u8> {
        let mut count = self.interfaces.len().min(MAX_INTERFACES);
        let mut each = MAX_ADDRESSES;
        loop {
            let bytes = self.encode_some(count, each);
            if bytes.len() <= room || count == 0 {
                return bytes;
            }
            if each > 1 {
                each -= 1;
            } else {
                count -= 1;
            }
        }
    }

    fn encode_some(&self, count: usize, each: usize) -> Vec<u8> {
        let mut b = vec![FORMAT, count as u8];
        b.extend_from_slice(&self.namespace.to_le_bytes());
        for i in &self.interfaces[..count] {
            b.push(i.class as u8);
            b.extend_from_slice(&i.speed.to_le_bytes());
            b.extend_from_slice(&i.port.to_le_bytes());
            let name = &i.name.as_bytes()[..i.name.len().min(MAX_NAME)];
            b.push(name.len() as u8);
            b.extend_from_slice(name);
            let addresses = &i.addresses[..i.addresses.len().min(each)];
            b.push(addresses.len() as u8);
            for a in addresses {
                match a.ip {
                    IpAddr::V4(ip) => {
                        b.extend_from_slice(&[4, a.prefix]);
                        b.extend_from_slice(&ip.octets());
                    }
                    IpAddr::V6(ip) => {
                        b.extend_from_slice(&[6, a.prefix]);
                        b.extend_from_slice(&ip.octets());
                    }
                }
            }
        }
        b
    }

    /// Read what [`Card::encode`] made; with how many bytes it had.
    ///
    /// # Errors
    /// [`CardError`], without the name of the process, which the caller knows.
    pub fn decode(bytes: &[u8]) -> Result<(Card, usize), CardError> {
        let mut r = Reader { bytes, at: 0 };
        let format = r.byte()?;
        if format != FORMAT {
            return Err(CardError::Format(format));
        }
        let count = r.number_to(MAX_INTERFACES, "a number of interfaces")?;
        let namespace = u64::from_le_bytes(r.take()?);
        let mut interfaces = Vec::with_capacity(count);
        for _ in 0..count {
            interfaces.push(r.interface()?);
        }
        Ok((
            Card {
                namespace,
                interfaces,
            },
            r.at,
        ))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CardError> {
        let all = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let found = all.ok_or(CardError::Short(self.bytes.len()))?;
        self.at += N;
        Ok(*found)
    }

    fn byte(&mut self) -> Result<u8, CardError> {
        Ok(self.take::<1>()?[0])
    }

    fn bad<T>(&self, value: u64, what: &'static str) -> Result<T, CardError> {
        let at = self.at.saturating_sub(1);
        Err(CardError::Bad { at, value, what })
    }

    fn number_to(&mut self, max: usize, what: &'static str) -> Result<usize, CardError> {
        match self.byte()? {
            n if usize::from(n) <= max => Ok(usize::from(n)),
            n => self.bad(u64::from(n), what),
        }
    }

    fn interface(&mut self) -> Result<Listed, CardError> {
        let class = match self.byte()? {
            0 => Class::Network,
            1 => Class::Virtual,
            2 => Class::Loopback,
            n => return self.bad(u64::from(n), "a kind of interface"),
        };
        let speed = u32::from_le_bytes(self.take()?);
        let port = u16::from_le_bytes(self.take()?);
        if port == 0 {
            return self.bad(0, "a port");
        }
        let length = self.number_to(MAX_NAME, "the length of an interface's name")?;
        let mut name = String::new();
        for _ in 0..length {
            match self.byte()? {
                b if b.is_ascii_graphic() => name.push(char::from(b)),
                b => return self.bad(u64::from(b), "a character of an interface's name"),
            }
        }
        let count = self.number_to(MAX_ADDRESSES, "a number of addresses")?;
        if count == 0 {
            return self.bad(0, "a number of addresses");
        }
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            let family = self.byte()?;
            if family != 4 && family != 6 {
                return self.bad(u64::from(family), "a family of addresses, 4 or 6");
            }
            let prefix = self.byte()?;
            let ip = if family == 4 {
                IpAddr::V4(Ipv4Addr::from(self.take::<4>()?))
            } else {
                IpAddr::V6(Ipv6Addr::from(self.take::<16>()?))
            };
            if prefix > width(ip) {
                return self.bad(u64::from(prefix), "the length of an address's prefix");
            }
            if unusable(ip).is_some() {
                return self.bad(u64::from(family), "the address of one host");
            }
            addresses.push(Subnet { ip, prefix });
        }
        Ok(Listed {
            name,
            class,
            speed,
            port,
            addresses,
        })
    }
}
