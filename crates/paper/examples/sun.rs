//! The rows of Sun Fire Link's paper, one a line.

use farpost_paper::{Committed, Effort, sun};

fn main() {
    let effort = match std::env::args().nth(1).as_deref() {
        Some("full") => Effort::Full,
        _ => Effort::Short,
    };
    let committed = Committed::built_in();
    for row in sun::run(effort).rows {
        let verdict = row.verdict(committed.error(&row.id));
        println!(
            "{:16} {:52} {:?} {:.3} {} error {:+.3} {verdict}",
            row.id,
            row.what,
            row.expected,
            row.simulated,
            row.unit,
            row.error()
        );
    }
}
