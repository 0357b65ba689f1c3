//! Programs that look again and again for what does not come: nothing happens on the machine but their looks.
//!
//! It is told and goes on: nobody knows whether a program stops by itself after its next look.

use crate::core::Core;
use crate::time::Ps;
use farpost_simlink::wire::{Ask, Reply};

/// So many calls that only looked, of all processes together, are told; further ones after [`LATER`] times as many, and so on.
const TOLD: u64 = 100_000;
/// See there.
const LATER: u64 = 4;
/// Less virtual time than this is told after [`PATIENCE`] times as many: a loop until a time is over ends.
const MOMENT: Ps = Ps(1_000_000_000_000);
/// See there.
const PATIENCE: u64 = 16;
/// Functions and processes that are named.
const NAMED: usize = 4;

/// What has happened since something last happened on the machine.
pub(super) struct Polling {
    /// Events ever made, and the time, when it did.
    events: u64,
    since: Ps,
    /// The number of this while.
    spell: u64,
    /// Calls that only looked, in it.
    polls: u64,
    /// So many are told.
    told_at: u64,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            events: 0,
            since: Ps::ZERO,
            spell: 1,
            polls: 0,
            told_at: TOLD,
        }
    }
}

/// What one process has called.
#[derive(Default)]
pub(super) struct Called {
    /// The function that it is in, or has called last.
    last: String,
    /// In which while it called these functions, which only looked.
    spell: u64,
    looked: Vec<String>,
}

impl Polling {
    /// A process has made so many calls that only looked, the last of which, or the one that it is in, is this.
    pub fn hear(&mut self, process: &mut Called, polls: u32, call: &str) {
        if process.last != call {
            process.last = call.into();
        }
        if polls == 0 {
            return;
        }
        self.polls += u64::from(polls);
        if process.spell != self.spell {
            process.spell = self.spell;
            process.looked.clear();
        }
        if process.looked.len() <= NAMED && !process.looked.iter().any(|name| name == call) {
            process.looked.push(call.into());
        }
    }

    /// Something has happened on the machine.
    pub fn is_over(&mut self, core: &Core) {
        self.begin(core.kernel.queue.made(), core.kernel.now);
    }

    fn begin(&mut self, events: u64, now: Ps) {
        (self.events, self.since, self.polls) = (events, now, 0);
        self.spell += 1;
    }

    /// A question was carried out, which did something or not. True: it is to be told that nothing has been done for long.
    pub fn lasts(&mut self, core: &Core, did: bool) -> bool {
        self.counts(core.kernel.queue.made(), core.kernel.now, did)
    }

    fn counts(&mut self, events: u64, now: Ps, did: bool) -> bool {
        if did || events != self.events {
            self.begin(events, now);
            return false;
        }
        let long = now - self.since >= MOMENT || self.polls >= self.told_at * PATIENCE;
        let lasts = self.polls >= self.told_at && long;
        if lasts {
            // Never more often again: it is no news.
            self.told_at = self.polls * LATER;
        }
        lasts
    }

    /// What is told, of processes that have not ended.
    pub fn sentence<'a>(&self, processes: impl Iterator<Item = (u32, &'a Called)>) -> String {
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for (rank, process) in processes {
            let does = match &*process.last {
                _ if process.spell == self.spell => {
                    format!("repeat {}", named(&process.looked, |it| it.clone()))
                }
                "" => "wait".into(),
                last => format!("wait in {last}"),
            };
            match groups.iter_mut().find(|group| group.0 == does) {
                Some(group) => group.1.push(rank),
                None => groups.push((does, vec![rank])),
            }
        }
        groups.sort_by_key(|(does, _)| !does.starts_with("repeat"));
        let group = |(does, ranks): &(String, Vec<u32>)| match &**ranks {
            [rank] => format!(
                "process {rank} {}",
                does.replacen("repeat", "repeats", 1).replacen("wait", "waits", 1)
            ),
            ranks => format!("processes {} {does}", named(ranks, u32::to_string)),
        };
        let groups: Vec<String> = groups.iter().map(group).collect();
        format!(
            "from {} of virtual time on programs have only looked for what has not come, {} times, and nothing is on its way: {}; they run on",
            self.since,
            self.polls,
            groups.join("; ")
        )
    }
}

/// Some of them by name.
fn named<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let (some, others) = all.split_at(all.len().min(NAMED));
    let some = some.iter().map(name).collect::<Vec<_>>().join(", ");
    match others.len() {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// Whether this only looks at the machine, whatever comes of it.
pub(super) fn only_looks(ask: &Ask<'_>) -> bool {
    matches!(
        ask,
        Ask::Sync
            | Ask::Sleep { .. }
            | Ask::Rest
            | Ask::Back
            | Ask::Random
            | Ask::TrySend { .. }
            | Ask::Poll { .. }
            | Ask::Waiting { .. }
            | Ask::Ended { .. }
            | Ask::TakeFaults
            | Ask::Call { .. }
    )
}

/// Whether a look has found something, or an attempt succeeded.
pub(super) fn found(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Yes(true) | Reply::Packet(Some(_)) | Reply::Ended(Some(_))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Ps {
        Ps::from_secs(seconds)
    }

    /// Looks of a process, a microsecond each; at which of them it was told.
    fn polls(polling: &mut Polling, process: &mut Called, polls: u64) -> Vec<u64> {
        let told = |poll: &u64| {
            polling.hear(process, 1, "MPI_Test");
            polling.counts(7, Ps::from_nanos(poll * 1000), false)
        };
        (1..=polls).filter(told).collect()
    }

    #[test]
    fn looks_are_told_with_growing_gaps_and_not_before_a_moment() {
        let (mut polling, mut process) = (Polling::default(), Called::default());
        assert!(!polling.counts(7, Ps::ZERO, false), "an event was made");
        let told = polls(&mut polling, &mut process, 20_000_000);
        // The second has passed after a million.
        assert_eq!(told, [1_000_000, 4_000_000, 16_000_000]);
        // Something comes: it begins anew, and is not told as soon as the first time.
        assert!(!polling.counts(8, seconds(20.0), false));
        assert!(!polling.counts(8, seconds(20.0), true));
        polling.hear(&mut process, 1_000_000, "MPI_Test");
        assert!(!polling.counts(8, seconds(90.0), false));
    }

    #[test]
    fn many_looks_without_time_are_told_as_well() {
        let (mut polling, mut process) = (Polling::default(), Called::default());
        let told = |poll: &u64| {
            polling.hear(&mut process, 1, "MPI_Iprobe");
            polling.counts(0, Ps(*poll), false)
        };
        assert_eq!((1..=2_000_000).find(told), Some(TOLD * PATIENCE));
    }

    #[test]
    fn who_does_something_now_and_then_is_not_told_of() {
        let (mut polling, mut process) = (Polling::default(), Called::default());
        for round in 0..100 {
            polling.hear(&mut process, TOLD as u32 - 1, "FM_extract");
            assert!(!polling.counts(0, seconds(f64::from(10 * round)), false));
            assert!(!polling.counts(0, seconds(f64::from(10 * round)), true));
        }
    }

    #[test]
    fn processes_are_told_of_by_what_they_do() {
        let mut polling = Polling::default();
        let mut processes: Vec<Called> = (0..8).map(|_| Called::default()).collect();
        // Before something happened.
        polling.hear(&mut processes[1], 3, "MPI_Probe");
        polling.begin(1, Ps::from_nanos(2500));
        for call in ["MPI_Test", "MPI_Iprobe", "MPI_Test"] {
            polling.hear(&mut processes[0], 2, call);
        }
        polling.hear(&mut processes[1], 0, "MPI_Recv");
        (2..7).for_each(|rank| polling.hear(&mut processes[rank], 0, "MPI_Barrier"));
        let told = polling.sentence((0..).zip(&processes));
        assert_eq!(
            told,
            "from 2.500 us of virtual time on programs have only looked for what has not come, 6 times, and nothing is on its way: \
             process 0 repeats MPI_Test, MPI_Iprobe; process 1 waits in MPI_Recv; processes 2, 3, 4, 5 and 1 more wait in MPI_Barrier; process 7 waits; they run on"
        );
    }
}
