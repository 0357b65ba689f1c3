//! The network between the job's hosts: chosen from the settings, opened before the ranks meet, started after.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use farpost_fabric::Peer;
use farpost_job::{Job, Opening};
use farpost_net::{AddressBook, NetConfig};
use farpost_ofi::{Ofi, OfiOptions, OfiTunables};
use farpost_routed::Either;
use farpost_simlink::{Client, ProcessEnd, wire};
use farpost_tcp::{Tcp, TcpSettings};

/// What carries messages between hosts.
pub type Network = Either<Tcp, Either<Ofi, ProcessEnd>>;

/// Variable: which network.
const FABRIC: &str = "FARPOST_FABRIC";

/// Settings of all networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetSettings {
    wanted: Wanted,
    tcp: TcpSettings,
    ofi: OfiTunables,
    options: OfiOptions,
}

impl NetSettings {
    /// Set what the variable `name` is about; false: it is about nothing here.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        if name == FABRIC {
            self.wanted = wanted(value)?;
            return Ok(true);
        }
        // Both networks go by the interfaces.
        let options = self.options.set(name, value);
        let set = self.tcp.set(name, value)? || self.ofi.set(name, value).map_err(|e| e.to_string())?;
        Ok(set || options)
    }

    /// The value of a tunable.
    pub(crate) fn value(&self, name: &str) -> Option<u64> {
        self.tcp.value(name).or_else(|| self.ofi.get(name))
    }
}

/// Key under which a process publishes where it is reached, by network: all must use the same one.
const CARDS: [&str; 2] = ["farpost-tcp", "farpost-ofi"];

/// A network that can be found by others.
pub(crate) enum Opened {
    Tcp(farpost_tcp::Listening),
    /// With the longest message that is to go through the pool.
    Ofi(farpost_ofi::Listening, u64),
    /// A simulated machine, by the name of its coordinator's socket.
    Sim(String),
}

/// Which network to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    /// libfabric where it has a provider for a network that can more than TCP, else TCP.
    #[default]
    Best,
    Tcp,
    Ofi,
    /// `farpost sim` has a machine.
    Sim,
}

fn wanted(value: &str) -> Result<Wanted, String> {
    match value {
        "" | "auto" => Ok(Wanted::Best),
        "tcp" => Ok(Wanted::Tcp),
        "ofi" => Ok(Wanted::Ofi),
        "sim" => Ok(Wanted::Sim),
        _ => Err(format!("{FABRIC}={value}: allowed are auto, tcp, ofi and sim")),
    }
}

/// Providers that end in plain sockets: there the `tcp` fabric is quicker.
fn is_plain(provider: &str) -> bool {
    provider
        .split(';')
        .any(|part| matches!(part, "tcp" | "sockets" | "udp" | "net"))
}

fn open_ofi(settings: &NetSettings) -> Result<Option<farpost_ofi::Listening>, String> {
    let (wanted, encrypt) = (settings.wanted, settings.tcp.trust.encrypt != 0);
    // libfabric has no encryption to offer.
    if encrypt && wanted == Wanted::Ofi {
        return Err(format!(
            "{FABRIC}=ofi and FARPOST_ENCRYPT=1: libfabric does not encrypt; use {FABRIC}=tcp"
        ));
    }
    // Loading libfabric and asking all its providers takes longer than all else of starting.
    if wanted == Wanted::Best && (encrypt || farpost_ofi::adapter().is_none()) {
        return Ok(None);
    }
    match farpost_ofi::Listening::open(&settings.options, settings.ofi.clone()) {
        Ok(listening) if wanted == Wanted::Best && is_plain(listening.provider()) => Ok(None),
        Ok(listening) => Ok(Some(listening)),
        Err(_) if wanted == Wanted::Best => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Listen and say where, if ranks may be on other hosts.
pub(crate) fn open(opening: &mut Opening, settings: NetSettings) -> Result<Option<Opened>, String> {
    // Also where all ranks are on one host: a wrong name should not wait for the first job on two.
    settings.tcp.check_interfaces().map_err(|e| e.to_string())?;
    if settings.wanted == Wanted::Sim {
        return match std::env::var(wire::SOCKET) {
            Ok(name) => Ok(Some(Opened::Sim(name))),
            Err(_) => Err(format!("{FABRIC}=sim: start the program by farpost sim")),
        };
    }
    if !opening.may_span_hosts() {
        return Ok(None);
    }
    let eager = settings.ofi.eager;
    let ofi = match settings.wanted {
        Wanted::Tcp => None,
        _ => open_ofi(&settings)?,
    };
    let opened = match ofi {
        Some(listening) => Opened::Ofi(listening, eager),
        None => Opened::Tcp(farpost_tcp::Listening::open(settings.tcp).map_err(|e| e.to_string())?),
    };
    if let Some((key, card)) = opened.card() {
        opening.put(key, card).map_err(|e| e.to_string())?;
    }
    Ok(Some(opened))
}

/// What the others have published, by the job's exchange.
struct Cards {
    job: Rc<Job>,
    key: &'static str,
    /// Names of the hosts that have been looked up. A message about a host that is gone cannot wait for the launcher.
    hosts: RefCell<HashMap<u32, String>>,
}

impl AddressBook for Cards {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        let look = |key| self.job.get_from(peer.0, key).map_err(|error| error.to_string());
        if let Some(card) = look(self.key)? {
            if let Entry::Vacant(unknown) = self.hosts.borrow_mut().entry(self.job.host_of(peer.0))
                && let Ok(name) = self.job.host_name_of(peer.0)
            {
                unknown.insert(name);
            }
            return Ok(card);
        }
        let other = CARDS.into_iter().find(|key| *key != self.key);
        match other.map(look).transpose()?.flatten() {
            Some(_) => Err(format!(
                "it uses another network than this process; set {FABRIC} to tcp or ofi for all of them"
            )),
            None => Err("it has not published where it is reached".into()),
        }
    }

    fn host(&self, peer: Peer) -> Option<String> {
        self.hosts.borrow().get(&self.job.host_of(peer.0)).cloned()
    }
}

impl Opened {
    /// The longest message that is to go through the pool, if the network has a say in it.
    pub(crate) fn eager_limit(&self) -> Option<u64> {
        match self {
            Opened::Tcp(_) | Opened::Sim(_) => None,
            Opened::Ofi(_, eager) => Some(*eager),
        }
    }

    /// Where this process is reached, and under which key it is published.
    fn card(&self) -> Option<(&'static str, &[u8])> {
        match self {
            Opened::Tcp(listening) => Some((CARDS[0], listening.card())),
            Opened::Ofi(listening, _) => Some((CARDS[1], listening.card())),
            Opened::Sim(_) => None,
        }
    }

    /// Become part of the job; `None` when all its ranks are on this host after all.
    pub(crate) fn start(self, job: &Rc<Job>) -> Result<Option<Network>, String> {
        if let Opened::Sim(name) = &self {
            let client = Client::connect(name, job.rank(), job.size())?;
            return Ok(Some(Either::Other(Either::Other(ProcessEnd::new(client)))));
        }
        let Some((key, _)) = self.card().filter(|_| job.hosts() > 1) else {
            return Ok(None);
        };
        let placement = job.placement();
        let cards = Cards {
            job: Rc::clone(job),
            key,
            hosts: RefCell::default(),
        };
        let config = NetConfig {
            me: Peer(job.rank()),
            size: job.processes(),
            host_of: job.host_map().into(),
            cores: placement.allowed_cores,
            processes: placement.ranks_on_host,
            secret: job.secret(),
            book: Box::new(cards),
        };
        let network = match self {
            Opened::Tcp(listening) => Either::One(listening.start(config).map_err(|e| e.to_string())?),
            Opened::Ofi(listening, _) => {
                Either::Other(Either::One(listening.start(config).map_err(|e| e.to_string())?))
            }
            Opened::Sim(_) => unreachable!("it has been started"),
        };
        Ok(Some(network))
    }
}

/// The link to the simulated machine, if the network is one.
pub(crate) fn link(network: &Network) -> Option<&Client> {
    match network {
        Either::Other(Either::Other(end)) => Some(end.link()),
        _ => None,
    }
}
