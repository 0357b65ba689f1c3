use super::*;
use crate::{Committed, Here, Verdict};

fn machine() -> Machine {
    Machine::open("startx").expect("it comes with Farpost")
}

#[test]
fn no_row_is_off_and_all_rows_are_there() {
    let (results, committed) = (run(Effort::Short), Committed::built_in());
    let mut off = Vec::new();
    for row in &results.rows {
        let verdict = row.verdict(committed.error(&row.id));
        println!(
            "{:16} {:?} {:.4} {} {:+.1} % {} {}",
            row.id,
            row.expected,
            row.simulated,
            row.unit,
            row.error() * 100.0,
            row.origin,
            verdict
        );
        if verdict == Verdict::Off {
            off.push(row.id.clone());
        }
    }
    assert_eq!(off, Vec::<String>::new());
    assert_eq!(Paper::StartX.wrong_fits(&results.rows), Vec::<String>::new());
    for id in Here::rows(Paper::StartX) {
        assert!(results.rows.iter().any(|row| row.id == id), "{id}");
    }
    for number in 1..=15 {
        let id = format!("X{number}");
        let of = |row: &Row| row.id == id || row.id.starts_with(&format!("{id}."));
        assert!(results.rows.iter().any(of), "{id}");
    }
    let names: Vec<_> = results.figures.iter().map(|it| &it.name[..]).collect();
    assert_eq!(names, ["startx-5", "startx-6", "startx-7"]);
    assert!(
        results
            .figures
            .iter()
            .all(|it| it.series.iter().all(|it| it.points.len() > 3))
    );
}

fn predictions(machine: &Machine) -> Vec<(String, f64)> {
    let mut all = Results::default();
    messages(machine, &mut all);
    blocks_and_layers(machine, &mut all);
    fit::mark(Paper::StartX, Vec::new(), &mut all.rows);
    let predicted = all.rows.into_iter().filter(|row| row.origin == Origin::Predicted);
    predicted.map(|row| (row.id, row.simulated)).collect()
}

#[test]
fn every_fitted_number_moves_predictions_and_a_run_repeats() {
    let machine = machine();
    let plain = predictions(&machine);
    assert_eq!(plain, predictions(&machine));
    let fitted = machine.fitted();
    assert!(fitted.len() <= 6, "{fitted:?}");
    for (number, row) in fitted {
        let moved = match &row[..] {
            // Their predictions are times of other sizes.
            "X8" => {
                blocks::rpc(&machine, 1024)
                    != blocks::rpc(&machine.scaled(&number.path, 1.2).expect("scaled"), 1024)
            }
            "X9" => {
                blocks::mpi(&machine, 1024, false)
                    != blocks::mpi(&machine.scaled(&number.path, 1.2).expect("scaled"), 1024, false)
            }
            _ => predictions(&machine.scaled(&number.path, 1.2).expect("scaled")) != plain,
        };
        assert!(moved, "{} of {row}", number.path);
    }
}
