//! `farpost bench`: from options to points, and from points to a table, JSON and plots.

use crate::bench_args::{Bench, Collectives, Common, Matmul, PingPong, Ranks, Rate, Startup};
use crate::bench_job::{in_job, is_simulated, list, trial_time};
use crate::bench_output::{Output, finish};
use crate::{bench_everyday, bench_layers, bench_pairs, output};
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::measure::{Plan, Point, collectives, matmul, pingpong, rate, startup, warm_up};
use farpost_bench::progress::Progress;
use farpost_bench::report::{self, BenchmarkKind, Provenance, to_json};
use farpost_bench::stats::summarise;
use farpost_bench::{Mpi, Result, abi, launch, sizes};
use serde_json::json;
use std::process::ExitCode;
use strum::VariantArray;

/// Run one benchmark; the exit code of a rank is its own.
pub fn run(options: Bench) -> ExitCode {
    let result = match options {
        Bench::Pingpong(o) => ping_pong(&o, false),
        Bench::Netpipe(o) => ping_pong(&o, true),
        Bench::Rate(o) => message_rate(&o),
        Bench::Pairs(o) => bench_pairs::pairs(&o),
        Bench::Load(o) => bench_pairs::load(&o),
        Bench::Collectives(o) => collective(&o),
        Bench::Startup(o) => start(&o),
        Bench::Start(o) => bench_everyday::start(&o),
        Bench::Poll(o) => bench_everyday::poll(&o),
        Bench::Matmul(o) => multiply(&o),
        Bench::Cilk(o) => crate::bench_cilk::run(&o),
        Bench::Layers(o) => bench_layers::layers(&o),
        Bench::Logp(o) => bench_layers::logp(&o),
        Bench::Rsm(o) => bench_layers::interface(&o, "rsm"),
        Bench::Fm(o) => bench_layers::interface(&o, "fm"),
        Bench::Jam(o) => bench_layers::interface(&o, "jam"),
        Bench::Portals(o) => crate::bench_portals::run(&o),
        Bench::Interfaces(o) => bench_layers::interfaces(&o),
        Bench::Plot(o) => crate::bench_plot::plot(&o),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => output::fail(&e.to_string()),
    }
}

/// A benchmark that runs inside a job.
struct Job<'a> {
    name: &'static str,
    title: String,
    kind: BenchmarkKind,
    common: &'a Common,
    ranks: &'a Ranks,
    plan: Plan,
    /// Points it will make.
    points: usize,
}

impl Job<'_> {
    /// Measure in a job; let rank 0 report.
    fn run(
        mut self,
        measure: impl FnOnce(&Mpi, &Plan, &mut dyn FnMut(&Point)) -> Result<Vec<Point>>,
    ) -> Result<()> {
        // Before anything runs: a mistake in an option is told once, and at once.
        self.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
        // On a simulated machine every trial is the same.
        let trials = if is_simulated() { 1 } else { 9 };
        self.plan.trials = self.common.trials.unwrap_or(trials) as usize;
        self.plan.trial_time = match self.kind {
            BenchmarkKind::Collectives => trial_time(self.ranks.trial_ms),
            _ => f64::from(self.ranks.trial_ms) * 1e-3,
        };
        in_job(self.ranks.ranks, |mpi| self.measured(mpi, measure))
    }

    fn measured(
        &self,
        mpi: &Mpi,
        measure: impl FnOnce(&Mpi, &Plan, &mut dyn FnMut(&Point)) -> Result<Vec<Point>>,
    ) -> Result<()> {
        let from = Provenance::of(mpi)?;
        let progress = Progress::new(mpi.rank(), self.points);
        let first = mpi.rank() == 0;
        let mut output = Output::new(self.common, first && !progress.is_drawn());
        output.line(&format!("# {}", self.title));
        output.line(&format!("# {} ({})", from.library, from.file));
        output.line(&format!(
            "# {} ranks on {}; medians of {} trials",
            from.ranks, from.host, self.plan.trials
        ));
        output.line(&self.kind.header());
        if !is_simulated() {
            warm_up(mpi)?;
        }
        let points = measure(mpi, &self.plan, &mut |p| {
            output.line(&self.kind.row(p));
            progress.step(&self.kind.label(p));
        })?;
        progress.clear();
        if !first {
            return Ok(());
        }
        output.flush();
        let chart = || {
            let subtitle = format!("{} · {} ranks · {}", from.library, from.ranks, from.host);
            Chart::by_size(&self.title, subtitle, panels(self.kind, &points))
        };
        let json = || to_json(self.name, self.kind, &from, &points, &[]);
        finish(self.common, json, chart)
    }
}

/// A curve through `points`; `value` turns seconds into what is shown. Zero bytes have no place on a log axis.
fn curve<'p>(
    name: &str,
    points: impl Iterator<Item = &'p Point>,
    value: impl Fn(&Point, f64) -> f64,
) -> Series {
    let dots = points.filter(|p| p.bytes > 0);
    Series::new(
        name,
        dots.map(|p| Dot::of(p.bytes as f64, &p.time, |t| value(p, t))),
    )
}

fn panels(kind: BenchmarkKind, points: &[Point]) -> Vec<Panel> {
    let one =
        |label: &str, value: fn(&Point, f64) -> f64| Panel::new(label, [curve("", points.iter(), value)]);
    match kind {
        BenchmarkKind::PingPong => vec![
            one("bandwidth (MB/s)", Point::megabytes),
            one("time (µs)", |_, t| t * 1e6),
        ],
        BenchmarkKind::Rate => vec![one("messages per second", |_, t| 1.0 / t)],
        BenchmarkKind::Collectives => {
            let all = collectives::Op::VARIANTS.iter().map(|op| op.name());
            let series = all.map(|op| curve(op, points.iter().filter(|p| p.op == op), |_, t| t * 1e6));
            vec![Panel::new(
                "time of a call (µs)",
                series.filter(|s| !s.points.is_empty()),
            )]
        }
        BenchmarkKind::Startup => vec![one("wall time of a job (ms)", |_, t| t * 1e3)],
    }
}

fn ping_pong(o: &PingPong, netpipe: bool) -> Result<()> {
    let sizes = if netpipe {
        list(&o.sizes, 1, 8 << 20, |low, high| {
            sizes::netpipe(low, high, o.perturbation as usize)
        })?
    } else {
        list(&o.sizes, 1, 4 << 20, sizes::powers)?
    };
    let name = if netpipe { "NetPIPE ping-pong" } else { "Ping-pong" };
    let way = if o.bidirectional {
        "both ways at once"
    } else {
        "one way"
    };
    let points = sizes.len();
    let plan = Plan {
        sizes,
        bidirectional: o.bidirectional,
        ..Plan::default()
    };
    let job = Job {
        name: if netpipe { "netpipe" } else { "pingpong" },
        title: format!("{name} between the first and the last rank, {way}"),
        kind: BenchmarkKind::PingPong,
        common: &o.common,
        ranks: &o.ranks,
        plan,
        points,
    };
    job.run(|mpi, plan, done| pingpong::run(mpi, plan, done))
}

fn message_rate(o: &Rate) -> Result<()> {
    let sizes = list(&o.sizes, 1, 64 << 10, sizes::powers)?;
    let points = sizes.len();
    let plan = Plan {
        sizes,
        window: o.window as usize,
        bidirectional: o.bidirectional,
        ..Plan::default()
    };
    let way = if o.bidirectional { "both ways" } else { "one way" };
    let job = Job {
        name: "rate",
        title: format!("Message rate with {} in flight, {way}", o.window),
        kind: BenchmarkKind::Rate,
        common: &o.common,
        ranks: &o.ranks,
        plan,
        points,
    };
    job.run(|mpi, plan, done| rate::run(mpi, plan, done))
}

fn collective(o: &Collectives) -> Result<()> {
    let sizes = list(&o.sizes, 8, 1 << 20, |low, high| {
        let all = sizes::powers(low, high).into_iter();
        all.filter(|s| *s == low || *s == high || s.trailing_zeros() % 2 == 1)
            .collect()
    })?;
    let ops = match &o.op {
        None => collectives::Op::VARIANTS.to_vec(),
        Some(text) => text
            .split(',')
            .map(|n| collectives::Op::parse(n.trim()))
            .collect::<Result<_>>()?,
    };
    let plan = Plan {
        sizes,
        ..Plan::default()
    };
    let points = collectives::points(&plan, &ops);
    let job = Job {
        name: "collectives",
        title:
            "Collectives: time of one call, of the slowest rank; MB/s as the root or any one process sees it"
                .into(),
        kind: BenchmarkKind::Collectives,
        common: &o.common,
        ranks: &o.ranks,
        plan,
        points,
    };
    job.run(|mpi, plan, done| collectives::run(mpi, plan, &ops, done))
}

fn start(o: &Startup) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    let launcher = o.launcher.clone().map_or_else(launch::mpiexec, Ok)?;
    let ranks: Vec<usize> = o.ranks.iter().map(|n| *n as usize).collect();
    let trials = o.common.trials.unwrap_or(11) as usize;
    let progress = Progress::new(0, ranks.len());
    let mut output = Output::new(&o.common, !progress.is_drawn());
    let title = "Start-up: a job that initialises MPI and ends";
    output.line(&format!("# {title}"));
    output.line(&format!(
        "# {} with {}, on {}",
        launcher.display(),
        abi::find_library().display(),
        report::host()
    ));
    output.line(&BenchmarkKind::Startup.header());
    let points = startup::run(&launcher, &ranks, trials, |p| {
        output.line(&BenchmarkKind::Startup.row(p));
        progress.step(&BenchmarkKind::Startup.label(p));
    })?;
    progress.clear();
    let most = ranks.iter().copied().max().unwrap_or(1);
    let idle = startup::idle(&launcher, most)?;
    output.line(&format!(
        "# an idle rank of {most} has {} KiB resident, {} KiB of them shared pages of files",
        idle.resident, idle.files
    ));
    output.flush();
    let from = Provenance {
        library: abi::LIBRARY.into(),
        file: abi::find_library().display().to_string(),
        mpi: (5, 0),
        ranks: most,
        host: report::host(),
    };
    let memory = json!({ "ranks": most, "resident_kib": idle.resident, "files_kib": idle.files });
    let extra = [
        ("idle", memory),
        ("launcher", json!(launcher.display().to_string())),
    ];
    let chart = || {
        let subtitle = format!("{} · {}", launcher.display(), from.host);
        Chart::over("ranks", title, subtitle, panels(BenchmarkKind::Startup, &points))
    };
    finish(
        &o.common,
        || to_json("startup", BenchmarkKind::Startup, &from, &points, &extra),
        chart,
    )
}

/// `farpost bench matmul`: under whatever launcher started the ranks.
fn multiply(o: &Matmul) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    in_job(o.ranks.ranks, |mpi| multiplied(o, mpi))
}

fn multiplied(o: &Matmul, mpi: &Mpi) -> Result<()> {
    let from = Provenance::of(mpi)?;
    let layout = matmul::layout(mpi)?;
    let trials = o.common.trials.unwrap_or(3) as usize;
    let mut output = Output::new(&o.common, mpi.rank() == 0);
    output.line(
        "# C = A B, single precision, columns distributed, A broadcast in panels; every product is checked",
    );
    output.line(&format!("# {} ({})", from.library, from.file));
    output.line(&format!(
        "# P = {layout} (ranks on each host), first on {}; medians of {trials} trials",
        from.host
    ));
    output.line(&format!(
        "{:>8} {:>11} {:>9} {:>9} {:>10} {:>15}",
        "n", "seconds", "min", "max", "Gflop/s", "broadcast (s)"
    ));
    let (mut rows, mut dots) = (Vec::new(), Vec::new());
    for &n in &o.sizes {
        let products = (0..trials)
            .map(|_| matmul::run(mpi, n as usize))
            .collect::<Result<Vec<_>>>()?;
        let times = summarise(&products.iter().map(|p| p.seconds).collect::<Vec<_>>());
        let broadcast = summarise(&products.iter().map(|p| p.broadcast).collect::<Vec<_>>()).median;
        let rate = 2.0 * f64::from(n).powi(3) / times.median;
        output.line(&format!(
            "{n:>8} {:>11.4} {:>9.4} {:>9.4} {:>10.2} {broadcast:>15.4}",
            times.median,
            times.min,
            times.max,
            rate / 1e9
        ));
        rows.push(
            json!({ "n": n, "seconds": times.median, "min_s": times.min, "max_s": times.max, "flops": rate,
            "broadcast_s": broadcast }),
        );
        dots.push(Dot::of(f64::from(n), &times, |t| t));
    }
    if mpi.rank() != 0 {
        return Ok(());
    }
    output.flush();
    let json = || {
        json!({ "benchmark": "matmul", "library": from.library, "library_file": from.file, "layout": layout, "ranks": from.ranks,
            "host": from.host, "points": rows })
    };
    finish(&o.common, json, || {
        let subtitle = format!("{} · P = {layout} · {}", from.library, from.host);
        let panel = Panel::new("seconds", [Series::new("", dots.clone())]);
        Chart::over(
            "rows and columns",
            "Multiplication of matrices",
            subtitle,
            [panel],
        )
    })
}
