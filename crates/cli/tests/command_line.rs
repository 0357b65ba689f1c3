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
    refused(&["paper", "moon"], 2, &["moon", "allowed are", "xt3"]);
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
    refused(
        &["bench", "layers", "--rounds", "0"],
        2,
        &["--rounds", "1..=1000"],
    );
    refused(&["bench", "fm", "--sizes", "8,x"], 1, &["\"x\"", "suffix"]);
    refused(
        &["bench", "logp", "--plot", "a.gif"],
        1,
        &["a.gif", ".svg or .png"],
    );
    refused(&["bench", "pairs", "--pairs", "0"], 2, &["--pairs", "1..=2048"]);
    refused(&["bench", "pairs", "-n", "1"], 2, &["--ranks", "2..=4096"]);
    refused(
        &["bench", "pairs", "--layers", "carrier-pigeon"],
        1,
        &["carrier-pigeon", "fm-send-4"],
    );
    refused(&["bench", "load", "--stream", "0"], 1, &["--stream 0", "1 byte"]);
    refused(&["bench", "load", "--others", "x"], 2, &["--others", "x"]);
    refused(&["top", "--rails", "--status"], 2, &["--rails", "--status"]);
    refused(&["bench", "matmul", "--sizes", "0"], 2, &["--sizes", "1..=65536"]);
    refused(
        &["__layer-probe", "/no/such", "carrier-pigeon", "1", "1"],
        1,
        &["carrier-pigeon", "fm-send-4"],
    );
    refused(&["tune"], 1, &["tune", "--launcher"]);
    refused(
        &["tune", "--host", "a,b", "--launcher", "x"],
        2,
        &["--host", "--launcher"],
    );
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
    assert_eq!(count("implemented") + count("missing"), 662);
    assert!(!v["tunables"].as_array().unwrap().is_empty());
}

/// A launcher that starts nothing and makes up times: small messages take as long as they have bytes, the others half as
/// long and 3000 more. The way is told by the setting.
const PRETENDER: &str = r#"
while [ "$1" != --sizes ]; do shift; done
way=${FARPOST_EAGER_FAR:-${FARPOST_TCP_DIRECT:-0}}
[ "${FARPOST_CONFIG-unset}" = "" ] || exit 3
echo "$2" | awk -F, -v way="$way" '{
    printf "{\"points\": ["
    for (i = 1; i <= NF; i++) printf("%s{\"bytes\": %d, \"min_us\": %f}", (i > 1 ? "," : ""), $i, (way > 1024 ? $i : $i / 2 + 3000))
    print "]}" }'
"#;

fn tune(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farpost"))
        .arg("tune")
        .args(arguments)
        .env("FARPOST_CONFIG", "/not/used")
        .output()
        .expect("farpost starts")
}

#[test]
fn tune_finds_switch_points_and_keeps_other_settings() {
    let dir = std::env::temp_dir().join(format!("farpost-tune-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (script, out) = (dir.join("pretender"), dir.join("farpost.conf"));
    std::fs::write(&script, PRETENDER).unwrap();
    std::fs::write(&out, "FARPOST_YIELDS=9\nFARPOST_EAGER_FAR=1\n").unwrap();
    let launcher = format!("sh {}", script.display());
    let options = ["--short", "--launcher", &launcher, "--out", out.to_str().unwrap()];
    let output = tune(&options);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let written = std::fs::read_to_string(&out).unwrap();
    std::fs::write(&out, "\nFARPOST_YIELDS\n").unwrap();
    let second = tune(&options);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("farpost.conf"), "{error}");
    // Equal at 6000 bytes; the sizes are 2 KiB, 16 KiB, ... and 4 KiB, 32 KiB, ...
    let settings: Vec<&str> = written.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        settings,
        [
            "FARPOST_YIELDS=9",
            "FARPOST_ZCOPY_MIN=4096",
            "FARPOST_ZCOPY_MAX=1048576",
            "FARPOST_EAGER_FAR=2048",
            "FARPOST_TCP_DIRECT=4097"
        ]
    );
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("32768") && table.contains("2048"), "{table}");
    // A file that is no settings is not written over.
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{error}");
    assert!(
        error.contains("line 2") && error.contains("farpost.conf"),
        "{error}"
    );
}

#[test]
fn tune_says_what_went_wrong_in_one_line() {
    let nowhere = "/no/such/directory/farpost.conf";
    for (arguments, words) in [
        (&["--host", "a"][..], ["--host a", "two hosts"]),
        (&["--host", "a,a"], ["--host a,a", "two hosts"]),
        (&["--launcher", " "], ["--launcher", "empty"]),
        (
            &["--launcher", "/no/such/launcher -n 2", "--out", nowhere],
            ["/no/such/launcher -n 2", "No such file"],
        ),
        (
            &["--launcher", "false", "--out", nowhere],
            ["false (FARPOST_ZCOPY_MIN=", "exit status"],
        ),
        (
            &["--launcher", "echo", "--out", nowhere],
            ["echo (FARPOST_ZCOPY_MIN=", "not a result"],
        ),
    ] {
        let output = tune(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        assert!(
            words.iter().all(|word| error.contains(word)),
            "{arguments:?}: {error}"
        );
    }
}
