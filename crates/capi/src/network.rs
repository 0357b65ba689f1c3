//! The network between the job's hosts: chosen from the settings, opened before the ranks meet, started after.

use std::rc::Rc;

use farpost_fabric::Peer;
use farpost_fabric::net::{AddressBook, NetConfig};
use farpost_fabric::tcp::{Listening, Tcp, TcpTunables};
use farpost_job::{Job, Opening};

/// What carries messages between hosts.
pub(crate) type Network = Tcp;

/// Key under which a process publishes where it is reached.
const CARD: &str = "farpost-net";

/// A network that can be found by others.
pub(crate) struct Opened(Listening);

/// Listen and say where, if ranks may be on other hosts.
pub(crate) fn open(opening: &mut Opening, tcp: TcpTunables) -> Result<Option<Opened>, String> {
    if !opening.may_span_hosts() {
        return Ok(None);
    }
    let listening = Listening::open(tcp).map_err(|e| e.to_string())?;
    opening.put(CARD, listening.card()).map_err(|e| e.to_string())?;
    Ok(Some(Opened(listening)))
}

/// What the others have published, by the job's exchange.
struct Cards(Rc<Job>);

impl AddressBook for Cards {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        match self.0.get_from(peer.0, CARD) {
            Ok(Some(card)) => Ok(card),
            Ok(None) => Err("it has not published where it is reached".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Opened {
    /// Become part of the job; `None` when all its ranks are on this host after all.
    pub(crate) fn start(self, job: &Rc<Job>) -> Result<Option<Network>, String> {
        if job.hosts() == 1 {
            return Ok(None);
        }
        let placement = job.placement();
        let config = NetConfig {
            me: Peer(job.rank()),
            size: job.size(),
            host_of: job.host_map().into(),
            cores: placement.allowed_cores,
            processes: placement.ranks_on_host,
            secret: job.secret(),
            book: Box::new(Cards(Rc::clone(job))),
        };
        self.0.start(config).map(Some).map_err(|e| e.to_string())
    }
}
