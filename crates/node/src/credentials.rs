//! Who the user of a process of the job is, by a word that the process's library cannot change when it likes.
//!
//! - Of a process of this host, the kernel's: the credentials that `/proc` has of it.
//! - Of another host, what the process published when it joined the job, before it knew of anything that could be had. No kernel and no
//!   daemon that is trusted by both hosts is asked: launchers' daemons are of the job's user themselves and say nothing of their children's.

/// User and groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Other groups.
    pub groups: Vec<u32>,
}

/// Groups that are published for other hosts: the first ones.
const GROUPS: usize = 32;

impl Credentials {
    /// The kernel's word of process `pid` of this host.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    /// Of a file `/proc/PID/status`: the second numbers of the lines of user and group are the effective ones.
    fn parse(status: &str) -> Option<Self> {
        let line = |name: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(name));
            let numbers: Result<Vec<u32>, _> = found?.split_whitespace().map(str::parse).collect();
            numbers.ok()
        };
        Some(Self {
            uid: *line("Uid:")?.get(1)?,
            gid: *line("Gid:")?.get(1)?,
            groups: line("Groups:")?,
        })
    }

    /// As a process publishes its own for other hosts: user, group, other groups.
    pub(crate) fn own() -> Vec<u8> {
        let Some(own) = Self::of_process(std::process::id()) else {
            return Vec::new();
        };
        let groups = &own.groups[..own.groups.len().min(GROUPS)];
        let words = [&[own.uid, own.gid], groups].concat();
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    pub(crate) fn published(bytes: &[u8]) -> Option<Self> {
        let words = bytes.chunks_exact(4);
        let words: Option<Vec<u32>> = words
            .map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)))
            .collect();
        match &words?[..] {
            [uid, gid, groups @ ..] => Some(Self {
                uid: *uid,
                gid: *gid,
                groups: groups.to_vec(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_word_of_this_process_is_what_the_system_calls_say() {
        let own = Credentials::of_process(std::process::id()).expect("a process that is there");
        // SAFETY: plain calls without arguments.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        assert_eq!((own.uid, own.gid), (uid, gid));
        assert_eq!(
            Credentials::published(&Credentials::own()).map(|own| (own.uid, own.gid)),
            Some((uid, gid))
        );
        assert_eq!(Credentials::of_process(0), None);
    }

    #[test]
    fn effective_ones_are_read() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nNStgid:\t1\n";
        let wanted = Credentials {
            uid: 2,
            gid: 6,
            groups: vec![9, 10],
        };
        assert_eq!(Credentials::parse(status), Some(wanted));
        assert_eq!(Credentials::parse("Uid:\t1\t2\n"), None);
    }
}
