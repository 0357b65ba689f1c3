//! Many ranks on a simulated machine, and what it takes: `cargo run --release -p farpost-sim --example many_ranks -- [MACHINE] [PATTERN] [RANKS] [MEMORY]`.
//!
//! Machines: those that come with Farpost by name, the path of a file, and as large as they have to be, with adapters of today's, `torus` (that of the XT3) and `tree`.
//! Patterns: `allreduce`, `barrier`, `ring`. Memory, as in `8000MB`: fail if the process has ever taken more.

#[path = "../tests/support/machines.rs"]
mod machines;
#[path = "../tests/support/many.rs"]
mod many;

use farpost_sim::ranks;
use many::{On, Pattern};

/// The line of `/proc/self/status` that begins so, in MB. 0: there is none.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) / 1024
}

fn run() -> Result<(), String> {
    let (mut on, mut pattern, mut size) = (On("torus".into()), Pattern::Allreduce, 1000);
    let mut most = u64::MAX;
    for word in std::env::args().skip(1) {
        if let Ok(ranks) = word.parse() {
            size = ranks;
        } else if let Some(Ok(memory)) = word.strip_suffix("MB").map(str::parse) {
            most = memory;
        } else if let Ok(named) = Pattern::parse(&word) {
            pattern = named;
        } else {
            on = On(word);
        }
    }
    let start = std::time::Instant::now();
    let (core, device) = on.core(size, 1)?;
    let (results, core) =
        ranks::run(core, |end| pattern.run(end, device)).map_err(|error| error.to_string())?;
    for (rank, got) in (0..).zip(results) {
        assert_eq!(got, pattern.expected(rank, size), "rank {rank}");
    }
    let memory = status("VmHWM:");
    println!(
        "{pattern:?} of {size} ranks on {}: {:.1} s, {} MB, virtual {}, {} events",
        on.0,
        start.elapsed().as_secs_f64(),
        memory,
        core.kernel.now,
        core.kernel.queue.made()
    );
    if memory > most {
        return Err(format!("{memory} MB are more than {most} MB"));
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("many_ranks: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
