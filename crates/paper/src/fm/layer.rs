//! The configurations of the paper's Table 4, and how they are measured.

use super::machine::{core, lanai, with};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_fm::{Buffers, Fm, FmConfig, FmTunables, Interpret, LONG_WORDS};
use farpost_sim::adapter::AdapterEvent;
use farpost_sim::adapter::lanai::{Alone, Event};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::net::HostId;
use farpost_sim::ranks;
use farpost_sim::time::Ps;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Round trips of a latency (paper, section 4.1).
const ROUNDS: u32 = 50;
/// What a handler-carrying message has besides its payload: as Fast Messages' own header.
const HEADER: usize = farpost_fm::wire::HEADER_BYTES;
/// The handlers' number.
const HANDLER: u32 = 1;
/// Who waits looks again after this.
const PATIENCE: Ps = Ps::from_nanos(1_000_000);

type Node = Fm<SimFabric, LONG_WORDS>;

/// A configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// LANais without hosts, and without instructions: appendix A.
    Theoretical,
    /// LANais without hosts (section 4.2).
    Baseline,
    Streamed,
    /// A host program that hands packets over, and one that polls (4.3).
    Hybrid,
    AllDma,
    /// With buffer management (4.4).
    Managed,
    ManagedSwitch,
    /// Fast Messages: with flow control (4.5).
    Fm,
    FmSwitch,
}

impl Layer {
    pub const ALL: [Self; 9] = [
        Self::Theoretical,
        Self::Baseline,
        Self::Streamed,
        Self::Hybrid,
        Self::AllDma,
        Self::Managed,
        Self::ManagedSwitch,
        Self::Fm,
        Self::FmSwitch,
    ];

    /// As rows and curves call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Theoretical => "theoretical peak",
            Self::Baseline => "baseline",
            Self::Streamed => "streamed",
            Self::Hybrid => "hybrid",
            Self::AllDma => "all-DMA",
            Self::Managed => "hybrid + buffer management",
            Self::ManagedSwitch => "hybrid + buffer management + switch()",
            Self::Fm => "Fast Messages",
            Self::FmSwitch => "Fast Messages + switch()",
        }
    }

    /// The machine that runs it, for messages of so many bytes at most.
    fn machine(self, machine: &Machine, bytes: u32) -> Machine {
        let frame = lanai(machine).frame.0.max(u64::from(bytes));
        let mut it = with(machine, "adapter.lanai.frame", &format!("{frame} B"));
        let mut set = |path: &str, value: &str| it = with(&it, &format!("adapter.lanai.{path}"), value);
        if self == Self::Baseline {
            set("program", "baseline");
        }
        if self == Self::AllDma {
            set("bus", "all-dma");
        }
        if self <= Self::AllDma {
            set("manage_buffers", "false");
        }
        if matches!(self, Self::ManagedSwitch | Self::FmSwitch) {
            set("interpret", "true");
        }
        if self == Self::Theoretical {
            for path in ["streamed", "receive"] {
                it = it
                    .scaled(&format!("adapter.lanai.{path}"), 1e-9)
                    .expect("a number of the machine");
            }
        }
        it
    }

    /// What packets of `bytes` take each, in a stream of so many: at the receiver, when the queues are as full as they get.
    pub fn period(self, machine: &Machine, bytes: u32, packets: u32) -> Ps {
        let machine = self.machine(machine, bytes);
        match self {
            Self::Theoretical => alone_period(&machine, bytes - lanai(&machine).header.0 as u32, packets),
            Self::Baseline | Self::Streamed => alone_period(&machine, bytes, packets),
            Self::Fm | Self::FmSwitch => fm_period(&machine, bytes as usize, packets),
            _ => thin_period(&machine, bytes as usize, packets),
        }
    }

    /// The way of a packet: half of a round trip.
    pub fn latency(self, machine: &Machine, bytes: u32) -> Ps {
        let machine = self.machine(machine, bytes);
        match self {
            // The formula of appendix A ends where the packet is before the receiving LANai.
            Self::Theoretical => {
                let wire = bytes - lanai(&machine).header.0 as u32;
                register(&mut run_alone(&machine, wire, (1, 0, 0)), 1, "arrived_at")
            }
            Self::Baseline | Self::Streamed => {
                let mut core = run_alone(&machine, bytes, (1, ROUNDS - 1, ROUNDS));
                Ps(register(&mut core, 0, "received_at").0 / (2 * u64::from(ROUNDS)))
            }
            Self::Fm | Self::FmSwitch => fm_latency(&machine, bytes as usize),
            _ => thin_latency(&machine, bytes as usize),
        }
    }
}

// LANais alone.

/// The first LANai sends packets and answers, the second answers.
fn run_alone(machine: &Machine, bytes: u32, (packets, answers, back): (u32, u32, u32)) -> Core {
    let mut core = core(machine, 2);
    for (host, packets, answers) in [(0, packets, answers), (1, 0, back)] {
        let alone = Alone {
            to: HostId(1 - host),
            bytes,
            packets,
            answers,
        };
        let event = AdapterEvent::Lanai(Event::Alone(alone));
        core.kernel.at(Ps::ZERO, HostId(host), event);
    }
    while core.step() {}
    core
}

fn register(core: &mut Core, host: u32, name: &str) -> Ps {
    let all = core.adapter_of(HostId(host)).0.registers();
    let found = all.into_iter().find(|(register, _)| register == name);
    Ps(found.expect("a register of the LANai").1)
}

fn alone_period(machine: &Machine, bytes: u32, packets: u32) -> Ps {
    let end = |packets| {
        let mut core = run_alone(machine, bytes, (packets, 0, 0));
        register(&mut core, 1, "received_at")
    };
    let more = u64::from(packets / 2);
    Ps((end(packets) - end(packets - packets / 2)).0 / more)
}

// Host programs.

/// Time between the packets after the first two fifths.
struct Stream {
    seen: Cell<u32>,
    packets: u32,
    begun: Cell<Ps>,
    ended: Cell<Ps>,
}

impl Stream {
    fn new(packets: u32) -> Self {
        Self {
            seen: Cell::new(0),
            packets,
            begun: Cell::new(Ps::ZERO),
            ended: Cell::new(Ps::ZERO),
        }
    }

    fn warm_up(&self) -> u32 {
        self.packets * 2 / 5
    }

    fn saw_one(&self, now: Ps) {
        self.seen.set(self.seen.get() + 1);
        if self.seen.get() == self.warm_up() {
            self.begun.set(now);
        }
        self.ended.set(now);
    }

    fn is_over(&self) -> bool {
        self.seen.get() == self.packets
    }

    fn period(&self) -> Ps {
        let count = u64::from(self.packets - self.warm_up());
        Ps((self.ended.get() - self.begun.get()).0 / count)
    }
}

/// What each rank's body gave.
fn run(machine: &Machine, body: impl Fn(SimFabric) -> Ps) -> Vec<Ps> {
    let ended = ranks::run(core(machine, 2), body);
    ended.expect("nobody waits for ever").0
}

fn thin_send(end: &SimFabric, call: Ps, packet: &[u8]) {
    end.compute(call);
    while end.try_send(Peer(1 - number(end)), Port::Fm, Priority::Low, packet) == TrySend::Full {}
}

fn number(end: &SimFabric) -> u32 {
    end.me().0
}

/// A packet, once there is one.
fn thin_receive(end: &SimFabric, handle: Ps) {
    while !end.poll_priority(Port::Fm, Priority::Low, |_, _| {}) {
        end.wait_for_something(end.time() + PATIENCE);
    }
    end.compute(handle);
}

fn thin_period(machine: &Machine, bytes: usize, packets: u32) -> Ps {
    let (call, handle) = (machine.software.fm_send.value, machine.software.fm_extract.value);
    let packet = vec![1; bytes + HEADER];
    let times = run(machine, move |end| {
        let stream = Stream::new(packets);
        for _ in 0..packets {
            if number(&end) == 0 {
                thin_send(&end, call, &packet);
            } else {
                thin_receive(&end, handle);
                stream.saw_one(end.time());
            }
        }
        stream.period()
    });
    times[1]
}

fn thin_latency(machine: &Machine, bytes: usize) -> Ps {
    let (call, handle) = (machine.software.fm_send.value, machine.software.fm_extract.value);
    let packet = vec![1; bytes + HEADER];
    let times = run(machine, move |end| {
        for _ in 0..ROUNDS {
            if number(&end) == 0 {
                thin_send(&end, call, &packet);
                thin_receive(&end, handle);
            } else {
                thin_receive(&end, handle);
                thin_send(&end, call, &packet);
            }
        }
        end.time()
    });
    Ps(times[0].0 / (2 * u64::from(ROUNDS)))
}

// Fast Messages.

/// FM 1.0 as in the paper. Its queues are the LANai's and the host's DMA region, which are the adapter's, so the node has none of its own; who has no slot in
/// the reject queue waits. Who looks into frames is the host, or with `switch()` the LANai, which the machine charges for.
fn node(end: SimFabric, bytes: usize, slots: u32) -> Node {
    let config = FmConfig {
        lengths: FmTunables {
            slots: u64::from(slots),
            ..FmTunables::default()
        },
        frame: bytes.max(farpost_fm::FRAME_PAYLOAD),
        buffers: Buffers::None,
        flow_control: true,
        interpret: Interpret::Host,
    };
    Fm::with_config(Rc::new(end), &config, &WaitTunables::default(), 4).expect("a frame that fits")
}

/// Extract until the handler has said that it is enough.
fn extract_until(fm: &Node, enough: impl Fn() -> bool) {
    while !enough() {
        if fm.extract(usize::MAX) == 0 {
            fm.fabric().wait_for_something(fm.fabric().time() + PATIENCE);
        }
    }
}

fn fm_period(machine: &Machine, bytes: usize, packets: u32) -> Ps {
    let slots = lanai(machine).reject_queue.0;
    let times = run(machine, move |end| {
        let me = number(&end);
        let fm = node(end, bytes, slots);
        let stream = Rc::new(Stream::new(packets));
        let seen = Rc::clone(&stream);
        fm.register_message_handler(HANDLER, move |fm, _, _| seen.saw_one(fm.fabric().time()))
            .expect("a free number");
        if me == 0 {
            let message = vec![1; bytes];
            for _ in 0..packets {
                fm.send(1, HANDLER, &message).expect("it is sent");
            }
        } else {
            extract_until(&fm, || stream.is_over());
        }
        fm.settle(Duration::from_millis(5));
        stream.period()
    });
    times[1]
}

fn fm_latency(machine: &Machine, bytes: usize) -> Ps {
    let slots = lanai(machine).reject_queue.0;
    let times = run(machine, move |end| {
        let me = number(&end);
        let fm = node(end, bytes, slots);
        let got = Rc::new(Cell::new(0));
        let counts = Rc::clone(&got);
        fm.register_message_handler(HANDLER, move |_, _, _| counts.set(counts.get() + 1))
            .expect("a free number");
        let message = vec![1; bytes];
        let send = || fm.send(1 - me, HANDLER, &message).expect("it is sent");
        for round in 1..=ROUNDS {
            if me == 0 {
                send();
            }
            extract_until(&fm, || got.get() >= round);
            if me == 1 {
                send();
            }
        }
        let time = fm.fabric().time();
        fm.settle(Duration::from_millis(5));
        time
    });
    Ps(times[0].0 / (2 * u64::from(ROUNDS)))
}
