//! What tests of all crates share: how a test says that it could not run, and the number that choices are made from.
//!
//! Cost class: tests only.

use std::path::Path;
use std::process::Command;

/// Set to 1 (by `.ci/run`): a test that cannot run for want of something that could have been installed has failed.
pub const STRICT: &str = "TEST_STRICT";

/// A test could not run for want of something that can be installed: `why` says what.
///
/// # Panics
/// If `TEST_STRICT` is 1.
pub fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert!(
        std::env::var_os(STRICT).is_none_or(|value| value != "1"),
        "{STRICT}=1, and a test was skipped: {why}"
    );
}

/// A part of a test has no meaning on this machine, whatever is installed: `why` says so.
pub fn not_here(why: &str) {
    eprintln!("not here: {why}");
}

/// A number made from the content of the commit (`scripts/tree.sh`), for seeds: the same commit tests the same. `TREE=...` in the
/// environment repeats another tree's.
///
/// # Panics
/// If the script cannot be run, or `TREE` is no hexadecimal number.
pub fn number_of_tree() -> u64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tree.sh");
    let output = Command::new(&script)
        .arg("--number")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(
        output.status.success(),
        "{}: {}",
        script.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|error| panic!("{}: {text}: {error}", script.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_one_number() {
        assert_eq!(number_of_tree(), number_of_tree());
        assert!(number_of_tree() < 1 << 31);
    }
}
