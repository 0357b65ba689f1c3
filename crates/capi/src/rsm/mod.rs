//! RSMAPI: the bodies of the C functions.

pub(crate) mod functions;
