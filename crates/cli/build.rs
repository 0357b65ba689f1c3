//! Lists the MPI functions and whether the library has them, from the same data and code as the library itself.

use std::path::Path;

use farpost_apigen::{Api, Bodies, status_source};

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let bodies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/src/calls");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", bodies.display());
    let found = Bodies::scan(&bodies).unwrap_or_else(|e| panic!("cannot read {}: {e}", bodies.display()));
    let list = status_source(&Api::builtin(), &found);
    std::fs::write(Path::new(&out).join("functions.rs"), list).expect("OUT_DIR is writable");
}
