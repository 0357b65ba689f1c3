//! Which functions have a hand-written body, read from the sources under `crates/capi/src/imp/`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::model::Function;

/// Bodies found: name to module.
#[derive(Default)]
pub struct Bodies(BTreeMap<String, String>);

impl Bodies {
    /// Reads every `*.rs` directly in `dir` and takes each `pub(crate) fn mpi_...` (or `unsafe fn`) as a body
    /// that lives in the module named like the file.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be read.
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
            for line in fs::read_to_string(&path)?.lines() {
                if let Some(name) = body_name(line) {
                    found.insert(name.to_owned(), module.clone());
                }
            }
        }
        Ok(Bodies(found))
    }

    /// The module with the body of `function`.
    pub fn module(&self, function: &Function) -> Option<&str> {
        self.0.get(&function.body()).map(String::as_str)
    }

    /// Is there a body?
    pub fn has(&self, function: &Function) -> bool {
        self.module(function).is_some()
    }

    /// Names of bodies that belong to no function of the table.
    pub fn strays<'a>(&'a self, functions: &'a [Function]) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| !functions.iter().any(|f| f.body() == *name))
    }
}

fn body_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub(crate) ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    rest[..end].starts_with("mpi_").then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::body_name;

    #[test]
    fn finds_bodies_and_nothing_else() {
        assert_eq!(body_name("pub(crate) fn mpi_send(cx: &Cx,"), Some("mpi_send"));
        assert_eq!(body_name("pub(crate) unsafe fn mpi_recv<T>("), Some("mpi_recv"));
        assert_eq!(body_name("    pub(crate) fn mpi_inner("), None);
        assert_eq!(body_name("// pub(crate) fn mpi_send("), None);
        assert_eq!(body_name("fn mpi_send("), None);
        assert_eq!(body_name("pub(crate) fn helper("), None);
    }
}
