//! Packets that arrived, and how many more may be sent.
//!
//! Each pair of processes has a window per port and priority (a *lane*): so many packets may be under way or waiting.
//! A receiver that takes packets returns their credits, half a window at a time.
//!
//! Cost class: *queued path*.

use super::TcpTunables;
use crate::link::PACKET_BYTES;
use farpost_fabric::LANES;
use farpost_fabric::Peer;
use std::collections::{HashMap, VecDeque};

struct Packet {
    from: Peer,
    len: u8,
    bytes: [u8; PACKET_BYTES],
}

#[derive(Default)]
struct Window {
    /// Sent and not known to be taken.
    out: [u64; LANES],
    /// Arrived and waiting.
    waiting: [u64; LANES],
    /// Taken and not reported.
    owed: [u64; LANES],
}

pub struct Packets {
    queues: [VecDeque<Packet>; LANES],
    windows: HashMap<u32, Window>,
    most: u64,
}

/// What was expected of a field, and its value.
type InvalidField = (&'static str, u64);

impl Packets {
    pub fn new(tunables: &TcpTunables) -> Self {
        Self {
            queues: Default::default(),
            windows: HashMap::new(),
            most: tunables.packets,
        }
    }

    /// Whether a packet may be sent; if so it counts as sent.
    pub fn may_send(&mut self, to: Peer, lane: usize) -> bool {
        let out = &mut self.windows.entry(to.0).or_default().out[lane];
        let may = *out < self.most;
        *out += u64::from(may);
        may
    }

    pub fn arrived(&mut self, from: Peer, lane: u8, payload: &[u8]) -> Result<(), InvalidField> {
        let at = usize::from(lane);
        if at >= LANES {
            return Err(("a packet's port and priority", u64::from(lane)));
        }
        let waiting = &mut self.windows.entry(from.0).or_default().waiting[at];
        if *waiting >= self.most {
            return Err(("a packet within its window", *waiting + 1));
        }
        *waiting += 1;
        let mut bytes = [0; PACKET_BYTES];
        bytes[..payload.len()].copy_from_slice(payload);
        let len = payload.len() as u8;
        self.queues[at].push_back(Packet { from, len, bytes });
        Ok(())
    }

    pub fn credit(&mut self, from: Peer, lane: u32, count: u64) -> Result<(), InvalidField> {
        let out = self
            .windows
            .get_mut(&from.0)
            .and_then(|w| w.out.get_mut(lane as usize));
        match out {
            Some(out) if count <= *out => {
                *out -= count;
                Ok(())
            }
            _ => Err(("room for packets that were sent", count)),
        }
    }

    /// How many packets of a lane wait.
    pub fn waiting(&self, lane: usize) -> usize {
        self.queues[lane].len()
    }

    /// The next packet of a lane, and the credits to return to its sender now.
    pub fn next(&mut self, me: Peer, lane: usize) -> Option<(Peer, [u8; PACKET_BYTES], usize, Option<u64>)> {
        let packet = self.queues[lane].pop_front()?;
        let window = self.windows.entry(packet.from.0).or_default();
        window.waiting[lane] -= 1;
        let mut credits = None;
        if packet.from == me {
            window.out[lane] -= 1;
        } else {
            window.owed[lane] += 1;
            if window.owed[lane] * 2 >= self.most {
                credits = Some(std::mem::take(&mut window.owed[lane]));
            }
        }
        Some((packet.from, packet.bytes, usize::from(packet.len), credits))
    }
}
