//! The policy of a listener towards those who have not proved themselves: how many may wait, for how long, who is
//! dropped first. No sockets, no clock: times are arguments.
//!
//! Memory is what [`Gate::new`] takes, and 16 bytes for each first message of a member of the job, up to a bound: the same
//! message once more is a recording. Nobody is shut out for good: an address that strangers use may
//! be a peer's too, so a bad name makes an address's connections the first to be dropped and shortens the time they
//! get, and it fades.
//!
//! Cost class: *set-up path*, linear in the places; nothing while nobody waits.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::refusal::{Reason, Refusal};

/// Addresses whose behaviour is remembered.
const SOURCES: usize = 64;
/// Refusals after which an address has a bad name.
const BAD_NAME: u32 = 8;
/// First messages that are remembered: of every connection that members of the job make, one.
const HEARD: usize = 1 << 16;
/// The time after which half of an address's refusals are forgotten.
const FADES: Duration = Duration::from_secs(10);
/// The time that a connection is left in peace even if others want its place: many peers that connect at once must
/// not drive each other out. Meanwhile those others wait in the kernel's queue, where they cost nothing.
const PEACE: Duration = Duration::from_millis(100);

/// How many may wait and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that may wait at once.
    pub places: usize,
    /// Time for a connection to send its first message.
    pub patience: Duration,
    /// Time, from then on, for it to show that this was no recording. Longer: it is a member of the job in all
    /// likelihood, which may be computing.
    pub known_patience: Duration,
}

/// A connection that waits, by the number it has here. Places are used again; a `GateSlot` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GateSlot {
    at: u32,
    turn: u32,
}

impl GateSlot {
    fn new(at: usize, turn: u32) -> Self {
        Self { at: at as u32, turn }
    }

    /// The number of the place, below [`Limits::places`]: an index for what the caller keeps about the connection.
    pub fn index(self) -> usize {
        self.at as usize
    }
}

/// The answer to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may wait. If `drop` names another, close that one now, before the place is used: it is counted already.
    Wait {
        /// Where it waits.
        place: GateSlot,
        /// Who has to go for it; the place of that name has the same index as `place`.
        drop: Option<GateSlot>,
    },
    /// Close it: everybody who waits has a better claim. It is counted already.
    TurnAway,
}

#[derive(Clone, Copy)]
struct Waiting {
    since: Instant,
    deadline: Instant,
    source: IpAddr,
    known: bool,
}

#[derive(Clone, Copy)]
struct Source {
    address: IpAddr,
    refusals: u32,
    seen: Instant,
}

/// What happened at a [`Gate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections that came.
    pub came: u64,
    /// Connections that proved themselves.
    pub passed: u64,
    /// Refused, by [`Reason`].
    pub refused: [u64; Reason::COUNT],
    /// By reason, the address it was last seen from.
    pub last: [Option<IpAddr>; Reason::COUNT],
}

impl Tally {
    /// All refusals.
    pub fn all_refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// For people: "3 wrong secret (last from 192.0.2.7), 1 replay (last from 192.0.2.9)". Empty without refusals.
    pub fn sentence(&self) -> String {
        let mut out = String::new();
        for (at, reason) in Reason::ALL.iter().enumerate() {
            if self.refused[at] == 0 {
                continue;
            }
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(&format!("{} {}", self.refused[at], reason.label()));
            if let Some(from) = self.last[at] {
                out.push_str(&format!(" (last from {from})"));
            }
        }
        out
    }
}

/// Who waits at the door.
pub struct Gate {
    limits: Limits,
    places: Box<[(u32, Option<Waiting>)]>,
    waiting: usize,
    sources: Vec<Source>,
    tally: Tally,
    /// The first messages of members, the latest last.
    heard: HashSet<[u8; 16]>,
    in_order: VecDeque<[u8; 16]>,
}

impl Gate {
    /// With nobody waiting.
    pub fn new(limits: Limits) -> Self {
        Gate {
            limits,
            places: vec![(0, None); limits.places.max(1)].into_boxed_slice(),
            waiting: 0,
            sources: Vec::with_capacity(SOURCES),
            tally: Tally::default(),
            heard: HashSet::new(),
            in_order: VecDeque::new(),
        }
    }

    /// Whether to accept another connection now.
    ///
    /// # Errors
    /// All places are taken by connections that shall be left in peace: leave it in the kernel's queue until that
    /// time, or until one of those that wait is through or gone.
    pub fn room(&self, now: Instant) -> Result<(), Instant> {
        if self.waiting < self.places.len() {
            return Ok(());
        }
        let Some(w) = self.places[self.least_claim(now)].1 else {
            return Ok(());
        };
        let at = w.since + if w.known { self.limits.patience } else { PEACE };
        if at <= now { Ok(()) } else { Err(at) }
    }

    /// A connection was accepted.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> Admission {
        self.tally.came += 1;
        let bad = self.bad_name(now, source);
        let (at, drop) = if self.waiting < self.places.len() {
            let free = self.places.iter().position(|(_, w)| w.is_none());
            (free.expect("fewer wait than there are places"), None)
        } else {
            let at = self.least_claim(now);
            let (turn, waiting) = self.places[at];
            let theirs = waiting.expect("all places are taken");
            if bad && (theirs.known || !self.bad_name(now, theirs.source)) {
                self.count(Reason::Crowded, source);
                return Admission::TurnAway;
            }
            self.count(Reason::Crowded, theirs.source);
            let gone = GateSlot::new(at, turn);
            self.free(gone);
            (at, Some(gone))
        };
        let patience = if bad {
            self.limits.patience / 4
        } else {
            self.limits.patience
        };
        let (turn, waiting) = &mut self.places[at];
        *turn = turn.wrapping_add(1);
        *waiting = Some(Waiting {
            since: now,
            deadline: now + patience,
            source,
            known: false,
        });
        let place = GateSlot::new(at, *turn);
        self.waiting += 1;
        Admission::Wait { place, drop }
    }

    /// The connection's first message was right ([`Handshake::is_known`](super::Handshake::is_known)), and is that one
    /// ([`Handshake::hello`](super::Handshake::hello)). To be asked before it is answered.
    ///
    /// # Errors
    /// [`Refusal::Replay`]: a message like it has come before, so that this one is a recording. Close the connection; who
    /// plays recordings holds no place and has no better claim than other strangers.
    pub fn known(&mut self, place: GateSlot, now: Instant, hello: [u8; 16]) -> Result<(), Refusal> {
        if self.find(place).is_none_or(|w| w.known) {
            return Ok(());
        }
        if !self.heard.insert(hello) {
            return Err(Refusal::Replay);
        }
        self.in_order.push_back(hello);
        if self.in_order.len() > HEARD
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.heard.remove(&oldest);
        }
        let patience = self.limits.known_patience;
        if let Some(w) = self.find(place) {
            w.known = true;
            w.deadline = now + patience;
        }
        Ok(())
    }

    /// The handshake is done: the connection no longer waits here, and its address has a good name.
    pub fn passed(&mut self, place: GateSlot) {
        if let Some(w) = self.free(place) {
            self.tally.passed += 1;
            self.sources.retain(|s| s.address != w.source);
        }
    }

    /// The connection was refused, ended, or was too slow, and is closed.
    pub fn refused(&mut self, place: GateSlot, now: Instant, why: &Refusal) {
        if let Some(w) = self.free(place) {
            self.count(why.into(), w.source);
            self.remember(now, w.source);
        }
    }

    /// The caller has closed the connection for a good reason: it is none that was refused.
    pub fn withdrawn(&mut self, place: GateSlot) {
        self.free(place);
    }

    /// Where a connection comes from.
    pub fn source(&self, place: GateSlot) -> Option<IpAddr> {
        let mut taken = self.taken();
        taken.find_map(|(at, waiting)| (at == place).then_some(waiting.source))
    }

    /// A connection whose time has passed. Read once more from it before calling it late: this process itself may have
    /// been away. Then it is to be closed and [`Gate::refused`].
    pub fn overdue(&self, now: Instant) -> Option<GateSlot> {
        self.taken().find(|(_, w)| w.deadline <= now).map(|(p, _)| p)
    }

    /// When [`Gate::overdue`] will next have something to say.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.taken().map(|(_, w)| w.deadline).min()
    }

    /// How many wait.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// What happened so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn taken(&self) -> impl Iterator<Item = (GateSlot, &Waiting)> {
        let all = if self.waiting == 0 {
            &[][..]
        } else {
            &self.places[..]
        };
        all.iter()
            .enumerate()
            .filter_map(|(at, (turn, w))| Some((GateSlot::new(at, *turn), w.as_ref()?)))
    }

    fn find(&mut self, place: GateSlot) -> Option<&mut Waiting> {
        let (turn, waiting) = self.places.get_mut(place.index())?;
        waiting.as_mut().filter(|_| *turn == place.turn)
    }

    fn free(&mut self, place: GateSlot) -> Option<Waiting> {
        let gone = *self.find(place)?;
        self.places[place.index()].1 = None;
        self.waiting -= 1;
        Some(gone)
    }

    /// Of those who wait: strangers before the known, bad names before good ones, the oldest first.
    fn least_claim(&self, now: Instant) -> usize {
        let claim = |w: &Waiting| (w.known, !self.bad_name(now, w.source), w.since);
        self.taken()
            .min_by_key(|(_, w)| claim(w))
            .map_or(0, |(p, _)| p.index())
    }

    fn count(&mut self, reason: Reason, source: IpAddr) {
        self.tally.refused[reason as usize] += 1;
        self.tally.last[reason as usize] = Some(source);
    }

    fn bad_name(&self, now: Instant, address: IpAddr) -> bool {
        let found = self.sources.iter().find(|s| s.address == address);
        found.is_some_and(|s| faded(s, now) >= BAD_NAME)
    }

    fn remember(&mut self, now: Instant, address: IpAddr) {
        if let Some(s) = self.sources.iter_mut().find(|s| s.address == address) {
            s.refusals = faded(s, now).saturating_add(1);
            s.seen = now;
            return;
        }
        let new = Source {
            address,
            refusals: 1,
            seen: now,
        };
        if self.sources.len() < SOURCES {
            self.sources.push(new);
        } else if let Some(least) = self.sources.iter_mut().min_by_key(|s| (faded(s, now), s.seen)) {
            *least = new;
        }
    }
}

/// An address's refusals, of which time has taken some.
fn faded(s: &Source, now: Instant) -> u32 {
    let halvings = now.saturating_duration_since(s.seen).as_secs() / FADES.as_secs();
    s.refusals
        .checked_shr(halvings.min(u64::from(u32::MAX)) as u32)
        .unwrap_or(0)
}

impl core::fmt::Debug for Gate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "Gate({} of {} wait, {} passed, {} refused)",
            self.waiting,
            self.places.len(),
            self.tally.passed,
            self.tally.all_refused()
        )
    }
}
