//! MPI over Fast Messages: every put is a message of FM 2.x in one frame, so that puts to one peer stay in order.
//!
//! ```text
//! bytes 0..4  number of the receiver's segment
//! bytes 4..8  where in it
//! bytes 8..   what to write there
//! ```
//!
//! A postbox of a message of 8 bytes is 4 words: the frame is one line of a packet queue in shared memory.
//!
//! Cost class: *fast path* while there is room.

use super::Offered;
use super::exports::Exports;
use farpost_fabric::{Fabric, FabricError, Fault, Peer, Port, RemoteMemory};
use farpost_fm::{FRAME_PAYLOAD, Fm, FmError, FmTunables};
use std::cell::Cell;
use std::rc::Rc;

/// Number of the one handler.
const PUT: u32 = 0;
/// Bytes before those to be written.
const HEADER: usize = 8;
/// Polls in a row that find nothing after which all that is owed is acknowledged: longer than an answer takes to
/// come, which acknowledges by the way.
const QUIET: u32 = 512;

/// This process's node.
pub(super) struct ByFm<F: Fabric + 'static> {
    fm: Fm<F>,
    quiet: Cell<u32>,
}

impl<F: Fabric + 'static> ByFm<F> {
    /// Bytes that one message writes at most.
    pub const MOST: usize = FRAME_PAYLOAD - HEADER;

    pub fn new(
        fabric: Rc<F>,
        tunables: &FmTunables,
        exports: Rc<Exports<<F as RemoteMemory>::Export>>,
    ) -> Self {
        let fm = Fm::on_port(fabric, tunables, 1, Port::Device);
        let handler = move |fm: &Fm<F>, peer: Peer, message: &[u8]| {
            if let Err(error) = take(&exports, peer, message) {
                fm.fabric().record_fault(Fault { peer, error });
            }
        };
        fm.register_message_handler(PUT, handler)
            .expect("the table has a place for it");
        Self {
            fm,
            quiet: Cell::new(0),
        }
    }

    /// Send a put. False: no slot is free.
    #[inline(always)]
    pub fn offer(&self, to: Peer, id: u32, offset: u32, bytes: &[u8]) -> Offered {
        let header = u64::from(id) | u64::from(offset) << 32;
        let sent = self.fm.try_send_in_order(to.0, PUT, header, bytes);
        sent.map_err(|error| match error {
            FmError::Lost { peer } => FabricError::PeerDead {
                peer,
                why: "its process has ended".into(),
            },
            other => FabricError::PutFailed {
                peer: to,
                why: other.to_string(),
            },
        })
    }

    #[inline(always)]
    pub fn poll(&self) -> u32 {
        let frames = self.fm.extract_quietly();
        if frames > 0 {
            self.quiet.set(0);
        } else {
            let quiet = self.quiet.get() + 1;
            self.quiet.set(quiet);
            if quiet == QUIET {
                self.rest();
            }
        }
        frames
    }

    /// Somebody may wait for what is owed to him.
    #[cold]
    pub fn rest(&self) {
        self.quiet.set(0);
        self.fm.acknowledge();
        self.fm.time_passed();
    }

    pub fn has_unsent(&self) -> bool {
        self.fm.has_unsent()
    }

    pub fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.fm.take_faults()
    }

    pub fn lose(&self, peer: Peer) {
        self.fm.lose(peer);
    }
}

/// A put by `peer`.
#[inline(always)]
fn take<M: farpost_fabric::LocalMemory + Clone>(
    exports: &Exports<M>,
    peer: Peer,
    message: &[u8],
) -> Result<(), FabricError> {
    let Some((header, bytes)) = message.split_first_chunk::<HEADER>() else {
        return Err(FabricError::Corrupt {
            peer,
            what: "the length of a put",
            value: message.len() as u64,
        });
    };
    let header = u64::from_le_bytes(*header);
    exports.write(peer, header as u32, (header >> 32) as usize, bytes)
}
