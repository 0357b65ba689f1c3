//! MPI over Fast Messages: every put is a message of FM 2.x in one frame, so that puts to one peer stay in order.
//!
//! ```text
//! bytes 0..4  number of the receiver's segment
//! bytes 4..8  where in it
//! bytes 8..   what to write there
//! ```
//!
//! Long messages that are one run go from buffer to buffer ([`gets`](super::gets)).
//!
//! A postbox of a message of 8 bytes is 4 words: the frame is one line of a packet queue in shared memory.
//!
//! Cost class: *fast path* while there is room.

use super::Offered;
use super::exports::Exports;
use super::gets::{self, Gets};
use farpost_fabric::{Fabric, FabricError, Fault, Peer, Port, RemoteMemory};
use farpost_fm::{FRAME_PAYLOAD, Fm, FmError, FmTunables};
use std::cell::Cell;
use std::rc::Rc;

/// Numbers of the handlers.
const PUT: u32 = 0;
const GET: u32 = 1;
const PIECE: u32 = 2;
const REFUSED: u32 = 3;
const HANDLERS: u32 = 4;
/// Bytes before those to be written.
const HEADER: usize = 8;
/// Polls in a row that find nothing after which all that is owed is acknowledged: longer than an answer takes to
/// come, which acknowledges by the way.
const QUIET: u32 = 512;

/// This process's node.
pub(super) struct ByFm<F: Fabric + 'static> {
    fm: Fm<F>,
    pub gets: Rc<Gets>,
    quiet: Cell<u32>,
}

/// What sends the frames of transfers. Each says whether it went; not to a peer that is lost.
pub(super) trait Sends {
    fn get(&self, to: Peer, name: u64, ask: &[u64; 3]) -> bool;
    fn piece(&self, to: Peer, header: u64, bytes: &[u8]) -> bool;
    fn refuse(&self, to: Peer, name: u64) -> bool;
}

impl<F: Fabric + 'static> Sends for Fm<F> {
    fn get(&self, to: Peer, name: u64, ask: &[u64; 3]) -> bool {
        let ask = ask.map(u64::to_le_bytes);
        self.try_send_in_order(to.0, GET, name, ask.as_flattened()) == Ok(true)
    }

    #[inline(always)]
    fn piece(&self, to: Peer, header: u64, bytes: &[u8]) -> bool {
        self.try_send_in_order(to.0, PIECE, header, bytes) == Ok(true)
    }

    fn refuse(&self, to: Peer, name: u64) -> bool {
        self.try_send_in_order(to.0, REFUSED, name, &[]) == Ok(true)
    }
}

const _: () = assert!(gets::PIECE + HEADER <= FRAME_PAYLOAD);

impl<F: Fabric + 'static> ByFm<F> {
    /// Bytes that one message writes at most.
    pub const MOST: usize = FRAME_PAYLOAD - HEADER;

    pub fn new(
        fabric: Rc<F>,
        tunables: &FmTunables,
        exports: Rc<Exports<<F as RemoteMemory>::Export>>,
    ) -> Self {
        let fm = Fm::on_port(fabric, tunables, HANDLERS, Port::Device);
        let gets = Rc::new(Gets::new());
        handle(&fm, PUT, move |peer, message| take(&exports, peer, message));
        let of = Rc::clone(&gets);
        handle(&fm, GET, move |peer, message| of.on_get(peer, message));
        let of = Rc::clone(&gets);
        handle(&fm, PIECE, move |peer, message| of.on_piece(peer, message));
        let of = Rc::clone(&gets);
        handle(&fm, REFUSED, move |peer, message| of.on_refused(peer, message));
        Self {
            fm,
            gets,
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
        if self.gets.has_unsent() && self.gets.push(&self.fm) {
            return frames + 1;
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
        self.fm.has_unsent() || self.gets.has_unsent()
    }

    pub fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.fm.take_faults()
    }

    pub fn lose(&self, peer: Peer) {
        self.fm.lose(peer);
        self.gets.lose(peer);
    }
}

/// Register what takes messages for handler `number`; what it refuses is a fault.
fn handle<F: Fabric + 'static>(
    fm: &Fm<F>,
    number: u32,
    take: impl Fn(Peer, &[u8]) -> Result<(), FabricError> + 'static,
) {
    let handler = move |fm: &Fm<F>, peer: Peer, message: &[u8]| {
        if let Err(error) = take(peer, message) {
            fm.fabric().record_fault(Fault { peer, error });
        }
    };
    fm.register_message_handler(number, handler)
        .expect("the table has a place for it");
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
