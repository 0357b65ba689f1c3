//! What receivers answer, and what happens when they do not: acknowledgements, refusals, new tags, time, and the end.
//!
//! Cost class: fast path ([`Transmit::acked`]); else queued path.

use super::bodies::BodyRoute;
use super::by_lines::KeptInLines;
use super::*;
use crate::malformed::fail;
use crate::net::table::NONE;

impl<F: Fabric> Transmit<F> {
    /// A message is over.
    #[inline(always)]
    pub(super) fn end_message(
        fabric: &F,
        (pendings, bodies): (&mut Pendings, &mut Bodies<F>),
        finished: &mut VecDeque<(u64, Outcome)>,
        (index, number): (usize, u16),
        outcome: Outcome,
    ) {
        let pending = pendings.at(number);
        if !matches!(pending.route, BodyRoute::Inline) && bodies.release(fabric, pending) {
            finished.push_back((pending.token, outcome));
        }
        pendings.give_back(index, number);
    }

    /// A peer wants packet `wanted` next: everything before it is done with.
    #[inline(always)]
    pub fn acked(&mut self, fabric: &F, from: Peer, index: usize, wanted: u16) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let target = self.targets.at(at);
        let counts = target.counts(index);
        let queue = &mut target.queues[index];
        let (pendings, bodies) = (&mut self.pendings, &mut self.bodies);
        match &mut target.path {
            SendPath::Packets(connection) => {
                let window = connection.window(index);
                let mut done = window.acknowledge(wanted)?;
                if done == 0 {
                    return Ok(());
                }
                while let Some(number) = window.take_done(queue, pendings, &mut done) {
                    let memory = (&mut *pendings, &mut *bodies);
                    Self::end_message(fabric, memory, &mut self.finished, (index, number), Outcome::Done);
                }
                window.catch_up(queue, pendings);
                connection.acknowledged();
            }
            SendPath::Lines(kept) => {
                let done = kept[index].acknowledge(wanted)?;
                if done == 0 {
                    return Ok(());
                }
                for _ in 0..done {
                    let number = kept[index].pop(queue, pendings);
                    let memory = (&mut *pendings, &mut *bodies);
                    Self::end_message(fabric, memory, &mut self.finished, (index, number), Outcome::Done);
                }
            }
        }
        if queue.is_empty() {
            self.asked -= counts;
        }
        if queue.has_waiting() {
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

    /// The connection to a target that is sent packets.
    fn connection(&mut self, at: u16) -> Option<&mut SendConnection> {
        match &mut self.targets.at(at).path {
            SendPath::Packets(connection) => Some(connection),
            SendPath::Lines(_) => None,
        }
    }

    /// Everything outstanding goes again.
    fn go_back(&mut self, at: u16) {
        let target = self.targets.at(at);
        if let SendPath::Packets(connection) = &mut target.path {
            connection.go_back(&mut target.queues, &self.pendings);
        }
        self.note_unsent(at);
    }

    /// The receiver refuses the packet with `word`'s number: send again from it on, with `busy` after a pause.
    pub fn refused(&mut self, from: Peer, index: usize, word: &Word, how: (bool, u64)) {
        let Some(at) = self.targets.find(from) else {
            return;
        };
        let target = self.targets.at(at);
        let SendPath::Packets(connection) = &mut target.path else {
            return;
        };
        if connection.refused((&mut target.queues, &self.pendings), (index, word), how) {
            self.note_unsent(at);
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
            return fail!("the tag of a Portals connection", 0);
        }
        let is_new = |connection: &&mut SendConnection| connection.is_new(word.tag);
        let Some(connection) = self.connection(at).filter(is_new) else {
            return Ok(());
        };
        if connection.was(before) {
            self.acked_both(fabric, from, known, wanted)?;
        }
        let target = self.targets.at(at);
        let news = not & !target.not;
        target.not |= not;
        if let SendPath::Packets(connection) = &mut target.path {
            connection.begin(word.tag);
        }
        if news != 0 {
            self.change_routes(fabric, at);
        }
        self.go_back(at);
        if by_lines {
            self.change_to_lines(at);
        }
        Ok(())
    }

    /// Messages that wait on routes that do not work go as streams. Nothing of the channels has been accepted, and the tag is
    /// new: numbers may change.
    #[cold]
    fn change_routes(&mut self, fabric: &F, at: u16) {
        let target = self.targets.at(at);
        for index in 0..2 {
            let mut number = target.queues[index].head();
            while number != NONE {
                let pending = self.pendings.at(number);
                self.bodies.change(fabric, target.not, target.checked, pending);
                number = pending.next;
            }
            if let SendPath::Packets(connection) = &mut target.path {
                connection.take_back(index);
            }
        }
    }

    /// The receiver wants to forget us. So do we; a tag that is not ours (any more) is never used again.
    pub fn detached(&mut self, fabric: &F, from: Peer, word: &Word, argument: u64) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let knows = |connection: &mut SendConnection| connection.may_detach(word.tag);
        if !self.connection(at).is_some_and(knows) {
            return Ok(());
        }
        let (known, wanted, _) = wire::numbers_of(argument);
        self.acked_both(fabric, from, known, wanted)?;
        if let Some(connection) = self.connection(at) {
            connection.detach();
        }
        self.go_back(at);
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
            if let SendPath::Packets(connection) = &mut target.path
                && connection.is_overdue(now, resend)
            {
                figures.timeouts += 1;
                self.go_back(at);
            }
        }
    }

    #[cold]
    fn end_target(&mut self, fabric: &F, at: u16) {
        let target = self.targets.at(at);
        target.dead = true;
        self.open[target.peer.index()] = 0;
        for index in 0..2 {
            let counts = target.counts(index);
            let queue = &mut target.queues[index];
            if !queue.is_empty() {
                self.asked -= counts;
            }
            while !queue.is_empty() {
                let number = queue.pop(&self.pendings);
                let memory = (&mut self.pendings, &mut self.bodies);
                let outcome = Outcome::PeerEnded;
                Self::end_message(fabric, memory, &mut self.finished, (index, number), outcome);
            }
            *queue = MessageQueue::EMPTY;
        }
        match &mut target.path {
            SendPath::Packets(connection) => connection.end(),
            SendPath::Lines(kept) => kept.iter_mut().for_each(KeptInLines::end),
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
        let before = match &target.path {
            SendPath::Packets(connection) => connection.before(index, word),
            SendPath::Lines(kept) => kept[index].before(word.seq),
        };
        let queue = &target.queues[index];
        let begins = |before: u16| queue.begins_at(&self.pendings, u32::from(before));
        match before.and_then(begins) {
            Some(number) => self.bodies.open_offer(from, self.pendings.at(number), grant),
            None => Ok(()),
        }
    }
}
