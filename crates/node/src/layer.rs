//! What a layer that this crate does not know brings to joining: settings of its own, and what must be the same for all ranks.

use farpost_job::{Job, JobError, Opening};

/// A layer above the interfaces that the node knows: MPI.
pub trait Layer {
    /// Set what the variable `name` is about; false: it is about nothing here.
    ///
    /// # Errors
    /// A sentence: what is allowed.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String>;

    /// Whether the process has it.
    fn is_there(&self) -> bool {
        true
    }

    /// What all ranks must have the same.
    fn same(&self) -> Vec<Same> {
        Vec::new()
    }
}

/// A program without MPI: what is set for MPI is none of its business, and no mistake.
impl Layer for () {
    fn is_there(&self) -> bool {
        false
    }

    fn set(&mut self, name: &str, _value: &str) -> Result<bool, String> {
        Ok(MPI_VARIABLES.contains(&name))
    }
}

/// MPI's settings, of which a process that does not know MPI knows the names.
pub const MPI_VARIABLES: &[&str] = &[
    "FARPOST_BOTH_COPY",
    "FARPOST_CHECK",
    "FARPOST_CHUNK_MAX",
    "FARPOST_CHUNK_MIN",
    "FARPOST_COLL_ALLGATHER",
    "FARPOST_COLL_ALLGATHER_BRUCK_MAX",
    "FARPOST_COLL_ALLREDUCE",
    "FARPOST_COLL_ALLREDUCE_DOUBLING_MAX",
    "FARPOST_COLL_ALLREDUCE_PEER_CHUNK",
    "FARPOST_COLL_ALLREDUCE_PEER_MIN",
    "FARPOST_COLL_ALLTOALL",
    "FARPOST_COLL_ALLTOALL_BRUCK_MAX",
    "FARPOST_COLL_ALLTOALL_BRUCK_RANKS",
    "FARPOST_COLL_BCAST",
    "FARPOST_COLL_BCAST_CHAIN_MIN",
    "FARPOST_COLL_BCAST_TREE_MAX",
    "FARPOST_COLL_CHUNK",
    "FARPOST_COLL_DIRECT_RANKS_MAX",
    "FARPOST_COLL_GATHER",
    "FARPOST_COLL_GATHER_TREE_MAX",
    "FARPOST_COLL_PAIR_WHOLE_MAX",
    "FARPOST_COLL_PIPELINE",
    "FARPOST_COLL_POOL",
    "FARPOST_COLL_REDUCE",
    "FARPOST_COLL_REDUCE_HOSTS_MIN",
    "FARPOST_COLL_REDUCE_SCATTER",
    "FARPOST_COLL_REDUCE_SCATTER_DOUBLING_MAX",
    "FARPOST_COLL_REDUCE_TREE_MAX",
    "FARPOST_COLL_SCAN",
    "FARPOST_COLL_SCAN_DOUBLING_MAX",
    "FARPOST_COLL_SCATTER",
    "FARPOST_COLL_WINDOW",
    "FARPOST_DEVICE",
    "FARPOST_EAGER_FAR",
    "FARPOST_EAGER_MAX",
    "FARPOST_JAM_LOCAL",
    "FARPOST_JAM_RDMA",
    "FARPOST_PORTALS_EXPOSED",
    "FARPOST_PORTALS_FETCHES",
    "FARPOST_PORTALS_POSTED",
    "FARPOST_PORTALS_UNEXPECTED",
    "FARPOST_RSM_BLOCK",
    "FARPOST_RSM_BLOCKS",
    "FARPOST_RSM_SLOTS",
    "FARPOST_RUN_FAR",
    "FARPOST_UNEXPECTED_BYTES",
    "FARPOST_ZCOPY_MAX",
    "FARPOST_ZCOPY_MIN",
];

/// Something that all ranks of a job must have the same. Who has the default says nothing and asks nobody; each other rank looks at
/// the next one: where not all have the same, one of them sees it.
pub struct Same {
    /// Under which a rank publishes what it has.
    pub key: &'static str,
    /// What this process has; `None`: the default.
    pub value: Option<String>,
    /// The sentence when a rank and the next one differ, and what they have; `None`: the default.
    pub differ: fn(u32, u32, &str, Option<&str>) -> String,
}

/// Key under which a process says that it has no such layer: nothing has to be the same there.
const WITHOUT: &str = "farpost-without-mpi";

/// Say what this process has.
pub(crate) fn publish<'a>(
    opening: &mut Opening,
    layer: &dyn Layer,
    same: impl IntoIterator<Item = &'a Same>,
) -> Result<(), JobError> {
    if !layer.is_there() {
        opening.put(WITHOUT, b"1")?;
    }
    for Same { key, value, .. } in same {
        if let Some(value) = value {
            opening.put(key, value.as_bytes())?;
        }
    }
    Ok(())
}

/// Compare with the next rank; what is `the_layers` only if it has the layer.
pub(crate) fn compare(job: &Job, the_layers: bool, same: &[Same]) -> Result<(), String> {
    if job.size() == 1 || job.rank() >= job.size() {
        return Ok(());
    }
    let (rank, next) = (job.rank(), (job.rank() + 1) % job.size());
    let has = |key| job.get_from(next, key).map_err(|error| error.to_string());
    for Same { key, value, differ } in same {
        let Some(mine) = value else { continue };
        let theirs = has(key)?;
        if theirs.as_deref() != Some(mine.as_bytes()) && !(the_layers && has(WITHOUT)?.is_some()) {
            let theirs = theirs.as_deref().map(String::from_utf8_lossy);
            return Err(differ(rank, next, mine, theirs.as_deref()));
        }
    }
    Ok(())
}
