//! What each fuzz target does with its input (`run`), and the seeds it starts from, which are made of real messages (`seeds`).
//!
//! A parser gets the input as it is. Where what is read depends on what came before, the input is a script: each step begins with
//! a byte that says what happens, and its arguments follow. An input that ends early is a script that ends there.
//!
//! Nothing here depends on time, and seeds of everything random come from the input, so that a finding happens again.

pub mod addresses;
pub mod check;
pub mod fm;
pub mod handshake;
pub mod input;
pub mod jam;
pub mod jam_rings;
pub mod job_values;
pub mod launch;
pub mod link;
pub mod mpi_device;
pub mod mpi_lines;
pub mod mpi_rendezvous;
pub mod mpi_world;
pub mod ofi_wire;
pub mod pmi;
pub mod pmix;
pub mod portals_agent;
pub mod portals_host;
pub mod portals_interface;
pub mod portals_net;
pub mod rollcall;
pub mod rsm_postboxes;
pub mod settings;
pub mod tcp;

/// The worlds that the crates' own tests play in.
#[path = "../../crates/portals/tests/bridge/mod.rs"]
mod bridge;
#[path = "../../crates/portals/tests/common/mod.rs"]
mod common;
#[path = "../../crates/portals/tests/hosts/mod.rs"]
mod hosts;
#[path = "../../crates/channel/tests/support/mod.rs"]
mod postboxes;
#[path = "../../crates/portals/tests/support/mod.rs"]
mod processes;

/// Every target, with its seeds.
pub type Seeds = fn() -> Vec<Vec<u8>>;
pub const TARGETS: &[(&str, Seeds)] = &[
    ("addresses", addresses::seeds),
    ("fm", fm::seeds),
    ("handshake", handshake::seeds),
    ("jam", jam::seeds),
    ("job_values", job_values::seeds),
    ("launch", launch::seeds),
    ("link", link::seeds),
    ("pmi", pmi::seeds),
    ("portals_agent", portals_agent::seeds),
    ("portals_host", portals_host::seeds),
    ("portals_interface", portals_interface::seeds),
    ("portals_net", portals_net::seeds),
    ("rsm_postboxes", rsm_postboxes::seeds),
    ("jam_rings", jam_rings::seeds),
    ("mpi_device", mpi_device::seeds),
    ("mpi_lines", mpi_lines::seeds),
    ("pmix", pmix::seeds),
    ("settings", settings::seeds),
    ("check", check::seeds),
    ("mpi_rendezvous", mpi_rendezvous::seeds),
    ("ofi_wire", ofi_wire::seeds),
    ("rollcall", rollcall::seeds),
    ("tcp", tcp::seeds),
];
