//! Portals agents: where a program asks for its Portals library to run with one, each host of it has a service process
//! beside the program's ranks. They are numbered after the ranks, and everybody is told which ranks are reached by way of them.

use crate::options::App;
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variable: where the library of Portals runs for a program.
const PORTALS: &str = "FARPOST_PORTALS";
/// What it may be. The first needs no agent.
const PLACES: [&str; 3] = ["inline", "generic", "accelerated"];
/// What `farpost` is called with to be an agent.
const COMMAND: &str = "portals-agent";
/// What people are told about.
pub const NAME: &str = "the Portals agent";

/// Where the library runs for a program with these variables.
///
/// # Errors
/// The variable is none of the places.
pub fn place(variables: &BTreeMap<OsString, OsString>) -> Result<&'static str, Refusal> {
    let Some(value) = variables.get(std::ffi::OsStr::new(PORTALS)) else {
        return Ok(PLACES[0]);
    };
    let place = PLACES.into_iter().find(|place| value == place);
    place.or(value.is_empty().then_some(PLACES[0])).ok_or_else(|| {
        refusal!(usage: "{PORTALS}={}: allowed are inline, generic and accelerated", value.to_string_lossy())
    })
}

/// Whether programs there need an agent.
pub fn needs_one(place: &str) -> bool {
    place != PLACES[0]
}

/// What an agent runs: `farpost` beside this program, with the variables of `client`, the first program that needs it.
///
/// # Errors
/// There is none.
pub fn app(client: &App) -> Result<App, Refusal> {
    let own = std::env::current_exe().map_err(|e| refusal!(system: "where is mpiexec itself? {e}"))?;
    let program = beside(&own);
    if !program.is_file() {
        return refuse!(
            system: "{PORTALS} asks for agents, and there is no {} to run them; install farpost beside mpiexec",
            program.display()
        );
    }
    Ok(App {
        ranks: Some(1),
        program: program.into(),
        args: vec![COMMAND.into()],
        rules: client.rules.clone(),
        ..App::default()
    })
}

fn beside(own: &Path) -> PathBuf {
    own.with_file_name("farpost")
}

/// A launcher was not told which hosts there are.
pub fn no_hosts() -> Refusal {
    refusal!(
        usage: "{PORTALS} asks for an agent on each host: name the hosts (--host), so that each can be given one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_checked() {
        let with = |value: &str| place(&BTreeMap::from([(PORTALS.into(), value.into())]));
        assert_eq!(place(&BTreeMap::new()), Ok("inline"));
        assert_eq!(with(""), Ok("inline"));
        assert!(needs_one(with("generic").unwrap()) && needs_one(with("accelerated").unwrap()));
        assert!(!needs_one(with("inline").unwrap()));
        let error = with("Generic").unwrap_err();
        assert!(
            error.text.contains("FARPOST_PORTALS=Generic") && error.code == 2,
            "{error:?}"
        );
    }
}
