//! Jobs on several hosts are handed to a launcher that the site has: Slurm's `srun`, PRRTE's `prterun`, MPICH's
//! `mpiexec.hydra`. Which one is decided here; each has a file that puts a job into its words.

mod choose;
mod hydra;
mod job;
mod prterun;
mod run;
mod srun;

pub use choose::{Choice, allocated_hosts, choose};
pub use run::start;

#[cfg(test)]
mod tests;
