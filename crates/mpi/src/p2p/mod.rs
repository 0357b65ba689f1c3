//! Point-to-point communication (MPI-5.0 chapter 3): one protocol event per file.
//!
//! Which protocol a message takes over postboxes:
//!
//! | Kind in the postbox | Message |
//! |---|---|
//! | `SHORT` | up to 40 bytes, in one line |
//! | `RUN`, `MORE` | up to 264 bytes in at most 5 postboxes, 56 bytes in each after the first (a receiver accepts 8 postboxes, 432 bytes) |
//! | `BLOCK`, `PIECE` | up to `FARPOST_EAGER_MAX`, in blocks of the sender's pool; a long one in pieces, so that the receiver empties one while the sender fills the next |
//! | `TAIL` | between hosts, where the fabric has [`Tails`](farpost_fabric::Tails): longer than `FARPOST_TAIL_MIN`, up to `FARPOST_TAIL_MAX` |
//! | `RTS`, `CTS`, `DATA`, `DONE` | rendezvous: the offer, the request for blocks, a piece, the end |
//! | `CANCEL`, `CANCELLED` | the sender asks for an unmatched message back; it was dropped |
//!
//! A long message within a host is copied by both sides (`rendezvous`). A buffer that is not one run is fetched by the receiver alone. Where the
//! kernel forbids cross-memory attach the message is streamed through blocks (`stream`). Between hosts the receiver has the fabric get the
//! bytes (`remote`); a buffer that is not one run is streamed. What each step waits for, and who frees it, is in `docs/flow-control.md`.

pub(crate) mod bulk;
mod burst;
mod cancel;
mod eager;
pub(crate) mod grant;
mod own;
mod probe;
mod receive;
mod remote;
mod rendezvous;
mod stream;
mod tail;

pub use eager::Mode;
pub(crate) use eager::bytes_in_pieces;
pub use probe::Matched;
pub use receive::Short;
pub(crate) use receive::{fit, note_match};
