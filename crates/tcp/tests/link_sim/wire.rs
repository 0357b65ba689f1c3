//! Simulated rails: reliable byte streams with latency, bandwidth and a bounded send buffer, that can be cut, fall
//! silent, and return.

use std::collections::VecDeque;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// Bytes that travel together.
const SEGMENT: usize = 32 << 10;

/// One direction of one connection.
#[derive(Default)]
pub struct Wire {
    /// Arrival time and bytes, in order.
    flying: VecDeque<(u64, Vec<u8>)>,
    line_free: u64,
    pub sent: u64,
    arrived: u64,
    /// What the sender's host knows to have arrived.
    pub acknowledged: u64,
    /// Arrived, not read yet from `read` on.
    inbox: Vec<u8>,
    read: usize,
}

impl Wire {
    /// What has arrived and was not read yet.
    pub fn inbox(&self) -> &[u8] {
        &self.inbox[self.read..]
    }

    pub fn consume(&mut self, bytes: usize) {
        self.read += bytes;
        assert!(self.read <= self.inbox.len());
        if self.read == self.inbox.len() {
            self.inbox.clear();
            self.read = 0;
        }
    }
}

pub struct Rail {
    /// By end: it has a socket.
    pub connected: [bool; 2],
    /// One end closed it, and the other does not know.
    pub broken: bool,
    /// By sending end.
    pub wires: [Wire; 2],
    /// Nothing passes, without any error, by sending end.
    pub silent: [bool; 2],
    /// Connections fail at once.
    pub cut: bool,
    pub latency: u64,
    /// Bytes per second.
    pub bandwidth: u64,
    pub send_buffer: u64,
    /// A connection under way is there at this time.
    pub dialled: Option<u64>,
}

impl Rail {
    pub fn new(latency: u64, bandwidth: u64, send_buffer: u64) -> Self {
        Self {
            connected: [false; 2],
            broken: false,
            wires: Default::default(),
            silent: [false; 2],
            cut: false,
            latency,
            bandwidth,
            send_buffer,
            dialled: None,
        }
    }

    pub fn passes(&self) -> bool {
        !self.cut && !self.silent[0] && !self.silent[1]
    }

    /// Bytes that `end` may write now.
    pub fn room(&self, end: usize) -> usize {
        let wire = &self.wires[end];
        self.send_buffer.saturating_sub(wire.sent - wire.acknowledged) as usize
    }

    pub fn write(&mut self, end: usize, bytes: &[u8], now: u64) {
        let wire = &mut self.wires[end];
        for piece in bytes.chunks(SEGMENT) {
            let starts = wire.line_free.max(now);
            wire.line_free = starts + piece.len() as u64 * 1_000_000_000 / self.bandwidth;
            wire.flying
                .push_back((wire.line_free + self.latency, piece.to_vec()));
        }
        wire.sent += bytes.len() as u64;
    }

    /// Move what has arrived by `now`.
    pub fn carry(&mut self, now: u64) {
        for end in 0..2 {
            if self.silent[end] || self.cut || self.broken {
                continue;
            }
            let back = !self.silent[1 - end];
            let wire = &mut self.wires[end];
            while wire.flying.front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = wire.flying.pop_front().unwrap();
                wire.arrived += bytes.len() as u64;
                wire.inbox.extend(bytes);
            }
            if back {
                wire.acknowledged = wire.arrived;
            }
        }
    }

    pub fn next_arrival(&self) -> u64 {
        let arrival = |end: usize| match self.wires[end].flying.front() {
            Some((at, _)) if !self.silent[end] && !self.cut && !self.broken => *at,
            _ => u64::MAX,
        };
        arrival(0).min(arrival(1))
    }

    /// The transport notices that the way is free again and sends once more what got lost.
    pub fn heal(&mut self, now: u64) {
        self.silent = [false; 2];
        self.cut = false;
        for wire in &mut self.wires {
            for (at, _) in &mut wire.flying {
                *at = (*at).max(now + self.latency);
            }
        }
    }

    /// `end` closes its socket; everything under way is lost.
    pub fn close(&mut self, end: usize) {
        self.connected[end] = false;
        self.broken = true;
        // What the other one has under way or sends from now on is never acknowledged.
        for wire in &mut self.wires {
            wire.flying.clear();
        }
        let to_us = &mut self.wires[1 - end];
        to_us.inbox.clear();
        to_us.read = 0;
    }

    /// A new connection.
    pub fn connect(&mut self) {
        self.connected = [true; 2];
        self.broken = false;
        self.wires = Default::default();
        self.dialled = None;
    }
}
