//! The network layer: moves messages, each an opaque header and a body, between processes (paper, sections 3.3 and 4:
//! what the SeaStar's firmware does).
//!
//! | File | What |
//! |---|---|
//! | `transmit` | the sending half: messages, their bodies' routes, targets |
//! | `receive` | the receiving half: sources, messages, where their bodies go |
//! | `go_back_n` | what both halves know of a connection whose packets may be lost or refused: numbers, windows, tags, time |
//! | `lines` | channels to those whose memory we map; `by_lines` of both halves: what is left to do there |
//! | `arrive` | what becomes of a packet |
//! | `queue`, `numbers` | messages of a channel in order; sequence numbers |
//! | `wire`, `control` | packets; those without a number |
//! | `rendezvous_slots` | long bodies that both sides copy |
//! | `table` | structures by peer, a hash table of fixed size |
//! | `upper` | what the layer above sees of it, and is asked |
//! | `moves` | the memory of messages, where it is handed to the fabric or copied |
//! | `figures`, `occupancy`, `tunables` | what has happened; what structures take; settings |
//!
//! `transmit` and `receive` know nothing of each other; what the one says by the way in packets of the other is [`Piggyback`](control::Piggyback).
//!
//! There are two ways between processes. Where their memory is mapped on both sides and messages carry no check, everything but control goes
//! by *lines*: channels that deliver once and in order, so that a short message is over when it is put there, and only messages
//! whose bodies the receiver fetches have a pending, a number and an acknowledgement. The receiver refuses nothing there, but leaves what it cannot
//! take in its lines: it waits for nothing but itself, since answers have lines of their own, and acknowledgements go by packets. Between
//! others go packets, as follows. Whoever may use lines puts short messages there from the first one on, so that they arrive though their sender
//! computes; the first message that is not short, and between others any first one, begins with a packet, which the receiver answers by [`Op::Sync`].
//!
//! A message takes a transmit pending at its sender and, unless its body comes with its header and is stored at once, a receive
//! pending at its receiver. What is known about a peer is in structures for targets and for sources, of which there is a fixed
//! number. All of them are made by [`Net::new`]; nothing is allocated afterwards (but the fabric's own mapping of a peer's
//! staging memory, once for each peer). The paper's firmware panics where a pool runs out; here the receiver refuses, and the
//! sender goes back to what was refused and sends from there again ([go-back-n](go_back_n)). The same protocol makes good what is lost,
//! repeated, reordered or damaged on the way.
//!
//! A body travels in the header packet if it fits. On memory that both sides map it is *staged* up to
//! `FARPOST_PORTALS_STAGED` bytes: copied where the receiver reads it; half as long while other messages are on their way, since then the receiver fetches several
//! bodies by one system call. Longer ones, and those in pieces, are fetched by the receiver straight from the
//! sender's memory into the place that the message matches. Where neither works, packets of the body follow the header.
//!
//! There are two channels, for requests and for answers, with pendings, numbers and a priority of the fabric each. An
//! answer never waits for a request, so that processes which all have requests outstanding do not wait for each other in a circle.
//! Messages of a channel to several processes leave by one of two [policies](TransmitPolicy): fair, or in one FIFO as the paper's firmware has it.
//!
//! A receiver gives a sender a tag when they meet, and forgets the source only after the sender has agreed under that tag that nothing is
//! outstanding. So any number of senders share one source structure and nothing is delivered twice. The numbers of a channel go on where they
//! were when a target gets a structure again (4 bytes a peer are kept for that), so that an acknowledgement that comes late is recognised as old.
//! A transfer that breaks off waits for the verdict about its peer, which ends the message as *undeliverable*.

mod arrive;
mod control;
mod figures;
mod go_back_n;
mod lines;
#[allow(unsafe_code)]
mod moves;
mod numbers;
mod occupancy;
mod queue;
mod receive;
mod rendezvous_slots;
mod table;
mod transmit;
mod tunables;
mod upper;
mod wire;

pub use figures::Figures;
pub use occupancy::Occupancy;
pub use transmit::TransmitPolicy;
pub use tunables::NetTunables;
pub use upper::{Channel, Departure, HEADER_BYTES, NoPending, Outcome, Placement, RxId, Upper};

use crate::malformed::{self, Malformed};
use crate::memory::Segments;
use crate::owner::Owner;
use farpost_fabric::{Counter, Distance, Fabric, Moment, PACKET_BYTES, Peer, Port, Priority};
use lines::{Form, LINE_HOLDS, Lines, Title, Words};
use receive::{Accepted, Receive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use transmit::Transmit;
use wire::{Long, Message, Op, PacketKind, Place, Word};

/// Packets taken in one call of [`Net::progress`], and messages from lines.
const BURST: usize = 32;
/// Looks between two at packets, where messages come by lines from all others, or from some: powers of two. A look at packets takes as
/// long as many at lines, and what comes meanwhile waits for it.
const PACKETS: [u32; 2] = [64, 8];
/// Progress calls between two looks for connections: a power of two.
const HEAR: u64 = 8;
/// Progress calls without anything to do between two looks at the clock: a power of two.
const CLOCK: u64 = 64;
/// Looks at the clock before acknowledgements go that nothing else takes along.
const AT_REST: u64 = 16;
/// Calls that a sleep counts as, at most: one for each microsecond.
const MOST_MISSED: u64 = 500;
/// Time between two looks for what has to be done in time.
const TEND: Duration = Duration::from_millis(1);
/// Time between two questions whether peers have ended.
const ASK: Duration = Duration::from_millis(50);

struct NetState<F: Fabric> {
    tx: Transmit<F>,
    rx: Receive<F>,
    lines: Lines<F>,
    figures: Figures,
    turn: u64,
    /// Progress calls in a row without anything to do.
    idle: u64,
    /// When turns were last made up for.
    looked: Moment,
    tended: Moment,
    asked: Moment,
}

impl<F: Fabric> NetState<F> {
    /// Whether there is more to do than to look whether something has come.
    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.tx.has_active()
            || self.rx.urgent
            || self.rx.has_fetching()
            || self.tx.has_offers()
            || !self.tx.finished.is_empty()
            || !self.rx.finished.is_empty()
    }

    /// Pauses are counted in calls, and who sleeps between calls makes few: time counts as the calls that were not made, with a
    /// bound, since this is not asked always.
    /// True: it was long.
    #[cold]
    fn make_up(&mut self, now: Moment) -> bool {
        let missed = (now - self.looked).as_micros() as u64;
        self.turn += missed.min(MOST_MISSED);
        self.looked = now;
        missed > MOST_MISSED
    }
}

/// The network layer of one process.
pub struct Net<F: Fabric> {
    fabric: Rc<F>,
    port: Port,
    check: u64,
    /// Time counts for nothing: for tests on fabrics whose time is not ours.
    impatient: bool,
    inside: Cell<bool>,
    /// Calls of [`look`](Self::look), and at how many of them there is one at packets.
    looks: Cell<u32>,
    packets: u32,
    state: RefCell<NetState<F>>,
}

impl<F: Fabric> Net<F> {
    /// The network layer of the program's interface.
    pub fn new(fabric: Rc<F>, config: &NetTunables) -> Self {
        Self::of(Owner::Program, fabric, config)
    }

    /// The network layer of `owner` on `fabric`, whose packets of that owner's ports are its from now on.
    pub fn of(owner: Owner, fabric: Rc<F>, config: &NetTunables) -> Self {
        farpost_fabric::fits::<F>();
        let wires = fabric.hosts() > 1;
        let now = fabric.now();
        let state = NetState {
            tx: Transmit::new(&*fabric, owner, config),
            rx: Receive::new(&*fabric, owner, config),
            lines: Lines::new(&fabric, owner, config),
            figures: Figures::default(),
            turn: 0,
            idle: 0,
            looked: now,
            tended: now,
            asked: now,
        };
        let [all, some] = PACKETS;
        let packets = match lines::reached(&*fabric) {
            0 => 1,
            others if others + 1 < fabric.processes() as usize => some,
            _ => all,
        };
        Self {
            // Where there is no wire nothing is asked for each packet.
            check: if config.check == 1 && !wires {
                0
            } else {
                config.check
            },
            port: owner.port(),
            impatient: config.resend == 0,
            inside: Cell::new(false),
            looks: Cell::new(0),
            packets,
            state: RefCell::new(state),
            fabric,
        }
    }

    /// The fabric.
    pub fn fabric(&self) -> &Rc<F> {
        &self.fabric
    }

    /// What has happened so far.
    pub fn figures(&self) -> Figures {
        self.state.borrow().figures
    }

    /// Messages of a channel that [`send`](Self::send) would take now.
    #[inline]
    pub fn available(&self, channel: Channel) -> usize {
        self.state.borrow().tx.available(channel)
    }

    /// Whether packets to and from `peer` carry a check.
    #[inline(always)]
    fn checks(&self, peer: Peer) -> bool {
        self.check != 0 && self.checks_route(peer)
    }

    #[cold]
    fn checks_route(&self, peer: Peer) -> bool {
        self.check == 2 || self.fabric.distance(peer) == Distance::Far
    }

    /// Send a message: a header of at most [`HEADER_BYTES`] and a body. The body's memory stays where it is, readable and
    /// unchanged, until the answer is [`Departure::Gone`] or [`Upper::sent`] has been called with `token`.
    ///
    /// Messages of one channel to the same process arrive in the order of these calls. To a process that has ended, sending
    /// succeeds, and `sent` tells the outcome where it is called at all.
    ///
    /// # Errors
    /// There is no pending: make progress and try again.
    ///
    /// # Panics
    /// When the header is longer than that, or the process does not exist.
    #[inline]
    pub fn send(
        &self,
        to: Peer,
        channel: Channel,
        header: &[u8],
        body: &Segments,
        token: u64,
    ) -> Result<Departure, NoPending> {
        assert!(
            header.len() <= HEADER_BYTES,
            "a Portals header has at most {HEADER_BYTES} bytes"
        );
        assert!(to.0 < self.fabric.processes(), "{to} does not exist");
        let NetState {
            tx,
            rx,
            lines,
            figures,
            ..
        } = &mut *self.state.borrow_mut();
        let checked = |peer| self.checks(peer);
        tx.send(
            &*self.fabric,
            (rx, lines),
            figures,
            (to, channel),
            header,
            body,
            token,
            checked,
        )
    }

    /// As [`send`](Self::send), of a message that is one packet and can go at once: `write` writes the header, which has `header` bytes,
    /// and behind it the body of `body` bytes. False: nothing has happened, send it in the ordinary way. Fast path.
    #[inline(always)]
    pub fn send_now(
        &self,
        to: Peer,
        channel: Channel,
        (header, body): (usize, usize),
        write: impl FnOnce(&mut [[u8; 8]]),
    ) -> bool {
        if header > HEADER_BYTES || body > PACKET_BYTES - wire::WORD - header {
            return false;
        }
        let NetState {
            tx,
            rx,
            lines,
            figures,
            ..
        } = &mut *self.state.borrow_mut();
        let on = (rx, lines);
        tx.send_now(&*self.fabric, on, figures, (to, channel), (header, body), write)
    }

    /// Decide about a message for which [`Upper::arrived`] said [`Placement::Later`]. False: there is none of that name.
    pub fn place(&self, pending: RxId, placement: Placement) -> bool {
        let NetState { rx, figures, .. } = &mut *self.state.borrow_mut();
        rx.place(&*self.fabric, figures, pending, placement)
    }

    /// Whether nothing is on its way from here or to here, as far as this process knows.
    pub fn is_idle(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        state.tx.is_idle(&mut state.lines) && state.rx.is_idle() && state.lines.is_idle()
    }

    /// Whether something has come that [`progress`](Self::progress) has not looked at yet. Before a sleep.
    pub fn has_arrived(&self) -> bool {
        let fabric = &*self.fabric;
        fabric.progress();
        let waits = |priority: &Priority| fabric.packets_waiting(self.port, *priority, 1) > 0;
        Priority::ALL.iter().any(waits) || self.state.borrow().lines.has_arrived(fabric)
    }

    /// Send acknowledgements that are owed: before a sleep.
    pub fn flush(&self) {
        let NetState { rx, figures, .. } = &mut *self.state.borrow_mut();
        if rx.owes() {
            rx.flush(&*self.fabric, figures);
        }
    }

    /// Move everything that can be moved, and tell `upper` about it. True: something happened.
    #[inline]
    pub fn progress(&self, upper: &mut impl Upper) -> bool {
        if self.inside.replace(true) {
            return false;
        }
        let fabric = &*self.fabric;
        let mut moved = fabric.progress();
        for _ in 0..BURST {
            let polled = fabric.poll_packet(self.port, |from, priority, bytes| {
                self.on_packet(upper, from, priority, bytes);
            });
            if !polled {
                break;
            }
            moved = true;
        }
        moved |= self.take_lines(upper, BURST);
        let told = {
            let state = &mut *self.state.borrow_mut();
            state.turn += 1;
            if state.turn.is_multiple_of(HEAR) {
                moved |= state.lines.hear();
            }
            if state.tx.has_active() {
                moved |= state.tx.pump(
                    fabric,
                    (&mut state.rx, &mut state.lines),
                    &mut state.figures,
                    state.turn,
                );
            }
            if state.rx.has_fetching() {
                moved |= state.rx.fetch_all(fabric, &mut state.figures);
            }
            if state.tx.has_offers() {
                moved |= state.tx.serve_offers(fabric);
            }
            if state.rx.urgent {
                state.rx.flush(fabric, &mut state.figures);
            }
            state.idle = if moved { 0 } else { state.idle + 1 };
            if !moved && (state.tx.has_active() || state.rx.starved) && state.make_up(fabric.now()) {
                self.tend(state);
            }
            if state.idle.is_multiple_of(CLOCK) && (!moved || state.turn.is_multiple_of(4096)) {
                self.tend(state);
            }
            !(state.tx.finished.is_empty() && state.rx.finished.is_empty())
        };
        if told {
            self.tell(upper);
            moved = true;
        }
        self.inside.set(false);
        moved
    }

    /// Take one message from lines or, where there are lines not each time, one packet, if one is there; what else there is to do is done only where it cannot wait for the next call of
    /// [`progress`](Self::progress), or is done once in so many messages. True: one was there. For loops that wait. Fast path.
    #[inline(always)]
    pub fn look(&self, upper: &mut impl Upper) -> bool {
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        let at_packets = looks & (self.packets - 1) == 0;
        if self.inside.get() {
            return false;
        }
        let there = self.state.borrow().lines.next_there();
        // Most looks find nothing, and those that do have the registers to themselves.
        match there {
            Some(there) if self.take_from_lines(upper, there) => true,
            _ => at_packets && self.take_packet(upper),
        }
    }

    /// A [`look`](Self::look) that has found somebody's lines.
    #[inline(never)]
    fn take_from_lines(&self, upper: &mut impl Upper, (index, turn, from): (usize, usize, Peer)) -> bool {
        self.inside.set(true);
        let taken = self.take_line(upper, (from, index), turn) || self.take_other_line(upper);
        self.inside.set(false);
        let due = taken && {
            let state = self.state.borrow();
            state.figures.received.is_multiple_of(BURST as u64) || state.is_busy()
        };
        due && self.progress(upper) || taken
    }

    /// A [`look`](Self::look) at packets.
    #[inline(never)]
    fn take_packet(&self, upper: &mut impl Upper) -> bool {
        self.inside.set(true);
        let fabric = &*self.fabric;
        fabric.progress();
        let polled = fabric.poll_packet(self.port, |from, priority, bytes| {
            self.on_packet(upper, from, priority, bytes);
        });
        self.inside.set(false);
        let due = {
            let state = self.state.borrow();
            polled && state.figures.received.is_multiple_of(BURST as u64) || state.is_busy()
        };
        due && self.progress(upper) || polled
    }

    /// Tell what has ended. Nothing is borrowed meanwhile: `upper` may send.
    #[inline(never)]
    fn tell(&self, upper: &mut impl Upper) {
        loop {
            let (deposited, sent) = {
                let state = &mut *self.state.borrow_mut();
                (state.rx.finished.pop_front(), state.tx.finished.pop_front())
            };
            if deposited.is_none() && sent.is_none() {
                return;
            }
            if let Some((token, outcome)) = deposited {
                upper.deposited(token, outcome);
            }
            if let Some((token, outcome)) = sent {
                upper.sent(token, outcome);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn tend(&self, state: &mut NetState<F>) {
        let fabric = &*self.fabric;
        if state.idle.is_multiple_of(CLOCK * AT_REST) && state.rx.owes() {
            state.rx.flush(fabric, &mut state.figures);
        }
        let now = fabric.now();
        if now - state.tended < TEND && !self.impatient {
            return;
        }
        state.tended = now;
        let ask = self.impatient || now - state.asked >= ASK;
        if ask {
            state.asked = now;
            state.rx.tend(fabric);
            state.lines.give_back(now);
        }
        let on = (fabric, &mut state.lines);
        state.tx.tend(on, &mut state.figures, now, ask);
    }
}
