//! What interfaces there are: `getifaddrs(3)` and `/sys/class/net`.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::subnet::Subnet;

/// What kind of interface it is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// A network card, or what looks like one from here.
    Network = 0,
    /// A bridge or a tunnel that some program made; it may lead nowhere but into this host: last choice.
    Virtual = 1,
    /// This host alone.
    Loopback = 2,
}

/// A network interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Administratively up, and with a carrier.
    pub up: bool,
    /// What kind it is.
    pub class: Class,
    /// Why it is [`Class::Virtual`], for people.
    pub class_reason: &'static str,
    /// Megabits per second; 0: unknown.
    pub speed: u32,
    /// Its addresses.
    pub addresses: Vec<Subnet>,
}

/// All interfaces, in the kernel's order.
///
/// # Errors
/// What the system says when it cannot list them.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: `list` is a valid place for the pointer that the call stores.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut at = list;
    // SAFETY: `at` is null or an entry of the list, which lives until `freeifaddrs` below.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: getifaddrs(3) sets `ifa_name` of each entry to a string that ends in a zero byte.
        let Ok(name) = unsafe { CStr::from_ptr(entry.ifa_name) }.to_str() else {
            continue;
        };
        let n = match found.iter().position(|i| i.name == name) {
            Some(n) => n,
            None => {
                found.push(describe(name, entry.ifa_flags, entry.ifa_name));
                found.len() - 1
            }
        };
        // SAFETY: the entry's pointers are null or addresses as long as their families say.
        let pair = unsafe { (address(entry.ifa_addr), address(entry.ifa_netmask)) };
        if let (Some(ip), Some(mask)) = pair {
            let prefix = match mask {
                IpAddr::V4(m) => m.to_bits().leading_ones(),
                IpAddr::V6(m) => m.to_bits().leading_ones(),
            };
            found[n].addresses.push(Subnet {
                ip,
                prefix: prefix as u8,
            });
        }
    }
    // SAFETY: `list` came from getifaddrs and is freed once; nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|i| i.index);
    Ok(found)
}

fn describe(name: &str, flags: libc::c_uint, raw: *const libc::c_char) -> Interface {
    let flags = flags as libc::c_int;
    // SAFETY: `raw` is the entry's name, a string that ends in a zero byte.
    let index = unsafe { libc::if_nametoindex(raw) };
    let sys = Path::new("/sys/class/net").join(name);
    let read = |what: &str| std::fs::read_to_string(sys.join(what)).ok();
    let number = |what: &str| read(what).and_then(|t| t.trim().parse::<u32>().ok());
    // A process may see the /sys of another network namespace: then the numbers differ as a rule.
    let sys_is_ours = number("ifindex") == Some(index);
    let is = |what: &str| sys_is_ours && sys.join(what).exists();
    let (class, class_reason) = if flags & libc::IFF_LOOPBACK != 0 {
        (Class::Loopback, "loopback")
    } else if is("bridge") && leads_out(&sys) {
        // The usual set-up of a host with virtual machines: its own address is on the bridge.
        (Class::Network, "")
    } else if is("bridge") {
        (Class::Virtual, "a bridge without a network card")
    } else if is("brport") {
        (Class::Virtual, "a port of a bridge")
    } else if is("tun_flags") {
        (Class::Virtual, "a tunnel")
    } else if flags & libc::IFF_POINTOPOINT != 0 {
        (Class::Virtual, "a point-to-point tunnel")
    } else {
        by_name(name)
    };
    Interface {
        name: name.to_owned(),
        index,
        up: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
        class,
        class_reason,
        speed: if sys_is_ours {
            number("speed").unwrap_or(0)
        } else {
            0
        },
        addresses: Vec::new(),
    }
}

/// Whether one of a bridge's ports is a network card, or several bound together.
fn leads_out(bridge: &Path) -> bool {
    let Ok(ports) = std::fs::read_dir(bridge.join("brif")) else {
        return false;
    };
    ports.flatten().any(|port| {
        let port = Path::new("/sys/class/net").join(port.file_name());
        port.join("device").exists() || port.join("bonding").exists()
    })
}

/// What container engines and the like call what they make.
pub(super) fn by_name(name: &str) -> (Class, &'static str) {
    const MADE: &[(&str, &str)] = &[
        ("docker", "Docker's bridge by its name"),
        ("virbr", "libvirt's bridge by its name"),
        ("br-", "Docker's bridge by its name"),
        ("podman", "Podman's bridge by its name"),
        ("cni", "a container bridge by its name"),
        ("flannel", "a container tunnel by its name"),
        ("cali", "a container link by its name"),
        ("cilium", "a container link by its name"),
        ("vxlan", "a tunnel by its name"),
        ("lxcbr", "a container bridge by its name"),
        ("lxdbr", "a container bridge by its name"),
        ("vmnet", "a virtual machine's network by its name"),
        ("vboxnet", "a virtual machine's network by its name"),
        ("tun", "a tunnel by its name"),
        ("tap", "a tunnel by its name"),
        ("wg", "a tunnel by its name"),
        ("tailscale", "a tunnel by its name"),
        ("zt", "a tunnel by its name"),
        ("gre", "a tunnel by its name"),
        ("sit", "a tunnel by its name"),
    ];
    for (start, reason) in MADE {
        if name.starts_with(start) {
            return (Class::Virtual, reason);
        }
    }
    (Class::Network, "")
}

/// The address in a socket address.
///
/// # Safety
/// `raw` is null or points to an address as long as its family says, valid during the call.
unsafe fn address(raw: *const libc::sockaddr) -> Option<IpAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: not null, so by the caller's promise at least a family; read unaligned, as bytes come.
    match i32::from(unsafe { (&raw const (*raw).sa_family).read_unaligned() }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is as long as this type.
            let a = unsafe { raw.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(a.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is as long as this type.
            let a = unsafe { raw.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(a.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// A number that two threads share if they are in the same network namespace of the same running kernel, so that
/// each can reach the other by loopback. 0: unknown.
pub fn network_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // The thread's own: tests have threads in several namespaces.
    let Ok(about) = std::fs::metadata("/proc/thread-self/ns/net") else {
        return 0;
    };
    if boot.trim().is_empty() {
        return 0;
    }
    // The first namespace of every kernel has the same number: only with the boot's identity does it tell.
    let text = format!("{}:{}:{}", boot.trim(), about.dev(), about.ino());
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest
        .as_ref()
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_interfaces_with_names_and_numbers() {
        let all = interfaces().unwrap();
        assert!(all.iter().all(|i| !i.name.is_empty()));
        for i in all.iter().filter(|i| i.class == Class::Loopback) {
            assert!(i.addresses.iter().all(|a| a.ip.is_loopback() || a.prefix > 0));
        }
        let again = interfaces().unwrap();
        let names = |l: &[Interface]| l.iter().map(|i| i.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&all), names(&again));
        assert_eq!(network_namespace(), network_namespace());
    }

    #[test]
    fn what_container_engines_make_is_told_by_its_name() {
        for name in [
            "docker0",
            "virbr0",
            "br-1a2b3c",
            "cni0",
            "flannel.1",
            "wg0",
            "podman1",
        ] {
            assert_eq!(by_name(name).0, Class::Virtual, "{name}");
        }
        for name in [
            "eth0", "eno1", "enp3s0f0", "ib0", "bond0", "br0", "veth0", "hsn0", "wlan0", "rail1",
        ] {
            assert_eq!(by_name(name).0, Class::Network, "{name}");
        }
    }
}
