//! The agent of a host: its members, and the messages between them.

use super::{INTERFACE, PIDS, QUEUES, Welcome, question};
use crate::agent::objects::{Objects, answer, code_of};
use crate::bridge::mailbox::Title;
use crate::bridge::record::{Halves, Pen, Record, Words, command};
use crate::error::Error;
use crate::library::{HEADER_BYTES, Library, Outgoing, Processes, Target, Verdict};
use crate::malformed::{Malformed, fail};
use crate::memory::{SWAP_BYTES, Segments};
use crate::types::{ANY, AckReq, Handle, Identity, Limits, NiFail, ProcessId};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that are copied at a time.
const CHUNK: usize = 256 << 10;
/// Events of a queue.
const MAX_EVENTS: u32 = 1 << 16;
/// Events for handlers that are kept for a member which takes none: messages for it are dropped then.
const KEPT: usize = 1 << 14;
/// Events that one answer has.
const SHOWN: usize = 16;

/// A member's memory.
pub trait Memory {
    /// The bytes at `address` of the member's. False: they cannot be had.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
    /// Write there. False: that cannot be done.
    fn write(&self, address: u64, bytes: &[u8]) -> bool;
}

/// Who asks to join, by the word of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The user.
    pub uid: u32,
    /// The operating system's number of the process.
    pub process: u32,
    /// What processes of one job have in common; `None`: it has none.
    pub job: Option<(u64, u64)>,
    /// The pid that it wants, or [`ANY`].
    pub pid: u32,
    /// The limits that it wants.
    pub limits: Limits,
}

/// Why somebody cannot join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What `PtlNIInit` answers.
    pub code: Error,
    /// A sentence.
    pub why: String,
    /// The agent has ended meanwhile: another one may be there.
    pub ended: bool,
}

impl Refusal {
    /// With a code and a sentence.
    pub fn new(code: Error, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
            ended: false,
        }
    }
}

/// One that has joined.
struct Seat<M> {
    who: Identity,
    job: Option<(u64, u64)>,
    process: u32,
    objects: Objects,
    memory: M,
    /// Something has happened to it that it has not been told of.
    news: bool,
}

/// A message on its way. Its body lies in its sender's memory; that of a get-put's reply, here.
struct Posted {
    from: u32,
    message: Outgoing,
    body: Option<[u8; SWAP_BYTES]>,
}

/// See the [module](super).
pub struct Hub<M> {
    seats: Vec<Option<Box<Seat<M>>>>,
    /// How often somebody has joined: handles of who was a member before, with whatever pid, are stale.
    openings: u32,
    processes: Rc<Processes>,
    posted: VecDeque<Posted>,
    bytes: Vec<u8>,
    pen: Pen,
    rung: Vec<u32>,
    /// Bytes that a member's objects may take.
    most: u64,
}

impl<M: Memory> Hub<M> {
    /// An agent without members, each of which may have so many bytes of objects.
    pub fn new(most: u64) -> Self {
        Self {
            seats: (0..PIDS).map(|_| None).collect(),
            openings: 0,
            processes: Rc::new(Processes::on_one_host(PIDS, ANY, ANY)),
            posted: VecDeque::new(),
            bytes: vec![0; CHUNK],
            pen: Pen::default(),
            rung: Vec::new(),
            most,
        }
    }

    fn seat(&mut self, pid: u32) -> Option<&mut Seat<M>> {
        self.seats.get_mut(pid as usize)?.as_deref_mut()
    }

    /// Members.
    pub fn len(&self) -> usize {
        self.seats.iter().flatten().count()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Take in a member.
    ///
    /// # Errors
    /// [`Refusal`]: the pid is another's, or can be nobody's.
    pub fn join(&mut self, wants: &Candidate, memory: M) -> Result<Welcome, Refusal> {
        let pid = self.pid_for(wants.pid)?;
        let who = Identity {
            id: ProcessId::new(0, pid),
            uid: wants.uid,
            jid: self.jid_for(wants),
        };
        self.know(pid, who.uid, who.jid);
        let opening = self.openings;
        self.openings = opening.wrapping_add(1);
        let processes = Rc::clone(&self.processes);
        let library = Library::new(INTERFACE, opening, pid, processes, Some(&wants.limits));
        let library = library.map_err(|code| Refusal::new(code, format!("pid={pid}: {code}")))?;
        let welcome = Welcome {
            identity: who,
            limits: *library.limits(),
            handle: library.handle(),
        };
        self.seats[pid as usize] = Some(Box::new(Seat {
            who,
            job: wants.job,
            process: wants.process,
            objects: Objects::new(library, 0, self.most),
            memory,
            news: false,
        }));
        Ok(welcome)
    }

    fn pid_for(&self, wanted: u32) -> Result<u32, Refusal> {
        if wanted == ANY {
            // From the end: low numbers are those that services choose.
            let free = (1..PIDS).rev().find(|pid| self.seats[*pid as usize].is_none());
            let why = || format!("all {} pids of this host's interface are in use", PIDS - 1);
            return free.ok_or_else(|| Refusal::new(Error::Fail, why()));
        }
        if wanted == 0 || wanted >= PIDS {
            let most = PIDS - 1;
            return Err(Refusal::new(
                Error::PidInvalid,
                format!("pid={wanted}: a host's interface has pids 1 to {most}; PTL_PID_ANY always fits"),
            ));
        }
        match &self.seats[wanted as usize] {
            None => Ok(wanted),
            Some(seat) => Err(Refusal::new(
                Error::PidInUse,
                format!(
                    "pid={wanted} of this host's interface is that of process {} of user {}",
                    seat.process, seat.who.uid
                ),
            )),
        }
    }

    /// The number of a job: that of its process which came first, unless another job has it.
    fn jid_for(&self, wants: &Candidate) -> u32 {
        let mut seats = self.seats.iter().flatten();
        let job = wants.job;
        if let Some(seat) = seats.find(|seat| job.is_some() && (seat.job, seat.who.uid) == (job, wants.uid)) {
            return seat.who.jid;
        }
        let mut jid = wants.process;
        while jid == ANY || self.seats.iter().flatten().any(|seat| seat.who.jid == jid) {
            jid = jid.wrapping_add(1);
        }
        jid
    }

    /// Let everybody know who has a pid: this user and job, or nobody.
    fn know(&mut self, pid: u32, uid: u32, jid: u32) {
        self.processes = Rc::new(self.processes.with(pid, uid, jid));
        for seat in self.seats.iter_mut().flatten() {
            seat.objects.library.set_processes(&self.processes);
        }
    }

    /// A member has gone, or is put out.
    pub fn leave(&mut self, pid: u32) {
        if self.seats.get_mut(pid as usize).and_then(Option::take).is_some() {
            self.know(pid, ANY, ANY);
        }
    }

    /// Members to whom something has happened since this was asked last.
    pub fn rung(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.rung)
    }

    /// Whether something has happened to a member since this was asked last.
    pub fn has_news(&mut self, pid: u32) -> bool {
        self.seat(pid).is_some_and(|seat| std::mem::take(&mut seat.news))
    }

    fn ring(&mut self, pid: u32) {
        if let Some(seat) = self.seat(pid)
            && !std::mem::replace(&mut seat.news, true)
        {
            self.rung.push(pid);
        }
    }

    /// What a member asks: a code, and what it is told.
    ///
    /// # Errors
    /// It cannot be asked. The member is to be put out.
    pub fn ask(&mut self, pid: u32, request: &[u64]) -> Result<Vec<u64>, Malformed> {
        let mut words = Words(request);
        let kind = words.next()?;
        let Some(seat) = self.seats.get_mut(pid as usize).and_then(Option::as_deref_mut) else {
            return fail!("the pid of a member", pid);
        };
        let code = match kind {
            question::TAKE => take(&mut seat.objects.library, words, &mut self.pen)?,
            question::HANDLED => handled(&mut seat.objects.library, &mut self.pen),
            _ => match u8::try_from(kind) {
                Ok(kind @ (command::PUT | command::GET | command::GET_PUT | command::PUT_HEADER)) => {
                    self.initiate(pid, kind, words)?
                }
                Ok(command::EQ_ALLOC) => {
                    let (count, handled): (u32, bool) = words.read()?;
                    let made = eq_alloc(&mut seat.objects, count, handled);
                    answer(&mut self.pen, made.map(|eq| eq.unwrap_or(Handle::EQ_NONE)))
                }
                Ok(kind) => seat.objects.call(Title { kind, aux: 0 }, words, &mut self.pen)?,
                Err(_) => return fail!("the kind of a question", kind),
            },
        };
        let mut told = Vec::with_capacity(1 + self.pen.0.len());
        told.push(u64::from(code));
        told.append(&mut self.pen.0);
        Ok(told)
    }

    /// Begin an operation, and do all that it causes.
    fn initiate(&mut self, pid: u32, kind: u8, mut words: Words) -> Result<u16, Malformed> {
        type Operation = (
            Halves<Handle, Handle>,
            Halves<AckReq, bool>,
            (u64, u64),
            Target,
            u64,
        );
        let (Halves(md, get_md), Halves(ack, part), region, target, hdr_data): Operation = words.read()?;
        self.pen.begin(());
        let Some(seat) = self.seat(pid) else {
            return Ok(code_of(Error::NiInvalid));
        };
        let library = &mut seat.objects.library;
        let part = part.then_some(region);
        let prepared = match kind {
            command::PUT => library.prepare_put(md, part, ack, &target, hdr_data),
            command::GET => library.get(md, part, &target),
            command::GET_PUT => library.prepare_get_put(get_md, md, &target, hdr_data),
            _ => library.put_header(region.1, &target, hdr_data),
        };
        let message = match prepared {
            Ok(message) => message,
            Err(error) => return Ok(code_of(error)),
        };
        library.started(message.token);
        self.post(pid, message, None);
        self.deliver();
        Ok(0)
    }

    fn post(&mut self, from: u32, message: Outgoing, body: Option<[u8; SWAP_BYTES]>) {
        self.posted.push_back(Posted { from, message, body });
    }

    fn deliver(&mut self) {
        while let Some(Posted { from, message, body }) = self.posted.pop_front() {
            let (to, token) = (message.to, message.token);
            let there = self.seat(to).is_some();
            let outcome = match there {
                true => self.hand_over(from, &message, body),
                false => NiFail::UNDELIVERABLE,
            };
            self.finish(from, token, outcome);
            if !there && let Some(seat) = self.seat(from) {
                // What it waits for will not come.
                seat.objects.library.peer_ended(to);
            }
            self.ring(from);
            self.ring(to);
        }
    }

    /// The library of `pid` hears of an end.
    fn finish(&mut self, pid: u32, token: u64, outcome: NiFail) {
        if let Some(seat) = self.seat(pid)
            && let Some(message) = seat.objects.library.finished(token, outcome)
        {
            self.post(pid, message, None);
        }
    }

    /// Give a message to the member that it is for. How it ended for its sender.
    fn hand_over(&mut self, from: u32, message: &Outgoing, own: Option<[u8; SWAP_BYTES]>) -> NiFail {
        let Outgoing { to, header, body, .. } = message;
        let to = *to;
        match self.verdict(from, to, header, body.len() as u64) {
            Verdict::Drop { answer, .. } => {
                if let Some(answer) = answer {
                    self.post(to, answer, None);
                }
                NiFail::OK
            }
            Verdict::Done => NiFail::OK,
            Verdict::Reply(reply) => {
                self.post(to, reply, None);
                NiFail::OK
            }
            Verdict::Store { token, keep, into } => {
                let (read, stored) = self.copy((from, body, own), (to, &into), keep as usize);
                self.finish(to, token, ended(read && stored));
                ended(read)
            }
            Verdict::Swap { token, keep, with } => {
                let (mut new, mut old) = ([0; SWAP_BYTES], [0; SWAP_BYTES]);
                let keep = keep as usize;
                let read = self.load(from, body, 0, &mut new[..keep]);
                let done = read
                    && self.load(to, &with, 0, &mut old[..keep])
                    && self.store(to, &with, 0, &new[..keep]);
                let swapped =
                    |seat: &mut Seat<M>| seat.objects.library.swapped(token, Segments::one(0, keep));
                match self.seat(to).filter(|_| done).and_then(swapped) {
                    Some(reply) => self.post(to, reply, Some(old)),
                    None => self.finish(to, token, NiFail::FAIL),
                }
                ended(read)
            }
        }
    }

    fn verdict(&mut self, from: u32, to: u32, header: &[u8; HEADER_BYTES], length: u64) -> Verdict {
        let Some(seat) = self.seat(to) else {
            return Verdict::Done;
        };
        let library = &mut seat.objects.library;
        if library.handled_len() >= KEPT {
            return library.incoming_without_room(from, header, length);
        }
        library.incoming(from, header, length)
    }

    /// Copy the first bytes of a message. Whether all could be read, and all be written.
    fn copy(
        &mut self,
        (from, body, own): (u32, &Segments, Option<[u8; SWAP_BYTES]>),
        (to, into): (u32, &Segments),
        len: usize,
    ) -> (bool, bool) {
        if let Some(own) = own {
            return (true, self.store(to, into, 0, &own[..len.min(SWAP_BYTES)]));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let (mut read, mut stored, mut at) = (true, true, 0);
        while at < len && read && stored {
            let part = &mut bytes[..CHUNK.min(len - at)];
            read = self.load(from, body, at, part);
            stored = read && self.store(to, into, at, part);
            at += part.len();
        }
        self.bytes = bytes;
        (read, stored)
    }

    fn load(&self, of: u32, from: &Segments, at: usize, into: &mut [u8]) -> bool {
        let Some(Some(seat)) = self.seats.get(of as usize) else {
            return false;
        };
        let mut rest = into;
        let all = from.region(at, rest.len());
        all.pieces().all(|piece| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(piece.len);
            rest = later;
            seat.memory.read(piece.address as u64, now)
        })
    }

    fn store(&self, of: u32, into: &Segments, at: usize, bytes: &[u8]) -> bool {
        let Some(Some(seat)) = self.seats.get(of as usize) else {
            return false;
        };
        let mut rest = bytes;
        let all = into.region(at, rest.len());
        all.pieces().all(|piece| {
            let (now, later) = rest.split_at(piece.len);
            rest = later;
            seat.memory.write(piece.address as u64, now)
        })
    }
}

fn ended(well: bool) -> NiFail {
    if well { NiFail::OK } else { NiFail::FAIL }
}

fn eq_alloc(objects: &mut Objects, count: u32, handled: bool) -> Result<Option<Handle>, Error> {
    if count > MAX_EVENTS {
        return Err(Error::NoSpace);
    }
    objects.may_make(0, count)?;
    objects.library.eq_alloc(count, handled)
}

/// The oldest event of the first of these queues that holds one.
fn take(library: &mut Library, mut words: Words, pen: &mut Pen) -> Result<u16, Malformed> {
    let count = words.at_most("a number of queues", QUEUES as u64)? as usize;
    let eqs: Vec<Handle> = (0..count).map(|_| words.read()).collect::<Result<_, _>>()?;
    let mut first = Err(Error::EqEmpty);
    for (which, eq) in eqs.iter().enumerate() {
        match library.eq_has_events(*eq) {
            Ok(true) if first == Err(Error::EqEmpty) => first = Ok(which),
            Ok(_) => {}
            Err(error) => {
                first = Err(error);
                break;
            }
        }
    }
    let taken = first.and_then(|which| Ok((which, library.eq_get(eqs[which])?)));
    Ok(answer(
        pen,
        taken.map(|(which, taken)| (which, taken.dropped, taken.event)),
    ))
}

/// Events that handlers are to see: how many, each with its queue.
fn handled(library: &mut Library, pen: &mut Pen) -> u16 {
    let events: Vec<_> = std::iter::from_fn(|| library.next_handled())
        .take(SHOWN)
        .collect();
    pen.begin(events.len());
    for (eq, event) in events {
        crate::bridge::Write::write(&(eq, event), pen);
    }
    0
}

impl Welcome {
    /// As an answer.
    pub fn words(&self) -> Vec<u64> {
        let Identity { id, uid, jid } = self.identity;
        let mut pen = Pen::default();
        pen.begin((0u64, id, Halves(uid, jid), self.limits, self.handle));
        pen.0
    }
}

impl Refusal {
    /// As an answer.
    pub fn words(&self) -> Vec<u64> {
        let mut pen = Pen::default();
        let text = self.why.as_bytes();
        pen.begin((u64::from(code_of(self.code)), text.len(), text));
        pen.0
    }
}

impl Candidate {
    /// What a process says that wants to join: its pid and its limits; the rest is the kernel's word.
    ///
    /// # Errors
    /// It does not ask to join, or is of another version.
    pub fn read(
        request: &[u64],
        (uid, process, job): (u32, u32, Option<(u64, u64)>),
    ) -> Result<Self, Malformed> {
        let mut words = Words(request);
        let kind = words.next()?;
        if kind != question::JOIN {
            return fail!("the kind of a first question", kind);
        }
        let version = words.next()?;
        if version != super::VERSION {
            return fail!("the version of a member", version);
        }
        let pid = u32::read(&mut words)?;
        let limits = words.read()?;
        Ok(Self {
            uid,
            process,
            job,
            pid,
            limits,
        })
    }
}
