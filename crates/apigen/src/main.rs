//! `farpost-apigen`: writes what is generated from `api/*.toml`.

use std::path::Path;
use std::process::ExitCode;

use farpost_apigen::{Api, Bodies, Interface, header, interface, reference};

const USAGE: &str = "usage: farpost-apigen header|reference|pkgconfig NAME FILE
       farpost-apigen interfaces
NAME: mpi, or one of those that `interfaces` lists";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("farpost-apigen: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (text, path) = match args[..] {
        ["interfaces"] => {
            for of in Interface::all() {
                println!("{}", of.interface.name);
            }
            return Ok(());
        }
        [what, "mpi", path] => (of_mpi(what)?, path),
        [what, name, path] => (of_interface(what, name)?, path),
        _ => return Err(format!("wrong arguments\n{USAGE}")),
    };
    std::fs::write(path, text).map_err(|e| format!("cannot write {path}: {e}"))
}

fn of_mpi(what: &str) -> Result<String, String> {
    match what {
        "header" => Ok(header::header(&Api::builtin())),
        "reference" => {
            let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/src");
            let found = Bodies::scan(&src, Bodies::ORDINARY);
            let found = found.map_err(|e| format!("cannot read the bodies in {}: {e}", src.display()))?;
            Ok(reference::page(&Api::builtin(), &found))
        }
        _ => Err(format!("{what:?} is neither header nor reference\n{USAGE}")),
    }
}

fn of_interface(what: &str, name: &str) -> Result<String, String> {
    let all = Interface::all();
    let of = all
        .iter()
        .find(|of| of.interface.name == name)
        .ok_or_else(|| format!("there is no interface {name:?}\n{USAGE}"))?;
    match what {
        "header" => Ok(interface::header::header(of)),
        "reference" => Ok(interface::page::page(of)),
        "pkgconfig" => Ok(of.pkgconfig()),
        _ => Err(format!(
            "{what:?} is none of header, reference, pkgconfig\n{USAGE}"
        )),
    }
}
