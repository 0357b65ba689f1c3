//! A machine is a file: `machines/NAME.toml` at the repository's root, or one of your own. This reads it, checks it, and says what is wrong with it in one line.
//!
//! A number of a file is a [`Quantity`]: a value with its unit, and where it is from. At most [`MOST_FITTED`] of a machine are fitted to results; all other results
//! are predictions. [`Machine::scaled`] changes one number, to see what depends on it.

mod adapter;
mod faults;
mod file;
mod host;
mod quantity;
mod topology;

pub use adapter::{
    AdapterSpec, Exhaustion, Lanai, LanaiBus, LanaiProgram, Rdma, Retry, Rsm, SeaStar, SeaStarMode, StarTX,
    StarTXRdma,
};
pub use faults::{FaultKind, FaultNode, FaultPlace, FaultSpec, FaultTime};
pub use host::{CopyLevel, Host, Memory, Software};
pub use quantity::{Bytes, Count, Cycles, Hertz, Origin, Quantity, Ratio};
pub use topology::{
    CrossbarSpec, FatTreeSpec, LinkSpec, MOST_HOSTS, PointSpec, SwitchSpec, TopologySpec, TorusSpec,
};

use serde::Deserialize;
use std::path::Path;

/// Numbers of a machine that may be fitted to results.
pub const MOST_FITTED: usize = 6;

/// The machines that come with Farpost, by name.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "sun-fire-link",
        include_str!("../../../../machines/sun-fire-link.toml"),
    ),
    ("myrinet-fm", include_str!("../../../../machines/myrinet-fm.toml")),
    ("startx", include_str!("../../../../machines/startx.toml")),
    ("xt3", include_str!("../../../../machines/xt3.toml")),
    (
        "cluster-100g",
        include_str!("../../../../machines/cluster-100g.toml"),
    ),
];

/// What is wrong, and where in the file in bytes.
#[derive(Debug)]
struct Fault {
    at: usize,
    what: String,
}

impl Fault {
    fn new(at: usize, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { at, what }
    }
}

/// One line: `FILE:LINE: what is wrong, what is allowed`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

/// A number of a machine, by its path in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// `adapter.rsm.store`
    pub path: String,
    /// As written: `250 ns`.
    pub value: String,
    pub origin: Origin,
    /// The path of the number that this one is in a fixed ratio to.
    pub follows: Option<String>,
}

/// What a file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub name: String,
    pub title: String,
    /// What describes it.
    pub paper: String,
    pub host: Host,
    #[serde(default)]
    pub software: Software,
    pub memory: Memory,
    pub topology: TopologySpec,
    pub adapter: AdapterSpec,
    /// What fails in its runs.
    #[serde(default)]
    pub faults: Vec<FaultSpec>,
}

/// A machine that has been read and checked.
#[derive(Clone, Debug)]
pub struct Machine {
    spec: Spec,
    /// Where it was read from.
    file: String,
    text: toml::Table,
}

impl std::ops::Deref for Machine {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}

impl Machine {
    /// Names of those that come with Farpost.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The text of one that comes with Farpost: what one of one's own may begin with.
    pub fn built_in(name: &str) -> Option<&'static str> {
        let found = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        found.map(|(_, text)| *text)
    }

    /// One that comes with Farpost by its name, or a file by its path.
    ///
    /// # Errors
    /// Neither is there, or the file is wrong.
    pub fn open(name: &str) -> Result<Self, MachineError> {
        if let Some(text) = Self::built_in(name) {
            return Self::parse(&format!("{name}.toml"), text);
        }
        if !name.contains('/') && !Path::new(name).exists() && !name.ends_with(".toml") {
            let names: Vec<_> = Self::names().collect();
            return Err(MachineError(format!(
                "unknown machine {name}, allowed are {} or the path of a file",
                names.join(", ")
            )));
        }
        let text = std::fs::read_to_string(name)
            .map_err(|error| MachineError(format!("cannot read machine file {name}: {error}")))?;
        Self::parse(name, &text)
    }

    /// From the text of a file that messages call `file`.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        file::read(file, text)
    }

    /// All numbers, in the order of their paths.
    pub fn numbers(&self) -> Vec<Number> {
        file::numbers(&self.text)
    }

    /// Those that were fitted to results, with the rows.
    pub fn fitted(&self) -> Vec<(Number, String)> {
        let row = |number: Number| match number.origin.clone() {
            Origin::Fitted(row) => Some((number, row)),
            _ => None,
        };
        self.numbers().into_iter().filter_map(row).collect()
    }

    /// The same machine with the number at `path` multiplied, and all that follow it. Numbers without a unit that are written as whole ones stay whole.
    ///
    /// # Errors
    /// There is no such number, or the machine would contradict itself.
    pub fn scaled(&self, path: &str, factor: f64) -> Result<Self, MachineError> {
        let mut text = self.text.clone();
        file::scale(&mut text, path, factor)
            .map_err(|what| MachineError(format!("{}: {what}", self.file)))?;
        file::read_again(&self.file, text)
    }

    /// The same machine with something else at `path`: a choice (`adapter.lanai.bus`, `"all-dma"`), or the value of a number (`adapter.lanai.frame`, `"512 B"`).
    ///
    /// # Errors
    /// There is nothing there, or it would be wrong.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, MachineError> {
        let mut text = self.text.clone();
        file::set(&mut text, path, value.into())
            .map_err(|what| MachineError(format!("{}: {what}", self.file)))?;
        file::read_again(&self.file, text)
    }

    /// The same machine with one more fault in its runs: `cut h3.rail0 at 5ms for 2ms`.
    ///
    /// # Errors
    /// It is none, or contradicts another one.
    pub fn with_fault(&self, fault: &str) -> Result<Self, MachineError> {
        let mut machine = self.clone();
        machine.spec.faults.push(fault.parse().map_err(MachineError)?);
        if let Some((_, what)) = faults::contradiction(&machine.spec.faults) {
            return Err(MachineError(what));
        }
        let entry = toml::Table::from_iter([("what".to_string(), fault.into())]);
        let list = machine
            .text
            .entry("faults")
            .or_insert_with(|| toml::Value::Array(Vec::new()));
        if let toml::Value::Array(list) = list {
            list.push(entry.into());
        }
        Ok(machine)
    }

    /// Ranks that there is a processor for.
    pub fn most_ranks(&self) -> u32 {
        self.host.hosts.0.saturating_mul(self.host.processors.0)
    }

    /// Hosts for so many ranks, `per_host` on each (none: as many as there are processors).
    ///
    /// # Errors
    /// More ranks than the machine has processors, on so many hosts.
    pub fn hosts_for(&self, ranks: u32, per_host: Option<u32>) -> Result<u32, MachineError> {
        let (hosts, processors) = (self.host.hosts.0, self.host.processors.0);
        let each = per_host.unwrap_or(processors);
        if each == 0 || each > processors {
            return Err(MachineError(format!(
                "{}: {each} ranks on each host, allowed are 1 to {processors}",
                self.name
            )));
        }
        let needed = ranks.div_ceil(each);
        if needed > hosts {
            return Err(MachineError(format!(
                "{}: {ranks} ranks, {each} on each host, need {needed} hosts; allowed are {hosts} (host.hosts)",
                self.name
            )));
        }
        Ok(needed)
    }
}

#[cfg(test)]
mod tests;
