//! The sending half: messages take pendings and go to their targets in order, in packets ([go-back-n](super::go_back_n)) or by lines.
//!
//! A message takes a pending, which holds its header packet ready to travel, and joins the tail of its channel's queue to the target.
//!
//! | File | What |
//! |---|---|
//! | `pendings`, `bodies` | messages that are being sent; the routes of long bodies |
//! | `target` | what is kept about a process that is sent to |
//! | `answers` | what receivers answer, and what happens when they do not |
//! | `policy` | whose message leaves next: fair, or one FIFO for all |
//! | `by_lines` | to those who map our memory |
//! | `fast_path` | messages that go here and now |
//!
//! Cost class: fast path ([`Transmit::send`] of a short body); else queued path.

mod answers;
mod bodies;
mod by_lines;
mod fast_path;
mod pendings;
mod policy;
mod target;

pub use bodies::COPIED;
pub use policy::TransmitPolicy;

use super::control::Piggyback;
use super::figures::Figures;
use super::go_back_n::SendConnection;
use super::lines::{self, Lines};
use super::queue::{Chain, MessageQueue};
use super::table::PeerTable;
use super::tunables::NetTunables;
use super::upper::{Channel, Departure, NoPending, Outcome};
use super::wire::{self, FIRST, HAS_ACK, PacketKind, WANTS_ACK, Word, Writer};
use crate::malformed::Malformed;
use crate::memory::{Segments, user};
use crate::owner::Owner;
use bodies::{Bodies, Receiver};
use farpost_fabric::{Cost, Counter, Fabric, Moment, PACKET_BYTES, Peer, Port, Priority, TrySend};
use pendings::{Pendings, TransmitPending};
use policy::Fifo;
use std::collections::VecDeque;
use std::time::Duration;
use target::{SendPath, Target};

/// The sending half of a process.
pub struct Transmit<F: Fabric> {
    port: Port,
    pendings: Pendings,
    bodies: Bodies<F>,
    /// One more than may have requests under way, so that there is always one which only waits for answers to be taken: who
    /// gets none may take no more requests, and two would wait for each other.
    targets: PeerTable<Target<F>>,
    /// Targets with requests under way, of those that share structures.
    asked: usize,
    /// By peer, a bit for each channel: nothing waits to go there, and what fits goes by lines.
    open: Box<[u8]>,
    active: Vec<u16>,
    /// The order of all messages, where it is one for all targets.
    fifo: Option<Fifo>,
    /// The channels whose messages may go by lines without waiting for their turn, a bit each.
    lanes: u8,
    window: u16,
    /// The same, of packets that need not wait for their turn: none where there is one FIFO.
    window_at_once: u16,
    resend: Duration,
    /// By peer: where the numbers of its channels go on when it is given a structure. Acknowledgements by the way name no
    /// connection, and one that was on its way when the structure was given up must not mean a packet of the next one.
    numbers: Box<[[u16; 2]]>,
    /// Messages whose memory may be used again.
    pub finished: VecDeque<(u64, Outcome)>,
}

impl<F: Fabric> Transmit<F> {
    pub fn new(fabric: &F, owner: Owner, config: &NetTunables) -> Self {
        let each = config.tx_pendings as usize;
        let near = lines::reached(fabric);
        let fifo = (config.transmit_policy() == TransmitPolicy::OneFifo).then(Fifo::default);
        let window = config.window as u16;
        Self {
            port: owner.port(),
            pendings: Pendings::new(each),
            bodies: Bodies::new(fabric, owner, config),
            targets: PeerTable::new(config.sources as usize + 1, near),
            asked: 0,
            open: vec![0; fabric.processes() as usize].into(),
            active: Vec::with_capacity(config.sources as usize + 1 + near),
            lanes: if fifo.is_some() { 0 } else { 3 },
            window,
            window_at_once: if fifo.is_some() { 0 } else { window },
            fifo,
            resend: Duration::from_millis(config.resend),
            numbers: vec![[fabric.me().0 as u16 ^ 0x5a00; 2]; fabric.processes() as usize].into(),
            finished: VecDeque::with_capacity(4 * each),
        }
    }

    /// Bytes of a target, and of a pending.
    pub fn sizes() -> (usize, usize) {
        (
            PeerTable::<Target<F>>::entry_bytes(),
            size_of::<TransmitPending>(),
        )
    }

    /// Pendings that one who has some leaves: one for each process that has no request under way to it, if there are enough.
    #[inline(always)]
    fn reserve(&self, index: usize) -> usize {
        let idle = self.numbers.len().saturating_sub(self.asked);
        idle.min(self.pendings.few()) * index
    }

    /// Pendings that a channel has left.
    pub fn available(&self, channel: Channel) -> usize {
        self.pendings.available(channel as usize)
    }

    #[cold]
    fn enter(&mut self, fabric: &F, checked: bool, peer: Peer) -> Option<u16> {
        let near = !checked && lines::can_have(fabric, peer);
        let target = Target {
            peer,
            bell: fabric.bell(peer),
            not: if fabric.maps(peer) { 0 } else { wire::NO_STAGING },
            checked,
            dead: fabric.is_gone(peer),
            near,
            active: false,
            path: SendPath::Packets(SendConnection::new(self.numbers[peer.index()], fabric.now())),
            queues: [MessageQueue::EMPTY; 2],
        };
        if near {
            return self.targets.insert_other(peer, target);
        }
        if self.targets.is_full() {
            let idle = self
                .targets
                .candidate(|target| !target.near && target.is_idle())?;
            self.active.retain(|at| *at != idle);
            if let Some(target) = self.targets.remove(idle)
                && let SendPath::Packets(connection) = target.path
            {
                self.numbers[target.peer.index()] = connection.numbers();
            }
        }
        self.targets.insert(peer, target)
    }

    /// Take a pending and send. `checked` tells whether packets to a new peer carry a check.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one call, taken apart nowhere")]
    pub fn send(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        figures: &mut Figures,
        (to, channel): (Peer, Channel),
        header: &[u8],
        body: &Segments,
        token: u64,
        checked: impl Fn(Peer) -> bool,
    ) -> Result<Departure, NoPending> {
        let index = channel as usize;
        let length = body.len();
        if self.put_by_lines(lines, figures, (to, index), header, body) {
            return Ok(Departure::Gone);
        }
        let free = self.pendings.available(index);
        if free == 0 {
            return Err(NoPending);
        }
        let found = self.targets.find(to);
        if channel == Channel::Request
            && self.asked + 1 >= usize::from(self.targets.limit())
            && found.is_none_or(|at| self.targets.at(at).queues[index].is_empty())
            && (checked(to) || !lines::can_have(fabric, to))
        {
            return Err(NoPending);
        }
        // Who takes nothing leaves pendings to others.
        let reserve = self.reserve(index);
        if found.is_some_and(|at| self.targets.at(at).has_share(index, free, reserve)) {
            return Err(NoPending);
        }
        let at = match found {
            Some(at) => at,
            None => {
                let at = self.enter(fabric, checked(to), to).ok_or(NoPending)?;
                self.note_unsent(at);
                // The receiver need not say anything before the first short message, and this process may compute for long.
                if self.put_by_lines(lines, figures, (to, index), header, body) {
                    return Ok(Departure::Gone);
                }
                at
            }
        };
        let target = self.targets.at(at);
        if target.dead {
            self.finished.push_back((token, Outcome::PeerEnded));
            return Ok(Departure::Waits);
        }
        let number = self.pendings.take(index).expect("looked before");
        let pending = self.pendings.at(number);
        let mut writer = Writer::new(&mut pending.packet, target.checked);
        writer.put(header);
        pending.token = token;
        pending.length = length;
        let departure = if length <= PACKET_BYTES - writer.len() {
            fabric.charge(Cost::Copy(length));
            user::load(body, writer.room(length));
            let packet = writer.len();
            pending.is_short(header.len(), packet);
            Departure::Gone
        } else {
            pending.is_short(header.len(), 0);
            let to = Receiver {
                peer: target.peer,
                not: target.not,
                checked: target.checked,
                in_company: !target.queues[index].is_empty(),
            };
            if self.bodies.begin(fabric, &to, index, pending, body) {
                Departure::Gone
            } else {
                Departure::Waits
            }
        };
        let staged = pending.kind == PacketKind::Staged;
        figures.sent += 1;
        figures.sent_bytes += length as u64;
        let counts = target.counts(index);
        let queue = &mut target.queues[index];
        if queue.is_empty() {
            self.asked += counts;
        }
        let alone = queue.push(&mut self.pendings, number);
        if let Some(fifo) = &mut self.fifo {
            self.pendings.at(number).ticket = fifo.draw();
            self.note_unsent(at);
            self.go_in_order(fabric, (rx, lines), figures, index, None);
        } else {
            if alone && !target.is_waiting() {
                self.go::<false>(fabric, (rx, lines), figures, at, index);
            }
            self.note_unsent(at);
        }
        if staged {
            self.bodies.call_back(length);
        }
        Ok(departure)
    }

    #[inline(always)]
    fn note_unsent(&mut self, at: u16) {
        let target = self.targets.at(at);
        if target.near {
            self.open[target.peer.index()] = target.open_lanes() & self.lanes;
        }
        if target.has_waiting() && !target.active {
            target.active = true;
            self.active.push(at);
        }
    }

    /// Send what a channel may send now, at most `ONE` message.
    #[inline(always)]
    fn go<const ONE: bool>(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        figures: &mut Figures,
        at: u16,
        index: usize,
    ) -> bool {
        match self.targets.at(at).path {
            SendPath::Packets(_) => self.go_in_packets::<ONE>(fabric, rx, figures, at, index),
            SendPath::Lines(_) => self.go_by_lines::<ONE>(fabric, (rx, lines), at, index),
        }
    }

    #[inline(always)]
    fn go_in_packets<const ONE: bool>(
        &mut self,
        fabric: &F,
        rx: &mut impl Piggyback,
        figures: &mut Figures,
        at: u16,
        index: usize,
    ) -> bool {
        let target = self.targets.at(at);
        let (peer, checked) = (target.peer, target.checked);
        let queue = &mut target.queues[index];
        let SendPath::Packets(connection) = &mut target.path else {
            return false;
        };
        let mut moved = false;
        while let Some((number, packet)) = queue.waiting()
            && let Some(title) = connection.may_send(index, self.window)
        {
            let message = self.pendings.at(number);
            let (mut flags, ack) = rx.acknowledgement(peer, index);
            if title.first {
                flags |= FIRST;
            }
            if checked {
                flags |= wire::CHECKED;
            }
            let mut word = Word {
                kind: message.kind,
                flags,
                second: message.header_len,
                seq: title.seq,
                tag: title.tag,
                ack,
            };
            if self.pendings.are_scarce(index) {
                word.flags |= WANTS_ACK;
            }
            let message = self.pendings.at(number);
            let mut buffer;
            let bytes = if packet == 0 {
                let len = usize::from(message.packet_len);
                wire::finish(&mut message.packet, len, word)
            } else {
                (word.kind, word.second) = (PacketKind::Data, 0);
                buffer = [0; PACKET_BYTES];
                let len = self.bodies.part(fabric, message, packet, &mut buffer, checked);
                wire::finish(&mut buffer, len, word)
            };
            if fabric.try_send(peer, self.port, Priority::ALL[index], bytes) == TrySend::Full {
                connection.did_not_go();
                if flags & HAS_ACK != 0 {
                    rx.untold(peer, index, flags);
                }
                return moved;
            }
            fabric.wake_by(&target.bell);
            moved = true;
            let whole = queue.advance(&self.pendings);
            if !connection.went(index) {
                figures.resent += 1;
                fabric.count(peer, Counter::Retries, 1);
            } else if packet == 0 && !target.near {
                // A message counts with its header packet; to those near it goes again by lines, and counts there.
                fabric.count(peer, Counter::Sent, 1);
                fabric.count(peer, Counter::SentBytes, self.pendings.at(number).length as u64);
            }
            if ONE && whole {
                break;
            }
        }
        moved
    }

    /// Send what waits. True: something went.
    #[inline(never)]
    pub fn pump(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        figures: &mut Figures,
        turn: u64,
    ) -> bool {
        if self.fifo.is_some() {
            return self.pump_in_order(fabric, (rx, lines), figures, turn);
        }
        let mut moved = false;
        let mut at = 0;
        if self.active.len() > 1 {
            // What all share, a fabric's room say, is not always the same one's.
            self.active.rotate_left(1);
        }
        while at < self.active.len() {
            let place = self.active[at];
            if self.targets.at(place).pauses(turn) {
                at += 1;
                continue;
            }
            for index in 0..2 {
                moved |= self.go::<false>(fabric, (rx, lines), figures, place, index);
            }
            let target = self.targets.at(place);
            if target.near {
                self.open[target.peer.index()] = target.open_lanes() & self.lanes;
            }
            // What only waits for an acknowledgement comes back here with it.
            if target.is_blocked(self.window) {
                target.active = false;
                self.active.swap_remove(at);
            } else {
                at += 1;
            }
        }
        moved
    }

    /// Whether something waits to go.
    #[inline(always)]
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether nothing is under way to a process.
    pub fn has_nothing_for(&mut self, peer: Peer) -> bool {
        self.targets
            .find(peer)
            .is_none_or(|at| self.targets.at(at).is_idle())
    }

    /// Whether nothing is under way.
    pub fn is_idle(&mut self, lines: &mut Lines<F>) -> bool {
        (0..self.targets.len()).all(|at| {
            self.targets.get(at).is_none_or(|target| {
                target.is_idle() && (!target.near || target.dead || lines.drained(target.peer))
            })
        })
    }

    /// Whether there are bodies of ours of which we may copy parts.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        self.bodies.has_offers()
    }

    /// Copy parts of them.
    pub fn serve_offers(&mut self, fabric: &F) -> bool {
        self.bodies.serve_offers(fabric)
    }
}
