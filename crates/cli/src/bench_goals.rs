//! What interfaces must reach beside what they reach: lines for people, rows for JSON.

use serde_json::{Value, json};

/// One figure, and what it has to be.
pub(crate) struct Goal {
    pub what: String,
    pub figure: Option<f64>,
    pub unit: &'static str,
    /// What is compared with the must: a ratio, or the figure itself.
    pub reached: Option<f64>,
    /// What the ratio is to; empty: the figure is compared.
    pub of: &'static str,
    /// Must and aim. None: it is told, not judged.
    pub bounds: Option<(f64, f64)>,
    /// More is better.
    pub at_least: bool,
}

impl Goal {
    /// A figure in a unit that is judged by itself.
    pub(crate) fn plain(
        what: &str,
        figure: Option<f64>,
        unit: &'static str,
        bounds: Option<(f64, f64)>,
    ) -> Self {
        Self {
            what: what.into(),
            figure,
            unit,
            reached: figure,
            of: "",
            bounds,
            at_least: false,
        }
    }

    /// A figure whose ratio to something is judged.
    pub(crate) fn beside(
        what: &str,
        (figure, unit): (Option<f64>, &'static str),
        (ratio, of): (Option<f64>, &'static str),
        must: f64,
        aim: f64,
    ) -> Self {
        Self {
            reached: ratio,
            of,
            ..Self::plain(what, figure, unit, Some((must, aim)))
        }
    }

    fn met(&self) -> Option<bool> {
        let (reached, (must, _)) = self.reached.zip(self.bounds)?;
        Some(match self.at_least {
            true => reached >= must,
            false => reached <= must,
        })
    }

    fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let bound = |of: fn((f64, f64)) -> f64| match (self.bounds.map(of), self.of) {
            (None, _) => String::new(),
            (Some(v), "") => format!("{sign} {v}"),
            (Some(v), _) => format!("{sign} {v} x"),
        };
        let ratio = match (self.reached, self.of) {
            (_, "") => String::new(),
            (None, _) => "-".into(),
            (Some(r), of) => format!("{r:.2} x {of}"),
        };
        let figure = match self.figure {
            None => "-".into(),
            Some(f) if f.abs() < 10.0 => format!("{f:.2}"),
            Some(f) => format!("{f:.0}"),
        };
        let verdict = match (self.met(), self.bounds) {
            (_, None) => "",
            (None, _) => "not measured",
            (Some(true), _) => "met",
            (Some(false), _) => "MISSED",
        };
        let text = format!(
            "{:<52} {figure:>9} {:<5} {ratio:>16} {:>8} {:>8}  {verdict}",
            self.what,
            self.unit,
            bound(|b| b.0),
            bound(|b| b.1),
        );
        text.trim_end().into()
    }

    fn row(&self) -> Value {
        json!({
            "what": self.what, "figure": self.figure, "unit": self.unit, "of": self.of, "ratio": self.reached,
            "must": self.bounds.map(|b| b.0), "aim": self.bounds.map(|b| b.1), "at_least": self.at_least, "met": self.met(),
        })
    }
}

/// The table of `goals`, behind what `lines` and `rows` have already.
pub(crate) fn show(goals: &[Goal], lines: &mut Vec<String>, rows: &mut Vec<Value>) {
    let head = ("what", "figure", "", "ratio", "must", "aim");
    lines.push(format!(
        "{:<52} {:>9} {:<5} {:>16} {:>8} {:>8}",
        head.0, head.1, head.2, head.3, head.4, head.5
    ));
    lines.extend(goals.iter().map(Goal::line));
    rows.extend(goals.iter().map(Goal::row));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_missed_or_only_told() {
        let ns = |figure| (Some(figure), "ns");
        let goals = [
            Goal::beside("a", ns(300.0), (Some(2.1), "floor"), 2.5, 2.0),
            Goal::plain("b", Some(3.5), "ns", Some((3.0, 1.0))),
            Goal::plain("c", Some(31_000.0), "bytes", None),
            Goal {
                at_least: true,
                ..Goal::beside("d", (None, "MB/s"), (Some(0.9), "MPI"), 1.0, 1.0)
            },
            Goal::beside("e", (None, "ns"), (None, "postbox"), 2.0, 1.3),
        ];
        let (mut lines, mut rows) = (vec![], vec![]);
        show(&goals, &mut lines, &mut rows);
        for (line, end) in lines[1..]
            .iter()
            .zip([" met", " MISSED", " bytes", " MISSED", " not measured"])
        {
            assert!(line.ends_with(end), "{line}");
        }
        assert!(
            lines[1].contains("2.10 x floor") && lines[1].contains("<= 2.5 x"),
            "{}",
            lines[1]
        );
        assert!(lines[4].contains(">= 1 x"), "{}", lines[4]);
        let met: Vec<_> = rows.iter().map(|row| row["met"].as_bool()).collect();
        assert_eq!(met, [Some(true), Some(false), None, Some(false), None]);
    }
}
