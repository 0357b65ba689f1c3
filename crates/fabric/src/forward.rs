//! What `#[derive(ambassador::Delegate)]` needs to write the forwarding of a choice between fabrics: an enum names the traits
//! (`#[delegate(Topology)]`), and each of their methods, those with a default as well, becomes the same method of the variant that
//! it is. Traits whose associated types differ between the variants are written by hand.

pub use crate::ambassador_impl_Fabric;
pub use crate::bulk::ambassador_impl_BulkTransfer;
pub use crate::counters::ambassador_impl_Counters;
pub use crate::error::ambassador_impl_ErrorStatus;
pub use crate::memory::ambassador_impl_Remote;
pub use crate::packet::ambassador_impl_PacketQueue;
pub use crate::time::ambassador_impl_Time;
pub use crate::topology::ambassador_impl_Topology;
pub use crate::zcopy::ambassador_impl_ZeroCopy;
