//! "High Performance Messaging on Workstations: Illinois Fast Messages (FM) for Myrinet" (Pakin, Lauria, Chien; Supercomputing 1995): rows F1 to F17.
//!
//! The machine is `machines/myrinet-fm.toml`; its interface is [`farpost_sim::adapter::lanai`]. As in the paper,
//!
//! * latency is half of a round trip, the mean of 50; bandwidth is that of a stream, seen where it arrives when all queues are as full as they get;
//! * bytes are those of the payload, and MB are 2^20 bytes;
//! * the bottom rows have no hosts, those of the middle a program that hands packets over and one that polls, and the top rows run Farpost's own Fast Messages
//!   ([`Layer`]). How `t_0`, `r_inf` and `n_1/2` come from times is in `metrics.rs`; the Myrinet API is a model of its own in `api.rs`.
//!
//! Six numbers are fitted: instructions of the baseline and of the streamed loop (`t_0` of these rows; the streamed one is between what `t_0` and `n_1/2` ask for, as
//! 3.5 us at 12.5 ns a byte give 280 bytes and not 249), instructions of `switch()` (its `t_0`), the rate of stores over the SBus (`r_inf` of hybrid), what lies between DMA and
//! the host's program (F2, 25 us: it delays and bounds no rate), and the constant of the Myrinet API ([`fit`]).
//!
//! The SBus's rate has a source as well, 23.9 MiB/s at most, and is fitted all the same: with the source's number rows of hybrid are 12 % too large, and with `switch()` the receiver
//! becomes the bound of long packets (30 MiB/s). Of what is assumed, these decide something:
//!
//! * A receive and a DMA to the host each have half of the instructions of a send, by the steps of figure 2. Together they are as many, or the receiver would bound all streams.
//! * The host's part of a send and of a handler is free besides its stores: no document counts it. With 25 cycles and 75 the rows are as good; with 40 of a send hybrid's `n_1/2`
//!   is not.
//! * The LANai's send queue (24 KiB) holds more packets than half of the sender's window, so `WANTS_ACK` is set on all frames, and [`Layer::FmSwitch`] pays for an acknowledgement of
//!   each. Any size up to 12 KiB would give 6.8 us (a test says so); the paper has neither size.
//!
//! What comes out:
//!
//! * Short packets are bound by the LANai and long ones by the SBus, so `n_1/2` is less than `t_0 r_inf`.
//! * Flow control costs what acknowledgements cost: the LANai has no instruction for it. In the streamed loop they wait while there is something to send.
//! * The rows with `switch()` do not fit `t_0 + 12.5 ns N`, the simple model that the others fit. Here they come out, because a packet that is interpreted keeps the channel until
//!   it has been delivered: 12.5 and 18.5 ns a byte one after the other. That is our reading; the paper only says that the overhead is in the innermost loop.
//! * The sign of F10's `r_inf` (buffer management makes it larger, 21.2 to 21.9) is the paper's noise, and no row. F12's is below our own noise, and is not counted.
//! * The paper's cross-overs at 256 and 512 bytes (its footnote 2) are unexplained, and are not here.
//! * F14: at 128 bytes the paper's own numbers are 76 % of `r_inf` and 83 % of what 512 bytes get.
//! * F15 and F16 compare with others' published numbers, which are not simulated.
//!
//! Beyond a tenth (`committed.toml`): `n_1/2` and `t_0` of `myri_cmd_send()`, of whose program nothing is known; of [`Layer::FmSwitch`], for the send queue; and 8 bytes with flow
//! control (F17.8.8).

mod api;
mod figures;
mod layer;
mod machine;
mod metrics;
mod rows;

pub use layer::Layer;
pub use machine::{core, lanai};
pub use metrics::{Metrics, rate};

use crate::fit::{self, Fit};
use crate::{Effort, Paper, Results};
use farpost_sim::machine::Machine;
use std::collections::BTreeMap;

/// Sizes of streams, in bytes.
const SIZES: [u32; 20] = [
    8, 16, 24, 32, 40, 48, 56, 64, 96, 128, 160, 200, 250, 304, 352, 400, 448, 512, 552, 600,
];
/// Sizes of round trips.
const TRIPS: [u32; 7] = [16, 64, 128, 256, 384, 512, 600];

/// What was measured of a layer: times in microseconds, by size.
struct Curve {
    periods: Vec<(f64, f64)>,
    latencies: Vec<(f64, f64)>,
}

/// All measurements.
struct Measured {
    curves: BTreeMap<Layer, Curve>,
}

impl Measured {
    fn of(machine: &Machine, effort: Effort) -> Self {
        let packets = match effort {
            Effort::Short => 400,
            Effort::Full => 8000,
        };
        let curve = |layer: Layer| {
            let at = |bytes: &u32, micros| (f64::from(*bytes), micros);
            let periods = SIZES.iter();
            let periods = periods.map(|bytes| at(bytes, layer.period(machine, *bytes, packets).micros()));
            let latencies = TRIPS.iter();
            let latencies = latencies.map(|bytes| at(bytes, layer.latency(machine, *bytes).micros()));
            let it = Curve {
                periods: periods.collect(),
                latencies: latencies.collect(),
            };
            (layer, it)
        };
        Self {
            curves: Layer::ALL.map(curve).into(),
        }
    }

    fn metrics(&self, layer: Layer) -> Metrics {
        Metrics::of(&self.curves[&layer].periods)
    }

    /// 2^20 bytes a second, of packets of a size that was measured.
    fn rate(&self, layer: Layer, bytes: u32) -> f64 {
        rate((f64::from(bytes), find(&self.curves[&layer].periods, bytes)))
    }

    /// In microseconds.
    fn latency(&self, layer: Layer, bytes: u32) -> f64 {
        find(&self.curves[&layer].latencies, bytes)
    }
}

fn find(points: &[(f64, f64)], bytes: u32) -> f64 {
    let found = points.iter().find(|point| point.0 == f64::from(bytes));
    found.expect("a size that is measured").1
}

/// The number of this model that is not the machine's.
pub fn fit() -> Fit {
    let value = format!("{} us", api::OVERHEAD);
    Fit::new("the constant of myri_cmd_send_imm()", &value, &["F7.api-imm.t0"])
}

/// All rows and figures, on the paper's machine.
///
/// # Panics
/// The machine that comes with Farpost cannot be read: a test says so before.
pub fn run(effort: Effort) -> Results {
    let machine = Machine::open("myrinet-fm").expect("it comes with Farpost");
    run_on(&machine, effort)
}

/// On a machine that is like it.
pub fn run_on(machine: &Machine, effort: Effort) -> Results {
    let measured = Measured::of(machine, effort);
    let (mut rows, figures) = (
        rows::rows(machine, &measured),
        figures::figures(machine, &measured),
    );
    fit::mark(Paper::Fm, vec![fit()], &mut rows);
    Results { rows, figures }
}
