//! Numbers and text as words, and back.

/// Words being written; what does not fit is left out and `full` then.
pub(crate) struct Writer {
    words: Vec<u64>,
    room: usize,
    full: bool,
}

impl Writer {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            words: Vec::with_capacity(room),
            room,
            full: false,
        }
    }

    /// Write something as a whole, or nothing of it. False: there is no room.
    pub(crate) fn whole(&mut self, write: impl FnOnce(&mut Self)) -> bool {
        let before = self.words.len();
        write(self);
        if self.full {
            self.words.truncate(before);
            self.full = false;
            return false;
        }
        true
    }

    pub(crate) fn word(&mut self, word: u64) {
        if self.words.len() < self.room {
            self.words.push(word);
        } else {
            self.full = true;
        }
    }

    pub(crate) fn pair(&mut self, low: u32, high: u32) {
        self.word(u64::from(high) << 32 | u64::from(low));
    }

    /// As much of a text as `most` bytes hold, in whole characters.
    pub(crate) fn text(&mut self, text: &str, most: usize) {
        let mut len = text.len().min(most);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.word(len as u64);
        for bytes in text.as_bytes()[..len].chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn set(&mut self, at: usize, word: u64) {
        self.words[at] = word;
    }

    pub(crate) fn done(self) -> Vec<u64> {
        self.words
    }
}

/// Words being read. An error says what cannot be right.
pub(crate) struct Reader<'a>(pub(crate) &'a [u64]);

impl Reader<'_> {
    pub(crate) fn word(&mut self) -> Result<u64, &'static str> {
        let (first, rest) = self.0.split_first().ok_or("it ends too soon")?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn pair(&mut self) -> Result<(u32, u32), &'static str> {
        let word = self.word()?;
        Ok((word as u32, (word >> 32) as u32))
    }

    /// A text of at most `most` bytes, without what a terminal would take for commands.
    pub(crate) fn text(&mut self, most: usize) -> Result<String, &'static str> {
        let len = self.word()?;
        if len > most as u64 {
            return Err("a text is too long");
        }
        let len = len as usize;
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        for _ in 0..len.div_ceil(8) {
            bytes.extend(self.word()?.to_le_bytes());
        }
        bytes.truncate(len);
        let text = String::from_utf8_lossy(&bytes);
        Ok(text
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect())
    }
}
