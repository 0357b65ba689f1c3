//! C programs against the library as cargo just built it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where `libmpi_abi.so` is: beside this test's directory.
pub fn library_dir() -> PathBuf {
    let mut dir = std::env::current_exe().expect("the path of this test");
    dir.pop();
    if dir.join("libmpi_abi.so").exists() {
        dir
    } else {
        dir.parent().expect("target directory").to_owned()
    }
}

/// Compiles `source` with the generated header, runs it as a job of one, and leaves nothing behind.
pub fn run(name: &str, source: &str) -> Output {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("mpi.h"), mpi_abi::api_status::HEADER).unwrap();
    fs::write(dir.join("program.c"), source).unwrap();
    let link = dir.join("libmpi_abi.so.1");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(library_dir().join("libmpi_abi.so"), &link).unwrap();
    let cc = Command::new("cc")
        .args([
            "-w",
            "-I.",
            "program.c",
            "libmpi_abi.so.1",
            "-Wl,-rpath,$ORIGIN",
            "-o",
            "program",
        ])
        .current_dir(&dir)
        .status()
        .unwrap();
    assert!(cc.success());
    let output = Command::new("timeout")
        .args(["300", "./program"])
        .current_dir(&dir)
        .output()
        .unwrap();
    fs::remove_dir_all(&dir).unwrap();
    output
}
