//! Backends that programs run on: a device, a fabric, a launcher, and limits drawn down.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A device and a fabric, and how a job is started on them.
#[derive(Clone, Debug)]
pub struct Backend {
    pub name: String,
    pub settings: Vec<(String, String)>,
    /// Command that comes before `-n N PROGRAM`.
    pub launch: Vec<String>,
    /// Another library: it has none of our settings.
    pub foreign: bool,
}

/// Names that `Backend::of` knows.
pub const NAMES: &str =
    "shm fm jam portals generic accelerated tcp ofi tcp-fm tcp-jam tcp-portals tcp-encrypted mpich";

impl Backend {
    /// `hosts`: the directory of tests/net/hosts.py's, `rsh`: its remote shell; needed for those between hosts.
    pub fn of(
        name: &str,
        prefix: &Path,
        hosts: Option<&(String, String)>,
        mpich: Option<&PathBuf>,
    ) -> Result<Self, String> {
        let set = |list: &[(&str, &str)]| {
            list.iter()
                .map(|(n, v)| (n.to_string(), v.to_string()))
                .collect::<Vec<_>>()
        };
        let mpiexec = prefix.join("bin/mpiexec").display().to_string();
        let mut backend = Self {
            name: name.into(),
            settings: Vec::new(),
            launch: vec![mpiexec.clone()],
            foreign: false,
        };
        let (fabric, device) = match name.split_once('-') {
            Some((fabric, device)) => (Some(fabric), device),
            None if ["tcp", "ofi"].contains(&name) => (Some(name), ""),
            None => (None, name),
        };
        backend.settings = match device {
            "" | "shm" => Vec::new(),
            "fm" => set(&[("FARPOST_DEVICE", "fm")]),
            "jam" => set(&[("FARPOST_DEVICE", "jam"), ("FARPOST_JAM_LOCAL", "0")]),
            "portals" => set(&[("FARPOST_DEVICE", "portals")]),
            "generic" | "accelerated" => set(&[("FARPOST_DEVICE", "portals"), ("FARPOST_PORTALS", device)]),
            "encrypted" => set(&[("FARPOST_ENCRYPT", "1")]),
            "mpich" => {
                let mpich = mpich.ok_or("mpich: --mpich DIRECTORY is needed")?;
                backend.settings = set(&[("LD_LIBRARY_PATH", &mpich.join("lib").display().to_string())]);
                backend.launch = vec![mpich.join("bin/mpiexec.hydra").display().to_string()];
                backend.foreign = true;
                return Ok(backend);
            }
            other => return Err(format!("{other}: backends are {NAMES}")),
        };
        if let Some(fabric) = fabric {
            backend.settings.push(("FARPOST_FABRIC".into(), fabric.into()));
            let hydra = mpich.ok_or(format!("{name}: --mpich DIRECTORY is needed, for its launcher"))?;
            let hydra = hydra.join("bin/mpiexec.hydra").display().to_string();
            let (program, rsh) = hosts.ok_or(format!(
                "{name}: between hosts, which --hosts PROGRAM and --rsh give"
            ))?;
            backend.launch = [
                program.as_str(),
                "run",
                "h1",
                "env",
                "@settings@",
                &mpiexec,
                "-q",
                "--launcher",
                &hydra,
                "--rsh-agent",
                rsh,
                "-host",
                "@hosts@",
            ]
            .map(String::from)
            .to_vec();
        }
        Ok(backend)
    }

    /// The command of a job, without its output.
    pub fn command(
        &self,
        ranks: usize,
        settings: &[(String, String)],
        seconds: Option<u32>,
        program: &Path,
    ) -> Command {
        let all: Vec<(String, String)> = self.settings.iter().chain(settings).cloned().collect();
        let mut words: Vec<String> = Vec::new();
        for word in &self.launch {
            if word == "@settings@" {
                words.extend(all.iter().map(|(name, value)| format!("{name}={value}")));
            } else if word == "@hosts@" {
                words.push(format!("h1:{},h2:{}", ranks.div_ceil(2), (ranks / 2).max(1)));
            } else {
                words.push(word.clone());
            }
        }
        if let Some(seconds) = seconds.filter(|_| !self.foreign) {
            words.extend(["--timeout".into(), seconds.to_string()]);
        }
        words.extend(["-n".into(), ranks.to_string(), program.display().to_string()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(all);
        command
    }

    /// The same for a person to type.
    pub fn sentence(&self, ranks: usize, settings: &[(String, String)]) -> String {
        let all: Vec<String> = self
            .settings
            .iter()
            .chain(settings)
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        let hosts = if self.launch.len() > 1 { " -host h1,h2" } else { "" };
        format!("{} mpiexec{hosts} -n {ranks} ./a.out", all.join(" "))
    }
}

/// Values that limits are drawn down to.
const LIMITS: &[(&str, &[u64])] = &[
    ("FARPOST_EAGER_MAX", &[0, 1, 40, 264, 1024, 8192, 1 << 20]),
    ("FARPOST_RUN_FAR", &[264, 265, 1000, 2000]),
    ("FARPOST_EAGER_FAR", &[0, 40, 264, 8192, 1 << 20]),
    ("FARPOST_ZCOPY_MIN", &[264, 1000, 40_000]),
    ("FARPOST_ZCOPY_MAX", &[0, 4096, 1 << 30]),
    ("FARPOST_UNEXPECTED_BYTES", &[4096, 20_000, 200_000]),
    ("FARPOST_CHUNK_MIN", &[4096, 1 << 20]),
    ("FARPOST_CHUNK_MAX", &[4096, 1 << 20]),
    ("FARPOST_BOTH_COPY", &[0]),
    ("FARPOST_RSM_SLOTS", &[16, 32]),
    ("FARPOST_RSM_BLOCK", &[1024, 4096, 65_536]),
    ("FARPOST_RSM_BLOCKS", &[8, 16]),
    ("FARPOST_SHM_CMA", &[0]),
    ("FARPOST_SHM_HUGE_FROM", &[0]),
    ("FARPOST_SHM_STREAM_MIN", &[0, 64]),
    ("FARPOST_SPIN_US", &[0, 1000]),
    ("FARPOST_YIELDS", &[0, 1]),
    ("FARPOST_PROGRESS_THREAD", &[1]),
    ("FARPOST_PROGRESS_TICK", &[50, 200]),
    ("FARPOST_TCP_DIRECT", &[0, 100, 1 << 20]),
    ("FARPOST_TCP_BUFFER", &[4096, 65_536]),
    ("FARPOST_TCP_PACKETS", &[2, 4]),
    ("FARPOST_TCP_ZCOPY", &[0, 10_000]),
    ("FARPOST_LINK_LOG", &[262_144]),
    ("FARPOST_LINK_ACK_BYTES", &[1, 1000]),
    ("FARPOST_LINK_ACK_MS", &[1, 50]),
    ("FARPOST_RAIL_CHUNK", &[4096]),
    ("FARPOST_OFI_RECEIVES", &[4, 8]),
    ("FARPOST_OFI_MESSAGE", &[1024, 65_536]),
    ("FARPOST_OFI_EAGER", &[0, 1000, 1 << 20]),
    ("FARPOST_OFI_PACKETS", &[2, 4]),
    ("FARPOST_OFI_REGISTER", &[1]),
    ("FARPOST_FM_SLOTS", &[4, 8, 32]),
    ("FARPOST_FM_RECEIVE", &[1, 2, 16]),
    ("FARPOST_FM_STREAMS", &[1, 2]),
    ("FARPOST_JAM_RDMA", &[0, 84, 1 << 20]),
    ("FARPOST_PORTALS_SOURCES", &[1, 2]),
    ("FARPOST_PORTALS_TX_PENDINGS", &[1, 2, 8]),
    ("FARPOST_PORTALS_RX_PENDINGS", &[1, 2, 8]),
    ("FARPOST_PORTALS_WINDOW", &[1, 2]),
    ("FARPOST_PORTALS_STAGED", &[0, 100]),
    ("FARPOST_PORTALS_STAGING", &[1, 2]),
    ("FARPOST_PORTALS_CHUNK", &[4096]),
    ("FARPOST_PORTALS_SHARED", &[4096, 1 << 30]),
    ("FARPOST_PORTALS_RESEND", &[1, 5]),
    ("FARPOST_PORTALS_CHECK", &[0, 2]),
    ("FARPOST_PORTALS_TRANSMIT", &[0, 1]),
    ("FARPOST_PORTALS_UNEXPECTED", &[65_536, 200_000]),
    ("FARPOST_PORTALS_EXPOSED", &[0, 1, 3]),
    ("FARPOST_PORTALS_POSTED", &[0, 1, 2, 5]),
    ("FARPOST_PORTALS_FETCHES", &[1, 2]),
    ("FARPOST_PORTALS_AGENT_SENDS", &[1, 2, 128]),
    ("FARPOST_PORTALS_AGENT_PENDINGS", &[1, 2, 128]),
    ("FARPOST_PORTALS_AGENT_MEMORY", &[4096, 10_000, 1 << 20]),
    ("FARPOST_COLL_BCAST", &[1, 2, 3]),
    ("FARPOST_COLL_ALLREDUCE", &[1, 2, 3, 4]),
    ("FARPOST_COLL_ALLREDUCE_PEER_MIN", &[4096, 1 << 40]),
    ("FARPOST_COLL_ALLREDUCE_PEER_CHUNK", &[4096]),
    ("FARPOST_COLL_REDUCE", &[1, 2]),
    ("FARPOST_COLL_REDUCE_SCATTER", &[1, 2]),
    ("FARPOST_COLL_GATHER", &[1, 2]),
    ("FARPOST_COLL_SCATTER", &[1, 2]),
    ("FARPOST_COLL_ALLGATHER", &[1, 2, 3]),
    ("FARPOST_COLL_ALLTOALL", &[1, 2]),
    ("FARPOST_COLL_SCAN", &[1, 2]),
    ("FARPOST_COLL_CHUNK", &[16, 1000]),
    ("FARPOST_COLL_PIPELINE", &[16, 1000]),
    ("FARPOST_COLL_WINDOW", &[1, 2]),
    ("FARPOST_COLL_POOL", &[0, 10_000]),
    ("FARPOST_COLL_REDUCE_HOSTS_MIN", &[0, 1000]),
];

/// Settings at random, of those that the library knows.
pub fn draw(rng: &mut fastrand::Rng, known: &str) -> Vec<(String, String)> {
    // None at all, a few, or many.
    let percent = [0, 10, 10, 30, 60][rng.usize(0..5)];
    let mut drawn: Vec<(String, String)> = Vec::new();
    for (name, values) in LIMITS {
        let value = values[rng.usize(0..values.len())];
        if rng.u32(0..100) < percent && known.contains(&format!("{name} ")) {
            drawn.push(((*name).into(), value.to_string()));
        }
    }
    drawn
}
