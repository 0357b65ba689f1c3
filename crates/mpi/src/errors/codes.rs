//! From errors to the integers C sees, and back (MPI-5.0 sections 9.4, 9.5).
//!
//! A code returned by the library is `class | instance << 7`: the instance is one of 127 slots that keep the
//! latest sentences, so that `MPI_Error_string` can tell what exactly was wrong, and every code stays at most
//! `MPI_ERR_LASTCODE`. Slot 0 means "no sentence": the bare class. A sentence 127 errors old is forgotten,
//! and its code then tells the class only. The `MPI_T_ERR_*` classes and those of the user are codes
//! themselves and have no instances.
//!
//! Cost: nothing here is touched while there is no error.

use super::text::sentence;
use super::user::UserErrors;
use super::{Error, ErrorClass, Result};
use std::cell::{Cell, RefCell};

/// `MPI_ERR_LASTCODE`: codes of the library are at most this.
pub const LASTCODE: i32 = 0x3fff;
/// `MPI_MAX_ERROR_STRING`: bytes of the longest error string with its terminator.
pub const MAX_ERROR_STRING: usize = 512;

const CLASS_BITS: u32 = 7;
const CLASS_MASK: i32 = (1 << CLASS_BITS) - 1;
const SLOTS: usize = 127;

/// The error codes of one world: those in use by the library, and those the user added.
#[derive(Default)]
pub struct ErrorCodes {
    /// Instance `i` is element `i - 1`. Grows to `SLOTS`, then the oldest is replaced.
    sentences: RefCell<Vec<(ErrorClass, Box<str>)>>,
    /// Element the next sentence goes to.
    next: Cell<usize>,
    pub(super) user: RefCell<UserErrors>,
}

impl ErrorCodes {
    /// No sentences yet and nothing of the user's.
    pub fn new() -> Self {
        Self::default()
    }

    /// The code to return for `error` from the MPI function `function`.
    #[cold]
    pub fn code(&self, function: &str, error: &Error) -> i32 {
        let class = error.class;
        if class.0 & !CLASS_MASK != 0 || class == ErrorClass::SUCCESS {
            return class.0;
        }
        let text = match (function, error.message.as_str()) {
            ("", "") => return class.0,
            ("", message) => message.to_string(),
            (function, "") => format!("{function}: {}", sentence(class).unwrap_or("error")),
            (function, message) => format!("{function}: {message}"),
        };
        let at = self.next.get();
        let mut sentences = self.sentences.borrow_mut();
        match sentences.get_mut(at) {
            Some(slot) => *slot = (class, text.into()),
            None => sentences.push((class, text.into())),
        }
        self.next.set((at + 1) % SLOTS);
        class.0 | (at as i32 + 1) << CLASS_BITS
    }

    /// `MPI_Error_class`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a code of the library nor one the user added.
    pub fn class_of(&self, code: i32) -> Result<ErrorClass> {
        if let Some((class, _)) = split(code) {
            return Ok(class);
        }
        self.user.borrow().class_of(code).ok_or_else(|| unknown(code))
    }

    /// `MPI_Error_string`: at most `MAX_ERROR_STRING - 1` bytes, cut at a character. Empty for a code of the
    /// user's that was given no string.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: not a code of the library nor one the user added.
    pub fn string(&self, code: i32) -> Result<String> {
        let Some((class, instance)) = split(code) else {
            return self.user.borrow().string(code).ok_or_else(|| unknown(code));
        };
        let name = class.name().unwrap_or("MPI");
        let sentences = self.sentences.borrow();
        let detail = instance
            .and_then(|at| sentences.get(at))
            .filter(|(owner, _)| *owner == class)
            .map(|(_, text)| &**text);
        let detail = detail.or(sentence(class)).unwrap_or("error");
        Ok(cut(format!("{name}: {detail}")))
    }
}

/// Class and slot of a code of the library; `None` for any other number.
fn split(code: i32) -> Option<(ErrorClass, Option<usize>)> {
    if ErrorClass(code).name().is_some() {
        return Some((ErrorClass(code), None));
    }
    if !(0..=LASTCODE).contains(&code) {
        return None;
    }
    let class = ErrorClass(code & CLASS_MASK);
    let at = (code >> CLASS_BITS).checked_sub(1)?;
    let known = class != ErrorClass::SUCCESS && class.name().is_some();
    known.then_some((class, Some(at as usize)))
}

fn unknown(code: i32) -> Error {
    error!(
        ERR_ARG: "errorcode={code}: not an error code of this library nor one added with MPI_Add_error_code"
    )
}

pub(super) fn cut(mut text: String) -> String {
    if text.len() >= MAX_ERROR_STRING {
        let end = (0..MAX_ERROR_STRING).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
