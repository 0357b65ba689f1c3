//! A process in its job, and the interfaces that it has open.

use std::cell::{Cell, OnceCell};
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;
use strum::VariantArray;

use farpost_fabric::Fabric;
use farpost_job::{Job, RankState};
use farpost_portals::Processes;
use farpost_routed::Routed;
use farpost_shm::{Shm, ShmConfig, region_bytes};
use farpost_simlink::Client;

use crate::fence::Fence;
use crate::layer::{self, Layer};
use crate::network::{self, Network};
use crate::portals::PidChoice;
use crate::roll::Roll;
use crate::settings::Settings;
use crate::{ends, memory, portals};

/// What carries everything of a process: the memory of its host, and a network to others.
pub type NodeFabric = Routed<Network>;

/// Longest time that taking leave of other hosts may take.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

/// What a process can have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Interface {
    Mpi = 0,
    Rsm = 1,
    Fm = 2,
    Jam = 3,
    Portals = 4,
    /// Sessions of MPI, beside its world model or without it.
    Sessions = 5,
}

impl Interface {
    fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The C function that closes it. A process that ends by itself without having called it has failed. `None`: there
    /// is none; the end of the process closes it.
    fn closed_by(self) -> Option<&'static str> {
        match self {
            Self::Mpi => Some("MPI_Finalize"),
            Self::Sessions => Some("MPI_Session_finalize"),
            Self::Fm => Some("FM_finalize"),
            Self::Jam => Some("JAM_finalize"),
            Self::Portals => Some("PtlFini"),
            Self::Rsm => None,
        }
    }
}

/// A process in its job. Dropping it takes leave of the others, unless an interface is open that has to be closed: then
/// the launcher takes the end of the process for a failure.
pub struct Node {
    /// Who else is there.
    pub job: Rc<Job>,
    /// What reaches them. Layers hold it as long as they like.
    pub fabric: Rc<NodeFabric>,
    /// Where all processes of the job meet.
    pub fence: Fence,
    /// Saying why the job hangs.
    pub roll: Roll,
    /// As the file and the environment have them.
    pub settings: Settings,
    /// The longest message that the network between hosts takes unasked, where it has a limit.
    pub eager_limit: Option<u64>,
    /// What this process would be called by Portals.
    pub(crate) portals_choice: Option<PidChoice>,
    /// Who everybody is for Portals, once somebody has asked.
    pub(crate) portals_processes: OnceCell<Rc<Processes>>,
    /// Interfaces that were opened and not closed since, a bit each.
    open: Cell<u32>,
    /// Nothing can be opened any more.
    left: Cell<bool>,
    /// The process that joined: a child that it forks is no part of the job.
    of: u32,
}

impl Node {
    /// Reads the settings, joins the job that the environment names (a job of one, if none) and opens its fabric. To be
    /// done once in the life of a process.
    ///
    /// # Errors
    /// A sentence: what was attempted, what happened.
    pub fn join() -> Result<Node, String> {
        Self::join_with(&mut ())
    }

    /// As [`join`](Self::join), with the settings of a layer that this crate does not know.
    ///
    /// # Errors
    /// As for `join`; also that ranks do not have the same where they must.
    pub fn join_with(layer: &mut dyn Layer) -> Result<Node, String> {
        Self::join_as(layer, None)
    }

    /// As [`join_with`](Self::join_with), with a number that an interface of Portals is to have on its node: all of a job learn that
    /// when they join, and [`portals_numbered`](Self::portals_numbered) says whether it can be had.
    ///
    /// # Errors
    /// As for `join_with`.
    pub fn join_as(layer: &mut dyn Layer, choice: Option<PidChoice>) -> Result<Node, String> {
        let joining = |e: &dyn Display| format!("joining the job: {e}");
        let settings = Settings::find(layer)?;
        let mut opening = Job::begin(&|name: &str| settings.variable(name)).map_err(|e| joining(&e))?;
        let opened = network::open(&mut opening, settings.net.clone())
            .map_err(|e| format!("opening the network: {e}"))?;
        let eager_limit = opened.as_ref().and_then(network::Opened::eager_limit);
        let (same, own) = (layer.same(), settings.same());
        layer::publish(&mut opening, layer, same.iter().chain(&own)).map_err(|e| joining(&e))?;
        portals::publish(&mut opening, &settings, choice).map_err(|e| joining(&e))?;
        let job = Rc::new(opening.finish().map_err(|e| joining(&e))?);
        let far = match opened {
            Some(opened) => opened
                .start(&job)
                .map_err(|e| format!("starting the network: {e}"))?,
            None => None,
        };
        layer::compare(&job, true, &same).map_err(|e| joining(&e))?;
        layer::compare(&job, false, &own).map_err(|e| joining(&e))?;
        let memory = job.host_memory();
        if memory.region_len < region_bytes(memory.ranks) as u64 {
            return Err(joining(&"the job's memory is too small for its ranks"));
        }
        let placement = job.placement();
        let file = memory.fd.try_clone_to_owned().map_err(|e| joining(&e))?;
        let shm = Shm::attach(ShmConfig {
            file,
            offset: memory.region_offset,
            len: memory.region_len,
            index: memory.local_index,
            size: memory.ranks,
            processes: placement.ranks_on_host,
            cores: placement.allowed_cores,
            tunables: settings.shm.clone(),
        })
        .map_err(|e| format!("attaching to the job's memory: {e}"))?
        .with_end_report(ends::end_report(&job));
        let link = far.as_ref().and_then(network::link);
        let simulated = link.map(|link| Rc::from(&link.machine().host_of[..]));
        let mut fabric = Routed::new(shm, far, job.host_map().into()).with_size(job.size());
        if let Some(hosts) = simulated {
            fabric = fabric.by_network(hosts);
        }
        let fabric = Rc::new(fabric);
        Ok(Node {
            fence: Fence::new(job.size()),
            roll: Roll::new(settings.roll.hang_after),
            job,
            fabric,
            settings,
            eager_limit,
            portals_choice: choice,
            portals_processes: OnceCell::new(),
            open: Cell::new(0),
            left: Cell::new(false),
            of: std::process::id(),
        })
    }

    /// Whether this process is on a simulated machine.
    pub fn is_simulated(&self) -> bool {
        self.fabric.network().and_then(network::link).is_some()
    }

    /// Whether threads can be started: not where all ranks of a simulated job are in one process.
    pub fn permits_threads(&self) -> bool {
        !self.simulated().is_some_and(Client::is_within)
    }

    /// The number of each process's host, for the program: on a simulated machine, there.
    pub(crate) fn nodes(&self) -> &[u32] {
        match self.simulated() {
            Some(link) => &link.machine().host_of,
            None => self.job.host_map(),
        }
    }

    /// What the host of this process is called on a simulated machine, if it is on one.
    pub fn simulated_host(&self) -> Option<String> {
        let machine = network::link(self.fabric.network()?)?.machine();
        let host = machine.host_of.get(self.job.rank() as usize)?;
        Some(format!("{}-{host}", machine.machine))
    }

    /// The link of this process to its simulated machine, if it is on one.
    pub fn simulated(&self) -> Option<&Client> {
        network::link(self.fabric.network()?)
    }

    /// Memory that this process may use for messages that came before their receives.
    pub fn unexpected_bytes(&self) -> u64 {
        memory::for_unexpected(self.job.placement().ranks_on_host)
    }

    /// Note that `interface` is open. Opening what is open already changes nothing.
    ///
    /// # Errors
    /// The process has left its job.
    pub fn open(&self, interface: Interface) -> Result<(), String> {
        if self.left.get() {
            return Err(
                "the process has left its job: an interface can be opened as long as another one is open, and not after \
                 the last was finalised (sessions of MPI can, where the job is on one host)"
                    .into(),
            );
        }
        self.open.set(self.open.get() | interface.bit());
        if interface.closed_by().is_some() {
            self.tell();
        }
        Ok(())
    }

    /// Whether `interface` is open.
    pub fn is_open(&self, interface: Interface) -> bool {
        self.open.get() & interface.bit() != 0
    }

    /// Note that `interface` is closed. With the last one the process leaves its job; one that only the end of the
    /// process closes keeps it there, while the launcher learns that the process may end.
    pub fn close(&self, interface: Interface) {
        if !self.is_open(interface) || self.is_a_childs() {
            return;
        }
        self.open.set(self.open.get() & !interface.bit());
        if self.unclosed().next().is_some() {
            self.tell();
        } else if self.open.get() == 0 {
            if self.is_simulated() {
                // Once it has left the machine it runs beside the others, who are to find this at the same virtual time in every run.
                self.job.may_end();
            }
            if self.leave() {
                self.job.set_state(RankState::Finalised);
            }
        } else {
            self.job.may_end();
        }
    }

    /// As [`close`](Self::close), of what may be opened again: where nothing has to be said to other hosts the process stays in
    /// its job until it ends, and the launcher learns that it may.
    pub fn rest(&self, interface: Interface) {
        let last = self.open.get() == interface.bit();
        if !last || self.is_a_childs() || self.fabric.network().is_some() {
            return self.close(interface);
        }
        self.open.set(0);
        self.job.set_state(RankState::Finalised);
    }

    /// The process ends: takes leave of the others, unless something is open that the program should have closed, which
    /// the launcher will say.
    pub fn end(&self) {
        if !self.is_a_childs() && self.unclosed().next().is_none() && self.leave() {
            self.job.part();
        }
    }

    /// Whether this is a copy in a forked child, which is no part of the job.
    fn is_a_childs(&self) -> bool {
        self.of != std::process::id()
    }

    /// Interfaces that the program has to close and has not.
    fn unclosed(&self) -> impl Iterator<Item = Interface> {
        Interface::VARIANTS
            .iter()
            .copied()
            .filter(|it| self.is_open(*it) && it.closed_by().is_some())
    }

    /// Tell the launcher what has to be called before this process may end.
    fn tell(&self) {
        let functions: Vec<&str> = self.unclosed().filter_map(Interface::closed_by).collect();
        self.job.leaves_by(&functions.join(" and "));
    }

    /// Take leave on the fabric. False: done before.
    fn leave(&self) -> bool {
        if self.left.replace(true) {
            return false;
        }
        self.fabric.close(FAREWELL);
        true
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use farpost_job::layout::{Layout, MAX_RANKS};
    use farpost_shm::region_bytes;

    /// What each process has of each other one grows with the square of the job.
    #[test]
    fn the_job_memory_has_room_for_what_the_fabric_keeps() {
        for ranks in [1, 2, 1000, 6553, 6554, 8192, 10_000, MAX_RANKS] {
            let layout = Layout::for_ranks(ranks).expect("so many ranks are allowed");
            assert!(layout.region_len >= region_bytes(ranks), "{ranks} ranks");
        }
    }
}
