//! Errors of predicted rows beyond a tenth that are known: each with its reason.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    error: f64,
    reason: String,
}

/// What `committed.toml` says.
#[derive(Debug, Deserialize)]
pub struct Committed(BTreeMap<String, Entry>);

impl Committed {
    /// # Errors
    /// The text is no such table, or an entry has no reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let it: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match it.0.iter().find(|(_, entry)| entry.reason.trim().len() < 20) {
            Some((id, _)) => Err(format!("{id}: an error that is committed needs its reason")),
            None => Ok(it),
        }
    }

    /// Those of this version.
    ///
    /// # Panics
    /// When they cannot be read: a test says so before.
    pub fn built_in() -> Self {
        Self::parse(include_str!("../committed.toml")).expect("committed.toml")
    }

    /// The error of a row that is put up with.
    pub fn error(&self, id: &str) -> Option<f64> {
        self.0.get(id).map(|entry| entry.error)
    }

    /// Why.
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(|entry| entry.reason.as_str())
    }

    /// All rows of which it speaks.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_reason() {
        Committed::built_in();
        let bad = Committed::parse("[S1]\nerror = 0.2\nreason = \"so\"").expect_err("too short");
        assert!(bad.starts_with("S1:"), "{bad}");
    }
}
