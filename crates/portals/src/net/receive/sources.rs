//! Which processes have a place among the sources: how they get it, give it up for others, and end.
//!
//! Cost class: queued path.

use super::*;

impl<F: Fabric> Receive<F> {
    fn new_tag(&mut self) -> u16 {
        self.next_tag = self.next_tag.wrapping_add(1).max(1);
        self.next_tag
    }

    /// A packet that is not the one wanted next. True: it is after all.
    #[cold]
    #[inline(never)]
    pub(super) fn unexpected(
        &mut self,
        fabric: &F,
        figures: &mut Figures,
        (at, index): (u16, usize),
        word: &Word,
        turn: u64,
    ) -> bool {
        let origin = self.origins.at(at);
        let is_empty = origin.is_empty();
        let ReceivePath::Packets(connection) = &mut origin.path else {
            // Offered again before it had heard that it goes by lines.
            return false;
        };
        match connection.unexpected(index, word, is_empty) {
            Unexpected::Begins => return true,
            Unexpected::Untold => self.tell(at),
            Unexpected::Stale => figures.stale += 1,
            Unexpected::LostTag => {
                let (tag, argument) = (connection.tag(), connection.sync(origin.not));
                let (on, to) = ((fabric, self.owner.port()), (origin.peer, origin.checked));
                control(on, to, Op::Sync, 0, (tag, 0), &[argument]);
            }
            Unexpected::NoTag => self.resync(at, 0, turn),
            Unexpected::Duplicate => {
                figures.duplicates += 1;
                self.owe(at, index);
                self.urgent = true;
            }
            Unexpected::Gap => {
                figures.gaps += 1;
                self.refuse(at, index, Op::Gap);
            }
            Unexpected::Nothing => {}
        }
        false
    }

    /// A new tag. All that was accepted is acknowledged with it.
    #[cold]
    pub(super) fn resync(&mut self, at: u16, not: u8, turn: u64) {
        let tag = self.new_tag();
        let origin = self.origins.at(at);
        origin.not |= not;
        if let ReceivePath::Packets(connection) = &mut origin.path {
            connection.begin(tag, turn);
        }
        origin.lanes = [Lane::NEW; 2];
        self.tell(at);
    }

    /// A place for a new source. None: the sender is told to try again, and perhaps another one is given up.
    #[cold]
    pub(super) fn enter(
        &mut self,
        fabric: &F,
        peer: Peer,
        tag: u16,
        checked: bool,
        turn: u64,
    ) -> Option<u16> {
        if !checked && lines::can_have(fabric, peer) {
            self.enter_by_lines(fabric, peer);
            return None;
        }
        if self.origins.is_full() {
            let silent =
                |origin: &mut Origin<F>| origin.has_connection(|connection| connection.is_silent(turn));
            if let Some(at) = self.origins.candidate(silent) {
                self.forget(at);
            }
        }
        self.admit_next(turn);
        if let Some(at) = self.origins.find(peer) {
            return Some(at);
        }
        if !self.origins.is_full() {
            return self.place_for(peer, checked, turn);
        }
        let (on, to) = ((fabric, self.owner.port()), (peer, checked));
        if tag != 0 {
            // It came too late for the place that it was given, or is a packet of long ago, for which nobody makes room. Nothing was
            // accepted under that tag, or it would have been kept until its sender had forgotten it; a sender with another tag by now
            // does not heed this.
            let nothing = wire::numbers(0, [0; 2], 0);
            control(on, to, Op::Detach, 0, (tag, 0), &[nothing]);
            return None;
        }
        let closing = |origin: &mut Origin<F>| origin.has_connection(ReceiveConnection::is_closing);
        if self.origins.candidate(closing).is_none() {
            let idle = |origin: &mut Origin<F>| {
                origin.has_connection(ReceiveConnection::may_close) && origin.is_empty()
            };
            if let Some(at) = self.origins.candidate(idle) {
                let origin = self.origins.at(at);
                if let ReceivePath::Packets(connection) = &mut origin.path {
                    connection.close();
                }
                origin.lanes.iter_mut().for_each(|lane| lane.owed = 0);
                self.tell(at);
            }
        }
        self.next_admitted.get_or_insert((peer, checked));
        control(on, to, Op::Busy, 0, (0, 0), &[]);
        self.starved = true;
        None
    }

    /// A free place goes to who waits for it, and [`Op::Sync`] tells, whatever pause the sender makes.
    fn admit_next(&mut self, turn: u64) {
        if !self.origins.is_full()
            && let Some((peer, checked)) = self.next_admitted.take()
            && self.origins.find(peer).is_none()
        {
            self.place_for(peer, checked, turn);
        }
    }

    fn place_for(&mut self, peer: Peer, checked: bool, turn: u64) -> Option<u16> {
        let connection = ReceiveConnection::new(self.new_tag(), turn);
        let origin = Origin::new(peer, checked, ReceivePath::Packets(connection));
        let at = self.origins.insert(peer, origin)?;
        self.tell(at);
        Some(at)
    }

    /// A place for a source that will send by lines, which it is told along with what cannot be done with its memory: later it
    /// would have to go back.
    #[cold]
    fn enter_by_lines(&mut self, fabric: &F, peer: Peer) {
        let mut origin = Origin::new(peer, false, ReceivePath::Lines(FromLines::new(self.new_tag())));
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

    fn forget(&mut self, at: u16) {
        self.owing.retain(|owing| *owing != at);
        self.origins.remove(at);
    }

    /// The sender has forgotten a tag, or has no use for one under which nothing has been accepted.
    pub fn detached(&mut self, from: Peer, word: &Word, turn: u64) {
        if let Some(at) = self.origins.find(from) {
            let origin = self.origins.at(at);
            let is_empty = origin.is_empty();
            if origin.has_connection(|connection| connection.is_detached(word, is_empty)) {
                self.forget(at);
                self.admit_next(turn);
            }
        }
    }

    /// A packet came damaged: what it was is not known.
    #[cold]
    pub fn damaged(&mut self, from: Peer, index: usize) {
        if let Some(at) = self.origins.find(from)
            && let ReceivePath::Packets(connection) = &mut self.origins.at(at).path
        {
            let window = connection.window(index);
            if window.is_open() && window.is_untold() {
                self.refuse(at, index, Op::Gap);
            }
        }
    }

    /// Time has passed: say again what may be lost, and end what came from those who have ended.
    pub fn tend(&mut self, fabric: &F) {
        self.starved = false;
        for at in 0..self.origins.len() {
            let Some(origin) = self.origins.get(at) else {
                continue;
            };
            let is_settled = match &origin.path {
                ReceivePath::Packets(connection) => connection.is_open(),
                ReceivePath::Lines(lines) => lines.is_told(),
            };
            if is_settled && origin.is_empty() {
                continue;
            }
            if fabric.is_gone(origin.peer) {
                self.end_origin(fabric, at);
            } else if let ReceivePath::Packets(connection) = &mut origin.path
                && connection.tell_again()
            {
                self.tell(at);
            }
        }
        for number in &self.fetching {
            self.pendings[usize::from(*number)].pauses = false;
        }
    }

    #[cold]
    fn end_origin(&mut self, fabric: &F, at: u16) {
        for index in 0..2 {
            while self.origins.at(at).lanes[index].head != NONE {
                let number = self.origins.at(at).lanes[index].head;
                let pending = &mut self.pendings[usize::from(number)];
                if let Some(under_way) = pending.ticket.take() {
                    fabric.cancel_transfer(under_way.ticket);
                }
                if pending.stage == Stage::Later {
                    self.unlink(number);
                    self.pendings[usize::from(number)].stage = Stage::Orphan;
                } else {
                    self.leave_fetching(number);
                    self.end(number, Outcome::PeerEnded);
                }
            }
        }
        let origin = self.origins.at(at);
        match &mut origin.path {
            ReceivePath::Packets(_) => self.forget(at),
            ReceivePath::Lines(lines) => {
                // What it put to its lines before is still taken. It is told nothing more.
                lines.end();
                origin.lanes.iter_mut().for_each(|lane| lane.owed = 0);
                origin.listed = false;
                self.owing.retain(|owing| *owing != at);
            }
        }
    }
}
