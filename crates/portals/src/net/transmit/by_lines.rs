//! To those who map our memory: what goes by lines arrives, so that a message that is in its lines is over. Kept are only
//! those whose bodies the receiver fetches; these alone are numbered, and acknowledged when it is done with them.
//!
//! Cost class: fast path ([`Transmit::is_open`], [`put_short`] of one line); else queued path.

use super::*;
use crate::net::lines::Form;
use crate::net::numbers::Outstanding;
use crate::net::table::NONE;

/// Put a message whose body comes with its header. False: no room.
#[inline(never)]
pub fn put_short<F: Fabric>(lines: &mut Lines<F>, to: (Peer, usize), header: &[u8], body: &Segments) -> bool {
    let mut bytes = [0; PACKET_BYTES];
    let (length, len) = (body.len(), header.len() + body.len());
    bytes[..header.len()].copy_from_slice(header);
    user::load(body, &mut bytes[header.len()..len]);
    lines.put(to, (Form::Short, header.len()), &bytes[..len], length)
}

/// The messages of a channel that have gone by lines and are kept, because their bodies are fetched.
pub struct KeptInLines {
    numbers: Outstanding,
    /// The newest, or `NONE`.
    newest: u16,
}

impl KeptInLines {
    /// None yet; the first will have number `seq`.
    fn none(seq: u16) -> Self {
        Self {
            numbers: Outstanding::none(seq),
            newest: NONE,
        }
    }

    /// The receiver wants message `wanted` next: how many it is done with. Each of them is to be [popped](Self::pop).
    #[inline(always)]
    pub fn acknowledge(&mut self, wanted: u16) -> Result<u16, Malformed> {
        self.numbers.acknowledge(wanted)
    }

    /// The oldest leaves the queue.
    #[inline(always)]
    pub fn pop(&mut self, queue: &mut MessageQueue, chain: &impl Chain) -> u16 {
        let number = queue.pop(chain);
        if self.newest == number {
            self.newest = NONE;
        }
        number
    }

    /// How many are older than the one numbered `seq`.
    pub fn before(&self, seq: u16) -> Option<u16> {
        self.numbers.before(seq)
    }

    /// The peer has ended: none is kept any more.
    pub fn end(&mut self) {
        *self = Self::none(self.numbers.end());
    }
}

impl<F: Fabric> Transmit<F> {
    /// Whether what fits may be put to the lines of a channel: nothing waits before it.
    #[inline(always)]
    pub(super) fn is_open(&self, to: Peer, index: usize) -> bool {
        self.open[to.index()] & 1 << index != 0
    }

    /// Put a short message to the lines of a channel. False: it is longer, something waits before it, or there is no room.
    #[inline(always)]
    pub(super) fn put_by_lines(
        &self,
        lines: &mut Lines<F>,
        figures: &mut Figures,
        to: (Peer, usize),
        header: &[u8],
        body: &Segments,
    ) -> bool {
        let length = body.len();
        let gone = self.is_open(to.0, to.1)
            && header.len() + length <= PACKET_BYTES - wire::WORD
            && put_short(lines, to, header, body);
        if gone {
            figures.sent += 1;
            figures.sent_bytes += length as u64;
        }
        gone
    }

    /// The receiver, which is near, has lines for us. It has accepted nothing before.
    #[cold]
    pub(super) fn change_to_lines(&mut self, at: u16) {
        let target = self.targets.at(at);
        if let SendPath::Packets(connection) = &target.path
            && target.near
        {
            target.path = SendPath::Lines(connection.taken_back().map(KeptInLines::none));
            self.note_unsent(at);
        }
    }

    /// Put to the lines of a channel what there is room for, at most `ONE` message. True: something went.
    #[inline(never)]
    pub(super) fn go_by_lines<const ONE: bool>(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        at: u16,
        index: usize,
    ) -> bool {
        let target = self.targets.at(at);
        let counts = target.counts(index);
        let to = (target.peer, index);
        let queue = &mut target.queues[index];
        let SendPath::Lines(kept) = &mut target.path else {
            return false;
        };
        let kept = &mut kept[index];
        let mut moved = false;
        while let Some((number, packet)) = queue.waiting() {
            let wants_ack = self.pendings.are_scarce(index);
            let message = self.pendings.at(number);
            let header = usize::from(message.header_len);
            let bytes = usize::from(message.packet_len);
            if message.kind == PacketKind::Short {
                let bytes = &message.packet[wire::WORD..bytes];
                if !lines.put(to, (Form::Short, header), bytes, message.length) {
                    return moved;
                }
            } else {
                let (mut flags, ack) = rx.acknowledgement(to.0, index);
                if wants_ack {
                    flags |= WANTS_ACK;
                }
                let mut word = Word {
                    kind: message.kind,
                    flags,
                    second: message.header_len,
                    seq: kept.numbers.end(),
                    tag: 0,
                    ack,
                };
                let mut buffer;
                let begins = packet == 0;
                let length = message.length;
                let packet = if begins {
                    wire::finish(&mut message.packet, bytes, word)
                } else {
                    (word.kind, word.second) = (PacketKind::Data, 0);
                    buffer = [0; PACKET_BYTES];
                    let len = self.bodies.part(fabric, message, packet, &mut buffer, false);
                    wire::finish(&mut buffer, len, word)
                };
                // Its body is counted here, and in no line.
                if !lines.put(to, (Form::Packet, 0), packet, 0) {
                    if flags & HAS_ACK != 0 {
                        rx.untold(to.0, index, flags);
                    }
                    return moved;
                }
                if begins {
                    fabric.count(to.0, Counter::SentBytes, length as u64);
                }
            }
            moved = true;
            let is_fetched = matches!(
                message.kind,
                PacketKind::Staged | PacketKind::Pull | PacketKind::Gather
            );
            if !queue.advance(&self.pendings) {
                continue;
            }
            if is_fetched {
                kept.numbers.add();
                kept.newest = number;
            } else {
                queue.remove_gone(&mut self.pendings, kept.newest, number);
                if queue.is_empty() {
                    self.asked -= counts;
                }
                let memory = (&mut self.pendings, &mut self.bodies);
                Self::end_message(fabric, memory, &mut self.finished, (index, number), Outcome::Done);
            }
            if ONE {
                break;
            }
        }
        moved
    }
}
