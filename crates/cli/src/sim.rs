//! `farpost sim`: any program on a simulated machine.
//!
//! This process owns the machine and its virtual time; the ranks are ordinary processes that `mpiexec` starts, one of which runs at a time.

mod one_process;

use crate::output;
use clap::Args;
use farpost_sim::coordinator::{Coordinator, CoordinatorError, Listener, Watch, without_randomisation};
use farpost_sim::core::Core;
use farpost_sim::machine::Machine;
use farpost_sim::plan::Plan;
use farpost_sim::trace::{Publisher, Snapshot};
use farpost_simlink::compute::Instructions;
use farpost_simlink::wire::{Compute, SOCKET};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Options {
    /// The machine: one that comes with Farpost (--list names them) or the path of a file
    #[arg(long, default_value = "cluster-100g", value_name = "NAME|FILE")]
    machine: String,
    /// Ranks
    #[arg(short = 'n', long = "ranks", default_value_t = 2, value_name = "N")]
    ranks: u32,
    /// Ranks on each host: as many as it has processors, if not given
    #[arg(long, value_name = "N")]
    per_host: Option<u32>,
    /// Of all chance in the machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Something else in the machine's file: adapter.lanai.frame=512B
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// What fails: "cut h3.rail0 at 5ms for 2ms", "loss 1e-4", "damage 1e-5", "slow h3 x4", "dead h5 at 1ms"; several times
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// What computing between calls takes: 0, measured:K (processor time times K), counted:MHz (instructions, one a cycle)
    #[arg(long, default_value = "0", value_parser = compute, value_name = "0|measured:K|counted:MHz")]
    compute: Compute,
    /// The program's clocks and sleeps (clock_gettime, gettimeofday, nanosleep and their like) are virtual too
    #[arg(long)]
    virtual_clock: bool,
    /// Seconds of real time after which a rank that computes or sleeps without calling Farpost is left alone
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    patience: f64,
    /// Write a trace that ui.perfetto.dev and chrome://tracing show
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Draw the machine's network with the load on its links
    #[arg(long, value_name = "FILE.svg")]
    network: Option<PathBuf>,
    /// Say in words what the run's time went into: its critical path
    #[arg(long)]
    explain: bool,
    /// Print how busy each link and each part of the adapters was
    #[arg(long)]
    utilisation: bool,
    /// Print the adapters' counters and status registers
    #[arg(long)]
    registers: bool,
    /// All ranks in one process: for thousands of them. C programs with one thread
    #[arg(long)]
    one_process: bool,
    /// No progress bar, no report
    #[arg(short, long)]
    quiet: bool,
    /// Name the machines that come with Farpost
    #[arg(long)]
    list: bool,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "list"
    )]
    program: Vec<OsString>,
}

fn compute(text: &str) -> Result<Compute, String> {
    if text == "0" {
        return Ok(Compute::Nothing);
    }
    let number = |prefix| {
        text.strip_prefix(prefix)
            .and_then(|number| number.parse::<f64>().ok())
    };
    match (number("measured:"), number("counted:")) {
        (Some(factor), _) if (0.0..1e9).contains(&factor) => Ok(Compute::Measured(factor)),
        (_, Some(megahertz)) if (1e-3..1e9).contains(&megahertz) => Ok(Compute::Counted(megahertz)),
        _ => Err("allowed are 0, measured:K and counted:MHz".into()),
    }
}

impl Options {
    fn plan(&self) -> Plan {
        Plan {
            machine: self.machine.clone(),
            ranks: self.ranks,
            per_host: self.per_host,
            seed: self.seed,
            set: self.set.clone(),
            faults: self.faults.clone(),
            compute: self.compute,
            patience: self.patience,
            trace: self.trace.clone(),
            network: self.network.clone(),
            explain: self.explain,
            utilisation: self.utilisation,
            registers: self.registers,
            quiet: self.quiet,
        }
    }
}

/// The job's launcher and what is shown of the run.
struct Job {
    child: Child,
    bar: Option<ProgressBar>,
    begun: Instant,
    shown: Instant,
    machine: String,
    /// For `farpost top`; `None` where the system has no memory for that.
    publisher: Option<Publisher>,
    published: Instant,
    /// What publishing takes.
    costs: Duration,
}

impl Watch for Job {
    fn say(&mut self, text: &str) {
        let say = || eprintln!("farpost sim: {text}");
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    fn go_on(&mut self, core: &Core) -> bool {
        if let Some(bar) = &self.bar
            && self.shown.elapsed() > Duration::from_millis(100)
        {
            let left = core.kernel.procs.schedule.left().count();
            bar.set_message(format!(
                "virtual {}, real {:.1} s, {left} of {} ranks run",
                core.kernel.now,
                self.begun.elapsed().as_secs_f64(),
                core.kernel.procs.size()
            ));
            bar.tick();
            self.shown = Instant::now();
        }
        // A hundredth of the time at most.
        if self.published.elapsed() > (self.costs * 100).max(PUBLISHED) {
            let begun = Instant::now();
            self.publish(core);
            (self.published, self.costs) = (Instant::now(), begun.elapsed());
        }
        matches!(self.child.try_wait(), Ok(None))
    }
}

/// Time between two snapshots for `farpost top`, at least.
const PUBLISHED: Duration = Duration::from_millis(100);

impl Job {
    fn publish(&mut self, core: &Core) {
        let snapshot = Snapshot::of(core, &self.machine, self.child.id());
        match &mut self.publisher {
            // Who looks sees an older one.
            Some(publisher) => drop(publisher.publish(&snapshot)),
            None => self.publisher = Publisher::new(&snapshot).ok(),
        }
    }
}

pub fn run(options: &Options) -> ExitCode {
    if options.list {
        return list();
    }
    match prepare(options) {
        Ok(code) => code,
        Err(why) => output::fail(&why),
    }
}

fn list() -> ExitCode {
    let mut text = String::new();
    for name in Machine::names() {
        let title = Machine::open(name).map_or(String::new(), |machine| machine.title.clone());
        text += &format!("{name:16} {title}\n");
    }
    output::out(&text)
}

fn prepare(options: &Options) -> Result<ExitCode, String> {
    let plan = options.plan();
    let machine = plan.machine()?;
    if let Ok(place) = std::env::var("FARPOST_PORTALS")
        && !matches!(&*place, "" | "inline")
    {
        return Err(format!(
            "FARPOST_PORTALS={place}: simulated machines have no agents; their adapters do what agents do (--set adapter.seastar.mode=accelerated)"
        ));
    }
    if let Compute::Counted(_) = options.compute
        && let Err(why) = Instructions::begin()
    {
        eprintln!("farpost sim: --compute counted:MHz: {why}; use --compute measured:K");
        return Ok(ExitCode::from(2));
    }
    let (core, settings) = plan.assemble(&machine)?;
    device_fits(&machine, core.kernel.procs.hosts())?;
    if options.one_process {
        return Err(one_process::start(options, &plan, &machine));
    }
    let listener = Listener::new()?;
    let child = launch(options, &machine, &listener)?;
    let bar = (!options.quiet && std::io::stderr().is_terminal()).then(|| {
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template");
        ProgressBar::new_spinner().with_style(style)
    });
    let job = Job {
        child,
        bar,
        begun: Instant::now(),
        shown: Instant::now(),
        machine: machine.name.clone(),
        publisher: None,
        published: Instant::now(),
        costs: Duration::ZERO,
    };
    let mut coordinator = Coordinator::new(core, settings, job);
    let result = coordinator.run(&listener);
    finish(&plan, &mut coordinator, &result)
}

/// Whether MPI can go over what the user has chosen.
fn device_fits(machine: &Machine, hosts: u32) -> Result<(), String> {
    let chosen = std::env::var("FARPOST_DEVICE").ok();
    let Some(device @ ("" | "postbox")) = chosen.as_deref() else {
        return Ok(());
    };
    let own = farpost_sim::device(machine);
    if own.is_empty() || hosts == 1 {
        return Ok(());
    }
    Err(format!(
        "FARPOST_DEVICE={device}: postboxes need remote memory, which {} has not (adapter.{}); its own is {own}",
        machine.name,
        machine.adapter.kind()
    ))
}

/// The launcher as a child of this process, on one processor: one process runs at a time.
fn launch(options: &Options, machine: &Machine, listener: &Listener) -> Result<Child, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    fix(options);
    let this = std::env::current_exe().map_err(|e| failed("finding this program", e))?;
    let mut command = Command::new(&this);
    command
        .args(["run", "--bind-to", "none", "-n"])
        .arg(options.ranks.to_string());
    if let Some(library) = clock(options, &this)? {
        command
            .args(["-genv", "LD_PRELOAD"])
            .arg(before_others(&[library]));
    }
    command.args(&options.program).env(SOCKET, listener.name());
    surroundings(&mut command, machine);
    command.spawn().map_err(|e| failed("starting the launcher", e))
}

/// Programs that are started are to find the same at every run, and to run on one processor: one process runs at a time.
fn fix(options: &Options) {
    // Some containers refuse it. Where addresses play no part, runs are the same all the same.
    if let Err(error) = without_randomisation()
        && !options.quiet
    {
        eprintln!(
            "farpost sim: addresses of programs stay random ({error}): runs may differ where a program depends on them"
        );
    }
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    // Where it is refused, ranks only change processors more often.
    let _ = sched_setaffinity(None, &one);
}

/// What the library is to find in the environment.
fn surroundings(command: &mut Command, machine: &Machine) {
    command
        .env("FARPOST_FABRIC", "sim")
        .env("FARPOST_PROGRESS_THREAD", "0");
    let device = farpost_sim::device(machine);
    if !device.is_empty() && std::env::var_os("FARPOST_DEVICE").is_none() {
        command.env("FARPOST_DEVICE", device);
    }
}

/// Whether `program` is this one.
fn is(this: &Path, program: &OsString) -> bool {
    let named = Path::new(program);
    named
        .canonicalize()
        .is_ok_and(|program| Some(program) == this.canonicalize().ok())
        || program == "farpost"
}

/// The library that stands in for the system's clocks, if it is wanted.
fn clock(options: &Options, this: &Path) -> Result<Option<PathBuf>, String> {
    // Its benchmarks read the system's clocks.
    let measures = options.program.first().is_some_and(|program| is(this, program));
    if options.virtual_clock || measures {
        return installed(this, "lib/libfarpost_clock.so.1", "--virtual-clock").map(Some);
    }
    Ok(None)
}

/// A file of this installation, from where this program lies.
fn installed(this: &Path, name: &str, option: &str) -> Result<PathBuf, String> {
    let root = this.parent().and_then(Path::parent);
    let file = root.map(|root| root.join(name)).filter(|file| file.exists());
    file.ok_or_else(|| format!("{option}: {name} of this installation is missing"))
}

/// Libraries that are loaded first, before whatever the user has loaded.
fn before_others(libraries: &[PathBuf]) -> OsString {
    let mut list = OsString::new();
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    for library in libraries.iter().map(|it| it.as_os_str()).chain(others.as_deref()) {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    list
}

fn finish(
    plan: &Plan,
    coordinator: &mut Coordinator<Job>,
    result: &Result<(), CoordinatorError>,
) -> Result<ExitCode, String> {
    let job = coordinator.watch();
    if let Some(bar) = &job.bar {
        bar.finish_and_clear();
    }
    if let Err(error) = result
        && !matches!(error, CoordinatorError::NobodyLeft)
    {
        eprintln!("farpost sim: {error}");
        // The launcher says what the ranks wait for.
        if let Ok(pid) = i32::try_from(job.child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    let status = job
        .child
        .wait()
        .map_err(|e| format!("waiting for the launcher: {e}"))?;
    let took = job.begun.elapsed();
    // Behind what the program printed.
    output::out(&plan.show(coordinator.core())?);
    for line in plan.report(coordinator.core(), took, result.is_ok()) {
        eprintln!("farpost sim: {line}");
    }
    Ok(match result {
        // The launcher was told to end.
        Err(CoordinatorError::Run(_) | CoordinatorError::System(_)) => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
    })
}
