//! Lists the MPI functions and whether the library has them, from the same data and code as the library itself.

use std::path::Path;

use farpost_apigen::{Api, Bodies, status_source};

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/src");
    println!("cargo::rerun-if-changed=build.rs");
    for place in Bodies::ORDINARY {
        println!("cargo::rerun-if-changed={}", src.join(place).display());
    }
    let found = Bodies::scan(&src, Bodies::ORDINARY);
    let found = found.unwrap_or_else(|e| panic!("cannot read the bodies in {}: {e}", src.display()));
    let list = status_source(&Api::builtin(), &found);
    std::fs::write(Path::new(&out).join("functions.rs"), list).expect("OUT_DIR is writable");
}
