//! RSMAPI: the bodies of the C functions.
//!
//! Handles are numbers, not addresses: one that was freed, or never was one, is found out and refused.

mod controllers;
mod export;
pub(crate) mod functions;
mod handles;
mod import;
mod library;
mod requests;
mod signals;
mod transfers;
