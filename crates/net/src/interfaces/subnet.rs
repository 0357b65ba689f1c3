//! An address with the length of its network's prefix.

use std::net::IpAddr;

/// `10.1.2.3/24`: an address in a network, or the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

impl Subnet {
    /// Read `address/bits`; an address alone is a network of one.
    pub fn parse(text: &str) -> Option<Subnet> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().ok()?;
        let prefix = match prefix {
            // No signs: `parse` would take "+8".
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => width(ip),
        };
        (prefix <= width(ip)).then_some(Subnet { ip, prefix })
    }

    /// Whether `ip` is in the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let shift = u32::from(width(self.ip) - self.prefix);
        let differs = match (self.ip, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()),
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        differs.checked_shr(shift).unwrap_or(0) == 0
    }

    /// The network with its host bits cleared, for people.
    pub fn network(&self) -> Subnet {
        let shift = u32::from(width(self.ip) - self.prefix);
        let ip = match self.ip {
            IpAddr::V4(a) => IpAddr::V4((u32::MAX.checked_shl(shift).unwrap_or(0) & a.to_bits()).into()),
            IpAddr::V6(a) => IpAddr::V6((u128::MAX.checked_shl(shift).unwrap_or(0) & a.to_bits()).into()),
        };
        Subnet {
            ip,
            prefix: self.prefix,
        }
    }

    /// Each of the two is in the other's network.
    pub fn shares(&self, other: &Subnet) -> bool {
        self.contains(other.ip) && other.contains(self.ip)
    }
}

impl core::fmt::Display for Subnet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// Bits of an address of that family.
pub fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Why others cannot use an address to reach this host; `None` if they can, as far as its form tells.
pub fn unusable(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(a) if a.is_unspecified() => Some("no address"),
        IpAddr::V4(a) if a.is_multicast() || a.is_broadcast() => Some("not the address of one host"),
        IpAddr::V4(a) if a.is_link_local() => Some("link-local"),
        IpAddr::V6(a) if a.is_unspecified() => Some("no address"),
        IpAddr::V6(a) if a.is_multicast() => Some("not the address of one host"),
        IpAddr::V6(a) if a.is_unicast_link_local() => Some("link-local"),
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => Some("an IPv4 address in IPv6's form"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Subnet {
        Subnet::parse(text).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_what_shares_their_prefix() {
        assert!(net("10.1.2.3/24").contains(ip("10.1.2.200")));
        assert!(!net("10.1.2.3/24").contains(ip("10.1.3.3")));
        assert!(net("0.0.0.0/0").contains(ip("255.1.2.3")));
        assert!(!net("0.0.0.0/0").contains(ip("::1")));
        assert!(net("10.1.2.3").contains(ip("10.1.2.3")));
        assert!(!net("10.1.2.3").contains(ip("10.1.2.2")));
        assert!(net("fd00::/8").contains(ip("fd12::1")));
        assert!(net("::/0").contains(ip("ff::")));
        assert!(net("10.0.0.1/16").shares(&net("10.0.9.1/16")));
        assert!(!net("10.0.0.1/24").shares(&net("10.0.9.1/16")));
        assert_eq!(net("10.1.2.3/20").network().to_string(), "10.1.0.0/20");
        assert_eq!(net("fd00::5/64").network().to_string(), "fd00::/64");
        assert_eq!(net("1.2.3.4/0").network().to_string(), "0.0.0.0/0");
    }

    #[test]
    fn what_is_no_network_is_not_read() {
        for bad in [
            "",
            "/",
            "10.0.0.1/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.1/+8",
            "10.0.0.1/",
            "x/8",
            "10.0.0.1/8/8",
        ] {
            assert_eq!(Subnet::parse(bad), None, "{bad}");
        }
    }
}
