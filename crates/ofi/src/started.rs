//! Puts to segments and gets from them that go on after the call that began them.
//!
//! A put is messages, as ever, and a fence behind them that nobody waits for. A short get is questions, as many as messages it takes, a long
//! one `fi_read`, which begins when the answer with position and key arrives. Any number may be under way at once.
//!
//! Cost class: *queued path*.

use super::core::Inner;
use super::link::Link;
use super::read::READ_FROM;
use super::under_way::{OfSegment, Stage, Transfer};
use super::wire::{control, outcome};
use farpost_fabric::{Completion, Descriptor, Direction, FabricError, Result, Ticket, TransferMemory};
use std::rc::Rc;

impl Inner {
    /// Ask without waiting: the answer is for transfer `of`.
    fn question(&self, link: &Rc<Link>, what: u8, words: &[u64], (of, from, len): (u64, usize, usize)) {
        let number = self.answers.next.get() + 1;
        self.answers.next.set(number);
        self.started
            .questions
            .borrow_mut()
            .insert(number, (of, from, len));
        let mut all = [number, 0, 0, 0];
        all[1..=words.len()].copy_from_slice(words);
        self.control(link, what, 0, &all[..=words.len()]);
    }

    fn begin(&self, segment: &OfSegment, offset: usize, memory: &TransferMemory, stage: Stage) -> u64 {
        let number = self.answers.next.get() + 1;
        self.answers.next.set(number);
        let transfer = Transfer {
            segment: segment.clone(),
            offset,
            memory: memory.clone(),
            stage,
        };
        self.started.all.borrow_mut().insert(number, transfer);
        number
    }

    /// Behind a put: whether it has arrived in the segment whose withdrawal had been `told` so often before it was imported.
    pub fn start_fence(&self, segment: &OfSegment, told: u64, memory: &TransferMemory) -> Completion {
        let number = self.begin(segment, 0, memory, Stage::Fenced(told));
        self.question(&segment.link, control::FENCE, &[], (number, 0, 0));
        Completion::Pending(Ticket(number))
    }

    pub fn start_get(&self, segment: &OfSegment, offset: usize, to: &TransferMemory) -> Completion {
        let (link, len) = (&segment.link, to.len());
        if len >= READ_FROM {
            let number = self.begin(segment, offset, to, Stage::Readable);
            let words = [u64::from(segment.handle), offset as u64, len as u64];
            self.question(link, control::READ, &words, (number, 0, 0));
            return Completion::Pending(Ticket(number));
        }
        let number = self.begin(segment, offset, to, Stage::Parts(0));
        self.ask_for_parts(number, segment, offset, len);
        Completion::Pending(Ticket(number))
    }

    fn ask_for_parts(&self, number: u64, segment: &OfSegment, offset: usize, len: usize) {
        let most = segment.link.get_limit();
        self.set_stage(number, Stage::Parts(len.div_ceil(most)));
        for from in (0..len).step_by(most) {
            let part = most.min(len - from);
            let words = [u64::from(segment.handle), (offset + from) as u64, part as u64];
            self.question(&segment.link, control::GET, &words, (number, from, part));
        }
    }

    fn set_stage(&self, number: u64, stage: Stage) {
        if let Some(transfer) = self.started.all.borrow_mut().get_mut(&number) {
            transfer.stage = stage;
        }
    }

    /// An answer came. False: to no question of these.
    pub fn answered_started(&self, link: &Rc<Link>, words: &[u64], bytes: &[u8]) -> bool {
        let Some((number, from, len)) = self.started.questions.borrow_mut().remove(&words[0]) else {
            return false;
        };
        let mut all = self.started.all.borrow_mut();
        let Some(transfer) = all.get_mut(&number) else {
            // Given up; the peer still holds its memory for it.
            if let [_, outcome::YES, _, key] = *words {
                drop(all);
                self.control(link, control::WAS_READ, 0, &[key]);
            }
            return true;
        };
        let peer = transfer.segment.link.peer;
        let refused = || Err(FabricError::not_published(peer, transfer.segment.id));
        match transfer.stage {
            Stage::Fenced(told) => {
                let segment = transfer.segment.clone();
                let withdrawn = segment.link.withdrawals(segment.id.0) != told;
                if !withdrawn {
                    transfer.stage = Stage::Over(Ok(()));
                    return true;
                }
                // Whether it was this publication of the segment says a get of its first byte.
                transfer.stage = Stage::Parts(1);
                drop(all);
                let words = [u64::from(segment.handle), 0, 0];
                self.question(&segment.link, control::GET, &words, (number, 0, 0));
            }
            Stage::Parts(left) => {
                transfer.stage = if words[1] != outcome::YES {
                    Stage::Over(refused())
                } else if bytes.len() != len {
                    let what = "the length of an answer to a get";
                    Stage::Over(Err(FabricError::corrupt(peer, what, bytes.len() as u64)))
                } else {
                    if len > 0 {
                        // SAFETY: the memory of this get, in which nobody else writes; `from` and `len` are a part of it.
                        let memory = unsafe { transfer.memory.bytes_mut() };
                        memory[from..from + len].copy_from_slice(bytes);
                    }
                    match left {
                        1 => Stage::Over(Ok(())),
                        _ => Stage::Parts(left - 1),
                    }
                };
            }
            Stage::Readable => match words[1] {
                outcome::YES => {
                    let descriptor = Descriptor {
                        peer,
                        direction: Direction::Get,
                        local: transfer.memory.address(),
                        remote: words[2] as usize,
                        key: words[3],
                        len: transfer.memory.len(),
                    };
                    // SAFETY: the memory is kept until the transfer is over, and given up before it is dropped.
                    transfer.stage = match unsafe { self.submit(&descriptor) } {
                        Ok(Completion::Pending(ticket)) => Stage::Read(ticket, words[3]),
                        Ok(Completion::Done) => Stage::Over(Ok(())),
                        Err(error) => Stage::Over(Err(error)),
                    };
                    if let Stage::Over(_) = transfer.stage {
                        drop(all);
                        self.control(link, control::WAS_READ, 0, &[words[3]]);
                    }
                }
                outcome::CANNOT => {
                    let (segment, offset) = (transfer.segment.clone(), transfer.offset);
                    let len = transfer.memory.len();
                    drop(all);
                    self.ask_for_parts(number, &segment, offset, len);
                }
                _ => transfer.stage = Stage::Over(refused()),
            },
            Stage::Read(..) | Stage::Over(_) => {}
        }
        true
    }

    pub fn poll_started(&self, ticket: Ticket) -> Result<bool> {
        if let Some(over) = self.look_started(ticket.0) {
            return over.map(|()| true);
        }
        self.progress();
        match self.look_started(ticket.0) {
            Some(over) => over.map(|()| true),
            None => Ok(false),
        }
    }

    /// What became of a transfer, which is forgotten then. None: it is under way.
    fn look_started(&self, number: u64) -> Option<Result<()>> {
        let (link, reads) = match self.started.all.borrow_mut().get_mut(&number) {
            None => return Some(Ok(())),
            Some(transfer) => {
                let reads = match transfer.stage {
                    Stage::Read(ticket, key) => Some((ticket, key)),
                    _ => None,
                };
                (Rc::clone(&transfer.segment.link), reads)
            }
        };
        if let Some((ticket, key)) = reads {
            let over = self.bulk.poll(ticket.0);
            if !matches!(over, Ok(false)) {
                if !link.is_dead() {
                    self.control(&link, control::WAS_READ, 0, &[key]);
                }
                self.set_stage(number, Stage::Over(over.map(drop)));
            }
        }
        let mut all = self.started.all.borrow_mut();
        if let Some(Transfer {
            stage: Stage::Over(_),
            ..
        }) = all.get(&number)
            && let Some(Transfer {
                stage: Stage::Over(over),
                ..
            }) = all.remove(&number)
        {
            return Some(over);
        }
        drop(all);
        if let Err(error) = self.check_alive(&link) {
            self.cancel_started(Ticket(number));
            return Some(Err(error));
        }
        None
    }

    /// Give a transfer up. Its memory is not touched after this.
    pub fn cancel_started(&self, ticket: Ticket) {
        let gone = self.started.all.borrow_mut().remove(&ticket.0);
        let Some(gone) = gone else { return };
        if gone.segment.link.is_dead() {
            // No answers come.
            let mut questions = self.started.questions.borrow_mut();
            questions.retain(|_, (of, ..)| *of != ticket.0);
        }
        if let Stage::Read(read, key) = gone.stage {
            self.cancel(read);
            if !gone.segment.link.is_dead() {
                self.control(&gone.segment.link, control::WAS_READ, 0, &[key]);
            }
        }
    }
}
