//! Fetching bodies from their senders' memory: staged ones at once, long ones part by part, one at a time of each lane. Where
//! a transfer costs a system call, bodies that wait for it and pieces of one body share one.
//!
//! Cost class: queued path.

use super::*;
use crate::malformed::{self, error};
use farpost_channel::{CopyOutcome, SharedCopy, Side, part_bytes};
use farpost_fabric::PIECES;

/// The fewest bytes of a part that are worth a system call.
const LEAST_PART: u64 = 32 << 10;

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
            moved |= if self.is_batched(fabric, number) {
                self.fetch_batch(fabric, figures, at)
            } else {
                self.fetch(fabric, figures, number)
            };
            if self.fetching.get(at) == Some(&number) {
                at += 1;
            }
        }
        moved
    }

    /// Whether a body is fetched together with others, when all packets have been looked at.
    pub(super) fn is_batched(&self, fabric: &F, number: u16) -> bool {
        let pending = &self.pendings[usize::from(number)];
        matches!(
            pending.from,
            Some(Place::Pull { .. }) | Some(Place::Gather { .. })
        ) && pending.part.is_none()
            && pending.done < pending.keep
            && fabric.can_transfer_pieces(pending.peer)
    }

    /// Let the sender copy parts of a long body too, where it has a rendezvous slot for it.
    pub(super) fn share(&mut self, fabric: &F, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let Some(Place::Pull { key, .. }) = pending.from else {
            return;
        };
        if key == 0 || pending.keep < self.shared || !fabric.maps(origin.peer) {
            return;
        }
        if origin.rendezvous_slots.is_none() {
            let import = fabric.import(
                origin.peer,
                self.owner.segment(SLOTS_SEGMENT),
                LINE_BYTES,
                Permission::ReadWrite,
            );
            origin.rendezvous_slots = import.ok();
        }
        if origin
            .rendezvous_slots
            .as_ref()
            .and_then(|rendezvous_slots| line_of::<F>(rendezvous_slots, key))
            .is_none()
        {
            return;
        }
        if let Some(one) = pending.into.region(0, pending.keep as usize).as_one() {
            let part = part_bytes(pending.keep, (LEAST_PART, self.chunk));
            let to = (origin.peer, origin.checked);
            let arguments = [pending.keep, part, one.address as u64];
            let (on, index) = ((fabric, self.owner.port()), usize::from(pending.lane));
            let about = (origin.path.tag(), pending.seq);
            let told = control(on, to, Op::Grant, index, about, &arguments);
            pending.part = told.then_some(part);
        }
    }

    /// Whether it is the turn of a body among those of its lane.
    fn has_turn(&mut self, number: u16) -> bool {
        let pending = &self.pendings[usize::from(number)];
        let lane = &mut self.origins.at(pending.origin).lanes[usize::from(pending.lane)];
        if lane.mover == NONE {
            lane.mover = number;
        }
        lane.mover == number
    }

    /// Fetch a part of one body, if it is the turn of its lane.
    pub(super) fn fetch(&mut self, fabric: &F, figures: &mut Figures, number: u16) -> bool {
        if !self.has_turn(number) {
            return false;
        }
        let pending = &mut self.pendings[usize::from(number)];
        if pending.pauses {
            return false;
        }
        if let Some((since, error)) = pending.broken.take() {
            let peer = pending.peer;
            if fabric.now() - since >= BROKEN {
                self.fail(fabric, figures, (number, peer), error);
                return true;
            }
            (pending.broken, pending.pauses) = (Some((since, error)), true);
            return false;
        }
        let (peer, whole) = (pending.peer, pending.done == pending.keep);
        let moved = if whole && pending.has_aside() {
            self.fetch_aside(fabric, number)
        } else {
            self.fetch_part(fabric, number)
        };
        match moved {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error @ FabricError::PutFailed { .. }) => {
                let pending = &mut self.pendings[usize::from(number)];
                (pending.broken, pending.pauses) = (Some((fabric.now(), error)), true);
                return true;
            }
            Err(error) => {
                self.fail(fabric, figures, (number, peer), error);
                return true;
            }
        }
        self.go_on(figures, number);
        true
    }

    /// The next bytes that are kept. False: they are not there yet.
    fn fetch_part(&mut self, fabric: &F, number: u16) -> Result<bool, FabricError> {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let peer = pending.peer;
        match pending.from {
            Some(Place::Staged { offset }) => {
                let memory = origin.staging.as_ref().expect("imported before");
                let into = pending.into.region(0, pending.keep as usize);
                pending.done = pending.keep;
                fabric.charge(Cost::Copy(into.len()));
                moves::fetch_staged(memory, offset as usize, &into)?;
            }
            Some(Place::Pull { position, key }) if let Some(part) = pending.part => {
                let line = origin
                    .rendezvous_slots
                    .as_ref()
                    .and_then(|rendezvous_slots| line_of::<F>(rendezvous_slots, key));
                let line = line.expect("looked at before");
                let into = &pending.into;
                let copied = line.copy_part(Side::Front, (pending.keep, part), |at, len| {
                    let one = into.region(at as usize, len as usize);
                    let one = one.as_one().expect("one run of memory");
                    let from = (position.wrapping_add(at), 0);
                    user::transfer(fabric, (peer, Direction::Get), one, from).is_ok()
                });
                if !copied {
                    match line.outcome((pending.keep, part)) {
                        CopyOutcome::UnderWay => return Ok(false),
                        // Once more and alone, when nobody writes here any more.
                        CopyOutcome::Failed => pending.part = None,
                        CopyOutcome::Whole => {
                            let whole = pending.into.region(0, pending.keep as usize);
                            if let Some(one) = whole.as_one() {
                                farpost_fabric::memcheck::written_by_peer(one.address, one.len);
                            }
                            pending.done = pending.keep;
                        }
                    }
                }
            }
            Some(Place::Pull { position, key }) => {
                let rest = (pending.keep - pending.done) as usize;
                let rest = pending.into.region(pending.done as usize, rest);
                let mut piece = rest.pieces().next().unwrap_or_default();
                if fabric.maps(peer) {
                    piece.len = piece.len.min(self.chunk as usize);
                }
                let from = (position.wrapping_add(pending.done), key);
                match get(fabric, pending, piece, from)? {
                    Some(bytes) => pending.done += bytes,
                    None => return Ok(pending.ticket.is_some_and(|ticket| ticket.fresh())),
                }
            }
            Some(Place::Gather { .. }) | None | Some(Place::Stream) => {}
        }
        Ok(true)
    }

    /// The next bytes that go through memory of the layer's own, where nobody else writes while they are checked: of a body that
    /// carries a check those that nobody keeps, since it is about all of them, and every one of a body whose check was wrong.
    fn fetch_aside(&mut self, fabric: &F, number: u16) -> Result<bool, FabricError> {
        let pending = &mut self.pendings[usize::from(number)];
        let at = pending.direct() + pending.aside;
        let left = (pending.length - at).min(SCRATCH as u64);
        let origin = self.origins.at(pending.origin);
        if pending.aside == 0 && pending.ticket.is_none() {
            pending.sum = moves::check_of(&pending.into.region(0, pending.direct() as usize));
        }
        if pending.scratch.is_none() {
            pending.scratch = self.scratch.pop();
        }
        let Some(scratch) = &mut pending.scratch else {
            return Ok(false);
        };
        let room = moves::of_scratch(&mut scratch[..], left as usize);
        let bytes = match pending.from {
            Some(Place::Staged { offset }) => {
                let memory = origin.staging.as_ref().expect("imported before");
                memory.get(offset as usize + at as usize, &mut scratch[..left as usize])?;
                left
            }
            Some(Place::Gather { .. }) => {
                let batch = &mut self.batch;
                batch.clear();
                batch.local.push(room);
                let list = origin.staging.as_ref();
                let (bytes, cursor) = batch.add_remote::<F>(pending, list, left)?;
                batch.local[0].len = bytes as usize;
                let way = (pending.peer, Direction::Get);
                moves::transfer_pieces(fabric, way, &batch.local, &batch.remote)?;
                pending.cursor = cursor;
                bytes
            }
            Some(Place::Pull { position, key }) => {
                let piece = Segment::new(room.address, room.len);
                let key = if fabric.maps(pending.peer) { 0 } else { key };
                match get(fabric, pending, piece, (position.wrapping_add(at), key))? {
                    Some(bytes) => bytes,
                    None => return Ok(pending.ticket.is_some_and(|ticket| ticket.fresh())),
                }
            }
            None | Some(Place::Stream) => left,
        };
        if let Some(scratch) = &pending.scratch {
            let kept = pending.keep.saturating_sub(at).min(bytes) as usize;
            if kept > 0 {
                fabric.charge(Cost::Copy(kept));
                moves::store(&pending.into, at as usize, &scratch[..kept]);
            }
            let mut sum = crc32fast::Hasher::new_with_initial(pending.sum);
            sum.update(&scratch[..bytes as usize]);
            pending.sum = sum.finalize();
        }
        pending.aside += bytes;
        Ok(true)
    }

    /// Something of a body has come: if that was all, it is checked, and has ended.
    fn go_on(&mut self, figures: &mut Figures, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        if pending.ticket.is_some() || pending.done < pending.keep || pending.has_aside() {
            return;
        }
        if let Some(check) = pending.check {
            let sum = if pending.direct() == pending.length {
                moves::check_of(&pending.into.region(0, pending.keep as usize))
            } else {
                pending.sum
            };
            if sum != check {
                // Or others write where it goes, which they may: bodies to one place, or the program.
                figures.mismatches += 1;
                pending.tries += 1;
                (pending.aside, pending.cursor) = (0, (0, 0));
                if pending.tries <= AGAIN {
                    return;
                }
                self.leave_fetching(number);
                return self.end(number, Outcome::Failed);
            }
        }
        self.leave_fetching(number);
        self.end(number, Outcome::Done);
    }

    fn fail(&mut self, fabric: &F, figures: &mut Figures, (number, peer): (u16, Peer), error: FabricError) {
        let outcome = match error {
            FabricError::PeerDead { .. } => Outcome::PeerEnded,
            _ => Outcome::Failed,
        };
        figures.failed += 1;
        fabric.record_fault(Fault { peer, error });
        self.leave_fetching(number);
        self.end(number, outcome);
    }

    /// One system call for the body at place `first` of those that wait, and for those behind it of the same sender that fit
    /// whole into the bytes and pieces of one.
    fn fetch_batch(&mut self, fabric: &F, figures: &mut Figures, first: usize) -> bool {
        let number = self.fetching[first];
        if !self.has_turn(number) {
            return false;
        }
        let (at, peer) = {
            let pending = &self.pendings[usize::from(number)];
            (pending.origin, pending.peer)
        };
        let mut alone = false;
        let moved = loop {
            self.batch.clear();
            let added = self.add_to_batch(number, self.chunk);
            if let Err(error) = added {
                break Err(error);
            }
            for next in first + 1..self.fetching.len() {
                let (next, left) = (self.fetching[next], self.chunk.saturating_sub(self.batch.bytes));
                let pending = &self.pendings[usize::from(next)];
                let wanted = pending.keep - pending.done;
                let mover = self.origins.at(at).lanes[usize::from(pending.lane)].mover;
                let free = mover == NONE || mover == next || mover == number;
                if alone || pending.origin != at || wanted > left || !free || !self.is_batched(fabric, next) {
                    break;
                }
                let before = self.batch.lens();
                if !matches!(self.add_to_batch(next, wanted), Ok(bytes) if bytes == wanted) {
                    self.batch.cut(before);
                    break;
                }
            }
            let way = (peer, Direction::Get);
            let batch = &self.batch;
            match moves::transfer_pieces(fabric, way, &batch.local, &batch.remote) {
                // Whose fault it is shows when they are fetched one by one.
                Err(_) if batch.messages.len() > 1 => alone = true,
                other => break other,
            }
        };
        if let Err(error) = moved {
            self.fail(fabric, figures, (number, peer), error);
            return true;
        }
        for index in 0..self.batch.messages.len() {
            let Fetched {
                number,
                bytes,
                cursor,
            } = self.batch.messages[index];
            let pending = &mut self.pendings[usize::from(number)];
            pending.done += bytes;
            pending.cursor = cursor;
            self.go_on(figures, number);
        }
        true
    }

    /// Add the next bytes of a body to the batch, at most so many: their number.
    fn add_to_batch(&mut self, number: u16, most: u64) -> Result<u64, FabricError> {
        let pending = &self.pendings[usize::from(number)];
        let list = self.origins.at(pending.origin).staging.as_ref();
        let batch = &mut self.batch;
        let wanted = (pending.keep - pending.done).min(most);
        let into = pending.into.region(pending.done as usize, wanted as usize);
        let (before, mut bytes) = (batch.local.len(), 0);
        for Segment { address, len } in into.pieces().take(PIECES - before) {
            batch.local.push(Piece { address, len });
            bytes += len as u64;
        }
        let (fetched, cursor) = batch.add_remote::<F>(pending, list, bytes)?;
        // The other list may have run out of room first.
        while bytes > fetched {
            let last = batch.local.last_mut().expect("as many bytes as counted");
            let less = (bytes - fetched).min(last.len as u64);
            last.len -= less as usize;
            bytes -= less;
            if last.len == 0 {
                batch.local.pop();
            }
        }
        batch.bytes += bytes;
        batch.messages.push(Fetched {
            number,
            bytes,
            cursor,
        });
        Ok(bytes)
    }

    pub(super) fn leave_fetching(&mut self, number: u16) {
        if let Some(at) = self.fetching.iter().position(|n| *n == number) {
            self.fetching.remove(at);
        }
    }
}

/// What one system call fetches.
pub(super) struct Batch {
    local: Vec<Piece>,
    remote: Vec<Piece>,
    messages: Vec<Fetched>,
    bytes: u64,
}

/// Of one message.
#[derive(Clone, Copy)]
struct Fetched {
    number: u16,
    bytes: u64,
    /// Where its list of pieces goes on.
    cursor: (u32, u64),
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            local: Vec::with_capacity(PIECES),
            remote: Vec::with_capacity(PIECES),
            messages: Vec::with_capacity(PIECES),
            bytes: 0,
        }
    }
}

impl Batch {
    fn clear(&mut self) {
        self.cut((0, 0, 0, 0));
    }

    fn lens(&self) -> (usize, usize, usize, u64) {
        (
            self.local.len(),
            self.remote.len(),
            self.messages.len(),
            self.bytes,
        )
    }

    fn cut(&mut self, (local, remote, messages, bytes): (usize, usize, usize, u64)) {
        self.local.truncate(local);
        self.remote.truncate(remote);
        self.messages.truncate(messages);
        self.bytes = bytes;
    }

    /// Add the pieces of the sender's memory that hold the next `wanted` bytes of a message, as far as there is room: how many
    /// bytes that are, and where its list goes on.
    fn add_remote<F: Fabric>(
        &mut self,
        pending: &ReceivePending,
        list: Option<&F::Import>,
        wanted: u64,
    ) -> Result<(u64, (u32, u64)), FabricError> {
        let room = PIECES - self.remote.len();
        let (offset, pieces) = match (pending.from, list) {
            (Some(Place::Pull { position, .. }), _) => {
                if room == 0 {
                    return Ok((0, (0, 0)));
                }
                self.remote.push(Piece {
                    address: position.wrapping_add(pending.done) as usize,
                    len: wanted as usize,
                });
                return Ok((wanted, (0, 0)));
            }
            (Some(Place::Gather { offset, pieces }), Some(_)) => (offset as usize, pieces),
            _ => return Ok((0, (0, 0))),
        };
        let list = list.expect("just seen");
        let (mut index, mut skip) = pending.cursor;
        let (mut bytes, mut taken) = (0, 0);
        while bytes < wanted && taken < room {
            if index >= pieces {
                let bad = error!("the pieces of a Portals body", pieces);
                return Err(malformed::corrupt(pending.peer, bad));
            }
            let mut entry = [0; wire::PIECE];
            list.get(offset + index as usize * wire::PIECE, &mut entry)?;
            let (address, len) = wire::piece_of(&entry);
            let part = len.saturating_sub(skip).min(wanted - bytes);
            if part > 0 {
                self.remote.push(Piece {
                    address: address.wrapping_add(skip) as usize,
                    len: part as usize,
                });
                bytes += part;
                taken += 1;
            }
            (index, skip) = if skip + part >= len {
                (index + 1, 0)
            } else {
                (index, skip + part)
            };
        }
        Ok((bytes, (index, skip)))
    }
}

/// A transfer that takes time.
#[derive(Clone, Copy)]
pub struct UnderWay {
    pub ticket: Ticket,
    bytes: u64,
    /// It has just been started.
    new: bool,
}

impl UnderWay {
    fn fresh(self) -> bool {
        self.new
    }
}

/// Begin to get a piece, or ask what has become of it: the bytes that have come. None: it is under way.
fn get<F: Fabric>(
    fabric: &F,
    pending: &mut ReceivePending,
    piece: Segment,
    from: (u64, u64),
) -> Result<Option<u64>, FabricError> {
    if let Some(UnderWay { ticket, bytes, .. }) = pending.ticket {
        return match fabric.poll_transfer(ticket) {
            Ok(false) => {
                pending.ticket = Some(UnderWay {
                    ticket,
                    bytes,
                    new: false,
                });
                Ok(None)
            }
            other => {
                pending.ticket = None;
                other.map(|_| Some(bytes))
            }
        };
    }
    let bytes = piece.len as u64;
    match user::transfer(fabric, (pending.peer, Direction::Get), piece, from)? {
        Completion::Done => Ok(Some(bytes)),
        Completion::Pending(ticket) => {
            pending.ticket = Some(UnderWay {
                ticket,
                bytes,
                new: true,
            });
            Ok(None)
        }
    }
}

/// The rendezvous slot of a peer that a header packet names.
fn line_of<F: Fabric>(rendezvous_slots: &F::Import, key: u64) -> Option<SharedCopy<'_, F::Export>> {
    rendezvous_slots::line_of(F::mapped(rendezvous_slots)?, key.checked_sub(1)?)
}
