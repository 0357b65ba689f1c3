//! Fast Messages: the bodies of the C functions.

pub(crate) mod functions;
mod state;
mod streams;
