//! Which receive belongs to which send (MPI-5.0 section 4.2.1): per process, in the order in which both were made.

use super::room::Room;
use super::{Channel, HELLO_TAG, Side};
use crate::Error;
use crate::carrier::Engine;
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Peer};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// What a send tells its receiver when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The communicator and the program's tag: what it is matched by.
    pub context: u64,
    pub tag: i32,
    /// Tag of the messages between the two.
    pub pair: i32,
    /// Among all sends of that process.
    pub serial: u64,
    /// Bytes of all partitions.
    pub total: u64,
}

pub(super) const HELLO_BYTES: usize = 32;

impl Hello {
    pub(super) fn to_bytes(self) -> Box<[u8]> {
        let tags = u64::from(self.tag.cast_unsigned()) | u64::from(self.pair.cast_unsigned()) << 32;
        let words = [self.context, tags, self.serial, self.total];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// `None`: it cannot be one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let &[context, tags, serial, total] = words else {
            return None;
        };
        let tags = u64::from_le_bytes(tags);
        let hello = Self {
            context: u64::from_le_bytes(context),
            tag: (tags as u32).cast_signed(),
            pair: ((tags >> 32) as u32).cast_signed(),
            serial: u64::from_le_bytes(serial),
            total: u64::from_le_bytes(total),
        };
        (hello.tag >= 0 && hello.pair > HELLO_TAG && hello.total <= i64::MAX as u64).then_some(hello)
    }
}

/// A receive that no send has been found for. One that the program has freed still takes the send that is its own.
struct Expected {
    context: u64,
    tag: i32,
    channel: Weak<Channel>,
}

/// Sends that a process has told of, and receives that expect one from it.
#[derive(Default)]
pub(super) struct Meeting {
    expected: VecDeque<Expected>,
    told: VecDeque<Hello>,
    /// The receive of the next.
    next: Option<(usize, Room)>,
}

impl Meeting {
    /// A receive was made.
    pub(super) fn expect(&mut self, channel: &Rc<Channel>) {
        let (context, tag) = (channel.comm.context, channel.tag);
        let fits = |hello: &Hello| (hello.context, hello.tag) == (context, tag);
        if let Some(hello) = self
            .told
            .iter()
            .position(fits)
            .and_then(|at| self.told.remove(at))
        {
            join(channel, hello);
            return;
        }
        self.expected.push_back(Expected {
            context,
            tag,
            channel: Rc::downgrade(channel),
        });
    }

    /// Look what the process has told, as long as a receive expects something of it.
    ///
    /// # Errors
    /// It is lost, or told what cannot be right.
    pub(super) fn look<F: Fabric>(&mut self, engine: &mut Engine<F>, slot: usize, peer: Peer) -> Result<()> {
        while !self.expected.is_empty() {
            let (handle, room) = match self.next.take() {
                Some(posted) => posted,
                None => {
                    let room = Room::new(HELLO_BYTES);
                    let handle = engine.irecv(slot, room.recv_buf(), peer.0 as Rank, HELLO_TAG)?;
                    (handle, room)
                }
            };
            let Some(status) = engine.reap(handle) else {
                self.next = Some((handle, room));
                return Ok(());
            };
            if let Some(error) = status.error {
                return Err(*error);
            }
            let Some(hello) = Hello::from_bytes(room.bytes()) else {
                return Err(corrupt(peer, "a partitioned send"));
            };
            let fits = |expected: &Expected| (expected.context, expected.tag) == (hello.context, hello.tag);
            match self.expected.iter().position(fits) {
                None => self.told.push_back(hello),
                Some(at) => {
                    let expected = self.expected.remove(at);
                    if let Some(channel) = expected.and_then(|expected| expected.channel.upgrade()) {
                        join(&channel, hello);
                    }
                }
            }
        }
        Ok(())
    }
}

fn join(channel: &Channel, hello: Hello) {
    if let Side::Receive(receiving) = &mut *channel.side.borrow_mut() {
        receiving.join(hello);
    }
}

/// A process sent what cannot be right.
#[cold]
pub(super) fn corrupt(peer: Peer, what: &str) -> Error {
    error!(ERR_INTERN: "{peer} sent what cannot be right about {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_from_its_bytes_and_malformed_ones_do_not() {
        let hello = Hello {
            context: 0x1234_5678_9abc,
            tag: i32::MAX,
            pair: 77,
            serial: 5,
            total: 1 << 40,
        };
        let bytes = hello.to_bytes();
        assert_eq!(bytes.len(), HELLO_BYTES);
        assert_eq!(Hello::from_bytes(&bytes), Some(hello));
        assert_eq!(Hello::from_bytes(&bytes[1..]), None);
        assert_eq!(Hello::from_bytes(&[0xff; HELLO_BYTES]), None);
        assert_eq!(Hello::from_bytes(&[0; HELLO_BYTES]), None);
    }
}
