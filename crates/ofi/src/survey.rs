//! Which of libfabric's providers fit, which one is taken, and why the others are passed over.
//!
//! Cost class: *set-up path*.

use super::ffi;
use super::library::{Infos, Library, OfiError, text};
use farpost_net::interfaces::{Choice as Interfaces, INTERFACE_VARIABLE, interfaces};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

/// Names the library's file.
pub const LIBRARY_VARIABLE: &str = "FARPOST_OFI_LIBRARY";
/// Names the provider.
pub const PROVIDER_VARIABLE: &str = "FARPOST_OFI_PROVIDER";
/// Variables that are text and so not among the tunables.
pub const TEXT_VARIABLES: &[&str] = &[LIBRARY_VARIABLE, PROVIDER_VARIABLE];

/// What the user may choose about libfabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfiOptions {
    /// The library's file (`FARPOST_OFI_LIBRARY`). None: `libfabric.so.1`.
    pub library: Option<PathBuf>,
    /// The provider (`FARPOST_OFI_PROVIDER`). None: the best that is there.
    pub provider: Option<String>,
    /// The local address to use, numeric. None: as `interface` says.
    pub source: Option<String>,
    /// Which interfaces may be used (`FARPOST_INTERFACE`), for providers whose addresses are internet addresses. Empty:
    /// the best.
    pub interface: String,
    /// Whether the loopback interface will do: all of the job is on this host.
    pub loopback: bool,
}

impl OfiOptions {
    /// What the environment says.
    pub fn from_environment() -> Self {
        let mut options = Self::default();
        for name in [LIBRARY_VARIABLE, PROVIDER_VARIABLE, INTERFACE_VARIABLE] {
            if let Some(value) = std::env::var_os(name) {
                options.set(name, &value.to_string_lossy());
            }
        }
        options
    }

    /// Set what the variable `name` is about. False: it is about nothing here.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let text = || Some(value.to_owned()).filter(|v| !v.is_empty());
        match name {
            LIBRARY_VARIABLE => self.library = text().map(PathBuf::from),
            PROVIDER_VARIABLE => self.provider = text(),
            INTERFACE_VARIABLE => self.interface = value.to_owned(),
            _ => return false,
        }
        true
    }
}

/// What was decided about a provider.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
pub enum Verdict {
    /// This one is used.
    #[strum(to_string = "used")]
    Chosen,
    /// It would do, but for this reason another one is used.
    #[strum(to_string = "would do: {0}")]
    Usable(String),
    /// It will not do, for this reason.
    #[strum(to_string = "passed over: {0}")]
    PassedOver(String),
}

/// A provider on one of its networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderReport {
    /// The provider, with the layers on it: `verbs;ofi_rxm`.
    pub name: String,
    /// Its version.
    pub version: (u32, u32),
    /// libfabric's name of the network; empty where the provider found none.
    pub fabric: String,
    /// libfabric's name of the adapter or interface.
    pub domain: String,
    /// What was decided.
    pub verdict: Verdict,
}

/// Providers with remote memory in hardware, the better first. They come before everything on kernel sockets.
const PREFERRED: [&str; 9] = [
    "cxi",
    "efa",
    "opx",
    "verbs;ofi_rxm",
    "verbs",
    "psm3",
    "psm2",
    "psm",
    "ucx",
];
/// Providers on kernel sockets that are good enough.
const SOCKETS: [&str; 2] = ["tcp", "tcp;ofi_rxm"];

/// Why a provider is never taken unless it is asked for.
fn only_on_request(name: &str) -> Option<&'static str> {
    let core = name.split(';').next().unwrap_or(name);
    match core {
        "shm" | "sm2" => Some("Farpost's own shared memory is used within a host"),
        "sockets" => Some("it is libfabric's own for development, and slow"),
        "udp" => Some("it emulates reliability on UDP, and is slow"),
        "net" => Some("it is an experiment of this version of libfabric; FARPOST_OFI_PROVIDER=net takes it"),
        "ofi_mrail" => Some("several rails through libfabric are not used"),
        "lnx" | "off_coll" => Some("it only links other providers"),
        _ if core.starts_with("ofi_hook") => Some("it only watches other providers"),
        _ => None,
    }
}

/// Place in the order of preference, the best first.
fn rank(name: &str) -> usize {
    let of = |list: &[&str]| list.iter().position(|p| *p == name);
    let (hardware, sockets) = (of(&PREFERRED), of(&SOCKETS));
    hardware
        .or_else(|| sockets.map(|at| PREFERRED.len() + 1 + at))
        .unwrap_or(PREFERRED.len())
}

/// Whether a user who wrote `wanted` means provider `name`: exactly, or its core.
fn is_meant(wanted: &str, name: &str) -> bool {
    name == wanted || name.split(';').next() == Some(wanted)
}

/// What is asked of a provider: only what is used. `order`: of messages (`FI_ORDER_SAS`, or none).
fn hints(library: &'static Library, order: u64) -> Infos {
    let hints = library.hints();
    // SAFETY: a description that the library just made has all its parts, and nobody else has it.
    unsafe {
        let info = &mut *hints.as_ptr();
        info.caps = ffi::FI_MSG | ffi::FI_RMA;
        info.mode = ffi::FI_CONTEXT | ffi::FI_CONTEXT2;
        (*info.ep_attr).r#type = ffi::FI_EP_RDM;
        (*info.tx_attr).msg_order = order;
        (*info.rx_attr).msg_order = order;
        let domain = &mut *info.domain_attr;
        domain.mr_mode = MR_MODES;
        domain.threading = ffi::FI_THREAD_DOMAIN;
        domain.control_progress = ffi::FI_PROGRESS_MANUAL;
        domain.data_progress = ffi::FI_PROGRESS_MANUAL;
        domain.resource_mgmt = ffi::FI_RM_ENABLED;
    }
    hints
}

/// What of registration is understood here.
const MR_MODES: i32 = ffi::FI_MR_LOCAL
    | ffi::FI_MR_VIRT_ADDR
    | ffi::FI_MR_ALLOCATED
    | ffi::FI_MR_PROV_KEY
    | ffi::FI_MR_ENDPOINT;

/// Provider, network and adapter: what tells one description from another for people.
fn names(info: &ffi::Info) -> (String, String, String) {
    // SAFETY: every description of the library's has these parts.
    unsafe {
        let (fabric, domain) = (&*info.fabric_attr, &*info.domain_attr);
        (text(fabric.prov_name), text(fabric.name), text(domain.name))
    }
}

/// The description's own address, where it is an internet address.
fn address(info: &ffi::Info) -> Option<IpAddr> {
    if info.src_addr.is_null() {
        return None;
    }
    match info.addr_format {
        ffi::FI_SOCKADDR_IN if info.src_addrlen >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the format says that this is there, and its length that all of it is.
            let address = unsafe { info.src_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        ffi::FI_SOCKADDR_IN6 if info.src_addrlen >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let address = unsafe { info.src_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

/// Addresses that may be used, the best first, and what is said about the others.
struct Addresses {
    usable: Vec<IpAddr>,
    notes: Vec<String>,
}

impl Addresses {
    fn of(options: &OfiOptions) -> Result<Option<Self>, OfiError> {
        if options.source.is_some() {
            return Ok(None);
        }
        let refused = |why: String| OfiError::Refused(why);
        let all = interfaces().map_err(|error| refused(format!("the interfaces of this host: {error}")))?;
        let chosen = Interfaces::parse(&options.interface)
            .and_then(|choice| choice.apply(&all))
            .map_err(|error| refused(error.to_string()))?;
        let addresses = chosen.interfaces.iter().flat_map(|i| &i.addresses);
        Ok(Some(Self {
            usable: addresses.map(|a| a.ip).collect(),
            notes: chosen.notes,
        }))
    }

    /// Why `address` on `interface` is not used.
    fn why(&self, address: IpAddr, interface: &str) -> String {
        let about = |note: &&String| note.starts_with(&format!("{interface}:"));
        let note = self.notes.iter().find(about);
        note.cloned()
            .unwrap_or_else(|| format!("{interface}: {address} is not an address that others can use"))
    }
}

/// The description to open, and what is to be said about every provider.
pub struct Choice {
    /// None: nothing fits.
    pub info: Option<Infos>,
    /// All of them.
    pub reports: Vec<ProviderReport>,
}

/// Look at everything that the library has and choose.
pub fn choose(library: &'static Library, options: &OfiOptions) -> Result<Choice, OfiError> {
    let source = options.source.as_deref();
    // All that is there, and what of it fits; those that keep messages in order before those that do not.
    let call = |what: Result<Infos, i32>| {
        what.map_err(|code| OfiError::Call {
            provider: "(all)".into(),
            what: "fi_getinfo",
            why: library.explain(code),
        })
    };
    let ordered = call(library.getinfo(source, 0, Some(&hints(library, ffi::FI_ORDER_SAS))))?;
    let unordered = call(library.getinfo(source, 0, Some(&hints(library, 0))))?;
    let fitting = || ordered.iter().chain(unordered.iter());
    let all = call(library.getinfo(None, 0, None))?;
    let fits: BTreeSet<_> = fitting().map(names).collect();
    let addresses = Addresses::of(options)?;
    // Place in the order of addresses, the best first.
    let place = |info: &ffi::Info| -> usize {
        let at = address(info).zip(addresses.as_ref());
        at.and_then(|(a, all)| all.usable.iter().position(|u| *u == a))
            .unwrap_or(0)
    };

    let refusal = |info: &ffi::Info| -> Option<String> {
        let (name, _, domain) = names(info);
        if let Some(wanted) = &options.provider {
            if !is_meant(wanted, &name) {
                return Some(format!("FARPOST_OFI_PROVIDER={wanted} asks for another"));
            }
        } else if let Some(why) = only_on_request(&name) {
            return Some(why.into());
        }
        let (Some(address), Some(addresses)) = (address(info), &addresses) else {
            return None;
        };
        if !options.loopback && address.is_loopback() {
            return Some(format!("{domain} reaches this host only"));
        }
        if !addresses.usable.contains(&address) {
            return Some(addresses.why(address, &domain));
        }
        None
    };
    let mut best: Option<(&ffi::Info, (usize, usize))> = None;
    for info in fitting().filter(|info| refusal(info).is_none()) {
        let key = (rank(&names(info).0), place(info));
        if best.is_none_or(|(_, so_far)| key < so_far) {
            best = Some((info, key));
        }
    }
    let chosen = best.map(|(info, _)| names(info));

    let mut reports = Vec::new();
    let mut told = BTreeSet::new();
    for info in fitting().chain(all.iter()) {
        let key = names(info);
        if !told.insert(key.clone()) {
            continue;
        }
        let verdict = if chosen.as_ref() == Some(&key) {
            Verdict::Chosen
        } else if let Some(why) = refusal(info) {
            Verdict::PassedOver(why)
        } else if fits.contains(&key) {
            let (name, _, domain) = chosen.clone().unwrap_or_default();
            Verdict::Usable(format!("{name} on {domain} is preferred"))
        } else {
            Verdict::PassedOver(lack(info, source))
        };
        // SAFETY: every description of the library's has this part.
        let version = unsafe { (*info.fabric_attr).prov_version };
        let (name, fabric, domain) = key;
        reports.push(ProviderReport {
            name,
            version: (version >> 16, version & 0xffff),
            fabric,
            domain,
            verdict,
        });
    }
    absent(library, &mut reports)?;
    reports.sort_by_key(|r| match r.verdict {
        Verdict::Chosen => (0, rank(&r.name)),
        Verdict::Usable(_) => (1, rank(&r.name)),
        Verdict::PassedOver(_) => (2, rank(&r.name)),
    });
    let info = best.map(|(info, _)| library.duplicate(info));
    Ok(Choice { info, reports })
}

/// Providers that the library has but that found no adapter of theirs.
fn absent(library: &'static Library, reports: &mut Vec<ProviderReport>) -> Result<(), OfiError> {
    /// `FI_PROV_ATTR_ONLY`: list the providers, not what they can do here.
    const PROVIDERS_ONLY: u64 = 1 << 54;
    let Ok(listed) = library.getinfo(None, PROVIDERS_ONLY, None) else {
        return Ok(());
    };
    for info in listed.iter().filter(|info| !info.fabric_attr.is_null()) {
        // SAFETY: just seen to be there.
        let fabric = unsafe { &*info.fabric_attr };
        let name = text(fabric.prov_name);
        // A layer (`ofi_rxm`) or the core of a pair counts as seen when any pair with it was.
        if reports.iter().any(|r| r.name.split(';').any(|part| part == name)) {
            continue;
        }
        let why = only_on_request(&name).unwrap_or("it found no adapter of its kind on this host");
        reports.push(ProviderReport {
            name,
            version: (fabric.prov_version >> 16, fabric.prov_version & 0xffff),
            fabric: String::new(),
            domain: String::new(),
            verdict: Verdict::PassedOver(why.into()),
        });
    }
    Ok(())
}

/// What a provider that does not fit lacks.
fn lack(info: &ffi::Info, source: Option<&str>) -> String {
    // SAFETY: every description of the library's has these parts.
    let (ep, domain) = unsafe { (&*info.ep_attr, &*info.domain_attr) };
    let handled = ffi::FI_CONTEXT | ffi::FI_CONTEXT2;
    if ep.r#type != ffi::FI_EP_RDM {
        "it has connected or unreliable endpoints here, not reliable datagrams (RDM)".into()
    } else if info.caps & ffi::FI_MSG == 0 || info.caps & ffi::FI_RMA == 0 {
        "it lacks messages or remote memory access".into()
    } else if info.mode & !handled != 0 {
        format!(
            "it asks for a mode that Farpost does not have ({:#x})",
            info.mode & !handled
        )
    } else if domain.mr_mode & !MR_MODES & !3 != 0 {
        let asked = domain.mr_mode & !MR_MODES;
        format!("it asks for a kind of registration that Farpost does not have ({asked:#x})")
    } else if let Some(address) = source {
        format!("it is not at the address asked for ({address})")
    } else {
        "it does not offer all that is asked for together (RDM, RMA, manual progress)".into()
    }
}

/// Why nothing was chosen, in one sentence.
pub fn nothing(library: &Library, options: &OfiOptions, reports: &[ProviderReport]) -> String {
    let (major, minor) = library.version();
    let mut names: Vec<&str> = reports.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let has = format!(
        "{} (interface {major}.{minor}) has {}",
        library.name(),
        names.join(", ")
    );
    let asked = match &options.provider {
        Some(wanted) => {
            format!("FARPOST_OFI_PROVIDER={wanted} asks for one that is not there or does not fit; ")
        }
        None => String::new(),
    };
    let at = match &options.source {
        Some(address) => format!(", asked for at {address}"),
        None => String::new(),
    };
    format!("{asked}{has}{at}; farpost info --fabrics tells why each is passed over")
}

/// Every provider of the library and what is decided about it, for `farpost info --fabrics`.
pub fn survey(options: &OfiOptions) -> Result<Vec<ProviderReport>, OfiError> {
    let library = Library::load(options.library.as_deref())?;
    Ok(choose(library, options)?.reports)
}

/// An adapter with remote memory in hardware that this host shows, if any: its device. Asks the system and not
/// libfabric, which takes its time.
pub fn adapter() -> Option<String> {
    /// Directories where the drivers of such adapters show their devices.
    const CLASSES: [&str; 3] = ["/sys/class/infiniband", "/sys/class/cxi", "/sys/class/hfi1"];
    CLASSES.iter().find_map(|class| {
        let mut devices = std::fs::read_dir(class).ok()?;
        let device = devices.next()?.ok()?;
        Some(device.file_name().to_string_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_comes_before_sockets_and_strangers_between() {
        let mut names = ["tcp;ofi_rxm", "new-hardware", "tcp", "verbs;ofi_rxm", "cxi"];
        names.sort_by_key(|name| rank(name));
        assert_eq!(
            names,
            ["cxi", "verbs;ofi_rxm", "new-hardware", "tcp", "tcp;ofi_rxm"]
        );
        for name in [
            "shm",
            "sm2",
            "sockets",
            "udp",
            "udp;ofi_rxd",
            "ofi_hook_perf",
            "net",
        ] {
            assert!(only_on_request(name).is_some(), "{name}");
        }
        for name in ["tcp", "tcp;ofi_rxm", "verbs;ofi_rxm", "efa"] {
            assert!(only_on_request(name).is_none(), "{name}");
        }
        assert!(is_meant("tcp", "tcp;ofi_rxm") && is_meant("tcp;ofi_rxm", "tcp;ofi_rxm"));
        assert!(!is_meant("tcp;ofi_rxm", "tcp") && !is_meant("tc", "tcp"));
    }
}
