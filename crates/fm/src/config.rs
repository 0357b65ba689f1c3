//! What a node of Fast Messages is made with: the lengths of its queues, the size of its frames, and which of the paper's features
//! it has (section 4, Table 4).
//!
//! | Row of Table 4 | [`Buffers`] | [`flow_control`](FmConfig::flow_control) | [`Interpret`] |
//! |---|---|---|---|
//! | streamed + hybrid | [`None`](Buffers::None) | no | |
//! | + buffer management | [`Always`](Buffers::Always) | no | [`Host`](Interpret::Host) |
//! | + buffer management + switch() | `Always` | no | [`Network`](Interpret::Network) |
//! | + buffer management + flow control: FM 1.0 | `Always` | yes | `Host` |
//! | + buffer management + flow control + switch() | `Always` | yes | `Network` |
//! | (what Farpost is made for) | [`AsNeeded`](Buffers::AsNeeded) | yes | `Network` |
//!
//! All nodes of a job have flow control, or none. How the interface moves data (the paper's loops, hybrid or all by DMA) is the fabric's affair.

use crate::FmTunables;
use crate::wire::{FRAME_PAYLOAD, HEADER_BYTES, PAYLOADS};
use farpost_fabric::PacketQueue;

farpost_tunables::tunables! {
    /// Frame size and features of Fast Messages as an interface of its own. What carries MPI has all features.
    pub struct FmFeatures {
        /// Longest message of FM_send, and longest piece of a longer message.
        frame: "FARPOST_FM_FRAME" = 128, 16..=128, "bytes";
        /// Whether frames go through queues of Fast Messages' own: 0 never, 1 where the network or the program cannot take them at once, 2 always.
        buffers: "FARPOST_FM_BUFFERS" = 1, 0..=2, "choice";
        /// Whether frames without room are returned to their sender, which keeps room for them. Without, whoever has no room takes no more,
        /// and handlers that send may wait for each other in a circle. The same for all processes of a job.
        flow_control: "FARPOST_FM_FLOW" = 1, 0..=1, "switch";
        /// Whether frames are looked into when they are moved to the host receive queue (and acknowledged then), or only when they are extracted.
        switch: "FARPOST_FM_SWITCH" = 1, 0..=1, "switch";
        /// Whether the library's thread moves frames to the host receive queue while the program calls nothing.
        progress: "FARPOST_FM_PROGRESS" = 1, 0..=1, "switch";
    }
}

/// Where frames wait (paper, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Nowhere but in the network: what it does not take stays with the caller, and frames go from it to their handlers.
    None,
    /// In the send queue when the network is full, in the host receive queue when the program extracts a part or calls nothing; else as with `None`.
    AsNeeded,
    /// Every frame goes through the send queue, and through the host receive queue.
    Always,
}

/// Who looks into frames that are moved to the host receive queue: the paper's `switch()` (section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpret {
    /// The host, when it extracts them. They are moved unseen, and are accepted, acknowledged or returned then.
    Host,
    /// Whoever moves them: in the queue is only what has been accepted, and acknowledged.
    Network,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct FmConfig {
    /// Lengths of queues, and patience.
    pub lengths: FmTunables,
    /// Payload of a frame, in bytes: the longest message of [`send`](crate::Fm::send), and the longest piece of a stream.
    /// At least 16, at most 600, and with its header no more than the fabric's packets and the node's frames have room for.
    pub frame: usize,
    pub buffers: Buffers,
    /// Return to sender: slots, acknowledgements, frames that come back (paper, section 4.5). Without it nothing is lost either, as long as the fabric
    /// keeps packets in order and gives its users' back-pressure: whoever has no room takes nothing more, from anybody.
    pub flow_control: bool,
    pub interpret: Interpret,
}

impl FmConfig {
    /// Queues of such lengths, and such features.
    pub fn new(lengths: &FmTunables, features: &FmFeatures) -> Self {
        Self {
            lengths: lengths.clone(),
            frame: features.frame as usize,
            buffers: match features.buffers {
                0 => Buffers::None,
                1 => Buffers::AsNeeded,
                _ => Buffers::Always,
            },
            flow_control: features.flow_control != 0,
            interpret: match features.switch {
                0 => Interpret::Host,
                _ => Interpret::Network,
            },
        }
    }

    /// The longest payload that frames of so many words have on such a fabric.
    pub fn longest<F: PacketQueue>(words: usize) -> usize {
        let room = (8 * words).min(F::PACKET_BYTES).saturating_sub(HEADER_BYTES);
        room.min(*PAYLOADS.end())
    }
}

impl From<&FmTunables> for FmConfig {
    fn from(lengths: &FmTunables) -> Self {
        Self {
            frame: FRAME_PAYLOAD,
            ..Self::new(lengths, &FmFeatures::default())
        }
    }
}

impl Default for FmConfig {
    fn default() -> Self {
        Self::from(&FmTunables::default())
    }
}
