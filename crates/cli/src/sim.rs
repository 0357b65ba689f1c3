//! `farpost sim`: any program on a simulated machine.
//!
//! This process owns the machine and its virtual time; the ranks are ordinary processes that `mpiexec` starts, one of which runs at a time.

use crate::output;
use clap::Args;
use farpost_sim::coordinator::{
    Coordinator, CoordinatorError, Listener, Settings, Watch, without_randomisation,
};
use farpost_sim::core::Core;
use farpost_sim::machine::Machine;
use farpost_sim::net::Harm;
use farpost_sim::record::ENTRIES;
use farpost_sim::time::Ps;
use farpost_sim::trace::{self, Publisher, Snapshot};
use farpost_simlink::compute::Instructions;
use farpost_simlink::wire::{Compute, SOCKET};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
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
    /// Whether the run is written down.
    fn records(&self) -> bool {
        self.trace.is_some() || self.explain
    }
}

/// What the options ask for after the run.
fn show(options: &Options, core: &Core) -> Result<(), String> {
    let failed = |what: &Path, error: std::io::Error| format!("writing {}: {error}", what.display());
    let file = |path: &Path, write: &dyn Fn(&mut BufWriter<File>) -> std::io::Result<()>| {
        let file = File::create(path).map_err(|e| failed(path, e))?;
        let mut file = BufWriter::new(file);
        write(&mut file)
            .and_then(|()| file.flush())
            .map_err(|e| failed(path, e))
    };
    if let Some(path) = &options.trace {
        file(path, &|out| trace::perfetto(core, out))?;
    }
    if let Some(path) = &options.network {
        file(path, &|out| trace::network(core, out))?;
    }
    let mut text = Vec::new();
    let parts: [(bool, Part); 3] = [
        (options.explain, |core, out| trace::explain(core, out)),
        (options.utilisation, |core, out| trace::utilisation(core, out)),
        (options.registers, |core, out| trace::registers(core, out)),
    ];
    for (wanted, part) in parts {
        if wanted {
            part(core, &mut text).map_err(|e| e.to_string())?;
        }
    }
    // Behind what the program printed.
    output::out(&String::from_utf8_lossy(&text));
    Ok(())
}

/// Something that is printed after the run.
type Part = fn(&Core, &mut Vec<u8>) -> std::io::Result<()>;

/// A look at the clock takes this.
const TICK: Ps = Ps(25_000);

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

/// The machine as the options have it.
fn machine(options: &Options) -> Result<Machine, String> {
    let mut machine = Machine::open(&options.machine).map_err(|e| e.to_string())?;
    for set in &options.set {
        let (path, value) = set
            .split_once('=')
            .ok_or_else(|| format!("--set {set}: PATH=VALUE is expected"))?;
        let changed = match (value.parse::<bool>(), value.parse::<i64>()) {
            (Ok(value), _) => machine.with(path, value),
            (_, Ok(value)) => machine.with(path, value),
            _ => machine.with(path, value),
        };
        machine = changed.map_err(|e| format!("--set {set}: {e}"))?;
    }
    for fault in &options.faults {
        machine = machine.with_fault(fault).map_err(|e| format!("--fault: {e}"))?;
    }
    Ok(machine)
}

fn prepare(options: &Options) -> Result<ExitCode, String> {
    let machine = machine(options)?;
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
    if options.ranks == 0 {
        return Err("-n 0: a program has a rank at least".into());
    }
    let hosts = machine
        .hosts_for(options.ranks, options.per_host)
        .map_err(|e| e.to_string())?;
    let per_host = options.per_host.unwrap_or(machine.host.processors.0);
    let placement = farpost_sim::placement(options.ranks, per_host);
    device_fits(&machine, hosts)?;
    let mut core =
        farpost_sim::assemble(&machine, hosts, &placement, options.seed).map_err(|e| e.to_string())?;
    if options.records() {
        core.record(ENTRIES);
    }
    if !(0.1..=1e6).contains(&options.patience) {
        return Err(format!(
            "--patience {}: allowed is 0.1 to 1000000",
            options.patience
        ));
    }
    let settings = Settings {
        machine: machine.name.clone(),
        tick: TICK,
        compute: options.compute,
        patience: Duration::from_secs_f64(options.patience),
        calls: options.records(),
    };
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
    finish(options, &mut coordinator, &result)
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
    let this = std::env::current_exe().map_err(|e| failed("finding this program", e))?;
    let mut command = Command::new(&this);
    command
        .args(["run", "--bind-to", "none", "-n"])
        .arg(options.ranks.to_string());
    // Its benchmarks read the system's clocks.
    let measures = options.program.first().is_some_and(|program| is(&this, program));
    if options.virtual_clock || measures {
        let library = clock_library(&this)?;
        command.args(["-genv", "LD_PRELOAD"]).arg(library);
    }
    command
        .args(&options.program)
        .env("FARPOST_FABRIC", "sim")
        .env("FARPOST_PROGRESS_THREAD", "0")
        .env(SOCKET, listener.name());
    let device = farpost_sim::device(machine);
    if !device.is_empty() && std::env::var_os("FARPOST_DEVICE").is_none() {
        command.env("FARPOST_DEVICE", device);
    }
    command.spawn().map_err(|e| failed("starting the launcher", e))
}

/// Whether `program` is this one.
fn is(this: &Path, program: &OsString) -> bool {
    let named = Path::new(program);
    named
        .canonicalize()
        .is_ok_and(|program| Some(program) == this.canonicalize().ok())
        || program == "farpost"
}

/// The library that stands in for the system's clocks, from where this program lies; before whatever the user has loaded.
fn clock_library(this: &Path) -> Result<OsString, String> {
    const NAME: &str = "lib/libfarpost_clock.so.1";
    let root = this.parent().and_then(Path::parent);
    let library = root
        .map(|root| root.join(NAME))
        .filter(|library| library.exists());
    let mut list = library
        .ok_or_else(|| format!("--virtual-clock: {NAME} of this installation is missing"))?
        .into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

fn finish(
    options: &Options,
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
    let took = job.begun.elapsed().as_secs_f64();
    show(options, coordinator.core())?;
    let harm = coordinator.core().kernel.net.harm();
    if !options.quiet && harm != Harm::default() {
        eprintln!(
            "farpost sim: of all packets {} were lost, {} damaged; links sent {} again",
            harm.lost, harm.damaged, harm.again
        );
    }
    if !options.quiet && result.is_ok() {
        eprintln!(
            "farpost sim: {} of virtual time on {}, {took:.2} s of real time",
            coordinator.core().kernel.now,
            options.machine,
        );
    }
    Ok(match result {
        // The launcher was told to end.
        Err(CoordinatorError::Run(_) | CoordinatorError::System(_)) => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
    })
}
