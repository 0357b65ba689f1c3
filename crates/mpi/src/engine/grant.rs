//! What a receiver lets a sender write to, where both copy a long message (`long/copy.rs`).
//!
//! The rendezvous slot that both use lies in memory which third processes map too: an address found there may be anything. So the
//! line tells only where, in the receiver's own memory, the grant lies, and the sender fetches it from there as it fetches bytes
//! (the kernel vouches for whose memory that is). It holds only if the line is still open after that (`RendezvousSlot::record`): else it
//! may have been half this grant and half the next one in its place. A grant names whom it is for and which message; what is not such a grant
//! is none, and then the receiver copies alone.

use super::bulk;
use farpost_channel::Record;
use farpost_fabric::{Fabric, Peer};

const WORDS: usize = 8;
/// Grants at a time: as many as there are rendezvous slots.
const SLOTS: usize = 256;
/// "grant" and the version of this layout.
const MAGIC: u64 = 0x0001_746e_6172_6700;

/// A message: who sends it, by which of its rendezvous slots, and its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub sender: Peer,
    pub line: u32,
    pub request: u64,
}

/// Where its bytes may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub address: u64,
    pub bytes: u64,
    pub chunk: u64,
}

fn words(at: u64, message: &Message, grant: &Grant) -> [u64; WORDS] {
    let whom = u64::from(message.sender.0) << 32 | u64::from(message.line);
    let Grant {
        address,
        bytes,
        chunk,
    } = *grant;
    [MAGIC, at, whom, message.request, address, bytes, chunk, !MAGIC]
}

/// The grants of a process, which stay where they are.
#[derive(Default)]
pub(crate) struct Grants {
    records: Option<Box<[Record; SLOTS]>>,
    free: Vec<u16>,
}

impl Grants {
    /// Grant: its number here and its address. None: as many as there may be.
    pub fn give(&mut self, message: &Message, grant: &Grant) -> Option<(u16, u64)> {
        let free = &mut self.free;
        let records = self.records.get_or_insert_with(|| {
            *free = (0..SLOTS as u16).rev().collect();
            Box::new(std::array::from_fn(|_| Record::default()))
        });
        let slot = free.pop()?;
        let record = &records[usize::from(slot)];
        // From here on another process may read it.
        let at = std::ptr::from_ref(record).expose_provenance() as u64;
        record.write(&words(at, message, grant));
        Some((slot, at))
    }

    /// Nobody may begin to write there any more: the line is closed, or the peer is lost.
    pub fn take_back(&mut self, slot: u16) {
        if let Some(records) = &self.records {
            records[usize::from(slot)].clear();
            self.free.push(slot);
        }
    }
}

/// What `receiver` grants for a message, if that lies at `at` in its memory.
pub(crate) fn fetch<F: Fabric>(fabric: &F, receiver: Peer, at: u64, message: &Message) -> Option<Grant> {
    if at == 0 {
        return None;
    }
    let mut bytes = [0; 8 * WORDS];
    bulk::get(fabric, receiver, at, &mut bytes).ok()?;
    let mut found = [0; WORDS];
    for (word, at) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(at.try_into().expect("eight bytes"));
    }
    let grant = Grant {
        address: found[4],
        bytes: found[5],
        chunk: found[6],
    };
    (found == words(at, message, &grant) && grant.chunk != 0).then_some(grant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_shm::ShmTunables;
    use farpost_shm::conformance::shm_ends;

    const MESSAGE: Message = Message {
        sender: Peer(0),
        line: 5,
        request: 77,
    };
    const GRANT: Grant = Grant {
        address: 0x1234_5678,
        bytes: 1 << 20,
        chunk: 1 << 16,
    };

    #[test]
    fn a_grant_is_for_one_message_and_while_it_lasts() {
        let ends = shm_ends(2, &ShmTunables::default());
        let mut grants = Grants::default();
        let (slot, at) = grants.give(&MESSAGE, &GRANT).expect("room");
        let fetch = |at, message: &Message| fetch(&ends[0], Peer(1), at, message);
        assert_eq!(fetch(at, &MESSAGE), Some(GRANT));
        for other in [
            Message {
                sender: Peer(1),
                ..MESSAGE
            },
            Message { line: 6, ..MESSAGE },
            Message {
                request: 78,
                ..MESSAGE
            },
        ] {
            assert_eq!(fetch(at, &other), None);
        }
        // A copy of it elsewhere, beside it, nothing, and no memory at all.
        let copy = grants.records.as_ref().expect("made")[usize::from(slot)].words();
        assert_eq!(fetch(copy.as_ptr().expose_provenance() as u64, &MESSAGE), None);
        for wrong in [0, at + 8, at.wrapping_sub(64), 8, u64::MAX - 63, 1 << 63] {
            assert_eq!(fetch(wrong, &MESSAGE), None, "{wrong:#x}");
        }
        grants.take_back(slot);
        assert_eq!(fetch(at, &MESSAGE), None);
        let all: Vec<_> = std::iter::from_fn(|| grants.give(&MESSAGE, &GRANT)).collect();
        assert_eq!(all.len(), SLOTS);
        assert_eq!(fetch(all[9].1, &MESSAGE), Some(GRANT));
    }
}
