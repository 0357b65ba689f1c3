//! `FARPOST_CHECK`: looks for the mistakes of a program that MPI itself does not have to notice.
//!
//! Off, nothing of this is on any path: the stage of a process ([`Stage::Checked`](crate::process::Stage)) is what entry
//! points look at anyway. On, the fast lanes stay closed, and entry points of functions that are to be checked go to
//! bodies here (`p2p`, `coll`, `neighbor`, `request`), which look first and then do what the ordinary bodies do.
//!
//! - Every message begins with a header ([`header`]): signature, function and call site of its send. It is a part of the
//!   datatype that the engine sees, so that every device and protocol carries it unchanged.
//! - Every collective is told to the process that leads its communicator ([`ledger`]), on a communicator of the checks' own
//!   ([`channel`]); it compares, and nobody waits for it.
//! - Buffers of operations under way are known by address ([`pending`]), and what is sent has a checksum.
//! - What was made is known by handle ([`made`]); what is left is told at the end ([`end`]).
//!
//! No borrow is held while the engine waits: what waits lets [`poll`] in.

mod areas;
mod channel;
pub(crate) mod coll;
mod end;
mod header;
mod ledger;
pub(crate) mod made;
pub(crate) mod neighbor;
pub(crate) mod p2p;
mod pending;
mod record;
pub(crate) mod reduce;
pub(crate) mod report;
pub(crate) mod request;
mod site;

use std::cell::Cell;

use crate::cx::{self, Cx, ProcessCell};
use crate::lock;
use crate::names::Fun;
use crate::objects;
use crate::process::Stage;
use crate::settings::CheckMode;
use farpost_fabric::wait::Pause;

#[cfg(fuzzing)]
pub use ledger::fuzzing;
pub(crate) use site::{Call, Site};

/// What is known of a program that is checked.
pub(crate) struct Check {
    mode: CheckMode,
    /// My rank in MPI_COMM_WORLD.
    rank: u32,
    sites: site::Sites,
    findings: report::Findings,
    pending: pending::BuffersUnderWay,
    made: made::Made,
    ledger: ledger::Ledger,
    channel: channel::Channel,
    ending: end::Ending,
}

static CHECK: ProcessCell<Check> = ProcessCell::new();

/// What looks for the program's mistakes, from MPI_Init on, if that was asked for.
pub(crate) fn of(cx: &Cx) -> Option<&'static Check> {
    CHECK.get(cx)
}

thread_local! {
    /// The function of the program's call; a thread that waits lets others call meanwhile.
    static CALL: Cell<Fun> = const { Cell::new(Fun(0)) };
}

/// The function that the program called.
pub(crate) fn call() -> Fun {
    CALL.get()
}

/// Begin to check: MPI is initialised.
pub(crate) fn begin(cx: &'static Cx, mode: CheckMode) {
    let world = cx.world();
    let check = Check {
        mode,
        rank: world.pid(),
        sites: site::Sites::new(),
        findings: report::Findings::default(),
        pending: pending::BuffersUnderWay::default(),
        made: made::Made::default(),
        ledger: ledger::Ledger::default(),
        channel: channel::Channel::open(world),
        ending: end::Ending::default(),
    };
    CHECK.keep(cx, check);
    cx.check_requests
        .set(Some(|cx| of(cx).map_or(0, Check::requests)));
    world.watch(Box::new(request::Results));
    world.set_relax(Some(relax));
    objects::tell_history(made::history);
}

impl Check {
    /// The program calls a function.
    pub(crate) fn enter(&self, cx: &'static Cx, fun: Fun) {
        CALL.set(fun);
        if cx.life.stage.get() == Stage::Checked {
            self.poll(cx);
        }
    }

    /// Where the program called.
    pub(crate) fn here(&self) -> Site {
        self.sites.here()
    }

    /// The program's call of `fun`.
    pub(crate) fn call_here(&self, fun: Fun) -> Call {
        let site = self.here();
        Call { fun, site }
    }
}

/// What a world does while a wait makes no headway.
fn relax(pause: Pause) -> bool {
    let cx = cx::process();
    if let Some(check) = of(cx) {
        check.poll(cx);
    }
    lock::relax(pause)
}
