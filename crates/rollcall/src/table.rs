//! The table: a line for each rank or for several whose lines are the same, and below what the lines have to do with each other.

use crate::graph::{self, Waiting};
use crate::record::{Communicator, Mismatch, NearMiss, Record, WaitKind, WaitMode, Want};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollState {
    /// It waits or polls.
    Waits(Record),
    /// It is outside the library, or has been inside for no time worth mentioning.
    Computes,
    /// No interface is open yet.
    Starts,
    /// It has closed all interfaces.
    Finalised,
    /// Its process has ended, in this way.
    Ended(String),
    /// Its record cannot be right.
    Damaged(&'static str),
    /// It is on another host, from which nothing was heard.
    Elsewhere,
}

impl RollState {
    /// What a rank does that shows no wait: not computing but `other`.
    pub fn or(self, other: RollState) -> RollState {
        match self {
            Self::Computes => other,
            shown => shown,
        }
    }
}

/// A rank for the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    pub number: u32,
    pub host: String,
    pub state: RollState,
    /// The time on its host when it was looked at.
    pub now: u64,
}

impl Rank {
    /// Its record's state, of words that it wrote.
    pub fn of_words(words: Result<Vec<u64>, crate::slot::Unreadable>, now: u64) -> RollState {
        let words = match words {
            Ok(words) if words.is_empty() => return RollState::Computes,
            Ok(words) => words,
            Err(crate::slot::Unreadable::Busy) => return RollState::Damaged("it was left half written"),
            Err(crate::slot::Unreadable::Length(_)) => return RollState::Damaged("its length"),
        };
        match Record::decode(&words) {
            Ok(record) if record.until != 0 && record.until < now => RollState::Computes,
            Ok(record) => RollState::Waits(record),
            Err(why) => RollState::Damaged(why),
        }
    }

    /// Nanoseconds since anything has moved there; `None`: it does not wait.
    pub fn quiet(&self) -> Option<u64> {
        match &self.state {
            RollState::Waits(record) => Some(self.now.saturating_sub(record.quiet)),
            _ => None,
        }
    }
}

/// For how long a job has made no progress: the shortest time that any of its ranks has not, if all wait that have not ended.
pub fn stuck_for(ranks: &[Rank]) -> Option<u64> {
    let mut least = None;
    for rank in ranks {
        match rank.state {
            RollState::Finalised | RollState::Ended(_) => continue,
            _ => {
                let quiet = rank.quiet()?;
                least = Some(least.map_or(quiet, |least: u64| least.min(quiet)));
            }
        }
    }
    least
}

const COLUMNS: usize = 8;
const HEADS: [&str; COLUMNS] = ["rank", "host", "in", "on", "waits for", "tag", "bytes", "for"];
/// Columns of numbers.
const RIGHT: [usize; 3] = [5, 6, 7];
/// Things waited for that a rank's line shows, and others below it.
const SHOWN: usize = 4;
/// Ranks named one by one in a sentence, and in a cycle.
const NAMED: usize = 12;
const IN_CYCLE: usize = 8;
/// Characters of how a rank has ended.
const LONGEST_END: usize = 40;
/// Lines for ranks; the rest is counted.
const LINES: usize = 100;

/// One rank's lines, without its number, its host and the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lines {
    function: String,
    /// Communicator, what, tag, bytes.
    rows: Vec<[String; 4]>,
    notes: Vec<String>,
}

struct Group {
    lines: Lines,
    ranks: Vec<u32>,
    hosts: BTreeSet<String>,
    ages: Option<(u64, u64)>,
}

/// The table, or nothing when nobody waits.
pub fn table(ranks: &[Rank]) -> Option<String> {
    let waiting: Waiting = ranks
        .iter()
        .filter_map(|rank| match &rank.state {
            RollState::Waits(record) => Some((rank.number, record)),
            _ => None,
        })
        .collect();
    if waiting.is_empty() {
        return None;
    }
    let states: BTreeMap<u32, &RollState> = ranks.iter().map(|rank| (rank.number, &rank.state)).collect();
    let mut groups: Vec<Group> = Vec::new();
    for rank in ranks {
        let lines = lines_of(rank, &waiting, &states);
        let age = match &rank.state {
            RollState::Waits(record) => Some(rank.now.saturating_sub(record.since)),
            _ => None,
        };
        let group = match groups.iter_mut().find(|group| group.lines == lines) {
            Some(group) => group,
            None => {
                groups.push(Group {
                    lines,
                    ranks: Vec::new(),
                    hosts: BTreeSet::new(),
                    ages: age.map(|age| (age, age)),
                });
                groups.last_mut()?
            }
        };
        group.ranks.push(rank.number);
        group.hosts.insert(rank.host.clone());
        if let (Some((least, most)), Some(age)) = (&mut group.ages, age) {
            *least = age.min(*least);
            *most = age.max(*most);
        }
    }
    let left: usize = groups.iter().skip(LINES).map(|group| group.ranks.len()).sum();
    groups.truncate(LINES);
    let mut text = laid_out(&groups);
    if left > 0 {
        let _ = writeln!(text, "  ... and {left} more ranks");
    }
    for sentence in sentences(&waiting, &states) {
        let _ = writeln!(text, "  {sentence}");
    }
    Some(text)
}

fn laid_out(groups: &[Group]) -> String {
    enum Line<'a> {
        Cells([String; COLUMNS]),
        Note(&'a str),
    }
    let mut lines = vec![Line::Cells(HEADS.map(str::to_owned))];
    for group in groups {
        let mut rows = group.lines.rows.iter();
        let first = rows.next().cloned().unwrap_or_default();
        let hosts: Vec<&str> = group.hosts.iter().map(String::as_str).collect();
        let hosts = match hosts.len() {
            0..=2 => hosts.join(","),
            more => format!("{more} hosts"),
        };
        let [on, what, tag, bytes] = first;
        let ages = group.ages.map_or_else(String::new, span_of);
        let ranks = numbers(group.ranks.iter().copied(), ",");
        lines.push(Line::Cells([
            ranks,
            hosts,
            group.lines.function.clone(),
            on,
            what,
            tag,
            bytes,
            ages,
        ]));
        for [on, what, tag, bytes] in rows.cloned() {
            let none = String::new;
            lines.push(Line::Cells([
                none(),
                none(),
                none(),
                on,
                what,
                tag,
                bytes,
                none(),
            ]));
        }
        lines.extend(group.lines.notes.iter().map(|note| Line::Note(note)));
    }
    let mut widths = [0; COLUMNS];
    for line in &lines {
        if let Line::Cells(cells) = line {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
    }
    // Columns in which nobody has anything to say are left out.
    let used: Vec<usize> = (0..COLUMNS)
        .filter(|at| {
            lines.iter().skip(1).any(|line| match line {
                Line::Cells(cells) => !cells[*at].is_empty(),
                Line::Note(_) => false,
            })
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::from(" ");
        match line {
            Line::Cells(cells) => {
                for at in &used {
                    let (cell, width) = (&cells[*at], widths[*at]);
                    row.push(' ');
                    let pad = width - cell.chars().count();
                    if RIGHT.contains(at) {
                        row.extend(std::iter::repeat_n(' ', pad));
                        row += cell;
                    } else {
                        row += cell;
                        row.extend(std::iter::repeat_n(' ', pad));
                    }
                    row.push(' ');
                }
            }
            Line::Note(note) => {
                row.extend(std::iter::repeat_n(' ', widths[0] + widths[1] + 5));
                row += note;
            }
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

fn lines_of(rank: &Rank, waiting: &Waiting, states: &BTreeMap<u32, &RollState>) -> Lines {
    let plain = |what: &str| Lines {
        function: what.into(),
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let record = match &rank.state {
        RollState::Waits(record) => record,
        RollState::Damaged(what) => {
            let mut lines = plain("(not known)");
            lines.notes.push(format!("its record is damaged: {what}"));
            return lines;
        }
        RollState::Ended(how) => {
            let short: String = how.chars().take(LONGEST_END).collect();
            let cut = if short == *how { "" } else { "..." };
            return plain(&format!("({short}{cut})"));
        }
        state => return plain(&format!("({})", does(state))),
    };
    let mut function = record.function.clone();
    if record.how == WaitMode::Polls {
        function = format!("polls in {function}");
    }
    let mut rows: Vec<[String; 4]> = Vec::new();
    for one in &record.collectives {
        let missing = graph::missing(waiting, rank.number, graph::key(one));
        let what = if missing.is_empty() {
            let parts = record.wants.iter().filter(|want| want.kind == WaitKind::Part);
            numbers(parts.filter_map(|want| want.peer), ", ")
        } else {
            let state = |number: &u32| states.get(number).map_or("", |state| aside(state));
            let first = missing.first().map_or("", state);
            if missing.iter().all(|number| state(number) == first) {
                numbers(missing.iter().copied(), ", ") + first
            } else {
                numbers(missing.iter().copied(), ", ")
            }
        };
        let what = if one.function == record.function {
            what
        } else {
            format!("{} by {what}", one.function)
        };
        rows.push([named(&one.communicator), what, String::new(), String::new()]);
    }
    let own = record.wants.iter().filter(|want| want.kind != WaitKind::Part);
    let mut rest = record.more as usize;
    let mut last: Option<(&Want, usize)> = None;
    let mut counted: Vec<(&Want, usize)> = Vec::new();
    for want in own {
        match &mut last {
            Some((same, count)) if *same == want => *count += 1,
            _ => {
                counted.extend(last.take());
                last = Some((want, 1));
            }
        }
    }
    counted.extend(last);
    let of_many = counted.len() + rows.len() > SHOWN;
    for (want, count) in counted {
        if of_many && rows.len() >= SHOWN - 1 {
            rest += count;
            continue;
        }
        rows.push(row_of(want, count, states));
    }
    if rest > 0 {
        let none = String::new;
        rows.push([none(), format!("and {rest} more"), none(), none()]);
    }
    if record.any && rows.len() > 1 {
        rows[0][1] = format!("any of: {}", rows[0][1]);
    }
    Lines {
        function,
        rows,
        notes: record.nears.iter().map(note_of).collect(),
    }
}

fn row_of(want: &Want, count: usize, states: &BTreeMap<u32, &RollState>) -> [String; 4] {
    let many = |one: &str, more: &str| match count {
        1 => one.to_owned(),
        _ => format!("{count} {more}"),
    };
    let who = match want.peer {
        None => "any rank".to_owned(),
        Some(peer) => {
            let known = states.get(&peer).map_or("", |state| aside(state));
            let there = if want.rank == peer || want.communicator.name.is_empty() {
                String::new()
            } else {
                format!(" (rank {} there)", want.rank)
            };
            format!("{peer}{there}{known}")
        }
    };
    let what = match want.kind {
        WaitKind::Receive => format!("{} from {who}", many("message", "messages")),
        WaitKind::Rest => format!("rest of {} from {who}", many("message", "messages")),
        WaitKind::Send | WaitKind::Taken => format!("{} by {who}", many("receive", "receives")),
        WaitKind::Room => format!("room in the queue to {who}"),
        WaitKind::Space => format!("buffer space at {who}"),
        WaitKind::Probe => format!("message from {who}, to be probed"),
        WaitKind::Part | WaitKind::Other => who,
        WaitKind::Program => "MPI_Grequest_complete".into(),
    };
    let messages = !matches!(want.kind, WaitKind::Part | WaitKind::Other | WaitKind::Program);
    let tag = match want.tag {
        Some(tag) => tag.to_string(),
        None if messages && want.communicator != Communicator::default() => "any".into(),
        None => String::new(),
    };
    let bytes = if messages && want.kind != WaitKind::Probe && want.communicator != Communicator::default() {
        want.bytes.to_string()
    } else {
        String::new()
    };
    [named(&want.communicator), what, tag, bytes]
}

fn named(communicator: &Communicator) -> String {
    match (communicator.name.is_empty(), communicator.context) {
        (true, 0) => String::new(),
        (true, _) => "(no name)".into(),
        (false, _) => communicator.name.clone(),
    }
}

fn note_of(near: &NearMiss) -> String {
    let what = match near.count {
        1 => "a message".to_owned(),
        count => format!("{count} messages"),
    };
    let why = match near.why {
        Mismatch::Tag => "right source, other tag".to_owned(),
        Mismatch::Source => "right tag, other source".into(),
        Mismatch::Communicator => format!("right source and tag, but on {}", named(&near.communicator)),
        Mismatch::Fits => "fits, and waits to be taken in".into(),
    };
    format!(
        "unmatched here: {what} from {}, tag {}, {} bytes: {why}",
        near.peer, near.tag, near.bytes
    )
}

/// What a rank does, as the end of a sentence.
pub fn does(state: &RollState) -> String {
    match state {
        RollState::Waits(record) if record.how == WaitMode::Polls => format!("polls in {}", record.function),
        RollState::Waits(record) => format!("in {}", record.function),
        RollState::Computes => "computes".into(),
        RollState::Starts => "has not opened MPI or another interface".into(),
        RollState::Finalised => "has finalised".into(),
        RollState::Ended(how) => how.clone(),
        RollState::Damaged(_) => "left no readable record".into(),
        RollState::Elsewhere => "on another host".into(),
    }
}

/// The same, behind a number in a table. What has a line of its own needs no word.
fn aside(state: &RollState) -> &'static str {
    match state {
        RollState::Waits(_) | RollState::Damaged(_) | RollState::Elsewhere => "",
        RollState::Computes => " (computes)",
        RollState::Starts => " (not begun)",
        RollState::Finalised => " (finalised)",
        RollState::Ended(_) => " (ended)",
    }
}

/// Function, communicator and ranks of a collective.
type Ranks<'a> = (&'a str, &'a str, &'a [u32]);
/// Communicator and functions that ranks are missing from, and whether they are several.
type Absent<'a> = (&'a str, Vec<&'a str>, bool);

fn sentences(waiting: &Waiting, states: &BTreeMap<u32, &RollState>) -> Vec<String> {
    let mut said = Vec::new();
    for cycle in graph::cycles(waiting) {
        said.push(of_cycle(&cycle));
    }
    let collectives = graph::collectives(waiting);
    let mut contexts: BTreeMap<u64, Vec<Ranks>> = BTreeMap::new();
    for ((context, function), (name, ranks)) in &collectives {
        contexts
            .entry(*context)
            .or_default()
            .push((function, name, ranks));
    }
    for functions in contexts.values().filter(|functions| functions.len() > 1) {
        let mut functions = functions.clone();
        functions.sort_by_key(|(_, _, ranks)| ranks.first().copied());
        let each: Vec<String> = functions
            .iter()
            .map(|(function, _, ranks)| format!("{} in {function}", numbers(ranks.iter().copied(), ",")))
            .collect();
        said.push(format!(
            "{} on {}: collectives differ",
            each.join(", "),
            on(functions[0].1)
        ));
    }
    // Who is missing, and where: by communicator and those missing, what they do, the functions they are missing from.
    let mut absent: BTreeMap<(u64, String, String), Absent> = BTreeMap::new();
    for ((context, function), (name, ranks)) in &collectives {
        let mut missing = BTreeSet::new();
        for rank in ranks {
            missing.append(&mut graph::missing(waiting, *rank, (*context, function)));
        }
        // Of those in another collective of the communicator was spoken above.
        missing.retain(|rank| {
            !waiting.get(rank).is_some_and(|record| {
                record
                    .collectives
                    .iter()
                    .any(|one| one.communicator.context == *context)
            })
        });
        let mut by_state: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for rank in missing {
            let state = states
                .get(&rank)
                .map_or_else(|| "not known".into(), |state| does(state));
            by_state.entry(state).or_default().push(rank);
        }
        for (state, ranks) in by_state {
            let several = ranks.len() > 1;
            let who = numbers(ranks.into_iter(), ", ");
            let entry = absent.entry((*context, who, state));
            entry
                .or_insert_with(|| (name, Vec::new(), several))
                .1
                .push(function);
        }
    }
    for ((_, who, state), (name, functions, several)) in absent {
        let are = if several { "are" } else { "is" };
        let functions = functions.join(" and ");
        said.push(format!(
            "{who} ({state}) {are} missing from {functions} on {}",
            on(name)
        ));
    }
    said
}

fn on(name: &str) -> &str {
    if name.is_empty() {
        "a communicator without a name"
    } else {
        name
    }
}

fn of_cycle(cycle: &[u32]) -> String {
    if let [one] = cycle {
        return format!("{one} waits for itself: deadlock");
    }
    let next = |at: usize| cycle[(at + 1) % cycle.len()];
    let mut parts: Vec<String> = cycle
        .iter()
        .enumerate()
        .map(|(at, rank)| format!("{rank} for {}", next(at)))
        .collect();
    parts[0] = format!("{} waits for {}", cycle[0], next(0));
    if parts.len() > IN_CYCLE {
        let last = parts.pop().unwrap_or_default();
        let left = parts.len() + 1 - IN_CYCLE;
        parts.truncate(IN_CYCLE - 1);
        parts.push(format!("... ({left} more)"));
        parts.push(last);
    }
    format!("{}: deadlock", parts.join(", "))
}

/// Numbers with runs folded: `0-3,7`.
pub fn numbers(numbers: impl Iterator<Item = u32>, between: &str) -> String {
    let sorted: BTreeSet<u32> = numbers.collect();
    let ranges = Record::ranges(sorted.into_iter());
    let more = ranges.len().saturating_sub(NAMED);
    let mut parts: Vec<String> = ranges
        .into_iter()
        .take(NAMED)
        .map(|(first, count)| match count {
            1 => first.to_string(),
            2 => format!("{first}{between}{}", first + 1),
            _ => format!("{first}-{}", first + (count - 1)),
        })
        .collect();
    if more > 0 {
        parts.push("...".into());
    }
    parts.join(between)
}

fn span_of((least, most): (u64, u64)) -> String {
    let (short, long) = (age(least), age(most));
    if short == long {
        long
    } else {
        match (short.split_once(' '), long.split_once(' ')) {
            (Some((number, unit)), Some((_, other))) if unit == other => format!("{number}-{long}"),
            _ => format!("{short} - {long}"),
        }
    }
}

/// A time as people say it.
pub fn age(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match seconds {
        0 => format!("0.{} s", nanoseconds / 100_000_000),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(all(test, not(loom)))]
#[path = "table_tests.rs"]
mod tests;
