//! The rows of Sun Fire Link's paper, one a line.

use farpost_paper::{Committed, Effort, sun};

fn main() {
    let effort = match std::env::args().nth(1).as_deref() {
        Some("full") => Effort::Full,
        _ => Effort::Short,
    };
    let committed = Committed::built_in();
    let results = sun::run(effort);
    for figure in &results.figures {
        for series in &figure.series {
            println!("{} {} {:.1?}", figure.name, series.name, series.points);
        }
    }
    for row in results.rows {
        let verdict = row.verdict(committed.error(&row.id));
        println!(
            "{:16} {:52} {:?} {:.3} {} error {:+.5} {verdict}",
            row.id,
            row.what,
            row.expected,
            row.simulated,
            row.unit,
            row.error()
        );
    }
}
