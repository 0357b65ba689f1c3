//! What carries MPI messages: a folder each, behind one trait. The engine knows requests, statuses, contexts, messages that came
//! before their receives, and what is lost with a peer; which carrier it has is decided when it is made, and nothing outside this
//! folder asks.
//!
//! Two families. *Matched here*: a carrier brings the envelope, and the engine's queues say which receive takes it: [`postbox`],
//! postboxes and blocks in memory that both sides see or that the fabric writes to, and [`messages`], whole messages by Fast Messages or
//! by JAM. *Matched there*: the layer has the receives and matches by itself: [`portals`].

mod config;
pub(crate) mod messages;
pub(crate) mod portals;
pub(crate) mod postbox;

pub use config::{Device, DeviceConfig, DeviceTunables, VARIABLE};

use crate::engine::envelope::Envelope;
use crate::engine::request::Payload;
use crate::engine::{Engine, EngineTunables};
use crate::p2p::Mode;
use crate::{Rank, Result};
use farpost_channel::ChannelTunables;
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Line, Peer};
use messages::{ByFm, ByJam, ByMessages, Messages};
use std::rc::Rc;

/// A receive from one source into plain memory, without a request.
pub(crate) struct Direct {
    /// The context's index and number.
    pub context: usize,
    pub context_id: u64,
    pub peer: Peer,
    pub source: Rank,
    pub tag: i32,
    pub class: u8,
}

impl Direct {
    /// The words of its message's envelope in a postbox, if it is of the same class.
    #[inline(always)]
    pub fn words(&self) -> [u64; 2] {
        let (source, tag) = (self.source as u32, self.tag);
        Envelope {
            context: self.context_id,
            source,
            tag,
            class: self.class,
            flags: 0,
        }
        .words()
    }
}

/// What a carrier can tell apart.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest tag (`MPI_TAG_UB`).
    pub tag_ub: i32,
    /// Bits of a context number that count what one leader has handed out.
    pub count_bits: u32,
}

/// The carrier of an engine, with what it keeps.
pub(crate) enum Chosen<F: Fabric> {
    /// What it keeps is the engine's own, one load nearer.
    Postbox,
    Fm(Box<Messages<ByFm<F>>>),
    Jam(Box<Messages<ByJam<F>>>),
    Portals(Box<portals::Portals<F>>),
}

/// The trait, and its forwarding to the carrier that an engine has.
macro_rules! carrier {
    ($($(#[$doc:meta])* fn $name:ident($engine:ident: $of:ty $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {
        /// A carrier of messages. Its methods are about an engine that has it.
        pub(crate) trait Carrier<F: Fabric> {
            $($(#[$doc])* fn $name($engine: $of $(, $arg: $type)*) $(-> $result)?;)*
        }

        impl<F: Fabric> Carrier<F> for Chosen<F> {
            $(
                #[inline]
                fn $name($engine: $of $(, $arg: $type)*) $(-> $result)? {
                    match $engine.carrier {
                        Chosen::Postbox => postbox::Postbox::$name($engine $(, $arg)*),
                        Chosen::Fm(_) => ByMessages::<F, ByFm<F>>::$name($engine $(, $arg)*),
                        Chosen::Jam(_) => ByMessages::<F, ByJam<F>>::$name($engine $(, $arg)*),
                        Chosen::Portals(_) => portals::ByPortals::$name($engine $(, $arg)*),
                    }
                }
            )*
        }
    };
}

carrier! {
    /// Send a message that is one run of memory, if that is over at once. False: take [`send`](Carrier::send).
    fn send_at_once(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool;

    /// Start a send. `None`: it is complete.
    ///
    /// # Errors
    /// The peer is lost, the tag cannot be told apart, or memory is short.
    fn send(engine: &mut Engine<F>, peer: Peer, envelope: Envelope, payload: Payload, mode: Mode) -> Result<Option<usize>>;

    /// Receive a message if it comes within so many looks: source, tag and bytes. `None`: take [`receive`](Carrier::receive).
    fn receive_at_once(engine: &mut Engine<F>, wanted: &Direct, to: &mut [u8], looks: u32) -> Option<(Rank, i32, usize)>;

    /// Start the receive of a request: give it a message that has come, or post it.
    ///
    /// # Errors
    /// The tag cannot be told apart, or memory is short; the caller discards the request.
    fn receive(engine: &mut Engine<F>, handle: usize) -> Result<()>;

    /// Give a message that the carrier holds under `number` to the receive `handle`; or to nobody, ever.
    fn take_held(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, number: u32, handle: Option<usize>);

    /// Ask the receiver of a send under way to drop the message unmatched; the answer ends the request.
    fn ask_back(engine: &mut Engine<F>, handle: usize);

    /// A request ends before its time, with an error or cancelled: forget it. False: it is about to come to a good end.
    fn give_up(engine: &mut Engine<F>, handle: usize) -> bool;

    /// Send an answer, now or as soon as there is room: a [line](postbox::wire) without an envelope. Answers may overtake messages.
    fn answer(engine: &mut Engine<F>, peer: Peer, line: Line);

    /// Send what waits for a peer, as far as there is room. True: something went.
    fn push(engine: &mut Engine<F>, peer: Peer) -> bool;

    /// Tell a peer to keep its messages until they are received, or that it need not any more.
    fn hold_back(engine: &mut Engine<F>, peer: Peer, on: bool);

    /// Let everything move that can. True: something did.
    fn progress(engine: &mut Engine<F>) -> bool;

    /// What peers that have ended sent before has arrived: take it in.
    fn catch_up(engine: &mut Engine<F>);

    /// The same of one peer, to and from which nothing goes any more.
    fn close_peer(engine: &mut Engine<F>, peer: Peer);

    /// Whether a look would find something. `None`: only a look tells.
    fn is_ready(engine: &Engine<F>) -> Option<bool>;

    /// Whether there is something that only calls of ours move along.
    fn has_duties(engine: &Engine<F>) -> bool;

    /// Whether a peer of this host has not taken yet what was sent to it, since the last question.
    fn has_untaken(engine: &Engine<F>, rings: &std::cell::Cell<u64>) -> bool;

    /// Before a sleep: pay what is owed. True: nothing rings when what is under way moves.
    fn rest(engine: &mut Engine<F>) -> bool;

    /// Whether every peer but those that are `gone` has taken what was sent to it, as far as it needs this process for that.
    fn is_drained(engine: &mut Engine<F>, gone: &dyn Fn(Peer) -> bool) -> bool;
}

impl<F: Fabric> Chosen<F> {
    /// The carrier that `config` names, and whether it brings what goes to each peer by postboxes.
    pub fn new(
        fabric: &Rc<F>,
        channel: &ChannelTunables,
        tunables: &EngineTunables,
        (config, wait): (&DeviceConfig, &WaitTunables),
    ) -> (Self, Vec<bool>) {
        let peers = (0..fabric.size()).map(Peer);
        let near = |peer| fabric.maps(peer) && config.tunables.jam_local != 0;
        let by_postbox: Vec<bool> = match config.device {
            Device::Postbox => peers.map(|_| true).collect(),
            Device::Jam => peers.map(near).collect(),
            Device::Fm | Device::Portals => peers.map(|_| false).collect(),
        };
        let bounds = (channel, tunables, config);
        let chosen = match config.device {
            _ if !by_postbox.contains(&false) => Chosen::Postbox,
            Device::Postbox => Chosen::Postbox,
            Device::Fm => Chosen::Fm(Messages::new(
                ByFm::new(Rc::clone(fabric), &config.fm),
                fabric,
                bounds,
            )),
            Device::Jam => Chosen::Jam(Messages::new(ByJam::new(Rc::clone(fabric)), fabric, bounds)),
            Device::Portals => {
                let short = tunables.eager_max.max(tunables.eager_far);
                Chosen::Portals(Box::new(portals::Portals::new(fabric, config, wait, short)))
            }
        };
        (chosen, by_postbox)
    }

    /// Whether an agent moves messages that this process has to look after, even while its program computes.
    pub fn serves_agent(&self) -> bool {
        matches!(self, Chosen::Portals(portals) if portals.serves_agent())
    }

    /// What the carrier can tell apart.
    pub fn limits(&self) -> Limits {
        match self {
            Chosen::Postbox | Chosen::Fm(_) | Chosen::Jam(_) => postbox::LIMITS,
            Chosen::Portals(portals) => portals.limits(),
        }
    }
}
