//! Message buffers in user memory: address, count and datatype.
//!
//! The only place of this crate that touches user memory. The invariant is stated once, at the
//! constructors; everything else in the crate is safe code on top.
#![allow(unsafe_code)]
