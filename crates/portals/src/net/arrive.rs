//! What becomes of a packet that has come: checked, taken apart, accepted in its turn, and shown to the layer above.
//!
//! Cost class: fast path for what comes whole with its header; else queued path.

use super::*;
use crate::malformed::{error, fail};

impl<F: Fabric> Net<F> {
    #[inline(always)]
    pub(super) fn on_packet(&self, upper: &mut impl Upper, from: Peer, priority: Priority, packet: &[u8]) {
        // Asked only where the fabric has room for more.
        if F::PACKET_BYTES > PACKET_BYTES && packet.len() > PACKET_BYTES {
            return self.refuse(from, error!("the length of a Portals packet", packet.len()));
        }
        if self.check != 0 && self.checks_route(from) && !wire::is_whole(packet) {
            return self.on_damage(from, priority);
        }
        if let Err(bad) = self.on_whole_packet(upper, from, priority as usize, packet) {
            self.refuse(from, bad);
        }
    }

    #[inline(always)]
    fn on_whole_packet(
        &self,
        upper: &mut impl Upper,
        from: Peer,
        index: usize,
        packet: &[u8],
    ) -> Result<(), Malformed> {
        let (word, mut rest) = Word::read(packet)?;
        let checked = word.has(wire::CHECKED);
        if checked {
            rest = rest
                .get(wire::CHECK..)
                .ok_or(error!("the length of a Portals packet", packet.len()))?;
        }
        if checked != (self.check != 0) && checked != self.checks(from) {
            return fail!("the flags of a Portals packet", packet[0]);
        }
        let fabric = &*self.fabric;
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        if word.has(wire::HAS_ACK) {
            state.tx.acked(fabric, from, word.about(index), word.ack)?;
        }
        if word.kind == PacketKind::Control {
            return self.on_control(state, from, &word, rest);
        }
        // Looked at before it is accepted: what cannot be right is not acknowledged with what is.
        let message = match word.kind {
            PacketKind::Data => None,
            _ => Some(wire::message(&word, rest)?),
        };
        let how = (state.turn, |peer| self.checks(peer));
        match state
            .rx
            .accept(fabric, &mut state.figures, (from, index), &word, how)?
        {
            Accepted::No => Ok(()),
            Accepted::Data(number) => state.rx.data(fabric, (number, checked), rest),
            Accepted::Header(number, at) => {
                let id = state.rx.id(number);
                state.figures.received += 1;
                match message {
                    Some(Message::Short { header, body }) => {
                        state.figures.received_bytes += body.len() as u64;
                        drop(borrowed);
                        self.count_received(from, true, body.len() as u64);
                        let placement = upper.arrived(id, from, header, body.len() as u64, Some(body));
                        if !matches!(placement, Placement::Done) {
                            let rx = &mut self.state.borrow_mut().rx;
                            rx.take(number);
                            if !rx.settle_short(&*self.fabric, number, body, placement) {
                                rx.refuse_short(at, index);
                            }
                        }
                        Ok(())
                    }
                    Some(Message::Long(long)) => {
                        drop(borrowed);
                        self.on_long(upper, from, (number, at, index), &word, long, None)?;
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Take what waits in lines, answers first, at most so many messages; senders take turns in being the first. True: something moved.
    #[inline(always)]
    pub(super) fn take_lines(&self, upper: &mut impl Upper, most: usize) -> bool {
        let mut taken = 0;
        for index in 0..2 {
            let senders = self.state.borrow().lines.senders(index);
            for turn in 0..senders {
                let Some(from) = self.state.borrow().lines.sender(index, turn) else {
                    break;
                };
                while self.on_lines(upper, (from, index)) {
                    taken += 1;
                    if taken == most {
                        self.state.borrow_mut().lines.begin_behind(index, turn);
                        return true;
                    }
                }
            }
        }
        taken > 0
    }

    /// Take one message from somebody's lines, whose turn this is. False: it cannot be taken now.
    #[inline(always)]
    pub(super) fn take_line(&self, upper: &mut impl Upper, way: (Peer, usize), turn: usize) -> bool {
        let taken = self.on_lines(upper, way);
        if taken {
            self.state.borrow_mut().lines.begin_behind(way.1, turn);
        }
        taken
    }

    /// Where the first that is there cannot be taken: one of the others'.
    #[inline(never)]
    pub(super) fn take_other_line(&self, upper: &mut impl Upper) -> bool {
        self.take_lines(upper, 1)
    }

    /// The next message of a channel's lines. False: there is none that can be taken now.
    #[inline(always)]
    fn on_lines<U: Upper>(&self, upper: &mut U, way: (Peer, usize)) -> bool {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        let Some(next) = state.lines.next(way) else {
            return false;
        };
        let first = next.first();
        if let Some(body) = Title::body_in_line(first, U::AT_ONCE)
            && upper.arrived_at_once(
                way.0,
                body,
                #[inline(always)]
                |index| next.word(1 + index),
            )
        {
            next.consume(body as u64);
            state.figures.received += 1;
            state.figures.received_bytes += body as u64;
            state.lines.note_stalled(way, false);
            return true;
        }
        let words: Words<7> = [1, 2, 3, 4, 5, 6, 7].map(|index| next.word(index).to_le_bytes());
        drop(borrowed);
        match Title::read(first) {
            Ok(title) if title.form == Form::Short && title.bytes <= LINE_HOLDS => {
                self.on_short(upper, way, title, words.as_flattened())
            }
            title => self.on_more_lines(upper, way, title),
        }
    }

    /// A message that is whole in its lines.
    #[inline(never)]
    fn on_short(&self, upper: &mut impl Upper, way: (Peer, usize), title: Title, bytes: &[u8]) -> bool {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        let Some(number) = state.rx.spare() else {
            state.figures.exhausted += 1;
            state.lines.note_stalled(way, true);
            return false;
        };
        let id = state.rx.id(number);
        drop(borrowed);
        let (header, body) = bytes[..title.bytes].split_at(title.header);
        let placement = upper.arrived(id, way.0, header, body.len() as u64, Some(body));
        let state = &mut *self.state.borrow_mut();
        if !matches!(placement, Placement::Done) {
            state.rx.take(number);
            if !state.rx.settle_short(&*self.fabric, number, body, placement) {
                state.lines.note_stalled(way, true);
                return false;
            }
        }
        state.figures.received += 1;
        state.figures.received_bytes += body.len() as u64;
        state.lines.note_stalled(way, false);
        state.lines.consume(way, title);
        true
    }

    /// Anything but a short message of one line.
    #[inline(never)]
    fn on_more_lines(
        &self,
        upper: &mut impl Upper,
        way: (Peer, usize),
        title: Result<Title, Malformed>,
    ) -> bool {
        let taken = title.and_then(|title| {
            let Some(words) = self.state.borrow().lines.rest(way, title) else {
                return Ok(false);
            };
            let bytes = &words.as_flattened()[..title.bytes];
            if title.form == Form::Short {
                return Ok(self.on_short(upper, way, title, bytes));
            }
            let taken = self.on_packet_in_lines(upper, way, title, bytes)?;
            let lines = &mut self.state.borrow_mut().lines;
            lines.note_stalled(way, !taken);
            if taken {
                lines.consume(way, title);
            }
            Ok(taken)
        });
        taken.unwrap_or_else(|bad| {
            let state = &mut *self.state.borrow_mut();
            state.figures.faults += 1;
            state.lines.fail_sender(way, bad);
            true
        })
    }

    /// A packet in lines. False: it cannot be taken now.
    fn on_packet_in_lines(
        &self,
        upper: &mut impl Upper,
        (from, index): (Peer, usize),
        title: Title,
        packet: &[u8],
    ) -> Result<bool, Malformed> {
        let (word, rest) = Word::read(packet)?;
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        if word.has(wire::HAS_ACK) {
            state.tx.acked(&*self.fabric, from, word.about(index), word.ack)?;
        }
        let accepted = state
            .rx
            .accept_by_lines(&mut state.figures, (from, index), &word)?;
        match accepted {
            None => Ok(false),
            Some(Accepted::No) => Ok(true),
            Some(Accepted::Data(number)) => {
                state.rx.data(&*self.fabric, (number, false), rest)?;
                Ok(true)
            }
            Some(Accepted::Header(number, at)) => {
                let Message::Long(long) = wire::message(&word, rest)? else {
                    return Ok(false);
                };
                state.figures.received += 1;
                drop(borrowed);
                self.on_long(upper, from, (number, at, index), &word, long, Some(title))
            }
        }
    }

    /// The header packet of a long message is the one that was wanted next. False: it is to stay in its lines.
    #[inline(never)]
    fn on_long(
        &self,
        upper: &mut impl Upper,
        from: Peer,
        (number, at, index): (u16, u16, usize),
        word: &Word,
        Long {
            header,
            length,
            place,
            check,
        }: Long<'_>,
        lines: Option<Title>,
    ) -> Result<bool, Malformed> {
        let fabric = &*self.fabric;
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        let id = state.rx.id(number);
        let more = || match lines {
            Some(title) => state.lines.has_more((from, index), title),
            None => fabric.packets_waiting(self.port, Priority::ALL[index], 1) > 0,
        };
        let can = (state.rx).can_have(fabric, (at, index), (place, length), more, state.turn);
        if !matches!(can, Ok(true)) {
            state.figures.received -= 1;
            return can;
        }
        state.figures.received_bytes += length;
        if let (Place::Staged { offset }, None) = (place, check)
            && state.rx.sees_staging(at)
        {
            drop(borrowed);
            let fetch = |into: &Segments, to, bytes| {
                let rx = &mut self.state.borrow_mut().rx;
                rx.read_staged(at, offset, &into.region(to as usize, bytes as usize));
            };
            let taken = upper.arrived_near(from, header, length, fetch);
            borrowed = self.state.borrow_mut();
            if taken {
                self.count_received(from, lines.is_none(), length);
                borrowed.rx.taken(at, index);
                return Ok(true);
            }
        }
        let state = &mut *borrowed;
        state.rx.take(number);
        state
            .rx
            .begin((number, at, index), word.seq, length, place, check);
        drop(borrowed);
        let placement = upper.arrived(id, from, header, length, None);
        let state = &mut *self.state.borrow_mut();
        if lines.is_some() && matches!(placement, Placement::Refuse) {
            state.figures.received -= 1;
            state.figures.received_bytes -= length;
            state.rx.leave(number);
            return Ok(false);
        }
        self.count_received(from, lines.is_none(), length);
        state.rx.settle(fabric, &mut state.figures, number, placement);
        Ok(true)
    }

    /// For who watches: a body came, and with it a message, if that is not counted with its lines.
    #[inline(always)]
    fn count_received(&self, from: Peer, message: bool, bytes: u64) {
        self.fabric.count(from, Counter::Received, u64::from(message));
        self.fabric.count(from, Counter::ReceivedBytes, bytes);
    }

    #[cold]
    #[inline(never)]
    fn on_control(
        &self,
        state: &mut NetState<F>,
        from: Peer,
        word: &Word,
        rest: &[u8],
    ) -> Result<(), Malformed> {
        let fabric = &*self.fabric;
        let (op, index) = word.op()?;
        let detached = |seq| {
            let (on, to) = ((fabric, self.port), (from, self.checks(from)));
            control::control(on, to, Op::Detached, 0, (word.tag, seq), &[]);
        };
        match op {
            Op::Ack => {
                let (known, wanted, _) = wire::numbers_of(wire::argument(rest, 0)?);
                state.tx.acked_both(fabric, from, known, wanted)
            }
            Op::Gap | Op::Busy => {
                state.tx.refused(from, index, word, (op == Op::Busy, state.turn));
                Ok(())
            }
            Op::Sync => {
                state
                    .tx
                    .synchronised(fabric, from, word, wire::argument(rest, 0)?)?;
                if state.tx.has_nothing_for(from) {
                    // It would wait for a packet with this tag, and keep a place that others want.
                    detached(wire::UNUSED);
                }
                Ok(())
            }
            Op::Detach => {
                state.tx.detached(fabric, from, word, wire::argument(rest, 0)?)?;
                // Lost or without room: the receiver asks again.
                detached(0);
                Ok(())
            }
            Op::Detached => {
                state.rx.detached(from, word, state.turn);
                Ok(())
            }
            Op::Grant => {
                let grant = [0, 1, 2].map(|at| wire::argument(rest, at));
                let [bytes, part, address] = grant;
                state.tx.granted(from, index, word, [bytes?, part?, address?])
            }
        }
    }

    #[cold]
    fn on_damage(&self, from: Peer, priority: Priority) {
        let state = &mut *self.state.borrow_mut();
        state.figures.mismatches += 1;
        self.fabric.count(from, Counter::Faults, 1);
        state.rx.damaged(from, priority as usize);
    }

    /// Count and report what a peer sent and should not have.
    #[cold]
    fn refuse(&self, peer: Peer, bad: Malformed) {
        self.state.borrow_mut().figures.faults += 1;
        malformed::record(&*self.fabric, peer, bad);
    }
}
