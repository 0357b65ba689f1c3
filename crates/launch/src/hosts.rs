//! Names of hosts. For now all ranks run on this host; its names and addresses are accepted, others refused.
//! No name is resolved: that could take seconds, and this host knows its own names.

use crate::Refusal;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Accept `name`, `name:slots`, an address, if it is this host.
///
/// # Errors
/// It is another host.
pub fn check(text: &str) -> Result<(), Refusal> {
    if is_here(text) {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "host {text} is not this host ({}): jobs across hosts come in a later version; for now all ranks run here",
        farpost_job::host_name()
    )))
}

/// Check every host in a file: one per line, `#` begins a comment, more words (`slots=4`) are not needed.
///
/// # Errors
/// The file cannot be read, or names another host.
pub fn check_file(name: &OsStr) -> Result<(), Refusal> {
    let shown = Path::new(name).display();
    let text =
        std::fs::read(name).map_err(|e| Refusal::usage(format!("host file {shown}: cannot read it: {e}")))?;
    for line in String::from_utf8_lossy(&text).lines() {
        let line = line.split('#').next().unwrap_or("");
        if let Some(host) = line.split_whitespace().next() {
            check(host).map_err(|e| Refusal {
                text: format!("host file {shown}: {}", e.text),
                ..e
            })?;
        }
    }
    Ok(())
}

fn is_here(text: &str) -> bool {
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return is_own_address(address);
    }
    let name = text.split(':').next().unwrap_or("");
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
    address.is_loopback() || own_addresses().contains(&address)
}

fn own_addresses() -> Vec<IpAddr> {
    let mut all = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs stores a list that stays valid until freeifaddrs; each entry's address, where there is
    // one, is of the type its family says.
    unsafe {
        if libc::getifaddrs(&mut first) != 0 {
            return all;
        }
        let mut at = first;
        while let Some(entry) = at.as_ref() {
            if let Some(address) = entry.ifa_addr.as_ref() {
                if i32::from(address.sa_family) == libc::AF_INET {
                    let v4 = std::ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>());
                    all.push(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into());
                } else if i32::from(address.sa_family) == libc::AF_INET6 {
                    let v6 = std::ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in6>());
                    all.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
                }
            }
            at = entry.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_several_names() {
        let own = farpost_job::host_name();
        for name in [
            "localhost",
            "localhost:4",
            "127.0.0.1",
            "127.0.0.1:2",
            "::1",
            &own,
            &format!("{own}:8"),
        ] {
            assert!(check(name).is_ok(), "{name}");
        }
        for address in own_addresses() {
            assert!(check(&address.to_string()).is_ok(), "{address}");
        }
    }

    #[test]
    fn another_host_is_refused_in_one_line() {
        for name in ["surely-not-this-host", "192.0.2.77", ""] {
            let text = check(name).unwrap_err().text;
            assert!(text.contains("later version") && !text.contains('\n'), "{text}");
        }
    }
}
