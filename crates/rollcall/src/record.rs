//! What a waiting process says of its wait, as words for others to read.

use crate::encoding::{Reader, Writer};

/// What the first word of a record begins with: the version of this form.
const MAGIC: u64 = 0x6c6c_6f72_0000_0001;
/// Longest name of a function or a communicator, in bytes.
const NAME: usize = 40;
/// Most of each list that a record holds.
const WANTS: usize = 8;
const NEARS: usize = 3;
const COLLECTIVES: usize = 4;
const RANGES: usize = 24;
/// Most words of a record.
pub const WORDS: usize = 254;

/// In which way a process makes no headway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// In a call that blocks.
    #[default]
    Waits,
    /// In many calls that return at once and have found nothing.
    Polls,
}

/// What is wanted, of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum WaitKind {
    /// A message to come.
    Receive = 0,
    /// The rest of a message that has matched.
    Rest = 1,
    /// The receive for a message that is offered.
    Send = 2,
    /// Room in the queue to the receiver.
    Room = 3,
    /// Buffer space at the receiver.
    Space = 4,
    /// The receive for a message that has left, in synchronous mode, or the receiver's word that it has all.
    Taken = 5,
    /// A message to be probed.
    Probe = 6,
    /// Its part in a collective.
    Part = 7,
    /// The program, which is to complete a generalized request.
    Program = 8,
    /// Something else of a process.
    Other = 9,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Communicator {
    /// Its name, maybe empty.
    pub name: String,
    /// Its number, the same at all its processes.
    pub context: u64,
}

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub kind: WaitKind,
    /// The process of the job that it is wanted of; `None`: any.
    pub peer: Option<u32>,
    /// That process's rank in the communicator.
    pub rank: u32,
    /// `None`: any, or there is none.
    pub tag: Option<i32>,
    /// Size of the message, or of the room for it.
    pub bytes: u64,
    pub communicator: Communicator,
}

/// Why an unmatched message does not fit what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum Mismatch {
    Tag = 0,
    Source = 1,
    Communicator = 2,
    /// It fits, and was not matched yet.
    Fits = 3,
}

/// Messages that lie unmatched and nearly fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    pub why: Mismatch,
    /// The process that sent them.
    pub peer: u32,
    pub tag: i32,
    /// Of the first.
    pub bytes: u64,
    pub count: u32,
    pub communicator: Communicator,
}

/// A collective that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collective {
    pub communicator: Communicator,
    /// The function that began it.
    pub function: String,
    /// Processes of the job that take part: first and number. Not all where there are very many pieces.
    pub members: Vec<(u32, u32)>,
}

/// What a process waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub how: WaitMode,
    /// The function that the program has called.
    pub function: String,
    /// When the wait began, or the polls that find nothing.
    pub since: u64,
    /// Since when nothing has moved.
    pub quiet: u64,
    /// When it counts no more; 0: only its writer knows.
    pub until: u64,
    /// One of the things is enough.
    pub any: bool,
    pub wants: Vec<Want>,
    /// Things waited for that are not in the list.
    pub more: u32,
    pub nears: Vec<NearMiss>,
    pub collectives: Vec<Collective>,
}

impl Communicator {
    fn write(&self, to: &mut Writer) {
        to.word(self.context);
        to.text(&self.name, NAME);
    }

    fn read(from: &mut Reader) -> Result<Self, &'static str> {
        Ok(Self {
            context: from.word()?,
            name: from.text(NAME)?,
        })
    }
}

/// A list's first entries, as many as fit; how many.
fn list<T>(to: &mut Writer, entries: &[T], most: usize, write: impl Fn(&T, &mut Writer)) -> u64 {
    let mut count = 0;
    for entry in entries.iter().take(most) {
        if !to.whole(|to| write(entry, to)) {
            break;
        }
        count += 1;
    }
    count
}

impl Record {
    /// As words, at most [`WORDS`]. What does not fit is left out.
    pub fn encode(&self) -> Vec<u64> {
        let mut to = Writer::new(WORDS);
        to.word(MAGIC);
        to.word(0);
        to.word(self.since);
        to.word(self.quiet);
        to.word(self.until);
        to.text(&self.function, NAME);
        let wants = list(&mut to, &self.wants, WANTS, |want, to| {
            let tag = u64::from(want.tag.is_some()) << 8;
            let peer = u64::from(want.peer.is_some()) << 9;
            to.word(want.kind as u64 | tag | peer | u64::from(want.rank) << 32);
            to.pair(want.peer.unwrap_or(0), want.tag.unwrap_or(0) as u32);
            to.word(want.bytes);
            want.communicator.write(to);
        });
        let more = (self.wants.len() as u64 - wants + u64::from(self.more)).min(0xffff_ffff);
        let collectives = list(&mut to, &self.collectives, COLLECTIVES, |one, to| {
            one.communicator.write(to);
            to.text(&one.function, NAME);
            let ranges = &one.members[..one.members.len().min(RANGES)];
            to.word(ranges.len() as u64);
            for (first, count) in ranges {
                to.pair(*first, *count);
            }
        });
        let nears = list(&mut to, &self.nears, NEARS, |near, to| {
            to.pair(near.why as u32, near.count);
            to.pair(near.peer, near.tag as u32);
            to.word(near.bytes);
            near.communicator.write(to);
        });
        let flags = u64::from(self.how == WaitMode::Polls) | u64::from(self.any) << 1;
        to.set(
            1,
            flags | wants << 8 | collectives << 16 | nears << 24 | more << 32,
        );
        to.done()
    }

    /// From words that another process wrote.
    ///
    /// # Errors
    /// What in them cannot be right.
    pub fn decode(words: &[u64]) -> Result<Self, &'static str> {
        let mut from = Reader(words);
        if from.word()? != MAGIC {
            return Err("it does not begin as a record does");
        }
        let head = from.word()?;
        let count = |shift: u32, most: usize| {
            let count = (head >> shift & 0xff) as usize;
            if count > most {
                return Err("a list is too long");
            }
            Ok(count)
        };
        let (wants, collectives, nears) = (count(8, WANTS)?, count(16, COLLECTIVES)?, count(24, NEARS)?);
        let mut record = Record {
            how: if head & 1 == 0 {
                WaitMode::Waits
            } else {
                WaitMode::Polls
            },
            any: head & 2 != 0,
            more: (head >> 32) as u32,
            since: from.word()?,
            quiet: from.word()?,
            until: from.word()?,
            function: from.text(NAME)?,
            ..Record::default()
        };
        for _ in 0..wants {
            let what = from.word()?;
            let (peer, tag) = from.pair()?;
            record.wants.push(Want {
                kind: WaitKind::from_repr(what as u8).ok_or("it waits for what there is not")?,
                peer: (what >> 9 & 1 == 1).then_some(peer),
                rank: (what >> 32) as u32,
                tag: (what >> 8 & 1 == 1).then_some(tag as i32),
                bytes: from.word()?,
                communicator: Communicator::read(&mut from)?,
            });
        }
        for _ in 0..collectives {
            let mut one = Collective {
                communicator: Communicator::read(&mut from)?,
                function: from.text(NAME)?,
                members: Vec::new(),
            };
            let ranges = from.word()?;
            if ranges > RANGES as u64 {
                return Err("a list is too long");
            }
            for _ in 0..ranges {
                one.members.push(from.pair()?);
            }
            record.collectives.push(one);
        }
        for _ in 0..nears {
            let (why, count) = from.pair()?;
            let (peer, tag) = from.pair()?;
            record.nears.push(NearMiss {
                why: Mismatch::from_repr(why).ok_or("a message differs in what there is not")?,
                count,
                peer,
                tag: tag as i32,
                bytes: from.word()?,
                communicator: Communicator::read(&mut from)?,
            });
        }
        Ok(record)
    }

    /// Processes in runs: first and number.
    pub fn ranges(processes: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for process in processes {
            match ranges.last_mut() {
                Some((first, count)) if first.checked_add(*count) == Some(process) => *count += 1,
                _ => ranges.push((process, 1)),
            }
        }
        ranges
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn communicator(name: &str, context: u64) -> Communicator {
        Communicator {
            name: name.into(),
            context,
        }
    }

    fn full() -> Record {
        let want = |kind, peer, tag| Want {
            kind,
            peer,
            rank: 3,
            tag,
            bytes: 1 << 40,
            communicator: communicator("MPI_COMM_WORLD", 1 << 47),
        };
        Record {
            how: WaitMode::Polls,
            function: "MPI_Testall".into(),
            since: 17,
            quiet: u64::MAX,
            until: 3,
            any: true,
            wants: vec![
                want(WaitKind::Receive, None, Some(-5)),
                want(WaitKind::Send, Some(7), None),
            ],
            more: 5,
            nears: vec![NearMiss {
                why: Mismatch::Communicator,
                peer: 2,
                tag: 9,
                bytes: 0,
                count: 3,
                communicator: communicator("", 4),
            }],
            collectives: vec![Collective {
                communicator: communicator("halves", 8),
                function: "MPI_Ibarrier".into(),
                members: Record::ranges([0, 1, 2, 9, 11, 12].into_iter()),
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let record = full();
        assert_eq!(record.collectives[0].members, [(0, 3), (9, 1), (11, 2)]);
        assert_eq!(Record::decode(&record.encode()), Ok(record));
        let empty = Record::default();
        assert_eq!(Record::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut record = full();
        let want = record.wants[0].clone();
        record.wants = vec![want; 300];
        record.function = "\u{20ac}".repeat(60);
        let back = Record::decode(&record.encode()).unwrap();
        assert_eq!((back.wants.len(), back.more), (8, 297));
        assert_eq!(back.function, "\u{20ac}".repeat(13), "in whole characters");
    }

    #[test]
    fn a_record_that_fills_its_memory_can_be_read() {
        let mut record = full();
        record.collectives = vec![
            Collective {
                communicator: communicator(&"n".repeat(40), 1),
                function: "f".repeat(40),
                members: Record::ranges((0..100).map(|n| n * 2)),
            };
            9
        ];
        let words = record.encode();
        assert!(words.len() <= WORDS);
        let back = Record::decode(&words).unwrap();
        assert_eq!(back.collectives.len(), 4);
        assert_eq!(back.collectives[0].members.len(), RANGES);
    }

    /// Whatever is in the memory: an answer, and nothing that a terminal would take for a command.
    #[test]
    fn damaged_records_are_read_without_harm() {
        let good = full().encode();
        for len in 0..good.len() {
            assert!(Record::decode(&good[..len]).is_err(), "{len}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            let mut words = good.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..words.len());
                words[at] = match random.u8(..3) {
                    0 => random.u64(..),
                    1 => words[at] ^ 1 << random.u32(..64),
                    _ => random.u64(..64),
                };
            }
            if let Ok(record) = Record::decode(&words) {
                assert!(!record.function.chars().any(char::is_control));
            }
        }
    }
}
