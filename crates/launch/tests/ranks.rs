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
