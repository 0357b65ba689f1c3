//! What carries MPI messages: a folder each, behind one trait. The engine knows requests, statuses, contexts, messages that came
//! before their receives, and what is lost with a peer; which carrier it has is decided when it is made, and nothing outside this
//! folder asks.
//!
//! Two families. *Matched here*: a carrier brings the envelope, and the engine's queues say which receive takes it: [`postbox`],
//! postboxes and blocks in memory that both sides see or that the fabric writes to. *Matched there*: the layer has the receives and
//! matches by itself: [`portals`]. Fast Messages and JAM carry the lines of postboxes to peers whose memory is then not mapped
//! ([`puts`]); [`Carried`] is the fabric that the engine sees there.
//!
//! What a peer's message says where it is to go is input: segment, place, length and permission are checked.

mod config;
pub(crate) mod portals;
pub(crate) mod postbox;
mod puts;

pub use config::{Device, DeviceConfig, DeviceTunables, VARIABLE};
pub use puts::{Bell, Carried, Import};

use crate::engine::Engine;
use crate::engine::envelope::Envelope;
use crate::engine::request::Payload;
use crate::p2p::Mode;
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Peer};

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

/// What a carrier can tell apart.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest tag (`MPI_TAG_UB`).
    pub tag_ub: i32,
    /// Bits of a context number that count what one leader has handed out.
    pub count_bits: u32,
    /// The engine's queues have all receives and all messages that came before theirs.
    pub matched_here: bool,
}

/// The carrier of an engine, with what it keeps.
pub(crate) enum Chosen<F: Fabric> {
    /// What it keeps is the engine's own, one load nearer.
    Postbox,
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

    /// Let everything move that can. True: something did.
    fn progress(engine: &mut Engine<F>) -> bool;

    /// What peers that have ended sent before has arrived: take it in.
    fn catch_up(engine: &mut Engine<F>);

    /// The same of one peer, to and from which nothing goes any more.
    fn close_peer(engine: &mut Engine<F>, peer: Peer);

    /// Whether a look would find something, as far as that is known without looking.
    fn is_ready(engine: &Engine<F>) -> bool;

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
    /// Whether messages to other processes are lines of postboxes.
    pub fn posts_lines(&self) -> bool {
        matches!(self, Chosen::Postbox)
    }

    /// What the carrier can tell apart.
    pub fn limits(&self) -> Limits {
        match self {
            Chosen::Postbox => postbox::LIMITS,
            Chosen::Portals(portals) => portals.limits(),
        }
    }
}
