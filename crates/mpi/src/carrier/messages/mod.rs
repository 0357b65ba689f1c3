//! MPI over a layer of messages, matched here: Fast Messages to every peer ([`ByFm`]), JAM to those that postboxes are not for
//! ([`ByJam`]). What [`Layer`] has for a layer is all that differs.
//!
//! A message travels in *pieces*, gathered from a header and the user's buffer and put by the receiver straight into the buffer of the
//! receive that takes it. Pieces from one process to another arrive in order, each with a kind and a number:
//!
//! | Kind | Number | Words and bytes |
//! |---|---|---|
//! | `RUN` | bytes of the message | envelope (2 words; 3 with the sender's request, if that waits for the match), the first bytes |
//! | `DATA` | bytes of this part of a long message | the receiver's request, the first bytes |
//! | `MORE` | | more bytes of the run or part that was begun last |
//! | `RTS` | | the offer of a long message: words 1 to 7 of the [line](crate::engine::wire) that postboxes have for it |
//! | `CTS`, `DONE`, `CANCEL`, `CANCELLED` | | words 3 to 5 of such a line |
//! | `CREDIT` | | messages taken (32 bits) and whether to hold back; their bytes |
//! | `BROKEN` | | the receiver's request, or none for a run: the rest will not come |
//!
//! Answers go before the next piece of any run, so they never wait behind a message; they wait for nothing but that the peer takes
//! pieces. A message of at most `FARPOST_EAGER_FAR` bytes is a run; of longer ones, and of those that a receiver holds back, an offer
//! goes, and the bytes follow in parts when it is received. Where a layer says so ([`Layer::TRANSFERS`]) and the fabric transfers between
//! memories, the receiver has it fetch them instead: JAM's block transfer, of which the offer is the *ask*.
//!
//! **Memory.** A sender has credit at each receiver, as many messages and bytes as a queue of postboxes and its blocks would have. They come
//! back when they are taken, half of them at a time; nobody has to receive them for that. A receiver that keeps too much says so with
//! the credit (`engine/unexpected.rs`).
//!
//! **Pace.** A call that makes progress takes a bounded number of pieces; what has not been taken waits in the network or at its
//! sender, so a receiver takes data as fast as it receives it.
//!
//! Cost class: *fast path* for messages of one piece; else *queued path*.

/// What a carrier keeps whose layer is this variant of [`Chosen`].
macro_rules! chosen {
    ($layer:ident) => {
        #[inline(always)]
        fn of(chosen: &Chosen<F>) -> &Messages<Self> {
            match chosen {
                Chosen::$layer(messages) => messages,
                _ => unreachable!("the carrier is {}", stringify!($layer)),
            }
        }

        #[inline(always)]
        fn of_mut(chosen: &mut Chosen<F>) -> &mut Messages<Self> {
            match chosen {
                Chosen::$layer(messages) => messages,
                _ => unreachable!("the carrier is {}", stringify!($layer)),
            }
        }
    };
}

mod fm;
mod jam;
mod receive;
mod send;

pub(crate) use fm::ByFm;
pub(crate) use jam::ByJam;

use super::postbox::Postbox;
use super::{Chosen, DeviceConfig};
use crate::carrier::Engine;
use crate::engine::carrier::Direct;
use crate::engine::envelope::Envelope;
use crate::engine::request::{Mode, Payload, SendState};
use crate::engine::{Carrier, EngineTunables, wire};
use crate::{Rank, Result};
use farpost_channel::ChannelTunables;
use farpost_fabric::{Counter, Distance, Fabric, Line, Peer};
use receive::Incoming;
use send::Run;
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

/// Pieces that one call takes.
const AT_ONCE: u32 = 512;
/// Looks at a network before a wait begins in earnest.
const FAR_LOOKS: u32 = 64;
/// Bytes that go with the header of a message that its receiver holds back.
const TINY: u64 = 32;

const KIND_CREDIT: u8 = 13;
const KIND_BROKEN: u8 = 14;
/// In the first word of a credit: hold back.
const HOLD_BACK: u64 = 1 << 32;

/// What a piece says beside its words and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: u8,
    /// Bytes of all of what it begins.
    pub number: u32,
}

/// A layer that brings pieces.
pub(crate) trait Layer<F: Fabric>: Sized {
    /// Bytes of a piece, its words included.
    const MOST: usize;
    /// Whether long messages that are one run go by the fabric's transfers.
    const TRANSFERS: bool;

    /// Send a piece. False: not now, or never because the peer is lost. Does not wait, and nothing is kept.
    fn try_send(&self, to: Peer, head: Head, words: &[u64], bytes: &[u8]) -> bool;

    /// Show `take` at most so many pieces: how many there were. `take` may send.
    fn poll(&self, most: u32, take: impl FnMut(Peer, Head, &[u8])) -> u32;

    /// Before a sleep: pay what is owed.
    fn rest(&self);

    /// Whether something has not left the process, and nobody rings when there is room for it.
    fn has_unsent(&self) -> bool;

    /// Nothing goes to `peer` or comes from it any more.
    fn lose(&self, peer: Peer);

    /// The longest message that is sent unasked where tunables say `eager` and the fabric `transfers` or not.
    fn eager(eager: u64, config: &DeviceConfig, transfers: bool) -> u64;

    /// What the carrier keeps, which has this layer.
    fn of(chosen: &Chosen<F>) -> &Messages<Self>;

    /// The same, to be changed.
    fn of_mut(chosen: &mut Chosen<F>) -> &mut Messages<Self>;
}

/// Messages and their bytes, counted since the beginning.
#[derive(Clone, Copy, Default)]
struct Tally {
    messages: u32,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.messages = self.messages.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn since(self, other: Tally) -> Tally {
        Tally {
            messages: self.messages.wrapping_sub(other.messages),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// Pieces and the bytes of messages in them that went or came and are not in the fabric's counters yet.
#[derive(Clone, Copy, Default)]
struct Uncounted {
    pieces: u64,
    bytes: u64,
}

impl Uncounted {
    #[inline(always)]
    fn add(&mut self, bytes: usize) {
        self.pieces += 1;
        self.bytes += bytes as u64;
    }

    /// Add them to the counters.
    fn tell(&mut self, fabric: &impl Fabric, peer: Peer, pieces: Counter, bytes: Counter) {
        if self.pieces > 0 {
            fabric.count(peer, pieces, self.pieces);
            fabric.count(peer, bytes, self.bytes);
            *self = Self::default();
        }
    }
}

/// Whether a message takes credit: not one so short whose sender waits for it, which takes no more memory here than there.
fn takes_credit(is_awaited: bool, bytes: u64) -> bool {
    !is_awaited || bytes > TINY
}

/// What is kept about a peer.
#[derive(Default)]
struct Far {
    /// What is being sent to it.
    run: Option<Run>,
    /// Whether a part of a long message is next, and not a message.
    part_next: bool,
    sent: Tally,
    /// Of that, what it has taken.
    acked: Tally,
    /// It asks for headers only.
    holds_back: bool,
    /// The longest message that is sent to it unasked.
    eager: u64,
    gone: Uncounted,
    come: Uncounted,
    /// What it is sending.
    incoming: Option<Incoming>,
    taken: Tally,
    /// Of that, what it has been told.
    told: Tally,
    /// It broke the protocol: what comes of it is dropped.
    is_closed: bool,
}

/// A carrier of messages.
pub(crate) struct Messages<L> {
    layer: Rc<L>,
    peers: Vec<Far>,
    /// Peers whose message is arriving, and nobody has received it yet.
    arriving: Vec<Peer>,
    /// What may be on its way to a peer.
    most: Tally,
    /// Peers with something that is not in the fabric's counters yet.
    uncounted: Vec<Peer>,
}

impl<L> Messages<L> {
    pub fn new<F: Fabric>(
        layer: L,
        fabric: &Rc<F>,
        (channel, tunables, config): (&ChannelTunables, &EngineTunables, &DeviceConfig),
    ) -> Box<Self>
    where
        L: Layer<F>,
    {
        let most = Tally {
            messages: channel.slots as u32,
            bytes: channel.blocks * channel.block,
        };
        let far = |peer| {
            let eager = L::eager(tunables.eager_far, config, fabric.can_transfer(Peer(peer)));
            Far {
                // Half of the credit is given back at once, and must do for one.
                eager: eager.min(most.bytes / 2),
                ..Far::default()
            }
        };
        Box::new(Self {
            layer: Rc::new(layer),
            peers: (0..fabric.size()).map(far).collect(),
            arriving: Vec::new(),
            most,
            uncounted: Vec::new(),
        })
    }

    /// A piece has gone to a peer, with so many bytes of a message.
    #[inline(always)]
    fn count_gone(&mut self, peer: Peer, bytes: usize) {
        self.about_to_count(peer).gone.add(bytes);
    }

    /// The same of one that came.
    #[inline(always)]
    fn count_come(&mut self, peer: Peer, bytes: usize) {
        self.about_to_count(peer).come.add(bytes);
    }

    #[inline(always)]
    fn about_to_count(&mut self, peer: Peer) -> &mut Far {
        let far = &mut self.peers[peer.index()];
        if far.gone.pieces | far.come.pieces == 0 {
            self.uncounted.push(peer);
        }
        far
    }
}

/// The carrier over the layer `L`.
pub(crate) struct ByMessages<F, L>(PhantomData<(F, L)>);

impl<F: Fabric, L: Layer<F>> ByMessages<F, L> {
    /// Take what has come, at most so many pieces. True: something had.
    #[inline]
    fn poll(engine: &mut Engine<F>, most: u32) -> bool {
        let layer = Rc::clone(&L::of(&engine.carrier).layer);
        layer.poll(most, |peer, head, piece| {
            Self::on_piece(engine, peer, head, piece)
        }) > 0
    }
}

impl<F: Fabric, L: Layer<F>> Carrier<F, Chosen<F>> for ByMessages<F, L> {
    #[inline]
    fn send_at_once(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if engine.by_postbox.get(peer) {
            return Postbox::send_at_once(engine, peer, envelope, data);
        }
        Self::send_whole(engine, peer, envelope, data)
    }

    fn send(
        engine: &mut Engine<F>,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        if engine.by_postbox.get(peer) || peer == engine.me {
            return Postbox::send(engine, peer, envelope, payload, mode);
        }
        Self::start_send(engine, peer, envelope, payload, mode)
    }

    fn receive_at_once(
        engine: &mut Engine<F>,
        wanted: &Direct,
        to: &mut [u8],
        mut looks: u32,
    ) -> Option<(Rank, i32, usize)> {
        if engine.by_postbox.get(wanted.peer) {
            return Postbox::receive_at_once(engine, wanted, to, looks);
        }
        if engine.has_duties() {
            looks = 1;
        } else if engine.fabric.distance(wanted.peer) == Distance::Far {
            looks = looks.min(FAR_LOOKS);
        }
        let layer = Rc::clone(&L::of(&engine.carrier).layer);
        let mut got = None;
        for _ in 0..looks {
            // What is kept or arriving, or comes for a receive that is posted, is for the long way.
            if !engine.contexts[wanted.context].queues.quiet() || !L::of(&engine.carrier).arriving.is_empty()
            {
                return None;
            }
            layer.poll(1, |peer, head, piece| {
                got = Self::take_at_once(engine, wanted, to, (peer, head, piece));
                if got.is_none() {
                    Self::on_piece(engine, peer, head, piece);
                }
            });
            if got.is_some() {
                return got;
            }
        }
        None
    }

    fn receive(engine: &mut Engine<F>, handle: usize) -> Result<()> {
        if !L::of(&engine.carrier).arriving.is_empty() && Self::take_arriving(engine, handle) {
            return Ok(());
        }
        Postbox::receive(engine, handle)
    }

    fn take_held(_: &mut Engine<F>, _: Peer, _: &Envelope, _: u32, _: Option<usize>) {}

    fn ask_back(engine: &mut Engine<F>, handle: usize) {
        Postbox::ask_back(engine, handle);
    }

    fn give_up(engine: &mut Engine<F>, handle: usize) -> bool {
        if let Some(send) = engine.requests.send(handle)
            && !engine.by_postbox.get(send.peer)
        {
            let (peer, state) = (send.peer, send.state);
            let far = &mut L::of_mut(&mut engine.carrier).peers[peer.index()];
            far.run.take_if(|run| run.handle == handle);
            // The receiver is not to take what comes next for the rest.
            match state {
                SendState::Leaving => Self::answer(engine, peer, send::broken(None)),
                SendState::Streaming { remote, .. } => Self::answer(engine, peer, send::broken(Some(remote))),
                _ => {}
            }
        }
        true
    }

    fn answer(engine: &mut Engine<F>, peer: Peer, line: Line) {
        if engine.by_postbox.get(peer) {
            return Postbox::answer(engine, peer, line);
        }
        let layer = &L::of(&engine.carrier).layer;
        if engine.outgoing[peer.index()].control.is_empty() && send::try_line(&**layer, peer, &line) {
            return;
        }
        engine.engage(peer);
        engine.outgoing[peer.index()].control.push_back(line);
    }

    fn push(engine: &mut Engine<F>, peer: Peer) -> bool {
        if engine.by_postbox.get(peer) {
            return Postbox::push(engine, peer);
        }
        Self::push_all(engine, peer)
    }

    fn hold_back(engine: &mut Engine<F>, peer: Peer, on: bool) {
        if engine.by_postbox.get(peer) {
            return Postbox::hold_back(engine, peer, on);
        }
        Self::give_credit(engine, peer);
    }

    #[inline]
    fn progress(engine: &mut Engine<F>) -> bool {
        Self::poll(engine, AT_ONCE) | Postbox::progress(engine)
    }

    fn catch_up(engine: &mut Engine<F>) {
        while Self::poll(engine, AT_ONCE) {}
        Postbox::catch_up(engine);
    }

    fn close_peer(engine: &mut Engine<F>, peer: Peer) {
        while Self::poll(engine, AT_ONCE) {}
        Self::close(engine, peer);
        L::of(&engine.carrier).layer.lose(peer);
        Postbox::close_peer(engine, peer);
    }

    #[inline]
    fn is_ready(_: &Engine<F>) -> Option<bool> {
        None
    }

    #[inline]
    fn has_duties(engine: &Engine<F>) -> bool {
        L::of(&engine.carrier).layer.has_unsent() || Postbox::has_duties(engine)
    }

    fn has_untaken(engine: &Engine<F>, rings: &Cell<u64>) -> bool {
        rings.replace(engine.fabric.rings()) != engine.fabric.rings() || Postbox::has_untaken(engine, rings)
    }

    fn rest(engine: &mut Engine<F>) -> bool {
        let messages = L::of_mut(&mut engine.carrier);
        for peer in messages.uncounted.drain(..) {
            let far = &mut messages.peers[peer.index()];
            far.gone
                .tell(&*engine.fabric, peer, Counter::Sent, Counter::SentBytes);
            far.come
                .tell(&*engine.fabric, peer, Counter::Received, Counter::ReceivedBytes);
        }
        let layer = &messages.layer;
        layer.rest();
        let unsent = layer.has_unsent();
        Postbox::rest(engine) | unsent
    }

    fn is_drained(engine: &mut Engine<F>, gone: &dyn Fn(Peer) -> bool) -> bool {
        let layer = Rc::clone(&L::of(&engine.carrier).layer);
        layer.rest();
        if layer.has_unsent() {
            (0..engine.fabric.size())
                .map(Peer)
                .filter(|peer| gone(*peer))
                .for_each(|peer| layer.lose(peer));
        }
        !layer.has_unsent() && engine.busy.iter().all(|peer| gone(*peer)) && Postbox::is_drained(engine, gone)
    }
}

/// The words of a line that travel, which all are its own but the first.
fn words_of(kind: u8, line: &Line) -> &[u64] {
    if kind == wire::KIND_RTS {
        &line[1..]
    } else {
        &line[3..6]
    }
}
