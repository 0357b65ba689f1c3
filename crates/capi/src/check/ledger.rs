//! Collectives of a communicator, as the process that leads it hears of them: compared call by call.
//!
//! Each member tells its calls in order. What may differ between members is described so that one comparison serves all
//! functions: what a member sends to another must be what that one expects from it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Signature;
use farpost_mpi::{Error, ErrorClass};

use super::made::What;
use super::record::{Reader, Writer};
use super::report::ReportKind;
use super::site::Sites;
use super::{Call, Check, Site};
use crate::abi;
use crate::cx::{CommRef, Cx, comm_name};
use crate::names::Fun;

/// First words of records: a collective call; whether a call was compared with all others; it was.
const CALL: u64 = 1;
const ASK: u64 = 4;
const ANSWER: u64 = 5;
/// A collective that has failed waits for as long to hear what the leader has found: one that computes does not look.
const PATIENCE: Duration = Duration::from_secs(5);
/// No root, no operation.
const NOTHING: u64 = u64::MAX;
/// Operations of the program's own, which have no number in common: not commutative and commutative.
const USER: [u64; 2] = [1 << 32, 1 << 32 | 1];

/// What one member sends to, or expects from, the others.
#[derive(Clone, Debug, Default)]
pub(crate) enum Flow {
    #[default]
    Nothing,
    /// The same with everyone.
    Same(Signature),
    /// With one rank only.
    One(u32, Signature),
    /// With each rank its own.
    Each(Vec<Signature>),
    /// With neighbours, in order; one may be there several times.
    Edges(Vec<(u32, Signature)>),
}

impl Flow {
    /// What goes between this member and rank `other`.
    fn with(&self, other: u32) -> Vec<Signature> {
        match self {
            Flow::Nothing => vec![],
            Flow::Same(all) => vec![*all],
            Flow::One(rank, one) if *rank == other => vec![*one],
            Flow::One(..) => vec![],
            Flow::Each(list) => list.get(other as usize).copied().into_iter().collect(),
            Flow::Edges(list) => {
                let edges = list.iter().filter(|(rank, _)| *rank == other);
                let mut edges: Vec<Signature> = edges.map(|(_, signature)| *signature).collect();
                // Which of several edges is which, both ends may see differently.
                edges.sort_unstable_by_key(Signature::words);
                edges
            }
        }
    }

    fn write(&self, to: &mut Writer) {
        match self {
            Flow::Nothing => to.word(0),
            Flow::Same(all) => to.word(1).signature(all),
            Flow::One(rank, one) => to.word(2).word((*rank).into()).signature(one),
            Flow::Each(list) => {
                to.word(3).word(list.len() as u64);
                list.iter().for_each(|one| {
                    to.signature(one);
                });
                to
            }
            Flow::Edges(list) => {
                to.word(4).word(list.len() as u64);
                list.iter().for_each(|(rank, one)| {
                    to.word((*rank).into()).signature(one);
                });
                to
            }
        };
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.word()? {
            0 => Flow::Nothing,
            1 => Flow::Same(from.signature()?),
            2 => Flow::One(u32::try_from(from.word()?).ok()?, from.signature()?),
            3 => {
                let count = from.count()?;
                Flow::Each((0..count).map(|_| from.signature()).collect::<Option<_>>()?)
            }
            4 => {
                let count = from.count()?;
                let edge = |_| Some((u32::try_from(from.word()?).ok()?, from.signature()?));
                Flow::Edges((0..count).map(edge).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// What a call says that others must say too, or that must fit what others say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) root: Option<i32>,
    /// Number of the operation ([`op_number`]) .
    pub(crate) op: Option<u64>,
    /// Count and datatype, where all bring the same; of an intercommunicator all of a group, if `by_side`.
    pub(crate) uniform: Option<Signature>,
    pub(crate) by_side: bool,
    pub(crate) sends: Flow,
    pub(crate) recvs: Flow,
}

/// A number that is the same for the same operation at all processes.
pub(crate) fn op_number(op: &crate::cx::OpRef) -> u64 {
    match op.as_predefined() {
        Some(op) => op as u64,
        None => USER[usize::from(op.is_commutative())],
    }
}

fn op_text(number: u64) -> String {
    match farpost_mpi::op::Op::predefined(number as usize) {
        Some(op) => op.describe().into(),
        None if number == USER[1] => "a commutative operation of the program's".into(),
        None => "a non-commutative operation of the program's".into(),
    }
}

/// A member's call.
#[derive(Clone, Debug)]
struct Told {
    /// In its group.
    rank: u32,
    /// In MPI_COMM_WORLD.
    process: u32,
    /// 0: the group whose first process leads; 1: the other one of an intercommunicator.
    side: u32,
    members: u32,
    inter: bool,
    call: Call,
    comm: String,
    said: Said,
}

impl Told {
    fn write(&self, context: u64, number: u64) -> Vec<u8> {
        let mut to = Writer::default();
        let said = &self.said;
        to.word(CALL).word(context).word(number);
        for word in [
            self.rank,
            self.process,
            self.side,
            self.members,
            self.inter.into(),
        ] {
            to.word(word.into());
        }
        to.word(self.call.fun.0.into())
            .word(self.call.site.0)
            .text(self.comm.as_bytes());
        to.word(said.root.map_or(NOTHING, |root| u64::from(root as u32)));
        to.word(said.op.unwrap_or(NOTHING)).word(said.by_side.into());
        to.word(said.uniform.is_some().into())
            .signature(&said.uniform.unwrap_or(Signature::NONE));
        said.sends.write(&mut to);
        said.recvs.write(&mut to);
        to.done()
    }

    /// The rest of a record behind its first word, of process `source` in a job of `size`: communicator, number of the call, the call.
    fn read(from: &mut Reader<'_>, source: u32, size: u32) -> Option<(u64, u64, Told)> {
        let (context, number) = (from.word()?, from.word()?);
        let mut small = || u32::try_from(from.word()?).ok();
        let (rank, process, side, members, inter) = (small()?, small()?, small()?, small()?, small()? != 0);
        let fun = Fun(u16::try_from(from.word()?).ok()?);
        // Of an intercommunicator both groups count.
        let plausible = process == source && rank < members && members <= size.saturating_mul(2);
        if !fun.exists() || side > 1 || !plausible {
            return None;
        }
        let (site, comm) = (Site(from.word()?), from.text()?);
        let (root, op, by_side) = (from.word()?, from.word()?, from.word()? != 0);
        let (has_uniform, uniform) = (from.word()? != 0, from.signature()?);
        let said = Said {
            root: (root != NOTHING).then_some(root as u32 as i32),
            op: (op != NOTHING).then_some(op),
            uniform: has_uniform.then_some(uniform),
            by_side,
            sends: Flow::read(from)?,
            recvs: Flow::read(from)?,
        };
        let told = Told {
            rank,
            process,
            side,
            members,
            inter,
            call: Call { fun, site },
            comm,
            said,
        };
        Some((context, number, told))
    }

    /// The function, without the mark of large counts.
    fn function(&self) -> &'static str {
        let name = self.call.fun.name();
        name.strip_suffix("_c").unwrap_or(name)
    }

    /// Who: `rank 2`, and in MPI_COMM_WORLD if that is another.
    fn who(&self) -> String {
        let group = match (self.inter, self.side) {
            (false, _) => "",
            (true, 0) => " of the first group",
            (true, _) => " of the second group",
        };
        if self.rank == self.process && !self.inter {
            return format!("rank {}", self.rank);
        }
        format!(
            "rank {}{group} (rank {} of MPI_COMM_WORLD)",
            self.rank, self.process
        )
    }
}

/// One collective, of which some members have told.
#[derive(Default)]
struct Entry {
    told: Vec<Told>,
    /// Who wants to know when it has been compared.
    asking: Vec<u32>,
    /// Something was found.
    differs: bool,
}

#[derive(Default)]
pub(super) struct Ledger {
    /// Collectives of each communicator that this process has called.
    counts: RefCell<HashMap<u64, u64>>,
    /// What is told to this process: by communicator and number of the call.
    entries: RefCell<HashMap<(u64, u64), Entry>>,
    /// Communicators whose members have called different functions: what follows tells nothing new.
    pub(super) broken: RefCell<HashSet<u64>>,
    /// Who asked about a call that has been compared since.
    compared: RefCell<Vec<(u32, (u64, u64))>>,
    /// What this process asked for and was answered.
    answered: RefCell<HashSet<(u64, u64)>>,
}

/// A call of a collective, as its communicator's leader knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) call: Call,
    leader: u32,
    context: u64,
    number: u64,
}

/// The process that compares the calls of a communicator, and on whose side I am.
fn leader(comm: &Comm) -> (u32, u32) {
    let first = |group: &farpost_mpi::group::Group| group.pid(0).unwrap_or(0);
    let own = first(&comm.local);
    match comm.remote.as_ref().map(first) {
        Some(other) if other < own => (other, 1),
        _ => (own, 0),
    }
}

impl Check {
    /// The program calls a collective function of `comm`.
    pub(crate) fn collective(&self, cx: &'static Cx, fun: Fun, comm: &CommRef, said: Said) -> Joined {
        let call = self.call_here(fun);
        let (leader, side) = leader(comm);
        if comm.is_revoked() {
            // Some have learnt of it in a call, others before: their calls of now fail, and are not each other's.
            return Joined {
                call,
                leader,
                context: comm.context,
                number: 0,
            };
        }
        let number = {
            let mut counts = self.ledger.counts.borrow_mut();
            let count = counts.entry(comm.context).or_default();
            *count += 1;
            *count
        };
        let remote = comm.remote.as_ref().map_or(0, farpost_mpi::group::Group::size);
        let told = Told {
            rank: comm.rank as u32,
            process: self.rank,
            side,
            members: comm.size() + remote,
            inter: comm.is_inter(),
            call,
            comm: self.comm_text(comm),
            said,
        };
        self.send(cx, leader, &told.write(comm.context, number));
        Joined {
            call,
            leader,
            context: comm.context,
            number,
        }
    }

    /// A collective has failed: if that may be because others are in another one, waits until the leader has compared them, so
    /// that the cause is told before the error, which may end the job.
    #[cold]
    pub(crate) fn explain(&self, cx: &'static Cx, joined: Joined, error: &Error) {
        if !matches!(error.class, ErrorClass::ERR_TRUNCATE | ErrorClass::ERR_TYPE) {
            return;
        }
        let key = (joined.context, joined.number);
        let mut record = Writer::default();
        record.word(ASK).word(key.0).word(key.1);
        self.send(cx, joined.leader, &record.done());
        let until = Instant::now() + PATIENCE;
        // Whatever goes wrong here, the error that is to be told is another.
        let _ = cx.world().wait_until(|| {
            self.poll(cx);
            let answered = self.ledger.answered.borrow().contains(&key);
            Ok(answered || self.is_closed() || Instant::now() >= until)
        });
    }

    /// Process `source` wants to know when a call has been compared with all others, or differs from one.
    fn asked(&self, cx: &'static Cx, source: u32, context: u64, number: u64) {
        let wait = {
            let mut entries = self.ledger.entries.borrow_mut();
            let entry = entries
                .get_mut(&(context, number))
                .filter(|entry| !entry.differs && !self.ledger.broken.borrow().contains(&context));
            entry
                .map(|entry| {
                    if !entry.asking.contains(&source) {
                        entry.asking.push(source);
                    }
                })
                .is_some()
        };
        if !wait {
            self.answer(cx, source, context, number);
        }
    }

    fn answer(&self, cx: &'static Cx, to: u32, context: u64, number: u64) {
        let mut record = Writer::default();
        record.word(ANSWER).word(context).word(number);
        self.send(cx, to, &record.done());
    }

    /// A communicator's name, or who made it.
    fn comm_text(&self, comm: &CommRef) -> String {
        if !comm.name.borrow().is_empty() {
            return comm_name(comm);
        }
        match self.maker(What::Comm, comm.handle.get()) {
            Some(made) => format!("the communicator of {}", made.fun.name()),
            None => comm_name(comm),
        }
    }

    /// A record has come from process `source`.
    pub(super) fn take(&self, cx: &'static Cx, source: u32, record: &[u8]) {
        let mut reader = Reader(record);
        match reader.word() {
            Some(CALL) => {
                let found = self
                    .ledger
                    .take(&self.sites, (source, cx.world().size()), &mut reader);
                if let Some((kind, text)) = found {
                    self.find(cx, kind, &text);
                }
                for (process, (context, number)) in self.ledger.compared.take() {
                    self.answer(cx, process, context, number);
                }
            }
            Some(what @ (ASK | ANSWER)) => {
                if let (Some(context), Some(number)) = (reader.word(), reader.word()) {
                    if what == ASK {
                        self.asked(cx, source, context, number);
                    } else {
                        self.ledger.answered.borrow_mut().insert((context, number));
                    }
                }
            }
            Some(kind) => self.ending.take(kind, source, &mut reader),
            None => {}
        }
    }
}

impl Ledger {
    /// A record of a call, behind its first word, from process `source` of a job of `size`. What differs from other members' calls.
    fn take(
        &self,
        sites: &Sites,
        (source, size): (u32, u32),
        record: &mut Reader<'_>,
    ) -> Option<(ReportKind, String)> {
        let (context, number, new) = Told::read(record, source, size)?;
        let key = (context, number);
        let mut entries = self.entries.borrow_mut();
        let entry = entries.entry(key).or_default();
        entry.told.push(new);
        let found = if self.broken.borrow().contains(&context) {
            None
        } else {
            compare_last(sites, &entry.told)
        };
        entry.differs |= found.is_some();
        let all = entry.told.len() >= entry.told[0].members as usize;
        if all || entry.differs {
            let asking = entry.asking.drain(..).map(|process| (process, key));
            self.compared.borrow_mut().extend(asking);
        }
        if all {
            entries.remove(&key);
        }
        let (kind, text, breaks) = found?;
        if breaks {
            self.broken.borrow_mut().insert(context);
        }
        Some((kind, text))
    }

    /// Collectives that some members have not joined, at the end.
    pub(super) fn unfinished(&self, sites: &Sites) -> Vec<String> {
        let entries = self.entries.borrow();
        let broken = self.broken.borrow();
        let mut list: Vec<_> = entries
            .iter()
            .filter(|(key, _)| !broken.contains(&key.0))
            .collect();
        list.sort_unstable_by_key(|(key, _)| **key);
        let line = |(_, entry): (_, &Entry)| {
            let first = entry.told.first()?;
            let here: HashSet<(u32, u32)> = entry.told.iter().map(|told| (told.side, told.rank)).collect();
            let missing = (0..first.members).filter(|rank| !here.contains(&(0, *rank)));
            let missing: Vec<String> = missing.map(|rank| rank.to_string()).collect();
            let missing = if first.inter {
                format!(
                    "{} of {} members",
                    first.members as usize - here.len(),
                    first.members
                )
            } else {
                format!("rank {}", missing.join(", "))
            };
            Some(format!(
                "{missing} of {} never called {}, which {} did",
                first.comm,
                first.function(),
                with_place(&first.who(), &sites.call_text(first.call))
            ))
        };
        list.into_iter().filter_map(line).collect()
    }
}

/// The first difference between the last call and those before it; whether what follows will differ too.
fn compare_last(sites: &Sites, told: &[Told]) -> Option<(ReportKind, String, bool)> {
    let (new, others) = told.split_last()?;
    let with_call =
        |told: &Told, what: String| format!("{} {what} in {}", told.who(), sites.call_text(told.call));
    let differ = |old: &Told, what: [String; 2], rule: &str| {
        let [a, b] = what;
        let text = format!(
            "a collective call of {} differs between ranks: {}, {}; {rule}",
            new.comm,
            with_call(old, a),
            with_call(new, b)
        );
        Some((ReportKind::Collective, text, false))
    };
    if let Some(first) = others.first()
        && first.function() != new.function()
    {
        let text = format!(
            "collective calls of {} differ: {} is in {}, {} in {}; all members must call the same collective functions in the \
                 same order",
            new.comm,
            first.who(),
            sites.call_text(first.call),
            new.who(),
            sites.call_text(new.call)
        );
        return Some((ReportKind::Collective, text, true));
    }
    for old in others {
        if let Some(what) = roots_differ(old, new) {
            return differ(old, what, "all members must name the same root");
        }
        if let (Some(a), Some(b)) = (old.said.op, new.said.op)
            && a != b
        {
            let what = [a, b].map(|op| format!("reduces by {}", op_text(op)));
            return differ(old, what, "all members must give the same operation");
        }
        if let (Some(a), Some(b)) = (old.said.uniform, new.said.uniform)
            && (old.side == new.side || !new.said.by_side)
            && !a.matches(&b)
        {
            let what = [a, b].map(|s| format!("brings {}", s.describe()));
            return differ(old, what, "all members must bring the same count and datatype");
        }
    }
    for old in told {
        for (from, to) in [(old, new), (new, old)] {
            if let Some(what) = flows_differ(from, to) {
                let [sends, expects] = what;
                let text = format!(
                    "the types in a collective call of {} differ: {}, {}",
                    new.comm,
                    with_call(from, sends),
                    with_call(to, expects)
                );
                return Some((ReportKind::Signature, text, false));
            }
        }
    }
    None
}

fn with_place(who: &str, call: &str) -> String {
    match call.split_once(' ') {
        Some((_, place)) => format!("{who} {place}"),
        None => who.into(),
    }
}

fn root_text(root: i32) -> String {
    match root {
        abi::MPI_ROOT => "gives root MPI_ROOT".into(),
        abi::MPI_PROC_NULL => "gives root MPI_PROC_NULL".into(),
        root => format!("gives root {root}"),
    }
}

/// What each gives, if the roots do not go together (MPI-5.0 section 6.2.3).
fn roots_differ(a: &Told, b: &Told) -> Option<[String; 2]> {
    let (root_a, root_b) = (a.said.root?, b.said.root?);
    let fits = match (a.side == b.side, root_a, root_b) {
        _ if !a.inter => root_a == root_b,
        (true, abi::MPI_ROOT, abi::MPI_ROOT) => false,
        (true, x, y) => (x >= 0) == (y >= 0) && (x < 0 || x == y),
        // Of the two groups one has the root, which the other one names.
        (false, abi::MPI_ROOT, y) => y == a.rank as i32,
        (false, x, abi::MPI_ROOT) => x == b.rank as i32,
        (false, x, y) => (x < 0) != (y < 0) || (x < 0 && y < 0),
    };
    (!fits).then(|| [root_text(root_a), root_text(root_b)])
}

/// What `from` sends and `to` expects, if these differ.
fn flows_differ(from: &Told, to: &Told) -> Option<[String; 2]> {
    if from.inter && from.side == to.side {
        return None;
    }
    let (sent, expected) = (from.said.sends.with(to.rank), to.said.recvs.with(from.rank));
    // Where one of them says nothing, or neighbours see different graphs, there is nothing to compare.
    if sent.len() != expected.len() {
        return None;
    }
    let (sends, expects) = sent.iter().zip(&expected).find(|(a, b)| !a.matches(b))?;
    Some([
        format!("sends {} to rank {}", sends.describe(), to.rank),
        format!("expects {} from rank {}", expects.describe(), from.rank),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4;

    fn call(number: u16) -> Call {
        let (fun, site) = (Fun(number), Site::default());
        Call { fun, site }
    }

    fn told(rank: u32, members: u32) -> Told {
        Told {
            rank,
            process: rank,
            side: 0,
            members,
            inter: false,
            call: call(7),
            comm: "MPI_COMM_WORLD".into(),
            said: Said::default(),
        }
    }

    fn take(ledger: &Ledger, sites: &Sites, source: u32, told: &Told) -> Option<(ReportKind, String)> {
        let record = told.write(5, 1);
        let mut reader = Reader(&record);
        assert_eq!(reader.word(), Some(CALL));
        ledger.take(sites, (source, SIZE), &mut reader)
    }

    #[test]
    fn a_call_is_taken_from_whom_it_is_of_and_with_as_many_members_as_can_be() {
        let (ledger, sites) = (Ledger::default(), Sites::new());
        let refused = [
            (2, told(1, SIZE)),
            (1, told(1, u32::MAX)),
            (1, told(1, 2 * SIZE + 1)),
            (3, told(3, 2)),
            (0, told(0, 0)),
        ];
        for (source, call) in refused {
            assert!(take(&ledger, &sites, source, &call).is_none());
            assert_eq!(ledger.unfinished(&sites), Vec::<String>::new(), "{call:?}");
        }
        assert!(take(&ledger, &sites, 1, &told(1, SIZE)).is_none());
        let left = ledger.unfinished(&sites);
        assert!(
            left.len() == 1 && left[0].starts_with("rank 0, 2, 3 of MPI_COMM_WORLD"),
            "{left:?}"
        );
        let other = Told {
            call: call(9),
            ..told(2, SIZE)
        };
        let (kind, text) = take(&ledger, &sites, 2, &other).expect("another function");
        assert!(
            kind == ReportKind::Collective && text.contains("rank 2"),
            "{text}"
        );
    }
}

#[cfg(fuzzing)]
pub mod fuzzing;
