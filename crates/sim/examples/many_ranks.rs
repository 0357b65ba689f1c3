//! Many ranks on a simulated machine, and what it takes: `cargo run --release -p farpost-sim --example many_ranks -- [MACHINE] [PATTERN] [RANKS]`.
//!
//! Machines: `star` and `torus` (of the XT3) with adapters of today's, `xt3`. Patterns: `allreduce`, `barrier`, `ring`.

#[path = "../tests/support/mod.rs"]
mod support;

use farpost_sim::ranks;
use support::many::{On, Pattern};

/// The line of `/proc/self/status` that begins so, in MB. 0: there is none.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) / 1024
}

fn run() -> Result<(), String> {
    let (mut on, mut pattern, mut size) = (On::Star, Pattern::Allreduce, 1000);
    for word in std::env::args().skip(1) {
        if let Ok(ranks) = word.parse() {
            size = ranks;
        } else if let Ok(machine) = On::parse(&word) {
            on = machine;
        } else {
            pattern = Pattern::parse(&word).map_err(|_| {
                format!(
                    "{word}: allowed are a number of ranks, star, torus or xt3, and allreduce, barrier or ring"
                )
            })?;
        }
    }
    let start = std::time::Instant::now();
    let device = on.device();
    let (results, core) =
        ranks::run(on.core(size, 1)?, |end| pattern.run(end, device)).map_err(|error| error.to_string())?;
    for (rank, got) in (0..).zip(results) {
        assert_eq!(got, pattern.expected(rank, size), "rank {rank}");
    }
    println!(
        "{pattern:?} of {size} ranks on {on:?}: {:.1} s, {} MB, virtual {}, {} events",
        start.elapsed().as_secs_f64(),
        status("VmHWM:"),
        core.kernel.now,
        core.kernel.queue.made()
    );
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
