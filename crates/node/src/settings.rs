//! All settings: defaults, over them a file, over that the environment.
//!
//! The file is `FARPOST_CONFIG`'s, or `etc/farpost.conf` of the installation: found from where this library lies, so
//! that an installation may be moved. `farpost tune` writes such files.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use farpost_fabric::progress::ProgressTunables;
use farpost_fabric::wait::WaitTunables;
use farpost_fm::{FmFeatures, FmTunables};
use farpost_jam::JamTunables;
use farpost_job::JobTunables;
use farpost_portals::agent::AgentTunables;
use farpost_portals::net::NetTunables;
use farpost_rsm::RsmTunables;
use farpost_shm::ShmTunables;
use farpost_tunables::{Tunable, file};

use crate::layer::{Layer, Same};
use crate::network::NetSettings;
use crate::place::{PORTALS, PortalsPlace};

/// Variables that begin with `FARPOST_` and are not tunables: the launcher's and the compiler wrappers', and [`CONFIG`].
const OTHER_VARIABLES: &[&str] = &[
    "FARPOST_CC",
    "FARPOST_CXX",
    "FARPOST_LAUNCHER",
    PORTALS,
    crate::place::OWNER,
    "FARPOST_RSH",
    "FARPOST_RSM_SEGMENTID_FILE",
    "FARPOST_SIM",
    CONFIG,
];
/// Names the file. Empty: no file.
const CONFIG: &str = "FARPOST_CONFIG";
/// The file of an installation, from the directory that the library's is in.
const INSTALLED: &str = "etc/farpost.conf";
/// A larger file is something else.
const LARGEST: u64 = 1 << 20;

/// What is set: a field per layer.
#[derive(Default)]
pub struct Settings {
    pub(crate) shm: ShmTunables,
    pub(crate) net: NetSettings,
    /// Of waiting, in all layers.
    pub wait: WaitTunables,
    pub fm: FmTunables,
    /// Of Fast Messages as an interface of its own.
    pub fm_features: FmFeatures,
    pub jam: JamTunables,
    /// Of the Portals network layer.
    pub portals: NetTunables,
    /// Of Portals by way of an agent.
    pub portals_agent: AgentTunables,
    /// Where the library of Portals runs. From the environment only, where mpiexec finds it too.
    pub portals_place: PortalsPlace,
    /// Of RSMAPI.
    pub rsm: RsmTunables,
    /// Of the thread that makes progress while the program computes.
    pub progress: ProgressTunables,
    /// Of saying why a job hangs.
    pub roll: farpost_rollcall::RollTunables,
    /// Of joining the job, as the file has them.
    job: Vec<(String, String)>,
}

impl Settings {
    /// Read the file, if there is one, and the environment, also for `layer`.
    ///
    /// # Errors
    /// A sentence: which file, line or variable is wrong, and what is allowed.
    pub fn find(layer: &mut dyn Layer) -> Result<Self, String> {
        let mut settings = Self::default();
        if let Some((file, text)) = read_file()? {
            settings
                .take_file(&text, layer)
                .map_err(|why| format!("{}, {why}", file.display()))?;
        }
        for (name, value) in std::env::vars_os() {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            if name == PORTALS {
                settings.portals_place = PortalsPlace::parse(value)?;
            } else if name.starts_with("FARPOST_") && !is_other(name) {
                settings.set(name, value, layer)?;
            }
        }
        Ok(settings)
    }

    /// A variable of the environment, or what the file has in its place.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let file = || self.job.iter().find(|(known, _)| known == name);
        std::env::var(name)
            .ok()
            .or_else(|| file().map(|(_, value)| value.clone()))
    }

    /// The value of a tunable of a layer that this crate knows.
    pub fn value(&self, name: &str) -> Option<u64> {
        macro_rules! first {
            ($($of:expr),* $(,)?) => { None$(.or_else(|| $of.get(name)))* };
        }
        let set: Option<u64> = first!(
            self.shm,
            self.fm,
            self.fm_features,
            self.rsm,
            self.progress,
            self.roll,
            self.jam,
            self.portals,
            self.portals_agent,
            self.wait,
        );
        let of_job = || {
            let table = JobTunables::TABLE;
            let tunable = table.iter().find(|tunable| tunable.name == name)?;
            let text = self.variable(name);
            Some(text.map_or(tunable.default, |text| {
                tunable.parse(&text).unwrap_or(tunable.default)
            }))
        };
        set.or_else(|| self.net.value(name)).or_else(of_job)
    }

    /// What all ranks must have the same, whatever they use: with and without flow control Fast Messages do not understand each other.
    pub(crate) fn same(&self) -> Vec<Same> {
        let flow = self.fm_features.flow_control;
        vec![Same {
            key: "farpost-fm-flow",
            value: (flow != FmFeatures::default().flow_control).then(|| flow.to_string()),
            differ: |rank, next, _, _| {
                format!(
                    "rank {rank} has Fast Messages without flow control and rank {next} has not: set FARPOST_FM_FLOW to the same for all ranks"
                )
            },
        }]
    }

    /// How long a step of joining the job may take.
    pub fn start_timeout(&self) -> Duration {
        let mut tunables = JobTunables::default();
        for tunable in JobTunables::TABLE {
            if let Some(value) = self.variable(tunable.name) {
                // What cannot be read was refused when the job was joined.
                let _ = tunables.set(tunable.name, &value);
            }
        }
        Duration::from_secs(tunables.start_timeout)
    }

    fn take_file(&mut self, text: &str, layer: &mut dyn Layer) -> Result<(), String> {
        for setting in file::settings(text).map_err(|e| e.to_string())? {
            let file::Setting { line, name, value } = setting;
            if is_other(name) {
                return Err(format!("line {line}: {name} is taken from the environment only"));
            }
            self.set(name, value, layer)
                .map_err(|why| format!("line {line}: {why}"))?;
            if JobTunables::TABLE.iter().any(|tunable| tunable.name == name) {
                self.job.push((name.into(), value.into()));
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str, layer: &mut dyn Layer) -> Result<(), String> {
        // Those of joining the job are used where they are read; known here so that they are not taken for mistakes.
        macro_rules! any {
            ($($of:expr),* $(,)?) => { $($of.set(name, value).map_err(|e| e.to_string())?)||* };
        }
        let known = any!(
            self.shm,
            self.net,
            self.fm,
            self.fm_features,
            JobTunables::default(),
            self.rsm,
            self.progress,
            self.roll,
            self.jam,
            self.portals,
            self.portals_agent,
            self.wait,
            layer,
        );
        if known {
            return Ok(());
        }
        Err(format!(
            "{name}: no such setting; `farpost info --tunables` lists them"
        ))
    }
}

/// Tunables of the layers that this crate knows, each table under its layer's name.
pub fn tunables() -> Vec<(&'static str, &'static [Tunable])> {
    vec![
        ("job", JobTunables::TABLE),
        ("fabric: waiting", WaitTunables::TABLE),
        ("progress", ProgressTunables::TABLE),
        ("roll-call", farpost_rollcall::RollTunables::TABLE),
        ("fabric: shm", ShmTunables::TABLE),
        (
            "fabric: connecting",
            farpost_net::interfaces::ConnectTunables::TABLE,
        ),
        ("fabric: tcp", farpost_tcp::TcpTunables::TABLE),
        ("fabric: link", farpost_tcp::link::LinkTunables::TABLE),
        ("fabric: ofi", farpost_ofi::OfiTunables::TABLE),
        ("fabric: trust", farpost_tcp::trust::TrustTunables::TABLE),
        ("fm", FmTunables::TABLE),
        ("fm: features", FmFeatures::TABLE),
        ("jam", JamTunables::TABLE),
        ("portals", NetTunables::TABLE),
        ("portals agent", AgentTunables::TABLE),
        ("rsm", RsmTunables::TABLE),
    ]
}

/// Whether `name` is known and nothing that is set here.
fn is_other(name: &str) -> bool {
    farpost_job::VARIABLES.contains(&name) || OTHER_VARIABLES.contains(&name)
}

/// The file, and what is in it.
fn read_file() -> Result<Option<(PathBuf, String)>, String> {
    let (file, named) = match std::env::var_os(CONFIG) {
        Some(name) if name.is_empty() => return Ok(None),
        Some(name) => (PathBuf::from(name), true),
        None => match installed() {
            Some(file) => (file, false),
            None => return Ok(None),
        },
    };
    let by = if named { "FARPOST_CONFIG=" } else { "" };
    let size = match std::fs::metadata(&file) {
        Ok(found) => found.len(),
        Err(e) if !named && e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("reading the settings in {by}{}: {e}", file.display())),
    };
    if size > LARGEST {
        let file = file.display();
        return Err(format!(
            "reading the settings in {by}{file}: {size} bytes are too many for settings"
        ));
    }
    let text = std::fs::read_to_string(&file);
    let text = text.map_err(|e| format!("reading the settings in {by}{}: {e}", file.display()))?;
    Ok(Some((file, text)))
}

/// Where the installation that this library belongs to would have its file.
fn installed() -> Option<PathBuf> {
    let library = this_library()?.canonicalize().ok()?;
    Some(library.parent()?.parent()?.join(INSTALLED))
}

/// The file that this code was loaded from.
pub(crate) fn this_library() -> Option<PathBuf> {
    // SAFETY: a structure of pointers, for which zero is a value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let inside = this_library as *const () as *const libc::c_void;
    // SAFETY: any address may be asked about; `found` is there to be written.
    if unsafe { libc::dladdr(inside, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr's string, which stays while the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_has_a_value() {
        let settings = Settings::default();
        for tunable in tunables().iter().flat_map(|(_, table)| *table) {
            assert_eq!(
                settings.value(tunable.name),
                Some(tunable.default),
                "{}",
                tunable.name
            );
        }
        assert_eq!(settings.value("FARPOST_NO_SUCH_THING"), None);
    }

    #[test]
    fn a_file_sets_what_the_environment_can() {
        let mut settings = Settings::default();
        settings
            .take_file(
                "# tuned\nFARPOST_YIELDS=8k\nFARPOST_TCP_DIRECT=4096\nFARPOST_START_TIMEOUT=7\n",
                &mut (),
            )
            .unwrap();
        assert_eq!(settings.wait.yields, 8 << 10);
        assert_eq!(settings.variable("FARPOST_START_TIMEOUT").as_deref(), Some("7"));
        assert_eq!(settings.variable("FARPOST_NO_SUCH_THING"), None);
        settings.set("FARPOST_YIELDS", "1k", &mut ()).unwrap();
        assert_eq!(settings.wait.yields, 1 << 10, "what comes later wins");
        settings.set("FARPOST_EAGER_MAX", "1k", &mut ()).unwrap();
    }

    #[test]
    fn a_file_may_choose_the_network() {
        let mut settings = Settings::default();
        let text = "FARPOST_FABRIC=ofi\nFARPOST_OFI_PROVIDER=verbs\nFARPOST_OFI_LIBRARY=/opt/x\nFARPOST_INTERFACE=ib*\n";
        settings.take_file(text, &mut ()).unwrap();
        let set = format!("{:?}", settings.net);
        for part in [
            "wanted: Ofi",
            "Some(\"/opt/x\")",
            "Some(\"verbs\")",
            "interface: \"ib*\"",
            "Name(\"ib*\")",
        ] {
            assert!(set.contains(part), "{part}: {set}");
        }
        settings.set("FARPOST_FABRIC", "tcp", &mut ()).unwrap();
        assert!(
            format!("{:?}", settings.net).contains("wanted: Tcp"),
            "what comes later wins"
        );
    }

    #[test]
    fn mistakes_in_a_file_name_line_and_setting() {
        for (text, words) in [
            (
                "\nFARPOST_EAGER_MX=8k",
                ["line 2", "FARPOST_EAGER_MX: no such setting"],
            ),
            ("FARPOST_TCP_DIRECT=many", ["line 1", "FARPOST_TCP_DIRECT=many"]),
            ("FARPOST_YIELDS=1g", ["line 1", "0 to 1000000"]),
            ("FARPOST_START_TIMEOUT=0", ["line 1", "1 to 86400"]),
            ("#\n#\nFARPOST_RANK=1", ["line 3", "environment only"]),
            ("FARPOST_CONFIG=other", ["line 1", "environment only"]),
            ("PATH=/bin", ["line 1", "PATH: no such setting"]),
            ("FARPOST_FABRIC=x", ["line 1", "auto, tcp, ofi and sim"]),
            ("FARPOST_YIELDS", ["line 1", "NAME=value"]),
        ] {
            let error = Settings::default().take_file(text, &mut ()).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_library_knows_where_it_lies() {
        assert!(this_library().unwrap().exists());
    }
}
