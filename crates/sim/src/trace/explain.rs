//! The critical path in words.

use super::path::{Ahead, CriticalPath, Place};
use super::{name_of, recording};
use crate::core::Core;
use crate::record::Recording;
use crate::time::Ps;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Places that are told, each.
const MOST_PLACES: usize = 24;
/// Those in the first sentence.
const IN_SENTENCE: usize = 4;
/// Ranks that are named where several were ahead.
const MOST_AHEAD: usize = 3;

/// Write where the time of a run went: the critical path, summed by kind and by place. Sums are exact; what is shown is rounded so that it adds up.
///
/// # Errors
/// Nothing was recorded, or it cannot be written.
pub fn explain(core: &Core, out: &mut impl Write) -> io::Result<()> {
    let recording = &*recording(core)?;
    let path = CriticalPath::of(core, recording);
    let words = Words {
        core,
        recording,
        path: &path,
        unit: Unit::of(path.end),
    };
    words.write(out)
}

/// In which times are shown, with three digits.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    /// Of the last digit.
    least: u64,
}

impl Unit {
    fn of(whole: Ps) -> Self {
        let (name, least) = match whole.0 {
            0..1_000_000 => ("ns", 1),
            1_000_000..1_000_000_000 => ("us", 1_000),
            1_000_000_000..1_000_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        Self { name, least }
    }

    fn shown(self, units: u64) -> String {
        format!("{}.{:03} {}", units / 1000, units % 1000, self.name)
    }
}

/// Parts of a whole in units of `least`, rounded so that they add up to the whole rounded.
fn rounded(parts: &[u64], least: u64) -> Vec<u64> {
    let round = |sum: u64| (sum + least / 2) / least;
    let mut sum = 0;
    let each = parts.iter().map(|part| {
        let before = round(sum);
        sum += part;
        round(sum) - before
    });
    each.collect()
}

/// The same in tenths of a percent.
fn shares(parts: &[u64]) -> Vec<u64> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let round = |sum: u128| ((sum * 2000 + whole) / (2 * whole.max(1))) as u64;
    let mut sum = 0;
    let each = parts.iter().map(|part| {
        let before = round(sum);
        sum += u128::from(*part);
        round(sum) - before
    });
    each.collect()
}

struct Words<'a> {
    core: &'a Core,
    recording: &'a Recording,
    path: &'a CriticalPath,
    unit: Unit,
}

impl Words<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let path = self.path;
        let mut places: BTreeMap<Place, Ps> = BTreeMap::new();
        let mut kinds: BTreeMap<&str, Ps> = BTreeMap::new();
        for piece in &path.pieces {
            let time = piece.until - piece.from;
            *places.entry(piece.place).or_default() += time;
            *kinds.entry(kind(piece.place)).or_default() += time;
        }
        let mut places: Vec<(Place, Ps)> = places.into_iter().collect();
        places.sort_by_key(|(place, time)| (Reverse(*time), *place));
        let mut kinds: Vec<(&str, Ps)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, time)| (Reverse(*time), *kind));

        let told: Vec<(String, Ps)> = places
            .iter()
            .take(MOST_PLACES)
            .map(|(place, time)| (self.place(*place), *time))
            .collect();
        let others = &places[told.len()..];
        let rest: Ps = others.iter().map(|(_, time)| *time).sum();
        let mut told = told;
        if !others.is_empty() {
            told.push((format!("in {} other places", others.len()), rest));
        }

        writeln!(out, "{}", self.sentence(&told))?;
        writeln!(
            out,
            "This is the way back from the end of rank {}, the last one: each wait is followed to what ended it, {} from rank to rank, over {}.",
            path.rank,
            times(path.steps),
            count(path.ranks.len(), "rank"),
        )?;
        if let Some(cut) = self.recording.cut() {
            writeln!(
                out,
                "The recording ends at {cut}, as there were more than {} entries; of what came later nothing is known.",
                self.recording.limit()
            )?;
        }
        writeln!(out, "\nBy kind:")?;
        let kinds: Vec<(String, Ps)> = kinds
            .into_iter()
            .map(|(kind, time)| (kind.into(), time))
            .collect();
        self.table(out, &kinds)?;
        writeln!(out, "\nBy place:")?;
        self.table(out, &told)
    }

    /// `Of 8 us, 5 us (62.5 %) ...`
    fn sentence(&self, told: &[(String, Ps)]) -> String {
        let parts: Vec<u64> = told.iter().map(|(_, time)| time.0).collect();
        let (shown, shares) = (rounded(&parts, self.unit.least), shares(&parts));
        let most = if told.len() > IN_SENTENCE + 1 {
            IN_SENTENCE
        } else {
            told.len()
        };
        let mut all: Vec<String> = (0..most)
            .map(|nr| {
                format!(
                    "{} ({}) {}",
                    self.unit.shown(shown[nr]),
                    percent(shares[nr]),
                    told[nr].0
                )
            })
            .collect();
        if most < told.len() {
            let (time, share) = (shown[most..].iter().sum(), shares[most..].iter().sum());
            all.push(format!(
                "{} ({}) elsewhere",
                self.unit.shown(time),
                percent(share)
            ));
        }
        let whole = rounded(&[self.path.end.0], self.unit.least)[0];
        format!("Of {}: {}.", self.unit.shown(whole), all.join(", "))
    }

    fn table(&self, out: &mut impl Write, rows: &[(String, Ps)]) -> io::Result<()> {
        let parts: Vec<u64> = rows.iter().map(|(_, time)| time.0).collect();
        let (shown, shares) = (rounded(&parts, self.unit.least), shares(&parts));
        let whole = self.unit.shown(shown.iter().sum());
        let width = whole.len();
        for ((what, _), (time, share)) in rows.iter().zip(shown.iter().zip(&shares)) {
            writeln!(
                out,
                "  {:>width$}  {:>7}  {what}",
                self.unit.shown(*time),
                percent(*share)
            )?;
        }
        writeln!(out, "  {whole}  {:>7}  in all", percent(shares.iter().sum()))
    }

    fn place(&self, place: Place) -> String {
        let name = |resource: u32| name_of(self.core, resource);
        match place {
            Place::Compute(rank) => format!("computing on rank {rank}"),
            Place::Call(rank, call) => format!("in {} on rank {rank}", self.recording.name(call)),
            Place::Run(rank) => format!("running on rank {rank}"),
            Place::Interrupt(rank) => format!("interrupts on the processor of rank {rank}"),
            Place::Look(rank) => format!("until rank {rank} looked again"),
            Place::Sleep(rank) => format!("rank {rank} asleep until a time"),
            Place::Adapter(host, u16::MAX) => format!("from the adapter of host {host} to the network"),
            Place::Adapter(host, what) => {
                let what = self.recording.name(what).replace('_', " ");
                format!("in the adapter of host {host} ({what})")
            }
            Place::Memory(host) => format!("in the memory of host {host}"),
            Place::Link(resource) => format!("passing {}", name(resource)),
            Place::Queue(resource) => format!("waiting for {}{}", name(resource), self.ahead(resource)),
            Place::Room(resource) => format!("waiting at {} for room ahead", name(resource)),
            Place::Unknown => "not recorded".into(),
        }
    }

    /// Who was ahead.
    fn ahead(&self, resource: u32) -> String {
        let Some(all) = self.path.ahead.get(&resource) else {
            return String::new();
        };
        let mut all: Vec<(&Ahead, &BTreeSet<u32>)> = all.iter().collect();
        all.sort_by_key(|(whose, which)| (Reverse(which.len()), **whose));
        let mut named: Vec<String> = all
            .iter()
            .take(MOST_AHEAD)
            .map(|(whose, which)| match whose {
                Ahead::Messages(rank) => format!("{} of rank {rank}", count(which.len(), "message")),
                Ahead::Packets(host) => format!("{} of host {host}", count(which.len(), "packet")),
            })
            .collect();
        let more: usize = all.iter().skip(MOST_AHEAD).map(|(_, which)| which.len()).sum();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let last = named.pop().unwrap_or_default();
        match named.is_empty() {
            true => format!(" (behind {last})"),
            false => format!(" (behind {} and {last})", named.join(", ")),
        }
    }
}

fn kind(place: Place) -> &'static str {
    match place {
        Place::Compute(_) => "computing",
        Place::Call(..) => "in calls",
        Place::Run(_) => "running",
        Place::Interrupt(_) => "interrupts",
        Place::Look(_) => "until a rank looked again",
        Place::Sleep(_) => "asleep until a time",
        Place::Adapter(..) => "in adapters",
        Place::Memory(_) => "in memories of hosts",
        Place::Link(_) => "passing links and buses",
        Place::Queue(_) => "waiting for links and buses behind others",
        Place::Room(_) => "waiting for room ahead",
        Place::Unknown => "not recorded",
    }
}

fn percent(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn times(number: usize) -> String {
    match number {
        1 => "once".into(),
        2 => "twice".into(),
        _ => format!("{number} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_parts_add_up() {
        let parts = [1_499, 1_499, 1_499, 500, 3];
        let shown = rounded(&parts, 1_000);
        assert_eq!(shown, [1, 2, 1, 1, 0]);
        assert_eq!(shares(&parts).iter().sum::<u64>(), 1000);
        assert_eq!(shares(&[]), [0; 0]);
    }
}
