//! `farpost bench plot`: the results of several runs in one chart.

use crate::bench_args::Plot;
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::stats::Summary;
use farpost_bench::{BenchError, Result, usage};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is drawn of a kind of result: titles of the axes, and how a time in microseconds becomes a value.
type Axis = (&'static str, fn(f64, f64) -> f64);

const PING_PONG: [Axis; 2] = [
    ("bandwidth (MB/s)", |bytes, us| bytes / us),
    ("time (µs)", |_, us| us),
];
const RATE: [Axis; 1] = [("messages per second", |_, us| 1e6 / us)];

/// Read every result and write the chart.
pub fn plot(o: &Plot) -> Result<()> {
    o.out.iter().try_for_each(|f| chart::check_name(f))?;
    let results = o
        .results
        .iter()
        .map(|f| read(f))
        .collect::<Result<Vec<Value>>>()?;
    let kind = |v: &Value| v["benchmark"].as_str().unwrap_or("?").to_owned();
    let first = kind(&results[0]);
    if let Some((file, other)) = o.results.iter().zip(&results).find(|(_, v)| kind(v) != first) {
        let other = kind(other);
        return Err(usage!(
            "{}: holds {other}, and the first file {first}",
            file.display()
        ));
    }
    let (title, axes): (&str, &[Axis]) = match first.as_str() {
        "memory" => return write(o, &memory(&names(&o.results, &results), &results)),
        "peers" => return write(o, &peers(&results)),
        "pingpong" => ("Ping-pong between two ranks, one way", &PING_PONG),
        "netpipe" => ("NetPIPE ping-pong between two ranks, one way", &PING_PONG),
        "rate" => ("Message rate", &RATE),
        other => {
            return Err(usage!(
                "{other}: only pingpong, netpipe, rate, memory and peers can be drawn together"
            ));
        }
    };
    let names = names(&o.results, &results);
    let panels = axes.iter().map(|(label, value)| {
        let series = results.iter().zip(&names).map(|(v, name)| series(v, name, value));
        Panel::new(*label, series)
    });
    write(o, &Chart::by_size(title, host(&results), panels))
}

fn host(results: &[Value]) -> &str {
    results[0]["host"].as_str().unwrap_or_default()
}

/// The points of a result.
fn points(result: &Value) -> impl Iterator<Item = &Value> {
    result["points"].as_array().into_iter().flatten()
}

/// A median with its range by the ranks of the job.
fn by_ranks(p: &Value, measured: &Value) -> Option<Dot> {
    let of = |what: &str| measured[what].as_f64().filter(|x| *x > 0.0);
    let (x, y) = (p["ranks"].as_f64()?, of("median")?);
    let (low, high) = (of("min")?, of("max")?);
    Some(Dot { x, y, low, high })
}

fn write(o: &Plot, chart: &Chart) -> Result<()> {
    for file in &o.out {
        chart::write(chart, file)?;
        eprintln!("wrote {}", file.display());
    }
    Ok(())
}

/// Member of a point of scripts/measure-memory.py, and title of its axis.
const MEMORY: [(&str, &str); 3] = [
    ("resident_kib", "resident memory of a rank (KiB)"),
    ("share_kib", "its own share of it (KiB)"),
    ("start_ms", "start and end of an empty job (ms)"),
];

/// What a rank takes by ranks of its job: medians, from the least to the largest.
fn memory(names: &[String], results: &[Value]) -> Chart {
    let panels = MEMORY.iter().map(|(member, label)| {
        let series = results
            .iter()
            .zip(names)
            .map(|(result, name)| Series::new(name, points(result).filter_map(|p| by_ranks(p, &p[member]))));
        Panel::new(*label, series)
    });
    Chart::over(
        "ranks of the job",
        "A rank's memory as its job grows",
        host(results),
        panels,
    )
}

/// Steps of bench/peers.c, and what they are called.
const PEER_STEPS: [(&str, &str); 5] = [
    ("met", "one message to each"),
    ("8", "8 bytes"),
    ("1024", "1 KiB"),
    ("65536", "64 KiB"),
    ("rest", "after a rest"),
];

/// What a rank takes for its peers, after messages from all to all: a panel each for one host, for several, and for ranks in one process,
/// as far as there are results.
fn peers(results: &[Value]) -> Chart {
    let panel = |name: &str, is_here: fn(Option<u64>) -> bool| {
        let all = || results.iter().flat_map(points);
        let here = || all().filter(move |p| is_here(p["hosts"].as_u64()));
        let series = PEER_STEPS.iter().map(|(step, name)| {
            Series::new(*name, here().filter_map(|p| by_ranks(p, &p["peers_kib"][step])))
        });
        let is_there = here().next().is_some();
        is_there.then(|| Panel::new(format!("KiB of a rank, {name}"), series))
    };
    let panels = [
        panel("one host", |hosts| hosts == Some(1)),
        panel("several hosts", |hosts| hosts > Some(1)),
        panel("in one process", |hosts| hosts.is_none()),
    ];
    let panels = panels.into_iter().flatten();
    Chart::over(
        "ranks of the job",
        "A rank's memory for its peers, all to all",
        host(results),
        panels,
    )
}

fn read(file: &Path) -> Result<Value> {
    let what = || format!("reading {}", file.display());
    let text = std::fs::read_to_string(file).map_err(BenchError::io(what()))?;
    serde_json::from_str(&text)
        .map_err(|e| usage!("{}: not a result written with --json: {e}", file.display()))
}

/// Letters that fit in the legend.
const NAME_MAX: usize = 24;

/// What tells the results apart: the libraries, or the files where the libraries are the same.
fn names(files: &[PathBuf], results: &[Value]) -> Vec<String> {
    let libraries: Vec<String> = results
        .iter()
        .map(|v| {
            let text = v["library"].as_str().unwrap_or_default();
            let first = text.split([',', '(', '\n']).next().unwrap_or_default();
            first.split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect();
    let alone =
        |name: &String| !name.is_empty() && libraries.iter().filter(|other| *other == name).count() == 1;
    let all_alone = libraries.iter().all(alone);
    files
        .iter()
        .zip(&libraries)
        .map(|(file, library)| {
            let stem = || {
                file.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            };
            let name = if all_alone { library.clone() } else { stem() };
            match name.char_indices().nth(NAME_MAX) {
                Some((end, _)) => format!("{}…", &name[..end]),
                None => name,
            }
        })
        .collect()
}

fn series(result: &Value, name: &str, value: &fn(f64, f64) -> f64) -> Series {
    let number = |p: &Value, name: &str| p[name].as_f64().filter(|x| *x > 0.0);
    let dots = points(result).filter_map(|p| {
        let x = number(p, "bytes")?;
        let (median, min, max) = (
            number(p, "median_us")?,
            number(p, "min_us")?,
            number(p, "max_us")?,
        );
        Some(Dot::of(x, &Summary { median, min, max }, |t| value(x, t)))
    });
    Series::new(name, dots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn points_without_times_are_left_out_and_ranges_are_ordered() {
        let v = json!({ "library": "L", "points": [
            { "bytes": 0, "median_us": 1.0, "min_us": 1.0, "max_us": 1.0 },
            { "bytes": 100, "median_us": 2.0, "min_us": 1.0, "max_us": 4.0 },
            { "bytes": 200 },
        ]});
        let s = series(&v, "L", &PING_PONG[0].1);
        assert_eq!((s.name.as_str(), s.points.len()), ("L", 1));
        assert_eq!(
            (s.points[0].y, s.points[0].low, s.points[0].high),
            (50.0, 25.0, 100.0)
        );
    }

    #[test]
    fn names_are_short_and_tell_results_apart() {
        let files = ["x/one.json", "x/two.json"].map(PathBuf::from);
        let of = |a: &str, b: &str| names(&files, &[json!({ "library": a }), json!({ "library": b })]);
        assert_eq!(
            of("Farpost 0.1.0, MPI 5.0", "MPICH Version:      5.0.2"),
            ["Farpost 0.1.0", "MPICH Version: 5.0.2"]
        );
        assert_eq!(of("Farpost 0.1.0, MPI 5.0", "Farpost 0.1.0"), ["one", "two"]);
        assert!(of("L", &"m".repeat(99))[1].chars().count() <= NAME_MAX + 1);
    }

    #[test]
    fn results_of_two_kinds_are_refused_by_name() {
        let dir = std::env::temp_dir().join(format!("farpost-plot-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = [("a.json", "pingpong"), ("b.json", "rate")].map(|(name, kind)| {
            std::fs::write(
                dir.join(name),
                json!({ "benchmark": kind, "points": [] }).to_string(),
            )
            .unwrap();
            dir.join(name)
        });
        let err = plot(&Plot {
            results: files.to_vec(),
            out: vec![dir.join("x.svg")],
        })
        .unwrap_err()
        .to_string();
        assert!(
            err.contains("b.json: holds rate, and the first file pingpong"),
            "{err}"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }
}
