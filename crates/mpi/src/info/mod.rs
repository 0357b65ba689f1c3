//! Info objects (MPI-5.0 chapter 10): ordered lists of keys with values.
//!
//! Keys and values are bytes: C gives no encoding. Lengths here never count a terminating NUL; the limits
//! of the ABI do.

mod env;
#[cfg(test)]
mod tests;

pub use env::Environment;

use crate::Result;

/// `MPI_MAX_INFO_KEY`: bytes of the longest key with its terminator.
pub const MAX_INFO_KEY: usize = 256;
/// `MPI_MAX_INFO_VAL`: bytes of the longest value with its terminator.
pub const MAX_INFO_VAL: usize = 1024;

/// An info object. `Clone` is `MPI_Info_dup`, except that the copy of a read-only object stays read-only;
/// see [`Info::dup`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// In the order the keys were first set, which is the order of `MPI_Info_get_nthkey`. A list and not a
    /// map: info objects hold a handful of keys.
    entries: Vec<Entry>,
    read_only: bool,
}

impl Info {
    /// `MPI_Info_create`: no keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// `MPI_Info_dup`: same keys, values and order; may be changed.
    pub fn dup(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            read_only: false,
        }
    }

    /// Refuses every change from now on; for `MPI_INFO_ENV`.
    #[must_use]
    pub fn into_read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// `MPI_Info_set`: adds `key`, or replaces its value where it stands.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY`, `MPI_ERR_INFO_VALUE`: empty key, or too long; `MPI_ERR_INFO`: a read-only object.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if value.len() >= MAX_INFO_VAL {
            return fail!(
                ERR_INFO_VALUE: "value of {} bytes for key \"{}\": at most {} bytes are allowed",
                value.len(), shown(key), MAX_INFO_VAL - 1
            );
        }
        self.check_writable(key)?;
        match self.entries.iter_mut().find(|entry| *entry.0 == *key) {
            Some(entry) => entry.1 = value.into(),
            None => self.entries.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// The value of `key`; `None` when it is not set.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY`: empty key, or too long.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        Ok(self.find(key))
    }

    /// The value of `key` as text, for the library's own hints; `None` also when it is not UTF-8.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.find(key.as_bytes())
            .and_then(|v| core::str::from_utf8(v).ok())
    }

    /// `MPI_Info_get_string`: copies the value with a terminating NUL into `buffer`, cut to fit, and returns
    /// the bytes it needs with the NUL; `None` when the key is not set. An empty `buffer` only asks.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY`: empty key, or too long.
    pub fn get_string(&self, key: &[u8], buffer: &mut [u8]) -> Result<Option<usize>> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        if let Some(room) = buffer.len().checked_sub(1) {
            let n = room.min(value.len());
            buffer[..n].copy_from_slice(&value[..n]);
            buffer[n] = 0;
        }
        Ok(Some(value.len() + 1))
    }

    /// `MPI_Info_get_valuelen`: bytes of the value without its NUL; `None` when the key is not set.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_KEY`: empty key, or too long.
    pub fn valuelen(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.get(key)?.map(<[u8]>::len))
    }

    /// `MPI_Info_delete`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_NOKEY`: the key is not set. `MPI_ERR_INFO_KEY`: empty key, or too long. `MPI_ERR_INFO`: a
    /// read-only object.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.check_writable(key)?;
        match self.entries.iter().position(|entry| *entry.0 == *key) {
            Some(at) => {
                self.entries.remove(at);
                Ok(())
            }
            None => fail!(ERR_INFO_NOKEY: "key=\"{}\": the info object has no such key", shown(key)),
        }
    }

    /// `MPI_Info_get_nkeys`.
    pub fn nkeys(&self) -> usize {
        self.entries.len()
    }

    /// `MPI_Info_get_nthkey`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: `n` is not one of `0..nkeys`.
    pub fn nthkey(&self, n: i32) -> Result<&[u8]> {
        let entry = usize::try_from(n).ok().and_then(|n| self.entries.get(n));
        entry.map(|entry| &*entry.0).ok_or_else(|| {
            let has = match self.entries.len() {
                0 => "the info object has no keys".to_string(),
                len => format!("the keys are numbered 0 to {}", len - 1),
            };
            error!(ERR_ARG: "n={n}: {has}")
        })
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }

    fn find(&self, key: &[u8]) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|entry| *entry.0 == *key)?;
        Some(&entry.1)
    }

    fn check_writable(&self, key: &[u8]) -> Result<()> {
        if !self.read_only {
            return Ok(());
        }
        fail!(
            ERR_INFO: "key=\"{}\": MPI_INFO_ENV cannot be changed; change a copy made with MPI_Info_dup", shown(key)
        )
    }
}

/// Key and value.
type Entry = (Box<[u8]>, Box<[u8]>);

fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => fail!(ERR_INFO_KEY: "key=\"\": a key has at least one character"),
        len if len >= MAX_INFO_KEY => fail!(
            ERR_INFO_KEY: "key of {len} bytes (\"{}...\"): at most {} bytes are allowed", shown(&key[..24]), MAX_INFO_KEY - 1
        ),
        _ => Ok(()),
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
