//! `farpost bench cilk`: work stealing over JAM's remote procedures, under whatever launcher started the ranks.

use crate::bench_args::Cilk;
use crate::bench_job::in_job;
use crate::bench_output::{Output, finish};
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::measure::cilk::{self, Problem};
use farpost_bench::report::Provenance;
use farpost_bench::stats::summarise;
use farpost_bench::{Mpi, Result};
use serde_json::json;

pub fn run(o: &Cilk) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    in_job(o.ranks.ranks, |mpi| computed(o, mpi))
}

fn computed(o: &Cilk, mpi: &Mpi) -> Result<()> {
    let from = Provenance::of(mpi)?;
    let trials = o.common.trials.unwrap_or(5) as usize;
    let mut output = Output::new(&o.common, mpi.rank() == 0);
    output.line("# Work stealing over JAM's remote procedures; every result is checked");
    output.line(&format!("# {} ({})", from.library, from.file));
    output.line(&format!(
        "# {} ranks, first on {}; medians of {trials} trials; alone: one rank, which spawns nothing",
        from.ranks, from.host
    ));
    output.line(&format!(
        "{:<12} {:>12} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>15}",
        "what", "alone (ms)", "all (ms)", "speed-up", "min", "max", "spawned", "stolen", "found nothing"
    ));
    let job = cilk::open()?;
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for problem in [
        Problem::Queens(o.queens, o.depth),
        Problem::Fibonacci(o.fibonacci),
    ] {
        let done = (0..trials)
            .map(|_| cilk::run(mpi, job, problem))
            .collect::<Result<Vec<_>>>()?;
        let of =
            |value: fn(&cilk::Computation) -> f64| summarise(&done.iter().map(value).collect::<Vec<_>>());
        let (alone, together) = (of(|c| c.alone), of(|c| c.together));
        let count = |value: fn(&cilk::Computation) -> f64| of(value).median.round() as u64;
        let (spawned, stolen) = (count(|c| c.spawned as f64), count(|c| c.stolen as f64));
        let refused = count(|c| c.refused as f64);
        let speed_up = |time: f64| alone.median / time;
        output.line(&format!(
            "{:<12} {:>12.3} {:>12.3} {:>9.2} {:>9.2} {:>9.2} {spawned:>9} {stolen:>9} {refused:>15}",
            problem.title(),
            alone.median * 1e3,
            together.median * 1e3,
            speed_up(together.median),
            speed_up(together.max),
            speed_up(together.min),
        ));
        rows.push(json!({ "what": problem.title(), "alone_s": alone.median, "seconds": together.median, "min_s": together.min,
            "max_s": together.max, "speed_up": speed_up(together.median), "spawned": spawned, "stolen": stolen, "refused": refused }));
        let dot = Dot::of(
            f64::from(u32::try_from(mpi.size()).unwrap_or(u32::MAX)),
            &together,
            speed_up,
        );
        curves.push(Series::new(problem.title(), [dot]));
    }
    job.close();
    if mpi.rank() != 0 {
        return Ok(());
    }
    output.flush();
    let json = || {
        json!({ "benchmark": "cilk", "library": from.library, "library_file": from.file, "ranks": from.ranks, "host": from.host,
            "trials": trials, "points": rows })
    };
    finish(&o.common, json, || {
        let subtitle = format!("{} · {} ranks · {}", from.library, from.ranks, from.host);
        Chart::over(
            "ranks",
            "Work stealing over JAM",
            subtitle,
            [Panel::new("speed-up", curves.clone())],
        )
    })
}
