//! The command line as a person meets it: mistakes are one line and a non-zero exit code.

use std::process::{Command, Output};

fn farpost(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farpost"));
    // As a rank would be: nothing is started again under mpiexec.
    command
        .args(arguments)
        .env("MPI_BENCH_CHILD", "1")
        .env("MPI_BENCH_LIBRARY", "/no/such/libmpi_abi.so.1");
    command.output().expect("farpost starts")
}

fn refused(arguments: &[&str], code: i32, mentions: &[&str]) {
    let output = farpost(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    for word in mentions {
        assert!(error.contains(word), "{arguments:?}: no {word} in {error}");
    }
}

#[test]
fn mistakes_are_one_line() {
    refused(&[], 2, &["a command is missing"]);
    refused(&["bench"], 2, &["farpost bench --help"]);
    refused(&["fly"], 2, &["fly"]);
    refused(&["bench", "rate", "--window", "0"], 2, &["--window", "1..=4096"]);
    refused(&["bench", "rate", "--sizes", "1x"], 1, &["\"1x\"", "suffix"]);
    refused(
        &["bench", "pingpong", "--min", "2k", "--max", "1k"],
        1,
        &["2048", "1024"],
    );
    refused(
        &["bench", "collectives", "--op", "allsum"],
        1,
        &["allsum", "allreduce"],
    );
    refused(
        &["bench", "netpipe", "--plot", "a.gif"],
        1,
        &["a.gif", ".svg or .png"],
    );
    refused(
        &["bench", "plot", "/no/such.json", "--out", "x.svg"],
        1,
        &["/no/such.json"],
    );
    refused(&["bench", "plot", "x.json"], 2, &["--out"]);
    refused(&["completions", "cobol"], 2, &["cobol", "bash"]);
    refused(
        &["bench", "rate"],
        1,
        &["/no/such/libmpi_abi.so.1", "MPI_BENCH_LIBRARY"],
    );
}

#[test]
fn help_version_lists_and_completions_go_to_standard_output() {
    for (arguments, word) in [
        (&["--help"][..], "doctor"),
        (&["--version"], "farpost "),
        (&["bench", "netpipe", "--help"], "--perturbation"),
        (&["info"], "libmpi_abi.so.1"),
        (&["info", "--api"], "MPI_Send"),
        (&["info", "--tunables"], "FARPOST_"),
        (&["completions", "bash"], "_farpost"),
    ] {
        let output = farpost(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains(word),
            "{arguments:?}: {text}"
        );
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
    let output = farpost(&["info", "--api", "--tunables", "--json"]);
    let v: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| v["functions"][name].as_array().unwrap().len();
    assert_eq!(count("implemented") + count("missing"), 664);
    assert!(!v["tunables"].as_array().unwrap().is_empty());
}
