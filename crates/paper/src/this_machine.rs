//! The same numbers on the machine that this runs on: between two processes of this host, as `farpost bench` measures them.
//!
//! A row has such a number where the experiment makes sense within a host: latencies and bandwidths of the interfaces, and Table 4 of the FM paper, whose
//! configurations are settings of Farpost's own Fast Messages. What a paper measured between hosts only, or in its adapter, has none. Nothing is compared: the
//! papers are thirty years old.

use crate::{Paper, Row, Unit};
use farpost_bench::fit;
use farpost_bench::link::Layer;
use farpost_bench::measure::jobs::{Jobs, Measured};
use farpost_bench::measure::pair::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds, trials of each and microseconds of a trial: half a minute for all papers together is the most.
const EFFORT: (usize, usize, u64) = (1, 5, 1000);
/// Messages of the FM paper's streams, up to its frame.
const FRAMES: [usize; 10] = [8, 16, 24, 32, 48, 64, 80, 96, 112, 128];
/// Of curves on which half of the peak is looked for.
const SIZES: [usize; 12] = [
    64,
    256,
    1024,
    2048,
    4096,
    8192,
    16_384,
    32_768,
    65_536,
    262_144,
    1 << 20,
    LONG,
];
const MEGABYTE: usize = 1 << 20;
const LONG: usize = 8 << 20;

/// What of a layer's measurements a row's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The time of a message of so many bytes.
    Time(usize),
    /// The bandwidth of a ping-pong, of a stream, and of both ways at once.
    PingPong(usize),
    Stream(usize),
    Both(usize),
    /// Of the FM paper's streams.
    T0,
    RInf,
    NHalf,
    /// The size that gets half of the bandwidth of the longest message, in a ping-pong and in a stream.
    HalfOfPingPong,
    HalfOfStream,
}

use What::{Both, HalfOfPingPong, HalfOfStream, NHalf, PingPong, RInf, Stream, T0, Time};

/// Rows, the layer of each and what of it.
const ROWS: &[(&str, Layer, What)] = &[
    ("S2", Layer::RsmPut, Time(56)),
    ("S4", Layer::MpiPostbox, Time(1)),
    ("S7", Layer::MpiPostbox, PingPong(MEGABYTE)),
    ("F1.bandwidth", Layer::FmSend, Stream(128)),
    ("F1.latency", Layer::FmSend, Time(128)),
    ("F2", Layer::FmSend4, Time(16)),
    ("F3", Layer::FmStream, Stream(512)),
    ("F4.half", Layer::FmSend, NHalf),
    ("F7.hybrid.t0", Layer::FmBare, T0),
    ("F7.hybrid.rinf", Layer::FmBare, RInf),
    ("F7.hybrid.half", Layer::FmBare, NHalf),
    ("F7.managed.t0", Layer::FmBuffers, T0),
    ("F7.managed.rinf", Layer::FmBuffers, RInf),
    ("F7.managed.half", Layer::FmBuffers, NHalf),
    ("F7.fm.t0", Layer::FmFlow, T0),
    ("F7.fm.rinf", Layer::FmFlow, RInf),
    ("F7.fm.half", Layer::FmFlow, NHalf),
    ("F7.switch.t0", Layer::FmBuffersSwitch, T0),
    ("F7.switch.rinf", Layer::FmBuffersSwitch, RInf),
    ("F7.switch.half", Layer::FmBuffersSwitch, NHalf),
    ("F7.fm-switch.t0", Layer::FmFlowSwitch, T0),
    ("F7.fm-switch.rinf", Layer::FmFlowSwitch, RInf),
    ("F7.fm-switch.half", Layer::FmFlowSwitch, NHalf),
    ("X2.a.RTT", Layer::JamPio, Time(8)),
    ("X2.b.RTT", Layer::JamPio, Time(56)),
    ("X1.latency", Layer::JamPio, Time(56)),
    ("X6.e5000", Layer::JamRdma, PingPong(MEGABYTE)),
    ("X8", Layer::JamRpc, Time(4)),
    ("X9", Layer::MpiJam, Time(4)),
    ("X11", Layer::MpiPostbox, PingPong(MEGABYTE)),
    ("P1", Layer::PortalsPut, Time(1)),
    ("P2", Layer::PortalsGet, Time(1)),
    ("P3", Layer::MpiPortals, Time(1)),
    ("P6", Layer::PortalsPut, PingPong(LONG)),
    ("P7", Layer::PortalsPut, HalfOfPingPong),
    ("P9", Layer::PortalsPut, HalfOfStream),
    ("P11", Layer::PortalsPut, Both(LONG)),
];

/// The rows of these papers.
fn wanted(papers: &[Paper]) -> impl Iterator<Item = &'static (&'static str, Layer, What)> {
    let of_these = |row: &str| papers.iter().any(|paper| row.starts_with(paper.letter()));
    ROWS.iter().filter(move |(row, ..)| of_these(row))
}

impl What {
    fn ops(self) -> Vec<Op> {
        match self {
            Time(bytes) | PingPong(bytes) => vec![Op::PingPong(bytes)],
            Stream(bytes) => vec![Op::Stream(bytes)],
            Both(bytes) => vec![Op::Both(bytes)],
            T0 | RInf | NHalf => FRAMES.map(Op::Stream).to_vec(),
            HalfOfPingPong => SIZES.map(Op::PingPong).to_vec(),
            HalfOfStream => SIZES.map(Op::Stream).to_vec(),
        }
    }

    /// In seconds, bytes, or bytes a second.
    fn of(self, measured: &Measured, layer: Layer) -> Option<f64> {
        let rate = |op, bytes: usize| Some(bytes as f64 / measured.time(layer, op)?);
        let frames = || {
            let mut curve = measured.curve(layer, Op::Stream);
            curve.retain(|point| FRAMES.contains(&(point.0 as usize)));
            fit::stream(&curve)
        };
        match self {
            Time(bytes) => measured.time(layer, Op::PingPong(bytes)),
            PingPong(bytes) => rate(Op::PingPong(bytes), bytes),
            Stream(bytes) => rate(Op::Stream(bytes), bytes),
            Both(bytes) => rate(Op::Both(bytes), 2 * bytes),
            T0 => Some(frames()?.t0),
            RInf => Some(frames()?.r_inf),
            NHalf => Some(frames()?.n_half),
            HalfOfPingPong => half(&measured.curve(layer, Op::PingPong)),
            HalfOfStream => half(&measured.curve(layer, Op::Stream)),
        }
    }
}

/// The size, on lines between those measured, that first gets half of the bandwidth of the longest: of bytes and seconds.
fn half(curve: &[(f64, f64)]) -> Option<f64> {
    let wanted = curve.last().map(|(bytes, time)| bytes / time / 2.0)?;
    let mut before = (0.0, 0.0);
    for (bytes, time) in curve {
        let now = (*bytes, bytes / time);
        if now.1 >= wanted {
            return Some(before.0 + (wanted - before.1) / (now.1 - before.1) * (now.0 - before.0));
        }
        before = now;
    }
    None
}

/// What was measured, by row.
#[derive(Debug, Default)]
pub struct Here {
    numbers: BTreeMap<&'static str, f64>,
    /// Layers that could not be measured, and why.
    pub complaints: Vec<String>,
}

impl Here {
    /// The rows of a paper that this machine has numbers for.
    pub fn rows(paper: Paper) -> Vec<&'static str> {
        wanted(&[paper]).map(|(row, ..)| *row).collect()
    }

    /// How many layers are measured for the rows of `papers`.
    pub fn layers(papers: &[Paper]) -> usize {
        let layers: BTreeSet<Layer> = wanted(papers).map(|(_, layer, _)| *layer).collect();
        layers.len()
    }

    /// Measure what rows of `papers` have, in jobs of two processes; `step` hears of each layer that is done.
    ///
    /// # Errors
    /// Nothing could be measured: one line, why.
    pub fn measure(papers: &[Paper], mut step: impl FnMut(Layer)) -> Result<Self, String> {
        let wanted: Vec<_> = wanted(papers).collect();
        let mut plan: BTreeMap<Layer, Vec<Op>> = BTreeMap::new();
        for (_, layer, what) in &wanted {
            plan.entry(*layer).or_default().extend(what.ops());
        }
        for ops in plan.values_mut() {
            ops.sort_unstable();
            ops.dedup();
        }
        let plan: Vec<_> = plan.into_iter().collect();
        let (rounds, trials, micros) = EFFORT;
        let jobs = Jobs::new(rounds, trials, micros).map_err(|error| error.to_string())?;
        let measured = jobs.run(&plan, &mut step).map_err(|error| error.to_string())?;
        let number =
            |(row, layer, what): &&(&'static str, Layer, What)| Some((*row, what.of(&measured, *layer)?));
        Ok(Self {
            numbers: wanted.iter().filter_map(number).collect(),
            complaints: measured
                .complaints
                .iter()
                .map(|(layer, why)| format!("{}: {why}", layer.title()))
                .collect(),
        })
    }

    /// The number of a row, in its unit.
    pub fn number(&self, row: &Row) -> Option<f64> {
        let number = *self.numbers.get(&row.id[..])?;
        Some(match row.unit {
            Unit::Micros => number * 1e6,
            Unit::Megabytes => number / 1e6,
            Unit::Mebibytes => number / 1_048_576.0,
            Unit::Seconds | Unit::Bytes | Unit::Plain => number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_can_be() {
        for (row, layer, what) in ROWS {
            for op in what.ops() {
                let (Op::PingPong(bytes) | Op::Stream(bytes) | Op::Both(bytes)) = op else {
                    panic!("{op:?}");
                };
                assert!(layer.carries(bytes), "{row}: {} of {bytes} bytes", layer.title());
            }
        }
    }

    #[test]
    fn half_of_the_peak_is_on_the_line_between_two_sizes() {
        // 50, 100 and 200 bytes a second.
        assert_eq!(half(&[(50.0, 1.0), (100.0, 1.0), (400.0, 2.0)]), Some(100.0));
        assert_eq!(half(&[(50.0, 1.0), (150.0, 1.0), (400.0, 2.0)]), Some(100.0));
        assert_eq!(half(&[]), None);
    }

    #[test]
    fn numbers_are_in_the_units_of_their_rows() {
        let measured = Measured::default();
        assert_eq!(Time(8).of(&measured, Layer::JamRpc), None);
        let here = Here {
            numbers: [("P1", 1e-6), ("F3", 2_097_152.0)].into(),
            complaints: Vec::new(),
        };
        let row = |id: &str, unit| Row {
            id: id.into(),
            what: String::new(),
            class: crate::Class::Absolute,
            origin: crate::Origin::Predicted,
            unit,
            expected: crate::Expected::Value(1.0),
            simulated: 1.0,
            null_model: None,
            note: String::new(),
        };
        assert_eq!(here.number(&row("P1", Unit::Micros)), Some(1.0));
        assert_eq!(here.number(&row("F3", Unit::Mebibytes)), Some(2.0));
        assert_eq!(here.number(&row("P2", Unit::Micros)), None);
    }
}
