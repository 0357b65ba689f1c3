//! The run of a program whose processes are processes of their own, or stand for such within one: they ask, one at a time, and this carries out what they ask
//! on the machine.
//!
//! A process runs until it has asked something that it has to wait for; meanwhile all others stand still. What it does between two questions takes no
//! virtual time but what it says it spent.

mod polling;
mod questions;
mod sockets;

use crate::core::Core;
use crate::ranks::{Idle, RunError};
use crate::time::Ps;
use farpost_simlink::wire::Compute;
use polling::Polling;
use questions::{Done, Seat, Waiting};
pub use sockets::{Connection, Listener, OtherThreads, Said, without_randomisation};
use std::time::{Duration, Instant};

/// How a run goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For people.
    pub machine: String,
    /// What a look at the clock takes.
    pub tick: Ps,
    /// What computing between calls takes.
    pub compute: Compute,
    /// A process that asks nothing for so long of real time is left alone: others run on.
    pub patience: Duration,
    /// Whether processes tell of the functions of interfaces that they call.
    pub calls: bool,
}

/// Why a run ended before its processes did.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0}")]
    System(String),
    /// Whoever started the processes says that there are none any more.
    #[error("all processes have ended")]
    NobodyLeft,
}

/// What is told while it goes on.
pub trait Watch {
    /// Something for people.
    fn say(&mut self, text: &str);
    /// Called now and then. False: there are no processes any more.
    fn go_on(&mut self, core: &Core) -> bool;
}

/// Processes that run on a machine.
pub struct Coordinator<W> {
    core: Core,
    settings: Settings,
    seats: Vec<Seat>,
    /// Processes that are left alone.
    away: Vec<u32>,
    /// Processes whose programs wait outside the library until something happens to them.
    resting: Vec<u32>,
    /// Some process had several threads when this was last asked.
    threaded: bool,
    /// Nothing happens but that processes wait.
    still: Option<Still>,
    /// What programs do while nothing happens on the machine.
    polling: Polling,
    /// Processes known to have ended before their time.
    deaths: u32,
    watch: W,
    turns: u64,
    /// Ranks run only while they are heard: they are parts of this process, in which clocks may be virtual ones.
    within: bool,
}

/// Real time in which nothing happens but that processes wait.
struct Still {
    begun: Instant,
    /// Looks one after the other that found threads computing.
    computing: u32,
    /// Since then no thread has computed either.
    since: Instant,
    told: bool,
}

impl Still {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            computing: 0,
            since: Instant::now(),
            told: false,
        }
    }
}

/// What threads outside the library mean for processes that wait for each other.
enum Threads {
    MayHelp,
    /// Since this was last asked.
    HaveEnded,
    None,
}

/// Turns between two questions whether to go on.
const WATCHED: u64 = 1 << 12;
/// In this time of real time a launcher sees that a process has ended.
const LAUNCHER: Duration = Duration::from_millis(200);
/// A thread that computes does so at more looks than this one after the other; the one that speaks may be on its way to sleep at some.
const LOOKS: u32 = 16;
/// Real time between turns in which nothing happens but outside of the machine.
const NAP: Duration = Duration::from_millis(1);
/// Longest wait for a process without that question.
const LOOK: Duration = Duration::from_millis(100);

impl<W: Watch> Coordinator<W> {
    /// For the processes of `core`.
    pub fn new(core: Core, settings: Settings, watch: W) -> Self {
        let size = core.kernel.procs.size();
        Self {
            core,
            settings,
            seats: (0..size).map(|_| Seat::default()).collect(),
            away: Vec::new(),
            resting: Vec::new(),
            still: None,
            polling: Polling::default(),
            threaded: false,
            deaths: 0,
            watch,
            turns: 0,
            within: false,
        }
    }

    /// Wait for all processes, and run them to their ends. Those that are left after an error stand still until this is dropped.
    ///
    /// # Errors
    /// Processes wait for each other for ever; the system refused; there are no processes (any more).
    pub fn run(&mut self, listener: &Listener) -> Result<(), CoordinatorError> {
        self.gather(listener)?;
        self.turns()
    }

    /// As [`run`](Self::run), for ranks that run only while they are heard.
    ///
    /// # Errors
    /// As there; some have ended without joining, for which others wait.
    pub fn run_within(
        &mut self,
        ranks: impl IntoIterator<Item = Box<dyn Connection>>,
    ) -> Result<(), CoordinatorError> {
        self.within = true;
        for rank in ranks {
            self.seat(rank);
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
        }
        let outside: Vec<usize> = (0..self.seats.len())
            .filter(|rank| self.seats[*rank].connection.is_none())
            .collect();
        match outside.first() {
            None => self.turns(),
            Some(_) if outside.len() == self.seats.len() => Err(CoordinatorError::NobodyLeft),
            Some(first) => Err(CoordinatorError::System(format!(
                "rank {first} has ended without joining the job, for which the others would wait for ever"
            ))),
        }
    }

    /// Who was told.
    pub fn watch(&mut self) -> &mut W {
        &mut self.watch
    }

    /// The machine.
    pub fn core(&self) -> &Core {
        &self.core
    }

    fn gather(&mut self, listener: &Listener) -> Result<(), CoordinatorError> {
        while self.seats.iter().any(|seat| seat.connection.is_none()) {
            let system = |e| CoordinatorError::System(e);
            if let Some(socket) = listener.accept(LOOK).map_err(system)? {
                self.seat(Box::new(socket));
            }
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
        }
        Ok(())
    }

    fn turns(&mut self) -> Result<(), CoordinatorError> {
        let mut idle = Idle::default();
        loop {
            self.take_back(Duration::ZERO);
            self.end_processes_of_dead_hosts();
            let Some(rank) = self.core.next_rank() else {
                if self.away.is_empty() && self.resting.is_empty() {
                    return Ok(());
                }
                // What is on its way may be for those who wait.
                if self.resting.is_empty() || !self.core.step() {
                    self.wait_for_those_away()?;
                }
                continue;
            };
            self.resting.retain(|other| *other != rank);
            let done = self.turn(rank);
            if !matches!(done, Done::Waits) {
                self.polling.is_over(&self.core);
            }
            match done {
                Done::Waits => {}
                Done::Ended => self.core.kernel.procs.schedule.end(),
                Done::Gone(why) => {
                    self.seats[rank as usize].connection = None;
                    self.core.kernel.procs.schedule.end();
                    self.let_the_launcher_see()?;
                    self.died(rank, &why);
                }
                Done::Late => {
                    let seat = &self.seats[rank as usize];
                    let what = seat.connection.as_ref().map_or("is gone", |it| it.state());
                    self.watch.say(&format!(
                        "process {rank} has not called Farpost for {:?} of real time (it {what}): the others run on, and this run cannot be repeated exactly",
                        self.settings.patience
                    ));
                    self.core.kernel.procs.schedule.away();
                    self.away.push(rank);
                }
            }
            self.turns += 1;
            if self.turns.is_multiple_of(WATCHED) && !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
            let calls = std::mem::take(&mut self.seats[rank as usize].calls);
            let hangs = idle.count(&self.core, rank, calls);
            if !idle.is_long(&self.core) {
                self.still = None;
            } else if !self.away.is_empty() {
                idle = Idle::default();
                self.wait_for_those_away()?;
            } else if !self.resting.is_empty() {
                // Their programs may have to do with others than the machine, and others here with times.
                self.stand_still(NAP)?;
            } else if hangs {
                match self.threads()? {
                    Threads::MayHelp => {}
                    Threads::HaveEnded => idle = Idle::default(),
                    Threads::None => return Err(idle.hang(&self.core).into()),
                }
            }
        }
    }

    /// What processes wait for may come from threads that are outside the library: from those that compute always, from others for some patience.
    fn threads(&mut self) -> Result<Threads, CoordinatorError> {
        if self.threaded {
            // Those that speak fall asleep meanwhile.
            std::thread::sleep(NAP);
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
        }
        let doing = |seat: &Seat| seat.connection.as_ref().map(|it| it.threads());
        let most = self.seats.iter().filter_map(doing).max();
        let most = most.unwrap_or(OtherThreads::None);
        let before = std::mem::replace(&mut self.threaded, most > OtherThreads::None);
        let still = self.still.get_or_insert_with(Still::new);
        let late = |since: Instant| since.elapsed() > self.settings.patience;
        still.computing = if most == OtherThreads::Compute {
            still.computing + 1
        } else {
            0
        };
        if still.computing > LOOKS {
            if late(still.begun) && !std::mem::replace(&mut still.told, true) {
                self.watch.say("processes wait for each other and nothing is on its way on the machine, but some have threads that compute: they are waited for");
            }
            still.since = Instant::now();
        }
        match most {
            // Whatever the last of them left, each process is to have looked for it.
            OtherThreads::None if before => Ok(Threads::HaveEnded),
            OtherThreads::None => Ok(Threads::None),
            _ if late(still.since) => Ok(Threads::None),
            _ => Ok(Threads::MayHelp),
        }
    }

    /// Nothing happens on the machine; programs wait outside the library, which is told when it lasts.
    fn stand_still(&mut self, wait: Duration) -> Result<(), CoordinatorError> {
        let still = self.still.get_or_insert_with(Still::new);
        if !still.told && still.since.elapsed() > self.settings.patience {
            still.told = true;
            let who = self
                .resting
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            self.watch.say(&format!(
                "nothing is on its way on the machine, and processes wait outside Farpost, for a descriptor, a signal or a thread: {who}"
            ));
        }
        self.take_back(wait);
        if !self.watch.go_on(&self.core) {
            return Err(CoordinatorError::NobodyLeft);
        }
        Ok(())
    }

    /// A launcher that ends the job when a process has ended is to do so before others fail because they are told.
    fn let_the_launcher_see(&mut self) -> Result<(), CoordinatorError> {
        if self.within {
            let goes_on = self.watch.go_on(&self.core);
            return goes_on.then_some(()).ok_or(CoordinatorError::NobodyLeft);
        }
        let until = Instant::now() + LAUNCHER;
        while Instant::now() < until {
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
            std::thread::sleep(LAUNCHER / 20);
        }
        Ok(())
    }

    /// Processes whose host has died, or panicked, end.
    fn end_processes_of_dead_hosts(&mut self) {
        let procs = &self.core.kernel.procs;
        if procs.deaths() == self.deaths {
            return;
        }
        self.deaths = procs.deaths();
        let now = self.core.kernel.now;
        for (rank, seat) in self.seats.iter_mut().enumerate() {
            let why = &procs.of(farpost_fabric::Peer(rank as u32)).dead;
            if let (Some(connection), Some(why)) = (&mut seat.connection, why) {
                self.watch
                    .say(&format!("at {now} of virtual time process {rank} ends: {why}"));
                connection.kill();
            }
        }
    }

    /// A process has ended before its time: whoever waits hears of it.
    fn died(&mut self, rank: u32, why: &str) {
        let (peer, now) = (farpost_fabric::Peer(rank), self.core.kernel.now);
        self.core.kill(peer, why);
        for other in 0..self.core.kernel.procs.size() {
            if other != rank {
                self.core.kernel.procs.touch(farpost_fabric::Peer(other), now);
            }
        }
    }

    /// A process runs until it waits.
    fn turn(&mut self, rank: u32) -> Done {
        let mut said = self.seats[rank as usize].waiting.take();
        loop {
            if let Some(question) = said.take()
                && let Some(done) = self.answer(rank, question)
            {
                return done;
            }
            match self.hear(rank) {
                Said::Something(bytes) => match self.take_in(rank, &bytes) {
                    Ok(question) => said = question,
                    Err(why) => return Done::Gone(why),
                },
                Said::Gone => return Done::Gone("its process has ended".into()),
                Said::Nothing => return Done::Late,
            }
        }
    }

    /// What the process says next, within its patience.
    fn hear(&mut self, rank: u32) -> Said {
        if self.within {
            let connection = self.seats[rank as usize].connection.as_mut();
            return connection.map_or(Said::Gone, |it| it.hear(Duration::ZERO));
        }
        let until = Instant::now() + self.settings.patience;
        loop {
            let seat = &mut self.seats[rank as usize];
            let Some(connection) = &mut seat.connection else {
                return Said::Gone;
            };
            let left = until.saturating_duration_since(Instant::now());
            match connection.hear(left.min(LOOK)) {
                Said::Nothing if left > LOOK => {
                    if !self.watch.go_on(&self.core) {
                        return Said::Gone;
                    }
                }
                said => return said,
            }
        }
    }

    /// Processes that were away and ask again have turns again.
    fn take_back(&mut self, wait: Duration) {
        let each = wait / (self.away.len() + self.resting.len()).max(1) as u32;
        for rank in self.away.clone() {
            let question = match self.hears(rank, each) {
                Ok(None) => continue,
                other => other,
            };
            self.away.retain(|other| *other != rank);
            self.returns(rank, question);
        }
        // What they say is that they are back: they have been told to go on.
        for rank in self.resting.clone() {
            let question = match self.says_something(rank, each) {
                Ok(false) => continue,
                Ok(true) => Ok(Some(Waiting::Slept)),
                Err(why) => Err(why),
            };
            self.resting.retain(|other| *other != rank);
            self.returns(rank, question);
        }
    }

    /// What a process asks that had no turn, if it does.
    fn hears(&mut self, rank: u32, wait: Duration) -> Result<Option<Waiting>, String> {
        let connection = self.seats[rank as usize].connection.as_mut();
        match connection.map(|it| it.hear(wait)) {
            Some(Said::Nothing) => Ok(None),
            Some(Said::Something(bytes)) => self.take_in(rank, &bytes),
            Some(Said::Gone) | None => Err("its process has ended".into()),
        }
    }

    /// Whether a process that rests says something.
    fn says_something(&mut self, rank: u32, wait: Duration) -> Result<bool, String> {
        let connection = self.seats[rank as usize].connection.as_mut();
        match connection.map(|it| it.hear(wait)) {
            Some(Said::Nothing) => Ok(false),
            Some(Said::Something(_)) => Ok(true),
            Some(Said::Gone) | None => Err("its process has ended".into()),
        }
    }

    /// A process that had no turn for an unknown time has turns again, or has ended.
    fn returns(&mut self, rank: u32, question: Result<Option<Waiting>, String>) {
        self.still = None;
        match question {
            Ok(question) => {
                self.seats[rank as usize].waiting = question;
                let now = self.core.kernel.now;
                self.core.kernel.procs.schedule.back(rank, now);
            }
            Err(why) => {
                self.seats[rank as usize].connection = None;
                self.core.kernel.procs.schedule.gone(rank);
                self.died(rank, &why);
            }
        }
    }

    fn wait_for_those_away(&mut self) -> Result<(), CoordinatorError> {
        let before = self.away.len() + self.resting.len();
        while self.away.len() + self.resting.len() == before && before > 0 {
            if self.away.is_empty() {
                self.stand_still(LOOK)?;
            } else {
                self.take_back(LOOK);
            }
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
        }
        Ok(())
    }
}
