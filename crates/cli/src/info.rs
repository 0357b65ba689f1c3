//! `farpost info`: what this installation has, computed from the code that has it.

use crate::output;
use clap::Args;

use farpost_portals::agent::AgentOccupancy;
use farpost_shm::Shm;
use farpost_tunables::Tunable;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

#[derive(Args)]
pub struct Options {
    /// List implemented and missing MPI functions
    #[arg(long)]
    api: bool,
    /// List every tunable with default, range and reason
    #[arg(long)]
    tunables: bool,
    /// List the networks that could carry messages between hosts, and why each is used or passed over
    #[arg(long)]
    fabrics: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Every crate's tunables.
pub fn tunables() -> Vec<(&'static str, &'static [Tunable])> {
    let mut all = farpost_node::tunables();
    all.extend([
        ("channel", farpost_channel::ChannelTunables::TABLE),
        ("mpi: engine", farpost_mpi::engine::EngineTunables::TABLE),
        ("mpi: devices", farpost_mpi::carrier::DeviceTunables::TABLE),
        ("mpi: collectives", farpost_mpi::coll::Tuning::TABLE),
    ]);
    all
}

/// Settings that are text, from the environment only: name, and what it may be.
const TEXTS: &[(&str, &str)] = &[
    (
        farpost_mpi::carrier::VARIABLE,
        "postbox, fm, jam or portals: what carries MPI; the same for all ranks",
    ),
    (
        farpost_node::PORTALS,
        "inline, generic or accelerated: where the Portals library runs, read by mpiexec too; each rank may have its own (-env)",
    ),
    (
        "FARPOST_CHECK",
        "0, 1, or any of all and error: look for mistakes of the program (docs/checking.md, mpiexec --check); the same for all ranks",
    ),
    (
        "FARPOST_FABRIC",
        "auto, tcp or ofi: the network between hosts; the same for all ranks",
    ),
    (
        "FARPOST_INTERFACE",
        "interfaces of the tcp fabric, separated by commas: names (eth0, ib*), networks (10.1.0.0/16), exclusions (!docker0)",
    ),
    (
        "FARPOST_TCP_PORTS",
        "lo-hi: ports that the tcp fabric listens on; a port per rank of a host, for firewalls",
    ),
    (
        "FARPOST_OFI_LIBRARY",
        "file of libfabric, in place of libfabric.so.1",
    ),
    (
        "FARPOST_OFI_PROVIDER",
        "libfabric's provider, as farpost info --fabrics names them",
    ),
    (
        "FARPOST_PMIX_LIBRARY",
        "file of PMIx's client, in place of libpmix.so.2",
    ),
    (
        "FARPOST_SECRET_FILE",
        "file of mode 0600 with the job's secret, 32 bytes, the same on every host; for launchers whose channel others can read",
    ),
    (
        "FARPOST_CONFIG",
        "file of settings, NAME=value lines, in place of etc/farpost.conf of the installation; empty: none",
    ),
    (
        "FARPOST_LAUNCHER",
        "srun, prterun, hydra, local or a path: what mpiexec starts ranks on other hosts with (--launcher)",
    ),
    (
        "FARPOST_RSH",
        "command that mpiexec's launcher uses in place of ssh (--rsh-agent)",
    ),
    ("FARPOST_CC", "C compiler of mpicc"),
    ("FARPOST_CXX", "C++ compiler of mpicxx"),
];

fn names(implemented: bool) -> Vec<&'static str> {
    FUNCTIONS
        .iter()
        .filter(|(_, done)| *done == implemented)
        .map(|(name, _)| *name)
        .collect()
}

pub fn run(options: &Options) -> ExitCode {
    let text = if options.json {
        as_json(options)
    } else {
        as_text(options)
    };
    output::out(&text)
}

fn as_text(options: &Options) -> String {
    let mut t = String::new();
    let (done, missing) = (names(true), names(false));
    let everything = !options.api && !options.tunables && !options.fabrics;
    if everything {
        let all: usize = tunables().iter().map(|(_, table)| table.len()).sum();
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let known = FUNCTIONS.len();
        let lines = [
            (
                "MPI standard",
                "5.0, standard C ABI 1.0 (libmpi_abi.so.1)".to_owned(),
            ),
            (
                "MPI functions",
                format!(
                    "{} of {known} implemented, the others fail with MPI_ERR_UNSUPPORTED_OPERATION (farpost info --api)",
                    done.len()
                ),
            ),
            (
                "fabrics",
                "shm within a host; tcp, or ofi on libfabric, between hosts (farpost info --fabrics)".into(),
            ),
            (
                "job starts",
                "mpiexec, launchers with PMI-1, PMI-2 or PMIx, alone".into(),
            ),
            ("portals", portals_memory().replace('\n', "\n                 ")),
            ("tunables", format!("{all} (farpost info --tunables)")),
            (
                "library",
                farpost_bench::abi::find_library().display().to_string(),
            ),
            ("built for", format!("{arch}-{os}")),
        ];
        let _ = writeln!(t, "Farpost {}", env!("CARGO_PKG_VERSION"));
        for (what, told) in lines {
            let _ = writeln!(t, "{what:<16} {told}");
        }
    }
    if options.api {
        for (title, list) in [("implemented", &done), ("missing", &missing)] {
            let _ = writeln!(t, "{title} ({}):", list.len());
            list.iter().for_each(|name| {
                let _ = writeln!(t, "  {name}");
            });
        }
    }
    if options.fabrics {
        fabrics_as_text(&mut t);
    }
    if options.tunables {
        let _ = writeln!(t, "text, from the environment:");
        for (name, what) in TEXTS {
            let _ = writeln!(t, "  {name}\n      {what}");
        }
        for (title, table) in tunables() {
            let _ = writeln!(t, "{title}:");
            for x in table {
                let _ = writeln!(
                    t,
                    "  {} = {}  ({} to {} {})",
                    x.name, x.default, x.min, x.max, x.unit
                );
                let _ = writeln!(
                    t,
                    "      {}",
                    x.reason.split_whitespace().collect::<Vec<_>>().join(" ")
                );
            }
        }
    }
    t
}

/// What Portals' structures take on shared memory, with the settings in force.
fn portals_memory() -> String {
    match farpost_node::Settings::find(&mut ()) {
        Err(why) => why,
        Ok(s) => AgentOccupancy::of::<Shm>(&s.portals_agent, &s.portals, 2).to_string(),
    }
}

/// The fabrics, and what libfabric has.
fn fabrics_as_text(t: &mut String) {
    let _ = writeln!(t, "shm  the memory of one host");
    let _ = writeln!(t, "tcp  sockets; needs nothing installed");
    match farpost_ofi::survey(&farpost_ofi::OfiOptions::from_environment()) {
        Err(error) => {
            let _ = writeln!(t, "ofi  not available: {error}");
        }
        Ok(providers) => {
            let _ = writeln!(t, "ofi  libfabric's providers:");
            // A line for all networks about which the same is to be said.
            let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
            for p in providers {
                let name = format!("{} {}.{}", p.name, p.version.0, p.version.1);
                let verdict = p.verdict.to_string();
                let at = if p.domain == p.fabric || p.fabric.is_empty() {
                    p.domain
                } else {
                    format!("{} {}", p.domain, p.fabric)
                };
                match lines.iter_mut().find(|l| l.0 == name && l.2 == verdict) {
                    Some(line) => line.1.push(at),
                    None => lines.push((name, vec![at], verdict)),
                }
            }
            for (name, places, verdict) in lines {
                let places = match places.as_slice() {
                    [one] if !one.is_empty() => format!(" ({one})"),
                    [_] => String::new(),
                    several => format!(" ({} networks)", several.len()),
                };
                let _ = writeln!(t, "     {name}{places}: {verdict}");
            }
        }
    }
}

fn fabrics_as_json() -> serde_json::Value {
    let ofi = match farpost_ofi::survey(&farpost_ofi::OfiOptions::from_environment()) {
        Err(error) => json!({ "available": false, "why": error.to_string() }),
        Ok(providers) => {
            let one = |p: &farpost_ofi::ProviderReport| {
                let (word, why) = match &p.verdict {
                    farpost_ofi::Verdict::Chosen => ("used", ""),
                    farpost_ofi::Verdict::Usable(why) => ("usable", why.as_str()),
                    farpost_ofi::Verdict::PassedOver(why) => ("passed over", why.as_str()),
                };
                json!({ "name": p.name, "version": [p.version.0, p.version.1], "fabric": p.fabric,
                        "domain": p.domain, "verdict": word, "why": why })
            };
            json!({ "available": true, "providers": providers.iter().map(one).collect::<Vec<_>>() })
        }
    };
    json!({ "shm": { "available": true }, "tcp": { "available": true }, "ofi": ofi })
}

fn as_json(options: &Options) -> String {
    let mut v = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "mpi_version": "5.0",
        "functions": { "implemented": names(true).len(), "missing": names(false).len() },
        "library": farpost_bench::abi::find_library().display().to_string(),
        "portals_memory": portals_memory(),
    });
    if options.api {
        v["functions"] = json!({ "implemented": names(true), "missing": names(false) });
    }
    if options.fabrics {
        v["fabrics"] = fabrics_as_json();
    }
    if options.tunables {
        v["texts"] = TEXTS
            .iter()
            .map(|(name, what)| json!({ "name": name, "values": what }))
            .collect();
        let all = tunables();
        let all = all
            .iter()
            .flat_map(|(group, table)| table.iter().map(move |x| (group, x)));
        v["tunables"] = all
            .map(|(group, x)| {
                json!({ "group": group, "name": x.name, "default": x.default, "min": x.min, "max": x.max,
                        "unit": x.unit, "reason": x.reason.trim() })
            })
            .collect();
    }
    format!("{v:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Names declared in `tunables!` of a source file: a string literal followed by `=` and a default.
    fn declared(file: &Path, found: &mut Vec<String>) {
        let text = std::fs::read_to_string(file).unwrap();
        let Some((_, after)) = text.split_once("tunables! {") else {
            return;
        };
        for line in after.lines().take_while(|l| *l != "}") {
            if let Some((_, rest)) = line.split_once(": \"FARPOST_")
                && let Some((name, _)) = rest.split_once("\" = ")
            {
                found.push(format!("FARPOST_{name}"));
            }
        }
    }

    fn walk(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                declared(&path, found);
            }
        }
    }

    #[test]
    fn every_declared_tunable_is_listed_once() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir(crates).unwrap().flatten() {
            if entry.file_name() != "tunables" && entry.path().join("src").is_dir() {
                walk(&entry.path().join("src"), &mut found);
            }
        }
        let listed: Vec<&str> = tunables()
            .iter()
            .flat_map(|(_, t)| t.iter().map(|x| x.name))
            .collect();
        found.sort();
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        assert!(!found.is_empty());
        assert_eq!(
            found, sorted,
            "declared with tunables! (left) and listed by farpost info (right)"
        );
    }
}
