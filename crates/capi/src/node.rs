//! The process's place in its job, shared by all interfaces: joined by whichever is opened first, left when the last
//! one is closed.
//!
//! Cost class: set-up path.

use std::cell::RefCell;

use farpost_node::{Interface, Node, PidChoice};

use crate::cx::{self, Cx, ProcessCell};
use crate::fast;
use crate::forked;
use crate::lock;
use crate::process::Stage;
use crate::progress;
use crate::roll;
use crate::settings::MpiSettings;

/// What an interface has to do when the process ends.
type Ending = fn(&'static Cx);

static ENDINGS: ProcessCell<RefCell<Vec<Ending>>> = ProcessCell::new();

/// Join the job if nobody has.
///
/// # Errors
/// A sentence: what cannot be joined and why.
pub(crate) fn join(cx: &'static Cx) -> Result<&'static Node, String> {
    join_as(cx, None)
}

/// As [`join`], with a number that an interface of Portals is to have.
///
/// # Errors
/// As for `join`.
pub(crate) fn join_as(cx: &'static Cx, choice: Option<PidChoice>) -> Result<&'static Node, String> {
    if forked::is_child() {
        return Err(forked::sentence());
    }
    match cx.node.get() {
        Some(node) => Ok(node),
        None => {
            forked::remember(in_child);
            let mut settings = MpiSettings::default();
            let node = Node::join_as(&mut settings, choice)?;
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
    if !matches!(interface, Interface::Mpi | Interface::Sessions) {
        // Any thread may call these, also while another one waits in MPI.
        if let Some(world) = cx.world.get()
            && cx.settings.get().is_none_or(|settings| !settings.check.on)
        {
            world.set_relax(Some(lock::relax));
        }
    }
    Ok(node)
}

/// Whether or not it closes its interface, the process is to call `ending` before it leaves its job.
pub(crate) fn at_end(cx: &'static Cx, ending: Ending) {
    ENDINGS.keep(cx, RefCell::default()).borrow_mut().push(ending);
}

/// A child that was forked is no part of the job.
extern "C" fn in_child() {
    if !forked::note_child() {
        return;
    }
    fast::close();
    // Whoever was inside stayed with the parent.
    lock::forget_threads();
    let life = &cx::process().life;
    if life.stage.get().is_active() {
        // Its handles are the parent's, and MPI is over for it.
        life.stage.set(Stage::Forked);
    }
}

/// The process ends by itself.
extern "C" fn at_exit() {
    if forked::is_child() {
        return;
    }
    // A panic here, say because a handler of the program's called `exit` in the middle of something, changes nothing.
    let _ = std::panic::catch_unwind(|| {
        let _inside = lock::enter_threaded();
        let cx = cx::process();
        progress::stop_all(cx);
        if let Some(endings) = ENDINGS.get(cx) {
            endings.borrow().iter().for_each(|ending| ending(cx));
        }
        if let Some(node) = cx.node.get() {
            node.end();
        }
    });
}
