//! What an engine asks of its carrier. The carriers are above, in `crate::carrier`.

use super::Engine;
use super::envelope::Envelope;
use super::request::{Mode, Payload};
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Line, Peer};

/// A receive from one source into plain memory, without a request.
pub struct Direct {
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

/// Hands the methods of [`Carrier`], about an engine `$E`, to the macro `$then`: to declare them, and to forward them.
macro_rules! carrier_methods {
    ($then:ident, $E:ty) => {
        $then! {
            /// Send a message that is one run of memory, if that is over at once. False: take [`send`](Carrier::send).
            fn send_at_once(engine: &mut $E, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool;

            /// Start a send. `None`: it is complete.
            ///
            /// # Errors
            /// The peer is lost, the tag cannot be told apart, or memory is short.
            fn send(engine: &mut $E, peer: Peer, envelope: Envelope, payload: Payload, mode: Mode) -> Result<Option<usize>>;

            /// Receive a message if it comes within so many looks: source, tag and bytes. `None`: take [`receive`](Carrier::receive).
            fn receive_at_once(engine: &mut $E, wanted: &Direct, to: &mut [u8], looks: u32) -> Option<(Rank, i32, usize)>;

            /// Start the receive of a request: give it a message that has come, or post it.
            ///
            /// # Errors
            /// The tag cannot be told apart, or memory is short; the caller discards the request.
            fn receive(engine: &mut $E, handle: usize) -> Result<()>;

            /// Give a message that the carrier holds under `number` to the receive `handle`; or to nobody, ever.
            fn take_held(engine: &mut $E, peer: Peer, envelope: &Envelope, number: u32, handle: Option<usize>);

            /// Ask the receiver of a send under way to drop the message unmatched; the answer ends the request.
            fn ask_back(engine: &mut $E, handle: usize);

            /// A request ends before its time, with an error or cancelled: forget it. False: it is about to come to a good end.
            fn give_up(engine: &mut $E, handle: usize) -> bool;

            /// Send an answer, now or as soon as there is room: a [line](super::wire) without an envelope. Answers may overtake messages.
            fn answer(engine: &mut $E, peer: Peer, line: Line);

            /// Send what waits for a peer, as far as there is room. True: something went.
            fn push(engine: &mut $E, peer: Peer) -> bool;

            /// Tell a peer to keep its messages until they are received, or that it need not any more.
            fn hold_back(engine: &mut $E, peer: Peer, on: bool);

            /// Let everything move that can. True: something did.
            fn progress(engine: &mut $E) -> bool;

            /// What peers that have ended sent before has arrived: take it in.
            fn catch_up(engine: &mut $E);

            /// The same of one peer, to and from which nothing goes any more.
            fn close_peer(engine: &mut $E, peer: Peer);

            /// Whether a look would find something. `None`: only a look tells.
            fn is_ready(engine: &$E) -> Option<bool>;

            /// Whether there is something that only calls of ours move along.
            fn has_duties(engine: &$E) -> bool;

            /// Whether a peer of this host has not taken yet what was sent to it, since the last question.
            fn has_untaken(engine: &$E, rings: &std::cell::Cell<u64>) -> bool;

            /// Before a sleep: pay what is owed. True: nothing rings when what is under way moves.
            fn rest(engine: &mut $E) -> bool;

            /// Whether every peer but those that are `gone` has taken what was sent to it, as far as it needs this process for that.
            fn is_drained(engine: &mut $E, gone: &dyn Fn(Peer) -> bool) -> bool;
        }
    };
}

pub(crate) use carrier_methods;

macro_rules! declare {
    ($($(#[$doc:meta])* fn $name:ident($engine:ident: $of:ty $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {
        /// A carrier of messages. Its methods are about an engine whose carrier is `C`: itself, or one that chooses among several.
        pub trait Carrier<F: Fabric, C = Self>: Sized {
            $($(#[$doc])* fn $name($engine: $of $(, $arg: $type)*) $(-> $result)?;)*
        }
    };
}

carrier_methods!(declare, Engine<F, C>);
