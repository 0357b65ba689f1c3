//! Figures 4 to 7.

use super::netpipe::{self, Test};
use super::{LONGEST, bandwidth, mpi};
use crate::{Axis, Effort, Figure, Mark, Series};
use farpost_sim::machine::Machine;
use farpost_sim::time::Ps;

/// Sizes of latency curves, with the two at the step.
fn short() -> Vec<usize> {
    let mut sizes = vec![1, 2, 3, 4, 6, 8, 12, 13, 16, 24, 32, 48, 64, 96];
    sizes.extend([128, 192, 256, 384, 512, 768, 1024]);
    sizes
}

/// Sizes of bandwidth curves: powers of two, and what is between them.
fn long(effort: Effort) -> Vec<usize> {
    let powers = (0..=LONGEST.ilog2()).map(|power| 1usize << power);
    match effort {
        Effort::Short => powers.step_by(2).chain([2048, 8192, LONGEST]).collect(),
        Effort::Full => powers.flat_map(|size| [size, size + size / 2]).collect(),
    }
}

fn series(name: &str, sizes: &[usize], point: impl Fn(usize) -> f64) -> Series {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let points = sizes.into_iter().filter(|size| *size <= LONGEST);
    Series {
        name: name.into(),
        points: points.map(|size| (size as f64, point(size))).collect(),
    }
}

fn mark(x: f64, y: f64, label: &str) -> Mark {
    Mark {
        at: (x, y),
        label: label.into(),
    }
}

fn figure(number: u32, title: &str, y: &str, series: Vec<Series>, marks: Vec<Mark>) -> Figure {
    let axis = |title: &str, logarithmic| Axis {
        title: title.into(),
        logarithmic,
    };
    Figure {
        name: format!("xt3-{number}"),
        title: title.into(),
        x: axis("message size (bytes)", true),
        y: axis(y, false),
        series,
        marks,
    }
}

/// All four.
pub fn all(machine: &Machine, mpich2: &Machine, effort: Effort) -> Vec<Figure> {
    let sizes = long(effort);
    let curves = |sizes: &[usize], puts: Test, gets: Option<Test>, value: &dyn Fn(Ps, usize) -> f64| {
        let mut all = vec![series("put", sizes, |len| {
            value(netpipe::time(machine, puts, len), len)
        })];
        all.extend(
            gets.map(|gets| series("get", sizes, |len| value(netpipe::time(machine, gets, len), len))),
        );
        for (name, machine) in [("MPICH-1.2.6", machine), ("MPICH2", mpich2)] {
            all.push(series(name, sizes, |len| {
                value(mpi::time(machine, puts, len), len)
            }));
        }
        all
    };
    let micros = |time: Ps, _| time.micros();
    let megabytes = |time, len| bandwidth(time, len) / 1e6;
    let (half, longest) = (1108.76 / 2.0, LONGEST as f64);
    let rate = "bandwidth (MB/s)";
    vec![
        figure(
            4,
            "Latency",
            "time (us)",
            curves(&short(), Test::PingPong, Some(Test::Get), &micros),
            vec![
                mark(1.0, 5.39, "put"),
                mark(1.0, 6.60, "get"),
                mark(1.0, 7.97, "MPICH-1.2.6"),
                mark(1.0, 8.40, "MPICH2"),
            ],
        ),
        figure(
            5,
            "Uni-directional bandwidth",
            rate,
            curves(&sizes, Test::PingPong, Some(Test::Get), &megabytes),
            vec![mark(longest, 1108.76, "put"), mark(7168.0, half, "half")],
        ),
        figure(
            6,
            "Streaming bandwidth",
            rate,
            curves(&sizes, Test::Stream, Some(Test::StreamOfGets), &megabytes),
            vec![mark(5120.0, half, "half")],
        ),
        figure(
            7,
            "Bi-directional bandwidth",
            rate,
            curves(&sizes, Test::Bidirectional, None, &megabytes),
            vec![mark(longest, 2203.19, "put")],
        ),
    ]
}
