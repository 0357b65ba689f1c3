//! Receive regions of VI mode (section 5.2): memory of the program's, megabytes of it, into which high-priority messages are deposited
//! one behind the other until it is exhausted, with no further action of the program's. It may look there without a call.
//!
//! Where the paper says nothing: what is deposited are messages of high priority by PIO and those of batches, each sender's of one kind in order.
//! While a region has room, they go there and nowhere else. Several may be armed, to be filled one after the other.
//!
//! ```text
//! word 0   0: nothing here yet; 255: no more in this region; else words of payload
//! word 1   the sender        word 2   the user's word        word 3   its number in the region, from 0
//! words 4..  the payload; the next message begins at the next multiple of 16 bytes
//! ```
//!
//! Word 0 is written last, after that of the next place was cleared: whoever reads it first, in order, sees whole messages. A region is exhausted when the
//! longest message does not fit any more, so that no message has to be put back.
//!
//! Cost class: queued path; one copy.

use crate::message::Message;
use crate::{JamError, MAX_WORDS};
use farpost_fabric::{Peer, Priority};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the address and the length of a region are multiples of, and where messages begin in it.
pub const ALIGNMENT: usize = 16;
/// Bytes of the longest message in a region: no region is shorter.
pub const LONGEST: usize = (16 + 4 * MAX_WORDS).next_multiple_of(ALIGNMENT);
/// In word 0 of a message: there are no more.
pub const END: u32 = 255;

enum Words {
    Own(Box<[AtomicU32]>),
    Lent(*const AtomicU32, usize),
}

/// Memory for messages. Clones are the same memory.
#[derive(Clone)]
pub struct Region(Rc<Words>);

impl Region {
    /// New memory of so many bytes, rounded down to [`ALIGNMENT`].
    pub fn new(bytes: usize) -> Self {
        let words = bytes / ALIGNMENT * ALIGNMENT / 4;
        Region(Rc::new(Words::Own(
            (0..words).map(|_| AtomicU32::new(0)).collect(),
        )))
    }

    /// Memory of the program's.
    ///
    /// # Safety
    /// `address` for `len` bytes stays valid as long as this value or a clone of it lives, and the program only reads it meanwhile.
    ///
    /// # Panics
    /// When the address is no multiple of [`ALIGNMENT`].
    pub unsafe fn lent(address: *mut u8, len: usize) -> Self {
        assert!(
            address.addr().is_multiple_of(ALIGNMENT),
            "a region begins at {address:p}"
        );
        Region(Rc::new(Words::Lent(
            address.cast(),
            len / ALIGNMENT * ALIGNMENT / 4,
        )))
    }

    fn words(&self) -> &[AtomicU32] {
        match &*self.0 {
            Words::Own(words) => words,
            // SAFETY: `lent` promises that the memory is there and that nobody writes it but by this value; it is aligned to more.
            Words::Lent(address, len) => unsafe { std::slice::from_raw_parts(*address, *len) },
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        4 * self.words().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it is.
    pub fn address(&self) -> usize {
        self.words().as_ptr().addr()
    }

    /// The message at byte `at`, if it is there, and where the next begins: a look at the memory and at nothing else. A message that cannot be is none.
    pub fn look(&self, at: usize) -> Option<(Message, usize)> {
        let place = self.words().get(at / 4..)?;
        let count = place.first()?.load(Ordering::Acquire) as usize;
        if count == 0 || count > MAX_WORDS {
            return None;
        }
        let place = place.get(..4 + count)?;
        let word = |at: usize| place[at].load(Ordering::Relaxed);
        let mut message = Message::of(Peer(word(1)), Priority::High, word(2), &[]);
        message.fill((4..4 + count).map(word));
        Some((message, at + (16 + 4 * count).next_multiple_of(ALIGNMENT)))
    }

    /// Whether there are no messages at byte `at` and will be none: the region is exhausted.
    pub fn ends_at(&self, at: usize) -> bool {
        match self.words().get(at / 4) {
            Some(word) => word.load(Ordering::Acquire) == END,
            None => true,
        }
    }

    /// Say what comes at byte `at`, unless the region ends there.
    fn mark(&self, at: usize, mark: u32) {
        if let Some(word) = self.words().get(at / 4) {
            word.store(mark, Ordering::Release);
        }
    }

    fn write(&self, at: usize, head: [u32; 3], payload: &[u8]) -> usize {
        let (words, _) = payload.as_chunks::<4>();
        let place = &self.words()[at / 4..];
        let all = head
            .into_iter()
            .chain(words.iter().map(|word| u32::from_le_bytes(*word)));
        for (to, word) in place[1..].iter().zip(all) {
            to.store(word, Ordering::Relaxed);
        }
        let next = at + (16 + payload.len()).next_multiple_of(ALIGNMENT);
        let last = self.len() - next < LONGEST;
        self.mark(next, if last { END } else { 0 });
        self.mark(at, words.len() as u32);
        next
    }
}

/// Names a region that was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Armed(u64);

struct ArmedRegion {
    name: Armed,
    region: Region,
    written: usize,
    read: usize,
    messages: u32,
}

impl ArmedRegion {
    fn is_full(&self) -> bool {
        self.region.len() - self.written < LONGEST
    }
}

/// The regions of one process.
#[derive(Default)]
pub(crate) struct Regions {
    list: RefCell<VecDeque<ArmedRegion>>,
    /// Whether one has room: one look on the fast path.
    armed: Cell<bool>,
    next: Cell<u64>,
}

impl Regions {
    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.armed.get()
    }

    pub fn arm(&self, region: Region) -> Result<Armed, JamError> {
        if region.len() < LONGEST {
            return Err(JamError::Region(region.len()));
        }
        let name = Armed(self.next.get());
        self.next.set(name.0 + 1);
        region.mark(0, 0);
        self.list.borrow_mut().push_back(ArmedRegion {
            name,
            region,
            written: 0,
            read: 0,
            messages: 0,
        });
        self.armed.set(true);
        Ok(name)
    }

    /// Put a message behind the others. There is room.
    pub fn deposit(&self, from: Peer, tag: u32, payload: &[u8]) {
        let list = &mut *self.list.borrow_mut();
        let mut room = list.iter_mut().filter(|armed| !armed.is_full());
        let Some(armed) = room.next() else { return };
        armed.written = armed
            .region
            .write(armed.written, [from.0, tag, armed.messages], payload);
        armed.messages += 1;
        let more = !armed.is_full() || room.next().is_some();
        self.armed.set(more);
    }

    /// The next message that nobody has taken.
    pub fn take(&self) -> Option<Message> {
        let list = &mut *self.list.borrow_mut();
        let armed = list.iter_mut().find(|armed| armed.read < armed.written)?;
        let (message, next) = armed.region.look(armed.read)?;
        armed.read = next;
        Some(message)
    }

    /// The oldest region, if it is exhausted and all of it was taken.
    pub fn exhausted(&self) -> Option<(Armed, Region)> {
        let list = &mut *self.list.borrow_mut();
        list.front()
            .filter(|first| first.is_full() && first.read == first.written)?;
        list.pop_front().map(|first| (first.name, first.region))
    }

    pub fn disarm(&self, name: Armed) -> Option<(Region, usize)> {
        let list = &mut *self.list.borrow_mut();
        let at = list.iter().position(|armed| armed.name == name)?;
        let armed = list.remove(at)?;
        self.armed.set(list.iter().any(|armed| !armed.is_full()));
        if !armed.is_full() {
            armed.region.mark(armed.written, END);
        }
        Some((armed.region, armed.written))
    }
}
