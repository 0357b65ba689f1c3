//! Whose an interface is.

use farpost_fabric::{Port, SegmentId};

/// Whose an interface is: a process may have one of each, with packets, channels, segments and a place at the agent of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The program, by the C interface or the one in Rust.
    #[default]
    Program,
    /// MPI, of which Portals is the carrier.
    Mpi,
}

impl Owner {
    /// The port of its packets.
    #[inline(always)]
    pub(crate) fn port(self) -> Port {
        match self {
            Self::Program => Port::Portals,
            Self::Mpi => Port::Device,
        }
    }

    /// The port of the packets that set up its channels.
    pub(crate) fn channel_port(self) -> Port {
        match self {
            Self::Program => Port::PortalsChannel,
            Self::Mpi => Port::DeviceChannel,
        }
    }

    /// Its segment of those that have the numbers from `id` on, which has bit 23 clear.
    pub(crate) fn segment(self, id: u32) -> SegmentId {
        SegmentId(id | (self as u32) << 23)
    }
}
