//! What is owed to senders: acknowledgements, refusals, and the control of connections.
//!
//! Cost class: fast path ([`Receive::acknowledgement`]); else queued path.

use super::*;

impl<F: Fabric> Receive<F> {
    /// The packet that may be named as wanted next: nothing before it needs the sender any more.
    #[inline(always)]
    pub(super) fn point(pendings: &[ReceivePending], lane: &Lane) -> u16 {
        let mut at = lane.head;
        while at != NONE {
            let pending = &pendings[usize::from(at)];
            if pending.holds_back() {
                return pending.seq;
            }
            at = pending.next;
        }
        lane.wanted
    }

    /// What to acknowledge by the way in a packet of channel `index` to `peer`: flags and number.
    #[inline(always)]
    pub fn acknowledgement(&mut self, peer: Peer, index: usize) -> (u8, u16) {
        let Some(at) = self.origins.find(peer) else {
            return (0, 0);
        };
        let lanes = &mut self.origins.at(at).lanes;
        let other = lanes[1 - index].owed > 0 && lanes[index].owed == 0 || !lanes[index].open;
        let (flags, index) = if other {
            (HAS_ACK | ACK_OTHER, 1 - index)
        } else {
            (HAS_ACK, index)
        };
        let lane = &mut lanes[index];
        if !lane.open {
            return (0, 0);
        }
        lane.owed = 0;
        (flags, Self::point(&self.pendings, lane))
    }

    /// That packet did not go.
    #[cold]
    pub fn untold(&mut self, peer: Peer, index: usize, flags: u8) {
        if let Some(at) = self.origins.find(peer) {
            let index = if flags & ACK_OTHER != 0 { 1 - index } else { index };
            self.owe(at, index);
        }
    }

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
        origin.lanes[index].refusal = Some(op);
        origin.lanes[index].told = true;
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
        let to = (origin.peer, origin.checked);
        if origin.tell {
            let argument = match origin.state {
                LaneState::Syncing => Some((Op::Sync, origin.sync())),
                LaneState::Closing => {
                    let wanted = origin.lanes.map(|lane| lane.wanted);
                    Some((Op::Detach, wire::numbers(origin.known(), wanted, 0)))
                }
                LaneState::Open => None,
            };
            if let Some((op, argument)) = argument
                && !control(
                    (fabric, self.owner.port()),
                    to,
                    op,
                    0,
                    (origin.tag, 0),
                    &[argument],
                )
            {
                return false;
            }
            origin.tell = false;
            if origin.by_lines {
                origin.state = LaneState::Open;
            }
        }
        for index in 0..2 {
            let lane = &mut origin.lanes[index];
            if let Some(op) = lane.refusal {
                if lane.open
                    && !control(
                        (fabric, self.owner.port()),
                        to,
                        op,
                        index,
                        (origin.tag, lane.wanted),
                        &[],
                    )
                {
                    return false;
                }
                figures.refusals += 1;
                lane.refusal = None;
            }
        }
        if origin.lanes.iter().all(|lane| lane.owed == 0) {
            return true;
        }
        let wanted = origin.lanes.map(|lane| Self::point(&self.pendings, &lane));
        let argument = wire::numbers(origin.known(), wanted, 0);
        if !control(
            (fabric, self.owner.port()),
            to,
            Op::Ack,
            0,
            (origin.tag, 0),
            &[argument],
        ) {
            return false;
        }
        figures.acks += 1;
        for lane in &mut origin.lanes {
            lane.owed = 0;
        }
        true
    }
}

/// Send a control packet. False: no room.
pub fn control<F: Fabric>(
    (fabric, port): (&F, Port),
    (to, checked): (Peer, bool),
    op: Op,
    index: usize,
    (tag, seq): (u16, u16),
    arguments: &[u64],
) -> bool {
    let mut packet = [0; PACKET_BYTES];
    let mut writer = Writer::new(&mut packet, checked);
    for argument in arguments {
        writer.put(&argument.to_le_bytes());
    }
    let len = writer.len();
    let word = Word {
        kind: PacketKind::Control,
        flags: if checked { CHECKED } else { 0 },
        second: op as u8 | (index as u8) << 7,
        seq,
        tag,
        ack: 0,
    };
    packet[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
    let bytes = &mut packet[..len];
    if checked {
        wire::set_check(bytes);
    }
    let sent = fabric.try_send(to, port, Priority::High, bytes) == TrySend::Sent;
    if sent {
        fabric.wake(to);
    }
    sent
}
