//! The run of all ranks, in place of `main`.

use crate::host::Host;
use crate::program::Program;
use crate::signals;
use crate::surroundings::Surroundings;
use crate::turns::Turns;
use farpost_job::{JobMemory, NewJob, host_name};
use farpost_launch::roll::state_of;
use farpost_rollcall::table::{self, Rank};
use farpost_sim::coordinator::{Connection, Coordinator, CoordinatorError, Watch};
use farpost_sim::core::Core;
use farpost_sim::plan::{Plan, VARIABLE};
use farpost_sim::stack::{RankStack, guard_of, stacks};
use farpost_simlink::compute::Instructions;
use farpost_simlink::wire::{Compute, SOCKET};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CString;
use std::io::Write;
use std::time::Duration;

/// Bytes of a rank's stack and its guard: as many as a process may have here, 8 MiB if that has no end. Only what is used takes memory.
fn stack_bytes() -> usize {
    const USUAL: u64 = 8 << 20;
    let allowed = getrlimit(Resource::Stack).current.unwrap_or(USUAL);
    let bytes = allowed.clamp(USUAL, 1 << 30) as usize;
    let guard = guard_of(bytes);
    bytes.next_multiple_of(guard) + guard
}

/// Run `program` with these arguments as all ranks; the process's code.
pub fn run(program: Program, arguments: Vec<CString>) -> i32 {
    match try_run(program, arguments) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("farpost sim: {why}");
            1
        }
    }
}

fn try_run(mut program: Program, arguments: Vec<CString>) -> Result<i32, String> {
    let began = now();
    let plan = std::env::var(VARIABLE).map_err(|e| format!("{VARIABLE}: {e}"))?;
    let plan: Plan = serde_json::from_str(&plan).map_err(|e| format!("{VARIABLE}: {e}"))?;
    let (core, settings) = plan.assemble(&plan.machine()?)?;
    allow_descriptors();
    let memory = JobMemory::create(&NewJob {
        size: plan.ranks,
        services: 0,
        launcher: std::process::id(),
        allowed_cores: farpost_job::allowed_cores(),
        bound: false,
    })
    .map_err(|e| e.to_string())?;
    for rank in 0..plan.ranks {
        memory.started(rank, std::process::id(), 0);
    }
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var(SOCKET, "the coordinator of this process") };
    let instructions = match plan.compute {
        Compute::Counted(_) => Some(Instructions::begin()?),
        Compute::Nothing | Compute::Measured(_) => None,
    };
    if program.modules.iter().any(|it| it.has_heap) {
        return Err(
            "the program brings its own malloc, which ranks in one process cannot share: run it without --one-process".into(),
        );
    }
    if let Some(segments) = &mut program.segments {
        segments.page(plan.ranks as usize);
    }
    let host = Host::begin(program, Surroundings::new(arguments), memory, instructions);
    signals::tell_of_them();
    let no_stack = |error| format!("no stacks for {} ranks: {error}", plan.ranks);
    let found: std::io::Result<Vec<RankStack>> = stacks(plan.ranks as usize, stack_bytes())
        .map_err(no_stack)?
        .collect();
    let ranks = (0..).zip(found.map_err(no_stack)?);
    let ranks = ranks.map(|(rank, stack)| Box::new(Turns::new(host, rank, stack)) as Box<dyn Connection>);
    let mut coordinator = Coordinator::new(core, settings, Over(host));
    let result = coordinator.run_within(ranks);
    // SAFETY: null means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    if let Err(error) = &result
        && !matches!(error, CoordinatorError::NobodyLeft)
    {
        eprintln!("farpost sim: {error}");
        tell_waits(host, plan.ranks);
    }
    let text = plan.show(coordinator.core())?;
    let mut out = std::io::stdout().lock();
    // Whoever closes the pipe has read enough.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    for line in plan.report(coordinator.core(), now().saturating_sub(began), result.is_ok()) {
        eprintln!("farpost sim: {line}");
    }
    // What ranks that have not ended keep stays as it is.
    std::mem::forget(coordinator);
    Ok(match (host.code(), &result) {
        (Some(code), _) => code,
        (None, Err(CoordinatorError::Run(_) | CoordinatorError::System(_))) => 1,
        (None, _) => 0,
    })
}

/// What ranks wait for.
fn tell_waits(host: &Host, ranks: u32) {
    let now = farpost_rollcall::now();
    let name = host_name();
    let ranks: Vec<Rank> = (0..ranks)
        .map(|number| Rank {
            number,
            host: name.clone(),
            state: state_of(&host.memory, number, now),
            now,
        })
        .collect();
    if let Some(text) = table::table(&ranks) {
        eprintln!(
            "farpost sim: what the ranks were waiting for:\n{}",
            text.trim_end()
        );
    }
}

/// Each rank has some.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it is refused, few ranks have enough.
    let _ = setrlimit(Resource::Nofile, all);
}

/// The system's time, whoever stands in for its clocks.
fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a plain system call with room for its answer.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether to go on.
struct Over(&'static Host);

impl Watch for Over {
    fn say(&mut self, text: &str) {
        eprintln!("farpost sim: {text}");
    }

    fn go_on(&mut self, _: &Core) -> bool {
        !self.0.is_over()
    }
}
