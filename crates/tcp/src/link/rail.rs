//! One rail of a link: its health, its speed, and what is on its way into its transport.

use super::bulk::TransferId;
use super::frame::{HEADER_BYTES, Header};
use crate::trust::HeaderCheck;
use farpost_fabric::Carried;

/// What the headers on a connection are checked by: keys of it alone.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// Of those that we write; the peer's `receive`.
    pub send: HeaderCheck,
    /// Of those that we read.
    pub receive: HeaderCheck,
}

/// How a rail is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailState {
    /// No connection.
    #[default]
    Down,
    /// Works.
    Up,
    /// What was sent is not acknowledged for too long. Its traffic goes over other rails while there are any.
    Suspect,
}

/// What the transport below a rail knows that this end's process cannot: whether the peer's *host* has what was
/// sent, although the peer's *process* may be computing and answer nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportReport {
    /// Bytes of this connection that the peer's host has acknowledged so far (`tcpi_bytes_acked`).
    pub acknowledged: u64,
    /// Whether something sent, a window probe included, is not acknowledged (`tcpi_unacked != 0 || tcpi_probes > 1`).
    pub in_flight: bool,
}

/// What a header without payload does once it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Position,
    Ping(u32),
    Pong,
    Ack,
    BulkAck,
}

/// Something that `next_send` offers; it is committed by `sent`.
#[derive(Clone, Copy, Debug)]
pub(super) enum OfferedItem {
    Signal {
        bytes: [u8; HEADER_BYTES],
        what: Signal,
        ack: u32,
    },
    /// Whole frames of the log that lie in one piece.
    Ordered { at: u64, len: usize },
    /// A chunk of a transfer.
    Bulk {
        header: [u8; HEADER_BYTES],
        name: TransferId,
        offset: u64,
        len: u32,
        address: usize,
        again: bool,
    },
}

/// The unsent end of a frame whose beginning is in the transport: nothing else may go before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartialFrame {
    Signal {
        bytes: [u8; HEADER_BYTES],
        from: usize,
    },
    /// In the log.
    Log {
        seq: u32,
        at: u64,
        len: usize,
    },
    /// Saved from the log before it was forgotten there.
    Saved {
        from: usize,
    },
    /// Header bytes from `from` on, then `len` bytes at `address`, or zeros when the memory is no longer ours.
    Bulk {
        header: [u8; HEADER_BYTES],
        from: usize,
        name: TransferId,
        address: Option<usize>,
        len: usize,
    },
}

/// Bytes acknowledged per time, in the manner of BBR's delivery rate samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speed {
    /// Bytes per second; 0: not known.
    rate: f64,
    sampled: u64,
    pub delivered: u64,
    pub delivered_at: u64,
}

impl Speed {
    /// After this long without a sample a rate is history.
    const FRESH: u64 = 1_000_000_000;

    /// `len` bytes were acknowledged that had been sent when the counters stood at `delivered`, `delivered_at`;
    /// `full`: the rail was kept busy then, so that the sample shows the rail and not the sender.
    pub fn acknowledged(&mut self, len: u64, delivered: u64, delivered_at: u64, full: bool, now: u64) {
        self.delivered += len;
        self.delivered_at = now;
        let time = now.saturating_sub(delivered_at).max(1000);
        let sample = (self.delivered - delivered) as f64 * 1e9 / time as f64;
        if self.rate == 0.0 || now.saturating_sub(self.sampled) > Self::FRESH {
            self.rate = sample;
        } else if full || sample > self.rate {
            self.rate += (sample - self.rate) / 4.0;
        }
        self.sampled = now;
    }

    /// Bytes per second, if known and not too old.
    pub fn rate(&self, now: u64) -> Option<f64> {
        (self.rate > 0.0 && now.saturating_sub(self.sampled) <= Self::FRESH).then_some(self.rate)
    }
}

/// What a rail's former connections have carried, and what all of them have received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RailTotals {
    pub sent: u64,
    pub received: u64,
    pub reroutes: u64,
}

#[derive(Default)]
pub(super) struct Rail {
    pub before: RailTotals,
    pub state: RailState,
    /// None: it has had no connection yet.
    pub checks: Option<Checks>,
    /// Which connection of the link's it has.
    pub connection: u32,
    /// Frames of this connection that were begun, offered beyond those, and received.
    pub frames_out: u64,
    pub offered: u64,
    pub frames_in: u64,
    /// The peer has told how far it received, or nothing was sent before: frames may go.
    pub ready: bool,
    /// When something outstanding was last acknowledged, or became outstanding.
    pub quiet_since: u64,
    /// When anything was last heard.
    pub heard: u64,
    pub ask_at: u64,
    pub excuses: u32,
    /// What the transport reported, and when.
    pub acknowledged: Option<u64>,
    pub reported_at: u64,
    /// Bytes that transports have taken and brought.
    pub carried: Carried,
    /// When bytes were last given to the transport.
    pub written_at: u64,
    /// Bytes of ordered frames sent here and not acknowledged.
    pub ordered_out: u64,
    /// Bytes of bulk chunks sent here and not acknowledged.
    pub bulk_out: u64,
    /// Smoothed towards the smallest, nanoseconds; 0: not known.
    pub rtt: u64,
    /// The smallest seen on this connection: the latency of the empty route. 0: not known.
    pub least: u64,
    pub timed: Option<(u32, u64)>,
    pub ping: Option<(u32, u64)>,
    pub ping_due: bool,
    pub pinged_at: u64,
    /// When another link to the same host last received by the route or pinged.
    pub probed: u64,
    pub pong_due: Option<u32>,
    pub position_due: bool,
    pub speed: Speed,
    pub connect_at: u64,
    pub attempts: u32,
    pub offer: Vec<OfferedItem>,
    pub rest: Option<PartialFrame>,
    pub saved: Vec<u8>,
}

impl Rail {
    /// Whether frames may go here.
    pub fn is_usable(&self) -> bool {
        self.state == RailState::Up && self.ready
    }

    pub fn new(now: u64) -> Self {
        Self {
            quiet_since: now,
            heard: now,
            written_at: now,
            pinged_at: now,
            connect_at: now,
            ..Self::default()
        }
    }

    /// A fresh connection; what is known of the way (round trip, speed) stays.
    pub fn connected(&mut self, (connection, checks): (u32, Checks), ready: bool, now: u64) {
        let before = RailTotals {
            sent: self.before.sent + self.frames_out,
            received: self.before.received + self.frames_in,
            ..self.before
        };
        *self = Rail {
            before,
            state: RailState::Up,
            checks: Some(checks),
            connection,
            ready,
            rtt: self.rtt,
            carried: self.carried,
            speed: self.speed,
            position_due: true,
            ping_due: true,
            offer: std::mem::take(&mut self.offer),
            saved: std::mem::take(&mut self.saved),
            ..Rail::new(now)
        };
        self.offer.clear();
    }

    /// The code of a header that is offered next.
    #[inline]
    pub fn seal(&mut self, mut header: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
        if let Some(checks) = &self.checks {
            Header::seal(&mut header, &checks.send, self.frames_out + self.offered);
        }
        self.offered += 1;
        header
    }

    /// Whether an acknowledgement is to be expected.
    #[inline]
    pub fn waiting(&self) -> bool {
        self.ordered_out + self.bulk_out > 0
            || self.ping.is_some()
            || self.ping_due
            || self.state == RailState::Suspect
    }

    /// A measured round trip.
    pub fn round_trip(&mut self, sample: u64) {
        let sample = sample.max(1);
        if self.least == 0 || sample < self.least {
            self.least = sample;
        }
        if self.rtt == 0 || sample < self.rtt {
            self.rtt = sample;
        } else {
            self.rtt += (sample - self.rtt) / 8;
        }
    }
}
