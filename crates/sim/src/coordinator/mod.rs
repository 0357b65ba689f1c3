//! The run of a program whose processes are processes of their own, or stand for such within one: they ask, one at a time, and this carries out what they ask
//! on the machine.
//!
//! A process runs until it has asked something that it has to wait for; meanwhile all others stand still. What it does between two questions takes no
//! virtual time but what it says it spent.

mod questions;
mod sockets;

use crate::core::Core;
use crate::ranks::{Idle, RunError};
use crate::time::Ps;
use farpost_simlink::wire::Compute;
use questions::{Done, Seat};
pub use sockets::{Connection, Listener, Said, without_randomisation};
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
    /// Processes that ended before their time.
    dead: u32,
    watch: W,
    turns: u64,
}

/// Turns between two questions whether to go on.
const WATCHED: u64 = 1 << 12;
/// In this time of real time a launcher sees that a process has ended.
const LAUNCHER: Duration = Duration::from_millis(200);
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
            dead: 0,
            watch,
            turns: 0,
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
            let Some(rank) = self.core.next_rank() else {
                if self.away.is_empty() {
                    return Ok(());
                }
                self.wait_for_those_away()?;
                continue;
            };
            let done = self.turn(rank);
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
            let hangs = idle.count(&self.core, rank);
            if !self.away.is_empty() && idle.is_long(&self.core) {
                idle = Idle::default();
                self.wait_for_those_away()?;
            } else if hangs {
                return Err(idle.hang(&self.core).into());
            }
        }
    }

    /// A launcher that ends the job when a process has ended is to do so before others fail because they are told.
    fn let_the_launcher_see(&mut self) -> Result<(), CoordinatorError> {
        let until = Instant::now() + LAUNCHER;
        while Instant::now() < until {
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
            std::thread::sleep(LAUNCHER / 20);
        }
        Ok(())
    }

    /// A process has ended before its time: whoever waits hears of it.
    fn died(&mut self, rank: u32, why: &str) {
        let (peer, now) = (farpost_fabric::Peer(rank), self.core.kernel.now);
        self.core.kill(peer, why);
        self.dead += 1;
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
                    Ok(question) => said = Some(question),
                    Err(why) => return Done::Gone(why),
                },
                Said::Gone => return Done::Gone("its process has ended".into()),
                Said::Nothing => return Done::Late,
            }
        }
    }

    /// What the process says next, within its patience.
    fn hear(&mut self, rank: u32) -> Said {
        let within = self.seats[rank as usize].connection.as_mut();
        if let Some(connection) = within.filter(|connection| connection.is_within()) {
            return connection.hear(Duration::ZERO);
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
        for at in (0..self.away.len()).rev() {
            let rank = self.away[at];
            let Some(connection) = &mut self.seats[rank as usize].connection else {
                self.away.swap_remove(at);
                continue;
            };
            let said = connection.hear(wait);
            let question = match said {
                Said::Nothing => continue,
                Said::Something(bytes) => self.take_in(rank, &bytes),
                Said::Gone => Err("its process has ended".into()),
            };
            self.away.swap_remove(at);
            match question {
                Ok(question) => {
                    self.seats[rank as usize].waiting = Some(question);
                    let now = self.core.kernel.now;
                    self.core.kernel.procs.schedule.back(rank, now);
                }
                Err(why) => {
                    self.seats[rank as usize].connection = None;
                    self.died(rank, &why);
                }
            }
        }
    }

    fn wait_for_those_away(&mut self) -> Result<(), CoordinatorError> {
        let before = self.away.len();
        while self.away.len() == before && before > 0 {
            self.take_back(LOOK / before as u32);
            if !self.watch.go_on(&self.core) {
                return Err(CoordinatorError::NobodyLeft);
            }
        }
        Ok(())
    }
}
