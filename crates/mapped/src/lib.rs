//! Memory that processes share: mapped files, views of them that are touched by atomics and copies only, copies for other cores,
//! and files put in the place of a program's own pages.
//!
//! Every fabric whose segments are memory of the exporter's has [`Mapping`] as its segment.
#![cfg(not(loom))]

mod copy;
mod cover;
mod mapping;
mod streaming;

pub use cover::Window;
pub use mapping::{MappedLines, Mapping, Word32, sealed_memory};

/// Copies for other cores from so many bytes on use non-temporal stores while cached ones are slow, in this process.
pub fn stream_from(bytes: u64) {
    streaming::COPY_POLICY.from(bytes);
}
