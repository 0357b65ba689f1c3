//! The headers of the interfaces beside MPI: C99 and C++17 read them, and a C compiler lays types out as Rust does.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use farpost_apigen::{Interface, interface};

/// A directory with all headers, emptied.
fn headers(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("farpost")).unwrap();
    for of in Interface::all() {
        fs::write(dir.join(&of.interface.header), interface::header::header(&of)).unwrap();
    }
    dir
}

fn compile(dir: &Path, compiler: &str, args: &[&str]) {
    let output = Command::new(compiler)
        .args(args)
        .args(["-Wall", "-Wextra", "-Werror", "-I."])
        .current_dir(dir)
        .output()
        .unwrap_or_else(|e| panic!("cannot run {compiler}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let first: Vec<_> = said.lines().take(40).collect();
    assert!(
        output.status.success(),
        "{compiler} {args:?}:\n{}",
        first.join("\n")
    );
}

/// Alone, twice, and with each other.
#[test]
fn c_and_cxx_read_the_headers() {
    let dir = headers("interface-headers");
    let mut together = String::new();
    for of in Interface::all() {
        let include = format!("#include <{}>\n", of.interface.header);
        let alone = format!("{include}{include}int main(void) {{ return 0; }}\n");
        fs::write(dir.join("alone.c"), &alone).unwrap();
        if of.interface.includes.iter().any(|header| header == "mpi.h") {
            fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
        }
        compile(&dir, "cc", &["-std=c99", "-pedantic", "-fsyntax-only", "alone.c"]);
        compile(
            &dir,
            "c++",
            &["-std=c++17", "-pedantic", "-fsyntax-only", "-x", "c++", "alone.c"],
        );
        // The others do without.
        _ = fs::remove_file(dir.join("mpi.h"));
        together.push_str(&include);
    }
    fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
    together.push_str("#include <mpi.h>\nint main(void) { return 0; }\n");
    fs::write(dir.join("together.c"), together).unwrap();
    compile(
        &dir,
        "cc",
        &["-std=c99", "-pedantic", "-fsyntax-only", "together.c"],
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// Sizes, offsets and values, as the C compiler has them.
#[test]
fn types_are_laid_out_alike() {
    let dir = headers("interface-layouts");
    fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
    for (name, layout) in mpi_abi::interfaces::LAYOUTS {
        let mut c = format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include <farpost/{name}.h>\nint main(void) {{\n"
        );
        for (expression, _) in *layout {
            writeln!(c, "    printf(\"%lld\\n\", (long long)({expression}));").unwrap();
        }
        c.push_str("    return 0;\n}\n");
        fs::write(dir.join("layout.c"), c).unwrap();
        compile(&dir, "cc", &["-std=c99", "layout.c", "-o", "layout"]);
        let output = Command::new(dir.join("layout")).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let values: Vec<i64> = said.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(values.len(), layout.len());
        for ((expression, rust), c) in layout.iter().zip(values) {
            assert_eq!(*rust, c, "{expression} of farpost/{name}.h: in Rust, in C");
        }
    }
    fs::remove_dir_all(&dir).unwrap();
}
