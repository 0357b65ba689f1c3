//! Which functions have a hand-written body, read from the sources of `capi`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::model::Function;

/// Macros that make bodies: how one begins and ends, and what the bodies do whose names stand between.
const MACROS: &[(&str, &str, Does)] = &[
    ("\nsends!(", ");", Does::Checking),
    ("\ncollectives! {", "\n}", RUN),
    ("\nintegers! {", "\n}", Does::All),
];

const RUN: Does = Does::Collective("Run");

/// How a body says that it is for checked programs as well.
const TAKES_CHECKING: &str = "<C: Checking>";

/// How a body says that it only checks the arguments of a collective, which serves its three forms.
const COLLECTIVE: &str = "-> Result<Collective>";

/// What a body does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// What the function does.
    All,
    /// That, for ordinary and checked programs: it takes a `Checking` before the arguments.
    Checking,
    /// It checks the arguments of a collective of this form.
    Collective(&'static str),
}

/// Where a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub module: String,
    /// Its name: that of the blocking function, for a collective.
    pub name: String,
    pub does: Does,
}

/// The functions that a body is of, in lower case.
fn functions(name: &str, does: Does) -> Vec<(String, Does)> {
    let Does::Collective(_) = does else {
        return vec![(name.to_owned(), does)];
    };
    let plain = name.trim_start_matches("mpi_");
    vec![
        (name.to_owned(), RUN),
        (format!("mpi_i{plain}"), Does::Collective("Start")),
        (format!("{name}_init"), Does::Collective("Persistent")),
    ]
}

/// Bodies found, by name.
#[derive(Default)]
pub struct Bodies(BTreeMap<String, Body>);

impl Bodies {
    /// Where bodies are, below `crates/capi/src`: of ordinary programs, and those that checked programs have beside them.
    pub const ORDINARY: &[&str] = &["calls", "init.rs"];
    pub const CHECKED: &[&str] = &["check"];

    /// Reads each place below `src`, a file or a folder whose `*.rs` files are read, and takes each `pub(crate) fn mpi_...` (or
    /// `unsafe fn`) as a body that lives in the module of its file, and so the names in one of `MACROS`. One that gives a `Collective`
    /// is the body of the blocking, nonblocking and persistent form.
    ///
    /// # Errors
    /// When a folder or a file cannot be read, or a function has two bodies.
    pub fn scan(src: &Path, places: &[&str]) -> io::Result<Bodies> {
        let mut bodies = Bodies::default();
        for place in places {
            match place.strip_suffix(".rs") {
                Some(module) => bodies.read(&src.join(place), module.into())?,
                None => {
                    for entry in fs::read_dir(src.join(place))? {
                        let name = entry?.file_name().to_string_lossy().into_owned();
                        if let Some(module) = name.strip_suffix(".rs") {
                            bodies.read(&src.join(place).join(&name), format!("{place}::{module}"))?;
                        }
                    }
                }
            }
        }
        Ok(bodies)
    }

    fn read(&mut self, path: &Path, module: String) -> io::Result<()> {
        let text = fs::read_to_string(path)?;
        let written = text.split("\npub(crate) ").skip(1).filter_map(body);
        let made = MACROS.iter().flat_map(|(begin, end, does)| {
            let uses = text.split(begin).skip(1);
            uses.flat_map(|rest| names(rest, end)).map(|name| (name, *does))
        });
        for (name, does) in written.chain(made) {
            for (function, does) in functions(name, does) {
                let body = Body {
                    module: module.clone(),
                    name: name.to_owned(),
                    does,
                };
                if let Some(Body { module: other, .. }) = self.0.insert(function, body) {
                    let text = format!("{name} has two bodies: in {other} and in {module}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }

    /// The body of `function`.
    pub fn get(&self, function: &Function) -> Option<&Body> {
        self.0.get(&function.served_by())
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

/// The name of the body that begins behind a `pub(crate)`, and what it does.
fn body(rest: &str) -> Option<(&str, Does)> {
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, behind) = rest.split_at(end);
    let (signature, _) = behind.split_once('{')?;
    let does = match signature {
        it if it.starts_with(TAKES_CHECKING) => Does::Checking,
        it if it.contains(COLLECTIVE) => RUN,
        _ => Does::All,
    };
    name.starts_with("mpi_").then_some((name, does))
}

/// The names up to `end`.
fn names<'a>(rest: &'a str, end: &str) -> impl Iterator<Item = &'a str> {
    let list = rest.split(end).next().unwrap_or_default();
    list.split([',', ' ', ':', ';', '\n'])
        .filter(|word| word.starts_with("mpi_"))
}

#[cfg(test)]
mod tests {
    use super::{Does, body, functions, names};

    #[test]
    fn finds_the_forms_of_a_send() {
        let found: Vec<_> = names(
            "\n    mpi_send: Send,\n    mpi_isend: Isend, mpi_send_init: SendInit, STANDARD);\nmpi_x",
            ");",
        )
        .collect();
        assert_eq!(found, ["mpi_send", "mpi_isend", "mpi_send_init"]);
    }

    #[test]
    fn finds_the_forms_of_a_collective() {
        let (name, does) =
            body("unsafe fn mpi_bcast(cx: &Cx,\n    a: arg::Bcast,\n) -> Result<Collective> {\n")
                .expect("a body");
        let names = functions(name, does).into_iter().map(|(name, _)| name);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["mpi_bcast", "mpi_ibcast", "mpi_bcast_init"]
        );
    }

    #[test]
    fn finds_bodies_and_nothing_else() {
        let rest = "(cx: &Cx, a: arg::Send) -> Result<()> {}";
        let found = |start: &str| body(&format!("{start}{rest}")).map(|(name, does)| (name.to_owned(), does));
        assert_eq!(found("fn mpi_send"), Some(("mpi_send".into(), Does::All)));
        assert_eq!(
            found("unsafe fn mpi_recv<T>"),
            Some(("mpi_recv".into(), Does::All))
        );
        let checking = found("fn mpi_probe<C: Checking>");
        assert_eq!(checking, Some(("mpi_probe".into(), Does::Checking)));
        assert_eq!(found("fn helper"), None);
        assert_eq!(found("struct mpi_send"), None);
    }
}
