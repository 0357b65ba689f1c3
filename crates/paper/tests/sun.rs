//! Every row of Sun Fire Link's paper has the verdict that it should.

use farpost_paper::{Committed, Effort, Verdict, sun};

#[test]
fn no_row_is_off() {
    let committed = Committed::built_in();
    let rows = sun::run(Effort::Short).rows;
    let off: Vec<String> = rows
        .iter()
        .filter(|row| row.verdict(committed.error(&row.id)) == Verdict::Off)
        .map(|row| format!("{} {:.3} ({:+.4})", row.id, row.simulated, row.error()))
        .collect();
    assert!(off.is_empty(), "{off:#?}");
}
