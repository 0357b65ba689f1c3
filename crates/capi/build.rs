//! Generates the constants, the entry points and `mpi.h` from `api/*.toml`, and names the shared object.

use std::path::{Path, PathBuf};
use std::{env, fs};

use farpost_apigen::{Api, Bodies, Interface, abi, entry, header, interface, mpi1, status_source};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let src = here.join("src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", src.display());
    let api = Api::builtin();
    let [bodies, checked] = [Bodies::ORDINARY, Bodies::CHECKED].map(|places| {
        let found = Bodies::scan(&src, places);
        let found = found.unwrap_or_else(|e| panic!("cannot read the bodies in {places:?}: {e}"));
        if let Some(stray) = found.strays(&api.functions).next() {
            panic!("{stray} in {places:?} is no function of api/mpi.toml");
        }
        found
    });
    let interfaces = Interface::all();
    write(&out, "abi.rs", &abi::source(&api));
    write(
        &out,
        "entry.rs",
        &(entry::source(&api, &bodies, &checked) + &mpi1::source(&api)),
    );
    write(&out, "names.rs", &entry::names(&api));
    write(&out, "arg.rs", &entry::argument_structures(&api, &bodies));
    write(&out, "api_status.rs", &status_source(&api, &bodies));
    write(&out, "mpi.h", &header::header(&api));
    write(&out, "interfaces.rs", &interface::rust::source(&interfaces));
    write(&out, "beside.rs", &interface::rust::entry_points(&interfaces));
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::write(&path, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
