//! The process's place in its job, shared by all interfaces: joined by whichever is opened first, left when the last
//! one is closed.
//!
//! Cost class: set-up path.

use std::cell::OnceCell;

pub(crate) use farpost_node::{Interface, Node, NodeFabric, PortalsPlace};

use crate::cx::{self, Cx};
use crate::forked;
use crate::lock;
use crate::progress;
use crate::roll;
use crate::rsm;
use crate::settings::MpiSettings;

/// Where `Cx` keeps the node.
pub(crate) type NodeCell = OnceCell<Node>;

/// Join the job if nobody has.
///
/// # Errors
/// A sentence: what cannot be joined and why.
pub(crate) fn join(cx: &'static Cx) -> Result<&'static Node, String> {
    if forked::is_child() {
        return Err(forked::sentence());
    }
    match cx.node.get() {
        Some(node) => Ok(node),
        None => {
            forked::remember();
            let mut settings = MpiSettings::default();
            let node = Node::join_with(&mut settings)?;
            let _ = cx.settings.set(settings);
            // SAFETY: the function stays as long as the library, whose unloading runs it.
            unsafe { libc::atexit(at_exit) };
            let node = cx.node.get_or_init(|| node);
            roll::begin(cx, node);
            Ok(node)
        }
    }
}

/// Join the job if nobody has, and note that `interface` is open. Opening what is open already changes nothing.
///
/// # Errors
/// A sentence: what cannot be joined or opened and why, or that the process has left its job.
pub(crate) fn open(cx: &'static Cx, interface: Interface) -> Result<&'static Node, String> {
    let node = join(cx)?;
    node.open(interface)?;
    if interface != Interface::Mpi {
        // Any thread may call these, also while another one waits in MPI.
        if let Some(world) = cx.world.get()
            && cx.check.get().is_none()
        {
            world.set_relax(Some(lock::relax));
        }
    }
    Ok(node)
}

/// The process ends by itself.
extern "C" fn at_exit() {
    if forked::is_child() {
        return;
    }
    // A panic here, say because a handler of the program's called `exit` in the middle of something, changes nothing.
    let _ = std::panic::catch_unwind(|| {
        let _inside = lock::enter_threaded();
        progress::stop_all(cx::process());
        rsm::end(cx::process());
        if let Some(node) = cx::process().node.get() {
            node.end();
        }
    });
}
