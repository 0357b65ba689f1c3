//! Rows as a table and figures as files.

use crate::{Committed, Expected, Figure, Here, Origin, Paper, Results, Row, Series, Verdict};
use farpost_bench::chart::{self, Chart, Dot, Panel};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A number in as many digits as help.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// What the paper says, for people.
fn stated(expected: &Expected) -> String {
    match expected {
        Expected::Value(value) => number(*value),
        Expected::Either(one, other) => format!("{} or {}", number(*one), number(*other)),
        Expected::AtLeast(value) => format!("> {}", number(*value)),
        Expected::AtMost(value) => format!("< {}", number(*value)),
        Expected::SignAndSize(value) => format!("about {value:+}"),
        Expected::Holds => "holds".into(),
    }
}

fn simulated(row: &Row) -> String {
    match row.expected {
        Expected::Holds if row.simulated == 1.0 => "holds".into(),
        Expected::Holds => "does not".into(),
        _ => number(row.simulated),
    }
}

/// The end of a line: the verdict and, where there is a last column, what stands there.
fn cell(verdict: &str, beside: Option<String>) -> String {
    match beside {
        Some(beside) => format!("{verdict:<12} {beside:>16}"),
        None => verdict.into(),
    }
}

/// The table of a paper's rows, one line each, and what is to be said of some; with the numbers of this machine, if they were measured.
pub fn table(paper: Paper, results: &Results, committed: &Committed, here: Option<&Here>) -> String {
    let mut text = format!("{}\n\n", paper.title());
    let _ = writeln!(
        text,
        "{:<22} {:<52} {:>14} {:>12} {:<6} {:>6}  {:<9} {}",
        "row",
        "",
        "paper",
        "simulated",
        "",
        "ratio",
        "model",
        cell("verdict", here.map(|_| "this machine".into()))
    );
    for row in &results.rows {
        let ratio = row.ratio().map_or(String::new(), |ratio| format!("{ratio:.3}"));
        let verdict = row.verdict(committed.error(&row.id));
        let beside = here.map(|here| match here.number(row) {
            Some(value) => format!("{} {}", number(value), row.unit),
            None => "-".into(),
        });
        let _ = writeln!(
            text,
            "{:<22} {:<52} {:>14} {:>12} {:<6} {:>6}  {:<9} {}",
            row.id,
            row.what,
            stated(&row.expected),
            simulated(row),
            row.unit,
            ratio,
            row.origin.to_string(),
            cell(&verdict.to_string().replace('_', " "), beside)
        );
        let reason = (verdict == Verdict::Committed)
            .then(|| committed.reason(&row.id))
            .flatten();
        for note in [row.note.as_str(), reason.unwrap_or_default()] {
            if !note.is_empty() {
                let _ = writeln!(text, "    {note}");
            }
        }
    }
    let count = |verdict| verdicts(results, committed).filter(|it| *it == verdict).count();
    let from = |origin| results.rows.iter().filter(|row| row.origin == origin).count();
    let _ = writeln!(text, "\nfitted numbers of the model:");
    for fit in paper.fitted() {
        let _ = writeln!(
            text,
            "    {:<36} {:<12} to {}",
            fit.number,
            fit.value,
            fit.rows.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "\n{} rows, {} of them fitted and {} inputs: {} met, {} beyond a tenth as committed, {} that say nothing (a model without the mechanism meets them too), {} off",
        results.rows.len(),
        from(Origin::Fitted),
        from(Origin::Input),
        count(Verdict::Met),
        count(Verdict::Committed),
        count(Verdict::NotCounted),
        count(Verdict::Off)
    );
    text
}

fn verdicts<'a>(results: &'a Results, committed: &'a Committed) -> impl Iterator<Item = Verdict> + 'a {
    results
        .rows
        .iter()
        .map(|row| row.verdict(committed.error(&row.id)))
}

/// Rows that are off.
pub fn off(results: &Results, committed: &Committed) -> Vec<String> {
    let rows = results.rows.iter();
    rows.filter(|row| row.verdict(committed.error(&row.id)) == Verdict::Off)
        .map(|row| row.id.clone())
        .collect()
}

/// Write every figure as SVG and PNG; what was written.
///
/// # Errors
/// A sentence: which file could not be written, and why.
pub fn draw(figures: &[Figure], paper: Paper, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut written = Vec::new();
    for figure in figures {
        // Both axes are logarithmic: what is zero has no place on them.
        let dots = |series: &Series| {
            let points = series.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
            let dots: Vec<Dot> = points.map(|(x, y)| Dot::exact(*x, *y)).collect();
            chart::Series::new(series.name.clone(), dots)
        };
        let marks = figure.marks.iter().map(|mark| {
            let name = format!("paper: {}", mark.label);
            chart::Series::new(name, [Dot::exact(mark.at.0, mark.at.1)])
        });
        let series: Vec<_> = figure.series.iter().map(dots).chain(marks).collect();
        let panel = Panel::new(figure.y.title.clone(), series);
        let chart = Chart::over(&figure.x.title, figure.title.clone(), paper.title(), [panel]);
        for ending in ["svg", "png"] {
            let file = directory.join(format!("{}.{ending}", figure.name));
            chart::write(&chart, &file).map_err(|error| error.to_string())?;
            written.push(file);
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Unit};

    #[test]
    fn a_row_is_a_line_and_what_is_off_is_named() {
        let row = |id: &str, simulated| Row {
            id: id.into(),
            what: "put latency".into(),
            class: Class::Absolute,
            origin: Origin::Predicted,
            unit: Unit::Micros,
            expected: Expected::Value(5.39),
            simulated,
            null_model: None,
            note: String::new(),
        };
        let results = Results {
            rows: vec![row("P1", 5.4), row("P2", 9.0)],
            figures: Vec::new(),
        };
        let committed = Committed::parse("").expect("nothing");
        let text = table(Paper::Xt3, &results, &committed, None);
        assert!(
            text.contains("P1") && text.contains("1.002  predicted met"),
            "{text}"
        );
        assert!(text.ends_with("1 met, 0 beyond a tenth as committed, 0 that say nothing (a model without the mechanism meets them too), 1 off\n"), "{text}");
        assert_eq!(off(&results, &committed), ["P2"]);
    }
}
