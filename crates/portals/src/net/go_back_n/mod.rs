//! Go-back-n: what makes packets arrive once and in order where the fabric may lose, repeat, reorder or damage them, and where a receiver may
//! have to refuse them because its pendings have run out. What goes by [lines](super::lines) has none of this.
//!
//! | File | What |
//! |---|---|
//! | `send_window` | the sender's numbers of one channel: what is outstanding, what goes next, going back |
//! | `send_connection` | the sender's side of a connection: its tag, refusals and pauses, time |
//! | `receive_window` | the receiver's numbers of one channel: what is wanted next, what has to be said about it |
//! | `receive_connection` | the receiver's side of a connection: its tag, and how it begins and ends |
//!
//! Packets are numbered when they first go. An acknowledgement names the packet wanted next, and so frees everything before it. When the
//! receiver refuses a packet ([`Op::Busy`]), says that one is missing ([`Op::Gap`]), or says nothing for long, the channel goes back to that packet and
//! sends from there again. A packet is accepted when it is the one wanted next.
//!
//! ```text
//! sender                                receiver
//!   packet, tag 0          ---------->    makes a connection: Syncing
//!   new tag, from base on  <- Op::Sync    a tag, what was accepted under the tag before
//!   FIRST, tag             ---------->    Open: numbers begin here
//!   packets                ---------->    wanted next: accepted; older: acknowledged again; newer: Op::Gap
//!                          <- Op::Ack     or by the way in any packet
//!   tag 0                  <- Op::Detach  Closing: gives its place to another sender
//!   Op::Detached           ---------->    forgotten
//! ```
//!
//! A receiver forgets a connection only after the sender has agreed under its tag that nothing is outstanding: so what was accepted is known
//! to be, and nothing is accepted twice.
//!
//! These are values and decisions: what has to be sent or given back is done by the halves that hold them, `transmit` and `receive`.

mod receive_connection;
mod receive_window;
mod send_connection;
mod send_window;
#[cfg(test)]
mod tests;

pub use receive_connection::{ReceiveConnection, Unexpected};
pub use send_connection::SendConnection;

#[cfg(doc)]
use super::wire::Op;
