//! Names of hosts: host lists and host files in Hydra's and Open MPI's styles, and which of the names mean this host.
//! Nothing is resolved to tell that: it could take seconds, and this host knows its own names and addresses.

use crate::refusal::Refusal;
use farpost_net::interfaces::{Interface, interfaces};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::LazyLock;

/// A host as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address.
    pub name: String,
    /// How many ranks it takes before the next one gets some; `None`: not said.
    pub slots: Option<u32>,
}

/// Read `name`, `name:slots`, an address (`[::1]:slots` with slots, `fe80::1%eth0` with the interface where it is valid), and
/// any of these after `user@`. `place` says where it stands, for errors.
///
/// # Errors
/// It cannot be a host, or its slots are not a number above zero.
pub fn parse(text: &str, place: &str) -> Result<Host, Refusal> {
    let bad = |why: &str| refuse!(usage: "{place}: host '{text}': {why}");
    let (user, rest) = match text.split_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    if user.is_some_and(|user| !is_user(user)) {
        return bad("before '@' stands a user's name, which has letters, digits, '-', '_' and '.'");
    }
    let with_user = |name: &str| match user {
        Some(user) => format!("{user}@{name}"),
        None => name.to_owned(),
    };
    // An address with colons is one whole unless brackets say where it ends.
    if let Some(address) = ipv6(rest.trim_matches(['[', ']'])) {
        return Ok(Host {
            name: with_user(&address),
            slots: None,
        });
    }
    let (name, slots) = match rest.rsplit_once(':') {
        Some((name, slots)) => (name.trim_matches(['[', ']']), Some(slots)),
        None => (rest, None),
    };
    if name.is_empty() {
        return bad("the name is empty");
    }
    let is_name = |n: &str| {
        n.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !n.starts_with(['-', '.'])
            && n.len() <= 255
    };
    if !is_name(name) && ipv6(name).is_none() {
        return bad("not a name of a host, which has letters, digits, '-', '_' and '.'");
    }
    // Digits and dots are meant to be an address.
    if name.bytes().all(|b| b.is_ascii_digit() || b == b'.') && name.parse::<Ipv4Addr>().is_err() {
        return bad("neither a name nor an address");
    }
    Ok(Host {
        name: with_user(&ipv6(name).unwrap_or_else(|| name.to_owned())),
        slots: slots.map(|s| parse_slots(s, text, place)).transpose()?,
    })
}

/// A user's name that no remote shell takes for something else.
fn is_user(name: &str) -> bool {
    let fits = (1..=64).contains(&name.len()) && !name.starts_with(['-', '.']);
    fits && name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// An IPv6 address in its usual form, with the interface of a link-local one.
fn ipv6(text: &str) -> Option<String> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    match zone {
        None => Some(address.to_string()),
        Some(zone) => {
            let fits = (1..=15).contains(&zone.len())
                && zone
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && !b"/:[]%".contains(&b));
            (fits && address.is_unicast_link_local()).then(|| format!("{address}%{zone}"))
        }
    }
}

/// The host without the user before it.
pub fn without_user(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(_, host)| host)
}

/// The name of the host that has this IPv6 address, as the system's tables (/etc/hosts, the domain name system) have it.
pub fn name_of(address: &str) -> Option<String> {
    let (address, zone) = address.split_once('%').unwrap_or((address, ""));
    let address: Ipv6Addr = address.parse().ok()?;
    let zone = INTERFACES.iter().find(|interface| interface.name == zone);
    // SAFETY: plain numbers, of which zero is a value.
    let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    raw.sin6_addr.s6_addr = address.octets();
    raw.sin6_scope_id = zone.map_or(0, |interface| interface.index);
    let mut name = [0 as libc::c_char; 1025];
    // SAFETY: an address of the length given, and room for a name of the length given; no room for a service.
    let code = unsafe {
        libc::getnameinfo(
            (&raw const raw).cast(),
            size_of_val(&raw) as libc::socklen_t,
            name.as_mut_ptr(),
            name.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if code != 0 {
        return None;
    }
    let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8(bytes).ok().filter(|name| !name.contains(':'))
}

/// Is it the name of the user that this process belongs to?
fn is_own_user(name: &str) -> bool {
    // SAFETY: no arguments; the entry stays valid until the next such call, and nothing else here makes one.
    unsafe {
        let entry = libc::getpwuid(rustix::process::geteuid().as_raw());
        !entry.is_null() && std::ffi::CStr::from_ptr((*entry).pw_name).to_bytes() == name.as_bytes()
    }
}

fn parse_slots(number: &str, text: &str, place: &str) -> Result<u32, Refusal> {
    let max = farpost_job::layout::MAX_RANKS;
    match number.parse::<u32>() {
        Ok(n) if (1..=max).contains(&n) => Ok(n),
        _ => refuse!(usage: "{place}: host '{text}': its slots must be a number from 1 to {max}"),
    }
}

/// Read a file of hosts: one per line, as in a list or with `slots=N`; `#` begins a comment. A host named again gets
/// more slots.
///
/// # Errors
/// The file cannot be read, names no host, or a line is not understood; file and line are told.
pub fn parse_file(name: &OsStr) -> Result<Vec<Host>, Refusal> {
    let shown = Path::new(name).display();
    let text = std::fs::read(name).map_err(|e| refusal!(usage: "host file {shown}: cannot read it: {e}"))?;
    parse_text(&shown, &text)
}

/// As [`parse_file`], of what is in the file that is called `shown`.
pub fn parse_text(shown: &impl std::fmt::Display, text: &[u8]) -> Result<Vec<Host>, Refusal> {
    let mut hosts = Vec::new();
    for (number, line) in text.split(|b| *b == b'\n').enumerate() {
        let place = format!("host file {shown}:{}", number + 1);
        let line = std::str::from_utf8(line)
            .map_err(|_| refusal!(usage: "{place}: not text; is this a file of host names?"))?;
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(first) = words.next() else { continue };
        let mut host = parse(first, &place)?;
        for word in words {
            match word.split_once('=') {
                Some(("slots" | "count" | "cpu" | "cpus", n)) => {
                    host.slots = Some(parse_slots(n, &format!("{first} {word}"), &place)?);
                }
                Some(("max_slots" | "max-slots", n)) => {
                    parse_slots(n, &format!("{first} {word}"), &place)?;
                }
                _ => {
                    return refuse!(
                        usage: "{place}: '{word}': after the name of a host come slots=N and max_slots=N, nothing else"
                    );
                }
            }
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return refuse!(usage: "host file {shown}: it names no host");
    }
    Ok(hosts)
}

/// Is it a name or an address of this host? As another user it is a host like any other.
pub fn is_here(name: &str) -> bool {
    if let Some((user, host)) = name.split_once('@') {
        return is_own_user(user) && is_here(host);
    }
    let name = name.split('%').next().unwrap_or(name);
    if let Ok(address) = name.parse::<IpAddr>() {
        return is_own_address(address);
    }
    let own = farpost_job::host_name();
    let short = |n: &str| n.split('.').next().unwrap_or("").to_ascii_lowercase();
    let same = name.eq_ignore_ascii_case(&own)
        // One of them without its domain.
        || ((!name.contains('.') || !own.contains('.')) && short(name) == short(&own));
    !name.is_empty() && (same || ["localhost", "localhost.localdomain"].contains(&name))
}

fn is_own_address(address: IpAddr) -> bool {
    address.is_loopback() || own_addresses().any(|own| own == address)
}

fn own_addresses() -> impl Iterator<Item = IpAddr> {
    let addresses = INTERFACES.iter().flat_map(|interface| &interface.addresses);
    addresses.map(|address| address.ip)
}

/// This host's network interfaces.
static INTERFACES: LazyLock<Vec<Interface>> = LazyLock::new(|| interfaces().unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match parse(text, "-host") {
            Ok(Host { name, slots }) => format!("{name} {}", slots.map_or("-".into(), |s| s.to_string())),
            Err(e) => e.text,
        }
    }

    #[test]
    fn hosts_with_and_without_slots() {
        for (text, wanted) in [
            ("node1", "node1 -"),
            ("node1:4", "node1 4"),
            ("a.b-c_d.e:1", "a.b-c_d.e 1"),
            ("192.0.2.7", "192.0.2.7 -"),
            ("192.0.2.7:2", "192.0.2.7 2"),
            ("::1", "::1 -"),
            ("[::1]", "::1 -"),
            ("[2001:db8::7]:3", "2001:db8::7 3"),
            ("[2001:DB8:0::7]:3", "2001:db8::7 3"),
            ("fe80::1%eth0", "fe80::1%eth0 -"),
            ("[fe80::1%eth0]", "fe80::1%eth0 -"),
            ("[fe80::1%eth0]:2", "fe80::1%eth0 2"),
            ("me@node1", "me@node1 -"),
            ("me.too@node1:4", "me.too@node1 4"),
            ("me@[2001:db8::7]:3", "me@2001:db8::7 3"),
        ] {
            assert_eq!(show(text), wanted);
        }
        for (text, wanted) in [
            ("node1:0", "slots must be a number from 1"),
            ("node1:", "slots must be a number from 1"),
            ("node1:many", "slots must be a number from 1"),
            ("node1:-2", "slots must be a number from 1"),
            (":4", "empty"),
            ("@node1", "a user's name"),
            ("-oProxyCommand=x@node1", "a user's name"),
            ("a b@node1", "a user's name"),
            ("me@", "empty"),
            ("me@you@node1", "not a name"),
            ("2001:db8::7%eth0", "not a name"),
            ("[2001:db8::7%eth0]:2", "not a name"),
            ("[fe80::1%]:2", "not a name"),
            ("[fe80::1%a/b]:2", "not a name"),
            ("no/de", "not a name"),
            ("-node", "not a name"),
            ("300.1.1.1", "neither a name nor an address"),
            ("+n0", "not a name"),
        ] {
            assert!(
                show(text).contains(wanted) && show(text).starts_with("-host: "),
                "{text}: {}",
                show(text)
            );
        }
    }

    #[test]
    fn files_in_both_styles() {
        let path = std::env::temp_dir().join(format!("farpost-hosts-test-{}", std::process::id()));
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let read = parse_file(path.as_os_str());
            std::fs::remove_file(&path).unwrap();
            read.map(|hosts| {
                let each = hosts.iter().map(|h| format!("{} {:?}", h.name, h.slots));
                each.collect::<Vec<_>>().join(", ")
            })
            .map_err(|e| e.text)
        };
        let text = b"# hydra\nn1:2\n\nn2 # bare\n  n3 slots=4 max_slots=8\nn4 max-slots=1\r\n";
        assert_eq!(read(text).unwrap(), "n1 Some(2), n2 None, n3 Some(4), n4 None");
        for (text, wanted) in [
            (&b"n1\nn2 rubbish\n"[..], ":2: 'rubbish'"),
            (b"n1 slots=0\n", ":1: host 'n1 slots=0'"),
            (b"n1 slots=x\n", ":1: host"),
            (b"n1\n\n{json: 1}\n", ":3: host '{json:'"),
            (b"\x7fELF\x02\x01\x01\0\xff\xfe\n", ":1: "),
            (b"# nobody\n", "names no host"),
            (b"", "names no host"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(wanted) && error.contains("farpost-hosts-test") && !error.contains('\n'),
                "{error}"
            );
        }
        assert!(
            parse_file(OsStr::new("/nonexistent/file"))
                .unwrap_err()
                .text
                .contains("/nonexistent/file")
        );
    }

    #[test]
    fn this_host_has_several_names() {
        let own = farpost_job::host_name();
        for name in ["localhost", "127.0.0.1", "::1", &own] {
            assert!(is_here(name), "{name}");
        }
        for address in own_addresses() {
            assert!(is_here(&address.to_string()), "{address}");
        }
        assert!(is_here("::1%lo") && !is_here("surely-nobody-here@localhost"));
        assert!(name_of("2001:db8:ffff::7").is_none());
        for name in ["surely-not-this-host", "192.0.2.77", ""] {
            assert!(!is_here(name), "{name}");
        }
    }
}
