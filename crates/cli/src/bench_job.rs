//! What the benchmarks share that run as ranks of a job: starting it, their sizes.

use crate::bench_args::Sizes;
use crate::output;
use farpost_bench::{Mpi, Result, launch, sizes, usage};

/// The sizes that were chosen, or those of a `walk` between bounds.
pub(crate) fn list(
    options: &Sizes,
    min: usize,
    max: usize,
    walk: impl Fn(usize, usize) -> Vec<usize>,
) -> Result<Vec<usize>> {
    if let Some(text) = &options.sizes {
        return sizes::parse_list(text);
    }
    let bound = |text: &Option<String>, default| text.as_deref().map_or(Ok(default), sizes::parse);
    let (low, high) = (bound(&options.min, min)?, bound(&options.max, max)?);
    // A person who names one bound means it: the other one's default gives way.
    let low = if options.min.is_none() { low.min(high) } else { low };
    let high = if options.max.is_none() {
        high.max(low)
    } else {
        high
    };
    if low > high {
        return Err(usage!(
            "--min {low} --max {high}: the smallest size is above the largest"
        ));
    }
    Ok(walk(low, high))
}

/// Start a job if nobody did, and do something in it.
pub(crate) fn in_job(ranks: u32, work: impl FnOnce(&Mpi) -> Result<()>) -> Result<()> {
    if !launch::is_launched() {
        return Err(launch::restart(ranks as usize));
    }
    let mpi = Mpi::init()?;
    match work(&mpi) {
        Ok(()) => mpi.finalize(),
        Err(e) => {
            output::error(&e.to_string());
            mpi.abort(1)
        }
    }
}

/// Whether this process is a rank on a simulated machine, where `farpost sim` has made its clocks virtual.
pub(crate) fn is_simulated() -> bool {
    std::env::var_os(farpost_simlink::wire::SOCKET).is_some()
}

/// Seconds that a trial should take. On a simulated machine every repetition is the same, and each takes much longer than it says.
pub(crate) fn trial_time(milliseconds: u32) -> f64 {
    f64::from(milliseconds) * if is_simulated() { 1e-4 } else { 1e-3 }
}
