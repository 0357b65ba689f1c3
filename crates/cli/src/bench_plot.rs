//! `farpost bench plot`: the results of several runs in one chart.

use crate::bench_args::Plot;
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::{BenchError, Result};
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
        return Err(BenchError::Usage(format!(
            "{}: holds {other}, and the first file {first}",
            file.display()
        )));
    }
    let (title, axes): (&str, &[Axis]) = match first.as_str() {
        "memory" => return write(o, &memory(&names(&o.results, &results), &results)),
        "peers" => return write(o, &peers(&results)),
        "pingpong" => ("Ping-pong between two ranks, one way", &PING_PONG),
        "netpipe" => ("NetPIPE ping-pong between two ranks, one way", &PING_PONG),
        "rate" => ("Message rate", &RATE),
        other => {
            return Err(BenchError::Usage(format!(
                "{other}: only pingpong, netpipe, rate, memory and peers can be drawn together"
            )));
        }
    };
    let names = names(&o.results, &results);
    let panels = axes.iter().map(|(label, value)| Panel {
        y_label: (*label).into(),
        series: results
            .iter()
            .zip(&names)
            .map(|(v, name)| series(v, name, value))
            .collect(),
    });
    let chart = Chart {
        title: title.into(),
        subtitle: results[0]["host"].as_str().unwrap_or_default().to_owned(),
        x_label: "message size (bytes)".into(),
        x_is_bytes: true,
        panels: panels.collect(),
    };
    write(o, &chart)
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
    let panels = MEMORY.iter().map(|(member, label)| Panel {
        y_label: (*label).into(),
        series: (results.iter().zip(names))
            .map(|(result, name)| {
                let points = result["points"].as_array().into_iter().flatten();
                let dot = |p: &Value| {
                    let of = |what: &str| p[member][what].as_f64().filter(|x| *x > 0.0);
                    Some(Dot {
                        x: p["ranks"].as_f64()?,
                        y: of("median")?,
                        low: of("min")?,
                        high: of("max")?,
                    })
                };
                Series {
                    name: name.clone(),
                    points: points.filter_map(dot).collect(),
                }
            })
            .collect(),
    });
    Chart {
        title: "A rank's memory as its job grows".into(),
        subtitle: results[0]["host"].as_str().unwrap_or_default().to_owned(),
        x_label: "ranks of the job".into(),
        x_is_bytes: false,
        panels: panels.collect(),
    }
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
    let points = || {
        results
            .iter()
            .flat_map(|v| v["points"].as_array().into_iter().flatten())
    };
    let panel = |name: &str, is_here: fn(Option<u64>) -> bool| {
        let here = || points().filter(move |p| is_here(p["hosts"].as_u64()));
        let series = PEER_STEPS.iter().map(|(step, name)| {
            let dot = |p: &Value| {
                let of = |what: &str| p["peers_kib"][step][what].as_f64().filter(|x| *x > 0.0);
                Some(Dot {
                    x: p["ranks"].as_f64()?,
                    y: of("median")?,
                    low: of("min")?,
                    high: of("max")?,
                })
            };
            Series {
                name: (*name).into(),
                points: here().filter_map(dot).collect(),
            }
        });
        here().next().is_some().then(|| Panel {
            y_label: format!("KiB of a rank, {name}"),
            series: series.collect(),
        })
    };
    let panels = [
        panel("one host", |hosts| hosts == Some(1)),
        panel("several hosts", |hosts| hosts > Some(1)),
        panel("in one process", |hosts| hosts.is_none()),
    ];
    Chart {
        title: "A rank's memory for its peers, all to all".into(),
        subtitle: results[0]["host"].as_str().unwrap_or_default().to_owned(),
        x_label: "ranks of the job".into(),
        x_is_bytes: false,
        panels: panels.into_iter().flatten().collect(),
    }
}

fn read(file: &Path) -> Result<Value> {
    let what = || format!("reading {}", file.display());
    let text = std::fs::read_to_string(file).map_err(|cause| BenchError::Io { what: what(), cause })?;
    serde_json::from_str(&text).map_err(|e| {
        BenchError::Usage(format!(
            "{}: not a result written with --json: {e}",
            file.display()
        ))
    })
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
    let points = result["points"].as_array().into_iter().flatten().filter_map(|p| {
        let x = number(p, "bytes")?;
        let y = value(x, number(p, "median_us")?);
        let ends = (value(x, number(p, "min_us")?), value(x, number(p, "max_us")?));
        Some(Dot {
            x,
            y,
            low: ends.0.min(ends.1),
            high: ends.0.max(ends.1),
        })
    });
    Series {
        name: name.to_owned(),
        points: points.collect(),
    }
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
