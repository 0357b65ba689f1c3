//! `farpost-apigen`: writes what is generated from `api/*.toml`.

use std::path::Path;
use std::process::ExitCode;

use farpost_apigen::{Api, Bodies, header, reference};

const USAGE: &str = "usage: farpost-apigen header FILE | reference FILE";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = &args[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let api = Api::builtin();
    let text = match what.as_str() {
        "header" => header::header(&api),
        "reference" => {
            let bodies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/src/imp");
            match Bodies::scan(&bodies) {
                Ok(bodies) => reference::page(&api, &bodies),
                Err(e) => {
                    eprintln!("farpost-apigen: cannot read {}: {e}", bodies.display());
                    return ExitCode::FAILURE;
                }
            }
        }
        other => {
            eprintln!("farpost-apigen: {other:?} is neither header nor reference\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(e) = std::fs::write(path, text) {
        eprintln!("farpost-apigen: cannot write {path}: {e}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
