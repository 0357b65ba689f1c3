//! What carries MPI must be the same for all ranks. Who has the default says nothing and asks nobody; each other rank looks
//! at the next one: where not all have the same, one of them sees it.

use farpost_job::{Job, JobError, Opening};
use farpost_mpi::device::{Device, VARIABLE};

/// Key under which a rank publishes its device.
const KEY: &str = "farpost-device";

/// Say which device this process has.
pub(crate) fn publish(opening: &mut Opening, device: Device) -> Result<(), JobError> {
    if device == Device::default() {
        return Ok(());
    }
    opening.put(KEY, device.name().as_bytes())
}

/// Compare with the next rank's.
pub(crate) fn check(job: &Job, device: Device) -> Result<(), String> {
    if device == Device::default() || job.size() == 1 || job.rank() >= job.size() {
        return Ok(());
    }
    let (rank, next) = (job.rank(), (job.rank() + 1) % job.size());
    let theirs = job.get_from(next, KEY).map_err(|error| error.to_string())?;
    let theirs = theirs.as_deref().unwrap_or(Device::default().name().as_bytes());
    if theirs == device.name().as_bytes() {
        return Ok(());
    }
    let (ours, theirs) = (device.name(), String::from_utf8_lossy(theirs));
    Err(format!(
        "rank {rank} carries MPI by {ours} and rank {next} by {theirs:?}: set {VARIABLE} to the same for all ranks"
    ))
}
