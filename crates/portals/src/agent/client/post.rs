//! The client's end of its mailbox, and the memory that it lends the agent.

use crate::bridge::Routes;
use crate::bridge::mailbox::{
    AGENT_BYTES, CLIENT_BYTES, ClientState, Control, EVENTS, LINES, QUEUE_AT, RESULTS, RESULTS_AT, Reader,
    SLOT_BYTES, SLOTS, TOLD_AT, Title, WINDOWS_AT, Writer, lines_of, title,
};
use crate::bridge::record::{Pen, Piece, Words, Write, command, event};
use crate::malformed::{Malformed, fail};
use crate::memory::{Segment, Segments, user};
use crate::net::Channel;
use farpost_fabric::{
    Access, Counter, Fabric, FabricError, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory,
    SegmentId,
};
use std::collections::VecDeque;
use std::rc::Rc;

type LinesOf<F> = <<F as RemoteMemory>::Export as LocalMemory>::Lines;

/// What the agent may reach where bodies go through its memory: it names pieces by key, and this says whether they are.
#[derive(Default)]
struct Ledger {
    lent: Vec<(u64, Segment, bool)>,
    next: u64,
}

pub(super) struct Mailbox<F: Fabric> {
    pub fabric: Rc<F>,
    pub agent: Peer,
    import: F::Import,
    memory: F::Export,
    commands: Writer<F::Import>,
    events: Reader<LinesOf<F>>,
    results: Reader<LinesOf<F>>,
    /// Commands for which there was no room.
    waiting: VecDeque<(Title, Vec<u64>)>,
    control: Control,
    /// Messages given to the agent, by channel.
    posted: [u64; 2],
    /// Whose messages are whose.
    pub routes: Rc<Routes>,
    /// What it was told last: events taken, and requests dealt with.
    told: (u32, u64),
    /// Requests that were shown and have been answered, or need no answer.
    pub settled: u64,
    /// Which opening this is.
    pub opening: u32,
    pen: Pen,
    record: Vec<u64>,
    /// Where bodies go through the agent's memory.
    ledger: Option<Ledger>,
    /// It has taken leave.
    pub leaving: bool,
    pub ended: bool,
}

impl<F: Fabric> Mailbox<F> {
    /// A mailbox for this process's opening `opening`; `taken` command lines have been taken before.
    pub fn new(
        fabric: Rc<F>,
        routes: Rc<Routes>,
        (agent, own): (Peer, SegmentId),
        import: F::Import,
        (opening, taken): (u32, u32),
    ) -> Result<Self, FabricError> {
        // That of a former opening.
        let _ = fabric.unpublish(own);
        let only = Access::Only(vec![(agent, Permission::ReadWrite)]);
        let memory = fabric.export(own, CLIENT_BYTES, only)?;
        Ok(Self {
            commands: Writer::new(&import, QUEUE_AT, LINES, taken),
            events: Reader::new(&memory, QUEUE_AT, EVENTS),
            results: Reader::new(&memory, RESULTS_AT, RESULTS),
            import,
            memory,
            waiting: VecDeque::new(),
            control: Control::default(),
            posted: [0; 2],
            told: (0, 0),
            settled: 0,
            opening,
            pen: Pen::default(),
            record: Vec::new(),
            ledger: None,
            leaving: false,
            ended: false,
            agent,
            routes,
            fabric,
        })
    }

    /// The agent's segment for this process.
    pub fn import(fabric: &F, agent: Peer, id: SegmentId) -> Result<F::Import, FabricError> {
        fabric.import(agent, id, AGENT_BYTES, Permission::ReadWrite)
    }

    /// What the agent says about this opening.
    pub fn state(&self) -> ClientState {
        self.control.client()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.posted == self.control.sent
    }

    /// Give the agent a command.
    #[inline]
    pub fn command(&mut self, kind: u8, aux: u16, told: impl Write) {
        let title = title(kind, aux);
        let words = self.pen.begin(told);
        if self.waiting.is_empty() && self.commands.put(title, words).unwrap_or(true) {
            self.fabric.wake(self.agent);
        } else {
            self.waiting.push_back((title, words.to_vec()));
        }
    }

    /// A message for process `to` was given to the agent, for who watches.
    #[inline]
    pub fn count_given(&self, to: u32, bytes: u64) {
        let to = self.routes.process_of(to);
        self.fabric.count(to, Counter::Sent, 1);
        self.fabric.count(to, Counter::SentBytes, bytes);
    }

    /// A message of process `from` came by way of the agent, which may have said anything.
    #[inline]
    pub fn count_taken(&self, from: u32, bytes: u64) {
        let from = self.routes.process_of(from);
        if from.0 < self.fabric.processes() {
            self.fabric.count(from, Counter::Received, 1);
            self.fabric.count(from, Counter::ReceivedBytes, bytes);
        }
    }

    pub fn post_waiting(&mut self) -> bool {
        let mut moved = false;
        while let Some((title, words)) = self.waiting.front() {
            if self.commands.room() < lines_of(words.len()) {
                break;
            }
            let _ = self.commands.put(*title, words);
            self.waiting.pop_front();
            moved = true;
        }
        if moved {
            self.fabric.wake(self.agent);
        }
        moved
    }

    /// Whether one more message of a channel may be given to the agent; it is counted.
    pub fn may_send(&mut self, channel: Channel) -> bool {
        let channel = channel as usize;
        let waiting = self.posted[channel] - self.control.sent[channel].min(self.posted[channel]);
        let may = waiting < self.control.sends;
        self.posted[channel] += u64::from(may);
        may
    }

    /// See how far the agent is. True: it has moved.
    #[inline]
    pub fn look(&mut self) -> bool {
        let control = Control::of(&self.memory.load_line(0));
        if control == self.control || control.opening() != self.opening {
            return false;
        }
        self.control = control;
        self.commands.told(control.taken as u32);
        true
    }

    /// Tell the agent what has been taken and dealt with: now and then, or when there is nothing else to do.
    #[inline]
    pub fn tell(&mut self, idle: bool) {
        let taken = self.events.taken();
        let owed = taken.wrapping_sub(self.told.0);
        let settled = self.settled - self.told.1;
        if owed >= EVENTS / 8 || settled >= 16 || (idle && (owed > 0 || settled > 0)) {
            let mut line: Line = [0; 8];
            line[..3].copy_from_slice(&[u64::from(taken), self.settled, u64::from(self.opening)]);
            let _ = self
                .import
                .order()
                .and_then(|()| self.import.put_line(TOLD_AT, &line));
            self.told = (taken, self.settled);
            self.fabric.wake(self.agent);
        }
    }

    /// The next event: what it is, and its words, which [`record_back`](Self::record_back) is to be given again.
    ///
    /// # Errors
    /// The agent writes what cannot be.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<(Title, Vec<u64>)>, Malformed> {
        let mut record = std::mem::take(&mut self.record);
        match self.events.take_into(&mut record) {
            Ok(Some(title)) => Ok(Some((title, record))),
            other => {
                self.record = record;
                other.map(|_| None)
            }
        }
    }

    #[inline]
    pub fn record_back(&mut self, record: Vec<u64>) {
        self.record = record;
    }

    /// The answer to a call: its code, and its words.
    ///
    /// # Errors
    /// The agent writes what cannot be.
    pub fn next_result(&mut self) -> Result<Option<(u16, Vec<u64>)>, Malformed> {
        let taken = self.results.take()?;
        Ok(taken.map(|(title, words)| (title.aux, words.to_vec())))
    }

    /// Bodies go through the agent's memory from now on.
    pub fn carry(&mut self) {
        self.ledger = Some(Ledger::default());
    }

    pub fn is_carried(&self) -> bool {
        self.ledger.is_some()
    }

    /// Let the agent reach a piece of memory.
    pub fn expose_one(&mut self, segment: Segment, writable: bool) -> Result<Piece, FabricError> {
        let (position, key) = match &mut self.ledger {
            None => user::expose(&*self.fabric, self.agent, segment, writable)?,
            Some(ledger) => {
                ledger.next += 1;
                ledger.lent.push((ledger.next, segment, writable));
                (0, ledger.next)
            }
        };
        Ok(Piece {
            address: segment.address as u64,
            len: segment.len as u64,
            position,
            key,
        })
    }

    /// Let the agent reach memory of a descriptor's.
    pub fn expose(&mut self, memory: &Segments, writable: bool) -> Result<Vec<Piece>, FabricError> {
        memory
            .pieces()
            .map(|piece| self.expose_one(piece, writable))
            .collect()
    }

    pub fn withdraw(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match &mut self.ledger {
                Some(ledger) => ledger.lent.retain(|(key, ..)| *key != piece.key),
                None => self.fabric.withdraw(piece.key),
            }
        }
    }

    /// Move bytes between memory that was lent and a slot of the agent's, as it asks, and say so. What is not lent any more is
    /// not touched.
    ///
    /// # Errors
    /// The agent asks for what cannot be.
    pub fn carried(&mut self, title: Title, mut words: Words) -> Result<(), Malformed> {
        let slot = usize::from(title.aux & 0xff);
        let into = title.aux >> 8 == event::INTO_CLIENT;
        let (name, key, position): (u64, u64, u64) = words.read()?;
        let len = words.at_most("the length of a window", SLOT_BYTES as u64)?;
        if slot >= SLOTS {
            return fail!("the number of a window", slot);
        }
        let lent = self.ledger.as_ref().and_then(|ledger| {
            let fits = |len_: usize| position.checked_add(len).is_some_and(|end| end <= len_ as u64);
            ledger
                .lent
                .iter()
                .find(|(of, segment, writable)| *of == key && fits(segment.len) && (*writable || !into))
                .map(|(_, segment, _)| Segment::new(segment.address + position as usize, len as usize))
        });
        let at = WINDOWS_AT + slot * SLOT_BYTES;
        let done = lent.is_some_and(|memory| {
            let moved = if into {
                user::write(memory, |bytes| self.import.get(at, bytes))
            } else {
                let put = user::read(memory, |bytes| self.import.put(at, bytes));
                put.and_then(|()| self.import.order())
            };
            moved.is_ok()
        });
        self.command(command::CARRIED, title.aux, (name, done));
        Ok(())
    }

    /// Whether there is something to be taken.
    pub fn is_ready(&self) -> bool {
        self.fabric.progress();
        let control = Control::of(&self.memory.load_line(0));
        self.events.waits()
            || self.results.waits()
            || (control != self.control && control.opening() == self.opening)
    }
}
