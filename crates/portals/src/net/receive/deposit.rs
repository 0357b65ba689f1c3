//! Receive pendings: from the header to the place that the upper layer chose.
//!
//! Cost class: queued path.

use super::*;

impl<F: Fabric> Receive<F> {
    /// The name of a pending that was taken.
    #[inline(always)]
    pub fn id(&self, number: u16) -> RxId {
        let generation = self.pendings[usize::from(number)].generation;
        RxId::new(number, generation)
    }

    /// Take a pending that [`Receive::accept`] named: it is free, and most likely the next one still.
    #[inline]
    pub fn take(&mut self, number: u16) {
        if let Some(at) = self.free.iter().rposition(|free| *free == number) {
            self.free.swap_remove(at);
        }
    }

    pub(super) fn release(&mut self, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        pending.generation = pending.generation.wrapping_add(1);
        pending.stage = Stage::Free;
        pending.into = Segments::default();
        if let Some(scratch) = pending.scratch.take() {
            self.scratch.push(scratch);
        }
        self.free.push(number);
    }

    /// A message that came whole goes where the upper layer said. False: not now.
    #[cold]
    pub fn settle_short(&mut self, fabric: &F, number: u16, body: &[u8], placement: Placement) -> bool {
        let pending = &mut self.pendings[usize::from(number)];
        match placement {
            Placement::Done | Placement::Discard => self.free.push(number),
            Placement::Keep { token, bytes, into } => {
                let kept = (bytes as usize).min(body.len()).min(into.len());
                fabric.charge(Cost::Copy(kept));
                moves::store(&into, 0, &body[..kept]);
                self.finished.push_back((token, Outcome::Done));
                self.release(number);
            }
            Placement::Later => {
                pending.stage = Stage::Later;
                pending.from = None;
                pending.inline_len = body.len() as u8;
                pending.length = body.len() as u64;
                fabric.charge(Cost::Copy(body.len()));
                pending.inline[..body.len()].copy_from_slice(body);
            }
            Placement::Refuse => {
                self.free.push(number);
                return false;
            }
        }
        true
    }

    /// A message that came whole is to come again.
    #[cold]
    pub fn refuse_short(&mut self, at: u16, index: usize) {
        self.take_back(at, index);
        self.refuse(at, index, Op::Busy);
    }

    /// The header packet of a long message: note it before the upper layer is asked.
    pub fn begin(
        &mut self,
        (number, at, index): (u16, u16, usize),
        seq: u16,
        length: u64,
        place: Place,
        check: Option<u32>,
    ) {
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        let pending = &mut self.pendings[usize::from(number)];
        pending.peer = origin.peer;
        pending.stage = Stage::Later;
        pending.from = Some(place);
        pending.origin = at;
        pending.lane = index as u8;
        pending.seq = seq;
        pending.next = NONE;
        pending.tries = 0;
        pending.length = length;
        pending.token = None;
        pending.keep = 0;
        pending.done = 0;
        pending.check = check;
        pending.part = None;
        pending.ticket = None;
        (pending.broken, pending.pauses) = (None, false);
        (pending.cursor, pending.aside) = ((0, 0), 0);
        if place == Place::Stream {
            lane.streaming = number;
        }
        if lane.tail == NONE {
            lane.head = number;
        } else {
            self.pendings[usize::from(lane.tail)].next = number;
        }
        lane.tail = number;
    }

    /// Whether a source's staging memory is mapped here.
    pub fn sees_staging(&mut self, at: u16) -> bool {
        let staging = &self.origins.at(at).staging;
        staging.as_ref().is_some_and(|memory| F::mapped(memory).is_some())
    }

    /// Copy what is staged at `offset`, where [`can_have`](Self::can_have) has looked.
    pub fn read_staged(&mut self, at: u16, offset: u32, into: &Segments) {
        let staging = &self.origins.at(at).staging;
        if let Some(memory) = staging.as_ref().and_then(F::mapped) {
            moves::read_staged(memory, offset as usize, into);
        }
    }

    /// A message was dealt with where its body lay: its header packet is to be acknowledged.
    pub fn taken(&mut self, at: u16, index: usize) {
        self.owe(at, index);
    }

    /// The upper layer has decided about a long message.
    pub fn settle(&mut self, fabric: &F, figures: &mut Figures, number: u16, placement: Placement) {
        let pending = &mut self.pendings[usize::from(number)];
        match placement {
            Placement::Later => {}
            Placement::Refuse => {
                let (at, index) = (pending.origin, usize::from(pending.lane));
                let behind = pending.seq.wrapping_add(1);
                let is_latest = |connection: &ReceiveConnection| connection.wanted(index) == Some(behind);
                if self.origins.at(at).has_connection(is_latest) {
                    self.take_back(at, index);
                    self.unlink(number);
                    self.release(number);
                    self.refuse(at, index, Op::Busy);
                } else {
                    // Others have come behind it: too late.
                    self.settle(fabric, figures, number, Placement::Discard);
                }
            }
            Placement::Done | Placement::Discard => {
                pending.stage = Stage::Placed;
                pending.keep = 0;
                if pending.from != Some(Place::Stream) {
                    self.end(number, Outcome::Done);
                }
            }
            Placement::Keep { token, bytes, into } => {
                pending.stage = Stage::Placed;
                pending.token = Some(token);
                pending.keep = bytes.min(pending.length).min(into.len() as u64);
                pending.into = into;
                if pending.from == Some(Place::Stream) {
                    return;
                }
                if pending.keep == 0 {
                    return self.end(number, Outcome::Done);
                }
                self.fetching.push(number);
                self.share(fabric, number);
                if !self.is_batched(fabric, number) {
                    self.fetch(fabric, figures, number);
                }
            }
        }
    }

    /// What the upper layer decides after [`Placement::Later`]. False: there is no such pending any more.
    pub fn place(&mut self, fabric: &F, figures: &mut Figures, id: RxId, placement: Placement) -> bool {
        let (number, generation) = id.parts();
        let Some(pending) = self.pendings.get_mut(usize::from(number)) else {
            return false;
        };
        if pending.generation != generation {
            return false;
        }
        match (pending.stage, placement) {
            (Stage::Free | Stage::Placed, _) => return false,
            (_, Placement::Later) => {}
            (Stage::Orphan, placement) => {
                if let Placement::Keep { token, .. } = placement {
                    self.finished.push_back((token, Outcome::PeerEnded));
                }
                self.release(number);
            }
            (Stage::Later, placement) if pending.from.is_none() => {
                if let Placement::Keep { token, bytes, into } = placement {
                    let len = usize::from(pending.inline_len);
                    let kept = (bytes as usize).min(len).min(into.len());
                    fabric.charge(Cost::Copy(kept));
                    moves::store(&into, 0, &pending.inline[..kept]);
                    self.finished.push_back((token, Outcome::Done));
                }
                self.release(number);
            }
            (Stage::Later, placement) => {
                self.settle(fabric, figures, number, placement);
                self.urgent = true;
            }
        }
        true
    }

    /// The next part of a body that comes in packets.
    pub fn data(
        &mut self,
        fabric: &F,
        (number, checked): (u16, bool),
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let pending = &mut self.pendings[usize::from(number)];
        let left = pending.length - pending.done;
        if bytes.len() as u64 != left.min(stream_bytes(checked) as u64) {
            self.abandon(number);
            return fail!("the length of a part of a Portals body", bytes.len());
        }
        let room = pending.keep.saturating_sub(pending.done).min(bytes.len() as u64) as usize;
        if room > 0 {
            fabric.charge(Cost::Copy(room));
            moves::store(&pending.into, pending.done as usize, &bytes[..room]);
        }
        pending.done += bytes.len() as u64;
        if pending.done == pending.length {
            self.end(number, Outcome::Done);
        }
        Ok(())
    }

    /// A message whose sender does not keep to the protocol.
    #[cold]
    pub(super) fn abandon(&mut self, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        if pending.stage == Stage::Later {
            // The host may still name it.
            self.unlink(number);
            self.pendings[usize::from(number)].stage = Stage::Orphan;
        } else {
            self.end(number, Outcome::Failed);
        }
    }

    /// A message leaves its lane.
    pub(super) fn unlink(&mut self, number: u16) {
        let pending = &self.pendings[usize::from(number)];
        let (next, lane) = (pending.next, usize::from(pending.lane));
        let lane = &mut self.origins.at(pending.origin).lanes[lane];
        if lane.streaming == number {
            lane.streaming = NONE;
        }
        if lane.mover == number {
            lane.mover = NONE;
        }
        let mut before = NONE;
        let mut at = lane.head;
        while at != number {
            before = at;
            at = self.pendings[usize::from(at)].next;
        }
        if before == NONE {
            lane.head = next;
        } else {
            self.pendings[usize::from(before)].next = next;
        }
        if lane.tail == number {
            lane.tail = before;
        }
    }

    /// A message is complete, or never will be.
    pub(super) fn end(&mut self, number: u16, outcome: Outcome) {
        let pending = &self.pendings[usize::from(number)];
        let (at, index) = (pending.origin, usize::from(pending.lane));
        // The sender waits to use its memory again.
        let waits = matches!(
            pending.from,
            Some(Place::Pull { .. }) | Some(Place::Gather { .. })
        );
        if let Some(token) = pending.token {
            self.finished.push_back((token, outcome));
        }
        self.unlink(number);
        self.release(number);
        self.owe(at, index);
        self.urgent |= waits;
    }
}
