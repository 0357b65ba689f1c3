//! What the shared object exports: the names of the interface and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use farpost_apigen::{Interface, Mpi1};

/// `libmpi_abi.so` as cargo just built it, beside this test's directory.
fn library() -> PathBuf {
    let mut dir = std::env::current_exe().expect("the path of this test");
    dir.pop();
    let name = "libmpi_abi.so";
    let beside = dir.join(name);
    if beside.exists() {
        beside
    } else {
        dir.parent().expect("target directory").join(name)
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .arg(library())
        .output()
        .unwrap_or_else(|e| panic!("cannot run {program}: {e}"));
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn exports_the_interface_and_nothing_else() {
    let exported: BTreeSet<String> = run("nm", &["-D", "--defined-only"])
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned))
        .collect();
    let list = include_str!("../../../tests/abi/functions.txt");
    let names = list.lines().map(|line| line.split('\t').next().expect("a name"));
    let mut wanted: BTreeSet<String> = names.flat_map(|n| [n.to_owned(), format!("P{n}")]).collect();
    assert_eq!(wanted.len(), 1324);
    // Declared by earlier headers.
    for name in ["MPI_Precv_init_c", "MPI_Psend_init_c"] {
        wanted.extend([name.to_owned(), format!("P{name}")]);
    }
    for removed in Mpi1::builtin().functions {
        wanted.extend([removed.name.clone(), format!("P{}", removed.name)]);
    }
    assert_eq!(wanted.len(), 1348);
    for of in Interface::all() {
        wanted.extend(of.exported().map(str::to_owned));
    }
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let extra: Vec<_> = exported.difference(&wanted).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:?}, not of the interface {extra:?}"
    );
}

#[test]
fn is_named_as_the_abi_asks() {
    let dynamic = run("readelf", &["-d"]);
    let soname = dynamic
        .lines()
        .find(|line| line.contains("SONAME"))
        .expect("a SONAME");
    assert!(soname.contains("[libmpi_abi.so.1]"), "{soname}");
}

/// A tool that defines `MPI_X` has to find the library's own function under `PMPI_X`: two symbols, both
/// dynamic and strong or weak, none bound inside the library. What the interfaces beside MPI export as data is data.
#[test]
fn every_name_can_be_interposed() {
    let symbols = run("nm", &["-D", "--defined-only"]);
    for line in symbols.lines() {
        let kind = line.split_whitespace().nth(1).expect("a kind");
        let name = line.split_whitespace().nth(2).expect("a name");
        let data = Interface::all()
            .iter()
            .any(|of| of.variable.iter().any(|v| v.name == name));
        assert!(
            if data {
                matches!(kind, "B" | "D")
            } else {
                matches!(kind, "T" | "W")
            },
            "{line}"
        );
    }
}
