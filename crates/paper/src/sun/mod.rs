//! Sun Fire Link and Sun MPI (Sistare and Jackson, SC 2002).
//!
//! Sun MPI is Farpost's MPI over postboxes with the paper's numbers: messages of up to 2000 bytes in postboxes alone, 36 of them, longer ones through blocks behind a barrier of the
//! hardware. A postbox of Sun's refers to several blocks; [`machine::POSTBOX`] says how that is done here. Processes of a host have shared segments.

pub mod collectives;
mod figures;
pub mod machine;
pub mod npb;
pub mod points;
mod trees;

use crate::{Axis, Class, Effort, Expected, Figure, Mark, Origin, Results, Row, Series, Unit};
use farpost_sim::machine::Machine;

fn row(
    id: &str,
    what: &str,
    class: Class,
    origin: Origin,
    unit: Unit,
    expected: Expected,
    simulated: f64,
) -> Row {
    Row {
        id: id.into(),
        what: what.into(),
        class,
        origin,
        unit,
        expected,
        simulated,
        null_model: None,
        note: String::new(),
    }
}

/// Latency and bandwidth of pairs.
fn point_rows(machine: &Machine, rows: &mut Vec<Row>) {
    use Class::{Absolute, Ratio};
    use Expected::{AtLeast, Either, Value};
    use Origin::{Fitted, Predicted};
    use Unit::{Megabytes, Micros, Plain};
    let far = points::ping_pong(machine, (1, 2), 0).latency;
    let near = points::ping_pong(machine, (1, 1), 0).latency;
    let raw = points::block_stores(machine);
    let long = 1 << 20;
    let one = points::ping_pong(machine, (1, 2), long).bandwidth;
    let on_node = points::ping_pong(machine, (1, 1), long).bandwidth;
    let many = points::ping_pong(machine, (16, 2), long).bandwidth;
    let whole = points::unpipelined(machine, long).bandwidth;
    rows.extend([
        row(
            "S1",
            "MPI latency between hosts",
            Absolute,
            Fitted,
            Micros,
            Value(3.7),
            far,
        ),
        row(
            "S2",
            "block stores' latency",
            Absolute,
            Fitted,
            Micros,
            Value(1.7),
            raw,
        ),
        row(
            "S3",
            "MPI's part of the latency",
            Ratio,
            Fitted,
            Micros,
            Value(2.0),
            far - raw,
        ),
        row(
            "S4",
            "MPI latency in a host",
            Absolute,
            Fitted,
            Micros,
            Value(1.5),
            near,
        ),
        row(
            "S5",
            "latency between hosts by that in one",
            Ratio,
            Fitted,
            Plain,
            Value(2.5),
            far / near,
        ),
        row(
            "S6",
            "bandwidth of a pair between hosts",
            Absolute,
            Fitted,
            Megabytes,
            Either(792.0, 867.0),
            one,
        ),
        row(
            "S7",
            "bandwidth of a pair in a host",
            Absolute,
            Fitted,
            Megabytes,
            Value(806.0),
            on_node,
        ),
        row(
            "S8",
            "bandwidth of all pairs between two hosts",
            Absolute,
            Fitted,
            Megabytes,
            Value(2900.0),
            many,
        ),
        row(
            "S16",
            "bandwidth with postboxes pipelined by that without",
            Ratio,
            Predicted,
            Plain,
            Value(2.0),
            one / whole,
        ),
        row(
            "S17",
            "almost 3 GB/s",
            Absolute,
            Fitted,
            Megabytes,
            AtLeast(2900.0),
            many,
        ),
    ]);
}

fn axis(title: &str) -> Axis {
    Axis {
        title: title.into(),
        logarithmic: true,
    }
}

/// Figures 5 and 6: bandwidth by size, and latency by pairs.
fn curves(machine: &Machine, results: &mut Results) {
    use Class::Shape;
    use Origin::Predicted;
    let sizes = [64, 512, 1024, 1500, 2000, 2001, 3000, 4096, 16384, 65536, 1 << 20];
    let curve = |pairs: u32| -> Vec<(f64, f64)> {
        let at = |bytes: usize| {
            (
                bytes as f64,
                points::ping_pong(machine, (pairs, 2), bytes).bandwidth,
            )
        };
        sizes.map(at).into()
    };
    let curves = [1, 4, 16].map(|pairs| (pairs, curve(pairs)));
    // The paper sees a point of inflection in each: it rises up to there, and falls with the next byte by more than a fiftieth.
    let bends = curves.iter().all(|(_, curve)| {
        let at = |bytes: f64| {
            curve
                .iter()
                .find(|point| point.0 == bytes)
                .map_or(0.0, |point| point.1)
        };
        at(2000.0) > at(1500.0) && at(2001.0) < 0.98 * at(2000.0)
    });
    results.rows.push(row(
        "S9",
        "all curves bend at 2000 bytes",
        Shape,
        Predicted,
        Unit::Plain,
        Expected::Holds,
        f64::from(u8::from(bends)),
    ));
    let series = |(pairs, points): (u32, Vec<(f64, f64)>)| Series {
        name: format!("np = {}", 2 * pairs),
        points,
    };
    results.figures.push(Figure {
        name: "sun-5".into(),
        title: "Aggregate ping-pong bandwidth".into(),
        x: axis("message, bytes"),
        y: axis("MB/s"),
        series: curves.into_iter().map(series).collect(),
        marks: [(792.0, "792 MB/s of one pair"), (2900.0, "over 2900 MB/s of all")]
            .map(|(rate, label)| Mark {
                at: (f64::from(1 << 20), rate),
                label: label.into(),
            })
            .into(),
    });
    let pairs = [1, 2, 4, 8, 16, 24];
    let load = [0, 40, 256].map(|bytes| {
        let at = |pairs: u32| {
            (
                f64::from(pairs),
                points::ping_pong(machine, (pairs, 2), bytes).latency,
            )
        };
        Series {
            name: format!("{bytes} bytes"),
            points: pairs.map(at).into(),
        }
    });
    let flat = load.iter().all(|series| {
        let (first, last) = (series.points[0].1, series.points[pairs.len() - 1].1);
        last <= 1.25 * first
    });
    results.rows.push(row(
        "S10",
        "latency of short messages is flat under load",
        Shape,
        Predicted,
        Unit::Plain,
        Expected::Holds,
        f64::from(u8::from(flat)),
    ));
    results.figures.push(Figure {
        name: "sun-6".into(),
        title: "MPI latency under load".into(),
        x: axis("pairs"),
        y: axis("us"),
        series: load.into(),
        marks: vec![Mark {
            at: (1.0, 3.7),
            label: "3.7 us".into(),
        }],
    });
}

/// All experiments of the paper.
pub fn run(effort: Effort) -> Results {
    run_on(&machine::machine(), effort)
}

/// On another machine than the paper's.
pub fn run_on(machine: &Machine, effort: Effort) -> Results {
    let mut results = Results::default();
    point_rows(machine, &mut results.rows);
    curves(machine, &mut results);
    let all_to_all = collectives::all_to_all(machine, (92, 4), figures::LONGEST);
    figures::collectives(machine, effort, all_to_all, &mut results);
    collectives::rows(machine, all_to_all, &mut results.rows);
    npb::rows(machine, effort, &mut results.rows);
    figures::scaling(machine, effort, &mut results);
    results
}
