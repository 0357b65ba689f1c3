//! `farpost bench layers|logp|rsm|fm|jam|interfaces`: what each layer costs above the bare cache line.

use crate::bench_args::Layers;
use crate::bench_goals::{Goal, show};
use crate::bench_output::{Output, finish};
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::fit::{self, Burst, LogP};
use farpost_bench::link::{Layer, REQUEST};
use farpost_bench::measure::fm_memory;
use farpost_bench::measure::jobs::{Jobs, Measured, median};
use farpost_bench::measure::pair::{Op, Samples};
use farpost_bench::progress::Progress;
use farpost_bench::stats::summarise;
use farpost_bench::{BenchError, Result, abi, report, sizes};
use serde_json::{Value, json};

/// The sizes of the FM paper's figures.
const SIZES: [usize; 19] = [
    4, 8, 16, 24, 32, 48, 56, 64, 88, 128, 160, 192, 256, 320, 384, 448, 512, 560, 600,
];
/// Requests in a burst.
const BURSTS: [u64; 16] = [1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 200, 300, 400, 600, 800, 1000];

/// Tables grow line by line here, and what they are of is known.
pub(crate) struct LayerTable<'a> {
    o: &'a Layers,
    pub(crate) title: String,
    pub(crate) jobs: Jobs,
}

impl<'a> LayerTable<'a> {
    pub(crate) fn new(o: &'a Layers, title: &str, trial_micros: u64) -> Result<Self> {
        o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
        let trials = o.common.trials.unwrap_or(9) as usize;
        let micros = o.trial_us.map_or(trial_micros, u64::from);
        Ok(Self {
            o,
            title: title.into(),
            jobs: Jobs::new(o.rounds as usize, trials, micros)?,
        })
    }

    pub(crate) fn sizes(&self, default: &[usize]) -> Result<Vec<usize>> {
        let mut list = match &self.o.sizes {
            Some(text) => sizes::parse_list(text)?,
            None => default.to_vec(),
        };
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }

    /// Those of `layers` that are wanted.
    pub(crate) fn wanted(&self, layers: impl IntoIterator<Item = Layer>) -> Result<Vec<Layer>> {
        let Some(text) = &self.o.layers else {
            return Ok(layers.into_iter().collect());
        };
        let named = text.split(',').map(|key| Layer::parse(key.trim()));
        let named = named.collect::<Result<Vec<_>>>()?;
        Ok(layers.into_iter().filter(|l| named.contains(l)).collect())
    }

    pub(crate) fn measure(&self, layers: &[(Layer, Vec<Op>)]) -> Result<Measured> {
        let progress = Progress::new(0, layers.len() * self.jobs.rounds.max(1));
        let measured = self.jobs.run(layers, |layer| progress.step(layer.title()));
        progress.clear();
        measured
    }

    pub(crate) fn subtitle(&self) -> String {
        format!("two ranks on {}", report::host())
    }

    /// Print what was measured, write JSON and plots.
    pub(crate) fn end(
        &self,
        measured: &Measured,
        lines: &[String],
        rows: Vec<Value>,
        chart: impl Fn() -> Chart,
    ) -> Result<()> {
        let mut output = Output::new(&self.o.common, true);
        output.line(&format!("# {}", self.title));
        output.line(&format!(
            "# {}, {}",
            abi::find_library().display(),
            self.subtitle()
        ));
        output.line(&format!(
            "# {} of {} rounds of a job for each layer with {} trials; the floor, a bare cache line one way, is {} ns",
            if measured.quickest { "the quickest" } else { "medians" },
            self.jobs.rounds,
            self.jobs.trials,
            nanos(measured.floor())
        ));
        lines.iter().for_each(|line| output.line(line));
        for (layer, why) in &measured.complaints {
            output.line(&format!("# without {}: {why}", layer.title()));
        }
        let json = || {
            json!({
                "benchmark": self.title,
                "library_file": abi::find_library().display().to_string(),
                "host": report::host(),
                "rounds": self.jobs.rounds,
                "trials": self.jobs.trials,
                "quickest": measured.quickest,
                "floor_ns": measured.floor().map(|t| t * 1e9),
                "rows": rows,
                "placement": measured.layers().iter().any(|l| l.has_agent()).then(|| self.jobs.placement()),
                "missing": measured.complaints.iter().map(|(l, why)| json!({ "layer": l.key(), "why": why })).collect::<Vec<_>>(),
            })
        };
        finish(&self.o.common, json, chart)
    }
}

fn nanos(time: Option<f64>) -> String {
    time.map_or("-".into(), |t| format!("{:.0}", t * 1e9))
}

/// A curve with its range, in nanoseconds or whatever `value` makes of bytes and seconds.
pub(crate) fn curve(
    m: &Measured,
    layer: Layer,
    of: impl Fn(usize) -> Op,
    value: impl Fn(f64, f64) -> f64,
) -> Series {
    let dots = m
        .curve(layer, &of)
        .into_iter()
        .filter(|p| p.0 > 0.0)
        .map(|(bytes, time)| {
            let all = summarise(&m.samples(layer, of(bytes as usize)));
            let y = value(bytes, time);
            Dot {
                y,
                ..Dot::of(bytes, &all, |t| value(bytes, t))
            }
        });
    Series::new(layer.title(), dots)
}

pub(crate) fn floor_line(m: &Measured, xs: (f64, f64)) -> Option<Series> {
    let y = m.floor()? * 1e9;
    Some(Series::new("bare line", [xs.0, xs.1].map(|x| Dot::exact(x, y))))
}

/// Ping-pong above, streams below, one curve for each layer.
fn both_panels(table: &LayerTable, m: &Measured) -> Chart {
    let layers = m.layers();
    let mut times: Vec<Series> = layers
        .iter()
        .map(|l| curve(m, *l, Op::PingPong, |_, t| t * 1e9))
        .collect();
    let mut rates: Vec<Series> = layers
        .iter()
        .map(|l| curve(m, *l, Op::Stream, |n, t| n / t / 1e6))
        .collect();
    let ends = || times.iter().flat_map(|s| &s.points).map(|d| d.x);
    let (low, high) = (ends().fold(f64::MAX, f64::min), ends().fold(1.0, f64::max));
    times.extend(floor_line(m, (low.min(high), high)));
    times.retain(|s| !s.points.is_empty());
    rates.retain(|s| !s.points.is_empty());
    let panels = [
        Panel::new("one way (ns)", times),
        Panel::new("stream (MB/s)", rates),
    ];
    Chart::by_size(&table.title, table.subtitle(), panels)
}

/// Ping-pong and streams of some layers at some sizes.
fn ops(layer: Layer, sizes: &[usize]) -> Vec<Op> {
    let carried = || sizes.iter().copied().filter(|bytes| layer.carries(*bytes));
    let mut ops = vec![Op::Floor];
    ops.extend(carried().map(Op::PingPong));
    ops.extend(carried().map(Op::Stream));
    ops
}

/// `farpost bench rsm|fm|jam`: one interface beside MPI and the floor.
pub fn interface(o: &Layers, name: &str) -> Result<()> {
    let (title, layers) = match name {
        "rsm" => (
            "Remote shared memory beside MPI",
            vec![Layer::Queue, Layer::RsmPut, Layer::MpiPostbox],
        ),
        "fm" => (
            "Fast Messages beside MPI",
            vec![
                Layer::Queue,
                Layer::FmSend4,
                Layer::FmSend,
                Layer::FmStream,
                Layer::MpiPostbox,
                Layer::MpiFm,
            ],
        ),
        _ => (
            "JAM beside MPI",
            vec![
                Layer::Queue,
                Layer::JamPio,
                Layer::JamVi,
                Layer::JamRdma,
                Layer::JamRpc,
                Layer::MpiPostbox,
                Layer::MpiJam,
            ],
        ),
    };
    let table = LayerTable::new(o, title, 1000)?;
    let sizes = table.sizes(&[8, 16, 56, 64, 88, 128, 256, 512, 1024, 4096, 16384, 65536])?;
    let layers = table.wanted(layers)?;
    let plan: Vec<_> = layers.iter().map(|l| (*l, ops(*l, &sizes))).collect();
    let m = table.measure(&plan)?;
    let mut lines = vec![format!(
        "{:<18} {:>8} {:>13} {:>9} {:>13} {:>10}",
        "layer", "bytes", "one way (ns)", "x floor", "stream (ns)", "MB/s"
    )];
    let mut rows = Vec::new();
    for layer in m.layers() {
        for &bytes in sizes.iter().filter(|b| layer.carries(**b)) {
            let one_way = m.time(layer, Op::PingPong(bytes));
            let each = m.time(layer, Op::Stream(bytes));
            let ratio = m.over_rounds(layer, |s| over_floor(s, Op::PingPong(bytes)));
            let rate = each.map(|t| bytes as f64 / t / 1e6);
            let number = |v: Option<f64>, digits| v.map_or("-".into(), |v| format!("{v:.digits$}"));
            lines.push(format!(
                "{:<18} {:>8} {:>13} {:>9} {:>13} {:>10}",
                layer.title(),
                bytes,
                number(one_way.map(|t| t * 1e9), 1),
                number(ratio, 2),
                number(each.map(|t| t * 1e9), 1),
                number(rate, 1)
            ));
            rows.push(json!({
                "layer": layer.key(), "bytes": bytes, "one_way_ns": one_way.map(|t| t * 1e9), "of_floor": ratio,
                "stream_ns": each.map(|t| t * 1e9), "megabytes_per_s": rate,
            }));
        }
    }
    table.end(&m, &lines, rows, || both_panels(&table, &m))
}

pub(crate) fn over_floor(samples: &Samples, op: Op) -> Option<f64> {
    Some(median(samples, op)? / median(samples, Op::Floor)?)
}

/// `farpost bench layers`: the FM paper's Table 4.
pub fn layers(o: &Layers) -> Result<()> {
    let table = LayerTable::new(
        o,
        "Layers: t_0, r_inf and n_1/2 of each (the FM paper's Table 4)",
        1000,
    )?;
    let sizes = table.sizes(&SIZES)?;
    let plan: Vec<_> = table
        .wanted(Layer::ALL.iter().copied())?
        .into_iter()
        .map(|layer| {
            let mut list = vec![Op::Floor];
            list.extend(latency_op(layer));
            let streamed = sizes.iter().copied().filter(|bytes| layer.carries(*bytes));
            list.extend(streamed.map(Op::Stream));
            (layer, list)
        })
        .collect();
    let m = table.measure(&plan)?;
    let mut lines = vec![format!(
        "{:<18} {:>8} {:>9} {:>8} {:>12} {:>10}   {}",
        "layer", "l (ns)", "x floor", "t_0 (ns)", "r_inf (MB/s)", "n_1/2 (B)", "what it is or adds"
    )];
    let mut rows = Vec::new();
    for layer in m.layers() {
        let (latency, ratio) = match latency_op(layer) {
            None => (m.floor(), Some(1.0)),
            Some(op) => (m.time(layer, op), m.over_rounds(layer, |s| over_floor(s, op))),
        };
        let fit = fit::stream(&m.curve(layer, Op::Stream));
        let number = |v: Option<f64>, digits| v.map_or("-".into(), |v| format!("{v:.digits$}"));
        let half = fit.map_or("-".into(), |f| {
            format!("{}{:.0}", if f.at_least { ">= " } else { "" }, f.n_half)
        });
        lines.push(format!(
            "{:<18} {:>8} {:>9} {:>8} {:>12} {:>10}   {}",
            layer.title(),
            nanos(latency),
            number(ratio, 2),
            nanos(fit.map(|f| f.t0)),
            number(fit.map(|f| f.r_inf / 1e6), 0),
            half,
            layer.adds()
        ));
        rows.push(json!({
            "layer": layer.key(), "adds": layer.adds(), "latency_ns": latency.map(|t| t * 1e9), "of_floor": ratio,
            "t0_ns": fit.map(|f| f.t0 * 1e9), "r_inf_mb_per_s": fit.map(|f| f.r_inf / 1e6), "n_half": fit.map(|f| f.n_half),
            "n_half_is_at_least": fit.map(|f| f.at_least),
            "stream_ns": m.curve(layer, Op::Stream).iter().map(|(n, t)| json!([n, t * 1e9])).collect::<Vec<_>>(),
        }));
    }
    lines
        .push("# l: 16 bytes, one way; MB are 10^6 bytes; a ping-pong of the bare line has no stream".into());
    let chart = || {
        let pick = |value: fn(f64, f64) -> f64| {
            let all = m.layers().into_iter().map(|l| curve(&m, l, Op::Stream, value));
            all.filter(|s| !s.points.is_empty()).collect::<Vec<_>>()
        };
        let times = Panel::new("time of a message (ns)", pick(|_, t| t * 1e9));
        let rates = Panel::new("stream (MB/s)", pick(|n, t| n / t / 1e6));
        Chart::by_size(&table.title, table.subtitle(), [times, rates])
    };
    table.end(&m, &lines, rows, chart)
}

fn latency_op(layer: Layer) -> Option<Op> {
    layer.carries(REQUEST).then_some(Op::PingPong(REQUEST))
}

/// The signature and the curves of one layer; times of computing as they were measured.
fn signature(m: &Measured, layer: Layer, computing: &[u64]) -> Option<(LogP, Vec<Burst>)> {
    let curves: Vec<Burst> = computing
        .iter()
        .filter_map(|nanos| {
            let compute = match nanos {
                0 => 0.0,
                _ => m.time(layer, Op::Compute(*nanos))?,
            };
            let points = BURSTS
                .iter()
                .filter_map(|n| Some((*n as f64, m.time(layer, Op::Burst(*n, *nanos))?)));
            Some(Burst {
                compute,
                points: points.collect(),
            })
        })
        .collect();
    let round_trip = 2.0 * m.time(layer, Op::PingPong(REQUEST))?;
    Some((fit::logp(&curves, round_trip)?, curves))
}

/// `farpost bench logp`: the LogP signatures.
pub fn logp(o: &Layers) -> Result<()> {
    let table = LayerTable::new(o, "LogP signatures, 16-byte requests and answers", 300)?;
    let layers = table.wanted(Layer::ALL.iter().copied().filter(|l| l.answers()))?;
    // How much to compute is known when the round trips are: up to twice the longest.
    let short = vec![Op::Floor, Op::PingPong(REQUEST)];
    let mut first = Jobs {
        rounds: 1,
        ..table.jobs.clone()
    };
    first.trials = first.trials.min(5);
    let known = first.run(
        &layers.iter().map(|l| (*l, short.clone())).collect::<Vec<_>>(),
        |_| {},
    )?;
    let computing_of = |layer: Layer| {
        let trip = known.time(layer, Op::PingPong(REQUEST)).unwrap_or(1e-6) * 2e9;
        let step = ((trip / 2.0 / 50.0).ceil() as u64 * 50).clamp(50, 1_000_000);
        [0, step, 2 * step, 4 * step]
    };
    let plan: Vec<_> = known
        .layers()
        .into_iter()
        .map(|layer| {
            let mut list = short.clone();
            for nanos in computing_of(layer) {
                if nanos > 0 {
                    list.push(Op::Compute(nanos));
                }
                list.extend(BURSTS.iter().map(|n| Op::Burst(*n, nanos)));
            }
            (layer, list)
        })
        .collect();
    let mut m = table.measure(&plan)?;
    m.complaints.extend(known.complaints.iter().cloned());
    let mut lines = vec![format!(
        "{:<18} {:>10} {:>10} {:>10} {:>10} {:>15}",
        "layer", "o_s (ns)", "o_r (ns)", "g (ns)", "L (ns)", "round trip (ns)"
    )];
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for layer in m.layers() {
        let Some((s, curves)) = signature(&m, layer, &computing_of(layer)) else {
            m.complaints
                .push((layer, "its curves have too few points".into()));
            continue;
        };
        let trip = m.time(layer, Op::PingPong(REQUEST)).map(|t| 2.0 * t);
        lines.push(format!(
            "{:<18} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>15}",
            layer.title(),
            s.send * 1e9,
            s.receive * 1e9,
            s.gap * 1e9,
            s.latency * 1e9,
            nanos(trip)
        ));
        rows.push(json!({
            "layer": layer.key(), "o_s_ns": s.send * 1e9, "o_r_ns": s.receive * 1e9, "g_ns": s.gap * 1e9, "l_ns": s.latency * 1e9,
            "round_trip_ns": trip.map(|t| t * 1e9),
            "curves": curves.iter().map(|c| json!({ "compute_ns": c.compute * 1e9,
                "points": c.points.iter().map(|(n, t)| json!([n, t * 1e9 / n])).collect::<Vec<_>>() })).collect::<Vec<_>>(),
        }));
        let series = curves.iter().map(|c| {
            let dots = c.points.iter().map(|(n, t)| Dot::exact(*n, t / n * 1e9));
            Series::new(format!("{:.0} ns computing", c.compute * 1e9), dots)
        });
        panels.push(Panel::new(format!("{}: ns per request", layer.title()), series));
    }
    lines.push("# g is the time between requests at full speed: the gap, or o_s + o_r (and serving) where that is more".into());
    let chart = || {
        Chart::over(
            "requests in a burst",
            &table.title,
            table.subtitle(),
            panels.clone(),
        )
    };
    table.end(&m, &lines, rows, chart)
}

/// Ranks between which FM's memory must not grow.
const FEW: usize = 2;
const MANY: usize = 128;

/// MPI over an interface beside MPI by postboxes, 8 bytes one way.
pub(crate) fn device(m: &Measured, what: &str, layer: Layer) -> Goal {
    let pong = Op::PingPong(8);
    let figure = m.time(layer, pong).map(|t| t * 1e9);
    let ratio = m.ratio((Layer::MpiPostbox, pong), (layer, pong));
    Goal::beside(what, (figure, "ns"), (ratio, "postbox"), 2.0, 1.3)
}

/// `farpost bench interfaces`: each figure that the interfaces must reach.
pub fn interfaces(o: &Layers) -> Result<()> {
    let table = LayerTable::new(o, "What the interfaces must reach", 2000)?;
    let beside_floor = |bytes| vec![Op::Floor, Op::PingPong(bytes)];
    let mut streamed = vec![Op::Floor];
    streamed.extend(table.sizes(&SIZES)?.into_iter().map(Op::Stream));
    let mut plan = vec![
        (Layer::RsmPut, beside_floor(56)),
        (Layer::FmSend4, beside_floor(16)),
        (Layer::FmStream, streamed),
        (Layer::JamPio, beside_floor(56)),
        (Layer::JamRpc, beside_floor(16)),
        (Layer::MpiPostbox, beside_floor(8)),
        (Layer::MpiFm, beside_floor(8)),
        (Layer::MpiJam, beside_floor(8)),
    ];
    let wanted = table.wanted(Layer::ALL.iter().copied())?;
    plan.retain(|(layer, _)| wanted.contains(layer));
    let m = table.measure(&plan)?;
    let beside = |what, layer, op, trips: f64, must, aim| {
        let figure = m.time(layer, op).map(|t| t * trips * 1e9);
        let ratio = m.over_rounds(layer, |s| over_floor(s, op)).map(|r| r * trips);
        Goal::beside(what, (figure, "ns"), (ratio, "floor"), must, aim)
    };
    let pong = Op::PingPong;
    let half = fit::stream(&m.curve(Layer::FmStream, Op::Stream)).map(|f| f.n_half);
    let memory = match o.skip_memory {
        true => Err(BenchError::Usage("left out".into())),
        false => fm_memory::of(&table.jobs.launcher, FEW)
            .and_then(|few| Ok((few, fm_memory::of(&table.jobs.launcher, MANY)?))),
    };
    let most = memory.as_ref().ok().map(|m| m.1);
    let grown = memory.as_ref().ok().map(|(few, many)| many / few);
    #[rustfmt::skip]
    let goals = [
        beside("RSM put and flag, 64 bytes, one way", Layer::RsmPut, pong(56), 1.0, 1.5, 1.2),
        beside("FM_send_4 to handler, one way", Layer::FmSend4, pong(16), 1.0, 2.0, 1.5),
        Goal::plain("FM n_1/2 (streams)", half, "bytes", Some((256.0, 64.0))),
        beside("JAM PIO message of 64 bytes, one way", Layer::JamPio, pong(56), 1.0, 2.0, 1.5),
        beside("JAM RPC round trip, argument of 16 bytes", Layer::JamRpc, pong(16), 2.0, 5.0, 3.0),
        device(&m, "MPI 8-byte ping-pong over FM, one way", Layer::MpiFm),
        device(&m, "MPI 8-byte ping-pong over JAM, one way", Layer::MpiJam),
        Goal::beside("FM memory of a node, 128 processes", (most, "KiB"), (grown, "with 2"), 1.1, 1.0),
    ];
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    show(&goals, &mut lines, &mut rows);
    if let (Err(why), false) = (&memory, o.skip_memory) {
        lines.push(format!("# without FM's memory: {why}"));
    }
    let postbox = m.time(Layer::MpiPostbox, Op::PingPong(8));
    lines.push(format!(
        "# MPI's 8-byte ping-pong by postboxes is {} ns one way",
        nanos(postbox)
    ));
    let chart = || {
        let stream = curve(&m, Layer::FmStream, Op::Stream, |n, t| n / t / 1e6);
        let panel = Panel::new("FM 2.x stream (MB/s)", [stream]);
        Chart::by_size(&table.title, table.subtitle(), [panel])
    };
    table.end(&m, &lines, rows, chart)
}
