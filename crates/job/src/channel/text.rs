//! Values of bytes over key-value exchanges whose values are short texts (PMI-1 and PMI-2).
//!
//! A value is written in base64 with the URL-safe alphabet (RFC 4648, section 5), unpadded, so that no separator of any protocol
//! occurs in it, and cut into as many pieces as the exchange's limit asks for: `fp-RANK-KEY` holds
//! `CHARACTERS:first piece`, `fp-RANK-KEY.1` and so on the others.

use super::Channel;
use crate::error::JobError;
use crate::error::clip;
use crate::kvs::VALUE_MAX;

/// An exchange of texts: graphic ASCII without `=` and `;`.
pub(crate) trait Texts: Send {
    /// The protocol, for messages.
    fn speaks(&self) -> &'static str;
    /// Bytes a key and a value may have.
    fn limits(&self) -> (usize, usize);
    fn put_text(&mut self, key: &str, value: &str) -> Result<(), JobError>;
    fn get_text(&mut self, key: &str) -> Result<Option<String>, JobError>;
    fn barrier(&mut self) -> Result<(), JobError>;
    fn finalize(&mut self) -> Result<(), JobError>;
    fn abort(&mut self, status: i32, message: &str) -> Result<(), JobError>;
}

/// Room for the length and its colon.
const PREFIX: usize = 8;
/// Longest piece: with its command it stays below the shortest line a server is known to take, 1024 bytes (Slurm's PMI-1),
/// and 700 bytes fit into one.
const PIECE_MAX: usize = 940;

impl<T: Texts> Channel for T {
    fn put(&mut self, rank: u32, key: &str, value: &[u8]) -> Result<(), JobError> {
        let (key_max, value_max) = self.limits();
        let name = name(rank, key, 0);
        let clean = !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_graphic() && !matches!(b, b'=' | b';'));
        if !clean || name.len() + PREFIX > key_max || value.len() > VALUE_MAX {
            return Err(JobError::Kvs(format!(
                "key '{}' with a value of {} bytes: the {} launcher takes keys of up to {} plain characters, Farpost values of up to {VALUE_MAX} bytes",
                clip(key),
                value.len(),
                self.speaks(),
                (key_max + key.len()).saturating_sub(name.len() + PREFIX)
            )));
        }
        let text = encode(value);
        let piece = value_max.saturating_sub(PREFIX).clamp(1, PIECE_MAX);
        let mut pieces = text
            .as_bytes()
            .chunks(piece)
            .map(|p| std::str::from_utf8(p).unwrap_or(""));
        let first = pieces.next().unwrap_or("");
        self.put_text(&name, &format!("{}:{first}", text.len()))?;
        for (i, piece) in pieces.enumerate() {
            self.put_text(&self::name(rank, key, i + 1), piece)?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), JobError> {
        self.barrier()
    }

    fn get(&mut self, of: u32, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        let bad = |speaks, what: String| broken!(speaks, "what rank {of} put as '{key}' {what}");
        let Some(first) = self.get_text(&name(of, key, 0))? else {
            return Ok(None);
        };
        let speaks = self.speaks();
        let (len, piece) = first
            .split_once(':')
            .and_then(|(len, piece)| Some((len.parse::<usize>().ok()?, piece)))
            .filter(|(len, _)| *len <= VALUE_MAX * 2)
            .ok_or_else(|| bad(speaks, format!("came back as '{}'", clip(&first))))?;
        let mut text = piece.to_owned();
        for i in 1.. {
            if text.len() >= len {
                break;
            }
            match self.get_text(&name(of, key, i))? {
                Some(piece) if !piece.is_empty() => text += &piece,
                _ => return Err(bad(speaks, format!("lacks its piece {i}"))),
            }
        }
        (text.len() == len)
            .then(|| decode(&text))
            .flatten()
            .map(Some)
            .ok_or_else(|| bad(speaks, "came back damaged".into()))
    }

    fn finalize(&mut self) -> Result<(), JobError> {
        Texts::finalize(self)
    }

    fn abort(&mut self, status: i32, message: &str) -> Result<(), JobError> {
        Texts::abort(self, status, message)
    }
}

fn name(rank: u32, key: &str, piece: usize) -> String {
    match piece {
        0 => format!("fp-{rank}-{key}"),
        n => format!("fp-{rank}-{key}.{n}"),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .chain([&0, &0])
            .take(3)
            .fold(0u32, |bits, b| bits << 8 | u32::from(*b));
        for i in 0..=group.len() {
            text.push(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize].into());
        }
    }
    text
}

/// The bytes of a text that [`encode`] made; `None` if it made no such text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for (i, c) in group.iter().enumerate() {
            bits |= (ALPHABET.iter().position(|a| a == c)? as u32) << (18 - 6 * i);
        }
        let len = group.len().checked_sub(1).filter(|n| *n > 0)?;
        let all = bits.to_be_bytes();
        if all[1 + len..].iter().any(|b| *b != 0) {
            return None;
        }
        bytes.extend_from_slice(&all[1..1 + len]);
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    struct TextTable(HashMap<String, String>, usize);

    impl Texts for TextTable {
        fn speaks(&self) -> &'static str {
            "table"
        }
        fn limits(&self) -> (usize, usize) {
            (64, self.1)
        }
        fn put_text(&mut self, key: &str, value: &str) -> Result<(), JobError> {
            assert!(key.len() < 64 && value.len() < self.1 && !value.is_empty());
            assert!(self.0.insert(key.into(), value.into()).is_none());
            Ok(())
        }
        fn get_text(&mut self, key: &str) -> Result<Option<String>, JobError> {
            Ok(self.0.get(key).cloned())
        }
        fn barrier(&mut self) -> Result<(), JobError> {
            Ok(())
        }
        fn finalize(&mut self) -> Result<(), JobError> {
            Ok(())
        }
        fn abort(&mut self, _: i32, _: &str) -> Result<(), JobError> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..1100), limit in 16usize..1500) {
            let text = encode(&bytes);
            prop_assert!(text.bytes().all(|b| ALPHABET.contains(&b)));
            prop_assert_eq!(decode(&text), Some(bytes.clone()));
            let mut table = TextTable(HashMap::new(), limit);
            table.put(3, "card", &bytes).unwrap();
            prop_assert_eq!(table.get(3, "card").unwrap(), Some(bytes));
            prop_assert_eq!(table.get(4, "card").unwrap(), None);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[ -~]{0,40}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }

    #[test]
    fn lost_and_damaged_pieces_are_reported() {
        let mut table = TextTable(HashMap::new(), 64);
        table.put(0, "k", &[9; 200]).unwrap();
        let whole = table.0.clone();
        for (key, value) in [
            ("fp-0-k", Some("x")),
            ("fp-0-k", Some("99999999:AA")),
            ("fp-0-k.1", Some("!")),
            ("fp-0-k.2", None),
            ("fp-0-k.2", Some("")),
        ] {
            table.0 = whole.clone();
            match value {
                Some(value) => table.0.insert(key.into(), value.into()),
                None => table.0.remove(key),
            };
            let text = table.get(0, "k").unwrap_err().to_string();
            assert!(text.contains("rank 0") && !text.contains('\n'), "{text}");
        }
        assert!(table.put(0, "a b", b"").is_err());
        assert!(table.put(0, "", b"").is_err());
        assert!(table.put(0, &"k".repeat(60), b"").is_err());
        assert!(table.put(0, "k2", &[0; VALUE_MAX + 1]).is_err());
    }
}
