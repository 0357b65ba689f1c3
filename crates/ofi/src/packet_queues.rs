//! Packets that have arrived, by lane, and what the windows of peers say of packets that come.
//!
//! Cost class: *queued path*.

use super::link::Link;
use farpost_fabric::LANES;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Largest payload of a packet.
pub const PACKET_BYTES: usize = 176;

/// No window is larger: the tunable's limit.
const WINDOW_MAX: u32 = 4096;

/// A packet that has arrived.
pub struct Packet {
    pub from: Rc<Link>,
    len: u8,
    bytes: [u8; PACKET_BYTES],
}

impl Packet {
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// Those that have arrived, by lane.
pub struct Packets {
    /// Packets that may be under way, per peer and lane.
    pub window: u32,
    arrived: [RefCell<VecDeque<Packet>>; LANES],
}

impl Packets {
    /// `window` packets per peer and lane.
    pub fn new(window: u32) -> Self {
        Self {
            window,
            arrived: Default::default(),
        }
    }

    /// A packet came that may be kept.
    pub fn keep(&self, from: &Rc<Link>, lane: usize, payload: &[u8]) {
        let arrived = &from.credits[lane].arrived;
        arrived.set(arrived.get().wrapping_add(1));
        let mut bytes = [0; PACKET_BYTES];
        bytes[..payload.len()].copy_from_slice(payload);
        self.arrived[lane].borrow_mut().push_back(Packet {
            from: Rc::clone(from),
            len: payload.len() as u8,
            bytes,
        });
    }

    /// A packet came. None: it cannot be.
    pub fn arrived(&self, link: &Rc<Link>, lane: u16, payload: &[u8]) -> Option<()> {
        let credits = link.credits.get(usize::from(lane))?;
        let held = credits.arrived.get().wrapping_sub(credits.consumed.get());
        // Its window may be larger than ours, but not so large that it could fill our memory.
        if payload.len() > PACKET_BYTES || held >= WINDOW_MAX {
            return None;
        }
        self.keep(link, usize::from(lane), payload);
        Some(())
    }

    /// The peer has taken packets. None: it cannot be.
    pub fn credited(&self, link: &Rc<Link>, lane: u16, count: u64) -> Option<()> {
        let credits = link.credits.get(usize::from(lane))?;
        let count = u32::try_from(count).ok()?;
        let (sent, returned) = (credits.sent.get(), credits.returned.get());
        if count.wrapping_sub(returned) > sent.wrapping_sub(returned) {
            return None;
        }
        credits.returned.set(count);
        Some(())
    }

    /// The next packet of a lane, if any has arrived.
    #[inline]
    pub fn next(&self, lane: usize) -> Option<Packet> {
        self.arrived[lane].borrow_mut().pop_front()
    }

    /// How many packets of a lane have arrived and are not taken.
    #[inline]
    pub fn waiting(&self, lane: usize) -> usize {
        self.arrived[lane].borrow().len()
    }
}
