//! Which functions have a hand-written body, read from the sources under `crates/capi/src/calls/` (and, for programs that are
//! checked, `crates/capi/src/check/`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::model::Function;

/// Macros that make bodies, all of which take a `Checking`; the names follow.
const MACROS: [&str; 2] = ["\nthree_ways!(", "\nsends!("];

/// How a body says that it is for checked programs as well.
const TAKES_CHECKING: &str = "<C: Checking>";

/// Where a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub module: String,
    /// It takes a `Checking` before the arguments, and is for ordinary and checked programs.
    pub takes_checking: bool,
}

/// Bodies found, by name.
#[derive(Default)]
pub struct Bodies(BTreeMap<String, Body>);

impl Bodies {
    /// Reads every `*.rs` directly in `dir` and takes each `pub(crate) fn mpi_...` (or `unsafe fn`) as a body
    /// that lives in the module named like the file, and so the names after `three_ways!(`, the macro that makes
    /// the blocking, nonblocking and persistent form of a collective, and its kin ([`MACROS`]).
    ///
    /// # Errors
    /// When the directory or a file in it cannot be read, or a function has two bodies.
    pub fn scan(dir: &Path) -> io::Result<Bodies> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let module = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path)?;
            // The names in the macro may stand on lines of their own.
            let macros = MACROS
                .iter()
                .flat_map(|it| text.split(it).skip(1).flat_map(three_ways))
                .map(|name| (name, true));
            for (name, takes_checking) in text.lines().filter_map(body_name).chain(macros) {
                let body = Body {
                    module: module.clone(),
                    takes_checking,
                };
                if let Some(Body { module: other, .. }) = found.insert(name.to_owned(), body) {
                    let text = format!("{name} has two bodies: in {other}.rs and in {module}.rs");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(Bodies(found))
    }

    /// The body of `function`.
    pub fn get(&self, function: &Function) -> Option<&Body> {
        self.0.get(&function.body())
    }

    /// Is there a body?
    pub fn has(&self, function: &Function) -> bool {
        self.get(function).is_some()
    }

    /// Names of bodies that belong to no function of the table.
    pub fn strays<'a>(&'a self, functions: &'a [Function]) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| !functions.iter().any(|f| f.body() == *name))
    }
}

/// The name of the body that begins on this line, and whether it takes a `Checking`.
fn body_name(line: &str) -> Option<(&str, bool)> {
    let rest = line.strip_prefix("pub(crate) ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, behind) = rest.split_at(end);
    name.starts_with("mpi_")
        .then_some((name, behind.starts_with(TAKES_CHECKING)))
}

/// The names at the start of what follows `three_ways!(`.
fn three_ways(rest: &str) -> impl Iterator<Item = &str> {
    rest.split(&[',', ' ', ';', '\n'])
        .take_while(|word| !word.contains('('))
        .filter(|word| word.starts_with("mpi_"))
}

#[cfg(test)]
mod tests {
    use super::{body_name, three_ways};

    #[test]
    fn finds_the_forms_of_a_collective() {
        let found: Vec<_> =
            three_ways("\n    mpi_bcast,\n    mpi_ibcast, mpi_bcast_init, bcast(buf: Ptr));").collect();
        assert_eq!(found, ["mpi_bcast", "mpi_ibcast", "mpi_bcast_init"]);
    }

    #[test]
    fn finds_bodies_and_nothing_else() {
        assert_eq!(
            body_name("pub(crate) fn mpi_send(cx: &Cx,"),
            Some(("mpi_send", false))
        );
        assert_eq!(
            body_name("pub(crate) unsafe fn mpi_recv<T>("),
            Some(("mpi_recv", false))
        );
        assert_eq!(
            body_name("pub(crate) fn mpi_probe<C: Checking>("),
            Some(("mpi_probe", true))
        );
        assert_eq!(body_name("    pub(crate) fn mpi_inner("), None);
        assert_eq!(body_name("// pub(crate) fn mpi_send("), None);
        assert_eq!(body_name("fn mpi_send("), None);
        assert_eq!(body_name("pub(crate) fn helper("), None);
    }
}
