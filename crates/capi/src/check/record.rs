//! Records as bytes: words and texts, and back. What comes from another process is looked at before it is believed.

use farpost_mpi::datatype::Signature;

#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn word(&mut self, word: u64) -> &mut Self {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.word(text.len() as u64).0.extend_from_slice(text);
        self
    }

    pub(super) fn signature(&mut self, signature: &Signature) -> &mut Self {
        for word in signature.words() {
            self.word(word);
        }
        self
    }

    pub(super) fn done(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// A text, without what a terminal would take for commands.
    pub(super) fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let text = String::from_utf8_lossy(text);
        Some(
            text.chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect(),
        )
    }

    pub(super) fn signature(&mut self) -> Option<Signature> {
        let mut words = [0; Signature::WORDS];
        for word in &mut words {
            *word = self.word()?;
        }
        Some(Signature::from_words(&words))
    }

    /// A number of things of at least a word each, which must be there.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.word()?).ok()?;
        (count <= self.0.len() / 8).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_not() {
        let sent = Signature::NONE;
        let bytes = Writer::default().word(7).text(b"name").signature(&sent).done();
        let mut reader = Reader(&bytes);
        assert_eq!((reader.word(), reader.text().as_deref()), (Some(7), Some("name")));
        assert_eq!(reader.signature().map(|s| s.words()), Some(sent.words()));
        assert_eq!(reader.word(), None);
        for len in 0..bytes.len() {
            let mut reader = Reader(&bytes[..len]);
            let all = reader.word().and(reader.text()).and(reader.signature());
            assert!(all.is_none());
        }
        let bytes = Writer::default().text(b"\x1b[2J name").done();
        assert_eq!(Reader(&bytes).text().as_deref(), Some("?[2J name"));
        assert_eq!(Reader(&u64::MAX.to_le_bytes()).count(), None);
        assert_eq!(Reader(&u64::MAX.to_le_bytes()).text(), None);
    }
}
