//! What is owed to senders: acknowledgements, refusals, and the control of connections.
//!
//! Cost class: fast path (acknowledgements by the way); else queued path.

use super::*;
use crate::net::control::Piggyback;
use farpost_fabric::Register;

/// The oldest message of a channel that still needs the sender, or `wanted`: what may be named as wanted next.
#[inline(always)]
fn acknowledged(pendings: &[ReceivePending], lane: &Lane, wanted: u16) -> u16 {
    let mut at = lane.head;
    while at != NONE {
        let pending = &pendings[usize::from(at)];
        if pending.holds_back() {
            return pending.seq;
        }
        at = pending.next;
    }
    wanted
}

impl<F: Fabric> Piggyback for Receive<F> {
    #[inline(always)]
    fn acknowledgement(&mut self, peer: Peer, index: usize) -> (u8, u16) {
        let Some(at) = self.origins.find(peer) else {
            return (0, 0);
        };
        let origin = self.origins.at(at);
        let lanes = &mut origin.lanes;
        let mut wanted = origin.path.wanted(index);
        let other = lanes[1 - index].owed > 0 && lanes[index].owed == 0 || wanted.is_none();
        let (flags, index) = if other {
            wanted = origin.path.wanted(1 - index);
            (HAS_ACK | ACK_OTHER, 1 - index)
        } else {
            (HAS_ACK, index)
        };
        let Some(wanted) = wanted else {
            return (0, 0);
        };
        let lane = &mut lanes[index];
        lane.owed = 0;
        (flags, acknowledged(&self.pendings, lane, wanted))
    }

    #[cold]
    fn untold(&mut self, peer: Peer, index: usize, flags: u8) {
        if let Some(at) = self.origins.find(peer) {
            let index = if flags & ACK_OTHER != 0 { 1 - index } else { index };
            self.owe(at, index);
        }
    }
}

impl<F: Fabric> Receive<F> {
    #[inline(always)]
    pub(super) fn owe(&mut self, at: u16, index: usize) {
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        lane.owed = lane.owed.saturating_add(1);
        self.urgent |= lane.owed >= self.ack_after;
        if !origin.listed {
            origin.listed = true;
            self.owing.push(at);
        }
    }

    #[cold]
    pub(super) fn refuse(&mut self, at: u16, index: usize, op: Op) {
        let origin = self.origins.at(at);
        if let ReceivePath::Packets(connection) = &mut origin.path {
            connection.window(index).refuse(op);
        }
        self.tell(at);
    }

    pub(super) fn tell(&mut self, at: u16) {
        self.urgent = true;
        let origin = self.origins.at(at);
        if !origin.listed {
            origin.listed = true;
            self.owing.push(at);
        }
    }

    /// Whether anything is owed to anybody.
    pub fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Tell everybody what is owed to them, as far as there is room.
    pub fn flush(&mut self, fabric: &F, figures: &mut Figures) {
        self.urgent = false;
        let mut at = 0;
        while at < self.owing.len() {
            if self.tell_one(fabric, figures, self.owing[at]) {
                let done = self.owing.swap_remove(at);
                self.origins.at(done).listed = false;
            } else {
                self.urgent = true;
                at += 1;
            }
        }
    }

    fn tell_one(&mut self, fabric: &F, figures: &mut Figures, at: u16) -> bool {
        let origin = self.origins.at(at);
        let tell = |op, index, about: (u16, u16), arguments: &[u64]| {
            let to = (origin.peer, origin.checked);
            control((fabric, self.owner.port()), to, op, index, about, arguments)
        };
        match &mut origin.path {
            ReceivePath::Packets(connection) => {
                let tag = connection.tag();
                if let Some((op, argument)) = connection.news(origin.not)
                    && !tell(op, 0, (tag, 0), &[argument])
                {
                    return false;
                }
                connection.news_are_told();
                for index in 0..2 {
                    let window = connection.window(index);
                    if let Some(op) = window.refusal() {
                        if window.is_open() && !tell(op, index, (tag, window.wanted()), &[]) {
                            return false;
                        }
                        figures.refusals += 1;
                        fabric.add_register(fabric.me(), Register::PortalsRefusals, 1);
                        window.refusal_is_told();
                    }
                }
            }
            ReceivePath::Lines(lines) => {
                let argument = wire::numbers(0, [0; 2], origin.not | wire::BY_LINES);
                if let Some(tag) = lines.news()
                    && !tell(Op::Sync, 0, (tag, 0), &[argument])
                {
                    return false;
                }
                lines.news_are_told();
            }
        }
        if origin.lanes.iter().all(|lane| lane.owed == 0) {
            return true;
        }
        let (known, mut wanted) = origin.path.all_wanted();
        for (wanted, lane) in wanted.iter_mut().zip(&origin.lanes) {
            *wanted = acknowledged(&self.pendings, lane, *wanted);
        }
        let argument = wire::numbers(known, wanted, 0);
        if !tell(Op::Ack, 0, (origin.path.tag(), 0), &[argument]) {
            return false;
        }
        figures.acks += 1;
        for lane in &mut origin.lanes {
            lane.owed = 0;
        }
        true
    }
}
