//! Packets that arrived, and how many more may be sent.
//!
//! Each pair of processes has a window per priority: so many packets may be on their way or waiting. Who takes
//! packets gives the right to send as many back, half a window at a time.
//!
//! Cost class: *queued path*.

use super::TcpTunables;
use crate::{PACKET_BYTES, Peer, Priority};
use std::collections::{HashMap, VecDeque};

struct Packet {
    from: Peer,
    len: u8,
    bytes: [u8; PACKET_BYTES],
}

#[derive(Default)]
struct Window {
    /// Sent and not known to be taken.
    out: [u64; 2],
    /// Arrived and waiting.
    waiting: [u64; 2],
    /// Taken and not reported.
    owed: [u64; 2],
}

pub struct Packets {
    queues: [VecDeque<Packet>; 2],
    windows: HashMap<u32, Window>,
    most: u64,
}

/// What cannot be right, and its value.
type Bad = (&'static str, u64);

impl Packets {
    pub fn new(tunables: &TcpTunables) -> Self {
        Self {
            queues: Default::default(),
            windows: HashMap::new(),
            most: tunables.packets,
        }
    }

    /// Whether a packet may be sent; if so it counts as sent.
    pub fn may_send(&mut self, to: Peer, priority: Priority) -> bool {
        let out = &mut self.windows.entry(to.0).or_default().out[priority as usize];
        let may = *out < self.most;
        *out += u64::from(may);
        may
    }

    pub fn arrived(&mut self, from: Peer, priority: u8, payload: &[u8]) -> Result<(), Bad> {
        let at = usize::from(priority);
        if at > 1 {
            return Err(("a packet's priority", u64::from(priority)));
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

    pub fn credit(&mut self, from: Peer, priority: u32, count: u64) -> Result<(), Bad> {
        let out = self
            .windows
            .get_mut(&from.0)
            .and_then(|w| w.out.get_mut(priority as usize));
        match out {
            Some(out) if count <= *out => {
                *out -= count;
                Ok(())
            }
            _ => Err(("room for packets that were sent", count)),
        }
    }

    /// The next packet, high priority first, and how many more its sender may be told to send.
    #[expect(clippy::type_complexity)]
    pub fn next(&mut self, me: Peer) -> Option<(Peer, Priority, [u8; PACKET_BYTES], usize, Option<u64>)> {
        let priority = if self.queues[0].is_empty() {
            Priority::Low
        } else {
            Priority::High
        };
        let at = priority as usize;
        let packet = self.queues[at].pop_front()?;
        let window = self.windows.entry(packet.from.0).or_default();
        window.waiting[at] -= 1;
        let mut tell = None;
        if packet.from == me {
            window.out[at] -= 1;
        } else {
            window.owed[at] += 1;
            if window.owed[at] * 2 >= self.most {
                tell = Some(std::mem::take(&mut window.owed[at]));
            }
        }
        Some((packet.from, priority, packet.bytes, usize::from(packet.len), tell))
    }
}
