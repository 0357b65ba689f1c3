//! Fetching bodies from their senders' memory: staged ones at once, long ones part by part, one at a time of each lane.
//!
//! Cost class: queued path.

use super::*;

impl<F: Fabric> Receive<F> {
    /// Whether bodies are to be fetched.
    #[inline(always)]
    pub fn has_fetching(&self) -> bool {
        !self.fetching.is_empty()
    }

    /// Fetch on, a part of each. True: something moved.
    pub fn fetch_all(&mut self, fabric: &F, figures: &mut Figures) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.fetching.len() {
            let number = self.fetching[at];
            moved |= self.fetch(fabric, figures, number);
            if self.fetching.get(at) == Some(&number) {
                at += 1;
            }
        }
        moved
    }

    /// Let the sender copy parts of a long body too, where it has a desk for it.
    pub(super) fn share(&mut self, fabric: &F, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let From::Pull { key, .. } = pending.from else {
            return;
        };
        if key == 0 || pending.keep < self.shared || !fabric.maps(origin.peer) {
            return;
        }
        if origin.desk.is_none() {
            let import = fabric.import(origin.peer, DESK, LINE_BYTES, Permission::ReadWrite);
            origin.desk = import.ok();
        }
        if origin
            .desk
            .as_ref()
            .and_then(|desk| line_of::<F>(desk, key))
            .is_none()
        {
            return;
        }
        if let Some(one) = pending.into.region(0, pending.keep as usize).as_one() {
            let part = desk::part(pending.keep, self.chunk);
            let to = (origin.peer, origin.checked);
            let arguments = [pending.keep, part, one.address as u64];
            let about = (origin.tag, pending.seq);
            if control(
                fabric,
                to,
                Op::Grant,
                usize::from(pending.lane),
                about,
                &arguments,
            ) {
                pending.part = Some(part);
            }
        }
    }

    /// Fetch a part of one body, if it is the turn of its lane.
    pub(super) fn fetch(&mut self, fabric: &F, figures: &mut Figures, number: u16) -> bool {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let peer = origin.peer;
        let lane = &mut origin.lanes[usize::from(pending.lane)];
        if lane.mover == NONE {
            lane.mover = number;
        }
        if lane.mover != number {
            return false;
        }
        let outcome = match pending.from {
            From::Staged { offset } => {
                let memory = origin.staging.as_ref().expect("imported before");
                let into = pending.into.region(0, pending.keep as usize);
                pending.done = pending.keep;
                moves::fetch_staged(memory, offset as usize, &into)
            }
            From::Pull { position, key } if let Some(part) = pending.part => {
                let line = origin.desk.as_ref().and_then(|desk| line_of::<F>(desk, key));
                let line = line.expect("looked at before");
                match line.claim(pending.keep, part) {
                    Some((at, len)) => {
                        let one = pending.into.region(at as usize, len as usize);
                        let one = one.as_one().expect("one run of memory");
                        let from = (position.wrapping_add(at), 0);
                        let moved = moves::transfer(fabric, (peer, Direction::Get), one, from);
                        if moved.is_err() {
                            // Once more and alone, when nobody writes here any more.
                            line.fail();
                        }
                        line.copied();
                        Ok(())
                    }
                    None if !line.complete(pending.keep, part) => return false,
                    None => {
                        if line.failed() {
                            pending.part = None;
                        } else {
                            pending.done = pending.keep;
                        }
                        Ok(())
                    }
                }
            }
            From::Pull { position, key } => match pending.ticket {
                Some((ticket, bytes)) => match fabric.poll_transfer(ticket) {
                    Ok(false) => return false,
                    other => {
                        pending.ticket = None;
                        pending.done += bytes;
                        other.map(|_| ())
                    }
                },
                None => {
                    let rest = (pending.keep - pending.done) as usize;
                    let rest = pending.into.region(pending.done as usize, rest);
                    let mut piece = rest.pieces().next().unwrap_or_default();
                    if fabric.maps(peer) {
                        piece.len = piece.len.min(self.chunk as usize);
                    }
                    let from = (position.wrapping_add(pending.done), key);
                    match moves::transfer(fabric, (peer, Direction::Get), piece, from) {
                        Ok(Completion::Done) => {
                            pending.done += piece.len as u64;
                            Ok(())
                        }
                        Ok(Completion::Pending(ticket)) => {
                            pending.ticket = Some((ticket, piece.len as u64));
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
            },
            From::Inline | From::Stream => Ok(()),
        };
        if let Err(error) = outcome {
            let outcome = match error {
                FabricError::PeerDead { .. } => Outcome::PeerEnded,
                _ => Outcome::Failed,
            };
            figures.failed += 1;
            fabric.record_fault(Fault { peer, error });
            self.leave_fetching(number);
            self.end(number, outcome);
            return true;
        }
        if pending.ticket.is_some() || pending.done < pending.keep {
            return true;
        }
        if let Some(check) = pending.check
            && pending.keep == pending.length
            && moves::check_of(&pending.into.region(0, pending.keep as usize)) != check
        {
            figures.mismatches += 1;
            pending.tries += 1;
            pending.done = 0;
            if pending.tries <= AGAIN {
                return true;
            }
            self.leave_fetching(number);
            self.end(number, Outcome::Failed);
            return true;
        }
        self.leave_fetching(number);
        self.end(number, Outcome::Done);
        true
    }

    pub(super) fn leave_fetching(&mut self, number: u16) {
        if let Some(at) = self.fetching.iter().position(|n| *n == number) {
            self.fetching.remove(at);
        }
    }
}

/// The line of a peer's desk that a header packet names.
fn line_of<F: Fabric>(desk: &F::Import, key: u64) -> Option<DeskLine<'_, F::Export>> {
    DeskLine::of(F::mapped(desk)?, key.checked_sub(1)?)
}
