//! `mpiexec`: place, start, watch, forward, report, clean up. Knows nothing of MPI's meaning, only of processes
//! and of the job memory through which ranks say how far they are.
//!
//! Two processes do the work. The *front* process is what the user started; the *guardian* is its child, in a
//! process group of its own, and the parent of the ranks. Each ends everything below it should the other die, so
//! that `kill -9` of either leaves nothing behind. There are no files, no sockets, no shell, no name resolution.
//!
//! **Failures.** When a rank fails, the others are ended, unless `--on-failure continue` was given. A rank that ends with code 0 without having
//! joined, while others have joined, is a failure: they would wait for it. When both processes are killed at once the kernel ends the job
//! (`farpost_job::lifeline`). Processes that never joined the job, have left their rank's process group, and have no parent that dies with the
//! launcher are not reached.
//!
//! **Binding.** Without `--bind-to`, and with a core for every process, each rank is bound to its *domain* (`domains`). Ranks with cores of their own
//! have sessions of their own, because the kernel may share out time by sessions (`sched_autogroup`). Ranks that share a core stay in one session,
//! in which a yield passes the core on. A rank that turns out to have more threads than its domain gets all cores back (`widen`).
//!
//! **Several hosts.** `mpiexec` decides which ranks run where and hands the job to a launcher that is there (`engine`). That launcher runs in the
//! place of a rank: guardian and front watch it, forward signals and standard input, and end it when time is up or one of them dies.

#[macro_use]
mod refusal;

mod agents;
mod busy;
mod config_line;
mod cores;
mod descendants;
mod domains;
mod engine;
pub mod environment;
mod front;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod guardian;
mod help;
mod hosts;
mod option_names;
mod options;
mod output;
mod parser;
mod place;
mod plan;
mod plumbing;
mod program;
pub mod report;
pub mod roll;
mod roll_call;
mod signals;
mod spawn;
mod start;
mod widen;

use farpost_job::Roles;
use options::Options;
use parser::Request;
use plan::{PlannedJob, PreparedApp};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub use guardian::TIMEOUT_CODE;
pub use refusal::Refusal;

/// Run `mpiexec` with these arguments (the program's own name not among them).
///
/// Must be called while the process has one thread: it forks.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = run(args.into_iter().collect()).unwrap_or_else(|refusal| {
        eprintln!("mpiexec: {}", refusal.text.replace('\n', " "));
        refusal.code
    });
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn run(args: Vec<OsString>) -> Result<i32, Refusal> {
    match parser::parse(args, &|name| std::env::var_os(name))? {
        Request::Help => {
            // Whoever closes the pipe has read enough.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), help::TEXT.as_bytes());
            Ok(0)
        }
        Request::Version => {
            let line = format!("mpiexec (Farpost) {}\n", env!("CARGO_PKG_VERSION"));
            let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
            Ok(0)
        }
        Request::Run(options) => start(*options),
    }
}

fn start(options: Options) -> Result<i32, Refusal> {
    // An outer job's memory is no business of this job's ranks.
    if let Some(fd) = std::env::var(farpost_job::JOB_FD)
        .ok()
        .and_then(|v| v.parse().ok())
        && fd > 2
    {
        farpost_job::close_on_exec(fd);
    }
    for warning in &options.warnings {
        eprintln!("mpiexec: {warning}");
    }
    let env = |name: &str| std::env::var_os(name);
    if let engine::Choice::Engine(engine) = engine::choose(&options, &env, &program::along_path)? {
        return engine::start(options, &engine);
    }
    if let Some(parameter) = options.idle_parameter() {
        eprintln!("mpiexec: {parameter}: parameters of Open MPI have no effect here");
    }
    let app_of: Vec<u32> = options
        .apps
        .iter()
        .enumerate()
        .flat_map(|(i, app)| std::iter::repeat_n(i as u32, app.ranks.unwrap_or(1) as usize))
        .collect();
    let size = app_of.len() as u32;
    let apps = options
        .apps
        .iter()
        .map(|app| prepare(app, &options, size))
        .collect::<Result<Vec<_>, _>>()?;
    let host = farpost_job::host_name();
    let mut job = PlannedJob {
        apps,
        app_of,
        roles: Roles::default(),
        own_cores: false,
        bound_by_default: false,
        cpus: Vec::new(),
        host,
        engine: None,
    };
    add_agent(&options, &mut job)?;
    let processes = job.app_of.len();
    let (binding, by_default) = bind(&options, size, processes, &job.host);
    job.own_cores = binding.exclusive;
    job.bound_by_default = by_default;
    job.cpus = binding.cpus;
    job.cpus.resize_with(processes, Vec::new);
    front::launch(options, job)
}

/// The Portals agent, if a program asks for it.
fn add_agent(options: &Options, job: &mut PlannedJob) -> Result<(), Refusal> {
    let variables =
        |app: &options::App| environment::for_app(std::env::vars_os(), &options.rules, &app.rules);
    let places = options
        .apps
        .iter()
        .map(|app| agents::place(&variables(app)))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(client) = places.iter().position(|place| agents::needs_one(place)) else {
        return Ok(());
    };
    let app = agents::app(&options.apps[client])?;
    let ranks = options.apps.iter().map(|app| app.ranks.unwrap_or(1));
    job.roles = Roles::new(places.iter().copied().zip(ranks), 1);
    job.app_of.push(job.apps.len() as u32);
    job.apps.push(prepare(&app, options, job.app_of.len() as u32)?);
    Ok(())
}

fn prepare(app: &options::App, options: &Options, size: u32) -> Result<PreparedApp, Refusal> {
    let mut variables = environment::for_app(std::env::vars_os(), &options.rules, &app.rules);
    if size > 1 || !options.marks.none() {
        // C programs write line by line as ranks; Python, whose own buffer holds output back, is asked to.
        variables
            .entry("PYTHONUNBUFFERED".into())
            .or_insert_with(|| "1".into());
    }
    let path = variables
        .get(OsStr::new("PATH"))
        .cloned()
        .or_else(|| std::env::var_os("PATH"));
    let file = program::find(app, path.as_deref())?;
    let c = |s: &OsStr| CString::new(s.as_bytes()).map_err(|_| refusal!(usage: "a zero byte in an argument"));
    let mut args = vec![c(&app.program)?];
    for arg in &app.args {
        args.push(c(arg)?);
    }
    let mut shell_args = vec![c"sh".to_owned(), file.clone()];
    shell_args.extend_from_slice(&args[1..]);
    let variables = variables.iter().map(|(n, v)| environment::c_pair(n, v)).collect();
    let directory = app.directory.as_ref().map(|d| c(d.as_os_str())).transpose()?;
    Ok(PreparedApp {
        file,
        args: spawn::Strings::new(args),
        shell_args: spawn::Strings::new(shell_args),
        variables,
        directory,
    })
}

/// What the ranks are bound to, and whether nobody asked for that.
fn bind(options: &Options, size: u32, processes: usize, host: &str) -> (cores::Binding, bool) {
    let (bind, map) = match (options.bind, options.use_hwthreads) {
        (cores::Bind::Core, true) => (cores::Bind::HwThread, options.map),
        (bind, _) => (bind, options.map),
    };
    let by_default = options.bind_by_default && size > 1;
    let unbound = bind == cores::Bind::None && !by_default;
    let allowed = if unbound && !options.report_bindings {
        Vec::new()
    } else {
        cores::allowed()
    };
    let cpus = if unbound {
        Vec::new()
    } else {
        cores::topology(&allowed)
    };
    let domains = by_default
        .then(|| domains_of(options, size, processes, &cpus))
        .flatten();
    let by_default = domains.is_some();
    let binding = match domains {
        Some(cpus) => cores::Binding {
            cpus,
            exclusive: true,
        },
        None => cores::assign(size as usize, bind, map, options.cores_per_rank as usize, &cpus),
    };
    if options.report_bindings {
        for (rank, cpus) in binding.cpus.iter().enumerate() {
            if cpus.is_empty() {
                let all = cores::show_list(&allowed);
                eprintln!("mpiexec: rank {rank} on host {host} is not bound (processors {all})");
            } else {
                eprintln!(
                    "mpiexec: rank {rank} on host {host} is bound to processors {}",
                    cores::show_list(cpus)
                );
            }
        }
    }
    (binding, by_default)
}

/// The domains of ranks for whom nobody has said anything.
fn domains_of(
    options: &Options,
    size: u32,
    processes: usize,
    cpus: &[cores::Cpu],
) -> Option<Vec<Vec<usize>>> {
    let quota = farpost_job::allowed_cores() as usize;
    if processes > cpus.len().min(quota) {
        return None;
    }
    let threads = |app: &options::App| {
        domains::threads_wanted(&environment::for_app(
            std::env::vars_os(),
            &options.rules,
            &app.rules,
        ))
    };
    let threads = options.apps.iter().map(threads).max().unwrap_or(1);
    let threads = threads.max(options.cores_per_rank as usize);
    let load = busy::load();
    domains::domains(size as usize, processes, quota, threads, cpus, |cpu| {
        load.get(&cpu).copied().unwrap_or(0.0)
    })
}
