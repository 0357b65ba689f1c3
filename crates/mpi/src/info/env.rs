//! The contents of `MPI_INFO_ENV` and `MPI_Info_create_env` (MPI-5.0 chapter 10).

use super::{Info, MAX_INFO_VAL};

/// How the program was started, as far as it is known. Whoever starts the world fills it in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Name of the program.
    pub command: Option<Vec<u8>>,
    /// Arguments of the program, without its name.
    pub argv: Vec<Vec<u8>>,
    /// Number of processes asked for.
    pub maxprocs: Option<u32>,
    /// Acceptable numbers of processes, in the standard's triplet notation.
    pub soft: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Architecture name.
    pub arch: Option<String>,
    /// Working directory at the start.
    pub wdir: Option<Vec<u8>>,
    /// File with further start-up information.
    pub file: Option<String>,
    /// Thread level asked for before the start, by name, for example `MPI_THREAD_SINGLE`.
    pub thread_level: Option<String>,
}

impl Environment {
    /// The info object with a key for everything that is known. A value too long for an info value is cut.
    pub fn info(&self) -> Info {
        let mut info = Info::new();
        let mut put = |key: &str, value: Option<&[u8]>| {
            if let Some(value) = value {
                let value = &value[..value.len().min(MAX_INFO_VAL - 1)];
                info.set(key.as_bytes(), value)
                    .expect("a short key with a value cut to the limit");
            }
        };
        let argv = self.argv.join(&b' ');
        let maxprocs = self.maxprocs.map(|n| n.to_string());
        put("command", self.command.as_deref());
        put("argv", Some(&*argv).filter(|_| !self.argv.is_empty()));
        put("maxprocs", maxprocs.as_deref().map(str::as_bytes));
        put("soft", self.soft.as_deref().map(str::as_bytes));
        put("host", self.host.as_deref().map(str::as_bytes));
        put("arch", self.arch.as_deref().map(str::as_bytes));
        put("wdir", self.wdir.as_deref());
        put("file", self.file.as_deref().map(str::as_bytes));
        put("thread_level", self.thread_level.as_deref().map(str::as_bytes));
        info
    }
}
