//! Results as text for people and JSON for programs.

use crate::abi::{BenchError, Mpi, Result};
use crate::measure::Point;
use crate::sizes::human;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Which benchmark the points are of: decides the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchmarkKind {
    /// One way time and bandwidth by size.
    PingPong,
    /// Messages per second by size.
    Rate,
    /// Time of a call by operation and size.
    Collectives,
    /// Wall time of a job by ranks, and memory.
    Startup,
}

impl BenchmarkKind {
    fn columns(self) -> &'static [(&'static str, usize)] {
        match self {
            BenchmarkKind::PingPong => &[
                ("bytes", 10),
                ("repeats", 9),
                ("time (us)", 12),
                ("min", 12),
                ("max", 12),
                ("MB/s", 11),
            ],
            BenchmarkKind::Rate => &[
                ("bytes", 10),
                ("repeats", 9),
                ("messages/s", 14),
                ("min", 14),
                ("max", 14),
                ("MB/s", 11),
            ],
            BenchmarkKind::Collectives => &[
                ("operation", 20),
                ("bytes", 10),
                ("repeats", 9),
                ("time (us)", 13),
                ("min", 13),
                ("max", 13),
                ("MB/s", 11),
            ],
            BenchmarkKind::Startup => &[
                ("ranks", 6),
                ("jobs", 6),
                ("wall (ms)", 11),
                ("min", 11),
                ("max", 11),
            ],
        }
    }

    /// The heading of the table.
    pub fn header(self) -> String {
        let row: Vec<String> = self
            .columns()
            .iter()
            .map(|(name, width)| format!("{name:>width$}"))
            .collect();
        row.join(" ")
    }

    /// One line of the table.
    pub fn row(self, p: &Point) -> String {
        let us = |t: f64| format!("{:.3}", t * 1e6);
        let per_second = |t: f64| format!("{:.0}", 1.0 / t);
        let (bytes, repetitions, t) = (p.bytes.to_string(), p.repetitions.to_string(), p.time);
        let rate = || format!("{:.1}", p.megabytes(t.median));
        let times = |of: &dyn Fn(f64) -> String| [of(t.median), of(t.min), of(t.max)];
        let cells: Vec<String> = match self {
            BenchmarkKind::PingPong => {
                let [median, min, max] = times(&us);
                vec![bytes, repetitions, median, min, max, rate()]
            }
            BenchmarkKind::Rate => {
                let [median, most, least] = times(&per_second);
                vec![bytes, repetitions, median, least, most, rate()]
            }
            BenchmarkKind::Collectives => {
                let bytes = if p.op == "barrier" { "-".into() } else { bytes };
                let [median, min, max] = times(&us);
                let rate = if p.moved == 0 { "-".into() } else { rate() };
                vec![p.op.to_owned(), bytes, repetitions, median, min, max, rate]
            }
            BenchmarkKind::Startup => {
                let [median, min, max] = times(&|t| format!("{:.2}", t * 1e3));
                vec![bytes, p.trials.to_string(), median, min, max]
            }
        };
        let row: Vec<String> = cells
            .iter()
            .zip(self.columns())
            .map(|(c, (_, width))| format!("{c:>width$}"))
            .collect();
        row.join(" ")
    }

    /// What a progress bar says about a finished point.
    pub fn label(self, p: &Point) -> String {
        match self {
            BenchmarkKind::PingPong | BenchmarkKind::Rate => format!("{} bytes", human(p.bytes)),
            BenchmarkKind::Collectives if p.op == "barrier" => p.op.to_owned(),
            BenchmarkKind::Collectives => format!("{} {}", p.op, human(p.bytes)),
            BenchmarkKind::Startup => format!("{} ranks", p.bytes),
        }
    }

    fn value(self, p: &Point) -> Value {
        let mut v = json!({ "repetitions": p.repetitions, "trials": p.trials });
        let scale = if self == BenchmarkKind::Startup {
            ("ms", 1e3)
        } else {
            ("us", 1e6)
        };
        for (name, t) in [
            ("median", p.time.median),
            ("min", p.time.min),
            ("max", p.time.max),
        ] {
            v[format!("{name}_{}", scale.0)] = json!(t * scale.1);
        }
        match self {
            BenchmarkKind::PingPong => v["megabytes_per_s"] = json!(p.megabytes(p.time.median)),
            BenchmarkKind::Rate => v["messages_per_s"] = json!(1.0 / p.time.median),
            BenchmarkKind::Collectives => {
                v["op"] = json!(p.op);
                v["megabytes_per_s"] = json!(p.megabytes(p.time.median));
            }
            BenchmarkKind::Startup => v["ranks"] = json!(p.bytes),
        }
        if self != BenchmarkKind::Startup {
            v["bytes"] = json!(p.bytes);
        }
        v
    }
}

/// Where the numbers come from.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// First line of `MPI_Get_library_version`.
    pub library: String,
    /// The file it was loaded from.
    pub file: String,
    /// MPI version implemented.
    pub mpi: (i32, i32),
    /// Ranks of the job.
    pub ranks: usize,
    /// Host name, processor and cores this process may use.
    pub host: String,
}

impl Provenance {
    /// Ask the library and the host.
    pub fn of(mpi: &Mpi) -> Result<Self> {
        let (library, version) = mpi.version()?;
        let file = mpi
            .path()
            .canonicalize()
            .unwrap_or_else(|_| mpi.path().to_owned());
        Ok(Self {
            library,
            file: file.display().to_string(),
            mpi: version,
            ranks: mpi.size(),
            host: host(),
        })
    }
}

/// Host, processor and cores, for people.
pub fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let name = read("/proc/sys/kernel/hostname").trim().to_owned();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|x| x.1.trim()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{name}: {}, {cores} core{}",
        model.unwrap_or("processor"),
        if cores == 1 { "" } else { "s" }
    )
}

/// The whole result as JSON; `extra` adds benchmark-specific members.
pub fn to_json(
    benchmark: &str,
    kind: BenchmarkKind,
    from: &Provenance,
    points: &[Point],
    extra: &[(&str, Value)],
) -> Value {
    let mut v = json!({
        "benchmark": benchmark,
        "library": from.library,
        "library_file": from.file,
        "mpi_version": format!("{}.{}", from.mpi.0, from.mpi.1),
        "ranks": from.ranks,
        "host": from.host,
        "points": points.iter().map(|p| kind.value(p)).collect::<Vec<_>>(),
    });
    for (name, value) in extra {
        v[*name] = value.clone();
    }
    v
}

/// Write JSON to a file, or to standard output for `-`.
pub fn write_json(file: &Path, value: &Value) -> Result<()> {
    let text = format!("{value:#}\n");
    let written = if file == Path::new("-") {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        make_parent(file).and_then(|()| std::fs::write(file, text))
    };
    written.map_err(BenchError::io(format!("writing {}", file.display())))
}

/// Create the directory a file is to be in.
pub(crate) fn make_parent(file: &Path) -> std::io::Result<()> {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => std::fs::create_dir_all(dir),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn point() -> Point {
        let time = Summary {
            median: 1e-6,
            min: 0.5e-6,
            max: 2e-6,
        };
        Point {
            op: "bcast",
            bytes: 4096,
            repetitions: 10,
            trials: 3,
            time,
            moved: 4096,
        }
    }

    #[test]
    fn rows_align_with_their_headers() {
        for kind in [
            BenchmarkKind::PingPong,
            BenchmarkKind::Rate,
            BenchmarkKind::Collectives,
            BenchmarkKind::Startup,
        ] {
            assert_eq!(kind.header().len(), kind.row(&point()).len(), "{kind:?}");
        }
        assert!(
            BenchmarkKind::PingPong.row(&point()).ends_with("4096.0"),
            "{}",
            BenchmarkKind::PingPong.row(&point())
        );
        assert!(BenchmarkKind::Rate.row(&point()).contains(" 1000000 "));
    }

    #[test]
    fn json_has_provenance_and_points() {
        let from = Provenance {
            library: "L".into(),
            file: "f".into(),
            mpi: (5, 0),
            ranks: 2,
            host: "h".into(),
        };
        let v = to_json(
            "netpipe",
            BenchmarkKind::PingPong,
            &from,
            &[point()],
            &[("note", json!(1))],
        );
        assert_eq!(v["mpi_version"], "5.0");
        assert_eq!(v["note"], 1);
        assert_eq!(v["points"][0]["bytes"], 4096);
        assert!((v["points"][0]["median_us"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
}
