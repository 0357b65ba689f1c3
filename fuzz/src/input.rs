//! Scripts: read from an input, written for a seed.

/// What is left of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte, which begins a step; `None` at the end.
    pub fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// At most `most` of the next bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// The next bytes, with zeros where there are none.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let some = self.bytes(N);
        array[..some.len()].copy_from_slice(some);
        array
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number of which small values take little of the input: a byte, and where it is above 250 a word.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            251 => u64::from(self.u16()),
            252 => u64::from(self.u32()),
            253 => self.u64(),
            254 => u64::MAX,
            255 => u64::from(u32::MAX),
            small => u64::from(small),
        }
    }

    /// A byte that says how many, and as many bytes.
    pub fn counted(&mut self) -> &'a [u8] {
        let count = self.u8();
        self.bytes(usize::from(count))
    }
}

/// A script being written.
#[derive(Clone, Default)]
pub struct Script(pub Vec<u8>);

impl Script {
    /// A step, or an argument of one byte.
    pub fn u8(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub fn u16(self, word: u16) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    pub fn u32(self, word: u32) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    pub fn u64(self, word: u64) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    /// As [`Input::number`] reads it.
    pub fn number(self, number: u64) -> Self {
        match number {
            u64::MAX => self.u8(254),
            0..=250 => self.u8(number as u8),
            _ => self.u8(253).u64(number),
        }
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// As [`Input::counted`] reads them.
    pub fn counted(self, bytes: &[u8]) -> Self {
        self.u8(bytes.len() as u8).bytes(bytes)
    }
}
