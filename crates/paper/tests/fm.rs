//! The rows of the Fast Messages paper: none is off, each fitted number matters, and the same run gives the same rows.

use farpost_paper::fm::{Layer, run, run_on};
use farpost_paper::{Committed, Effort, Expected, Here, Origin, Paper, Row, Verdict};
use farpost_sim::machine::Machine;
use std::collections::BTreeMap;

fn shown(rows: &[Row], committed: &Committed) -> String {
    let line = |row: &Row| {
        format!(
            "{:18} {:9.3} {:?} {:+.3} {} {}\n",
            row.id,
            row.simulated,
            row.expected,
            row.error(),
            row.origin,
            row.verdict(committed.error(&row.id))
        )
    };
    rows.iter().map(line).collect()
}

#[test]
fn every_row_has_its_verdict_and_every_run_is_the_same() {
    let committed = Committed::built_in();
    let results = run(Effort::Short);
    let table = shown(&results.rows, &committed);
    println!("{table}");
    let verdicts: BTreeMap<String, Verdict> = results
        .rows
        .iter()
        .map(|row| (row.id.clone(), row.verdict(committed.error(&row.id))))
        .collect();
    assert_eq!(verdicts.len(), results.rows.len(), "ids are unique");
    let off: Vec<_> = verdicts
        .iter()
        .filter(|(_, verdict)| **verdict == Verdict::Off)
        .collect();
    assert!(off.is_empty(), "{off:?}\n{table}");
    for number in 1..=17 {
        let named = |id: &String| id == &format!("F{number}") || id.starts_with(&format!("F{number}."));
        assert!(verdicts.keys().any(named), "F{number}");
    }
    for id in committed.rows().filter(|id| id.starts_with('F')) {
        assert_eq!(verdicts[id], Verdict::Committed, "{id} needs no excuse");
    }
    assert_eq!(Paper::Fm.wrong_fits(&results.rows), Vec::<String>::new());
    for id in Here::rows(Paper::Fm) {
        assert!(results.rows.iter().any(|row| row.id == id), "{id}");
    }
    assert_eq!(results.figures.len(), 10);
    for figure in &results.figures {
        assert!(
            figure.series.iter().all(|series| !series.points.is_empty()),
            "{}",
            figure.name
        );
    }
    let again = run(Effort::Short);
    assert_eq!(shown(&again.rows, &committed), table);
    assert_eq!(again.figures, results.figures);
}

/// A fitted number that is a fifth larger changes what is predicted.
#[test]
fn predictions_depend_on_each_fitted_number() {
    let machine = Machine::open("myrinet-fm").expect("built in");
    let as_it_is = run_on(&machine, Effort::Short).rows;
    let fitted = machine.fitted();
    assert_eq!(fitted.len(), 5, "and the constant of the Myrinet API");
    for (number, row) in fitted {
        let changed = machine.scaled(&number.path, 1.2).expect("a number");
        let moved = as_it_is
            .iter()
            .zip(run_on(&changed, Effort::Short).rows)
            .filter(|(before, after)| {
                before.origin == Origin::Predicted
                    && before.expected != Expected::Holds
                    && (after.simulated / before.simulated - 1.0).abs() > 0.02
            })
            .count();
        println!("{} ({row}): {moved} predictions move", number.path);
        assert!(moved >= 1, "{} moves nothing that is predicted", number.path);
    }
}

#[test]
fn a_longer_stream_says_the_same() {
    let machine = Machine::open("myrinet-fm").expect("built in");
    for layer in [Layer::Streamed, Layer::Managed, Layer::Fm] {
        let [short, long] = [400, 2000].map(|packets| layer.period(&machine, 128, packets).micros());
        assert!((short / long - 1.0).abs() < 0.02, "{layer:?}: {short} {long}");
    }
}

/// The machine, with hosts whose code takes its time: 25 cycles of a send and 75 of an extraction.
fn with_slow_hosts() -> Machine {
    let machine = Machine::open("myrinet-fm").expect("built in");
    let machine = machine.with("software.fm_send", "500 ns").expect("a time");
    machine.with("software.fm_extract", "1500 ns").expect("a time")
}

/// What a send queue's size is decides nothing, as long as it is small against the sender's window; 24 KiB is why `F7.fm-switch.t0` is too large.
#[test]
fn a_send_queue_of_any_size_below_the_window_gives_the_same() {
    let machine = with_slow_hosts();
    let period = |layer: Layer, queue: &str| {
        let machine = machine.with("adapter.lanai.send_queue", queue).expect("a size");
        layer.period(&machine, 64, 600).micros()
    };
    for layer in [Layer::Managed, Layer::Fm, Layer::FmSwitch] {
        let periods = ["4 KiB", "8 KiB", "12 KiB"].map(|queue| period(layer, queue));
        let spread = periods.map(|one| (one / periods[1] - 1.0).abs());
        assert!(spread.iter().all(|part| *part < 0.05), "{layer:?}: {periods:?}");
    }
    let large = period(Layer::FmSwitch, "24 KiB");
    assert!(
        large > 1.1 * period(Layer::FmSwitch, "8 KiB"),
        "each frame is acknowledged: {large}"
    );
}

/// The software's part is charged once for each message, by Fast Messages itself: of a send when its frame has left, so that it delays the next one.
#[test]
fn a_message_is_charged_once_where_it_is_sent_and_once_where_it_is_extracted() {
    let machine = with_slow_hosts();
    let twice = |path| machine.scaled(path, 2.0).expect("a number");
    // Long packets are bound by the sending host.
    let period = |machine| Layer::Fm.period(machine, 512, 400).nanos();
    let more = period(&twice("software.fm_send")) - period(&machine);
    assert!((450..=550).contains(&more), "{more} ns");
    let way = |machine| Layer::Fm.latency(machine, 16).nanos();
    assert_eq!(way(&twice("software.fm_extract")) - way(&machine), 1500);
}
