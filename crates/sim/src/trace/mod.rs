//! What one sees of a run: a trace, utilisation, a critical path in words, the network drawn, and the adapters' registers.
//!
//! ```ignore
//! core.record(record::ENTRIES);              // before the first rank runs; `utilisation`, `network` and `registers` need no recording
//! core.call_begins(rank, "MPI_Send", time);  // where calls of programs are known: on the rank's clock
//! core.call_ends(rank, time);
//! core.compute(rank, time);                  // in place of `spend`, for what the program itself does
//! // the run
//! trace::perfetto(&core, &mut file)?;        // --trace FILE.json: ui.perfetto.dev and chrome://tracing read it
//! trace::utilisation(&core, &mut out)?;      // --utilisation
//! trace::explain(&core, &mut out)?;          // --explain
//! trace::network(&core, &mut file)?;         // --network FILE.svg
//! trace::registers(&core, &mut out)?;
//! trace::Snapshot::of(&core, name, launcher);  // the same for `farpost top`, with a `Publisher`
//! ```
//!
//! All of them are functions of the machine after (or during) its run, and write the same bytes for the same run. Set-up path: they are linear in what was written down.

mod explain;
mod json;
mod path;
mod picture;
mod snapshot;
mod tables;

pub use explain::explain;
pub use json::perfetto;
pub use path::{Ahead, CriticalPath, Piece, Place};
pub use picture::network;
pub use snapshot::{AdapterState, Publisher, Snapshot};
pub use tables::{registers, utilisation};

use crate::core::Core;
use crate::record::Recording;
use std::cell::Ref;
use std::io;

/// What was written down.
///
/// # Errors
/// Nothing was: the recorder is off.
fn recording(core: &Core) -> io::Result<Ref<'_, Recording>> {
    let recording = core.kernel.recorder.recording();
    recording.ok_or_else(|| io::Error::other("nothing was recorded: Core::record comes before the run"))
}

/// Of a machine's resource, for people.
fn name_of(core: &Core, resource: u32) -> &str {
    &core
        .kernel
        .net
        .resource(crate::net::ResourceId(resource))
        .spec
        .name
}
