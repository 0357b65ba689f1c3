//! A link: all that goes between this process and one peer, over one or more rails.

use super::bulk::{Get, IncomingZcopy, Serve, TransferId};
use super::frame::{FrameError, FrameKind};
use super::log::Log;
use super::rail::{Rail, RailState, RailTotals};
use super::reorder::Early;
use super::{LinkConfig, RailNumber};
use farpost_fabric::Carried;
use farpost_fabric::RailFigures;
use std::collections::{BTreeMap, VecDeque};

/// Why nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The retransmit log is at its bound: make progress, then offer it again.
    #[error("as much as permitted waits for the peer's acknowledgement")]
    Full,
    /// After a bye, or after the link was lost.
    #[error("the link is closed")]
    Closed,
}

/// How a peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A header that cannot be.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// An acknowledgement of frames never sent.
    #[error("acknowledges frame {ack}, but the last one sent is {last}")]
    Ack { ack: u32, last: u32 },
    /// A sequence number further ahead than the peer may be.
    #[error("sends frame {seq} where {expected} is expected next: further ahead than permitted")]
    Ahead { seq: u32, expected: u32 },
    /// A range that the transfer does not have.
    #[error("sends or acknowledges bytes {offset} to {end} of a transfer of {len} bytes")]
    Range { offset: u64, end: u64, len: u64 },
    /// A ticket never given out.
    #[error("names transfer {ticket}, which was never asked for")]
    Ticket { ticket: u32 },
    /// A transfer asked for while the one of that ticket is under way.
    #[error("asks again for transfer {ticket}, which is under way")]
    Again { ticket: u32 },
    /// A payload that its kind cannot have.
    #[error("a {kind:?} frame with a payload that makes no sense")]
    Payload { kind: FrameKind },
    /// An eager zero-copy payload that may not be sent.
    #[error("sends eager zero-copy payload {number} of {len} bytes, which it may not: {why}")]
    Zcopy {
        number: u32,
        len: u32,
        why: &'static str,
    },
    /// A transfer in too many separate pieces.
    #[error("sends a transfer in more than {limit} separate pieces")]
    TooManyPieces { limit: usize },
}

/// What the driver is asked to do, or told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Look at the rail's transport and call [`Link::on_report`].
    Ask(RailNumber),
    /// Close the rail's connection, it is down already as far as the link is concerned.
    Drop { rail: RailNumber, why: &'static str },
    /// Connect the rail (again). An attempt that the peer's host has answered may go on; any other begins anew.
    Reconnect(RailNumber),
    /// No rail has worked for too long. The link is closed.
    Lost { rails: usize, waited_ns: u64 },
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is its turn: apply it now.
    Deliver,
    /// It was here before. Ignore it.
    Duplicate,
    /// Its turn comes later; the link has a copy. See [`Link::next_held`].
    Held,
    /// For the link itself.
    Signal,
}

/// What happened on a link, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Ordered frames that were sent more than once.
    pub frames_again: u64,
    /// Bulk bytes that were sent more than once.
    pub bulk_again: u64,
    /// Frames that arrived more than once.
    pub duplicates: u64,
    /// Frames that arrived before their turn.
    pub early: u64,
    /// Times a rail was suspected.
    pub suspicions: u64,
    /// Times a rail went down.
    pub downs: u64,
    /// Pings sent.
    pub pings: u64,
    /// Times what was on its way on one rail was taken from it, to go again by another, or by a new connection.
    pub reroutes: u64,
}

/// What links know of the route between two hosts over one rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRoute {
    /// When something last came by it, or a ping was last sent.
    pub probed: u64,
    /// When the host at its other end was last known to live.
    pub alive: u64,
    /// What was sent by it has not been acknowledged for too long.
    pub suspected: bool,
}

impl HostRoute {
    /// What two links know together.
    pub fn join(&mut self, other: &HostRoute) {
        self.probed = self.probed.max(other.probed);
        self.alive = self.alive.max(other.alive);
        self.suspected |= other.suspected;
    }
}

/// One peer's traffic. See the [module's documentation](super) for how it is driven.
#[derive(Default)]
pub struct Link {
    pub(super) config: LinkConfig,
    pub(super) log: Log,
    /// The next frame to be sent, first time or again.
    pub(super) cursor: u32,
    /// Frames before this one were sent at least once.
    pub(super) high: u32,
    /// Ordered frames received, in order and without gaps.
    pub(super) received: u64,
    pub(super) early: Early,
    pub(super) rails: Vec<Rail>,
    /// Connections that there were, of all rails.
    pub(super) connections: u32,
    /// The rail of ordered frames.
    pub(super) lead: Option<RailNumber>,
    pub(super) serves: VecDeque<Serve>,
    pub(super) gets: BTreeMap<u32, Get>,
    pub(super) next_ticket: u32,
    /// Where acknowledgements go: by the rail that was last heard.
    pub(super) ack_rail: RailNumber,
    pub(super) ack_owed: u64,
    pub(super) ack_at: u64,
    pub(super) ack_due: bool,
    /// Incoming eager zero-copy payloads, and the number of the next outgoing one.
    pub(super) zcopy: IncomingZcopy,
    pub(super) next_zcopy: u32,
    pub(super) bulk_acks: VecDeque<(TransferId, u64, u32)>,
    pub(super) bulk_ack_at: u64,
    pub(super) events: VecDeque<Event>,
    pub(super) last_alive: u64,
    pub(super) last_poll: u64,
    pub(super) deadline: u64,
    /// When a rail last went down.
    pub(super) down_since: u64,
    /// Since when this process has looked at the clock without long breaks.
    pub(super) looking_since: u64,
    pub(super) ever_up: bool,
    /// Since when every address of the peer refuses connections, if that is so.
    pub(super) refused_since: Option<u64>,
    pub(super) bye_sent: bool,
    pub(super) bye_heard: bool,
    pub(super) lost: bool,
    pub(super) ping_token: u32,
    /// When it is next seen whether the log is at rest, and the frame that would have been the next the last time.
    pub(super) rest_at: u64,
    pub(super) rest_mark: u32,
    /// It was, and nothing that was used for sending is kept.
    pub(super) rested: bool,
    /// Bytes given back so, if it was at rest.
    pub(super) freed: Option<usize>,
    pub(super) counters: LinkCounters,
}

impl Link {
    /// A link whose rails are all down. The first [`Link::poll`] asks for their connections.
    ///
    /// # Panics
    /// With no rail, or more than 32.
    pub fn new(config: LinkConfig, now: u64) -> Self {
        assert!((1..=32).contains(&config.rails));
        Self {
            log: Log::new(config.tunables.log as usize, 0, config.spare.clone()),
            rails: (0..config.rails).map(|_| Rail::new(now)).collect(),
            ack_at: u64::MAX,
            bulk_ack_at: u64::MAX,
            last_alive: now,
            last_poll: now,
            deadline: now,
            rest_at: now,
            rested: true,
            config,
            ..Self::default()
        }
    }

    /// Whether everything pushed has been acknowledged and every transfer asked of us is complete.
    pub fn drained(&self) -> bool {
        self.log.len() == 0 && self.serves.is_empty()
    }

    /// Whether the peer has acknowledged what was pushed before `mark` ([`Link::mark`]).
    pub fn acknowledged(&self, mark: u32) -> bool {
        mark.wrapping_sub(self.log.first()) as i32 <= 0
    }

    /// A mark behind everything pushed so far.
    pub fn mark(&self) -> u32 {
        self.log.end()
    }

    /// Whether the peer said bye.
    pub fn bye_heard(&self) -> bool {
        self.bye_heard
    }

    /// Whether [`Event::Lost`] was told.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// Whether any rail ever worked.
    pub fn was_up(&self) -> bool {
        self.ever_up
    }

    /// What happened so far.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Bytes of memory that frames occupy here: the log, and frames that came early.
    pub fn memory(&self) -> usize {
        self.log.memory() + self.early.bytes() + self.rails.iter().map(|r| r.saved.capacity()).sum::<usize>()
    }

    /// Bytes that were given back since the last call, if nothing was sent for a while.
    pub fn take_freed(&mut self) -> Option<usize> {
        self.freed.take()
    }

    /// How a rail is.
    pub fn rail_state(&self, rail: RailNumber) -> RailState {
        self.rails[rail].state
    }

    /// Whether a rail carries frames now; there may be no such rail. Transfers are striped over all that do.
    pub fn is_usable(&self, rail: RailNumber) -> bool {
        self.rails.get(rail).is_some_and(Rail::is_usable)
    }

    /// The rails that carry frames now, a bit each.
    pub fn working_rails(&self) -> u32 {
        let working = (0..self.rails.len()).filter(|&rail| self.rails[rail].is_usable());
        working.fold(0, |all, rail| all | 1 << rail)
    }

    /// The rail of ordered frames, if any works.
    pub fn lead(&self) -> Option<RailNumber> {
        self.lead
    }

    /// Bytes that a rail's transports have taken and brought so far; there may be no such rail.
    pub fn carried(&self, rail: RailNumber) -> Carried {
        self.rails
            .get(rail)
            .map_or_else(Carried::default, |rail| rail.carried)
    }

    /// So many bytes came by a rail.
    #[inline]
    pub fn received(&mut self, rail: RailNumber, bytes: u64) {
        self.rails[rail].carried.received += bytes;
    }

    /// What a rail has carried over all its connections, and whether it works; one of a peer that has left is not missed.
    pub fn rail_figures(&self, rail: RailNumber, active: bool) -> RailFigures {
        let r = &self.rails[rail];
        let up = r.state == RailState::Up;
        let RailTotals {
            sent,
            received,
            reroutes,
        } = r.before;
        RailFigures {
            name: String::new(),
            up: u32::from(up),
            down: u32::from(!up && active && r.connection > 0),
            sent: sent + r.frames_out,
            sent_bytes: r.carried.sent,
            received: received + r.frames_in,
            received_bytes: r.carried.received,
            reroutes,
        }
    }

    /// Measured speed of a rail, bytes per second, if known.
    pub fn rail_speed(&self, rail: RailNumber, now: u64) -> Option<f64> {
        self.rails[rail].speed.rate(now)
    }
}
