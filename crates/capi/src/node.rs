//! The process's place in its job, shared by all interfaces: joined by whichever is opened first, left when the last
//! one is closed.
//!
//! Cost class: set-up path.

use core::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::Fabric;
use farpost_fabric::routed::Routed;
use farpost_fabric::shm::{Shm, ShmConfig, region_bytes};
use farpost_job::{Job, RankState};

use crate::cx::{self, Cx};
use crate::lock;
use crate::network::{self, Network};
use crate::settings::Settings;

/// What carries everything of this process: the memory of its host, and a network to others.
pub(crate) type NodeFabric = Routed<Network>;

/// Longest time that taking leave of other hosts may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// The process in its job.
pub(crate) struct Node {
    pub(crate) job: Rc<Job>,
    pub(crate) fabric: Rc<NodeFabric>,
    /// As the file and the environment have them, adapted to the network.
    pub(crate) settings: Settings,
    /// Interfaces that were opened and not closed since, a bit each.
    open: Cell<u32>,
    /// Nothing can be opened any more.
    left: Cell<bool>,
}

/// Where `Cx` keeps the node.
pub(crate) type NodeCell = OnceCell<Node>;

/// What a process can have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    Mpi = 0,
    Rsm = 1,
    Fm = 2,
    Jam = 3,
}

impl Interface {
    const ALL: [Interface; 4] = [Self::Mpi, Self::Rsm, Self::Fm, Self::Jam];

    fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The function that closes it. A process that ends by itself without having called it has failed. `None`: there
    /// is none; the end of the process closes it.
    fn closed_by(self) -> Option<&'static str> {
        match self {
            Self::Mpi => Some("MPI_Finalize"),
            Self::Fm => Some("FM_finalize"),
            Self::Jam => Some("JAM_finalize"),
            Self::Rsm => None,
        }
    }
}

/// Join the job if nobody has, and note that `interface` is open. Opening what is open already changes nothing.
///
/// # Errors
/// A sentence: what cannot be joined or opened and why, or that the process has left its job.
pub(crate) fn open(cx: &'static Cx, interface: Interface) -> Result<&'static Node, String> {
    let node = match cx.node.get() {
        Some(node) => node,
        None => {
            let node = Node::join()?;
            // SAFETY: a function of C's calling convention that stays.
            unsafe { libc::atexit(at_exit) };
            cx.node.get_or_init(|| node)
        }
    };
    if node.left.get() {
        return Err(
            "the process has left its job: an interface can be opened as long as another one is open, and not after the last \
             was finalised"
                .into(),
        );
    }
    node.open.set(node.open.get() | interface.bit());
    if interface != Interface::Mpi {
        // Any thread may call these, also while another one waits in MPI.
        if let Some(world) = cx.world.get() {
            world.set_relax(Some(lock::relax));
        }
    }
    if interface.closed_by().is_some() {
        node.tell();
    }
    Ok(node)
}

impl Node {
    /// Join the job and open its fabric.
    fn join() -> Result<Node, String> {
        let joining = |e: &dyn std::fmt::Display| format!("joining the job: {e}");
        let mut settings = Settings::find()?;
        let mut opening = Job::begin(&|name: &str| settings.variable(name)).map_err(|e| joining(&e))?;
        let opened = network::open(&mut opening, settings.net.clone())
            .map_err(|e| format!("opening the network: {e}"))?;
        if let Some(limit) = opened.as_ref().and_then(network::Opened::eager_limit) {
            let eager = &mut settings.world.engine.eager_far;
            *eager = limit.min(*eager);
        }
        let job = Rc::new(opening.finish().map_err(|e| joining(&e))?);
        let far = match opened {
            Some(opened) => opened
                .start(&job)
                .map_err(|e| format!("starting the network: {e}"))?,
            None => None,
        };
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
        .map_err(|e| format!("attaching to the job's memory: {e}"))?;
        let fabric = Rc::new(Routed::new(shm, far, job.host_map().into()));
        Ok(Node {
            job,
            fabric,
            settings,
            open: Cell::new(0),
            left: Cell::new(false),
        })
    }

    /// Whether `interface` is open.
    pub(crate) fn is_open(&self, interface: Interface) -> bool {
        self.open.get() & interface.bit() != 0
    }

    /// Note that `interface` is closed. With the last one the process leaves its job; an interface that is closed by
    /// the end of the process only keeps it there, while the launcher learns that the process may end.
    pub(crate) fn close(&self, interface: Interface) {
        if !self.is_open(interface) {
            return;
        }
        self.open.set(self.open.get() & !interface.bit());
        if self.unclosed().next().is_some() {
            self.tell();
        } else if self.open.get() == 0 {
            self.leave();
        } else {
            self.job.may_end();
        }
    }

    /// Interfaces that the program has to close and has not.
    fn unclosed(&self) -> impl Iterator<Item = Interface> {
        Interface::ALL
            .into_iter()
            .filter(|it| self.is_open(*it) && it.closed_by().is_some())
    }

    /// Tell the launcher what has to be called before this process may end.
    fn tell(&self) {
        let functions: Vec<&str> = self.unclosed().filter_map(Interface::closed_by).collect();
        self.job.leaves_by(&functions.join(" and "));
    }

    fn leave(&self) {
        if !self.left.replace(true) {
            self.fabric.close(FAREWELL);
            self.job.set_state(RankState::Finalised);
        }
    }
}

/// The process ends by itself. What the program had to close and did not is left as it is: the launcher says so.
extern "C" fn at_exit() {
    // A panic here, say because a handler of the program's called `exit` in the middle of something, changes nothing.
    let _ = std::panic::catch_unwind(|| {
        let _inside = lock::enter_threaded();
        if let Some(node) = cx::process().node.get()
            && node.unclosed().next().is_none()
        {
            node.leave();
        }
    });
}
