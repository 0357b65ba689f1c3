//! Each option does what it says.

mod common;
use common::*;

#[test]
fn ranks_know_their_place() {
    let ran = shell(
        "-n 3",
        "echo $FARPOST_RANK/$FARPOST_SIZE $OMPI_COMM_WORLD_RANK $MPI_LOCALRANKID ${PMI_RANK-none}",
    );
    assert_eq!(sorted(&ran.out), ["0/3 0 0 none", "1/3 1 1 none", "2/3 2 2 none"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn several_programs_in_one_job() {
    let ran = run(&[
        "-n",
        "1",
        "sh",
        "-c",
        "echo a$FARPOST_RANK",
        ":",
        "-np",
        "2",
        "sh",
        "-c",
        "echo b$FARPOST_RANK",
    ]);
    assert_eq!(sorted(&ran.out), ["a0", "b1", "b2"]);
}

#[test]
fn programs_from_a_file() {
    let dir = Dir::new();
    let text = "# two programs\n-n 1 sh -c 'echo \"a  b\" $FARPOST_RANK'\n\n--np 2 -env V x sh -c 'echo c$V' # done\n";
    let file = dir.file("config", text);
    let ran = run(&["-configfile", &file]);
    assert_eq!(sorted(&ran.out), ["a  b 0", "cx", "cx"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let bad = dir.file("bad", "-n 1 true\n--moon x\n");
    let ran = run(&["-configfile", &bad]);
    assert!(
        ran.err.contains("line 2") && ran.err.contains("--moon"),
        "{}",
        ran.err
    );
    assert_ne!(ran.code, 0);
}

#[test]
fn hosts_are_this_host() {
    let dir = Dir::new();
    let file = dir.file("hosts", "# us\nlocalhost slots=4\n127.0.0.1\n");
    for options in [
        "-host localhost",
        "-H localhost:8",
        "-hosts localhost,127.0.0.1",
        &format!("-f '{file}'"),
        &format!("--hostfile '{file}'"),
        &format!("-machinefile '{file}'"),
    ] {
        let ran = shell(&format!("-n 2 {options}"), "echo x");
        assert_eq!(
            (ran.out.as_str(), ran.code),
            ("x\nx\n", 0),
            "{options}: {}",
            ran.err
        );
    }
}

#[test]
fn other_hosts_need_another_launcher() {
    let dir = Dir::new();
    let refused = |command: &mut std::process::Command, words: &str| {
        let ran = done(command.output().unwrap());
        assert!(
            ran.code != 0 && ran.out.is_empty() && ran.err.lines().count() == 1 && ran.err.contains(words),
            "{words}: {}",
            ran.err
        );
    };
    let none = |args: &[&str]| {
        let mut command = mpiexec(args);
        command.env("PATH", "/nonexistent");
        command
    };
    refused(&mut none(&["-host", "192.0.2.7", "/bin/true"]), "install PRRTE");
    refused(
        &mut none(&["--launcher", "hydra", "/bin/true"]),
        "no mpiexec.hydra on PATH",
    );
    refused(
        &mut none(&["--launcher", "moon", "/bin/true"]),
        "--launcher moon: must be",
    );
    refused(
        &mut mpiexec(&["--launcher", "local", "-host", "192.0.2.7", "true"]),
        "192.0.2.7 is another",
    );
    let file = dir.file("rubbish", "localhost\nlocalhost slots=none\n");
    refused(&mut mpiexec(&["-f", &file, "true"]), "rubbish:2: ");
    refused(&mut mpiexec(&["-host", "localhost:0", "true"]), "slots");
    // A launcher that is there, and nothing to reach the host with.
    let engine = dir.file("mpiexec.hydra", "#!/bin/sh\necho started\n");
    refused(
        &mut none(&["--launcher", &engine, "-host", "192.0.2.7", "/bin/true"]),
        "which is not installed",
    );
}

/// A launcher that does what a test wants.
fn fake(dir: &Dir, script: &str) -> String {
    let path = dir.file("mpiexec.hydra", &format!("#!/bin/sh\n{script}\n"));
    let made = std::process::Command::new("chmod").args(["+x", &path]).status();
    assert!(made.unwrap().success());
    path
}

#[test]
fn another_launcher_is_watched() {
    let dir = Dir::new();
    let engine = fake(
        &dir,
        "echo \"$A $FARPOST_RANK $PMI_RANK\"; cat; echo wrong >&2; exit 9",
    );
    let mut command = mpiexec(&["--launcher", &engine, "-genv", "A", "a", "-n", "3", "true"]);
    let ran = done(command.env("PMI_RANK", "7").env("A", "b").output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (9, "b  \n"), "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(
        lines[0].starts_with("mpiexec: 3 ranks, started by ") && lines[1] == "wrong",
        "{lines:?}"
    );
    let ran = run(&["-q", "--launcher", &engine, "true"]);
    assert_eq!((ran.code, ran.err.as_str()), (9, "wrong\n"));
    // It and what it started end with its time, and with mpiexec.
    let sleeper = marker();
    let engine = fake(&dir, &format!("setsid sleep {sleeper} & wait"));
    let ran = run(&["--launcher", &engine, "--timeout", "0.3", "true"]);
    assert_eq!((ran.code, sleepers(&sleeper)), (124, 0), "{}", ran.err);
    let child = mpiexec(&["--launcher", &engine, "true"]).spawn().unwrap();
    until("it sleeps", || sleepers(&sleeper) == 1);
    signal(child.id(), "KILL");
    finish(child);
    until("all has ended", || sleepers(&sleeper) == 0);
    let engine = fake(&dir, "kill -9 $$");
    let ran = run(&["--launcher", &engine, "true"]);
    assert_eq!(ran.code, 137, "{}", ran.err);
    assert!(
        ran.err.contains("mpiexec.hydra was killed by signal 9"),
        "{}",
        ran.err
    );
    // It is told of signals, and may take its time.
    let engine = fake(
        &dir,
        "trap 'sleep 0.7; echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
    );
    let mut child = mpiexec(&["--launcher", &engine, "true"]).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    signal(child.id(), "TERM");
    std::io::Read::read_to_string(&mut out, &mut line).unwrap();
    assert_eq!((line.as_str(), finish(child).code), ("ready\nbye\n", 5));
}

#[test]
fn directory_and_path() {
    let dir = Dir::new();
    let inside = dir.0.to_str().unwrap();
    for option in ["-wdir", "--wdir", "-wd", "--chdir"] {
        let ran = run(&[option, inside, "-n", "2", "pwd", "-P"]);
        let real = std::fs::canonicalize(&dir.0).unwrap();
        assert_eq!(ran.out, format!("{0}\n{0}\n", real.display()), "{option}");
    }
    let ran = run(&["-wdir", "/nonexistent", "true"]);
    assert!(ran.err.contains("/nonexistent") && ran.code != 0);
    let tool = dir.file("sometool", "#!/bin/sh\necho found $1\n");
    assert!(
        std::process::Command::new("chmod")
            .args(["+x", &tool])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(run(&["-path", inside, "sometool", "it"]).out, "found it\n");
    assert_eq!(run(&["-wdir", inside, "sometool", "here"]).out, "found here\n");
    assert_eq!(run(&["-wdir", inside, "./sometool", "dot"]).out, "found dot\n");
    // A script without a first line naming its interpreter.
    std::fs::write(&tool, "echo plain $1\n").unwrap();
    assert_eq!(run(&[&tool, "script"]).out, "plain script\n");
}

#[test]
fn programs_that_cannot_run() {
    let dir = Dir::new();
    let text = dir.file("text", "x");
    for (program, code) in [
        ("/nonexistent/prog", 127),
        ("surely-not-a-program", 127),
        ("/", 126),
        (&text, 126),
    ] {
        let ran = run(&["-n", "2", program]);
        assert_eq!(ran.code, code, "{program}: {}", ran.err);
        assert!(
            ran.err.lines().count() == 1 && ran.err.contains(program),
            "{}",
            ran.err
        );
    }
    // Found only when it is started: the interpreter is missing.
    let script = dir.file("script", "#!/nonexistent/interpreter\n");
    assert!(
        std::process::Command::new("chmod")
            .args(["+x", &script])
            .status()
            .unwrap()
            .success()
    );
    let ran = run(&["-n", "2", &script]);
    assert_eq!(ran.code, 127, "{}", ran.err);
    assert!(
        ran.err.lines().count() == 1 && ran.err.contains("could not start the program"),
        "{}",
        ran.err
    );
}

#[test]
fn environment() {
    let script = "echo ${A-no} ${B-no} ${C-no}";
    let go = |options: &str| {
        let mut args: Vec<&str> = options.split_whitespace().collect();
        args.extend(["/bin/sh", "-c", script]);
        let ran = done(
            mpiexec(&args)
                .env("A", "1")
                .env("B", "2")
                .env("PMI_RANK", "7")
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, 0, "{options}: {}", ran.err);
        ran.out.trim().to_owned()
    };
    assert_eq!(go(""), "1 2 no");
    assert_eq!(go("-env C x"), "1 2 x");
    assert_eq!(go("-env C=x"), "1 2 x");
    assert_eq!(go("-genv A y"), "y 2 no");
    assert_eq!(go("-genv A y -env A z"), "z 2 no");
    assert_eq!(go("-envnone"), "no no no");
    assert_eq!(go("-genvnone -x A"), "1 no no");
    assert_eq!(go("-genvlist B"), "no 2 no");
    assert_eq!(go("-genvnone -envall"), "1 2 no");
    assert_eq!(go("-x C=x --x B=q"), "1 q x");
}

#[test]
fn a_job_inside_a_job() {
    let inner = format!(
        "'{}' -n 2 sh -c 'echo $FARPOST_RANK/$FARPOST_SIZE; ls -l /proc/self/fd | grep -c farpost-job'",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let ran = shell("-n 3", &inner);
    // Each inner rank has one job memory open, its own.
    assert_eq!(
        sorted(&ran.out).concat(),
        [
            "0/2", "0/2", "0/2", "1", "1", "1", "1", "1", "1", "1/2", "1/2", "1/2"
        ]
        .concat(),
        "{}",
        ran.err
    );
}

/// How many processors this process may use, and the lists of those that the ranks of a job may.
fn places(options: &str) -> (usize, Vec<String>) {
    let ran = shell(options, "grep Cpus_allowed_list /proc/self/status");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lists = sorted(&ran.out)
        .into_iter()
        .filter_map(|l| Some(l.split_whitespace().last()?.to_owned()));
    (
        std::thread::available_parallelism().map_or(1, usize::from),
        lists.collect(),
    )
}

#[test]
fn ranks_are_put_apart_where_there_is_a_core_for_each() {
    let (_, all) = places("-n 1");
    let (cores, mut two) = places("-n 2");
    two.dedup();
    // Two threads of one core are one place.
    let smt = std::fs::read_to_string("/sys/devices/system/cpu/smt/active").is_ok_and(|t| t.trim() == "1");
    if !smt {
        assert_eq!(two.len(), if cores >= 2 { 2 } else { 1 }, "{two:?} on {cores}");
    }
    for options in [
        "-n 2 --bind-to none".to_owned(),
        format!("-n {}", cores + 1),
        format!("-n 2 -env OMP_NUM_THREADS {}", cores + 1),
    ] {
        let (_, mut lists) = places(&options);
        lists.dedup();
        assert_eq!(lists, all, "{options}");
    }
}

#[test]
fn who_may_use_one_processor_is_not_bound_to_another() {
    let (_, all) = places("-n 1");
    let first = all[0].split(['-', ',']).next().unwrap_or("0").to_owned();
    let mpiexec = env!("CARGO_BIN_EXE_mpiexec");
    let output = std::process::Command::new("taskset")
        .args(["-c", &first, mpiexec, "-n", "2"])
        .args(["grep", "Cpus_allowed_list", "/proc/self/status"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("taskset of util-linux");
    let ran = done(output);
    let lists: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|l| l.split_whitespace().last())
        .collect();
    assert_eq!(lists, [first.as_str(), first.as_str()], "{}", ran.err);
}

#[test]
fn bindings() {
    let ran = shell(
        "-n 2 --bind-to core --report-bindings",
        "grep Cpus_allowed_list /proc/self/status",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        ran.err
            .lines()
            .filter(|l| l.contains("is bound to processors"))
            .count(),
        2,
        "{}",
        ran.err
    );
    let mut reported: Vec<&str> = ran.err.lines().filter_map(|l| l.rsplit(' ').next()).collect();
    reported.sort_unstable();
    let seen: Vec<&str> = sorted(&ran.out)
        .into_iter()
        .filter_map(|l| l.split_whitespace().last())
        .collect();
    assert_eq!(seen, reported);
    let ran = shell(
        "-n 2 --bind-to none --map-by core --rank-by core --report-bindings",
        "true",
    );
    assert!(
        ran.err.contains("rank 1 on host") && ran.err.contains("is not bound"),
        "{}",
        ran.err
    );
    for options in [
        "--bind-to socket",
        "--bind-to hwthread",
        "--bind-to numa --map-by numa",
        "--bind-to core --use-hwthread-cpus",
        "--bind-to core --map-by slot:PE=2",
    ] {
        assert_eq!(shell(&format!("-n 3 {options}"), "true").code, 0, "{options}");
    }
}

#[test]
fn more_ranks_than_cores_and_root_are_nobodys_business() {
    let ran = shell("--oversubscribe --allow-run-as-root -n 40", "echo $FARPOST_RANK");
    assert_eq!(ran.out.lines().count(), 40);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn lines_are_marked() {
    assert_eq!(sorted(&shell("-l -n 2", "echo x").out), ["[0] x", "[1] x"]);
    assert_eq!(
        sorted(&shell("-prepend-rank -n 2", "echo x").out),
        ["[0] x", "[1] x"]
    );
    let ran = shell("--tag-output -n 1", "echo x; echo y >&2");
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("[1,0]<stdout>: x\n", "[1,0]<stderr>: y\n")
    );
    let ran = shell("--timestamp-output -n 1", "echo x");
    assert!(
        ran.out.starts_with("20") && ran.out.ends_with("Z x\n"),
        "{}",
        ran.out
    );
    let ran = shell("--merge-stderr-to-stdout -n 2", "echo y >&2");
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("y\ny\n", ""));
}

#[test]
fn output_to_files() {
    let dir = Dir::new();
    let ran = shell(
        &format!("-n 2 --output-filename '{}'", dir.path("out/deep")),
        "echo $FARPOST_RANK; echo e >&2",
    );
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert_eq!(dir.read("out/deep/rank.1/stdout"), "1\n");
    assert_eq!(dir.read("out/deep/rank.0/stderr"), "e\n");
    let ran = shell(
        &format!("-n 2 -outfile-pattern '{}'", dir.path("o%r%%")),
        "echo $FARPOST_RANK; echo e >&2",
    );
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", "e\ne\n"));
    assert_eq!(dir.read("o0%") + &dir.read("o1%"), "0\n1\n");
    let ran = shell(
        &format!("-n 2 -errfile-pattern '{}'", dir.path("all")),
        "echo e >&2",
    );
    assert_eq!((ran.code, dir.read("all").as_str()), (0, "e\ne\n"));
    let ran = shell("-n 2 --output-filename /proc/nonexistent/x", "true");
    assert!(
        ran.code != 0 && ran.err.contains("/proc/nonexistent/x"),
        "{}",
        ran.err
    );
}

#[test]
fn verbose_and_quiet() {
    let ran = shell("-v -n 1", "true");
    assert!(
        ran.err.contains("rank 0 on host") && ran.err.contains("exited with code 0"),
        "{}",
        ran.err
    );
    let ran = shell("-q -n 1", "exit 5");
    assert_eq!((ran.code, ran.err.as_str()), (5, ""));
}

#[test]
fn foreign_parameters_are_accepted_with_a_word() {
    let ran = shell("--mca btl self,vader -n 2", "echo x");
    assert_eq!(
        (ran.out.as_str(), ran.code, ran.err.lines().count()),
        ("x\nx\n", 0, 1)
    );
    assert!(ran.err.contains("btl"));
}

#[test]
fn help_and_version() {
    assert!(run(&["--help"]).out.starts_with("usage: mpiexec"));
    assert!(run(&["-version"]).out.contains("Farpost"));
}

#[test]
fn bad_arguments_are_one_line() {
    for args in [
        &["-n", "x", "true"][..],
        &["--moon", "true"],
        &[],
        &["-n", "2"],
        &["--bind-to", "moon", "true"],
        &["--timeout", "0", "true"],
    ] {
        let ran = run(args);
        assert!(
            ran.code != 0 && ran.err.lines().count() == 1 && ran.out.is_empty(),
            "{args:?}: {}",
            ran.err
        );
    }
}
