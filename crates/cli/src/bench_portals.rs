//! `farpost bench portals`: the NetPIPE module of the Cray XT3 paper (section 5.2), its four figures, and what Portals must
//! reach.

use crate::bench_args::Portals;
use crate::bench_layers::{Table, curve, floor_line, over_floor};
use farpost_bench::chart::{self, Chart, Panel, Series};
use farpost_bench::link::{AHEAD, HUGE, Layer};
use farpost_bench::measure::jobs::{Measured, median};
use farpost_bench::measure::pair::Op;
use farpost_bench::{BenchError, Result};
use serde_json::{Value, json};
use std::path::Path;

/// The paper's range, and sizes around what a packet holds.
const SIZES: [usize; 25] = [
    1,
    4,
    8,
    12,
    16,
    32,
    48,
    56,
    64,
    96,
    128,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    16384,
    32768,
    65536,
    262_144,
    524_288,
    1 << 20,
    4 << 20,
    HUGE,
];
/// Figure 4 ends here.
const SMALL: usize = 1024;
/// What is compared with what Portals must reach.
const FEW: usize = 8;
const LAYERS: [Layer; 4] = [
    Layer::PortalsPut,
    Layer::PortalsGet,
    Layer::PortalsMatch,
    Layer::MpiPostbox,
];

type Kind = fn(usize) -> Op;

/// Run it.
pub fn run(o: &Portals) -> Result<()> {
    let table = Table::new(
        &o.layers,
        "Portals put and get beside MPI (NetPIPE, section 5.2 of the XT3 paper)",
        2000,
    )?;
    let sizes = table.sizes(&SIZES)?;
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes > HUGE) {
        let why = format!("--sizes {bytes}: the longest message here has {HUGE} bytes");
        return Err(BenchError::Usage(why));
    }
    let plan: Vec<(Layer, Vec<Op>)> = table
        .wanted(LAYERS)?
        .into_iter()
        .map(|layer| {
            let mut ops = vec![Op::Floor];
            if layer == Layer::PortalsMatch {
                ops.push(Op::PingPong(FEW));
            } else {
                let carried = || sizes.iter().copied().filter(|bytes| layer.carries(*bytes));
                ops.extend(carried().map(Op::PingPong));
                ops.extend(carried().map(Op::Stream));
                ops.extend(carried().map(Op::Both));
            }
            (layer, ops)
        })
        .collect();
    let m = table.measure(&plan)?;
    let number = |v: Option<f64>| v.map_or("-".into(), |v| format!("{v:.1}"));
    let mut lines = vec![format!(
        "{:<20} {:>8} {:>11} {:>9} {:>11} {:>12} {:>12}",
        "layer", "bytes", "time (ns)", "x floor", "MB/s", "stream MB/s", "both MB/s"
    )];
    let mut rows = Vec::new();
    for layer in m.layers() {
        for &bytes in &sizes {
            let Some(time) = m.time(layer, Op::PingPong(bytes)) else {
                continue;
            };
            let rate = |op, times: f64| m.time(layer, op).map(|t| times * bytes as f64 / t / 1e6);
            let ratio = m.over_rounds(layer, |s| over_floor(s, Op::PingPong(bytes)));
            let one = rate(Op::PingPong(bytes), 1.0);
            let (stream, both) = (rate(Op::Stream(bytes), 1.0), rate(Op::Both(bytes), 2.0));
            lines.push(format!(
                "{:<20} {bytes:>8} {:>11} {:>9} {:>11} {:>12} {:>12}",
                layer.title(),
                number(Some(time * 1e9)),
                ratio.map_or("-".into(), |r| format!("{r:.2}")),
                number(one),
                number(stream),
                number(both)
            ));
            rows.push(json!({
                "layer": layer.key(), "bytes": bytes, "time_ns": time * 1e9, "of_floor": ratio, "megabytes_per_s": one,
                "stream_megabytes_per_s": stream, "both_megabytes_per_s": both,
            }));
        }
    }
    lines.push(
        "# time: put and MPI one way, half a ping-pong; get: the whole of it, request and reply".into(),
    );
    lines.push("# MB are 10^6 bytes; both: the sum of both directions".into());
    goals(&m, &sizes, &mut lines, &mut rows);
    if let Some(dir) = &o.figures {
        for (file, figure) in figures(&table, &m) {
            chart::write(&figure, &dir.join(file))?;
        }
        lines.push(format!("# figures: {}", shown(dir)));
    }
    table.end(&m, &lines, rows, || all(&table, &m))
}

fn shown(dir: &Path) -> String {
    dir.join("figure4.png to figure7.png").display().to_string()
}

/// The least size at which half of the best bandwidth of a curve is reached, between two points by a straight line.
fn half_bandwidth(points: &[(f64, f64)]) -> Option<f64> {
    let rates: Vec<(f64, f64)> = points.iter().map(|(n, t)| (*n, n / t)).collect();
    let half = rates.iter().map(|r| r.1).fold(0.0, f64::max) / 2.0;
    let at = rates.iter().position(|r| r.1 >= half)?;
    let (size, rate) = rates[at];
    let Some((before, lower)) = at.checked_sub(1).map(|i| rates[i]) else {
        return Some(size);
    };
    Some(before + (size - before) * (half - lower) / (rate - lower))
}

/// What Portals must reach, where it was measured.
fn goals(m: &Measured, sizes: &[usize], lines: &mut Vec<String>, rows: &mut Vec<Value>) {
    let mut goal = |what: &str, figure: Option<f64>, must: f64, aim: f64, at_least: bool| {
        let Some(figure) = figure else { return };
        let met = if at_least { figure >= must } else { figure <= must };
        let sign = if at_least { ">=" } else { "<=" };
        let word = if met { "met" } else { "MISSED" };
        lines.push(format!(
            "# {what}: {figure:.2}, must be {sign} {must}, aim {aim}: {word}"
        ));
        rows.push(json!({ "what": what, "figure": figure, "must": must, "aim": aim, "met": met }));
    };
    let over = |layer, op| m.over_rounds(layer, |s| over_floor(s, op));
    let short = Op::PingPong(FEW);
    let put = over(Layer::PortalsPut, short);
    goal("put, 8 bytes, one way, times the floor", put, 2.5, 2.0, false);
    let get = over(Layer::PortalsGet, short);
    goal("get, 8 bytes, round trip, times the floor", get, 5.0, 4.0, false);
    let whole = sizes.contains(&HUGE);
    let half = half_bandwidth(&m.curve(Layer::PortalsPut, Op::PingPong)).filter(|_| whole);
    goal("half-bandwidth size of put, bytes", half, 4096.0, 1024.0, false);
    let peak = m
        .ratio(
            (Layer::PortalsPut, Op::PingPong(HUGE)),
            (Layer::MpiPostbox, Op::PingPong(HUGE)),
        )
        .filter(|_| whole);
    goal("put bandwidth, 8 MiB, times MPI's", peak, 1.0, 1.0, true);
    let put = m.over_rounds(Layer::PortalsPut, |s| median(s, short));
    let behind = m.over_rounds(Layer::PortalsMatch, |s| median(s, short));
    let each = put
        .zip(behind)
        .map(|(put, behind)| (behind - put) * 1e9 / AHEAD as f64);
    goal(
        "matching, ns for each of 1,000 entries ahead",
        each,
        3.0,
        1.0,
        false,
    );
}

fn series(m: &Measured, kind: Kind, most: usize, value: fn(f64, f64) -> f64) -> Vec<Series> {
    let shown = [Layer::PortalsPut, Layer::PortalsGet, Layer::MpiPostbox];
    let each = shown.into_iter().map(|layer| {
        let mut one = curve(m, layer, kind, value);
        one.points.retain(|dot| dot.x <= most as f64);
        one
    });
    each.filter(|one| !one.points.is_empty()).collect()
}

fn panel(y_label: &str, series: Vec<Series>) -> Panel {
    Panel {
        y_label: y_label.into(),
        series,
    }
}

fn figure(table: &Table, title: &str, panels: Vec<Panel>) -> Chart {
    Chart {
        title: title.into(),
        subtitle: table.subtitle(),
        x_label: "message size (bytes)".into(),
        x_is_bytes: true,
        panels,
    }
}

fn rate(bytes: f64, time: f64) -> f64 {
    bytes / time / 1e6
}

fn latency(m: &Measured) -> Panel {
    let mut lines = series(m, Op::PingPong, SMALL, |_, t| t * 1e6);
    if let Some(mut floor) = floor_line(m, (1.0, SMALL as f64)) {
        for dot in &mut floor.points {
            for value in [&mut dot.y, &mut dot.low, &mut dot.high] {
                *value /= 1e3;
            }
        }
        lines.push(floor);
    }
    panel("time (microseconds)", lines)
}

/// The paper's figures 4 to 7 and their files.
fn figures(table: &Table, m: &Measured) -> Vec<(&'static str, Chart)> {
    let bandwidth = |kind, value| panel("bandwidth (MB/s)", series(m, kind, HUGE, value));
    let all = [
        ("figure4.png", "Latency", latency(m)),
        (
            "figure5.png",
            "Uni-directional bandwidth",
            bandwidth(Op::PingPong as Kind, rate as fn(f64, f64) -> f64),
        ),
        ("figure6.png", "Streaming bandwidth", bandwidth(Op::Stream, rate)),
        (
            "figure7.png",
            "Bidirectional bandwidth",
            bandwidth(Op::Both, |n, t| 2.0 * n / t / 1e6),
        ),
    ];
    all.into_iter()
        .map(|(file, title, panel)| (file, figure(table, title, vec![panel])))
        .collect()
}

/// All four in one.
fn all(table: &Table, m: &Measured) -> Chart {
    let each = figures(table, m).into_iter();
    let panels = each.flat_map(|(_, one)| {
        let label = one.title;
        one.panels.into_iter().map(move |mut panel| {
            panel.y_label = format!("{label}: {}", panel.y_label);
            panel
        })
    });
    figure(table, &table.title, panels.collect())
}

#[cfg(test)]
mod tests {
    use super::half_bandwidth;

    #[test]
    fn half_of_the_best_bandwidth_lies_between_two_points() {
        // 1, 3 and 8 bytes a second.
        let points = [(1.0, 1.0), (3.0, 1.0), (8.0, 1.0)];
        let half = half_bandwidth(&points).unwrap();
        assert!((half - 4.0).abs() < 1e-9, "{half}");
        assert_eq!(half_bandwidth(&[]), None);
    }
}
