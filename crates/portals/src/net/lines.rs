//! Channels of lines between processes that map each other's memory: what is put there arrives once and in order, so nothing is
//! numbered, copied, acknowledged or sent again for it. The receiver refuses nothing: what it cannot take now it leaves where
//! it is, and takes it later.
//!
//! Each channel has queues of its own, so that an answer never waits behind a request. A queue has one writer, which only stores.
//!
//! ```text
//! word 0      bits 0..32 the channel's number, 32..40 form, 40..48 bytes of header, 48..56 bytes in all
//! word 1..    SHORT: header, body; PACKET: a packet, as on packet queues
//! ```
//! More than 56 bytes take further lines, whose first words hold a number only.
//!
//! Cost class: *fast path*, but for [`Lines::hear`] and [`Lines::give_back`].

use super::tunables::NetTunables;
use super::upper::HEADER_BYTES;
use crate::malformed::{self, Malformed};
use crate::owner::Owner;
use farpost_channel::{ChannelTunables, Next, Postboxes, Service};
use farpost_fabric::{Fabric, LINE_BYTES, Line, Moment, PACKET_BYTES, Peer, Port, Priority};
use std::rc::Rc;

/// Bytes that a line carries.
pub const LINE_HOLDS: usize = LINE_BYTES - 8;
/// Most lines of a message.
const MOST: usize = PACKET_BYTES.div_ceil(LINE_HOLDS);
/// The segments of the channels, of answers and of requests.
const SEGMENTS: [u32; 2] = [0x7b10_0000, 0x7b20_0000];

/// What lines hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// A header and a body that comes whole with it.
    Short = 1,
    /// A packet: of a message whose body does not come with its header, or a part of a body.
    Packet = 2,
}

/// What the first line of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Title {
    pub form: Form,
    pub header: usize,
    pub bytes: usize,
}

impl Title {
    #[inline(always)]
    fn word(self) -> u64 {
        (self.form as u64) << 32 | (self.header as u64) << 40 | (self.bytes as u64) << 48
    }

    /// Of a first word as it came.
    #[inline(always)]
    pub fn read(word: u64) -> Result<Self, Malformed> {
        let malformed = |what| Malformed { what, value: word };
        let form = match (word >> 32) as u8 {
            1 => Form::Short,
            2 => Form::Packet,
            _ => return Err(malformed("the form of Portals lines")),
        };
        let (header, bytes) = (usize::from((word >> 40) as u8), usize::from((word >> 48) as u8));
        if bytes > PACKET_BYTES || header > bytes.min(HEADER_BYTES) || word >> 56 != 0 {
            return Err(malformed("the length of Portals lines"));
        }
        Ok(Self { form, header, bytes })
    }

    /// Bytes of the body, if a first word says that the message is short, of one line, and has a header of `header` bytes.
    #[inline(always)]
    pub fn body_in_line(word: u64, header: usize) -> Option<usize> {
        let bytes = (word >> 48) as usize;
        let is_one = (word >> 32) as u16 == Form::Short as u16 | (header as u16) << 8;
        (is_one && bytes >= header && bytes <= LINE_HOLDS).then(|| bytes - header)
    }

    /// Lines that it takes.
    #[inline(always)]
    pub fn lines(self) -> u32 {
        lines_of(self.bytes) as u32
    }
}

#[inline(always)]
const fn lines_of(bytes: usize) -> usize {
    if bytes <= LINE_HOLDS {
        1
    } else {
        bytes.div_ceil(LINE_HOLDS)
    }
}

/// Bytes in words, as they lie in lines.
pub type Words<const N: usize> = [[u8; 8]; N];

/// The channels of a process.
pub struct Lines<F: Fabric> {
    post: [Postboxes<F>; 2],
    /// By peer, a bit for each channel: what waits cannot be taken now.
    stalled: Box<[u8]>,
    /// Some of that is not 0.
    any_stalled: bool,
    /// By channel, the sender whose messages are looked for first.
    first: [usize; 2],
    /// Whether any process can be reached by lines.
    usable: bool,
    /// Of the packets that connect.
    port: Port,
}

impl<F: Fabric> Lines<F> {
    /// No connections yet.
    pub fn new(fabric: &Rc<F>, owner: Owner, config: &NetTunables) -> Self {
        // Blocks are not used, nor are their pages.
        let tunables = ChannelTunables {
            slots: (config.window * MOST as u64).clamp(16, 4096),
            block: 1024,
            blocks: 8,
        };
        let post = |index: usize| {
            let service = Service {
                control: (owner.channel_port(), Priority::ALL[index]),
                segments: owner.segment(SEGMENTS[index]).0,
                processes: fabric.processes(),
            };
            Postboxes::of_service(Rc::clone(fabric), service, &tunables)
        };
        Self {
            post: [post(0), post(1)],
            stalled: vec![0; fabric.processes() as usize].into(),
            any_stalled: false,
            first: [0; 2],
            usable: reached(&**fabric) > 0,
            port: owner.channel_port(),
        }
    }

    // Sending.

    /// Put a message of one line: `write` writes header and body, which have `header` and `body` bytes. False: something is unusual;
    /// [`put`](Self::put) sees what.
    #[inline(always)]
    pub fn put_line(
        &mut self,
        (to, index): (Peer, usize),
        (header, body): (usize, usize),
        write: impl FnOnce(&mut [[u8; 8]]),
    ) -> bool {
        let Some(lane) = self.post[index].lane(to) else {
            return false;
        };
        let mut words: Words<7> = [[0; 8]; 7];
        write(&mut words);
        let title = Title {
            form: Form::Short,
            header,
            bytes: header + body,
        };
        let [a, b, c, d, e, f, g] = words.map(u64::from_le_bytes);
        let line = [title.word(), a, b, c, d, e, f, g];
        lane.post(line, 1 + (header + body).div_ceil(8), body as u64);
        true
    }

    /// Put `bytes`, of which `payload` are of a body. False: no room.
    #[inline(never)]
    pub fn put(
        &mut self,
        (to, index): (Peer, usize),
        (form, header): (Form, usize),
        bytes: &[u8],
        payload: usize,
    ) -> bool {
        let post = &mut self.post[index];
        let count = lines_of(bytes.len());
        if (post.room(to) as usize) < count {
            return false;
        }
        let title = Title {
            form,
            header,
            bytes: bytes.len(),
        };
        let mut lines: [Line; MOST] = [[0; 8]; MOST];
        for (line, part) in lines.iter_mut().zip(bytes.chunks(LINE_HOLDS)) {
            let (whole, rest) = part.as_chunks::<8>();
            for (to, word) in line[1..].iter_mut().zip(whole) {
                *to = u64::from_le_bytes(*word);
            }
            if !rest.is_empty() {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                line[1 + whole.len()] = u64::from_le_bytes(last);
            }
        }
        lines[0][0] = title.word();
        if count == 1 {
            let words = 1 + bytes.len().div_ceil(8);
            post.post_words(to, &mut lines[0], words, payload as u64);
        } else {
            post.post_run(to, &lines[..count], payload as u64);
        }
        true
    }

    /// Whether `peer` has taken everything.
    pub fn drained(&mut self, peer: Peer) -> bool {
        self.post.iter_mut().all(|post| post.drained(peer))
    }

    /// `peer` has ended: nothing is put there any more.
    #[cold]
    pub fn end(&mut self, peer: Peer) {
        self.post.iter_mut().for_each(|post| post.reap(peer));
    }

    // Receiving.

    /// How many may have put something to a channel.
    #[inline(always)]
    pub fn senders(&self, index: usize) -> usize {
        self.post[index].senders().len()
    }

    /// The next in turn of those in whose lines a message is, answers first: its channel, its turn, and who it is.
    #[inline(always)]
    pub fn next_there(&self) -> Option<(usize, usize, Peer)> {
        for (index, post) in self.post.iter().enumerate() {
            for turn in 0..post.senders().len() {
                let from = self.sender(index, turn)?;
                if post.is_there(from) {
                    return Some((index, turn, from));
                }
            }
        }
        None
    }

    /// One of them, in turn.
    #[inline(always)]
    pub fn sender(&self, index: usize, turn: usize) -> Option<Peer> {
        let senders = self.post[index].senders();
        let at = self.first[index] + turn;
        let at = if at < senders.len() {
            at
        } else {
            at - senders.len()
        };
        senders.get(at).copied()
    }

    /// Next time the one behind this is the first.
    #[inline(always)]
    pub fn begin_behind(&mut self, index: usize, turn: usize) {
        let count = self.senders(index);
        if count == 1 {
            return;
        }
        let next = self.first[index] + turn + 1;
        // Neither is more than the count.
        let next = if next >= count { next - count } else { next };
        self.first[index] = if next >= count { 0 } else { next };
    }

    /// The first line of the next message, if there is one.
    #[inline(always)]
    pub fn next(&mut self, (from, index): (Peer, usize)) -> Option<Next<'_, F>> {
        self.post[index].next(from)
    }

    /// All words of a message of which the first line was seen. None: they are not there yet.
    #[inline(never)]
    pub fn rest(&self, (from, index): (Peer, usize), title: Title) -> Option<Words<{ MOST * 7 }>> {
        let mut words = [[0; 8]; MOST * 7];
        let mut parts = words.chunks_exact_mut(7);
        for number in 0..title.lines() {
            let line = self.post[index].peek_ahead(from, number)?;
            for (to, word) in parts.next()?.iter_mut().zip(&line[1..]) {
                *to = word.to_le_bytes();
            }
        }
        Some(words)
    }

    /// Whether another message waits behind the next one.
    pub fn has_more(&self, (from, index): (Peer, usize), title: Title) -> bool {
        let waiting = self.post[index].waiting(from);
        waiting.is_some_and(|waiting| waiting.first(title.lines()).is_some())
    }

    /// Done with the next message.
    #[inline(always)]
    pub fn consume(&mut self, (from, index): (Peer, usize), title: Title) {
        // The bytes of a body that did not come with its header are counted apart.
        let payload = match title.form {
            Form::Short => title.bytes - title.header,
            Form::Packet => 0,
        };
        self.post[index].consume(from, title.lines(), payload as u64);
    }

    /// What waits can (not) be taken now.
    #[inline(always)]
    pub fn note_stalled(&mut self, (from, index): (Peer, usize), on: bool) {
        if on {
            self.stalled[from.index()] |= 1 << index;
            self.any_stalled = true;
        } else if self.any_stalled {
            self.stalled[from.index()] &= !(1 << index);
        }
    }

    /// What `from` puts cannot be right: nothing more is taken from it.
    #[cold]
    pub fn fail_sender(&mut self, (from, index): (Peer, usize), bad: Malformed) {
        let error = malformed::corrupt(from, bad);
        self.note_stalled((from, index), false);
        self.first[index] = 0;
        self.post[index].fail_sender(from, error);
    }

    /// Whether something waits that was not found to be impossible to take.
    pub fn has_arrived(&self, fabric: &F) -> bool {
        self.usable
            && (0..2).any(|index| {
                let post = &self.post[index];
                let mut senders = post.senders().iter();
                let connects = fabric.packets_waiting(self.port, Priority::ALL[index], 1) > 0;
                connects
                    || post.has_resumed()
                    || senders
                        .any(|from| post.is_there(*from) && self.stalled[from.index()] & 1 << index == 0)
            })
    }

    /// Whether nothing waits that could not be taken.
    pub fn is_idle(&mut self) -> bool {
        if self.any_stalled {
            self.any_stalled = self.stalled.iter().any(|stalled| *stalled != 0);
        }
        !self.any_stalled
    }

    /// Take in connections. True: something came.
    pub fn hear(&mut self) -> bool {
        self.usable && {
            let [answers, requests] = &mut self.post;
            answers.poll_control() | requests.poll_control()
        }
    }

    /// Add to the fabric's counters what was counted here, and give back the memory of queues that have not been used for a
    /// while, as of `now`.
    pub fn give_back(&mut self, now: Moment) {
        for (index, post) in self.post.iter_mut().enumerate() {
            self.first[index] = 0;
            if post.rest(now) {
                // Nothing of a queue that was closed is waited for.
                let peers = (0..).map(Peer).zip(&mut self.stalled);
                let closed = peers.filter(|(peer, _)| !post.has_sender(*peer));
                closed.for_each(|(_, stalled)| *stalled &= !(1 << index));
            }
        }
    }
}

/// Whether what goes to and from a process may go by lines: their memory is mapped on both sides, and nothing is lost or
/// reordered on the way.
pub fn can_have<F: Fabric>(fabric: &F, peer: Peer) -> bool {
    F::ORDERED && fabric.maps(peer) && peer != fabric.me()
}

/// How many processes that is.
pub fn reached<F: Fabric>(fabric: &F) -> usize {
    let peers = (0..fabric.processes()).map(Peer);
    peers.filter(|peer| can_have(fabric, *peer)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_survive_the_way_and_lies_are_refused() {
        let title = Title {
            form: Form::Packet,
            header: 40,
            bytes: 176,
        };
        assert_eq!(Title::read(title.word() | 77), Ok(title));
        assert_eq!(title.lines(), 4);
        let lines = |bytes| Title { bytes, ..title }.lines();
        assert_eq!([0, 56, 57, 112, 113].map(lines), [1, 1, 2, 2, 3]);
        for lie in [
            Title { bytes: 177, ..title },
            Title { bytes: 39, ..title },
            Title {
                header: HEADER_BYTES + 1,
                ..title
            },
        ] {
            assert!(Title::read(lie.word()).is_err(), "{lie:?}");
        }
        assert!(Title::read(0).is_err() && Title::read(title.word() | 1 << 56).is_err());
    }
}
