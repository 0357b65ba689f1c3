//! Command lines, right and wrong.

use super::*;
use crate::environment::Rules;
use crate::options::Marks;
use proptest::prelude::*;

fn try_parse(line: &str) -> Result<Request, Refusal> {
    parse(line.split_whitespace().map(OsString::from).collect(), &|_| None)
}

fn run(line: &str) -> Options {
    match try_parse(line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn ranks_in_all_spellings() {
    for line in [
        "-n 4 p",
        "-np 4 p",
        "--n 4 p",
        "--np 4 p",
        "-c 4 p",
        "-n=4 p",
        "--np=4 p",
        "-n4 p",
        "-ppn 4 p",
        "--map-by ppr:4:node p",
    ] {
        assert_eq!(run(line).apps[0].ranks, Some(4), "{line}");
    }
    assert_eq!(run("p").apps[0].ranks, Some(1));
}

#[test]
fn the_program_ends_the_options() {
    let o = run("-n 2 p -n 3 --help");
    assert_eq!(o.apps[0].args, ["-n", "3", "--help"]);
    let o = run("-n 2 -- -odd x");
    assert_eq!(
        (o.apps[0].program.to_str(), o.apps[0].args.len()),
        (Some("-odd"), 1)
    );
}

#[test]
fn several_programs() {
    let o = run("-genv G 1 -n 1 -env A x -wdir / a 1 : -n 2 --host localhost b : c");
    assert_eq!(
        o.apps.iter().map(|a| a.ranks.unwrap()).collect::<Vec<_>>(),
        [1, 2, 1]
    );
    assert_eq!(o.apps[0].rules.set, [("A".into(), "x".into())]);
    assert_eq!(o.apps[1].rules, Rules::default());
    assert_eq!(o.rules.set, [("G".into(), "1".into())]);
    assert_eq!(o.apps[0].directory.as_deref(), Some(std::path::Path::new("/")));
    for line in ["-n 1 a :", ": a", "a : : b", "-n 1 a : -n 2"] {
        assert!(try_parse(line).is_err(), "{line}");
    }
}

#[test]
fn options_of_both_families_are_understood() {
    let o = run(
        "--bind-to core --map-by socket:PE=2 --rank-by slot --report-bindings --tag-output --timestamp-output \
                 -l --timeout 2.5 -v -q --oversubscribe --use-hwthread-cpus --allow-run-as-root --merge-stderr-to-stdout \
                 --stdin 1 -x A=b -x C -genvlist D,E -host localhost:4 -n 2 p",
    );
    assert_eq!(
        (o.bind, o.map, o.cores_per_rank, o.use_hwthreads),
        (Bind::Core, Map::Socket, 2, true)
    );
    assert_eq!(
        o.marks,
        Marks {
            rank: true,
            tag: true,
            time: true
        }
    );
    assert_eq!(o.timeout, Some(Duration::from_millis(2500)));
    assert_eq!(o.stdin, Stdin::Rank(1));
    assert_eq!(o.rules.set, [("A".into(), "b".into())]);
    assert_eq!(o.rules.export, ["C"]);
    assert_eq!(o.rules.base, Some(Base::List(vec!["D".into(), "E".into()])));
    assert!(o.verbose && o.quiet && o.merge && o.report_bindings && o.warnings.is_empty());
    assert_eq!(
        run("--output-filename d p").files,
        Some(Files::Directory("d".into()))
    );
    assert_eq!(
        run("-outfile-pattern o%r -errfile-pattern e p").files,
        Some(Files::Patterns(Some("o%r".into()), Some("e".into())))
    );
    assert!(run("--output tag,timestamp,merge p").merge);
    let far = run(
        "--mca btl self --prtemca x y --mca plm_rsh_agent rsh -launcher hydra -iface eth0 --map-by node p",
    )
    .far;
    assert_eq!(
        far.parameters,
        [["mca", "btl", "self"], ["prtemca", "x", "y"]].map(|p| p.map(String::from))
    );
    assert_eq!(far.remote_shell.as_deref(), Some("rsh"));
    assert_eq!(far.launcher.as_deref(), Some("hydra"));
    assert_eq!(far.interface.as_deref(), Some("eth0"));
    assert_eq!(
        run("--interface 10.1.0.0/16 p").rules.set,
        [("FARPOST_INTERFACE".into(), "10.1.0.0/16".into())]
    );
    assert!(far.cyclic && !run("--map-by slot p").far.cyclic);
    for go_on in [
        "--on-failure continue",
        "--on-failure=continue",
        "--enable-recovery",
        "-disable-auto-cleanup",
    ] {
        let o = run(&format!("{go_on} p"));
        assert!(o.go_on && o.warnings.is_empty(), "{go_on}");
    }
    assert!(!run("p").go_on && !run("--on-failure continue --on-failure end p").go_on);
    assert_eq!(try_parse("--help"), Ok(Request::Help));
    assert_eq!(try_parse("-n 2 --version"), Ok(Request::Version));
}

#[test]
fn hosts_belong_to_programs() {
    let o = run("-host a,b:2 -n 3 x : -H c y");
    assert_eq!(o.apps[0].hosts.len(), 2);
    assert_eq!(
        (o.apps[1].hosts[0].name.as_str(), o.apps[1].hosts[0].slots),
        ("c", None)
    );
    // Per host means per host, not per name of it.
    assert_eq!(run("-ppn 2 -hosts a,b,a p").apps[0].ranks, Some(4));
    assert_eq!(run("-ppn 2 -hosts localhost,127.0.0.1 p").apps[0].ranks, Some(2));
    let env = |name: &str| match name {
        "FARPOST_RSH" => Some("nsh -x".into()),
        "FARPOST_LAUNCHER" => Some(OsString::from("prterun")),
        _ => None,
    };
    let Ok(Request::Run(o)) = parse(vec!["p".into()], &env) else {
        panic!()
    };
    assert_eq!(o.far.remote_shell.as_deref(), Some("nsh -x"));
    assert_eq!(o.far.launcher.as_deref(), Some("prterun"));
}

#[test]
fn bad_lines_are_refused_with_the_argument_and_what_is_allowed() {
    for (line, words) in [
        ("", "no program"),
        ("-n 4", "no program"),
        ("-n", "needs a value"),
        ("-n 0 p", "from 1 to"),
        ("-n -3 p", "from 1 to"),
        ("-n many p", "many"),
        ("-n 99999999999 p", "from 1 to"),
        ("-n 16000 p : -n 16000 p", "32000 ranks"),
        ("--frobnicate p", "unknown option --frobnicate"),
        ("-lx p", "unknown option -lx"),
        ("--bind-to moon p", "hwthread"),
        ("--map-by moon p", "socket"),
        ("--timeout soon p", "seconds"),
        ("--on-failure panic p", "continue or end"),
        ("--timeout -1 p", "seconds"),
        ("-host else/where p", "else/where"),
        ("-host a:0 p", "slots"),
        ("-host , p", "empty"),
        ("-hostfile /nonexistent/file p", "/nonexistent/file"),
        ("-configfile /nonexistent/file", "/nonexistent/file"),
        ("-env", "needs a value"),
        ("-env =x p", "empty"),
        ("-stdin 7 -n 2 p", "ranks 0 to 1"),
        ("-stdin some p", "all or none"),
        ("-v=3 p", "takes no value"),
        ("--output moon p", "timestamp"),
    ] {
        let error = try_parse(line).map(|_| ()).unwrap_err();
        assert!(
            error.text.contains(words) && !error.text.contains('\n'),
            "{line}: {}",
            error.text
        );
        assert_ne!(error.code, 0);
    }
    let env = |name: &str| (name == "MPIEXEC_TIMEOUT").then(|| OsString::from("x"));
    assert!(
        parse(vec!["p".into()], &env)
            .unwrap_err()
            .text
            .contains("MPIEXEC_TIMEOUT")
    );
}

proptest! {
    #[test]
    fn any_line_is_understood_or_refused_in_one_line(words in proptest::collection::vec("(-{0,2}(n|np|x|env|host|wdir|l|bind-to|map-by|stdin|mca|output|path)(=[ -~]{0,3})?|:|[ -~]{0,6})", 0..8)) {
        match parse(words.into_iter().map(OsString::from).collect(), &|_| None) {
            Ok(Request::Run(o)) => prop_assert!(o.apps.iter().all(|a| !a.program.is_empty() || a.args.is_empty())),
            Ok(_) => {}
            Err(e) => prop_assert!(!e.text.is_empty() && e.code != 0),
        }
    }
}

#[test]
fn a_check_is_a_variable_of_all_ranks() {
    for (line, value) in [
        ("--check -n 2 p : -n 1 q", "1"),
        ("-n 2 p : --check=all,error -n 1 q", "all,error"),
    ] {
        let options = run(line);
        assert_eq!(
            options.rules.set,
            [("FARPOST_CHECK".into(), value.into())],
            "{line}"
        );
        assert_eq!(options.apps.len(), 2);
    }
}
