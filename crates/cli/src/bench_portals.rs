//! `farpost bench portals`: the NetPIPE module of the Cray XT3 paper (section 5.2), its four figures, and what Portals must
//! reach.

use crate::bench_args::Portals;
use crate::bench_goals::{Goal, show};
use crate::bench_layers::{LayerTable, curve, device, floor_line};
use farpost_bench::chart::{self, Chart, Panel, Series};
use farpost_bench::link::{AHEAD, HUGE, Layer};
use farpost_bench::measure::jobs::Measured;
use farpost_bench::measure::pair::{Op, Traffic};
use farpost_bench::{BenchError, Result, sizes};
use serde_json::json;
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
const LAYERS: [Layer; 10] = [
    Layer::PortalsPut,
    Layer::PortalsGet,
    Layer::PortalsMatch,
    Layer::GenericPut,
    Layer::GenericGet,
    Layer::AcceleratedPut,
    Layer::AcceleratedGet,
    Layer::HostPut,
    Layer::MpiPostbox,
    Layer::MpiPortals,
];

type Kind = fn(usize) -> Op;

/// Run it.
pub fn run(o: &Portals) -> Result<()> {
    let mut table = LayerTable::new(
        &o.layers,
        "Portals put and get beside MPI (NetPIPE, section 5.2 of the XT3 paper)",
        2000,
    )?;
    table.jobs.clients_bound = !o.unbound_clients;
    table.jobs.quickest = o.netpipe;
    let perturbation = o.perturbation as usize;
    let sizes = match o.netpipe {
        true => sizes::netpipe(1, HUGE, perturbation),
        false => table.sizes(&SIZES)?,
    };
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes > HUGE && !o.netpipe) {
        let why = format!("--sizes {bytes}: the longest message here has {HUGE} bytes");
        return Err(BenchError::Usage(why));
    }
    let plan: Vec<(Layer, Vec<Op>)> = table
        .wanted(LAYERS)?
        .into_iter()
        .map(|layer| {
            let mut ops = vec![Op::Floor];
            if matches!(layer, Layer::PortalsMatch | Layer::HostPut) {
                ops.push(Op::PingPong(FEW));
            } else if o.netpipe {
                let ways = [Traffic::PingPong, Traffic::Stream, Traffic::Both];
                ops.extend(ways.map(|traffic| Op::Walk(traffic, 1, HUGE, perturbation)));
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
            let ratio = m.over_floor(layer, Op::PingPong(bytes));
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
    lines.push(format!(
        "# generic, accelerated: by way of an agent, a third process of the job; {}",
        table.jobs.placement()
    ));
    lines.extend(agents(&m));
    show(&goals(&m, &sizes), &mut lines, &mut rows);
    let subtitle = format!("{}; {}", table.subtitle(), table.jobs.placement());
    if let Some(dir) = &o.figures {
        write_figures(&figures(&subtitle, &m), dir)?;
        lines.push(format!("# figures: {}", figure_names(dir)));
    }
    table.end(&m, &lines, rows, || all(&table.title, &subtitle, &m))
}

fn write_figures(figures: &[(&str, Chart)], dir: &Path) -> Result<()> {
    let mut each = figures.iter();
    each.try_for_each(|(file, figure)| chart::write(figure, &dir.join(file)))
}

fn figure_names(dir: &Path) -> String {
    dir.join("figure4.png to figure7.png").display().to_string()
}

/// One put, whoever carries it.
fn agents(m: &Measured) -> Option<String> {
    let time = |layer| m.time(layer, Op::PingPong(FEW)).map(|t| t * 1e9);
    let (inline, generic) = (time(Layer::PortalsPut)?, time(Layer::GenericPut)?);
    let accelerated = time(Layer::AcceleratedPut)?;
    let ratio = accelerated_of_generic(m, FEW)?;
    Some(format!(
        "# put {FEW} B one way: inline {inline:.0} ns, generic {generic:.0} ns, accelerated {accelerated:.0} ns, \
         ratio accelerated/generic {ratio:.2}"
    ))
}

fn accelerated_of_generic(m: &Measured, bytes: usize) -> Option<f64> {
    let op = Op::PingPong(bytes);
    m.ratio((Layer::GenericPut, op), (Layer::AcceleratedPut, op))
}

/// Bytes a second at each size.
fn rates(m: &Measured, layer: Layer, kind: Kind) -> Vec<(f64, f64)> {
    let points = m.curve(layer, kind).into_iter();
    points.map(|(bytes, time)| (bytes, bytes / time)).collect()
}

/// The least size at which a curve reaches `rate`, between two points by a straight line.
fn reaches(rates: &[(f64, f64)], rate: f64) -> Option<f64> {
    let at = rates.iter().position(|r| r.1 >= rate)?;
    let (size, above) = rates[at];
    let Some((before, below)) = at.checked_sub(1).map(|i| rates[i]) else {
        return Some(size);
    };
    Some(before + (size - before) * (rate - below) / (above - below))
}

/// Half-bandwidth sizes. The paper (section 6) halves the bandwidth of the longest message, 8 MB, where its curve ends and is
/// highest. Here the curve is highest where messages fit the cache: half of that is a row of its own.
fn half_bandwidths(m: &Measured, sizes: &[usize]) -> Vec<Goal> {
    let whole = sizes.contains(&HUGE);
    let last = |rates: &[(f64, f64)]| rates.last().map(|r| r.1).filter(|_| whole);
    let pong = rates(m, Layer::PortalsPut, Op::PingPong);
    let stream = rates(m, Layer::PortalsPut, Op::Stream);
    let end = last(&pong).and_then(|rate| reaches(&pong, rate / 2.0));
    let top = pong.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let top = top.filter(|_| whole);
    let hump = top.and_then(|(_, rate)| reaches(&pong, rate / 2.0));
    let at = top.map_or(String::new(), |(bytes, _)| {
        format!(", at {}", sizes::human(bytes as usize))
    });
    let streamed = last(&stream).and_then(|rate| reaches(&stream, rate / 2.0));
    vec![
        Goal::plain(
            "half-bandwidth size of put: half of that of 8 MiB",
            end,
            "bytes",
            Some((4096.0, 1024.0)),
        ),
        Goal::plain(&format!("the same, of the highest{at}"), hump, "bytes", None),
        Goal::plain("the same of a stream, of 8 MiB", streamed, "bytes", None),
    ]
}

/// What Portals must reach.
fn goals(m: &Measured, sizes: &[usize]) -> Vec<Goal> {
    let short = Op::PingPong(FEW);
    let nanos = |layer| m.time(layer, short).map(|t| t * 1e9);
    let of_floor = |what, layer, must, aim| {
        let ratio = m.over_floor(layer, short);
        Goal::beside(what, (nanos(layer), "ns"), (ratio, "floor"), must, aim)
    };
    let generic = nanos(Layer::GenericPut);
    let accelerated = (nanos(Layer::AcceleratedPut), "ns");
    let of_generic = (accelerated_of_generic(m, FEW), "generic");
    let host = nanos(Layer::HostPut);
    let mut goals = vec![
        of_floor("put, 8 bytes, one way, inline", Layer::PortalsPut, 2.5, 2.0),
        Goal::plain("put, 8 bytes, one way, agent, generic", generic, "ns", None),
        Goal::beside(
            "put, 8 bytes, one way, agent, accelerated",
            accelerated,
            of_generic,
            0.7,
            0.5,
        ),
        Goal::plain("put, 8 bytes, one way, the host's interface", host, "ns", None),
        of_floor("get, 8 bytes, round trip, inline", Layer::PortalsGet, 5.0, 4.0),
    ];
    goals.extend(half_bandwidths(m, sizes));
    let huge = Op::PingPong(HUGE);
    // Times by bandwidth are upside down.
    let peak = m.ratio((Layer::PortalsPut, huge), (Layer::MpiPostbox, huge));
    let rate = m.time(Layer::PortalsPut, huge).map(|t| HUGE as f64 / t / 1e6);
    goals.push(Goal {
        at_least: true,
        ..Goal::beside("put bandwidth, 8 MiB", (rate, "MB/s"), (peak, "MPI"), 1.0, 1.0)
    });
    let (put, behind) = (nanos(Layer::PortalsPut), nanos(Layer::PortalsMatch));
    let each = put.zip(behind).map(|(put, behind)| (behind - put) / AHEAD as f64);
    goals.push(Goal::plain(
        "matching, each of 1,000 entries ahead",
        each,
        "ns",
        Some((3.0, 1.0)),
    ));
    goals.push(device(
        m,
        "MPI 8-byte ping-pong over Portals, one way",
        Layer::MpiPortals,
    ));
    goals
}

fn series(m: &Measured, kind: Kind, most: usize, value: fn(f64, f64) -> f64) -> Vec<Series> {
    let shown = LAYERS
        .into_iter()
        .filter(|layer| !matches!(layer, Layer::PortalsMatch | Layer::HostPut));
    let each = shown.map(|layer| {
        let mut one = curve(m, layer, kind, value);
        one.points.retain(|dot| dot.x <= most as f64);
        one
    });
    each.filter(|one| !one.points.is_empty()).collect()
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
    Panel::new("time (microseconds)", lines)
}

/// The paper's figures 4 to 7 and their files.
fn figures(subtitle: &str, m: &Measured) -> Vec<(&'static str, Chart)> {
    let bandwidth = |kind, value| Panel::new("bandwidth (MB/s)", series(m, kind, HUGE, value));
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
        .map(|(file, title, panel)| (file, Chart::by_size(title, subtitle, [panel])))
        .collect()
}

/// All four in one.
fn all(title: &str, subtitle: &str, m: &Measured) -> Chart {
    let each = figures(subtitle, m).into_iter();
    let panels = each.flat_map(|(_, one)| {
        let label = one.title;
        one.panels.into_iter().map(move |mut panel| {
            panel.y_label = format!("{label}: {}", panel.y_label);
            panel
        })
    });
    Chart::by_size(title, subtitle, panels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_bench::measure::pair::Samples;

    /// A layer of `latency` microseconds and a gigabyte a second; a stream hides the latency, and both ways at once take twice as long.
    fn made_up(latencies: &[(Layer, f64)]) -> Measured {
        let mut m = Measured::default();
        for (layer, latency) in latencies {
            let time = |bytes: usize| latency * 1e-6 + bytes as f64 * 1e-9;
            let mut samples = Samples::from([(Op::Floor, vec![2e-7])]);
            for bytes in [8, 1024, 2048, HUGE] {
                samples.insert(
                    Op::PingPong(bytes),
                    vec![time(bytes), 3.0 * time(bytes), 2.0 * time(bytes)],
                );
                samples.insert(Op::Stream(bytes), vec![bytes as f64 * 1e-9; 3]);
                samples.insert(Op::Both(bytes), vec![2.0 * time(bytes); 3]);
            }
            m.add(*layer, samples);
        }
        m
    }

    fn points(chart: &Chart, name: &str) -> Vec<(f64, f64)> {
        let mut series = chart.panels[0].series.iter();
        let one = series.find(|one| one.name == name);
        let one = one.unwrap_or_else(|| panic!("{}: no curve of {name}", chart.title));
        one.points
            .iter()
            .map(|dot| (dot.x, (dot.y * 1e3).round() / 1e3))
            .collect()
    }

    #[test]
    fn each_figure_shows_what_the_papers_shows() {
        let layers = [
            (Layer::PortalsPut, 1.0),
            (Layer::PortalsGet, 2.0),
            (Layer::PortalsMatch, 9.0),
            (Layer::MpiPortals, 1.5),
        ];
        let mut m = made_up(&layers);
        let put = Layer::PortalsPut.title();
        let names = |chart: &Chart| -> Vec<String> {
            chart.panels[0]
                .series
                .iter()
                .map(|one| one.name.clone())
                .collect()
        };
        let all_four = figures("here", &m);
        let files: Vec<&str> = all_four.iter().map(|(file, _)| *file).collect();
        assert_eq!(
            files,
            ["figure4.png", "figure5.png", "figure6.png", "figure7.png"]
        );
        let [latency, bandwidth, stream, both] = [0, 1, 2, 3].map(|at| &all_four[at].1);
        // Medians, in microseconds, up to 1 KiB, with the floor below.
        assert_eq!(points(latency, put), [(8.0, 2.016), (1024.0, 4.048)]);
        assert_eq!(points(latency, "bare line"), [(1.0, 0.2), (1024.0, 0.2)]);
        let shown = [Layer::PortalsPut, Layer::PortalsGet, Layer::MpiPortals].map(Layer::title);
        assert_eq!(
            names(latency)[..3],
            shown,
            "what is matched behind 1,000 entries is none of the curves"
        );
        for chart in [bandwidth, stream, both] {
            assert_eq!(names(chart), shown, "{}", chart.title);
            assert_eq!(points(chart, put).last().expect("points").0, HUGE as f64);
            assert!(chart.x_is_bytes && chart.subtitle == "here");
        }
        // 10^6 bytes a second; both ways count twice.
        assert_eq!(points(bandwidth, put)[0].1, (8.0_f64 / 2.016 * 1e3).round() / 1e3);
        assert_eq!(points(stream, put)[0].1, 1000.0);
        assert_eq!(
            points(both, put)[1].1,
            (2.0 * 1024.0 / (2.0 * 2.024) * 1e3_f64).round() / 1e3
        );
        m.quickest = true;
        assert_eq!(
            points(&figures("", &m)[0].1, put)[0],
            (8.0, 1.008),
            "NetPIPE's: the quickest trial"
        );
        let whole = all("all of them", "here", &m);
        assert_eq!((whole.panels.len(), whole.title.as_str()), (4, "all of them"));
        assert!(
            whole.panels[3]
                .y_label
                .starts_with("Bidirectional bandwidth: bandwidth")
        );
    }

    #[test]
    fn figures_are_drawn() {
        let dir = std::env::temp_dir().join(format!("farpost-figures-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let m = made_up(&[(Layer::PortalsPut, 1.0), (Layer::GenericPut, 20.0)]);
        write_figures(&figures("here", &m), &dir).unwrap();
        for number in 4..8 {
            let file = std::fs::read(dir.join(format!("figure{number}.png"))).unwrap();
            assert!(
                file.starts_with(b"\x89PNG") && file.len() > 4096,
                "figure {number}: {} bytes",
                file.len()
            );
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_half_bandwidth_sizes_are_those_of_the_figures() {
        let m = made_up(&[(Layer::PortalsPut, 1.0)]);
        let sizes = [8, 1024, 2048, HUGE];
        let half = half_bandwidths(&m, &sizes).remove(0).figure.expect("a size");
        // Median 2 us + 2 ns a byte: half of it at 1 us' worth of bytes, between the measured 8 and 1024.
        assert!((900.0..1024.0).contains(&half), "{half}");
        assert!(
            half_bandwidths(&m, &sizes[..3])[0].figure.is_none(),
            "the curve does not end at 8 MiB"
        );
    }

    #[test]
    fn a_rate_is_reached_between_two_points() {
        // The second point is the highest, the last the end: their halves are reached at different sizes.
        let rates = [(1.0, 1.0), (3.0, 8.0), (8.0, 2.0)];
        let at = |rate| reaches(&rates, rate).unwrap();
        assert!(
            (at(8.0 / 2.0) - (1.0 + 2.0 * 3.0 / 7.0)).abs() < 1e-9,
            "{}",
            at(4.0)
        );
        assert!((at(2.0 / 2.0) - 1.0).abs() < 1e-9, "{}", at(1.0));
        assert_eq!(reaches(&rates, 9.0), None);
        assert_eq!(reaches(&[], 1.0), None);
    }
}
