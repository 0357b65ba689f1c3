//! VI mode (section 5.2): messages are written one behind the other to memory and launched by the batch; they arrive
//! in a large ring in the receiver's memory, which fills while its owner computes.
//!
//! Chosen where the paper is silent: each sender has a ring of its own in the receiver's memory
//! (`FARPOST_JAM_VI_RING`), made at its first batch; pages that nobody writes cost nothing. A batch is one write of
//! all its messages and one word, the doorbell, which says how far the ring is valid: that is how the receiver
//! recognises the end. Messages are packed, each with a header of 8 bytes. The receiver returns credit when it has read a quarter of the ring.
//!
//! ```text
//! offset 0   bytes written so far (the doorbell)       offset 64.. the ring
//! message    bits 0..16 words of payload, 16..32 check, 32..64 the user's word; then the payload, in units of 8 bytes
//! ```
//!
//! A receiver with memory of its own for what comes has it there instead: see [`crate::region`].
//!
//! Cost class: queued path; one doorbell line and one copy each way per batch.

use crate::faults::Faults;
use crate::message::{Header, Message, Service};
use crate::pio::Pio;
use crate::{JamError, MAX_WORDS, MIN_WORDS, crc16};
use farpost_fabric::{
    Access, Cost, Fabric, FabricError, Fault, LINE_BYTES, LocalMemory, Peer, Permission, Priority, Remote,
    SegmentId,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const OPEN: u32 = 0;
const READY: u32 = 1;
const CREDIT: u32 = 2;

/// Segments of rings: this, and the number of the sender.
const RING_FOR: u32 = 0x7a00_0000;
/// In the place of a number of words: the rest of the ring is not used, go on at its beginning.
const SKIP: u64 = 0xffff;

/// Messages to be launched by one doorbell.
pub struct Batch {
    to: Peer,
    bytes: Vec<u8>,
    /// Where each begins, to find a place to break at the ring's end.
    starts: Vec<usize>,
}

impl Batch {
    /// An empty batch for `to`.
    pub fn new(to: Peer) -> Self {
        Self {
            to,
            bytes: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// For whom, how many messages, and their bytes in the ring.
    pub(crate) fn amount(&self) -> (Peer, usize, usize) {
        (self.to, self.starts.len(), self.bytes.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Add a message of 2 to 22 words.
    ///
    /// # Errors
    /// Too few or too many words.
    pub fn push(&mut self, tag: u32, payload: &[u32]) -> Result<(), JamError> {
        if !(MIN_WORDS..=MAX_WORDS).contains(&payload.len()) {
            return Err(JamError::Length(payload.len()));
        }
        self.starts.push(self.bytes.len());
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        for word in payload {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        let check = crc16::of(&self.bytes[at + 4..]);
        self.bytes[at..at + 2].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        self.bytes[at + 2..at + 4].copy_from_slice(&check.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }
}

/// A ring of mine at a receiver.
struct Outgoing<I> {
    ring: Option<I>,
    size: u64,
    asked: bool,
    written: u64,
    /// What the receiver has said it has read.
    read: u64,
    lost: bool,
}

/// A sender's ring here.
struct Incoming<E> {
    from: Peer,
    ring: E,
    read: u64,
    /// How far it is known to be written.
    written: u64,
    /// What its sender was told of `read`.
    said: u64,
    closed: bool,
}

/// A message taken from a ring.
struct RingMessage {
    from: Peer,
    tag: u32,
    len: usize,
    /// The user's word and the payload.
    body: [u8; 4 + 4 * MAX_WORDS],
}

impl RingMessage {
    fn payload(&self) -> &[u8] {
        &self.body[4..4 + self.len]
    }
}

/// The rings of one process.
pub struct Vi<F: Fabric> {
    fabric: Rc<F>,
    faults: Rc<Faults<F>>,
    size: u64,
    outgoing: RefCell<BTreeMap<Peer, Outgoing<F::Import>>>,
    incoming: RefCell<Vec<Incoming<F::Export>>>,
}

impl<F: Fabric> Vi<F> {
    pub(crate) fn new(faults: Rc<Faults<F>>, fabric: Rc<F>, ring: u64) -> Self {
        Self {
            fabric,
            faults,
            size: ring.next_power_of_two(),
            outgoing: RefCell::new(BTreeMap::new()),
            incoming: RefCell::new(Vec::new()),
        }
    }

    /// Launch all messages of a batch, which is empty afterwards. False: the ring has no room for it yet, or is not
    /// set up yet; poll, then try again.
    ///
    /// # Errors
    /// The batch is longer than half the ring, the receiver does not exist or has ended.
    pub fn doorbell(&self, pio: &Pio<F>, batch: &mut Batch) -> Result<bool, JamError> {
        let (to, size) = (batch.to, self.fabric.size());
        if to.0 >= size {
            return Err(JamError::NoSuchPeer { peer: to, size });
        }
        if batch.is_empty() {
            return Ok(true);
        }
        let outgoing = &mut *self.outgoing.borrow_mut();
        let ring = outgoing.entry(to).or_insert(Outgoing {
            ring: None,
            size: 0,
            asked: false,
            written: 0,
            read: 0,
            lost: false,
        });
        if ring.lost {
            return Err(JamError::PeerEnded(to));
        }
        let Some(import) = &ring.ring else {
            if !ring.asked {
                let header = Header::new(to, Priority::Low, OPEN);
                ring.asked = pio.send_as(&header, Service::Vi, &[0, 0]).is_ok();
            } else if self.fabric.is_gone(to) {
                ring.lost = true;
            }
            return Ok(false);
        };
        if batch.bytes.len() as u64 > ring.size / 2 {
            return Err(JamError::TooLong {
                what: "a batch",
                bytes: batch.bytes.len(),
                most: ring.size as usize / 2,
            });
        }
        let at = ring.written & (ring.size - 1);
        let to_end = (ring.size - at) as usize;
        // Messages are not broken at the end of the ring.
        let front = if batch.bytes.len() <= to_end {
            batch.bytes.len()
        } else {
            let fits = batch.starts.iter().rev().find(|start| **start <= to_end);
            fits.copied().unwrap_or(0)
        };
        let rest = batch.bytes.len() - front;
        let skipped = if rest > 0 { to_end - front } else { 0 };
        let needed = (batch.bytes.len() + skipped) as u64;
        if ring.written + needed - ring.read > ring.size {
            if self.fabric.is_gone(to) {
                ring.lost = true;
            }
            return Ok(false);
        }
        // Where messages were gathered there is no fabric to charge.
        self.fabric.charge(Cost::Copy(batch.bytes.len()));
        let base = LINE_BYTES + at as usize;
        import.put(base, &batch.bytes[..front])?;
        if skipped >= 8 {
            import.put(base + front, &SKIP.to_le_bytes())?;
        }
        if rest > 0 {
            import.put(LINE_BYTES, &batch.bytes[front..])?;
        }
        import.order()?;
        ring.written += needed;
        import.put_word(0, ring.written)?;
        self.fabric.wake(to);
        batch.clear();
        Ok(true)
    }

    /// A message of this protocol.
    pub(crate) fn on_message(&self, pio: &Pio<F>, message: &Message) {
        let from = message.from;
        let value = u64::from(message.words()[0]) | u64::from(message.words()[1]) << 32;
        let high = message.priority == Priority::High;
        match message.tag {
            OPEN if !high => self.open(pio, from),
            READY if high => self.ready(pio, from, value),
            CREDIT if high => {
                let outgoing = &mut *self.outgoing.borrow_mut();
                match outgoing.get_mut(&from) {
                    Some(ring) if value >= ring.read && value <= ring.written => ring.read = value,
                    _ => pio.refuse(from, "what was read of a ring", value),
                }
            }
            kind => pio.refuse(from, "a message about a ring", u64::from(kind)),
        }
    }

    fn open(&self, pio: &Pio<F>, from: Peer) {
        let incoming = &mut *self.incoming.borrow_mut();
        if incoming.iter().any(|ring| ring.from == from) {
            return pio.refuse(from, "a second ring", 0);
        }
        let access = Access::Only(vec![(from, Permission::ReadWrite)]);
        let bytes = LINE_BYTES + self.size as usize;
        match self.fabric.export(SegmentId(RING_FOR + from.0), bytes, access) {
            Ok(ring) => incoming.push(Incoming {
                from,
                ring,
                read: 0,
                written: 0,
                said: 0,
                closed: false,
            }),
            Err(error) => return self.faults.record(Fault { peer: from, error }),
        }
        let header = Header::new(from, Priority::High, READY);
        let words = [self.size as u32, (self.size >> 32) as u32];
        if let Err(error) = pio.send_as(&header, Service::Vi, &words) {
            // 20 messages wait for somebody: this sender is told when it asks again.
            let why = error.to_string();
            self.faults.record(Fault {
                peer: from,
                error: FabricError::PutFailed { peer: from, why },
            });
        }
    }

    fn ready(&self, pio: &Pio<F>, from: Peer, size: u64) {
        let outgoing = &mut *self.outgoing.borrow_mut();
        let Some(ring) = outgoing
            .get_mut(&from)
            .filter(|ring| ring.asked && ring.ring.is_none())
        else {
            return pio.refuse(from, "a ring that nobody asked for", size);
        };
        if !size.is_power_of_two() || !(4096..=1 << 30).contains(&size) {
            return pio.refuse(from, "the size of a ring", size);
        }
        let id = SegmentId(RING_FOR + self.fabric.me().0);
        match self
            .fabric
            .import(from, id, LINE_BYTES + size as usize, Permission::ReadWrite)
        {
            Ok(import) => {
                ring.ring = Some(import);
                ring.size = size;
            }
            Err(error) => {
                ring.lost = true;
                self.faults.record(Fault { peer: from, error });
            }
        }
    }

    /// Hand at most `most` messages that have come to `take`, with sender, word and payload. How many there were.
    /// `take` may call anything of this process's interface.
    pub fn receive(&self, pio: &Pio<F>, most: usize, mut take: impl FnMut(Peer, u32, &[u32])) -> usize {
        let (mut count, mut ring) = (0, 0);
        while count < most
            && self.receive_bytes(pio, &mut ring, |from, tag, payload| {
                let mut words = [0; MAX_WORDS];
                let (parts, _) = payload.as_chunks::<4>();
                for (to, part) in words.iter_mut().zip(parts) {
                    *to = u32::from_le_bytes(*part);
                }
                take(from, tag, &words[..parts.len()]);
            })
        {
            count += 1;
        }
        count
    }

    /// Hand the next message that has come to `take`, its payload as it travels; of the rings from `index` on, which is set to the one it came in. False:
    /// there is none.
    pub(crate) fn receive_bytes(
        &self,
        pio: &Pio<F>,
        index: &mut usize,
        take: impl FnOnce(Peer, u32, &[u8]),
    ) -> bool {
        let message = loop {
            let next = match self.incoming.borrow_mut().get_mut(*index) {
                Some(ring) => self.next(pio, ring),
                None => return false,
            };
            match next {
                Some(message) => break message,
                None => *index += 1,
            }
        };
        take(message.from, message.tag, message.payload());
        true
    }

    /// The next message of a ring. Without one, credit is returned if enough of the ring was read.
    fn next(&self, pio: &Pio<F>, ring: &mut Incoming<F::Export>) -> Option<RingMessage> {
        while !ring.closed {
            if ring.read == ring.written {
                self.fabric.charge(Cost::Poll);
                ring.written = ring.ring.load(0);
                let ahead = ring.written.wrapping_sub(ring.read);
                if ahead == 0 {
                    break;
                }
                if ahead > self.size || !ring.written.is_multiple_of(8) {
                    ring.closed = true;
                    pio.refuse(ring.from, "how far a ring is written", ring.written);
                    break;
                }
            }
            let at = (ring.read & (self.size - 1)) as usize;
            let to_end = self.size as usize - at;
            let there = (ring.written - ring.read) as usize;
            let head = ring.ring.load(LINE_BYTES + at);
            let words = (head & 0xffff) as usize;
            if words == SKIP as usize && there > to_end {
                ring.read += to_end as u64;
                continue;
            }
            let bytes = (8 + 4 * words).next_multiple_of(8);
            if !(MIN_WORDS..=MAX_WORDS).contains(&words) || bytes > there || bytes > to_end {
                ring.closed = true;
                pio.refuse(ring.from, "the length of a message in a ring", head);
                break;
            }
            let mut copy = [0; 4 + 4 * MAX_WORDS];
            let body = &mut copy[..4 + 4 * words];
            self.fabric.charge(Cost::Copy(body.len()));
            ring.ring.read(LINE_BYTES + at + 4, body);
            ring.read += bytes as u64;
            let check = (head >> 16) as u16;
            if crc16::of(body) != check {
                pio.refuse(ring.from, "the check of a message in a ring", u64::from(check));
                continue;
            }
            let (tag, _) = body.split_first_chunk().expect("the user's word");
            let taken = RingMessage {
                from: ring.from,
                tag: u32::from_le_bytes(*tag),
                len: 4 * words,
                body: copy,
            };
            return Some(taken);
        }
        if ring.read - ring.said >= self.size / 4 {
            let header = Header::new(ring.from, Priority::High, CREDIT);
            let words = [ring.read as u32, (ring.read >> 32) as u32];
            if pio.send_as(&header, Service::Vi, &words).is_ok() {
                ring.said = ring.read;
            }
        }
        None
    }

    /// Whether a message waits in some ring: for those about to sleep.
    pub(crate) fn waiting(&self) -> bool {
        let incoming = self.incoming.borrow();
        incoming
            .iter()
            .any(|ring| !ring.closed && (ring.written != ring.read || ring.ring.load(0) != ring.read))
    }
}
