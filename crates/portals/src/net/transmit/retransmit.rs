//! What receivers answer, and what happens when they do not: acknowledgements, going back, new tags, time, and the end.
//!
//! Cost class: fast path ([`Transmit::acked`]); else queued path.

use super::*;

impl<F: Fabric> Transmit<F> {
    /// A peer wants packet `wanted` next: everything before it is done with.
    #[inline(always)]
    pub fn acked(&mut self, fabric: &F, from: Peer, index: usize, wanted: u16) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let target = self.targets.at(at);
        let counts = target.counts(index);
        let lane = &mut target.lanes[index];
        let mut count = wanted.wrapping_sub(lane.base);
        if count == 0 {
            return Ok(());
        }
        if count > lane.outstanding() {
            // An old one that was held up is no fault.
            return if count > 0x7fff {
                Ok(())
            } else {
                Err(Malformed {
                    what: "the number of a packet that was sent",
                    value: u64::from(wanted),
                })
            };
        }
        lane.base = wanted;
        while count > 0 {
            let number = lane.head;
            let pending = &mut self.pendings[usize::from(number)];
            let left = pending.packets - lane.head_done;
            if u32::from(count) < left {
                lane.head_done += u32::from(count);
                break;
            }
            count -= left as u16;
            lane.head_done = 0;
            lane.head = pending.next;
            lane.lent -= 1;
            if lane.gone == number {
                lane.gone = NONE;
            }
            if !matches!(pending.how, BodyRoute::Inline) {
                let outcome = Outcome::Done;
                release(
                    fabric,
                    pending,
                    (&mut self.slots, &mut self.rendezvous_slots, &mut self.copies),
                    &mut self.finished,
                    outcome,
                );
            }
            self.free[index].push(number);
        }
        if lane.head == NONE {
            lane.tail = NONE;
            self.asked -= counts;
        }
        if lane.cursor.seq.wrapping_sub(wanted) > 0x7fff {
            lane.cursor = Cursor {
                seq: wanted,
                pending: lane.head,
                packet: lane.head_done,
            };
        }
        target.refusals = 0;
        target.timeouts = 0;
        if lane.cursor.pending != NONE {
            self.note_unsent(at);
        }
        Ok(())
    }

    /// As [`acked`](Self::acked), of the channels in the mask `known`.
    pub fn acked_both(
        &mut self,
        fabric: &F,
        from: Peer,
        known: u16,
        wanted: [u16; 2],
    ) -> Result<(), Malformed> {
        for (index, wanted) in wanted.into_iter().enumerate() {
            if known & 1 << index != 0 {
                self.acked(fabric, from, index, wanted)?;
            }
        }
        Ok(())
    }

    /// Go back to packet `seq`, which is outstanding.
    fn go_back(&mut self, at: u16, index: usize, seq: u16) {
        let lane = &mut self.targets.at(at).lanes[index];
        let mut skip = u32::from(seq.wrapping_sub(lane.base));
        let (mut pending, mut packet) = (lane.head, lane.head_done);
        while skip > 0 {
            let message = &self.pendings[usize::from(pending)];
            let left = message.packets - packet;
            if skip < left {
                packet += skip;
                break;
            }
            skip -= left;
            (pending, packet) = (message.next, 0);
        }
        lane.cursor = Cursor { seq, pending, packet };
        self.note_unsent(at);
    }

    /// The receiver refuses packet `seq`: send again from it on, with `busy` after a pause.
    pub fn refused(&mut self, from: Peer, index: usize, word: &Word, (busy, turn): (bool, u64)) {
        let Some(at) = self.targets.find(from) else {
            return;
        };
        let target = self.targets.at(at);
        if word.tag == 0 {
            // The receiver knows nothing of us: what was acknowledged stays so.
            if target.tag != 0 {
                return;
            }
            target.probing = false;
            for index in 0..2 {
                let base = self.targets.at(at).lanes[index].base;
                self.go_back(at, index, base);
            }
        } else {
            let lane = &target.lanes[index];
            if target.by_lines
                || target.tag != word.tag
                || word.seq.wrapping_sub(lane.base) > lane.outstanding()
            {
                return;
            }
            self.go_back(at, index, word.seq);
        }
        let target = self.targets.at(at);
        // Who pauses has sent nothing that could be refused anew: what still comes, late or once more, does not make it longer.
        if busy && target.wait_until <= turn {
            target.wait_until = turn + (PAUSE << target.refusals.min(PAUSES));
            target.refusals = target.refusals.saturating_add(1);
        }
    }

    /// The receiver has a new tag for us.
    pub fn synchronised(
        &mut self,
        fabric: &F,
        from: Peer,
        word: &Word,
        argument: u64,
    ) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let (before, wanted, about) = wire::numbers_of(argument);
        let (not, by_lines) = (about & 3, about & wire::BY_LINES != 0);
        let known = u16::from(about >> 4);
        if word.tag == 0 {
            return Err(Malformed {
                what: "the tag of a Portals connection",
                value: 0,
            });
        }
        let target = self.targets.at(at);
        if target.by_lines
            || target.tag == word.tag
            || target.last != 0 && word.tag.wrapping_sub(target.last) > 0x7fff
        {
            return Ok(());
        }
        if target.last != 0 && target.last == before {
            self.acked_both(fabric, from, known, wanted)?;
        }
        let target = self.targets.at(at);
        (target.tag, target.last) = (word.tag, word.tag);
        target.probing = false;
        target.timeouts = 0;
        target.wait_until = 0;
        let news = not & !target.not;
        target.not |= not;
        for index in 0..2 {
            if news != 0 {
                self.change_ways(fabric, at, index);
            }
            let base = self.targets.at(at).lanes[index].base;
            self.go_back(at, index, base);
        }
        if by_lines && self.targets.at(at).near {
            self.change_to_lines(at);
        }
        Ok(())
    }

    /// Whether nothing is under way to a process.
    pub fn has_nothing_for(&mut self, peer: Peer) -> bool {
        self.targets
            .find(peer)
            .is_none_or(|at| self.targets.at(at).is_idle())
    }

    /// Messages that wait in ways that do not work go as streams. Nothing of the lane has been accepted, and the tag is
    /// new: numbers may change.
    #[cold]
    fn change_ways(&mut self, fabric: &F, at: u16, index: usize) {
        let target = self.targets.at(at);
        let (not, checked) = (target.not, target.checked);
        let mut number = target.lanes[index].head;
        while number != NONE {
            let pending = &mut self.pendings[usize::from(number)];
            number = pending.next;
            let start = wire::WORD + if checked { wire::CHECK } else { 0 } + usize::from(pending.header_len);
            match pending.how {
                BodyRoute::Pull { key, .. } if not & wire::NO_PULL != 0 => {
                    if let Some(key) = key {
                        fabric.withdraw(key);
                    }
                    Self::as_stream(pending, start, pending.length, checked);
                }
                BodyRoute::Gather(slot) if not != 0 => {
                    self.slots.push_back(slot);
                    Self::as_stream(pending, start, pending.length, checked);
                }
                // The bytes stay where they are until they have gone.
                BodyRoute::Staged(slot) if not & wire::NO_STAGING != 0 => {
                    Self::as_stream(pending, start, pending.length, checked);
                    pending.how = BodyRoute::Staged(slot);
                }
                _ => {}
            }
        }
        let lane = &mut self.targets.at(at).lanes[index];
        lane.sent = lane.base;
    }

    /// The receiver wants to forget us. So do we; a tag that is not ours (any more) is never used again.
    pub fn detached(&mut self, fabric: &F, from: Peer, word: &Word, argument: u64) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        // Who heard nothing for long asks without its tag, and knows it still: what was accepted under it is said here for the last time.
        let target = self.targets.at(at);
        if target.by_lines || target.tag != word.tag && (target.tag != 0 || target.last != word.tag) {
            return Ok(());
        }
        let (known, wanted, _) = wire::numbers_of(argument);
        self.acked_both(fabric, from, known, wanted)?;
        let target = self.targets.at(at);
        // What the receiver forgets it never names again, and its next tag may be any number of others later.
        (target.tag, target.last) = (0, 0);
        target.probing = false;
        for index in 0..2 {
            let base = self.targets.at(at).lanes[index].base;
            self.go_back(at, index, base);
        }
        Ok(())
    }

    /// Time has passed: send again what nobody has said anything about, and end what was for those who have ended.
    pub fn tend(
        &mut self,
        (fabric, lines): (&F, &mut Lines<F>),
        figures: &mut Figures,
        now: Moment,
        ask: bool,
    ) {
        for at in 0..self.targets.len() {
            let resend = self.resend;
            let Some(target) = self.targets.get(at) else {
                continue;
            };
            if target.dead || target.is_idle() && (!target.near || !ask || lines.drained(target.peer)) {
                continue;
            }
            if ask && fabric.is_gone(target.peer) {
                lines.end(target.peer);
                self.end_target(fabric, at);
                continue;
            }
            if target.by_lines {
                continue;
            }
            let bases = [target.lanes[0].base, target.lanes[1].base];
            if bases != target.stamp_base {
                (target.stamp_base, target.stamp) = (bases, now);
                target.timeouts = 0;
                continue;
            }
            let waiting = target.probing || target.lanes.iter().any(|lane| lane.outstanding() > 0);
            if !waiting {
                target.stamp = now;
                continue;
            }
            if now - target.stamp < resend * (1 << target.timeouts.min(DOUBLINGS)) {
                continue;
            }
            target.stamp = now;
            target.timeouts = target.timeouts.saturating_add(1);
            target.probing = false;
            figures.timeouts += 1;
            if target.timeouts.is_multiple_of(4) {
                // Perhaps the receiver knows us under another tag.
                target.tag = 0;
            }
            for index in 0..2 {
                let base = self.targets.at(at).lanes[index].base;
                self.go_back(at, index, base);
            }
        }
    }

    /// Whether anything is under way.
    pub fn is_idle(&mut self, lines: &mut Lines<F>) -> bool {
        (0..self.targets.len()).all(|at| {
            self.targets.get(at).is_none_or(|target| {
                target.is_idle() && (!target.near || target.dead || lines.drained(target.peer))
            })
        })
    }

    #[cold]
    fn end_target(&mut self, fabric: &F, at: u16) {
        let target = self.targets.at(at);
        target.dead = true;
        self.open[target.peer.index()] = 0;
        let counts = [target.counts(0), target.counts(1)];
        for (index, lane) in target.lanes.iter_mut().enumerate() {
            let mut number = lane.head;
            if number != NONE {
                self.asked -= counts[index];
            }
            while number != NONE {
                let pending = &mut self.pendings[usize::from(number)];
                let next = pending.next;
                let memory = (&mut self.slots, &mut self.rendezvous_slots, &mut self.copies);
                release(fabric, pending, memory, &mut self.finished, Outcome::PeerEnded);
                self.free[index].push(number);
                number = next;
            }
            *lane = Lane::new(lane.sent);
        }
    }

    /// The receiver lets us copy parts of a body that it fetches: so many bytes, in parts of so many, to this address.
    pub fn granted(
        &mut self,
        from: Peer,
        index: usize,
        word: &Word,
        grant: [u64; 3],
    ) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let target = self.targets.at(at);
        let lane = &target.lanes[index];
        let mut skip = u32::from(word.seq.wrapping_sub(lane.base));
        if target.tag != word.tag || skip >= u32::from(lane.outstanding()) || lane.head_done > 0 {
            return Ok(());
        }
        let mut number = lane.head;
        while skip > 0 {
            let pending = &self.pendings[usize::from(number)];
            let Some(left) = skip.checked_sub(pending.packets) else {
                return Ok(());
            };
            (skip, number) = (left, pending.next);
        }
        let pending = &self.pendings[usize::from(number)];
        let BodyRoute::Pull {
            rendezvous_slots: Some(line),
            ..
        } = pending.how
        else {
            return Ok(());
        };
        let [bytes, chunk, address] = grant;
        if bytes > pending.length as u64 || chunk < 4096 {
            return Err(Malformed {
                what: "the parts of a Portals body that both sides copy",
                value: bytes,
            });
        }
        let body = pending.body.as_one().unwrap_or_default();
        self.rendezvous_slots.open(Offer {
            peer: from,
            line,
            body: body.address,
            bytes,
            chunk,
            address,
        });
        Ok(())
    }

    /// Whether there are bodies of ours of which we may copy parts.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        self.rendezvous_slots.is_open()
    }

    /// Copy parts of them.
    pub fn serve_offers(&mut self, fabric: &F) -> bool {
        self.rendezvous_slots.serve(fabric)
    }
}
