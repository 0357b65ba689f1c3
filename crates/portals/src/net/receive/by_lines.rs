//! From those whose memory we map: what comes by lines comes once and in order. It is not refused either: what there is no
//! pending for, or what the upper layer does not want yet, stays in its lines.
//!
//! Cost class: fast path ([`Receive::spare`]); else queued path.

use super::*;

impl<F: Fabric> Receive<F> {
    /// A pending that is free.
    #[inline(always)]
    pub fn spare(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// A place for a source that will send by lines, which it is told along with what cannot be done with its memory: later it
    /// would have to go back.
    #[cold]
    pub(super) fn enter_by_lines(&mut self, fabric: &F, peer: Peer, turn: u64) {
        let mut origin = self.new_origin(peer, false, turn);
        origin.by_lines = true;
        origin.staging = fabric
            .import(peer, self.owner.segment(STAGING), 1, Permission::Read)
            .ok();
        if origin.staging.is_none() {
            origin.not |= wire::NO_STAGING;
        }
        if !fabric.can_transfer(peer) {
            origin.not |= wire::NO_PULL;
        }
        if let Some(at) = self.origins.insert_other(peer, origin) {
            self.tell(at);
        }
    }

    /// A packet that came by lines. None: it cannot be taken now.
    pub fn accept_by_lines(
        &mut self,
        figures: &mut Figures,
        (from, index): (Peer, usize),
        word: &Word,
    ) -> Result<Option<Accepted>, Malformed> {
        let malformed = |what| Malformed {
            what,
            value: u64::from(word.kind as u8),
        };
        let at = self.origins.find(from);
        let at = at.filter(|at| self.origins.at(*at).by_lines);
        let at = at.ok_or(malformed("a Portals process that sends by lines"))?;
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        if origin.ended && word.kind == PacketKind::Data && lane.streaming == NONE {
            // Of a message that has been given up.
            return Ok(Some(Accepted::No));
        }
        if (word.kind == PacketKind::Data) != (lane.streaming != NONE) {
            let streaming = lane.streaming;
            if streaming != NONE {
                // What was begun never ends: its sender does not keep to the protocol.
                self.abandon(streaming);
            }
            return Err(malformed("the next part of a Portals message"));
        }
        self.urgent |= word.has(WANTS_ACK);
        let lane = &mut self.origins.at(at).lanes[index];
        match word.kind {
            PacketKind::Data => {
                let number = lane.streaming;
                let waits = self.pendings[usize::from(number)].stage == Stage::Later;
                Ok((!waits).then_some(Accepted::Data(number)))
            }
            PacketKind::Staged | PacketKind::Pull | PacketKind::Gather | PacketKind::Stream => {
                let Some(&number) = self.free.last() else {
                    figures.exhausted += 1;
                    return Ok(None);
                };
                if word.kind != PacketKind::Stream {
                    (lane.open, lane.known) = (true, true);
                    lane.wanted = word.seq.wrapping_add(1);
                }
                Ok(Some(Accepted::Header(number, at)))
            }
            PacketKind::Short | PacketKind::Control => Err(malformed("a Portals packet in lines")),
        }
    }

    /// A message just begun stays in its lines.
    #[cold]
    pub fn leave(&mut self, number: u16) {
        let pending = &self.pendings[usize::from(number)];
        let (at, index, seq) = (pending.origin, usize::from(pending.lane), pending.seq);
        if pending.holds_back() {
            self.origins.at(at).lanes[index].wanted = seq;
        }
        self.unlink(number);
        self.release(number);
    }
}
