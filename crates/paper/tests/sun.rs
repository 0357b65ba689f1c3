//! Every row of Sun Fire Link's paper has the verdict that it should, and predictions follow from the numbers of the machine.

use farpost_paper::{Committed, Effort, Paper, Verdict, sun};
use farpost_sim::machine::Machine;
use sun::{collectives, machine, points};

#[test]
fn no_row_is_off() {
    let committed = Committed::built_in();
    let results = sun::run(Effort::Short);
    let rows = &results.rows;
    let off: Vec<String> = rows
        .iter()
        .filter(|row| row.verdict(committed.error(&row.id)) == Verdict::Off)
        .map(|row| format!("{} {:.3} ({:+.4})", row.id, row.simulated, row.error()))
        .collect();
    assert!(off.is_empty(), "{off:#?}");
    assert_eq!(Paper::Sun.wrong_fits(rows), Vec::<String>::new());
    // What stands in the table's file is about rows that are there, and beyond a tenth.
    let full = ["S15.BT", "S15.CG", "S15.FT", "S15.IS", "S15.SP"];
    for id in committed
        .rows()
        .filter(|id| id.starts_with('S') && !full.contains(id))
    {
        let row = rows.iter().find(|row| row.id == id);
        let verdict = row.map(|row| row.verdict(committed.error(id)));
        assert_eq!(verdict, Some(Verdict::Committed), "{id}");
    }
    // All figures of the paper that have numbers.
    let figures: Vec<&str> = results.figures.iter().map(|figure| &*figure.name).collect();
    assert_eq!(figures, ["sun-5", "sun-6", "sun-7", "sun-8"]);
}

/// Some predictions that need little time: S16, and all to all within a host and between two.
fn predictions(machine: &Machine) -> Vec<f64> {
    let long = 84 << 10;
    let pieces = points::ping_pong(machine, (1, 2), long).bandwidth;
    let whole = points::unpipelined(machine, long).bandwidth;
    let each = |hosts| collectives::all_to_all(machine, (16, hosts), 4 << 10);
    vec![pieces / whole, each(1), each(2)]
}

#[test]
fn a_fitted_number_that_is_a_fifth_larger_moves_predictions() {
    let machine = machine::machine();
    let as_it_is = predictions(&machine);
    let fitted = machine.fitted();
    assert!(!fitted.is_empty());
    for (number, _) in fitted {
        let changed = machine.scaled(&number.path, 1.2).expect("a number");
        assert_ne!(predictions(&changed), as_it_is, "{}", number.path);
    }
}

/// Copies of 16 processes are more than the backplane of their host carries, and those of two are not.
#[test]
fn processors_of_a_host_share_its_backplane() {
    let machine = machine::machine();
    let wide = machine.scaled("memory.backplane", 10.0).expect("a number");
    let each = |machine, ranks| collectives::all_to_all(machine, (ranks, 1), 16 << 10);
    assert!(each(&wide, 16) > 1.1 * each(&machine, 16));
    assert!(each(&wide, 2) < 1.01 * each(&machine, 2));
}
