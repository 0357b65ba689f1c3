//! The names of `mpiexec`'s options, in both families' spellings.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// What an option means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Ranks,
    PerNode,
    ConfigFile,
    Host,
    HostFile,
    Launcher,
    RemoteShell,
    Interface,
    RankInterface,
    Directory,
    Env,
    Genv,
    EnvBase(Which, bool),
    Export,
    Path,
    BindTo,
    MapBy,
    CoresPerRank,
    HwThreads,
    ReportBindings,
    Tag,
    Time,
    PrependRank,
    Output,
    OutputFilename,
    OutFile,
    ErrFile,
    Merge,
    Timeout,
    OnFailure,
    WaitsSignal,
    Check,
    GoOn,
    Stdin,
    Verbose,
    Quiet,
    Help,
    Version,
    /// Accepted, and true or pointless here; takes this many values.
    Ignored(usize),
    /// Accepted with a warning; takes this many values.
    NoEffect(usize),
    Mca,
}

/// Which variables an option lets through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    None,
    List,
}

/// All options: names without dashes, and what they mean. Values are taken as the meaning needs them.
const TABLE: &[(&[&str], Key)] = &[
    (&["n", "np", "c"], Key::Ranks),
    (&["ppn", "perhost", "npernode", "N"], Key::PerNode),
    (&["configfile", "app"], Key::ConfigFile),
    (&["host", "hosts", "H"], Key::Host),
    (&["hostfile", "f", "machinefile", "machine"], Key::HostFile),
    (&["launcher"], Key::Launcher),
    (
        &["rsh-agent", "launcher-exec", "bootstrap-exec"],
        Key::RemoteShell,
    ),
    (&["iface"], Key::Interface),
    (&["interface"], Key::RankInterface),
    (&["wdir", "wd", "chdir"], Key::Directory),
    (&["env"], Key::Env),
    (&["genv"], Key::Genv),
    (&["envall"], Key::EnvBase(Which::All, false)),
    (&["envnone"], Key::EnvBase(Which::None, false)),
    (&["envlist"], Key::EnvBase(Which::List, false)),
    (&["genvall"], Key::EnvBase(Which::All, true)),
    (&["genvnone"], Key::EnvBase(Which::None, true)),
    (&["genvlist"], Key::EnvBase(Which::List, true)),
    (&["x"], Key::Export),
    (&["path"], Key::Path),
    (&["bind-to", "binding"], Key::BindTo),
    (&["map-by"], Key::MapBy),
    (&["cpus-per-rank", "cpus-per-proc"], Key::CoresPerRank),
    (&["use-hwthread-cpus"], Key::HwThreads),
    (&["report-bindings"], Key::ReportBindings),
    (&["tag-output"], Key::Tag),
    (&["timestamp-output"], Key::Time),
    (&["l", "prepend-rank"], Key::PrependRank),
    (&["output"], Key::Output),
    (&["output-filename"], Key::OutputFilename),
    (&["outfile-pattern", "outfile"], Key::OutFile),
    (&["errfile-pattern", "errfile"], Key::ErrFile),
    (&["merge-stderr-to-stdout"], Key::Merge),
    (&["timeout"], Key::Timeout),
    (&["on-failure"], Key::OnFailure),
    (&["waits-signal"], Key::WaitsSignal),
    (&["check", "check-mpi", "check_mpi"], Key::Check),
    (
        &["enable-recovery", "continuous", "disable-auto-cleanup"],
        Key::GoOn,
    ),
    (&["stdin", "s"], Key::Stdin),
    (&["v", "verbose", "d", "debug"], Key::Verbose),
    (&["q", "quiet"], Key::Quiet),
    (&["h", "help"], Key::Help),
    (&["V", "version", "info"], Key::Version),
    (&["mca", "gmca", "omca", "gomca", "prtemca", "pmixmca"], Key::Mca),
    (
        &[
            "oversubscribe",
            "nooversubscribe",
            "no-oversubscribe",
            "allow-run-as-root",
            "bynode",
            "byslot",
            "localonly",
            "disable-hostname-propagation",
            "print-all-exitcodes",
            "nolocal",
            "novm",
            "tag",
            "do-not-launch",
            "display-map",
            "display-allocation",
            "disable-x",
            "enable-x",
            "prepend-timestamp",
        ],
        Key::Ignored(0),
    ),
    (
        &["rank-by", "stream-buffering", "personality", "localhost", "usize"],
        Key::Ignored(1),
    ),
    (&["display", "runtime-options"], Key::Ignored(1)),
    (
        &[
            "rmk",
            "prefix",
            "cpu-set",
            "cpu-list",
            "with-ft",
            "order-nodes",
            "topolib",
        ],
        Key::NoEffect(1),
    ),
    (&["preload-binary"], Key::NoEffect(0)),
];

/// Find an option by its text with dashes. `-n4` is read as `-n 4`.
pub fn look_up(text: &[u8]) -> Option<(Key, Option<OsString>)> {
    let name = text.strip_prefix(b"--").or_else(|| text.strip_prefix(b"-"))?;
    let (name, value) = match name.iter().position(|b| *b == b'=') {
        Some(at) => (&name[..at], Some(OsString::from_vec(name[at + 1..].to_vec()))),
        None => (name, None),
    };
    let find = |name: &[u8]| {
        TABLE
            .iter()
            .find(|(names, _)| names.iter().any(|n| n.as_bytes() == name))
            .map(|t| t.1)
    };
    if let Some(key) = find(name) {
        return Some((key, value));
    }
    let digits = name.iter().position(u8::is_ascii_digit)?;
    let all_digits = name[digits..].iter().all(u8::is_ascii_digit);
    match find(&name[..digits]) {
        Some(key @ Key::Ranks) if all_digits && value.is_none() => {
            Some((key, Some(OsString::from_vec(name[digits..].to_vec()))))
        }
        _ => None,
    }
}
