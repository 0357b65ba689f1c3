//! The XT3's rows: their verdicts, that what is fitted matters, that a run is a run, and that every operation is charged once.

use farpost_paper::xt3::netpipe::Test;
use farpost_paper::xt3::{self, mpi, netpipe};
use farpost_paper::{Committed, Effort, Here, Paper, Row, Verdict};
use farpost_sim::machine::{MOST_FITTED, Machine};

fn machine() -> Machine {
    Machine::open("xt3").expect("built in")
}

#[test]
fn no_row_is_off() {
    let committed = Committed::built_in();
    let rows = xt3::rows_on(&machine(), xt3::MPICH2);
    for row in &rows {
        let verdict = row.verdict(committed.error(&row.id));
        assert_ne!(verdict, Verdict::Off, "{row:?}");
    }
    assert_eq!(Paper::Xt3.wrong_fits(&rows), Vec::<String>::new());
    for id in Here::rows(Paper::Xt3) {
        assert!(rows.iter().any(|row| row.id == id), "{id}");
    }
    for number in 1..=18 {
        let id = format!("P{number}");
        let is = |row: &Row| row.id == id || row.id.starts_with(&format!("{id}."));
        assert!(rows.iter().any(is), "{id} is missing");
    }
}

#[test]
fn runs_are_exact() {
    let machine = machine();
    for (test, len) in [
        (Test::PingPong, 13),
        (Test::Stream, 5000),
        (Test::Bidirectional, 70_000),
    ] {
        let run = || {
            let (time, core) = netpipe::after(xt3::machine::pair(&machine), test, len);
            (time, core.kernel.queue.made())
        };
        assert_eq!(run(), run(), "{test:?}");
    }
}

#[test]
fn predictions_depend_on_every_fitted_number() {
    let machine = machine();
    // P5 and P9's experiment, P8 and P11's, in short.
    let predict = |machine: &Machine, code: &str| {
        let second = xt3::mpich2(machine, code);
        [
            netpipe::time(machine, Test::Stream, 4096),
            netpipe::time(machine, Test::Bidirectional, 4096),
            mpi::time(machine, Test::PingPong, 100_000),
            mpi::time(&second, Test::PingPong, 100_000),
        ]
    };
    let before = predict(&machine, xt3::MPICH2);
    let fitted = machine.fitted();
    assert!(fitted.len() < MOST_FITTED, "and MPICH2's code");
    for (number, row) in fitted {
        let other = machine.scaled(&number.path, 1.2).expect("a machine");
        let after = predict(&other, xt3::MPICH2);
        assert_ne!(before, after, "{} (fitted to {row}) moves nothing", number.path);
    }
    assert_ne!(before[3], predict(&machine, "1.8 us")[3]);
}

#[test]
fn figures_have_the_shapes_of_the_paper() {
    let figures = xt3::run(Effort::Short).figures;
    let names: Vec<_> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["xt3-4", "xt3-5", "xt3-6", "xt3-7"]);
    for figure in &figures[1..] {
        for series in &figure.series {
            let rises = series.points.windows(2).all(|pair| pair[0].1 < pair[1].1 * 1.02);
            assert!(rises, "{} {}: {:?}", figure.name, series.name, series.points);
        }
    }
    let at = |figure: usize, name: &str, size: f64| {
        let series = figures[figure].series.iter().find(|series| series.name == name);
        let point = series.and_then(|series| series.points.iter().find(|point| point.0 == size));
        point.expect("a point").1
    };
    // Who is faster.
    for size in [1.0, 12.0, 13.0, 64.0] {
        assert!(at(0, "put", size) < at(0, "get", size), "{size}");
        assert!(at(0, "MPICH-1.2.6", size) < at(0, "MPICH2", size), "{size}");
    }
    assert!(at(0, "get", 1.0) < at(0, "MPICH-1.2.6", 1.0));
    assert!(
        at(2, "put", 4096.0) > 1.3 * at(1, "put", 4096.0),
        "streams are steeper"
    );
    assert!(
        at(2, "get", 4096.0) < 1.05 * at(1, "get", 4096.0),
        "but not those of gets"
    );
}

#[test]
fn the_layers_code_is_charged_once_for_each_operation() {
    const MORE: f64 = 1000.0;
    let machine = machine();
    let with = |of: &str| machine.with(&format!("software.{of}"), "1 ms").expect("a time");
    let times = |machine: &Machine, len| {
        [
            netpipe::time(machine, Test::PingPong, len).micros(),
            netpipe::time(machine, Test::Get, len).micros(),
            mpi::time(machine, Test::PingPong, len).micros(),
        ]
    };
    for len in [8, 5000] {
        let before = times(&machine, len);
        // Of a put, a get, and a message of MPI.
        for (of, charged) in [
            ("portals_call", [1.0, 1.0, 1.0]),
            ("portals_receive", [1.0, 1.0, 1.0]),
            ("mpi_send", [0.0, 0.0, 1.0]),
            ("mpi_receive", [0.0, 0.0, 1.0]),
        ] {
            let after = times(&with(of), len);
            for (index, charged) in charged.into_iter().enumerate() {
                let more = (after[index] - before[index]) / MORE;
                assert!(
                    (more - charged).abs() < 0.05,
                    "{of}, {len} bytes, operation {index}: {more}"
                );
            }
        }
    }
}
