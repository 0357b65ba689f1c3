//! What processes ask, and the answers.

use super::polling::{self, Called};
use super::{Connection, Coordinator, Said, Watch};
use crate::adapter::Pair;
use crate::calls::Reached;
use crate::memory::{Memory, OwnProcess};
use crate::time::Ps;
use farpost_fabric::{
    Access, Descriptor, Direction, FabricError, Grant, LANES, PacketQueue, Peer, Result, Route, SegmentId,
    TrySend,
};
use farpost_simlink::client::ProcessEnd;
use farpost_simlink::link::OpId;
use farpost_simlink::wire::{
    Answer, Ask, Bytes, Question, Reply, VERSION, Welcome, WireError, pack, permission_of, unpack, writes,
};
use std::time::Duration;

/// Bytes that are kept for answers to a process.
const KEPT: usize = 256;

/// A process's place at the machine.
#[derive(Default)]
pub(super) struct Seat {
    pub connection: Option<Box<dyn Connection>>,
    /// What it has to be answered when it has a turn.
    pub waiting: Option<Waiting>,
    /// Its program has called since it last waited: it does not only wait.
    pub calls: bool,
    called: Called,
    /// Segments that it has imported.
    imported: Vec<(Reached, Grant)>,
    /// The last answer, as it went.
    answer: Vec<u8>,
}

impl Seat {
    /// What its process has called, if it has not ended.
    fn there(&self) -> Option<&Called> {
        self.connection.as_ref().map(|_| &self.called)
    }
}

/// A question that has to wait for its process's turn; time that was spent is spent.
pub(super) enum Waiting {
    /// Its first turn.
    First,
    /// It slept.
    Slept,
    /// The question, as it came.
    Asked(Vec<u8>),
}

/// How a turn ended.
pub(super) enum Done {
    /// It waits for another one.
    Waits,
    Ended,
    Gone(String),
    /// It says nothing.
    Late,
}

/// What is to be done with a question.
enum Next {
    Answer(Reply),
    /// First others have turns.
    Later,
    Sleeps(Ps, Ps),
    Rests,
    Leaves,
}

impl<W: Watch> Coordinator<W> {
    /// A process has connected: it says first who it is. Whoever says something else is turned away.
    pub(super) fn seat(&mut self, mut connection: Box<dyn Connection>) {
        let Said::Something(bytes) = connection.hear(Duration::from_secs(5)) else {
            return;
        };
        let size = self.core.kernel.procs.size();
        let refusal = match unpack::<Question<'_>>(&bytes) {
            Ok(Question {
                ask:
                    Ask::Hello {
                        version: VERSION,
                        rank,
                        size: theirs,
                    },
                ..
            }) if theirs == size && rank < size => {
                let seat = &mut self.seats[rank as usize];
                if seat.connection.is_none() {
                    self.core.kernel.procs.of_mut(Peer(rank)).own = Some(connection.process());
                    seat.connection = Some(connection);
                    seat.waiting = Some(Waiting::First);
                    return;
                }
                format!("process {rank} is there already")
            }
            Ok(Question {
                ask:
                    Ask::Hello {
                        version,
                        size: theirs,
                        ..
                    },
                ..
            }) if version == VERSION => {
                format!(
                    "the job has {theirs} processes, the simulated machine {size}; start it by farpost sim"
                )
            }
            _ => format!(
                "not the first words of version {VERSION}; program and farpost sim are of different versions"
            ),
        };
        let mut bytes = Vec::new();
        let error = WireError::Unsupported(0, "joining the simulation".into(), refusal);
        let answer = Answer {
            clock: 0,
            horizon: 0,
            touched: false,
            faulted: false,
            dead: 0,
            reply: Reply::Failed(error),
        };
        pack(&answer, &mut bytes);
        connection.tell(&bytes);
    }

    /// A question has come: the time that it says was spent is spent. None: it is one without an answer.
    pub(super) fn take_in(&mut self, rank: u32, bytes: &[u8]) -> Result<Option<Waiting>, String> {
        let question: Question<'_> = unpack(bytes).map_err(|_| "what it said is no question".to_owned())?;
        self.core.spend(Peer(rank), Ps(question.spent));
        let seat = &mut self.seats[rank as usize];
        seat.calls |= question.polls > 0;
        self.polling.hear(&mut seat.called, question.polls, question.call);
        Ok((!matches!(question.ask, Ask::Back)).then(|| Waiting::Asked(bytes.to_vec())))
    }

    /// Answer, or say why not yet. None: it goes on.
    pub(super) fn answer(&mut self, rank: u32, waiting: Waiting) -> Option<Done> {
        let bytes = match waiting {
            Waiting::First => {
                let welcome = self.welcome(rank);
                return self.tell(rank, Reply::Welcome(Box::new(welcome)));
            }
            Waiting::Slept => return self.tell(rank, Reply::Done),
            Waiting::Asked(bytes) => bytes,
        };
        let Ok(question) = unpack::<Question<'_>>(&bytes) else {
            return Some(Done::Gone("what it said is no question".into()));
        };
        let only_looks = polling::only_looks(&question.ask);
        let next = match self.carry_out(rank, question.ask) {
            Ok(next) => next,
            Err(error) => Next::Answer(Reply::Failed(error.into())),
        };
        let found = matches!(&next, Next::Answer(reply) if polling::found(reply));
        if self.polling.lasts(&self.core, found || !only_looks) && self.away.is_empty() {
            self.tell_of_polls();
        }
        match next {
            Next::Answer(reply) => self.tell(rank, reply),
            Next::Later => {
                self.core.kernel.procs.schedule.give_way();
                self.seats[rank as usize].waiting = Some(Waiting::Asked(bytes));
                Some(Done::Waits)
            }
            Next::Sleeps(period, deadline) => {
                self.core.kernel.procs.schedule.sleep(period, deadline);
                self.seats[rank as usize].waiting = Some(Waiting::Slept);
                Some(Done::Waits)
            }
            Next::Rests => {
                self.core.kernel.procs.schedule.rest();
                self.seats[rank as usize].waiting = Some(Waiting::Slept);
                self.resting.push(rank);
                Some(Done::Waits)
            }
            Next::Leaves => {
                self.tell(rank, Reply::Done);
                if let Some(connection) = self.seats[rank as usize].connection.take() {
                    connection.let_go();
                }
                Some(Done::Ended)
            }
        }
    }

    #[cold]
    fn tell_of_polls(&mut self) {
        let processes = (0..).zip(&self.seats);
        let there = processes.filter_map(|(rank, seat)| Some((rank, seat.there()?)));
        self.watch.say(&self.polling.sentence(there));
    }

    fn tell(&mut self, rank: u32, reply: Reply) -> Option<Done> {
        let horizon = self.core.horizon();
        let procs = &mut self.core.kernel.procs;
        let answer = Answer {
            clock: procs.schedule.clock(rank).0,
            horizon: horizon.0,
            touched: procs.schedule.take_touched(rank),
            faulted: procs.has_faults(Peer(rank)),
            dead: procs.deaths(),
            reply,
        };
        let seat = &mut self.seats[rank as usize];
        pack(&answer, &mut seat.answer);
        let told = match &mut seat.connection {
            Some(connection) => connection.tell(&seat.answer),
            None => false,
        };
        // The first answer is by far the longest.
        seat.answer.shrink_to(KEPT);
        (!told).then(|| Done::Gone("its process has ended".into()))
    }

    fn welcome(&mut self, rank: u32) -> Welcome {
        let me = Peer(rank);
        let procs = &self.core.kernel.procs;
        let host_of: Vec<u32> = (0..procs.size())
            .map(|peer| procs.host_of(Peer(peer)).0)
            .collect();
        let host = procs.host_of(me);
        let slow = procs.schedule.slow(rank);
        let near = self.core.local().0.transfers();
        let far = self.core.adapter_of(host).0.transfers();
        Welcome {
            machine: self.settings.machine.clone(),
            host_of,
            rails: self.core.kernel.rails(),
            costs: self.core.costs.slower(slow),
            slow,
            transfers: [near, far],
            tick: self.settings.tick.times(slow).0,
            patience: self.settings.patience.as_nanos() as u64,
            compute: self.settings.compute,
            calls: self.settings.calls,
        }
    }

    /// The process of this number.
    fn peer(&self, peer: u32) -> Result<Peer> {
        let peer = Peer(peer);
        peer.check(self.core.kernel.procs.size())?;
        Ok(peer)
    }

    fn imported(&self, rank: u32, handle: u32) -> Result<(Reached, Grant)> {
        let imported = &self.seats[rank as usize].imported;
        let found = imported.get(handle as usize).cloned();
        found.ok_or_else(|| FabricError::corrupt(Peer(rank), "the number of an import", handle))
    }

    /// By which the memory of a process that asks is reached.
    fn process(&self, rank: u32) -> Result<&OwnProcess> {
        let own = self.core.kernel.procs.of(Peer(rank)).own.as_ref();
        own.ok_or_else(|| {
            FabricError::corrupt(Peer(rank), "a question of a process that has not joined", 0_u32)
        })
    }

    fn carry_out(&mut self, rank: u32, ask: Ask<'_>) -> Result<Next> {
        let me = Peer(rank);
        match ask {
            Ask::Sleep { period, deadline } => return Ok(Next::Sleeps(Ps(period), Ps(deadline))),
            Ask::Rest => return Ok(Next::Rests),
            Ask::Leave => {
                let now = self.core.kernel.procs.schedule.clock(rank);
                self.core.call_ends(me, now);
                return Ok(Next::Leaves);
            }
            Ask::Random => return Ok(Next::Answer(Reply::Number(self.core.kernel.chance.u64(..)))),
            Ask::Hello { .. } => return Err(FabricError::corrupt(me, "a question", 0_u32)),
            Ask::Call {
                name,
                ended,
                computed,
            } => {
                self.core.call_ends(me, Ps(ended));
                self.core.compute(me, Ps(computed));
                let now = self.core.kernel.procs.schedule.clock(rank);
                self.core.call_begins(me, name, now);
                return Ok(Next::Answer(Reply::Done));
            }
            _ => {}
        }
        if !self.core.catch_up(me) {
            return Ok(Next::Later);
        }
        let lane_of = |lane: u8| match usize::from(lane) {
            lane if lane < LANES => Ok(lane),
            lane => Err(FabricError::corrupt(me, "the number of a queue", lane as u64)),
        };
        let to = |to: Peer| Pair { from: me, to };
        let op = |op: OpId| Reply::Number(op.0 as u64);
        let reply = match ask {
            Ask::TrySend {
                peer,
                lane,
                route,
                bytes,
            } => {
                let (peer, lane) = (self.peer(peer)?, lane_of(lane)?);
                if bytes.len() > ProcessEnd::PACKET_BYTES {
                    return Err(FabricError::corrupt(me, "a packet's length", bytes.len() as u64));
                }
                let route = route.map_or(Route::Random, Route::Fixed);
                Reply::Yes(self.core.try_send(to(peer), lane, route, bytes) == TrySend::Sent)
            }
            Ask::Poll { lane } => {
                let found = self.core.poll(me, lane_of(lane)?);
                Reply::Packet(found.map(|packet| (packet.from.0, packet.bytes)))
            }
            Ask::Waiting { lane, limit } => {
                Reply::Number(self.core.waiting(me, lane_of(lane)?, limit).into())
            }
            Ask::Publish {
                id,
                address,
                len,
                access,
            } => {
                let memory = Memory::there(self.process(rank)?, address as usize, len as usize);
                let procs = &mut self.core.kernel.procs;
                procs.publish(me, SegmentId(id), &memory, Access::from(access))?;
                Reply::Done
            }
            Ask::Republish { id, access } => {
                let procs = &mut self.core.kernel.procs;
                procs.republish(me, SegmentId(id), Access::from(access))?;
                Reply::Done
            }
            Ask::Unpublish { id } => {
                self.core.kernel.procs.unpublish(me, SegmentId(id))?;
                Reply::Done
            }
            Ask::Import {
                peer,
                id,
                writes: w,
                len,
            } => {
                let peer = self.peer(peer)?;
                let wanted = (permission_of(w), len as usize);
                let (reached, grant) = self.core.import(to(peer), SegmentId(id), wanted)?;
                let imported = &mut self.seats[rank as usize].imported;
                imported.push((reached, grant));
                Reply::Imported {
                    handle: imported.len() as u32 - 1,
                    len: grant.len as u64,
                    writes: writes(grant.permission),
                }
            }
            Ask::Put {
                to,
                offset,
                whole,
                bytes,
            } => {
                let (reached, grant) = self.imported(rank, to)?;
                let len = match &bytes {
                    Bytes::With(bytes) => bytes.len(),
                    Bytes::At { len, .. } => *len as usize,
                };
                grant.check_write(offset as usize, len)?;
                let fetched;
                let bytes = match bytes {
                    Bytes::With(bytes) => bytes,
                    Bytes::At { address, len } => {
                        let mut from = vec![0; len as usize];
                        self.process(rank)?
                            .read(address as usize, &mut from)
                            .map_err(|e| FabricError::os_error("read what is put", &e))?;
                        fetched = from;
                        &fetched
                    }
                };
                self.core.put(&reached, offset as usize, bytes, whole)?;
                Reply::Done
            }
            Ask::Get { from, offset, len } => {
                let (reached, grant) = self.imported(rank, from)?;
                grant.check(offset as usize, len as usize)?;
                op(self.core.get(&reached, offset as usize, len as usize)?)
            }
            Ask::Fence { of } => {
                let (reached, _) = self.imported(rank, of)?;
                op(self.core.fence(&reached)?)
            }
            Ask::Fenced { of } => {
                let (reached, _) = self.imported(rank, of)?;
                self.core.fenced(&reached)?;
                Reply::Done
            }
            Ask::Expose { peer, address, len } => {
                let peer = self.peer(peer)?;
                Reply::Number(self.core.expose(to(peer), address as usize, len as usize))
            }
            Ask::Withdraw { key } => {
                self.core.withdraw(me, key);
                Reply::Done
            }
            Ask::Transfer {
                peer,
                reads,
                local,
                remote,
                key,
                len,
            } => {
                let descriptor = Descriptor {
                    peer: self.peer(peer)?,
                    direction: if reads { Direction::Get } else { Direction::Put },
                    local: local as usize,
                    remote: remote as usize,
                    key,
                    len: len as usize,
                };
                op(self.core.transfer(me, &descriptor)?)
            }
            Ask::Ended { op, address, len } => {
                let ended = self.core.kernel.procs.ended(OpId(op as usize));
                let process = self.process(rank)?;
                let land = |bytes: Vec<u8>| {
                    if bytes.len() as u64 != len {
                        return Err(FabricError::corrupt(me, "the length of a read", len));
                    }
                    process
                        .write(address as usize, &bytes)
                        .map_err(|e| FabricError::os_error("write what was read", &e))
                };
                let landed = ended.map(|result| result.and_then(land));
                Reply::Ended(landed.map(|result| result.map_err(WireError::from)))
            }
            Ask::TakeFaults => {
                let procs = &mut self.core.kernel.procs;
                let (faults, more) = procs.take_faults(me);
                let first = faults.into_iter().map(|f| (f.peer.0, f.error.into())).collect();
                let dead = (0..procs.size()).filter(|peer| procs.of(Peer(*peer)).dead.is_some());
                Reply::Faults {
                    first,
                    more,
                    dead: dead.collect(),
                }
            }
            // Those of before, and what has no answer.
            _ => Reply::Done,
        };
        Ok(Next::Answer(reply))
    }
}
