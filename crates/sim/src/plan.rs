//! What a run is to be, as a user asks for it: the machine, its ranks, and what is shown afterwards.

use crate::coordinator::Settings;
use crate::core::Core;
use crate::machine::Machine;
use crate::net::Harm;
use crate::record::ENTRIES;
use crate::time::Ps;
use crate::{assemble, placement, trace};
use farpost_simlink::wire::Compute;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// A machine's name, or the path of its file.
    pub machine: String,
    pub ranks: u32,
    /// Ranks on each host: as many as it has processors, if not given.
    pub per_host: Option<u32>,
    /// Of all chance in the machine.
    pub seed: u64,
    /// Something else in the machine's file: `PATH=VALUE`.
    pub set: Vec<String>,
    /// What fails, as in a machine's file.
    pub faults: Vec<String>,
    pub compute: Compute,
    /// Seconds after which a process that does not ask is left alone.
    pub patience: f64,
    /// Files for a trace and for a drawing of the network.
    pub trace: Option<PathBuf>,
    pub network: Option<PathBuf>,
    pub explain: bool,
    pub utilisation: bool,
    pub registers: bool,
    /// No report.
    pub quiet: bool,
}

/// Variable: a plan as JSON, for ranks of one process.
pub const VARIABLE: &str = "FARPOST_SIM_RUN";

/// A look at the clock takes this.
const TICK: Ps = Ps(25_000);

/// Something that is printed after the run.
type Part = fn(&Core, &mut Vec<u8>) -> std::io::Result<()>;

impl Plan {
    /// The machine.
    ///
    /// # Errors
    /// A sentence.
    pub fn machine(&self) -> Result<Machine, String> {
        let mut machine = Machine::open(&self.machine).map_err(|e| e.to_string())?;
        for set in &self.set {
            let (path, value) = set
                .split_once('=')
                .ok_or_else(|| format!("--set {set}: PATH=VALUE is expected"))?;
            let changed = match (value.parse::<bool>(), value.parse::<i64>()) {
                (Ok(value), _) => machine.with(path, value),
                (_, Ok(value)) => machine.with(path, value),
                _ => machine.with(path, value),
            };
            machine = changed.map_err(|e| format!("--set {set}: {e}"))?;
        }
        for fault in &self.faults {
            machine = machine.with_fault(fault).map_err(|e| format!("--fault: {e}"))?;
        }
        Ok(machine)
    }

    /// Whether the run is written down.
    fn records(&self) -> bool {
        self.trace.is_some() || self.explain
    }

    /// `machine` with the ranks on its hosts, and how the run goes.
    ///
    /// # Errors
    /// A sentence.
    pub fn assemble(&self, machine: &Machine) -> Result<(Core, Settings), String> {
        if self.ranks == 0 {
            return Err("-n 0: a program has a rank at least".into());
        }
        let hosts = machine
            .hosts_for(self.ranks, self.per_host)
            .map_err(|e| e.to_string())?;
        let per_host = self.per_host.unwrap_or(machine.host.processors.0);
        let placement = placement(self.ranks, per_host);
        let mut core = assemble(machine, hosts, &placement, self.seed).map_err(|e| e.to_string())?;
        if self.records() {
            core.record(ENTRIES);
        }
        if !(0.1..=1e6).contains(&self.patience) {
            return Err(format!("--patience {}: allowed is 0.1 to 1000000", self.patience));
        }
        let settings = Settings {
            machine: machine.name.clone(),
            tick: TICK,
            compute: self.compute,
            patience: Duration::from_secs_f64(self.patience),
            calls: self.records(),
        };
        Ok((core, settings))
    }

    /// Write the files that are asked for after the run; what is to be printed.
    ///
    /// # Errors
    /// A sentence.
    pub fn show(&self, core: &Core) -> Result<String, String> {
        let failed = |what: &Path, error: std::io::Error| format!("writing {}: {error}", what.display());
        let file = |path: &Path, write: &dyn Fn(&mut BufWriter<File>) -> std::io::Result<()>| {
            let file = File::create(path).map_err(|e| failed(path, e))?;
            let mut file = BufWriter::new(file);
            write(&mut file)
                .and_then(|()| file.flush())
                .map_err(|e| failed(path, e))
        };
        if let Some(path) = &self.trace {
            file(path, &|out| trace::perfetto(core, out))?;
        }
        if let Some(path) = &self.network {
            file(path, &|out| trace::network(core, out))?;
        }
        let mut text = Vec::new();
        let parts: [(bool, Part); 3] = [
            (self.explain, |core, out| trace::explain(core, out)),
            (self.utilisation, |core, out| trace::utilisation(core, out)),
            (self.registers, |core, out| trace::registers(core, out)),
        ];
        for (wanted, part) in parts {
            if wanted {
                part(core, &mut text).map_err(|e| e.to_string())?;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What is said after a run: lines. `whole`: it came to its end.
    pub fn report(&self, core: &Core, took: Duration, whole: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if self.quiet {
            return lines;
        }
        let harm = core.kernel.net.harm();
        if harm != Harm::default() {
            lines.push(format!(
                "of all packets {} were lost, {} damaged; links sent {} again",
                harm.lost, harm.damaged, harm.again
            ));
        }
        if whole {
            lines.push(format!(
                "{} of virtual time on {}, {:.2} s of real time",
                core.kernel.now,
                self.machine,
                took.as_secs_f64()
            ));
        }
        lines
    }
}
