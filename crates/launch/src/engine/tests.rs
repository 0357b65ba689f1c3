//! Jobs in each launcher's words, and which launcher is chosen.

use super::job::*;
use super::*;
use crate::options::{App, Options};
use crate::parser::{Request, parse};
use crate::refusal::Refusal;
use std::ffi::{OsStr, OsString};
use std::path::Path;

fn options(line: &str) -> Options {
    options_with(line, &|_| None)
}

fn options_with(line: &str, env: &impl Fn(&str) -> Option<OsString>) -> Options {
    let args = line.split_whitespace().map(OsString::from).collect();
    match parse(args, env) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn engine(kind: EngineKind) -> Engine {
    Engine {
        kind,
        path: Path::new("/usr/bin").join(kind.program()),
    }
}

/// The launcher's command and what it adds to or takes from the variables A=1, B=2.
fn translate(kind: EngineKind, line: &str) -> Result<(String, Command), Refusal> {
    let options = options(line);
    let own = [
        ("A", "1"),
        ("B", "2"),
        ("PMI_RANK", "3"),
        ("FARPOST_JOB_FD", "4"),
        ("HYDRA_X", "5"),
    ];
    let own = own.into_iter().map(|(n, v)| (n.into(), v.into()));
    let agents = Agents::wanted(&options, own.clone(), |client| {
        Ok(App {
            program: "/bin/farpost".into(),
            rules: client.rules.clone(),
            ..App::default()
        })
    })?;
    let job = Job::new(&options, agents.as_ref(), own, false)?;
    let engine = engine(kind);
    let command = match kind {
        EngineKind::Hydra => hydra::command(&engine, &job),
        EngineKind::Prterun => Ok(prterun::command(&engine, &job)),
        EngineKind::Srun => srun::command(&engine, &job),
    }?;
    let words: Vec<_> = command.args.iter().skip(1).map(|a| a.to_str().unwrap()).collect();
    let text = words.join(" ").replace("--allow-run-as-root ", "");
    assert!(!command.environment.contains_key(OsStr::new("PMI_RANK")));
    assert!(!command.environment.contains_key(OsStr::new("FARPOST_JOB_FD")));
    Ok((text, command))
}

fn words(kind: EngineKind, line: &str) -> String {
    translate(kind, line)
        .unwrap_or_else(|e| panic!("{line}: {e:?}"))
        .0
}

/// What a file among the arguments holds.
fn content(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn hydra() {
    for (line, wanted) in [
        ("-n 4 -host a,b p x y", "-hosts a:2,b:2 -bind-to none -n 4 p x y"),
        ("-n 3 -host a:1,b:2 p", "-hosts a:1,b:2 -bind-to none -n 3 p"),
        (
            "-n 4 -host a,b --map-by node p",
            "-hosts a:1,b:1,a:1,b:1 -bind-to none -n 4 p",
        ),
        (
            "-ppn 2 -hosts a,b -l p",
            "-hosts a:2,b:2 -bind-to none -prepend-rank -n 4 p",
        ),
        (
            "-n 1 -host a -wdir /w -env C x p 1 : -n 2 -host b -envnone -env A 9 q",
            "-hosts a:1,b:2 -bind-to none -n 1 -wdir /w -env C x p 1 : -n 2 -envnone -env A 9 q",
        ),
        (
            "-host a -genvlist B -x D=d p",
            "-hosts a:1 -bind-to none -n 1 -envlist B -env D d -env PYTHONUNBUFFERED 1 p",
        ),
        ("-host a -x A p", "-hosts a:1 -bind-to none -n 1 p"),
        (
            "-host a --bind-to core --map-by socket:PE=2 p",
            "-hosts a:1 -bind-to core:2 -map-by socket -n 1 p",
        ),
        (
            "-host a --rsh-agent /x/rsh -iface eth1 p",
            "-hosts a:1 -launcher ssh -launcher-exec /x/rsh -iface eth1 -bind-to none -n 1 p",
        ),
        (
            "-host a -outfile-pattern o.%r -errfile-pattern e.%r p",
            "-hosts a:1 -bind-to none -outfile-pattern o.%r -errfile-pattern e.%r -n 1 p",
        ),
        (
            "-host a --timeout 5 -stdin none p",
            "-hosts a:1 -bind-to none -n 1 p",
        ),
    ] {
        let wanted = wanted.replace(" -env PYTHONUNBUFFERED 1", "");
        assert_eq!(words(EngineKind::Hydra, line), wanted, "{line}");
    }
    let (_, command) = translate(
        EngineKind::Hydra,
        "-host a --timestamp-output --mca x y --report-bindings p",
    )
    .unwrap();
    assert_eq!(command.warnings.len(), 2);
    assert_eq!(command.environment[OsStr::new("HYDRA_TOPO_DEBUG")], "1");
    assert_eq!(command.environment[OsStr::new("HYDRA_X")], "5");
    let agent = translate(EngineKind::Hydra, "-host a p").unwrap().1;
    assert!(agent.warnings.is_empty());
    assert!(
        translate(EngineKind::Hydra, "-host a -n 2 -stdin 1 p")
            .unwrap_err()
            .text
            .contains("rank 0 only")
    );
}

#[test]
fn prterun() {
    let usual = "--map-by slot:OVERSUBSCRIBE --bind-to none";
    let all = "-x A -x B -x PYTHONUNBUFFERED";
    let first = "/bin/sh -c sleep 0.01; command -v \"$1\" >/dev/null || \
                 { echo \"mpiexec: $1: no such program on $(hostname)\" >&2; exit 127; };";
    let sh = format!("{first} exec \"$@\" sh");
    for (line, wanted) in [
        (
            "-n 4 -host a,b p x y",
            format!("{usual} -n 4 --host a:2,b:2 {all} {sh} p x y"),
        ),
        (
            "-n 4 -host a,b --map-by node p",
            format!("--map-by node:OVERSUBSCRIBE --bind-to none -n 4 --host a:2,b:2 {all} {sh} p"),
        ),
        (
            "-n 1 -host a:2,b -wdir /w -env C x p 1 : -n 2 -envnone -env A 9 q",
            format!(
                "{usual} -n 1 --host a:1 --wdir /w {all} {sh} /usr/bin/env C=x p 1 : -n 2 --host a:1,b:1 {sh} /usr/bin/env -u B -u PYTHONUNBUFFERED A=9 q"
            ),
        ),
        (
            "-host a --bind-to core --map-by socket:PE=2 -l --timestamp-output p",
            format!(
                "--map-by package:PE=2:OVERSUBSCRIBE --bind-to core:overload-allowed --output tag,timestamp -n 1 --host a:1 {all} {sh} p"
            ),
        ),
        (
            "-host a --rsh-agent /x/rsh -iface eth1 --prtemca q r --stdin all p",
            format!(
                "--prtemca plm_ssh_agent /x/rsh --prtemca prte_if_include eth1 --prtemca q r {usual} --stdin all -n 1 --host a:1 {all} {sh} p"
            ),
        ),
        (
            "-host a --output-filename d p",
            format!(
                "{usual} -n 1 --host a:1 {all} {first} d='d'/rank.$PMIX_RANK && mkdir -p \"$d\" && \
                 exec \"$@\" >\"$d/stdout\" 2>\"$d/stderr\" sh p"
            ),
        ),
    ] {
        assert_eq!(words(EngineKind::Prterun, line), wanted, "{line}");
    }
    assert_eq!(
        translate(EngineKind::Prterun, "-host a --mca btl tcp p")
            .unwrap()
            .1
            .warnings
            .len(),
        1
    );
    let text = words(EngineKind::Prterun, "-host a -outfile-pattern o%r.%%x p");
    let shell = r#" exec "$@" >>'o'"$PMIX_RANK"'.''%''x' sh p"#;
    assert!(text.ends_with(&format!("{first}{shell}")), "{text}");
}

#[test]
fn srun() {
    let usual = "--mpi=pmi2 --ntasks=N --kill-on-bad-exit=1 --overcommit";
    for (line, wanted) in [
        ("-n 4 p x y", format!("{usual} --input=0 --export=ALL p x y").replace('N', "4")),
        (
            "-ppn 2 -wdir /w --map-by node p",
            format!("{usual} --distribution=cyclic --input=0 --export=ALL --chdir=/w p")
                .replace('N', "2")
                .replace(" --distribution", " --ntasks-per-node=2 --distribution"),
        ),
        (
            "-n 2 -env C x -l -q --bind-to core --map-by slot:PE=2 --stdin none p",
            format!("{usual} --cpu-bind=cores --cpus-per-task=2 --label --input=none --quiet --export=ALL /usr/bin/env C=x p")
                .replace('N', "2"),
        ),
        (
            "-n 2 -outfile-pattern o.%r.%h -stdin all -envlist A p",
            format!("{usual} --output=o.%t.%N --input=all --export=A p").replace('N', "2").replace("%2", "%N"),
        ),
    ] {
        // "PYTHONUNBUFFERED" is not on the list of the last.
        assert_eq!(words(EngineKind::Srun, line), wanted, "{line}");
    }
    let (text, command) = translate(EngineKind::Srun, "-n 3 -host a:1,b:2 p").unwrap();
    assert!(text.contains("--distribution=arbitrary --nodes=2"), "{text}");
    assert_eq!(
        content(
            command.environment[OsStr::new("SLURM_HOSTFILE")]
                .to_str()
                .unwrap()
        ),
        "a\nb\nb\n"
    );
    let (text, _command) = translate(EngineKind::Srun, "-n 1 p 1 : -wdir /w -env C x -n 2 q").unwrap();
    let file = text.rsplit(' ').next().unwrap();
    assert_eq!(content(file), "0-0 p 1\n1-2 /usr/bin/env -C /w C=x q\n");
    let three = options_with("-ppn 2 p", &|name| {
        (name == "SLURM_JOB_NUM_NODES").then(|| "3".into())
    });
    assert_eq!(three.apps[0].ranks, Some(6));
    let (text, _command) = translate(EngineKind::Srun, "-n 1 p it's %t : q").unwrap();
    let file = text.rsplit(' ').next().unwrap();
    assert_eq!(content(file), "0-0 p 'it'\\''s' '%t'\n1-1 q\n");
}

fn choice(line: &str, env: &[(&str, &str)], installed: &[&str]) -> String {
    let env = |name: &str| env.iter().find(|e| e.0 == name).map(|e| e.1.into());
    let find = |name: &OsStr| {
        installed
            .iter()
            .find(|i| **i == name)
            .map(|i| Path::new("/bin").join(i))
    };
    match choose(&options(line), &env, &find) {
        Ok(Choice::Ourselves) => "ourselves".into(),
        Ok(Choice::Engine(e)) => e.path.display().to_string(),
        Err(e) => {
            assert!(!e.text.contains('\n') && e.code != 0);
            e.text
        }
    }
}

#[test]
fn the_launcher_is_chosen() {
    let all = ["srun", "prterun", "mpiexec.hydra"];
    let slurm = [("SLURM_JOB_ID", "1"), ("SLURM_JOB_NUM_NODES", "2")];
    for (line, env, installed, wanted) in [
        ("p", &[][..], &all[..], "ourselves"),
        ("-host localhost p", &[], &all, "ourselves"),
        ("-host localhost,127.0.0.1 p", &slurm, &all, "ourselves"),
        ("-host far p", &[], &all, "/bin/prterun"),
        ("-host localhost,far p", &[], &all[2..], "/bin/mpiexec.hydra"),
        ("-host far p", &slurm, &all, "/bin/srun"),
        ("-host far p", &slurm, &all[1..], "/bin/prterun"),
        ("p", &slurm, &all, "/bin/srun"),
        ("p", &slurm, &all[1..], "ourselves"),
        (
            "p",
            &[("SLURM_JOB_ID", "1"), ("SLURM_JOB_NUM_NODES", "1")],
            &all,
            "ourselves",
        ),
        (
            "p",
            &[
                ("SLURM_JOB_ID", "1"),
                ("SLURM_STEP_NUM_NODES", "1"),
                ("SLURM_JOB_NUM_NODES", "2"),
            ],
            &all,
            "ourselves",
        ),
        ("--launcher local p", &slurm, &all, "ourselves"),
        ("--launcher hydra p", &[], &all, "/bin/mpiexec.hydra"),
        ("--launcher prterun -host far p", &slurm, &all, "/bin/prterun"),
        ("-launcher ssh -host far p", &[], &all, "/bin/prterun"),
        ("--launcher srun -host far p", &[], &all, "/bin/srun"),
    ] {
        assert_eq!(choice(line, env, installed), wanted, "{line}");
    }
    for (line, words) in [
        ("-host far p", "install PRRTE"),
        (
            "--launcher moon p",
            "--launcher moon: must be srun, prterun, hydra",
        ),
        ("--launcher local -host far p", "host far is another"),
        ("--launcher hydra p", "no mpiexec.hydra on PATH"),
        ("--launcher /nonexistent/prterun p", "no such file"),
        ("--launcher /bin/sh p", "must be srun"),
    ] {
        let said = choice(line, &[], &[]);
        assert!(said.contains(words), "{line}: {said}");
    }
}

#[test]
fn agents_are_one_more_program() {
    let hydra = words(
        EngineKind::Hydra,
        "-n 4 -host a:2,b:2 -env FARPOST_PORTALS generic p : -n 1 q",
    );
    assert!(hydra.contains("-hosts a:3,b:1,b:1,a:1,b:1 "), "{hydra}");
    let told = "-env FARPOST_PROCESSES generic:4,inline:1+2";
    assert_eq!(hydra.matches(told).count(), 3, "{hydra}");
    let agent = format!(": -n 2 -env FARPOST_PORTALS generic {told} /bin/farpost");
    assert!(hydra.ends_with(&agent), "{hydra}");

    let prterun = words(
        EngineKind::Prterun,
        "-n 2 -host a,b -genv FARPOST_PORTALS accelerated p",
    );
    assert_eq!(
        prterun.matches("FARPOST_PROCESSES=accelerated:2+2").count(),
        2,
        "{prterun}"
    );
    assert!(
        prterun.contains(": -n 2 --host a:1,b:1 ") && prterun.ends_with(" /bin/farpost"),
        "{prterun}"
    );

    // Only where somebody asks for one.
    let some = words(
        EngineKind::Hydra,
        "-n 1 -host a p : -n 2 -host b -env FARPOST_PORTALS accelerated q",
    );
    assert!(
        some.contains("-hosts a:1,b:2,b:1 ") && some.contains("inline:1,accelerated:2+1"),
        "{some}"
    );
    let none = words(EngineKind::Hydra, "-n 2 -host a,b -genv FARPOST_PORTALS inline p");
    assert!(!none.contains("FARPOST_PROCESSES"), "{none}");

    let (srun, command) =
        translate(EngineKind::Srun, "-n 2 -host a,b -genv FARPOST_PORTALS generic p").unwrap();
    assert!(
        srun.contains("--ntasks=4") && srun.contains("--multi-prog"),
        "{srun}"
    );
    let file = srun.rsplit(' ').next().unwrap();
    let programs = content(file);
    drop(command);
    assert!(
        programs.contains("2-3 /usr/bin/env") && programs.contains("FARPOST_PROCESSES=generic:2+2"),
        "{programs}"
    );

    let unnamed = translate(EngineKind::Srun, "-n 2 -genv FARPOST_PORTALS generic p").unwrap_err();
    assert!(unnamed.text.contains("name the hosts"), "{unnamed:?}");
    let wrong = translate(EngineKind::Hydra, "-n 2 -host a,b -genv FARPOST_PORTALS x p").unwrap_err();
    assert!(wrong.text.contains("FARPOST_PORTALS=x"), "{wrong:?}");
}
