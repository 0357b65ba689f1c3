//! RSMAPI: remote shared memory as an interface for programs, after Sun's `librsm` (section 2.8 of the paper).
//!
//! | Here | In C |
//! |---|---|
//! | [`Rsm`] | the library in a process |
//! | [`Controller`], [`Rsm::topology`] | `rsm_get_controller`, `rsm_get_interconnect_topology` |
//! | [`Memory`], [`Export`] | `rsm_memseg_export_*` |
//! | [`Import`], [`Barrier`] | `rsm_memseg_import_*` |
//! | [`Export::post`], [`Import::try_wait`] | `rsm_intr_signal_*` |
//! | [`Rsm::take_error_status`] | `rsm_get_error_status` |
//! | [`Import::start_put`], [`Import::start_get`], [`Request`] | `rsm_memseg_import_start_*`, `rsm_request_*` |
//! | [`Rsm::striping`], [`Rsm::rails_to`], [`Import::stripe_over`] | `rsm_get_striping`, `rsm_get_rails`, `rsm_memseg_import_set_stripes` |
//! | [`Rsm::next_fault`], [`Rsm::refused`] | `rsm_next_fault`, `rsm_get_refused` |
//!
//! A node of the interconnect is a process of the job. Knows nothing of MPI; both use one fabric without meeting: packets
//! have a port of their own, and segments of the fabric are from the range that RSMAPI keeps for its library.
//!
//! Cost class: puts and gets in explicit mode are *fast path* where the fabric maps memory; barriers, signals and implicit
//! mode *queued path*; all else is *set-up path*.
//!
//! **Exported memory** is the program's own. Its range is replaced by pages of a memfd with the same contents, which the library maps a second
//! time for itself, so that nothing the program does to its range can hurt the network (`farpost_mapped`). A segment that is withdrawn gets new
//! pages; an importer that mapped the old ones keeps those. Nodes are admitted by the exporter's side of the fabric, users and groups by the
//! importer's library. Errors of puts are found by barriers: a fence, the generation in the directory, and whether the owner lives.
#![forbid(unsafe_code)]

#[macro_use]
mod error;

mod access;
mod barrier;
mod cesr;
mod controller;
mod directory;
mod export;
mod faults;
mod import;
mod names;
mod request;
mod signal;
mod state;
mod transfer;
mod wire;

pub use access::ELEMENT_SIZES;
pub use barrier::Barrier;
pub use cesr::{Cause, ErrorReport};
pub use controller::{Attributes, Connections, PAGE, RailStatus, RemoteController, Striping};
pub use error::{Code, Result, RsmError};
pub use faults::Refused;
pub use names::{
    AccessEntry, Controller, FIRST_ASSIGNED, Identity, LAST_RESERVED, NodeId, Perm, SegId, segmentid_range,
};
pub use request::{REQUESTS_MAX, Request};
pub use signal::Accumulate;
pub use state::{Export, Import, Memory, Mode, Rsm, Watcher};
pub use transfer::{Local, SG_MAX, Transfer, Vectored};

farpost_tunables::tunables! {
    /// Tunables of RSMAPI.
    pub struct RsmTunables {
        /// Segments that a process can have published through RSMAPI at a time. Within a host all interfaces together publish 96 at most, of which these leave 16.
        segments: "FARPOST_RSM_SEGMENTS" = 64, 1..=80, "segments";
    }
}
