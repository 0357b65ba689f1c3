//! Sun Fire Link and Sun MPI (Sistare and Jackson, SC 2002).
//!
//! Sun MPI is Farpost's MPI over postboxes with the paper's numbers: messages of up to 2000 bytes in postboxes alone, 36 of them, longer ones through blocks behind a barrier of the
//! hardware. A postbox of Sun's refers to several blocks; [`machine::POSTBOX`] says how that is done here. Processes of a host have shared segments.

pub mod machine;
pub mod points;

use crate::{Class, Effort, Expected, Origin, Results, Row, Unit};
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
            Predicted,
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
            Predicted,
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
            Predicted,
            Megabytes,
            AtLeast(2900.0),
            many,
        ),
    ]);
}

/// All experiments of the paper.
pub fn run(effort: Effort) -> Results {
    run_on(&machine::machine(), effort)
}

/// On another machine than the paper's.
pub fn run_on(machine: &Machine, _effort: Effort) -> Results {
    let mut results = Results::default();
    point_rows(machine, &mut results.rows);
    results
}
