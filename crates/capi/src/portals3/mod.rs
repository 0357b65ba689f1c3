//! Portals 3.3: the bodies of the C functions.
//!
//! Objects, matching and data movement are `farpost_portals`; here are arguments, identities, waiting and words.

pub(crate) mod functions;
mod interface;
mod objects;
mod state;
mod words;
