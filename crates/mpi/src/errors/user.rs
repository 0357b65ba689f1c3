//! Error classes, codes and strings the user adds and removes (MPI-5.0 section 9.5).

use super::codes::{ErrorCodes, LASTCODE, cut};
use super::{Error, ErrorClass, Result};
use std::collections::BTreeMap;

/// What the user added. Numbers are never used twice, so that a removed one is recognised.
pub(super) struct UserErrors {
    entries: BTreeMap<i32, Entry>,
    last: i32,
}

struct Entry {
    /// The class of a code; `None` for an entry that is a class.
    class: Option<ErrorClass>,
    text: Option<String>,
}

impl Default for UserErrors {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            last: LASTCODE,
        }
    }
}

impl UserErrors {
    pub(super) fn class_of(&self, code: i32) -> Option<ErrorClass> {
        let entry = self.entries.get(&code)?;
        Some(entry.class.unwrap_or(ErrorClass(code)))
    }

    pub(super) fn string(&self, code: i32) -> Option<String> {
        let entry = self.entries.get(&code)?;
        Some(entry.text.clone().unwrap_or_default())
    }

    fn add(&mut self, class: Option<ErrorClass>) -> Result<i32> {
        let all_used = || error!(ERR_OTHER: "all numbers for error classes and codes are used up");
        let number = self.last.checked_add(1).ok_or_else(all_used)?;
        self.entries.insert(number, Entry { class, text: None });
        self.last = number;
        Ok(number)
    }
}

impl ErrorCodes {
    /// The value of the attribute `MPI_LASTUSEDCODE`: the highest class or code ever in use.
    pub fn last_used(&self) -> i32 {
        self.user.borrow().last
    }

    /// `MPI_Add_error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER`: two thousand million were added before.
    pub fn add_class(&self) -> Result<ErrorClass> {
        self.user.borrow_mut().add(None).map(ErrorClass)
    }

    /// `MPI_Add_error_code`: a new code of `class`, which may be a predefined class.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not an error class.
    pub fn add_code(&self, class: i32) -> Result<i32> {
        let mut user = self.user.borrow_mut();
        let known = match user.entries.get(&class) {
            Some(entry) => entry.class.is_none(),
            None => ErrorClass(class).name().is_some(),
        };
        if !known {
            return Err(argument("errorclass", class, "not an error class"));
        }
        user.add(Some(ErrorClass(class)))
    }

    /// `MPI_Add_error_string`: sets the string of a user's class or code; a text too long is cut.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a class or code the user added.
    pub fn add_string(&self, code: i32, text: &str) -> Result<()> {
        let mut user = self.user.borrow_mut();
        let entry = user
            .entries
            .get_mut(&code)
            .ok_or_else(|| not_users("errorcode", code))?;
        entry.text = Some(cut(text.to_string()));
        Ok(())
    }

    /// `MPI_Remove_error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a class the user added, or codes or a string of it are still there.
    pub fn remove_class(&self, class: i32) -> Result<()> {
        let mut user = self.user.borrow_mut();
        let entry = user.entries.get(&class).filter(|entry| entry.class.is_none());
        let entry = entry.ok_or_else(|| not_users("errorclass", class))?;
        let codes = user
            .entries
            .values()
            .filter(|entry| entry.class == Some(ErrorClass(class)))
            .count();
        if codes > 0 {
            let what = format!("{codes} error codes of this class must be removed first");
            return Err(argument("errorclass", class, &what));
        }
        if entry.text.is_some() {
            return Err(argument(
                "errorclass",
                class,
                "its error string must be removed first",
            ));
        }
        user.entries.remove(&class);
        Ok(())
    }

    /// `MPI_Remove_error_code`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a code the user added, or its string is still there.
    pub fn remove_code(&self, code: i32) -> Result<()> {
        let mut user = self.user.borrow_mut();
        let entry = user.entries.get(&code).filter(|entry| entry.class.is_some());
        let entry = entry.ok_or_else(|| not_users("errorcode", code))?;
        if entry.text.is_some() {
            return Err(argument(
                "errorcode",
                code,
                "its error string must be removed first",
            ));
        }
        user.entries.remove(&code);
        Ok(())
    }

    /// `MPI_Remove_error_string`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a class or code the user added, or one without a string.
    pub fn remove_string(&self, code: i32) -> Result<()> {
        let mut user = self.user.borrow_mut();
        let entry = user
            .entries
            .get_mut(&code)
            .ok_or_else(|| not_users("errorcode", code))?;
        match entry.text.take() {
            Some(_) => Ok(()),
            None => Err(argument("errorcode", code, "it has no error string")),
        }
    }
}

fn not_users(name: &str, number: i32) -> Error {
    argument(name, number, "not one added by this program, or removed already")
}

fn argument(name: &str, value: i32, what: &str) -> Error {
    error!(ERR_ARG: "{name}={value}: {what}")
}
