//! Portals 3.3 on the Cray XT3 (Brightwell, Hudson, Pedretti, Riesen and Underwood, 2005): rows P1 to P18, figures 4 to 7.
//!
//! The tests are NetPIPE's, with Farpost's Portals ([`netpipe`]) and MPI over it ([`mpi`]) on two neighbours of the machine `xt3`. Fitted are six numbers: what
//! the host's library does with a header (P1), the firmware's cycles for a command (P2; its other steps follow it), the code of MPICH-1.2.6 (P3) and of
//! MPICH2 (P4, [`fit`]), the rate of the transmit engine (P6), and the bytes that the buffers between two hosts hold (P7). All other rows follow. Constants that
//! nobody publishes and no row was fitted to (calls, events, an access over HyperTransport) are marked as assumed in `machines/xt3.toml`, with the values that they had before there were rows.
//!
//! What the model assumes where the paper leaves it open:
//!
//! - *A reply makes no interrupt for its header.* The paper's get takes 1.21 us more than a put, in which there is no second interrupt of 2 us. A reply names the
//!   operation that waits for it, so nothing is to be matched.
//! - *The limit of 1.11 GB/s is reading the host's memory.* Writes go at the rate of HyperTransport, so that what has waited in the buffers drains faster.
//! - *Put latency of one byte and of none are the same*: the paper calls its number either.
//! - *P9 is too small by a third*: in a stream the header of the next message is there before the handler that was called for the end of the last one has
//!   ended, and that pass drains both (section 4.1), so that a message costs the receiver one interrupt. The paper's 5 KB are 4.6 us for each message, nearly
//!   two interrupts. By which cost it is, with each off in turn (3.2 KB with all): interrupts 2.0 KB, the library's work at the receiver 1.9, calls, traps, stores and each step of the firmware
//!   3.1 or more. The firmware raises an interrupt for the drained header too (section 4.3). If that took an empty pass before the host matches, P9 would be 5.4 KB, but gets would then lose only
//!   1.4 times in streams (P10); if after, as the handler matches in its own pass, it would be hidden behind the body, 3.2 KB. The paper does not say which of both its kernel does.

pub mod exhaustion;
mod figures;
pub mod machine;
pub mod mpi;
pub mod netpipe;

use crate::row::TOLERANCE;
use crate::{Class, Effort, Expected, Fit, Origin, Paper, Results, Row, Unit, fit};
use farpost_sim::machine::{AdapterSpec, Machine};
use farpost_sim::net::HostId;
use farpost_sim::time::Ps;
use netpipe::Test;

/// What MPICH2's code costs at each end of a message: fitted to P4. MPICH-1.2.6's is in the machine's file.
pub const MPICH2: &str = "1.503 us";
/// The number of this model that is not in the machine's file.
pub fn fit() -> Fit {
    Fit::new("the code of MPICH2 at each end", MPICH2, &["P4"])
}

/// The longest message of the paper's figures.
const LONGEST: usize = 8 << 20;

/// The machine with MPICH2 on it, whose code costs so much at each end.
///
/// # Panics
/// When that is no time.
pub fn mpich2(machine: &Machine, code: &str) -> Machine {
    let machine = machine.with("software.mpi_send", code).expect("a time");
    machine.with("software.mpi_receive", code).expect("a time")
}

/// Bytes a second of messages of `len` bytes.
fn bandwidth(time: Ps, len: usize) -> f64 {
    len as f64 / time.secs()
}

/// The shortest message that moves at half of `peak`, within 16 bytes.
fn half_bandwidth(machine: &Machine, test: Test, peak: f64) -> f64 {
    let reaches = |len: usize| bandwidth(netpipe::time(machine, test, len), len) >= peak / 2.0;
    let (mut below, mut above) = (128, 64 << 10);
    while above - below > 16 {
        let middle = usize::midpoint(below, above);
        if reaches(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    above as f64
}

struct RowTable(Vec<Row>);

impl RowTable {
    fn add(&mut self, id: &str, what: &str, kind: (Class, Origin, Unit), expected: Expected, simulated: f64) {
        self.0.push(Row {
            id: id.into(),
            what: what.into(),
            class: kind.0,
            origin: kind.1,
            unit: kind.2,
            expected,
            simulated,
            null_model: None,
            note: String::new(),
        });
    }

    fn holds(&mut self, id: &str, what: &str, class: Class, holds: bool) {
        let kind = (class, Origin::Predicted, Unit::Plain);
        self.add(id, what, kind, Expected::Holds, f64::from(u8::from(holds)));
    }

    fn note(&mut self, note: &str) {
        if let Some(row) = self.0.last_mut() {
            row.note = note.into();
        }
    }
}

const TIME: (Class, Origin, Unit) = (Class::Absolute, Origin::Predicted, Unit::Micros);
const RATE: (Class, Origin, Unit) = (Class::Absolute, Origin::Predicted, Unit::Megabytes);
const SIZE: (Class, Origin, Unit) = (Class::Absolute, Origin::Predicted, Unit::Bytes);

/// The paper's experiments.
///
/// # Panics
/// When the machine's file, which is built in, cannot be read.
pub fn run(effort: Effort) -> Results {
    let machine = Machine::open("xt3").expect("the machine is built in");
    run_on(&machine, MPICH2, effort)
}

/// On a machine that may differ from the paper's.
pub fn run_on(machine: &Machine, code: &str, effort: Effort) -> Results {
    Results {
        rows: rows_on(machine, code),
        figures: figures::all(machine, &mpich2(machine, code), effort),
    }
}

/// The rows alone.
pub fn rows_on(machine: &Machine, code: &str) -> Vec<Row> {
    let mut table = RowTable(Vec::new());
    latencies(&mut table, machine, code);
    bandwidths(&mut table, machine, code);
    offloaded(&mut table, machine);
    structures(&mut table, machine);
    fit::mark(Paper::Xt3, vec![fit()], &mut table.0);
    table.0
}

fn latencies(table: &mut RowTable, machine: &Machine, code: &str) {
    use Expected::{AtLeast, AtMost, Value};
    let put = |len| netpipe::time(machine, Test::PingPong, len);
    let get = netpipe::time(machine, Test::Get, 1).micros();
    let mpi = |machine: &Machine| mpi::time(machine, Test::PingPong, 1).micros();
    table.add("P1", "put, one byte", TIME, Value(5.39), put(1).micros());
    table.note("the paper calls it one byte (section 6) and zero length (section 7)");
    table.add("P2", "get, one byte", TIME, Value(6.60), get);
    table.add("P3", "MPICH-1.2.6, one byte", TIME, Value(7.97), mpi(machine));
    let two = mpi(&mpich2(machine, code));
    table.add("P4", "MPICH2, one byte", TIME, Value(8.40), two);
    let step = (put(13) - put(12)).micros();
    let ratio = (Class::Ratio, Origin::Predicted, Unit::Micros);
    table.add(
        "P5",
        "step behind 12 bytes: an interrupt",
        ratio,
        AtLeast(2.0),
        step,
    );
    let times: Vec<f64> = (1..=24).map(|len| put(len).micros()).collect();
    let highest = times.windows(2).enumerate().max_by(|(_, a), (_, b)| {
        let rise = |pair: &[f64]| pair[1] - pair[0];
        rise(a).total_cmp(&rise(b))
    });
    let last = highest.map_or(0, |(at, _)| at + 1);
    table.add(
        "P5.at",
        "longest message without it",
        SIZE,
        Value(12.0),
        last as f64,
    );
    table.add(
        "P13.latency",
        "zero-length put",
        TIME,
        AtMost(6.0),
        put(0).micros(),
    );
    let input = (Class::Absolute, Origin::Input, Unit::Micros);
    table.add(
        "P14.trap",
        "NULL trap of Catamount",
        input,
        Value(0.075),
        machine.host.trap.micros(),
    );
    table.note("an input of the model");
    table.add(
        "P14.interrupt",
        "an interrupt",
        input,
        AtLeast(2.0),
        machine.host.interrupt.micros(),
    );
    table.note("an input of the model");
    let (near, far) = (to_node(machine, 1), to_node(machine, farthest(machine)));
    table.add(
        "P16",
        "farthest node more than nearest",
        TIME,
        AtMost(3.0),
        (far - near).micros(),
    );
    table.note("what was required: 2 us to the nearest and 5 us to the farthest; this software was far from the first");
}

/// The node with most hops from node 0: the far corner of a mesh, halfway round where there are rings.
fn farthest(machine: &Machine) -> u32 {
    let farpost_sim::machine::TopologySpec::Torus(torus) = &machine.topology else {
        return 1;
    };
    let [x, y, z] = [0, 1, 2].map(|dimension| {
        let size = torus.dimensions[dimension].0;
        if torus.rings[dimension] {
            size / 2
        } else {
            size - 1
        }
    });
    x + torus.dimensions[0].0 * (y + torus.dimensions[1].0 * z)
}

/// A put from node 0 to another one, in the whole machine.
fn to_node(machine: &Machine, node: u32) -> Ps {
    let core = machine::core(machine, machine.host.hosts.0, &[HostId(0), HostId(node)], 1);
    netpipe::time_on(core, Test::PingPong, 1)
}

fn bandwidths(table: &mut RowTable, machine: &Machine, code: &str) {
    use Expected::{AtLeast, Either, Value};
    let put = |test, len| bandwidth(netpipe::time(machine, test, len), len);
    let mpi = |machine: &Machine, test, len| bandwidth(mpi::time(machine, test, len), len);
    let peak = put(Test::PingPong, LONGEST);
    table.add("P6", "put, 8 MB", RATE, Value(1108.76), peak / 1e6);
    let half = half_bandwidth(machine, Test::PingPong, peak);
    table.add(
        "P7",
        "half bandwidth, ping-pong",
        SIZE,
        Either(7000.0, 7168.0),
        half,
    );
    let two = mpich2(machine, code);
    let (first, second) = (
        mpi(machine, Test::PingPong, LONGEST),
        mpi(&two, Test::PingPong, LONGEST),
    );
    let slightly = |of: f64, than: f64| of < than && of > than * (1.0 - TOLERANCE);
    table.holds(
        "P8",
        "MPI slightly below put",
        Class::Ratio,
        slightly(first, peak),
    );
    let plain = (Class::Ratio, Origin::Predicted, Unit::Plain);
    table.add(
        "P8.equal",
        "MPICH2 by MPICH-1.2.6",
        plain,
        Value(1.0),
        second / first,
    );
    if let Some(row) = table.0.last_mut() {
        row.null_model = Some(1.0);
    }
    let stream_peak = put(Test::Stream, LONGEST);
    let stream_half = half_bandwidth(machine, Test::Stream, stream_peak);
    table.add(
        "P9",
        "half bandwidth, streaming",
        SIZE,
        Either(5000.0, 5120.0),
        stream_half,
    );
    table.holds(
        "P9.steeper",
        "streaming is steeper than ping-pong",
        Class::Shape,
        stream_half < half,
    );
    let loss = |len| put(Test::Stream, len) / put(Test::StreamOfGets, len);
    let ping_pong = |len| put(Test::PingPong, len) / put(Test::Get, len);
    let worse = [1024, 4096]
        .into_iter()
        .all(|len| loss(len) > 1.5 && loss(len) > ping_pong(len) * 1.2);
    table.holds(
        "P10",
        "streaming hurts gets more: nothing is pipelined",
        Class::Ratio,
        worse,
    );
    let both = put(Test::Bidirectional, LONGEST);
    table.add("P11", "put both ways, 8 MB", RATE, Value(2203.19), both / 1e6);
    let less = slightly(mpi(machine, Test::Bidirectional, LONGEST), both);
    table.holds("P12", "MPI both ways slightly less", Class::Ratio, less);
    table.add("P13.bandwidth", "put, 8 MB", RATE, AtLeast(1100.0), peak / 1e6);
}

fn offloaded(table: &mut RowTable, machine: &Machine) {
    let there = machine::accelerated(machine);
    let half = |machine: &Machine| {
        let peak = bandwidth(netpipe::time(machine, Test::PingPong, LONGEST), LONGEST);
        half_bandwidth(machine, Test::PingPong, peak)
    };
    table.holds(
        "P15.half",
        "offloaded: half bandwidth drops",
        Class::Ratio,
        half(&there) < half(machine) * 0.6,
    );
    let interrupts = |machine: &Machine| exhaustion::interrupts(machine, 100);
    table.holds(
        "P15",
        "offloaded: no interrupts",
        Class::Ratio,
        interrupts(&there) == 0 && interrupts(machine) > 0,
    );
    let step = |machine: &Machine| {
        let put = |len| netpipe::time(machine, Test::PingPong, len);
        (put(13) - put(12)).micros()
    };
    table.holds(
        "P15.step",
        "offloaded: no step behind 12 bytes",
        Class::Ratio,
        step(&there) < step(machine) / 10.0,
    );
}

fn structures(table: &mut RowTable, machine: &Machine) {
    let more = machine.with("adapter.seastar.pools", 4);
    let fits = match (&machine.adapter, more) {
        (AdapterSpec::SeaStar(it), Ok(_)) => it.sram_used() <= it.sram.0,
        _ => false,
    };
    table.holds(
        "P17",
        "1,024 sources and 1,274 pendings fit, with three more pools",
        Class::Structural,
        fits,
    );
    let (panic, again) = (
        exhaustion::run(machine, "panic"),
        exhaustion::run(machine, "go-back-n"),
    );
    let stops = panic.panicked && panic.received < panic.sent;
    table.holds(
        "P18",
        "exhausted pendings: the node panics",
        Class::Structural,
        stops,
    );
    let goes_on = !again.panicked && again.refused > 0 && again.received == again.sent;
    table.holds(
        "P18.goes_back",
        "go-back-n: nothing is lost",
        Class::Structural,
        goes_on,
    );
}
