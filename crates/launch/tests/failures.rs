//! Ranks that fail, signals, and that nothing is ever left behind.

mod common;
use common::*;
use std::process::Command;

/// Ranks 1 and up fail at once; rank 0 would go on for long.
fn failing(how: &str) -> Ran {
    shell("-n 3", &format!("[ $FARPOST_RANK = 1 ] && {how}; exec sleep 600"))
}

#[test]
fn the_first_failing_rank_is_named_and_decides() {
    for (how, code, words) in [
        ("exit 3", 3, "rank 1 on host"),
        ("exit 255", 255, "exited with code 255"),
        ("kill -SEGV $$", 139, "killed by signal 11 (SIGSEGV"),
        ("kill -KILL $$", 137, "signal 9"),
        ("kill -ABRT $$", 134, "signal 6"),
        ("kill -TERM $$", 143, "signal 15"),
    ] {
        let ran = failing(how);
        assert_eq!(ran.code, code, "{how}: {}", ran.err);
        assert!(
            ran.err.lines().count() == 1 && ran.err.contains(words) && ran.err.contains("rank 1"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn ranks_that_do_not_want_to_end_are_killed() {
    let ran = shell(
        "-n 3",
        "trap '' TERM INT HUP; [ $FARPOST_RANK = 1 ] && exit 9; while :; do sleep 0.1; done",
    );
    assert_eq!(ran.code, 9, "{}", ran.err);
}

#[test]
fn timeout() {
    let ran = shell("--timeout 0.2 -n 2", "echo here; exec sleep 600");
    assert_eq!((ran.code, ran.out.as_str()), (124, "here\nhere\n"));
    assert!(ran.err.contains("0.2 s"), "{}", ran.err);
    let ran = done(
        mpiexec(&["sleep", "600"])
            .env("MPIEXEC_TIMEOUT", "0.2")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 124);
    assert_eq!(shell("--timeout 500 -n 2", "true").code, 0);
}

#[test]
fn signals_reach_the_ranks() {
    for (name, code) in [
        ("INT", 0),
        ("TERM", 0),
        ("HUP", 0),
        ("QUIT", 0),
        ("USR1", 0),
        ("USR2", 0),
    ] {
        let dir = Dir::new();
        let script = format!(
            "trap 'echo caught; exit 0' {name}; : > '{}'/$FARPOST_RANK; while :; do sleep 0.02; done",
            dir.0.display()
        );
        let child = mpiexec(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
        until("both ranks run", || {
            dir.0.join("0").exists() && dir.0.join("1").exists()
        });
        signal(child.id(), name);
        let ran = finish(child);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (code, "caught\ncaught\n"),
            "{name}: {}",
            ran.err
        );
    }
}

#[test]
fn a_signal_that_is_not_caught_decides_the_exit_code() {
    let marker = marker();
    let child = mpiexec(&["-n", "2", "sleep", &marker]).spawn().unwrap();
    until("both ranks run", || sleepers(&marker) == 2);
    signal(child.id(), "INT");
    let ran = finish(child);
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn the_second_interrupt_kills() {
    let marker = marker();
    let script = format!("trap '' INT TERM; sleep {marker}; sleep {marker}");
    let child = mpiexec(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
    until("both ranks run", || sleepers(&marker) == 2);
    signal(child.id(), "INT");
    // The ranks ignore it and go on.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(sleepers(&marker), 2);
    signal(child.id(), "INT");
    assert_eq!(finish(child).code, 137);
    assert_eq!(sleepers(&marker), 0);
}

#[test]
fn stopping_and_going_on() {
    let marker = marker();
    let child = mpiexec(&["-n", "1", "sleep", &marker]).spawn().unwrap();
    until("the rank runs", || sleepers(&marker) == 1);
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .and_then(|s| s.1.chars().next())
            .unwrap_or('?')
    };
    signal(child.id(), "TSTP");
    until("mpiexec has stopped", || state(child.id()) == 'T');
    let guardian = child_named(child.id(), "farpost-guard").unwrap();
    let rank = child_named(guardian as u32, "sleep").unwrap();
    until("the rank has stopped", || state(rank as u32) == 'T');
    signal(child.id(), "CONT");
    until("the rank goes on", || state(rank as u32) == 'S');
    signal(child.id(), "TERM");
    assert_eq!(finish(child).code, 143);
}

/// Ranks that start processes which start processes, in groups and sessions of their own, and wait.
fn family(marker: &str) -> String {
    format!("(setsid sh -c 'sleep {marker} & sleep {marker}; true' &); sh -c 'sleep {marker}; true' & wait")
}

#[test]
fn killing_mpiexec_leaves_no_orphan() {
    let marker = marker();
    let mut child = mpiexec(&["-n", "2", "sh", "-c", &family(&marker)])
        .spawn()
        .unwrap();
    until("all run", || sleepers(&marker) == 6);
    child.kill().unwrap();
    child.wait().unwrap();
    until("none is left", || sleepers(&marker) == 0);
}

#[test]
fn killing_the_guardian_leaves_no_orphan() {
    let marker = marker();
    let child = mpiexec(&["-n", "2", "sh", "-c", &family(&marker)])
        .spawn()
        .unwrap();
    until("all run", || sleepers(&marker) == 6);
    signal(child_named(child.id(), "farpost-guard").unwrap() as u32, "KILL");
    let ran = finish(child);
    assert_eq!(sleepers(&marker), 0);
    assert!(ran.code == 137 && ran.err.contains("guardian"), "{}", ran.err);
}

#[test]
fn killing_the_process_group_leaves_no_orphan() {
    use std::os::unix::process::CommandExt;
    let marker = marker();
    let mut child = mpiexec(&["-n", "2", "sh", "-c", &family(&marker)])
        .process_group(0)
        .spawn()
        .unwrap();
    until("all run", || sleepers(&marker) == 6);
    let group = format!("-{}", child.id());
    assert!(
        Command::new("kill")
            .args(["-KILL", "--", &group])
            .status()
            .unwrap()
            .success()
    );
    child.wait().unwrap();
    until("none is left", || sleepers(&marker) == 0);
}

#[test]
fn the_end_of_the_ranks_is_the_end_of_what_they_started() {
    let marker = marker();
    let ran = shell("-n 2", &format!("setsid sleep {marker} & exec true"));
    assert_eq!((ran.code, sleepers(&marker)), (0, 0));
    let ran = shell(
        "-n 2",
        &format!("(setsid sleep {marker} &); [ $FARPOST_RANK = 0 ] && exit 4; sleep {marker}"),
    );
    assert_eq!((ran.code, sleepers(&marker)), (4, 0));
}

#[test]
fn what_was_ignored_stays_ignored() {
    let marker = marker();
    let ignoring = format!(
        "trap '' HUP; exec '{}' -n 1 sleep {marker}",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &ignoring]);
    ends_with_the_test(&mut shell);
    let mut child = shell.spawn().unwrap();
    until("the rank runs", || sleepers(&marker) == 1);
    signal(child.id(), "HUP");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(sleepers(&marker), 1);
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn no_files_are_left() {
    let list = || {
        let mut names = Vec::new();
        for dir in ["/dev/shm", "/tmp"] {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            let ours = entries.filter(|e| e.file_name().to_string_lossy().contains("farpost-job"));
            names.extend(ours.map(|e| e.path()));
        }
        names
    };
    shell("-n 4", "exit 1");
    assert_eq!(list(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn both_launchers_killed_leave_nothing() {
    // The program itself, one below a shell, and one below two.
    for script in [
        "exec sleep MARK",
        "sleep MARK; true",
        "sh -c 'sleep MARK; true'; true",
    ] {
        let mark = marker();
        let script = script.replace("MARK", &mark);
        let mut child = mpiexec(&["-n", "3", "sh", "-c", &script]).spawn().unwrap();
        until("all are there", || sleepers(&mark) == 3);
        let guardian = child_named(child.id(), "farpost-guard").unwrap();
        kill_together([child.id(), guardian as u32]);
        child.wait().unwrap();
        until(&format!("nothing is left of {script}"), || sleepers(&mark) == 0);
    }
}
