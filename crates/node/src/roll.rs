//! The roll-call where no launcher of Farpost's watches the ranks: under other launchers, and between hosts. A rank that waits and has
//! for long looks after it now and then. On each host one speaks for all, the lowest that is in the job; rank 0 hears of the other hosts
//! when they are stuck and prints one table for all when its own is too. A launcher may ask for it through the job's memory.
//!
//! By packets of the job's own port, of low priority, in no order. What comes is another process's writing: everything in it is checked,
//! and what cannot be right is left out.
//!
//! Cost class: *queued path*, done while nothing else is to be done.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use farpost_fabric::{ErrorStatus, Fabric, PACKET_BYTES, Peer, Port, Priority, TrySend};
use farpost_job::{Job, RankState};
use farpost_rollcall::table::{self, Rank, RollState};
use farpost_rollcall::{Record, Slot};

/// Time between two looks at the ranks of this host.
const LOOKS: u64 = 200_000_000;
/// A launcher that asks is answered with what has come by then.
const ANSWERS: u64 = 800_000_000;
/// Ranks of another host that are asked for it: one that waits is enough.
const ASKED: usize = 8;
/// After a packet of ours, what moves may be its acknowledgement.
const ECHO: u64 = 1_000_000_000;

/// Bytes before the words of a packet.
const HEAD: usize = 16;
const WORDS: usize = (PACKET_BYTES - HEAD) / 8;
/// Words of a rank: its state, and its record.
const MOST: usize = farpost_rollcall::record::WORDS + 1;

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
enum What {
    /// Words of a rank's record.
    Part = 1,
    /// Of so many ranks words were sent; nobody has made progress there.
    Stuck = 2,
    /// The same, because it was asked.
    Answer = 3,
    /// Somebody has made progress there.
    Moved = 4,
    /// What do your ranks wait for?
    Ask = 5,
}

/// A packet: what, one byte nothing, two bytes place of the first word, two the words of all, two nothing, four a turn, four a
/// rank or a number of ranks, then words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    what: What,
    at: u16,
    total: u16,
    turn: u32,
    number: u32,
    words: Vec<u64>,
}

impl Packet {
    fn bare(what: What, turn: u32, number: u32) -> Self {
        Self {
            what,
            at: 0,
            total: 0,
            turn,
            number,
            words: Vec::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.what as u8, 0];
        bytes.extend(self.at.to_le_bytes());
        bytes.extend(self.total.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.turn.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// `None`: it cannot be right.
    fn of(bytes: &[u8]) -> Option<Self> {
        let (head, words) = bytes.split_at_checked(HEAD)?;
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (words, rest) = words.as_chunks::<8>();
        let packet = Self {
            what: What::from_repr(head[0])?,
            at: short(2),
            total: short(4),
            turn: long(8),
            number: long(12),
            words: words.iter().map(|word| u64::from_le_bytes(*word)).collect(),
        };
        let end = usize::from(packet.at) + packet.words.len();
        let fits = end <= usize::from(packet.total) && usize::from(packet.total) <= MOST;
        (rest.is_empty() && (fits || packet.what != What::Part)).then_some(packet)
    }
}

/// What came of a rank.
#[derive(Clone, Debug, Default)]
struct Parts {
    words: Vec<u64>,
    /// A bit a word of the packet's size.
    came: u64,
}

/// What one process said of its host.
#[derive(Clone, Debug, Default)]
struct Heard {
    turn: u32,
    ranks: BTreeMap<u32, Parts>,
    /// How many ranks will be told of, and whether they are stuck.
    all: Option<(u32, bool)>,
}

impl Heard {
    /// One packet more. Of ranks that are not on the sender's host nothing is believed.
    fn note(&mut self, packet: Packet, is_there: impl Fn(u32) -> bool) {
        if self.turn != packet.turn {
            *self = Self {
                turn: packet.turn,
                ..Self::default()
            };
        }
        match packet.what {
            What::Part => {
                if !is_there(packet.number) {
                    return;
                }
                let parts = self.ranks.entry(packet.number).or_default();
                parts.words.resize(usize::from(packet.total), 0);
                let at = usize::from(packet.at);
                parts.words[at..at + packet.words.len()].copy_from_slice(&packet.words);
                parts.came |= 1 << (at / WORDS);
            }
            What::Stuck | What::Answer => self.all = Some((packet.number, packet.what == What::Stuck)),
            What::Moved => *self = Self::default(),
            What::Ask => {}
        }
    }

    fn is_whole(&self) -> bool {
        let whole = |parts: &Parts| {
            let packets = parts.words.len().div_ceil(WORDS);
            parts.came.count_ones() as usize == packets
        };
        self.all
            .is_some_and(|(ranks, _)| self.ranks.len() == ranks as usize && self.ranks.values().all(whole))
    }
}

/// A process's part in it.
#[derive(Default)]
pub struct Roll {
    /// Nanoseconds without progress after which it is told; 0: never.
    limit: u64,
    looked: Cell<u64>,
    /// Packets that found no room yet.
    out: RefCell<VecDeque<(Peer, Packet)>>,
    /// By who said it.
    heard: RefCell<BTreeMap<u32, Heard>>,
    turn: Cell<u32>,
    /// This host's ranks were told to be stuck.
    sent: Cell<bool>,
    /// The table was printed, and nobody has made progress since.
    told: Cell<bool>,
    /// A launcher's request that is being answered: its number, and when it came.
    asked: Cell<Option<(u32, u64)>>,
    answered: Cell<u32>,
    /// Until when what moves may be our own.
    echo: Cell<u64>,
}

impl Roll {
    /// Told after so many seconds without progress.
    pub fn new(hang_after: u64) -> Self {
        Self {
            limit: Duration::from_secs(hang_after).as_nanos() as u64,
            ..Self::default()
        }
    }

    /// A rank waits, and it is `now`. True: what has moved lately may be packets of the roll-call.
    pub fn tick<F: Fabric>(&self, job: &Job, fabric: &F, now: u64) -> bool {
        self.hear(job, fabric, now);
        self.send(fabric, now);
        if now >= self.looked.get() + LOOKS {
            self.looked.set(now);
            self.look(job, fabric, now);
            self.send(fabric, now);
        }
        now < self.echo.get()
    }

    /// The ranks of this host.
    fn here<F: ErrorStatus>(job: &Job, fabric: &F, now: u64) -> Vec<Rank> {
        let host = farpost_job::host_name();
        let memory = job.memory();
        let rank = |number: u32| {
            let shown = || Rank::of_words(Slot::new(memory.notice(number)).read(), now);
            let ended = number != job.rank() && fabric.has_ended(Peer(number));
            let state = match memory.state(number) {
                RankState::Finalised => shown().or(RollState::Finalised),
                _ if ended => RollState::Ended("has ended".into()),
                // One that has opened nothing that is to be closed (RSMAPI alone) may wait all the same.
                RankState::Waiting | RankState::Started => shown().or(RollState::Starts),
                _ => shown(),
            };
            Rank {
                number,
                host: host.clone(),
                state,
                now,
            }
        };
        job.local_ranks().into_iter().map(rank).collect()
    }

    fn look<F: Fabric>(&self, job: &Job, fabric: &F, now: u64) {
        let here = Self::here(job, fabric, now);
        let is_there = |rank: &&Rank| {
            !matches!(
                rank.state,
                RollState::Starts | RollState::Finalised | RollState::Ended(_)
            )
        };
        let speaker = here.iter().find(is_there).map(|rank| rank.number);
        if speaker != Some(job.rank()) {
            return;
        }
        self.look_for_requests(job, fabric, &here, now);
        if self.limit == 0 {
            return;
        }
        let quiet = table::stuck_for(&here).filter(|quiet| *quiet >= self.limit);
        // Rank 0 hears of all. Without it each host tells of itself.
        let alone = job.hosts() == 1 || job.rank() != 0 && fabric.has_ended(Peer(0));
        if job.rank() != 0 && !alone {
            match (quiet, self.sent.replace(quiet.is_some())) {
                (Some(_), false) => self.tell(Peer(0), What::Stuck, &here, now),
                (None, true) => {
                    let packet = Packet::bare(What::Moved, self.next_turn(), 0);
                    self.out.borrow_mut().push_back((Peer(0), packet));
                }
                _ => {}
            }
            return;
        }
        let own = job.host_of(job.rank());
        let all = alone || (0..job.hosts()).all(|host| host == own || self.is_whole(job, host, true));
        let Some(quiet) = quiet.filter(|_| all) else {
            self.told.set(false);
            return;
        };
        if !self.told.replace(true) {
            let ranks = self.everybody(job, here, !alone, now);
            let least = table::stuck_for(&ranks).unwrap_or(quiet);
            let heading = format!(
                "no rank has made progress for {}; the job goes on waiting. What the ranks wait for:",
                table::age(least)
            );
            say(&heading, &ranks);
        }
    }

    /// A launcher that has asked through this host's memory is given what all hosts say.
    fn look_for_requests<F: Fabric>(&self, job: &Job, fabric: &F, here: &[Rank], now: u64) {
        let number = job.memory().roll_asked();
        if number != self.answered.get() && self.asked.get().is_none() {
            self.asked.set(Some((number, now)));
            let own = job.host_of(job.rank());
            let turn = self.next_turn();
            let mut heard = self.heard.borrow_mut();
            for host in (0..job.hosts()).filter(|host| *host != own) {
                // What it said of itself when it was stuck may be old.
                heard.retain(|from, heard| {
                    job.host_of(*from) != host || heard.all.is_some_and(|(_, stuck)| stuck)
                });
                let ranks = (0..job.size()).filter(|rank| job.host_of(*rank) == host);
                for rank in ranks.take(ASKED) {
                    let packet = Packet::bare(What::Ask, turn, 0);
                    self.out.borrow_mut().push_back((Peer(rank), packet));
                }
            }
        }
        let Some((number, since)) = self.asked.get() else {
            return;
        };
        self.send(fabric, now);
        let own = job.host_of(job.rank());
        let whole = (0..job.hosts()).all(|host| host == own || self.is_whole(job, host, false));
        if whole || now >= since + ANSWERS {
            let ranks = self.everybody(job, here.to_vec(), true, now);
            say("what the ranks were waiting for:", &ranks);
            self.asked.set(None);
            self.answered.set(number);
            job.memory().give_roll(number);
        }
    }

    /// Whether all was heard of a host, and that nobody makes progress there, if that is asked.
    fn is_whole(&self, job: &Job, host: u32, stuck: bool) -> bool {
        self.heard.borrow().iter().any(|(from, heard)| {
            job.host_of(*from) == host
                && heard.is_whole()
                && (!stuck || heard.all.is_some_and(|(_, stuck)| stuck))
        })
    }

    /// This host's ranks and what was heard of others.
    fn everybody(&self, job: &Job, here: Vec<Rank>, others: bool, now: u64) -> Vec<Rank> {
        let mut ranks: BTreeMap<u32, Rank> = here.into_iter().map(|rank| (rank.number, rank)).collect();
        if others {
            let heard = self.heard.borrow();
            for number in (0..job.size()).filter(|rank| !job.is_local(*rank)) {
                let host = job.host_of(number);
                let parts = heard
                    .iter()
                    .filter(|(from, heard)| job.host_of(**from) == host && heard.is_whole())
                    .find_map(|(_, heard)| heard.ranks.get(&number));
                let state = parts.map_or(RollState::Elsewhere, |parts| unpacked(&parts.words, now));
                let host = job
                    .host_name_of(number)
                    .unwrap_or_else(|_| format!("host {host}"));
                let rank = Rank {
                    number,
                    host,
                    state,
                    now,
                };
                ranks.insert(number, rank);
            }
        }
        ranks.into_values().collect()
    }

    fn next_turn(&self) -> u32 {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        turn
    }

    /// Tell `to` what this host's ranks wait for.
    fn tell(&self, to: Peer, what: What, here: &[Rank], now: u64) {
        let turn = self.next_turn();
        let mut out = self.out.borrow_mut();
        for rank in here {
            out.extend(parts(rank, turn, now).into_iter().map(|packet| (to, packet)));
        }
        out.push_back((to, Packet::bare(what, turn, here.len() as u32)));
    }

    fn send<F: Fabric>(&self, fabric: &F, now: u64) {
        let mut out = self.out.borrow_mut();
        while let Some((to, packet)) = out.front() {
            let gone = fabric.has_ended(*to);
            if !gone && fabric.try_send(*to, Port::Job, Priority::Low, &packet.bytes()) == TrySend::Full {
                break;
            }
            fabric.wake(*to);
            self.echo.set(now + ECHO);
            out.pop_front();
        }
    }

    fn hear<F: Fabric>(&self, job: &Job, fabric: &F, now: u64) {
        let mut asked = Vec::new();
        while fabric.poll_priority(Port::Job, Priority::Low, |from, bytes| {
            self.echo.set(now + ECHO);
            let Some(packet) = Packet::of(bytes) else { return };
            if from.0 >= job.size() {
                return;
            }
            match packet.what {
                What::Ask => asked.push(from),
                _ => self.note(job, from, packet),
            }
        }) {}
        asked.dedup();
        if let Some(from) = asked.first() {
            let here = Self::here(job, fabric, now);
            self.tell(*from, What::Answer, &here, now);
        }
    }

    fn note(&self, job: &Job, from: Peer, packet: Packet) {
        let host = job.host_of(from.0);
        let mut all = self.heard.borrow_mut();
        if matches!(packet.what, What::Stuck | What::Moved) {
            // Another rank may have spoken for the host before.
            all.retain(|other, _| *other == from.0 || job.host_of(*other) != host);
        }
        let is_there = |rank: u32| rank < job.size() && job.host_of(rank) == host;
        all.entry(from.0).or_default().note(packet, is_there);
    }
}

/// What a rank does, in packets.
fn parts(rank: &Rank, turn: u32, now: u64) -> Vec<Packet> {
    let words = packed(&rank.state, now);
    let part = |(at, part): (usize, &[u64])| Packet {
        at: (at * WORDS) as u16,
        total: words.len() as u16,
        words: part.to_vec(),
        ..Packet::bare(What::Part, turn, rank.number)
    };
    words.chunks(WORDS).enumerate().map(part).collect()
}

/// A state as words that mean the same at other times and on other hosts.
fn packed(state: &RollState, now: u64) -> Vec<u64> {
    match state {
        RollState::Waits(record) => {
            let mut record = record.clone();
            record.since = now.saturating_sub(record.since);
            record.quiet = now.saturating_sub(record.quiet);
            record.until = 0;
            let mut words = vec![0];
            words.extend(record.encode());
            words
        }
        RollState::Computes => vec![1],
        RollState::Starts => vec![2],
        RollState::Finalised => vec![3],
        RollState::Ended(_) => vec![4],
        RollState::Damaged(_) | RollState::Elsewhere => vec![5],
    }
}

fn unpacked(words: &[u64], now: u64) -> RollState {
    match words {
        [0, words @ ..] => match Record::decode(words) {
            Ok(mut record) => {
                record.since = now.saturating_sub(record.since);
                record.quiet = now.saturating_sub(record.quiet);
                RollState::Waits(record)
            }
            Err(why) => RollState::Damaged(why),
        },
        [1] => RollState::Computes,
        [2] => RollState::Starts,
        [3] => RollState::Finalised,
        [4] => RollState::Ended("has ended".into()),
        _ => RollState::Damaged("as its host says"),
    }
}

/// In one piece: others may be writing to the same place.
fn say(heading: &str, ranks: &[Rank]) {
    if let Some(text) = table::table(ranks) {
        let text = format!("farpost: {heading}\n{text}");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }
}

#[cfg(fuzzing)]
pub mod fuzzing {
    //! For the fuzz targets: what one process says of its host, without a job.

    use super::*;

    #[derive(Default)]
    pub struct Hearing(Heard);

    impl Hearing {
        /// A packet came from a host with these ranks.
        pub fn packet(&mut self, bytes: &[u8], ranks: u32) {
            if let Some(packet) = Packet::of(bytes) {
                assert_eq!(Packet::of(&packet.bytes()), Some(packet.clone()));
                self.0.note(packet, |rank| rank < ranks);
            }
        }

        /// Its ranks, if all was heard of them.
        pub fn ranks(&self, now: u64) -> Option<Vec<(u32, RollState)>> {
            let ranks = self.0.ranks.iter();
            self.0.is_whole().then(|| {
                ranks
                    .map(|(number, parts)| (*number, unpacked(&parts.words, now)))
                    .collect()
            })
        }
    }

    /// What a host says whose ranks are these.
    pub fn packets(ranks: &[Rank], turn: u32, now: u64) -> Vec<Vec<u8>> {
        let all = ranks.iter().flat_map(|rank| parts(rank, turn, now));
        let end = Packet::bare(What::Stuck, turn, ranks.len() as u32);
        all.chain([end]).map(|packet| packet.bytes()).collect()
    }
}
