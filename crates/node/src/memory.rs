//! How much memory the processes of this host may use together: the host's, or what their control group leaves them.
//!
//! Cost class: set-up path.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// What messages that came before their receives may take of it.
const PART: u64 = 8;
/// Not less for one process, however many share the host.
const LEAST: u64 = 1 << 20;

/// Memory for messages that came before their receives, of one of `ranks` processes here.
pub(crate) fn for_unexpected(ranks: u32) -> u64 {
    share(usable(Path::new("/")), ranks)
}

fn share(usable: Option<u64>, ranks: u32) -> u64 {
    let usable = usable.unwrap_or(0);
    (usable / PART / u64::from(ranks.max(1))).max(LEAST)
}

/// Bytes that may be used, as the files below `root` have it.
fn usable(root: &Path) -> Option<u64> {
    let info = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups)
        .into_iter()
        .filter_map(|file| read_to_string(root.join("sys/fs/cgroup").join(file)).ok())
        .filter_map(|text| text.trim().parse().ok());
    installed(&info).into_iter().chain(limits).min()
}

/// Bytes of memory that the host has, from `/proc/meminfo`.
fn installed(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The files with the limits of this process's groups and of those around them, from `/proc/self/cgroup`: version 2 and 1. In a
/// container the group's path is often not there, but its limit is at the top.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (top, name) = match controllers {
            "" => ("", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => ("memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        files.extend(
            path.ancestors()
                .map(|group| Path::new(top).join(group).join(name)),
        );
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_is_divided_among_the_ranks_and_never_too_little() {
        assert_eq!(share(Some(16 << 30), 1), 2 << 30);
        assert_eq!(share(Some(16 << 30), 4), 512 << 20);
        assert_eq!(share(Some(1 << 30), 1000), 1 << 20);
        assert_eq!(share(None, 0), 1 << 20);
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("farpost-memory-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        assert_eq!(usable(&root), None);
        write("proc/meminfo", "MemTotal:       24576000 kB\nMemFree: 1 kB\n");
        assert_eq!(usable(&root), Some(24_576_000 << 10));
        write(
            "proc/self/cgroup",
            "4:cpu,memory:/a/b\n0::/user/job
malformed\n",
        );
        assert_eq!(usable(&root), Some(24_576_000 << 10));
        write("sys/fs/cgroup/user/job/memory.max", "max\n");
        write("sys/fs/cgroup/user/memory.max", "9000000000\n");
        assert_eq!(usable(&root), Some(9_000_000_000));
        write(
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "8000000000\n");
        assert_eq!(usable(&root), Some(8_000_000_000));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_host_has_some() {
        assert!(usable(Path::new("/")).unwrap() > 1 << 20);
    }
}
