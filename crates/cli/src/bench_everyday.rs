//! `farpost bench start` and `farpost bench poll`: jobs without options, one after the other.

use crate::bench_args::{Launch, Poll, Start};
use crate::bench_output::{Output, finish};
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::measure::everyday::{self, FIRST, First, Strangers};
use farpost_bench::progress::Progress;
use farpost_bench::{Result, abi, launch, report};
use serde_json::{Value, json};

impl Launch {
    fn start(&self) -> Result<everyday::Start> {
        Ok(everyday::Start {
            launcher: self.launcher.clone().map_or_else(launch::mpiexec, Ok)?,
            options: self
                .launcher_options
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            program: self.program.clone(),
        })
    }
}

/// What is measured, for people and for JSON.
fn source(start: &everyday::Start) -> String {
    let what = match &start.program {
        Some(program) => program.display().to_string(),
        None => abi::find_library().display().to_string(),
    };
    format!("{} with {what}", start.launcher.display())
}

/// Of sorted numbers the one that this part of them does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted[at.clamp(1, sorted.len()) - 1]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The columns of a start: the first messages, and one message later.
const COLUMNS: usize = FIRST.len() + 1;

fn column(starts: &[First], column: usize) -> Vec<f64> {
    sorted(
        starts
            .iter()
            .map(|s| s.first.get(column).copied().unwrap_or(s.later)),
    )
}

/// `farpost bench start`.
pub fn start(o: &Start) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    let start = o.launch.start()?;
    let starts = o.common.trials.unwrap_or(50) as usize;
    let progress = Progress::new(0, starts * o.strangers.len());
    let mut output = Output::new(&o.common, !progress.is_drawn());
    let title = "The first messages of 8 bytes after the start, 2 ranks";
    output.line(&format!("# {title}"));
    output.line(&format!("# {}, on {}", source(&start), report::host()));
    output.line(&format!(
        "# {starts} starts; microseconds: of the first messages together, and of one message a tenth of a second later"
    ));
    output.line(&format!(
        "{:>9} {:>9} {:>10} {:>10} {:>10} {:>12}",
        "strangers", "part", "first 10", "first 100", "first 1000", "one, later"
    ));
    let mut measured: Vec<(u32, Vec<First>)> = Vec::new();
    for &count in &o.strangers {
        let _strangers = Strangers::begin(count as usize)?;
        let mut all = Vec::with_capacity(starts);
        for _ in 0..starts {
            all.push(start.first()?);
            progress.step(&format!("{count} strangers"));
        }
        for (name, part) in [("median", 0.5), ("98 %", 0.98), ("most", 1.0)] {
            let of = |at| quantile(&column(&all, at), part);
            output.line(&format!(
                "{count:>9} {name:>9} {:>10.1} {:>10.1} {:>10.1} {:>12.3}",
                of(0),
                of(1),
                of(2),
                of(3)
            ));
        }
        measured.push((count, all));
    }
    progress.clear();
    output.flush();
    let json = || {
        let rows = measured.iter().map(|(count, all)| {
            let of = |at| column(all, at);
            json!({ "strangers": count, "first_10_us": of(0), "first_100_us": of(1), "first_1000_us": of(2), "later_us": of(3) })
        });
        json!({ "benchmark": "start", "measured": source(&start), "host": report::host(), "starts": starts,
            "rows": rows.collect::<Vec<Value>>() })
    };
    finish(&o.common, json, || {
        let subtitle = format!("{} · {}", source(&start), report::host());
        let panels = (0..COLUMNS).map(|at| panel(&measured, at));
        Chart::over("starts, the quickest first", title, subtitle, panels)
    })
}

fn panel(measured: &[(u32, Vec<First>)], at: usize) -> Panel {
    let series = measured.iter().map(|(count, all)| {
        let dots = (1_u32..)
            .zip(column(all, at))
            .map(|(n, y)| Dot::exact(f64::from(n), y));
        Series::new(format!("{count} strangers"), dots)
    });
    let label = match FIRST.get(at) {
        Some(messages) => format!("first {messages} (µs)"),
        None => "one, later (µs)".into(),
    };
    Panel::new(label, series)
}

/// `farpost bench poll`.
pub fn poll(o: &Poll) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    let start = o.launch.start()?;
    let trials = o.common.trials.unwrap_or(5) as usize;
    let progress = Progress::new(0, trials * (o.ranks.len() * o.work.len() + 1));
    let mut output = Output::new(&o.common, !progress.is_drawn());
    let title = "Calls that find nothing, with work between them";
    output.line(&format!("# {title}"));
    output.line(&format!("# {}, on {}", source(&start), report::host()));
    output.line(&format!(
        "# medians of {trials} jobs; microseconds of an iteration: the work and one call"
    ));
    output.line(&format!("{:>6} {:>10} {:>12}", "ranks", "work (ns)", "time (us)"));
    let median = |once: &dyn Fn() -> Result<f64>| -> Result<f64> {
        let mut all = Vec::with_capacity(trials);
        for _ in 0..trials {
            all.push(once()?);
            progress.step("");
        }
        Ok(quantile(&sorted(all.into_iter()), 0.5))
    };
    let mut rows = Vec::new();
    for &ranks in &o.ranks {
        for &work in &o.work {
            let time = median(&|| start.poll(ranks as usize, work))?;
            output.line(&format!("{ranks:>6} {work:>10} {time:>12.3}"));
            rows.push((ranks, work, time));
        }
    }
    let hop = median(&|| start.ring(o.ring as usize))?;
    progress.clear();
    output.line(&format!(
        "# a token on {} ranks that wait for it by such calls: {hop:.2} us a hop",
        o.ring
    ));
    output.flush();
    let json = || {
        let rows = rows
            .iter()
            .map(|(ranks, work, time)| json!({ "ranks": ranks, "work_ns": work, "us": time }));
        json!({ "benchmark": "poll", "measured": source(&start), "host": report::host(), "rows": rows.collect::<Vec<Value>>(),
            "ring": { "ranks": o.ring, "hop_us": hop } })
    };
    let series = o.ranks.iter().map(|ranks| {
        let own = rows.iter().filter(|(of, work, _)| of == ranks && *work > 0);
        let dots = own.map(|(_, work, time)| Dot::exact(f64::from(*work), *time));
        Series::new(format!("{ranks} ranks"), dots)
    });
    let panel = Panel::new("time of an iteration (µs)", series);
    finish(&o.common, json, || {
        let subtitle = format!("{} · {}", source(&start), report::host());
        Chart::over("work between calls (ns)", title, subtitle, [panel.clone()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let fifty: Vec<f64> = (1..=50).map(f64::from).collect();
        assert_eq!(quantile(&fifty, 0.5), 25.0);
        assert_eq!(quantile(&fifty, 0.98), 49.0);
        assert_eq!(quantile(&fifty, 1.0), 50.0);
        assert_eq!(quantile(&[3.0], 0.5), 3.0);
    }
}
