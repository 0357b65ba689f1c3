//! Messages by PIO: the LogP signature of section 6.1.1.
//!
//! One SMP sends `m` messages and pauses `d` between them; the other answers each. The sender takes answers only when its transmit queue is full. Os is `T / m` for few
//! messages without a pause; Or is what a message takes more, in the steady state with a pause so long that the other side keeps up, less Os and the pause. (a) and (b) are JAM's own
//! primitives, with a cache line of words from any buffer; (c) are those of 64 bytes at once, which are the adapter's.

use super::machine;
use farpost_fabric::{Fabric, Peer, Port, Priority, TrySend, lane};
use farpost_jam::{Header, Jam, JamTunables};
use farpost_sim::adapter::{Pair, RECEIVE_COUNT, StarTx};
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use farpost_sim::time::Ps;
use std::rc::Rc;

/// Which primitives, and how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `ldd` and `std`, so many bytes with the header.
    Single(usize),
    /// `ldda` and `stda`, 64 bytes.
    Burst,
}

/// One end.
struct End {
    jam: Jam<SimFabric>,
    access: Access,
    other: Peer,
}

const BURST: [u8; 64] = [7; 64];

impl End {
    fn new(fabric: SimFabric, access: Access) -> Self {
        let other = Peer(1 - fabric.me().0);
        let jam = Jam::new(Rc::new(fabric), &JamTunables::default(), &Default::default());
        Self { jam, access, other }
    }

    fn time(&self) -> Ps {
        self.jam.fabric().time()
    }

    fn with_adapter<T>(
        &self,
        act: impl FnOnce(&mut StarTx, &mut farpost_sim::adapter::Kernel) -> (Ps, T),
    ) -> T {
        let fabric = self.jam.fabric();
        let me = fabric.me();
        fabric.with_core(|core| {
            let host = core.kernel.procs.host_of(me);
            let (adapter, kernel) = core.adapter_of(host);
            let adapter = adapter.as_any().downcast_mut().expect("StarT-X");
            let (time, given) = act(adapter, kernel);
            core.spend(me, time);
            given
        })
    }

    /// False: the transmit queue is full.
    fn try_send(&self) -> bool {
        match self.access {
            Access::Single(bytes) => {
                let me = self.jam.fabric().me();
                if !self.with_adapter(|adapter, kernel| adapter.takes(kernel, me, Priority::High)) {
                    return false;
                }
                let words = [7u32; 22];
                let header = Header::new(self.other, Priority::High, 1);
                self.jam.send(&header, &words[..bytes / 4 - 2]).is_ok()
            }
            Access::Burst => {
                let pair = Pair {
                    from: self.jam.fabric().me(),
                    to: self.other,
                };
                let lane = lane(Port::Jam, Priority::High);
                self.with_adapter(|adapter, kernel| adapter.send_burst(kernel, pair, lane, &BURST))
                    == TrySend::Sent
            }
        }
    }

    fn try_receive(&self) -> bool {
        match self.access {
            Access::Single(_) => self.jam.receive(Priority::High).is_some(),
            Access::Burst => {
                let (me, lane) = (self.jam.fabric().me(), lane(Port::Jam, Priority::High));
                self.with_adapter(|adapter, kernel| adapter.receive_burst(kernel, me, lane))
                    .is_some()
            }
        }
    }

    fn receive(&self) {
        while !self.try_receive() {
            self.pause();
        }
    }

    fn pause(&self) {
        let fabric = self.jam.fabric();
        fabric.wait_for_something(fabric.time() + Ps::from_nanos(1_000_000));
    }

    /// Send, without taking what comes.
    fn answer(&self) {
        while !self.try_send() {
            self.pause();
        }
    }

    /// Send, and take what comes while there is no room; how many that was.
    fn send(&self) -> u32 {
        let mut taken = 0;
        while !self.try_send() {
            // All that one status word tells of: its read is spread over them.
            let batch = (0..RECEIVE_COUNT).take_while(|_| self.try_receive()).count() as u32;
            taken += batch;
            if batch == 0 {
                self.pause();
            }
        }
        taken
    }
}

/// `T / m`.
pub fn signature(machine: &Machine, access: Access, m: u32, pause: Ps) -> Ps {
    let run = move |fabric: SimFabric| {
        let end = End::new(fabric, access);
        if end.jam.fabric().me() == Peer(1) {
            for _ in 0..m {
                end.receive();
                end.answer();
            }
            while end.jam.has_waiting() {
                end.jam.poll();
                end.pause();
            }
            return Ps::ZERO;
        }
        let begun = end.time();
        let mut taken = 0;
        for _ in 0..m {
            taken += end.send();
            end.jam.fabric().compute(pause);
        }
        let time = end.time() - begun;
        while end.jam.has_waiting() || taken < m {
            end.receive();
            taken += 1;
        }
        time
    };
    let (times, _) = ranks::run(machine::pair(machine), run).expect("no rank hangs");
    Ps(times[0].0 / u64::from(m))
}

/// The time of a round trip.
pub fn round_trip(machine: &Machine, access: Access) -> Ps {
    const TRIPS: u64 = 100;
    let run = move |fabric: SimFabric| {
        let end = End::new(fabric, access);
        let begun = end.time();
        for _ in 0..TRIPS {
            if end.jam.fabric().me() == Peer(0) {
                end.send();
                end.receive();
            } else {
                end.receive();
                end.answer();
            }
        }
        end.time() - begun
    };
    let (times, _) = ranks::run(machine::pair(machine), run).expect("no rank hangs");
    Ps(times[0].0 / TRIPS)
}

/// What a message of a stream takes that nobody answers.
fn gap(machine: &Machine, access: Access) -> Ps {
    const MESSAGES: u64 = 300;
    let run = move |fabric: SimFabric| {
        let end = End::new(fabric, access);
        let begun = end.time();
        for _ in 0..MESSAGES {
            match end.jam.fabric().me() {
                Peer(0) => end.answer(),
                _ => end.receive(),
            }
        }
        while end.jam.has_waiting() {
            end.jam.poll();
            end.pause();
        }
        end.time() - begun
    };
    let (times, _) = ranks::run(machine::pair(machine), run).expect("no rank hangs");
    Ps(times[1].0 / MESSAGES)
}

/// The parameters of the LogP model, in microseconds, and the plateau without a pause.
#[derive(Clone, Copy, Debug)]
pub struct LogP {
    pub os: f64,
    pub or: f64,
    pub half: f64,
    pub l: f64,
    pub plateau: f64,
    /// Of a stream without answers.
    pub gap: f64,
}

pub fn measure(machine: &Machine, access: Access) -> LogP {
    let micros = |m: u32, pause: f64| signature(machine, access, m, Ps::from_secs(pause * 1e-6)).micros();
    // The slope between two numbers of messages: what comes before queues are full cancels out.
    let steady = |pause| {
        let (few, many) = (200, 400);
        (micros(many, pause) * f64::from(many) - micros(few, pause) * f64::from(few)) / f64::from(many - few)
    };
    let os = micros(20, 0.0);
    let long = 40.0;
    let or = steady(long) - long - os;
    let half = round_trip(machine, access).micros() / 2.0;
    LogP {
        os,
        or,
        half,
        l: half - os - or,
        plateau: steady(0.0),
        gap: gap(machine, access).micros(),
    }
}
