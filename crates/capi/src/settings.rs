//! MPI's settings, as the file and the environment have them.
//!
//! Cost class: set-up path.

use farpost_channel::ChannelTunables;
use farpost_mpi::carrier::{Device, DeviceTunables, VARIABLE as DEVICE};
use farpost_mpi::coll::Tuning;
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::world::WorldConfig;
use farpost_node::{Layer, Node, Same};
use farpost_tunables::Tunable;

/// The variable.
const CHECK: &str = "FARPOST_CHECK";

/// What is looked for, and what is done about it. All false: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckMode {
    /// Mistakes are looked for.
    pub(crate) on: bool,
    /// Every finding is told in full, not only the first of each kind.
    pub(crate) all: bool,
    /// A finding ends the job with an exit code that is not zero.
    pub(crate) error: bool,
}

impl CheckMode {
    /// From the variable's value: `0`, `1`, or any of `all` and `error`.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        let mut mode = Self::default();
        for word in value.split(',') {
            match word.trim() {
                "" | "0" => continue,
                "1" => {}
                "all" => mode.all = true,
                "error" => mode.error = true,
                _ => {
                    return Err(format!(
                        "{CHECK}={value}: allowed are 0, 1, all, error, and all,error"
                    ));
                }
            }
            mode.on = true;
        }
        Ok(mode)
    }
}

/// What is set. The node has the settings of all other layers.
#[derive(Default)]
pub(crate) struct MpiSettings {
    world: WorldConfig,
    /// Whether a program's mistakes are looked for.
    pub check: CheckMode,
}

impl MpiSettings {
    /// The tables of its tunables.
    pub fn tunables() -> [(&'static str, &'static [Tunable]); 4] {
        [
            ("channel", ChannelTunables::TABLE),
            ("mpi: engine", EngineTunables::TABLE),
            ("mpi: devices", DeviceTunables::TABLE),
            ("mpi: collectives", Tuning::TABLE),
        ]
    }

    /// The value of one of them.
    pub fn value(&self, name: &str) -> Option<u64> {
        let world = &self.world;
        let messages = world.rsm.get(name).or_else(|| world.engine.get(name));
        messages
            .or_else(|| world.tuning.get(name))
            .or_else(|| world.device.tunables.get(name))
    }

    /// What carries MPI.
    pub fn device(&self) -> Device {
        self.world.device.device
    }

    /// What a world is made with in the job that `node` has joined.
    ///
    /// # Errors
    /// A sentence: MPI over Portals by way of an agent was asked for, and the job has none.
    pub fn world(&self, node: &Node) -> Result<WorldConfig, String> {
        let mut config = self.world.clone();
        if self.device() == Device::Portals {
            config.device.agents = node.portals_by()?;
        }
        config.wait = node.settings.wait.clone();
        config.device.fm = node.settings.fm.clone();
        config.device.portals = node.settings.portals.clone();
        if let Some(limit) = node.eager_limit {
            config.engine.eager_far = limit.min(config.engine.eager_far);
        }
        if config.engine.unexpected_bytes == 0 {
            config.engine.unexpected_bytes = node.unexpected_bytes();
        }
        Ok(config)
    }
}

impl Layer for MpiSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        if name == CHECK {
            self.check = CheckMode::parse(value)?;
            return Ok(true);
        }
        let world = &mut self.world;
        Ok(world.rsm.set(name, value).map_err(|e| e.to_string())?
            || world.engine.set(name, value).map_err(|e| e.to_string())?
            || world.tuning.set(name, value).map_err(|e| e.to_string())?
            || world.device.set(name, value)?)
    }

    /// What carries MPI, and whether it is checked, which changes what messages carry.
    fn same(&self) -> Vec<Same> {
        let device = self.device();
        vec![
            Same {
                key: "farpost-device",
                value: (device != Device::default()).then(|| device.name().into()),
                differ: |rank, next, ours, theirs| {
                    let theirs = theirs.unwrap_or(Device::default().name());
                    format!(
                        "rank {rank} carries MPI by {ours} and rank {next} by {theirs:?}: set {DEVICE} to the same for all ranks"
                    )
                },
            },
            Same {
                key: "farpost-check",
                value: self.check.on.then(|| "1".into()),
                differ: |rank, next, _, _| {
                    format!(
                        "rank {rank} has {CHECK} set and rank {next} has not: set it for all ranks, as mpiexec --check does"
                    )
                },
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_node::MPI_VARIABLES;

    #[test]
    fn programs_without_mpi_know_the_names() {
        let tables = MpiSettings::tunables().map(|(_, table)| table);
        let mut names: Vec<&str> = tables.into_iter().flatten().map(|tunable| tunable.name).collect();
        names.extend([CHECK, DEVICE]);
        names.sort_unstable();
        assert_eq!(names, MPI_VARIABLES);
    }

    #[test]
    fn a_setting_is_refused_with_what_is_allowed() {
        let mut settings = MpiSettings::default();
        assert_eq!(settings.set("FARPOST_EAGER_MAX", "8k"), Ok(true));
        assert_eq!(settings.world.engine.eager_max, 8 << 10);
        assert_eq!(settings.set("FARPOST_EAGER_MX", "8k"), Ok(false));
        assert!(settings.set("FARPOST_EAGER_MAX", "many").is_err());
        assert!(settings.set(CHECK, "yes").is_err());
    }

    #[test]
    fn the_value_says_what_is_looked_for() {
        let mode = |on, all, error| Ok(CheckMode { on, all, error });
        assert_eq!(CheckMode::parse("0"), mode(false, false, false));
        assert_eq!(CheckMode::parse(""), mode(false, false, false));
        assert_eq!(CheckMode::parse("1"), mode(true, false, false));
        assert_eq!(CheckMode::parse("error, all"), mode(true, true, true));
        assert!(CheckMode::parse("yes").is_err());
    }
}
