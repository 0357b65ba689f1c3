//! The ports to listen on: `FARPOST_TCP_PORTS`.

use std::io;

/// The environment variable that says which ports to listen on.
pub const PORTS_VARIABLE: &str = "FARPOST_TCP_PORTS";

/// The ports that may be used, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange(Option<(u16, u16)>);

/// What is wrong with ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// The value has no meaning.
    #[error("{PORTS_VARIABLE}={0}: not a range of ports; write for example 5000-5099, from 1 to 65535")]
    Malformed(String),
    /// Every port of the range is taken.
    #[error(
        "all {count} ports of {PORTS_VARIABLE}={lo}-{hi} are in use on {on}: every process needs one on each host's \
         interface; widen the range"
    )]
    UsedUp {
        lo: u16,
        hi: u16,
        count: u32,
        on: String,
    },
    /// The system refused for another reason.
    #[error("listening on {on} port {port}: {why}")]
    Refused { on: String, port: u16, why: String },
}

impl PortRange {
    /// Any port.
    pub const ANY: PortRange = PortRange(None);

    /// Read the value of the variable: `lo-hi`, one port, or nothing or 0 for any.
    ///
    /// # Errors
    /// [`PortsError::Malformed`], with the value.
    pub fn parse(value: &str) -> Result<PortRange, PortsError> {
        let bad = || PortsError::Malformed(value.to_owned());
        let text = value.trim();
        if text.is_empty() || text == "0" {
            return Ok(Self::ANY);
        }
        let (lo, hi) = text.split_once('-').unwrap_or((text, text));
        let port = |t: &str| {
            let t = t.trim();
            let digits = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| t.parse::<u16>().ok()).flatten().filter(|p| *p > 0)
        };
        match (port(lo), port(hi)) {
            (Some(lo), Some(hi)) if lo <= hi => Ok(PortRange(Some((lo, hi)))),
            _ => Err(bad()),
        }
    }

    /// Try ports with `bind` until one is free, beginning at the `start`th: processes of one host that begin at different
    /// ones rarely meet. `on` is the address for messages.
    ///
    /// # Errors
    /// [`PortsError::UsedUp`], [`PortsError::Refused`].
    pub fn bind<T>(
        &self,
        start: u32,
        on: &str,
        mut bind: impl FnMut(u16) -> io::Result<T>,
    ) -> Result<T, PortsError> {
        let refused = |port, e: io::Error| PortsError::Refused {
            on: on.to_owned(),
            port,
            why: e.to_string(),
        };
        let Some((lo, hi)) = self.0 else {
            return bind(0).map_err(|e| refused(0, e));
        };
        let count = u32::from(hi - lo) + 1;
        for n in 0..count {
            let port = lo + ((start % count + n) % count) as u16;
            match bind(port) {
                Ok(bound) => return Ok(bound),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                Err(e) => return Err(refused(port, e)),
            }
        }
        Err(PortsError::UsedUp {
            lo,
            hi,
            count,
            on: on.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn ranges_are_read() {
        for (text, range) in [
            ("", None),
            ("0", None),
            ("5000-5010", Some((5000, 5010))),
            (" 7 - 9 ", Some((7, 9))),
            ("65535", Some((65535, 65535))),
        ] {
            assert_eq!(PortRange::parse(text), Ok(PortRange(range)), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_its_value() {
        for text in [
            "x", "-", "5-", "-5", "10-5", "0-5", "1-65536", "1-2-3", "+1-5", "5 6", "1,2",
        ] {
            let e = PortRange::parse(text).unwrap_err();
            assert!(
                e.to_string().contains(&format!("{PORTS_VARIABLE}={text}:")),
                "{e}"
            );
        }
    }

    #[test]
    fn the_next_free_port_is_taken_and_an_exhausted_range_says_so() {
        // Two neighbouring ports that are free: held, then asked for.
        let (first, held) = (0..200)
            .find_map(|_| {
                let a = TcpListener::bind("127.0.0.1:0").ok()?;
                let port = a.local_addr().ok()?.port();
                let next = port.checked_add(1)?;
                let b = TcpListener::bind(("127.0.0.1", next)).ok()?;
                drop(b);
                Some((port, a))
            })
            .expect("two neighbouring ports");
        let range = PortRange::parse(&format!("{first}-{}", first + 1)).unwrap();
        let bind = |p| TcpListener::bind(("127.0.0.1", p));
        let second = range.bind(4, "127.0.0.1", bind).unwrap();
        assert_eq!(second.local_addr().unwrap().port(), first + 1);
        let e = range.bind(1, "127.0.0.1", bind).unwrap_err();
        assert!(
            e.to_string().starts_with("all 2 ports of FARPOST_TCP_PORTS="),
            "{e}"
        );
        drop(held);
        assert!(PortRange::ANY.bind(0, "127.0.0.1", bind).is_ok());
    }

    #[test]
    fn every_port_of_a_range_is_tried_once_from_its_own_start() {
        let range = PortRange::parse("10-13").unwrap();
        let mut tried = Vec::new();
        let e = range.bind(u32::MAX, "here", |p| {
            tried.push(p);
            Err::<(), _>(io::ErrorKind::AddrInUse.into())
        });
        assert!(matches!(e, Err(PortsError::UsedUp { count: 4, .. })));
        assert_eq!(tried, [13, 10, 11, 12]);
        let e = range.bind(0, "here", |_| {
            Err::<(), _>(io::ErrorKind::PermissionDenied.into())
        });
        assert!(matches!(e, Err(PortsError::Refused { port: 10, .. })));
    }
}
