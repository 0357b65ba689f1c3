//! Programs that take part in the job: this test program itself, started as a rank.

mod common;
use common::*;
use farpost_job::{Job, RankState};

/// Not a test by itself: what a rank does, when this program is started as one.
#[test]
fn acts_as_a_rank() {
    let Ok(role) = std::env::var("ROLE") else { return };
    let job = Job::attach(&|name| std::env::var(name).ok()).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(77);
    });
    let last = job.rank() + 1 == job.size();
    let sleep = || std::thread::sleep(std::time::Duration::from_secs(600));
    if role != "late" {
        job.set_state(RankState::Initialised);
    }
    match role.as_str() {
        "exchange" => {
            job.put("pid", &std::process::id().to_le_bytes()).unwrap();
            job.fence().unwrap();
            for rank in 0..job.size() {
                let pid = job.get_from(rank, "pid").unwrap().unwrap();
                assert_eq!(pid, job.pid(rank).unwrap().to_le_bytes());
            }
            job.fence().unwrap();
            job.set_state(RankState::Finalised);
            eprintln!("rank {} of {} app {}", job.rank(), job.size(), job.appnum());
            std::process::exit(0);
        }
        "abort" if last => job.abort(42, "the sum is wrong"),
        "abort256" if last => job.abort(256, ""),
        // Others wait for the one that aborts, and see it.
        "abort" | "abort256" => {
            let error = job.fence().unwrap_err();
            assert!(error.to_string().contains("abort"), "{error}");
            sleep();
        }
        "print" => {
            // SAFETY: C strings without conversions.
            unsafe {
                libc::printf(c"a line\n".as_ptr());
                libc::printf(c"part".as_ptr());
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
        }
        "leave" if last => std::process::exit(0),
        "leave" => sleep(),
        "finalised" => {
            job.set_state(RankState::Finalised);
            if last {
                std::process::exit(5);
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
            eprintln!("rank {} finished", job.rank());
            std::process::exit(0);
        }
        "twice" => {
            let again = Job::attach(&|name| std::env::var(name).ok()).map(|j| j.rank());
            assert!(
                again.is_ok(),
                "the descriptor is gone, but the launcher still has it: {again:?}"
            );
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child = child
                .args(["--exact", "acts_as_a_rank", "--nocapture"])
                .env("ROLE", "exchange")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&child.stderr).into_owned();
            assert!(
                child.status.code() == Some(77) && text.contains("already is process"),
                "{text}"
            );
            job.set_state(RankState::Finalised);
            std::process::exit(0);
        }
        // Waits for somebody who never comes.
        "late" => {
            std::thread::sleep(std::time::Duration::from_millis(300));
            job.set_state(RankState::Initialised);
            sleep();
        }
        "wait" => sleep(),
        "joined" => {
            let path = std::env::var("JOINED").unwrap();
            std::fs::write(format!("{path}.{}", job.rank()), "").unwrap();
            sleep();
        }
        other => panic!("no role {other}"),
    }
}

fn play(role: &str, options: &[&str]) -> Ran {
    let own = std::env::current_exe().unwrap();
    let mut args = options.to_vec();
    args.extend([own.to_str().unwrap(), "--exact", "acts_as_a_rank", "--nocapture"]);
    done(mpiexec(&args).env("ROLE", role).output().unwrap())
}

#[test]
fn ranks_find_each_other() {
    for n in ["1", "2", "7"] {
        let ran = play("exchange", &["-n", n]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.lines().count().to_string(), n, "{}", ran.err);
    }
}

#[test]
fn the_descriptor_is_found_again() {
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "exec 200>&- 201>&-; exec '{}' --exact acts_as_a_rank --nocapture",
        own.display()
    );
    let ran = done(
        mpiexec(&["-n", "2", "bash", "-c", &script])
            .env("ROLE", "exchange")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sorted(&ran.err), ["rank 0 of 2 app 0", "rank 1 of 2 app 0"]);
}

#[test]
fn a_rank_is_one_process() {
    let ran = play("twice", &["-n", "2"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn an_abort_passes_its_code_and_reason() {
    let ran = play("abort", &["-n", "3"]);
    assert_eq!(ran.code, 42, "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(
        ran.err.contains("rank 2 on host") && ran.err.contains("aborted with code 42: the sum is wrong"),
        "{}",
        ran.err
    );
    assert_eq!(play("abort256", &["-n", "2"]).code, 1);
    assert_eq!(play("abort", &["-n", "1"]).code, 42);
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    let ran = play("leave", &["-n", "3"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("rank 2") && ran.err.contains("without MPI_Finalize"),
        "{}",
        ran.err
    );
}

#[test]
fn after_finalize_ranks_may_take_their_time() {
    let ran = play("finalised", &["-n", "2"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(
        ran.err.contains("rank 0 finished") && ran.err.contains("rank 1 on host"),
        "{}",
        ran.err
    );
}

#[test]
fn what_c_programs_print_arrives_line_by_line() {
    let ran = play("print", &["-n", "2"]);
    assert_eq!(ran.code, 137);
    assert!(ran.out.lines().any(|l| l.ends_with("a line")), "{}", ran.out);
}

/// Rank 1 and up are `true`, and no part of the job; rank 0 is this program.
fn with_strangers(role: &str, options: &[&str], ranks: &str) -> Ran {
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "[ $FARPOST_RANK = 0 ] || exit 0; exec '{}' --exact acts_as_a_rank --nocapture",
        own.display()
    );
    let mut args = options.to_vec();
    args.extend(["-n", ranks, "sh", "-c", &script]);
    done(mpiexec(&args).env("ROLE", role).output().unwrap())
}

#[test]
fn a_rank_that_ends_outside_ends_a_job_that_others_have_joined() {
    // Whether the others have joined before it ends, or do later.
    for role in ["wait", "late"] {
        let ran = with_strangers(role, &[], "2");
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(
            ran.err.lines().count() == 1
                && ran.err.contains("rank 1 on host")
                && ran
                    .err
                    .contains("without having called MPI_Init (or its like), which rank 0 has; ending"),
            "{}",
            ran.err
        );
    }
    let ran = with_strangers("late", &[], "4");
    assert!(ran.err.contains("as did 2 other ranks"), "{}", ran.err);
    // Told, and nobody is ended.
    let ran = with_strangers("wait", &["--on-failure", "continue", "--timeout", "1"], "2");
    assert_eq!(ran.code, 124, "{}", ran.err);
    assert!(ran.err.contains("which rank 0 has\n"), "{}", ran.err);
}

#[test]
fn ranks_that_join_end_with_the_launcher_in_whatever_group_they_are() {
    let own = std::env::current_exe().unwrap();
    let dir = Dir::new();
    // In a session of its own, below a shell: no signal to the group reaches it, nor that of its parent's death.
    let script = format!(
        "setsid sh -c 'echo $$ >{}.$FARPOST_RANK; exec {} --exact acts_as_a_rank --nocapture'; true",
        dir.path("pid"),
        own.display()
    );
    let mut child = mpiexec(&["-n", "2", "sh", "-c", &script])
        .env("ROLE", "joined")
        .env("JOINED", dir.path("joined"))
        .spawn()
        .unwrap();
    let there = |name: &str| (0..2).all(|rank| std::fs::exists(dir.path(&format!("{name}.{rank}"))).unwrap());
    until("both have joined", || there("joined"));
    let guardian = child_named(child.id(), "farpost-guard").unwrap();
    kill_together([child.id(), guardian as u32]);
    child.wait().unwrap();
    let pids: Vec<u32> = (0..2)
        .map(|rank| dir.read(&format!("pid.{rank}")).trim().parse().unwrap())
        .collect();
    until("nothing is left", || pids.iter().all(|pid| has_ended(*pid)));
}
