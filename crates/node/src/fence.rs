//! All processes of a job meet, by messages on the fabric.
//!
//! The launcher's fence is for joining: it may wait on the connection to the launcher, which whoever meets a peer for the first
//! time needs too, to ask for the peer's address. Two such processes could wait for each other for ever. Here nothing is held while
//! somebody waits, and other messages move meanwhile.
//!
//! Dissemination barrier (Hensgen, Finkel, Manber, 1988): in round `r` a process tells the one `2^r` behind it, and waits for the one
//! `2^r` before it. After `log2(n)` rounds everybody has heard of everybody, of those too that somebody has missed because they
//! have ended.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use farpost_fabric::wait::{Backoff, Pause, Relax, WaitPolicy};
use farpost_fabric::{Fabric, FabricError, Fault, Peer, Port, Priority, TrySend};

/// A packet: one byte what it is, one the round, two nothing, four the number plus 1 of a process that will not come (0: none), eight
/// the turn.
const BYTES: usize = 16;
/// The sender has come to this round.
const HERE: u8 = 1;
/// Nothing. Only who talks to a process on another host learns that it has ended.
const PROBE: u8 = 2;
/// Time between two questions whether who is waited for has ended.
const ASK: Duration = Duration::from_millis(50);
/// Time after which who is waited for is sent a probe.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// What came for one turn.
#[derive(Clone, Copy, Default)]
struct Came {
    /// A bit a round.
    rounds: u32,
    /// The number plus 1 of a process that will not come.
    missing: u32,
}

/// The meeting of processes 0 to `members` of a fabric. Each has one of these, from the start of the job on.
pub struct Fence {
    members: u32,
    /// Meetings that this process has begun. Others may be one further, as soon as it has begun the last.
    turn: Cell<u64>,
    /// The next round of this meeting, and whether this process has told of it.
    round: Cell<(u32, bool)>,
    /// Of this turn and the next, by the lowest bit.
    came: RefCell<[Came; 2]>,
    inside: Cell<bool>,
}

/// How far a meeting has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Moved,
    /// All have come, or this one has ended and will not.
    Met(Option<Peer>),
}

impl Fence {
    /// Of the first `members` processes of a fabric.
    pub fn new(members: u32) -> Self {
        Self {
            members,
            turn: Cell::new(0),
            round: Cell::new((0, false)),
            came: RefCell::default(),
            inside: Cell::new(false),
        }
    }

    /// Wait until all have called this. `progress` moves whatever else there is to move and tells whether something did, `rest`
    /// says before a sleep how long it may last at most; `relax` is asked before each pause, with nothing borrowed.
    ///
    /// # Errors
    /// A sentence: a process has ended and will not come, which all others learn too; or another thread of this one is waiting here.
    pub fn wait<F: Fabric>(
        &self,
        fabric: &F,
        policy: &WaitPolicy,
        relax: Option<Relax>,
        mut progress: impl FnMut() -> bool,
        mut rest: impl FnMut() -> Duration,
    ) -> Result<(), String> {
        if self.inside.replace(true) {
            return Err("another thread of this process waits for the same already".into());
        }
        self.begin();
        let mut backoff = Backoff::default();
        let (began, mut asked, mut probed) = (fabric.now(), fabric.now(), None);
        let missing = loop {
            let moved = progress();
            match self.step(fabric) {
                Step::Met(missing) => break missing,
                Step::Nothing if !moved => {}
                _ => {
                    backoff.reset();
                    continue;
                }
            }
            let pause = backoff.pause(policy);
            if pause != Pause::Spin && fabric.now().since(asked) >= ASK {
                asked = fabric.now();
                if self.ask(fabric, &mut progress) {
                    continue;
                }
                let round = Some(self.round.get().0);
                if probed != round && fabric.now().since(began) >= PROBE_AFTER && self.probe(fabric) {
                    probed = round;
                }
            }
            if relax.is_some_and(|relax| relax(pause)) {
                continue;
            }
            match pause {
                Pause::Spin => policy.spin_once(),
                Pause::Yield => policy.give_way(),
                Pause::Sleep => {
                    let longest = rest().min(ASK);
                    let waits = |priority| fabric.packets_waiting(Port::Job, priority, 1) > 0;
                    fabric.sleep(longest, &mut || progress() || waits(Priority::High));
                }
            }
        };
        self.inside.set(false);
        match missing {
            None => Ok(()),
            Some(peer) => Err(format!(
                "not all processes of the job can come: {peer} has ended, or its host is out of reach"
            )),
        }
    }

    fn begin(&self) {
        let last = self.turn.replace(self.turn.get() + 1);
        self.came.borrow_mut()[(last % 2) as usize] = Came::default();
        self.round.set((0, false));
    }

    /// Who is told in a round, and who is waited for.
    fn partners(&self, me: Peer, round: u32) -> (Peer, Peer) {
        let distance = 1 << round;
        (
            Peer((me.0 + distance) % self.members),
            Peer((me.0 + self.members - distance) % self.members),
        )
    }

    fn packet(&self, what: u8, round: u32, missing: u32) -> [u8; BYTES] {
        let mut packet = [0; BYTES];
        packet[0] = what;
        packet[1] = round as u8;
        packet[4..8].copy_from_slice(&missing.to_le_bytes());
        packet[8..].copy_from_slice(&self.turn.get().to_le_bytes());
        packet
    }

    /// Go on as far as one can.
    fn step<F: Fabric>(&self, fabric: &F) -> Step {
        let mut moved = false;
        while fabric.poll_priority(Port::Job, Priority::High, |from, bytes| {
            self.take(fabric, from, bytes)
        }) {
            moved = true;
        }
        let now = (self.turn.get() % 2) as usize;
        loop {
            let (round, told) = self.round.get();
            let came = self.came.borrow()[now];
            if 1_u64 << round >= u64::from(self.members) {
                return Step::Met(came.missing.checked_sub(1).map(Peer));
            }
            if !told {
                let (to, _) = self.partners(fabric.me(), round);
                let packet = self.packet(HERE, round, came.missing);
                if fabric.try_send(to, Port::Job, Priority::High, &packet) == TrySend::Full {
                    return if moved { Step::Moved } else { Step::Nothing };
                }
                fabric.wake(to);
                self.round.set((round, true));
                moved = true;
            }
            if came.rounds >> round & 1 == 0 {
                return if moved { Step::Moved } else { Step::Nothing };
            }
            self.round.set((round + 1, false));
        }
    }

    /// What came is another process's writing: everything in it is checked.
    fn take<F: Fabric>(&self, fabric: &F, from: Peer, bytes: &[u8]) {
        if let Err((what, value)) = self.note(fabric.me(), from, bytes) {
            let error = FabricError::corrupt(from, what, value);
            fabric.record_fault(Fault { peer: from, error });
        }
    }

    fn note(&self, me: Peer, from: Peer, bytes: &[u8]) -> Result<(), (&'static str, u64)> {
        let &[what, round, _, _, a, b, c, d, ref turn @ ..] = bytes else {
            return Err(("the length of a packet of the job's fence", bytes.len() as u64));
        };
        let turn = <[u8; 8]>::try_from(turn).map(u64::from_le_bytes);
        let turn = turn.map_err(|_| ("the length of a packet of the job's fence", bytes.len() as u64))?;
        let (round, missing) = (u32::from(round), u32::from_le_bytes([a, b, c, d]));
        if what == PROBE {
            return Ok(());
        }
        if what != HERE {
            return Err(("the kind of a packet of the job's fence", u64::from(what)));
        }
        let known = round < u32::BITS && 1_u64 << round < u64::from(self.members);
        if !known || self.partners(me, round).1 != from {
            return Err(("the round of a packet of the job's fence", u64::from(round)));
        }
        if missing > self.members {
            return Err(("a process in a packet of the job's fence", u64::from(missing)));
        }
        let mut came = self.came.borrow_mut();
        let of = &mut came[(turn % 2) as usize];
        let now = self.turn.get();
        if turn != now && turn != now + 1 || of.rounds >> round & 1 != 0 {
            return Err(("the turn of a packet of the job's fence", turn));
        }
        of.rounds |= 1 << round;
        if of.missing == 0 {
            of.missing = missing;
        }
        Ok(())
    }

    /// Whether who is waited for has ended without a word. Then it counts as come, and as missing.
    fn ask<F: Fabric>(&self, fabric: &F, progress: &mut impl FnMut() -> bool) -> bool {
        let (round, _) = self.round.get();
        let (_, awaited) = self.partners(fabric.me(), round);
        if !fabric.is_gone(awaited) {
            return false;
        }
        // What it said before still counts.
        while progress() {}
        if self.step(fabric) != Step::Nothing {
            return true;
        }
        let of = &mut self.came.borrow_mut()[(self.turn.get() % 2) as usize];
        of.rounds |= 1 << round;
        if of.missing == 0 {
            of.missing = awaited.0 + 1;
        }
        true
    }

    /// Have something under way to who is waited for. False: try again.
    fn probe<F: Fabric>(&self, fabric: &F) -> bool {
        let (_, awaited) = self.partners(fabric.me(), self.round.get().0);
        let packet = self.packet(PROBE, 0, 0);
        fabric.try_send(awaited, Port::Job, Priority::High, &packet) == TrySend::Sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_fabric::inproc::{Config, InProc, Network};
    use farpost_fabric::{ErrorStatus, PacketQueue};

    const MANY: u32 = 100_000;

    fn fences(size: u32) -> Vec<Fence> {
        (0..size).map(|_| Fence::new(size)).collect()
    }

    /// Step all until they have met for the `turns`th time, in an order of the seed. Nobody may be through before all have begun.
    fn meet(ends: &[InProc], fences: &[Fence], turns: u64, seed: u64) {
        let mut seed = seed;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        let mut through = vec![0_u64; ends.len()];
        for _ in 0..MANY {
            let me = random(ends.len());
            let fence = &fences[me];
            if through[me] == turns {
                if through.iter().all(|turn| *turn == turns) {
                    return;
                }
                continue;
            }
            if fence.turn.get() == through[me] {
                fence.begin();
            }
            ends[me].progress();
            if let Step::Met(missing) = fence.step(&ends[me]) {
                assert_eq!(missing, None);
                through[me] += 1;
                assert!(
                    fences.iter().all(|other| other.turn.get() >= through[me]),
                    "{me} is through early"
                );
            }
        }
        panic!("they do not meet: {through:?}");
    }

    #[test]
    fn nobody_leaves_before_all_have_come() {
        for size in [1, 2, 3, 4, 5, 8, 13] {
            for seed in 1..=20 {
                let ends = Network::new(size, seed, Config::default());
                let fences = fences(size);
                meet(&ends, &fences, 5, seed);
                assert!(
                    ends.iter().all(|end| end.take_faults().0.is_empty()),
                    "{size} {seed}"
                );
            }
        }
    }

    /// Whoever has ended is missed by all, also by those who do not wait for it themselves, and not only once.
    #[test]
    fn who_has_ended_is_missed_by_all() {
        for size in [2, 3, 5, 8, 13] {
            let ends = Network::new(size, 7, Config::default());
            let fences = fences(size);
            let gone = size / 2;
            ends[0].network().kill(Peer(gone));
            for _ in 0..3 {
                let mut met = vec![None; size as usize];
                let others = || (0..size as usize).filter(|me| *me != gone as usize);
                others().for_each(|me| fences[me].begin());
                for _ in 0..MANY {
                    for me in others().filter(|me| met[*me].is_none()).collect::<Vec<_>>() {
                        match fences[me].step(&ends[me]) {
                            Step::Met(missing) => met[me] = Some(missing),
                            _ => _ = fences[me].ask(&ends[me], &mut || ends[me].progress()),
                        }
                    }
                    if others().all(|me| met[me].is_some()) {
                        break;
                    }
                }
                assert!(
                    others().all(|me| met[me] == Some(Some(Peer(gone)))),
                    "{size}: {met:?}"
                );
            }
        }
    }

    #[test]
    fn bad_packets_are_faults_and_change_nothing() {
        let ends = Network::new(4, 1, Config::default());
        let fences = fences(4);
        fences[0].begin();
        let good = |turn: u64| {
            let mut packet = [0; BYTES];
            packet[0] = HERE;
            packet[8..].copy_from_slice(&turn.to_le_bytes());
            packet
        };
        let with = |at: usize, value: u8| {
            let mut packet = good(1);
            packet[at] = value;
            packet
        };
        // In round 0 process 0 waits for 3, in round 1 for 2.
        let bad: [(u32, &[u8]); 9] = [
            (3, &[]),
            (3, &[HERE; 15]),
            (3, &[HERE; 17]),
            (3, &with(0, 77)),
            (3, &with(1, 1)),
            (3, &with(1, 255)),
            (3, &with(4, 5)),
            (3, &good(3)),
            (2, &good(1)),
        ];
        for (from, packet) in bad {
            fences[0].take(&ends[0], Peer(from), packet);
            let (faults, _) = ends[0].take_faults();
            assert_eq!(faults.len(), 1, "{from} {packet:?}");
            assert_eq!(faults[0].peer, Peer(from));
        }
        assert_eq!(
            fences[0].came.borrow().map(|came| (came.rounds, came.missing)),
            [(0, 0); 2]
        );
        for turn in [1, 2] {
            fences[0].take(&ends[0], Peer(3), &good(turn));
        }
        fences[0].take(&ends[0], Peer(2), &[PROBE; 16]);
        assert!(ends[0].take_faults().0.is_empty());
        fences[0].take(&ends[0], Peer(3), &good(2));
        assert_eq!(ends[0].take_faults().0.len(), 1, "twice");
        // Nothing of that is anybody else's.
        assert!(!ends[1].poll_packet(Port::Job, |_, _, _| ()));
    }
}
