//! Messages in pieces (FM 2.x).

mod receive;
mod send;

pub use receive::Receive;
pub(crate) use receive::{Resumed, Stacks, Wake};
pub use send::Sending;
