//! Packets that arrived, and how many more may be sent.
//!
//! Each pair of processes has a window per port and priority (a *lane*): so many packets may be under way or waiting.
//! A receiver that takes packets returns their credits, half a window at a time.
//!
//! Cost class: *queued path*.

use super::TcpTunables;
use super::close_reason::InvalidField;
use crate::link::PACKET_BYTES;
use farpost_fabric::LANES;
use farpost_fabric::Peer;
use std::collections::{HashMap, VecDeque};

struct Packet {
    from: Peer,
    len: u8,
    bytes: [u8; PACKET_BYTES],
}

/// Counts of one lane, none of which is more than the window.
#[derive(Default)]
struct Window {
    /// Sent and not known to be taken.
    out: u32,
    /// Arrived and waiting.
    waiting: u32,
    /// Taken and not reported.
    owed: u32,
}

pub struct Packets {
    queues: [VecDeque<Packet>; LANES],
    /// By peer and lane: most use one or two of the lanes.
    windows: HashMap<(u32, u8), Window>,
    most: u32,
}

impl Packets {
    pub fn new(tunables: &TcpTunables) -> Self {
        Self {
            queues: Default::default(),
            windows: HashMap::new(),
            most: u32::try_from(tunables.packets).unwrap_or(u32::MAX),
        }
    }

    /// Whether a packet may be sent; if so it counts as sent.
    pub fn may_send(&mut self, to: Peer, lane: usize) -> bool {
        let out = &mut self.windows.entry((to.0, lane as u8)).or_default().out;
        let may = *out < self.most;
        *out += u32::from(may);
        may
    }

    pub fn arrived(&mut self, from: Peer, lane: u8, payload: &[u8]) -> Result<(), InvalidField> {
        let at = usize::from(lane);
        if at >= LANES {
            return Err(("a packet's port and priority", u64::from(lane)));
        }
        let waiting = &mut self.windows.entry((from.0, lane)).or_default().waiting;
        if *waiting >= self.most {
            return Err(("a packet within its window", u64::from(*waiting) + 1));
        }
        *waiting += 1;
        let mut bytes = [0; PACKET_BYTES];
        bytes[..payload.len()].copy_from_slice(payload);
        let len = payload.len() as u8;
        self.queues[at].push_back(Packet { from, len, bytes });
        Ok(())
    }

    pub fn credit(&mut self, from: Peer, lane: u32, count: u64) -> Result<(), InvalidField> {
        let lane = u8::try_from(lane).ok();
        let window = lane.and_then(|lane| self.windows.get_mut(&(from.0, lane)));
        match window {
            Some(window) if count <= u64::from(window.out) => {
                window.out -= count as u32;
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
        let window = self.windows.entry((packet.from.0, lane as u8)).or_default();
        window.waiting -= 1;
        let mut credits = None;
        if packet.from == me {
            window.out -= 1;
        } else {
            window.owed += 1;
            if window.owed * 2 >= self.most {
                credits = Some(u64::from(std::mem::take(&mut window.owed)));
            }
        }
        Some((packet.from, packet.bytes, usize::from(packet.len), credits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_a_window_of_its_own_once_it_is_used() {
        let tunables = TcpTunables {
            packets: 4,
            ..TcpTunables::default()
        };
        let (me, peer) = (Peer(0), Peer(1));
        let mut packets = Packets::new(&tunables);
        for lane in 0..2 {
            assert_eq!((0..10).filter(|_| packets.may_send(peer, lane)).count(), 4);
        }
        assert_eq!(packets.windows.len(), 2);
        packets.credit(peer, 1, 3).unwrap();
        assert_eq!((0..10).filter(|_| packets.may_send(peer, 1)).count(), 3);
        assert!(!packets.may_send(peer, 0));
        // More than was sent, or on lanes on which nothing was: nobody believes it.
        for (lane, count) in [(0, 5), (2, 1), (LANES as u32, 1), (256, 1), (u32::MAX, 1)] {
            assert!(
                packets.credit(peer, lane, count).is_err(),
                "{count} on lane {lane}"
            );
        }
        for _ in 0..4 {
            packets.arrived(peer, 3, &[7]).unwrap();
        }
        assert!(packets.arrived(peer, 3, &[7]).is_err(), "beyond the window");
        assert!(packets.arrived(peer, LANES as u8, &[7]).is_err(), "no such lane");
        let credits: Vec<_> = (0..4).map(|_| packets.next(me, 3).unwrap().3).collect();
        assert_eq!(credits, [None, Some(2), None, Some(2)]);
        assert!(packets.next(me, 3).is_none());
        assert_eq!(packets.windows.len(), 3);
    }
}
