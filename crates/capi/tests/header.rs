//! `mpi.h` against an independent list of the ABI's constants and prototypes (`tests/abi/`).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A C program that fails to compile where the header disagrees with the list.
fn program() -> String {
    let mut c = String::from(
        "#include <mpi.h>\n#include <stddef.h>\n#define SAME(n, c) typedef char same_##n[(c) ? 1 : -1]\n",
    );
    for line in include_str!("../../../tests/abi/constants.txt").lines() {
        let [name, ty, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        if ty == "int" {
            writeln!(c, "SAME({name}, {name} == {value});").unwrap();
        } else {
            // Handles are addresses: their values are checked when the program runs, their types here.
            writeln!(
                c,
                "static {ty}{}typed_{name} = {name};",
                if ty.ends_with('*') { "" } else { " " }
            )
            .unwrap();
        }
    }
    for (name, field, offset) in [
        ("source", "MPI_SOURCE", 0),
        ("tag", "MPI_TAG", 4),
        ("error", "MPI_ERROR", 8),
        ("internal", "MPI_internal", 12),
    ] {
        writeln!(
            c,
            "SAME(status_{name}, offsetof(MPI_Status, {field}) == {offset});"
        )
        .unwrap();
    }
    c.push_str("SAME(status_size, sizeof(MPI_Status) == 32);\n");
    c.push_str("SAME(aint, sizeof(MPI_Aint) == sizeof(void *));\nSAME(count, sizeof(MPI_Count) == 8);\n");
    c.push_str("SAME(offset, sizeof(MPI_Offset) == 8);\n");
    for line in include_str!("../../../tests/abi/functions.txt").lines() {
        let (name, prototype) = line.split_once('\t').expect(line);
        let (result, params) = prototype.split_once(' ').expect(line);
        for name in [name.to_owned(), format!("P{name}")] {
            writeln!(c, "{result} (*at_{name}){params} = &{name};").unwrap();
        }
    }
    c.push_str("int main(void) {\n    int bad = 0;\n    typedef char *address;\n");
    for line in include_str!("../../../tests/abi/constants.txt").lines() {
        let [name, ty, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        if ty != "int" {
            writeln!(c, "    if ((MPI_Aint)typed_{name} != (MPI_Aint){value}) bad++;").unwrap();
        }
    }
    c.push_str("    (void)(address)0;\n    return bad;\n}\n");
    c
}

fn compile(compiler: &str, args: &[&str], name: &str) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
    fs::write(dir.join("check.c"), program()).unwrap();
    let output = Command::new(compiler)
        .args(args)
        .args(["-Wall", "-Werror", "-Wno-unused", "-I."])
        .args(["-c", "check.c", "-o", "check.o"])
        .current_dir(&dir)
        .output()
        .unwrap_or_else(|e| panic!("cannot run {compiler}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}",
        said.lines().take(40).collect::<Vec<_>>().join("\n")
    );
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn agrees_with_the_abi_in_c() {
    compile("cc", &["-std=c99", "-pedantic"], "c99");
}

#[test]
fn old_c_can_read_it() {
    compile("cc", &["-std=c89", "-pedantic"], "c89");
}

#[test]
fn agrees_with_the_abi_in_cxx() {
    compile("c++", &["-x", "c++", "-std=c++11"], "cxx");
}

/// Handles and addresses have their values when the program runs.
#[test]
fn values_of_handles() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("values");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
    let mut text = program();
    // Without the functions, so that nothing is left to link.
    text = text
        .lines()
        .filter(|line| !line.contains("(*at_"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(dir.join("values.c"), text).unwrap();
    let cc = Command::new("cc")
        .args(["-I.", "values.c", "-o", "values"])
        .current_dir(&dir)
        .status()
        .unwrap();
    assert!(cc.success());
    let run = Command::new(dir.join("values")).status().unwrap();
    assert_eq!(run.code(), Some(0), "so many handle values differ");
    fs::remove_dir_all(&dir).unwrap();
}
