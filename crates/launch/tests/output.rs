//! Standard input and output.

mod common;
use common::*;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::Stdio;

#[test]
fn many_ranks_with_many_lines_lose_and_mix_nothing() {
    let script = "i=0; while [ $i -lt 400 ]; do echo $FARPOST_RANK-$i-abcdefghijklmnopqrstuvwxyz; i=$((i+1)); done; seq 1 3000 | sed s/^/$FARPOST_RANK+/";
    let ran = shell("-n 12", script);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut expected = Vec::new();
    for rank in 0..12 {
        expected.extend((0..400).map(|i| format!("{rank}-{i}-abcdefghijklmnopqrstuvwxyz")));
        expected.extend((1..=3000).map(|i| format!("{rank}+{i}")));
    }
    for rank in 0..12 {
        let mine = |l: &&str| l.starts_with(&format!("{rank}-")) || l.starts_with(&format!("{rank}+"));
        let got: Vec<&str> = ran.out.lines().filter(mine).collect();
        let want: Vec<&str> = expected.iter().map(String::as_str).filter(mine).collect();
        assert_eq!(got, want, "rank {rank}");
    }
    assert_eq!(ran.out.lines().count(), expected.len());
}

#[test]
fn bytes_pass_unchanged() {
    let mut bytes: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    bytes[2_000_000..].fill(b'x'); // a line longer than is kept back
    let dir = Dir::new();
    let path = dir.path("bytes");
    std::fs::write(&path, &bytes).unwrap();
    for n in ["1", "2"] {
        let script = format!("[ $FARPOST_RANK = 1 ] || cat '{path}'");
        let output = mpiexec(&["-n", n, "sh", "-c", &script]).output().unwrap();
        assert!(output.stdout == bytes, "-n {n}: {} bytes", output.stdout.len());
    }
}

#[test]
fn the_last_words_without_a_newline_arrive() {
    assert_eq!(shell("-n 1", "printf x").out, "x");
    assert_eq!(shell("-n 2", "[ $FARPOST_RANK = 1 ] || printf x").out, "x");
    assert_eq!(shell("-n 2", "printf x").out, "x\nx");
}

#[test]
fn nothing_said_before_a_failure_is_lost() {
    let ran = shell(
        "-n 4",
        "seq 1 5000; echo end$FARPOST_RANK; [ $FARPOST_RANK = 2 ] && kill -KILL $$; sleep 60",
    );
    assert_eq!(ran.code, 137);
    assert!(ran.out.contains("\nend2\n"), "the killed rank's words");
    let whole = ran
        .out
        .lines()
        .all(|l| l.starts_with("end") || l.parse::<u32>().is_ok_and(|n| n <= 5000));
    assert!(whole);
}

#[test]
fn a_line_is_shown_when_it_is_complete() {
    let mut child = mpiexec(&[
        "-n",
        "2",
        "sh",
        "-c",
        "[ $FARPOST_RANK = 1 ] || { echo first; read x; echo got $x; }",
    ])
    .stdin(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The rank waits for an answer, so the line must come while it runs.
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    child.stdin.take().unwrap().write_all(b"answer\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got answer");
    assert!(child.wait().unwrap().success());
}

#[test]
fn input_goes_to_rank_0_or_where_it_is_sent() {
    let go = |options: &str, input: &str| {
        let mut args: Vec<&str> = options.split_whitespace().collect();
        args.extend(["sh", "-c", "x=$(cat); echo $FARPOST_RANK$x"]);
        let mut child = mpiexec(&args).stdin(Stdio::piped()).spawn().unwrap();
        match child.stdin.take().unwrap().write_all(input.as_bytes()) {
            // Nobody reads it, and the job may be over.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && options.ends_with("none") => {}
            written => written.unwrap(),
        }
        finish(child)
            .out
            .lines()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let set = |lines: &[&str]| {
        lines
            .iter()
            .map(|l| l.to_string())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(go("-n 3", "in"), set(&["0in", "1", "2"]));
    assert_eq!(go("-n 3 -stdin 2", "in"), set(&["0", "1", "2in"]));
    assert_eq!(go("-n 3 --stdin all", "in"), set(&["0in", "1in", "2in"]));
    assert_eq!(go("-n 2 -stdin none", "in"), set(&["0", "1"]));
}

#[test]
fn much_input_for_everybody() {
    let dir = Dir::new();
    let input = dir.file("input", &"0123456789abcdef\n".repeat(60_000));
    for options in ["-n 3 -stdin all", "-n 1"] {
        let mut args: Vec<&str> = options.split(' ').collect();
        args.extend(["sh", "-c", "cksum"]);
        let ran = done(
            mpiexec(&args)
                .stdin(std::fs::File::open(&input).unwrap())
                .output()
                .unwrap(),
        );
        let direct = std::process::Command::new("cksum")
            .stdin(std::fs::File::open(&input).unwrap())
            .output()
            .unwrap();
        let sum = String::from_utf8(direct.stdout).unwrap();
        assert!(ran.out.lines().all(|l| l == sum.trim()), "{options}: {}", ran.out);
    }
}

#[test]
fn a_reader_that_has_enough_ends_the_job() {
    let mut child = mpiexec(&["-n", "2", "yes"]).spawn().unwrap();
    let mut some = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    drop(child.stdout.take());
    assert_eq!(finish(child).code, 128 + 13);
}

#[test]
fn a_slow_reader_gets_everything_and_does_not_stop_signals() {
    let mut child = mpiexec(&["-n", "3", "sh", "-c", "seq 1 200000"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!(all.lines().count(), 600_000);
    assert!(child.wait().unwrap().success());
    // Nobody reads: the job is ended by a signal all the same.
    let child = mpiexec(&["-n", "2", "yes"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    signal(child.id(), "TERM");
    std::thread::sleep(std::time::Duration::from_millis(50));
    signal(child.id(), "TERM");
    let mut child = child;
    assert!(!child.wait().unwrap().success());
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for n in ["1", "2"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = done(mpiexec(&["-n", n, "echo", "x"]).stdout(full).output().unwrap());
        assert_ne!(ran.code, 0, "-n {n}");
        assert!(ran.err.contains("space left"), "-n {n}: {}", ran.err);
    }
}
