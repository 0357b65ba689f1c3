//! The tables against what the standard counts, and what is generated from them against itself.

use std::collections::BTreeSet;

use farpost_apigen::model::Dir;
use farpost_apigen::{Api, Bodies, entry, header, reference};

#[test]
fn has_every_function_once() {
    let api = Api::builtin();
    let names: Vec<String> = api.names().map(|(name, ..)| name).collect();
    let unique: BTreeSet<&String> = names.iter().collect();
    assert_eq!((api.functions.len(), names.len(), unique.len()), (503, 664, 664));
    // Two twins are exported for programs of before, and are not of the standard.
    let unlisted: Vec<&String> = names
        .iter()
        .filter(|name| !api.listed().any(|(n, ..)| n == **name))
        .collect();
    assert_eq!(unlisted, ["MPI_Precv_init_c", "MPI_Psend_init_c"]);
    // The eleven _toint return an int that is no error code; only these and the error codes count as "int".
    let ints = api
        .listed()
        .filter(|(_, f, _)| f.returns.as_deref().is_none_or(|r| r == "int"))
        .count();
    assert_eq!(ints, 647);
}

#[test]
fn twins_differ_from_their_functions() {
    for f in Api::builtin().functions.iter().filter(|f| f.large && !f.unlisted) {
        let differs = f.params.iter().any(|p| p.c != p.c_large || p.large_only);
        assert!(differs, "{}_c would be the same as {}", f.name, f.name);
    }
}

#[test]
fn kinds_are_used() {
    let api = Api::builtin();
    let used: BTreeSet<&str> = api
        .functions
        .iter()
        .flat_map(|f| &f.params)
        .map(|p| p.kind.as_str())
        .collect();
    for line in include_str!("../../../api/kinds.toml")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let kind = line.split(' ').next().unwrap_or_default();
        assert!(used.contains(kind), "{kind} is the kind of no parameter");
    }
}

#[test]
fn results_are_not_constant() {
    for f in &Api::builtin().functions {
        for p in &f.params {
            assert!(
                p.dir == Dir::In || !p.constant,
                "{}: {} is const and a result",
                f.name,
                p.name
            );
        }
    }
}

#[test]
fn wrong_tables_are_refused_by_name() {
    let kinds = "RANK = { c = \"int\" }\n";
    let constants = include_str!("../../../api/constants.toml");
    for (table, complaint) in [
        (
            "[MPI_X]\nchapter = \"env\"\nparams = [{ name = \"r\", kind = \"RNAK\" }]",
            "MPI_X: kind RNAK",
        ),
        (
            "[MPI_X]\nchapter = \"evn\"\nparams = []",
            "MPI_X: unknown chapter \"evn\"",
        ),
        (
            "[MPI_X]\nchapter = \"env\"\nparams = [{ name = \"r\", kind = \"RANK\", len = \"n\" }]",
            "no parameter",
        ),
        (
            "[MPI_X]\nchapter = \"env\"\nparams = [{ name = \"r\", kind = \"RANK\", dir = \"up\" }]",
            "dir = \"up\"",
        ),
        ("[MPI_X", "api/mpi.toml"),
    ] {
        let error = Api::parse(table, kinds, constants)
            .err()
            .expect(table)
            .to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn entry_points_check_before_they_call() {
    let api = Api::builtin();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/src");
    let text = entry::source(
        &api,
        &Bodies::scan(&dir, Bodies::ORDINARY).expect("the bodies"),
        &Bodies::default(),
    );
    let from = text.find("fn long_mpi_send(").expect("MPI_Send");
    let send = &text[from..from + text[from..].find("\n}\n").expect("its end")];
    let mut at = 0;
    for step in [
        "cx.comm(",
        "cx.committed(",
        "args::non_negative(\"count\"",
        "args::dest(",
        "args::tag(",
        "args::buffer(",
    ] {
        let found = send
            .find(step)
            .unwrap_or_else(|| panic!("{step} is missing in {send}"));
        assert!(found > at, "{step} comes too early in {send}");
        at = found;
    }
    for name in ["MPI_Send(", "PMPI_Send(", "MPI_Send_c(", "PMPI_Send_c("] {
        assert!(text.contains(&format!("extern \"C\" fn {name}")), "{name}");
    }
}

#[test]
fn header_and_reference_have_every_function() {
    let api = Api::builtin();
    let (header, page) = (header::header(&api), reference::page(&api, &Bodies::default()));
    for (name, ..) in api.listed() {
        // Declared once; the names of MPI-1 at the end call some.
        let declared = |name: &str| {
            let lines = header
                .lines()
                .filter(|line| !line.starts_with([' ', '\t']) && !line.contains("return "));
            lines.filter(|line| line.contains(&format!(" {name}("))).count()
        };
        assert_eq!(declared(&name), 1, "{name} in mpi.h");
        assert_eq!(declared(&format!("P{name}")), 1, "P{name} in mpi.h");
        assert!(
            page.contains(&format!("| `{name}` | missing")),
            "{name} in the reference"
        );
    }
    assert!(page.contains("662 functions: 647 return an `int` and 15 another type"));
}

#[test]
fn reference_page_is_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bodies = Bodies::scan(&root.join("crates/capi/src"), Bodies::ORDINARY).expect("the bodies");
    let committed =
        std::fs::read_to_string(root.join("docs/reference/mpi.md")).expect("docs/reference/mpi.md");
    assert!(
        committed == reference::page(&Api::builtin(), &bodies),
        "docs/reference/mpi.md is out of date: run `make docs` and commit it"
    );
}
