//! JAM and JAM RPC: the bodies of the C functions.

pub(crate) mod functions;
