//! A small message protocol over postboxes, to test them with: short messages of one or several postboxes,
//! and long ones in pool blocks.
#![allow(dead_code, reason = "each test file uses some of it")]

use farpost_channel::rest::REST;
use farpost_channel::{ChannelTunables, Postboxes};
use farpost_fabric::conformance::End;
use farpost_fabric::{Fabric, LINE_BYTES, Line, Moment, Peer};
use std::collections::VecDeque;
use std::rc::Rc;

/// As small as areas may be, so that everything runs full and is used again.
pub const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};

/// Bytes of a message that travel in its first postbox, and in each that follows.
const INLINE: usize = LINE_BYTES - 24;
const MORE: usize = LINE_BYTES - 8;
/// Postboxes of the longest message that uses no blocks.
const RUN: usize = 3;

/// What message `number` from one to another contains; lengths of all kinds.
pub fn message(from: Peer, to: Peer, number: u32) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(number) << 8 | u64::from(from.0) << 4 | u64::from(to.0));
    let len = match rng.u32(0..4) {
        0 => rng.usize(0..=INLINE),
        1 => rng.usize(0..=INLINE + (RUN - 1) * MORE),
        _ => rng.usize(0..=3000),
    };
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Bytes into the words of a line from the word `first` on.
fn fill(line: &mut Line, first: usize, bytes: &[u8]) {
    for (word, part) in line[first..].iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..part.len()].copy_from_slice(part);
        *word = u64::from_le_bytes(whole);
    }
}

fn extract(line: &Line, first: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = line[first..].iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// A message that is being sent.
struct Sending {
    bytes: Vec<u8>,
    sent: usize,
}

/// Postboxes with a queue of messages for and from each peer.
pub struct Talk<F: Fabric> {
    pub boxes: Postboxes<F>,
    outgoing: Vec<VecDeque<Sending>>,
    partial: Vec<Vec<u8>>,
    /// What it takes for the time: some of [`REST`] further at each round, so that queues rest in every pause.
    now: Moment,
    /// Off: no queue rests.
    pub rests: bool,
    pub received: Vec<VecDeque<Vec<u8>>>,
}

impl<F: Fabric> Talk<F> {
    pub fn new(fabric: &Rc<F>, tunables: &ChannelTunables) -> Self {
        let size = fabric.size() as usize;
        Self {
            boxes: Postboxes::new(Rc::clone(fabric), tunables),
            outgoing: (0..size).map(|_| VecDeque::new()).collect(),
            partial: vec![Vec::new(); size],
            now: Moment::START,
            rests: true,
            received: vec![VecDeque::new(); size],
        }
    }

    pub fn send(&mut self, to: Peer, bytes: Vec<u8>) {
        self.outgoing[to.index()].push_back(Sending { bytes, sent: 0 });
    }

    /// Messages not yet handed to postboxes.
    pub fn waiting(&self, to: Peer) -> usize {
        self.outgoing[to.index()].len()
    }

    /// Send what can be sent.
    pub fn push(&mut self) {
        for to in 0..self.outgoing.len() {
            while !self.outgoing[to].is_empty() && self.push_one(Peer(to as u32)) {}
        }
    }

    /// Send a piece of the first message; false: no room.
    fn push_one(&mut self, to: Peer) -> bool {
        let room = self.boxes.room(to) as usize;
        let message = &mut self.outgoing[to.index()][0];
        let total = message.bytes.len();
        if total <= INLINE + (RUN - 1) * MORE {
            let boxes = 1 + total.saturating_sub(INLINE).div_ceil(MORE);
            if room < boxes {
                return false;
            }
            let mut lines = vec![[0; 8]; boxes];
            lines[0][1] = total as u64;
            lines[0][2] = u64::MAX;
            let (first, rest) = message.bytes.split_at(total.min(INLINE));
            fill(&mut lines[0], 3, first);
            for (line, part) in lines[1..].iter_mut().zip(rest.chunks(MORE)) {
                fill(line, 1, part);
            }
            if boxes == 1 {
                self.boxes.post(to, &lines[0], total as u64);
            } else {
                self.boxes.post_run(to, &lines, total as u64);
            }
        } else {
            if room == 0 {
                return false;
            }
            let len = self.boxes.block_bytes().min(total - message.sent);
            let Some(block) = self.boxes.take_block_for(to, len) else {
                return false;
            };
            let part = &message.bytes[message.sent..message.sent + len];
            // In two pieces, the second first.
            let cut = len / 3;
            self.boxes.write_block(to, block, cut, &part[cut..]);
            self.boxes.write_block(to, block, 0, &part[..cut]);
            let line = [0, total as u64, u64::from(block), len as u64, 0, 0, 0, 0];
            self.boxes.post_block(to, &line, Some(block), len as u64);
            message.sent += len;
            if message.sent < total {
                return true;
            }
        }
        self.outgoing[to.index()].pop_front();
        true
    }

    /// Take in what has arrived. What cannot be right fails its sender, as a device would.
    pub fn pull(&mut self) {
        self.boxes.poll_control();
        for from in self.boxes.senders().to_vec() {
            while self.pull_one(from) {}
        }
    }

    fn pull_one(&mut self, from: Peer) -> bool {
        let Some(line) = self.boxes.peek(from) else {
            return false;
        };
        let total = line[1];
        if line[2] == u64::MAX {
            if total > (INLINE + (RUN - 1) * MORE) as u64 {
                return self.fail_sender(from, "a length", total);
            }
            let total = total as usize;
            let boxes = 1 + total.saturating_sub(INLINE).div_ceil(MORE);
            let mut bytes = extract(&line, 3, total.min(INLINE));
            for ahead in 1..boxes {
                let Some(next) = self.boxes.peek_ahead(from, ahead as u32) else {
                    return false;
                };
                bytes.extend(extract(&next, 1, (total - bytes.len()).min(MORE)));
            }
            self.boxes.consume(from, boxes as u32, total as u64);
            self.received[from.index()].push_back(bytes);
            return true;
        }
        let (block, len) = (line[2], line[3]);
        let partial = &mut self.partial[from.index()];
        if total > 1 << 20 || len == 0 || len > total.saturating_sub(partial.len() as u64) {
            return self.fail_sender(from, "a length", total);
        }
        let at = partial.len();
        partial.resize(at + len as usize, 0);
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        if let Err(error) = self.boxes.read_block(from, block, 0, &mut partial[at..]) {
            self.boxes.fail_sender(from, error);
            return false;
        }
        self.boxes.consume(from, 1, len);
        if partial.len() as u64 == total {
            self.received[from.index()].push_back(std::mem::take(partial));
        }
        true
    }

    fn fail_sender(&mut self, peer: Peer, what: &'static str, value: u64) -> bool {
        let error = farpost_fabric::FabricError::Corrupt { peer, what, value };
        self.boxes.fail_sender(peer, error);
        false
    }

    /// Push, pull, and settle now and then, as an engine would.
    pub fn progress(&mut self) {
        self.push();
        self.pull();
        self.boxes.settle();
        self.boxes.audit();
        if self.rests {
            self.rest();
        }
    }

    /// Some time passes.
    pub fn rest(&mut self) {
        self.now += REST / 2;
        self.boxes.rest(self.now);
    }
}

/// Progress until `done`.
pub async fn drive<F: Fabric>(
    end: &End<F>,
    talk: &mut Talk<F>,
    what: &str,
    mut done: impl FnMut(&mut Talk<F>) -> bool,
) {
    end.until(what, || {
        talk.progress();
        assert_eq!(end.fabric.take_faults(), (vec![], 0));
        done(talk)
    })
    .await;
}
