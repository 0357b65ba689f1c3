//! Portals 3.3: the bodies of the C functions.
//!
//! Objects, matching and data movement are `farpost_portals`; here are arguments, identities, waiting, and the text of errors.

mod convert;
mod error_text;
mod events;
pub(crate) mod functions;
mod handlers;
mod interface;
mod moving;
mod objects;
mod state;
