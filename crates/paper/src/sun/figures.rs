//! Figures 7 and 8: collectives by size, and the scaling of the NAS Parallel Benchmarks.

use super::npb::{self, Kernel};
use super::{axis, collectives, row};
use crate::{Class, Effort, Expected, Figure, Mark, Origin, Results, Series, Unit};
use farpost_sim::machine::Machine;
use strum::VariantArray;

/// Processes and nodes of figure 7.
const JOB: (u32, u32) = (92, 4);

/// The longest block of it: longer ones go through as many postboxes as they need, at no other rate.
pub const LONGEST: usize = 24 << 10;

/// Around the change of protocols.
const LAST_SHORT: usize = 2000;
const FIRST_LONG: usize = 2064;

/// Figure 7, of which `all_to_all` is the bandwidth at the longest block.
pub fn collectives(machine: &Machine, effort: Effort, all_to_all: f64, results: &mut Results) {
    // Messages of up to 2000 bytes go in postboxes alone: a line further they do not.
    let (names, sizes): (&[&str], &[usize]) = match effort {
        Effort::Short => (&["Alltoall", "Bcast"], &[LAST_SHORT, FIRST_LONG, LONGEST]),
        Effort::Full => (
            &["Alltoall", "Bcast", "Gather", "Scatter", "Reduce"],
            &[256, 1024, LAST_SHORT, FIRST_LONG, 8192, LONGEST],
        ),
    };
    let curve = |name: &str| Series {
        name: name.into(),
        points: sizes
            .iter()
            .map(|&bytes| {
                let known = (name, bytes) == ("Alltoall", LONGEST);
                let rate = if known {
                    all_to_all
                } else {
                    collectives::rooted(machine, JOB, name, bytes)
                };
                (bytes as f64, rate)
            })
            .collect(),
    };
    let series: Vec<Series> = names.iter().map(|name| curve(name)).collect();
    let at = |series: &Series, bytes: usize| {
        let point = series.points.iter().find(|point| point.0 == bytes as f64);
        point.map_or(0.0, |point| point.1)
    };
    let jumps = (at(&series[0], FIRST_LONG) / at(&series[0], LAST_SHORT) - 1.0).abs() > 0.05;
    results.rows.push(row(
        "S12",
        "collectives jump where the protocol changes",
        Class::Shape,
        Origin::Predicted,
        Unit::Plain,
        Expected::Holds,
        f64::from(u8::from(jumps)),
    ));
    results.figures.push(Figure {
        name: "sun-7".into(),
        title: "Collectives of 92 processes on 4 nodes".into(),
        x: axis("message, bytes"),
        y: axis("MB/s"),
        series,
        marks: vec![Mark {
            at: (LONGEST as f64, 85.0),
            label: "85 MB/s of MPI_Alltoall (size not said)".into(),
        }],
    });
}

/// Processes of each node in figure 8, which the paper does not say.
const EACH: u32 = 16;

/// Nodes of the figure's rows.
const NODES: f64 = 4.0;

/// Figure 8: speed-up over one node, by nodes.
pub fn scaling(machine: &Machine, effort: Effort, results: &mut Results) {
    // All kernels of class B on up to eight nodes take minutes.
    let (nodes, kernels): (&[u32], &[Kernel]) = match effort {
        Effort::Short => (&[1, 4], &[Kernel::Ep, Kernel::Lu, Kernel::Mg]),
        Effort::Full => (&[1, 2, 4, 8], Kernel::VARIANTS),
    };
    let mut series = Vec::new();
    for kernel in kernels {
        let runs = nodes.iter().filter(|nodes| kernel.runs_on(EACH * **nodes));
        let times: Vec<(f64, f64)> = runs
            .map(|nodes| {
                let time = npb::time(machine, *kernel, npb::Class::B, (EACH * nodes, *nodes));
                (f64::from(*nodes), time)
            })
            .collect();
        let one = times[0].1;
        let points: Vec<(f64, f64)> = times.iter().map(|(nodes, time)| (*nodes, one / time)).collect();
        let four = points
            .iter()
            .find(|point| point.0 == NODES)
            .map_or(0.0, |point| point.1);
        results.rows.push(row(
            &format!("S15.{kernel}"),
            &format!("NPB {kernel}, class B: speed-up of 4 nodes by the ideal"),
            Class::Shape,
            Origin::Predicted,
            Unit::Plain,
            Expected::AtLeast(1.0),
            four / NODES,
        ));
        series.push(Series {
            name: format!("{kernel}, class B"),
            points,
        });
    }
    let ideal = nodes.iter().map(|nodes| (f64::from(*nodes), f64::from(*nodes)));
    series.push(Series {
        name: "ideal".into(),
        points: ideal.collect(),
    });
    results.figures.push(Figure {
        name: "sun-8".into(),
        title: format!("NPB scaling, {EACH} processes a node"),
        x: axis("nodes"),
        y: axis("speed-up"),
        series,
        // The paper states no point of it.
        marks: Vec::new(),
    });
}
