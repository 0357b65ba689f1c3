//! `libmpi_abi.so.1`: the C entry points of MPI, their argument checks and handles, and those of the interfaces beside it
//! (`interfaces`). The only place with process-global state.
//!
//! The entry points are generated (`entry`); each checks its arguments (`args`), enters the library (`entry::seam`) and
//! calls a hand-written body in `calls`, a file a chapter of the standard.
//!
//! One shared object carries all interfaces. Entry points look up the process's stage; the four functions that programs call for every message try a fast
//! path first (`fast`), `FARPOST_CHECK` puts other bodies behind the same entry points (`check`), and a forked child is no part of the job
//! (`forked`).
//!
//! Each line uses those above it only:
//!
//! | modules | what |
//! |---|---|
//! | `abi`, `names`, `settings`, `lock` | constants, names, the environment, one thread at a time |
//! | `process`, `objects`, `forked` | stages of the process, objects without communication, children |
//! | `cx` | what the process keeps, for who is inside |
//! | `args`, `fast`, `progress`, `interfaces`, `roll` | checks of arguments, the fast lanes, the library's own thread, types of the interfaces beside MPI, what a wait says of itself |
//! | `node` | joining the job and leaving it |
//! | `calls`; `fm`, `jam`, `portals3`, `rsm` | bodies |
//! | `check` | the bodies of checked programs |
//! | `init` | beginning and end of MPI |
//! | `entry` | the exported names |

pub mod abi;
pub mod api_status;
mod args;
mod check;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use check::fuzzing;
mod calls;
mod cx;
mod entry;
mod fast;
mod fm;
mod forked;
mod init;
pub mod interfaces;
mod jam;
mod lock;
mod mpix;
mod names;
mod node;
mod objects;
mod portals3;
mod process;
mod progress;
mod real_time;
mod roll;
mod rsm;
mod settings;
