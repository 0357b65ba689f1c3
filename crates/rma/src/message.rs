//! What travels between the members of a window: a header of eight words, the pieces of the target's memory, data.

use farpost_mpi::{Result, fail};

/// Bytes of data in one message.
pub(crate) const CHUNK: usize = 4096;
/// Pieces of memory in one message.
pub(crate) const PIECES: usize = 128;
const HEADER: usize = 64;
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = HEADER + PIECES * 16 + CHUNK;

/// The tag of these messages; long data have others.
pub(crate) const TAG: i32 = 0;

/// The tag of long data that are written.
pub(crate) fn long_put(id: u64) -> i32 {
    2 + 2 * (id & 0xf_ffff) as i32
}

/// The tag of long data that are read.
pub(crate) fn long_get(id: u64) -> i32 {
    long_put(id) + 1
}

/// A piece of the target's memory: bytes from the window's base (an address in a dynamic window), and how many.
pub(crate) type Piece = (i64, u64);

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// Data to be written.
    Put = 1,
    /// The one piece is written by a message with tag `id`, which follows.
    PutLong,
    /// The pieces are to be sent in a reply to `id`.
    Get,
    /// The one piece is to be sent as a message with tag `id`.
    GetLong,
    /// Data to be accumulated.
    Accumulate,
    /// Likewise; what was there goes back in a reply to `id`.
    Fetch,
    /// The data are the new value and the one to compare with; what was there goes back.
    CompareAndSwap,
    /// Answer to `id`, which is done.
    Reply,
    /// `id` more operations are done.
    Done,
    /// Say at once what is done, from now on until all is.
    Hurry,
    /// The lock is wanted, exclusive if `id` is 1.
    Lock,
    Granted,
    /// All is done that came before, then the lock goes.
    Unlock,
    Unlocked,
    Post,
    Complete,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub kind: MessageKind,
    /// The operation's handle, a predefined one.
    pub op: u16,
    /// The handle of the elements' datatype, a predefined one.
    pub element: u16,
    /// The class of the error that came of it, 0 for none.
    pub error: i32,
    pub id: u64,
    pub pieces: Vec<Piece>,
    pub data: Vec<u8>,
}

impl Message {
    pub(crate) fn new(kind: MessageKind, id: u64) -> Self {
        Self {
            kind,
            op: 0,
            element: 0,
            error: 0,
            id,
            pieces: Vec::new(),
            data: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(HEADER + self.pieces.len() * 16 + self.data.len());
        let words = [
            u64::from(self.kind as u8) | u64::from(self.op) << 16 | u64::from(self.element) << 32,
            self.id,
            u64::from(self.error.cast_unsigned()),
            self.pieces.len() as u64,
            self.data.len() as u64,
            0,
            0,
            0,
        ];
        let pieces = self
            .pieces
            .iter()
            .flat_map(|(at, len)| [at.cast_unsigned(), *len]);
        for word in words.into_iter().chain(pieces) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.data);
        out.into_boxed_slice()
    }

    /// # Errors
    /// What is no such message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let word = |at: usize| {
            let part = bytes.get(8 * at..8 * at + 8)?;
            Some(u64::from_le_bytes(part.try_into().ok()?))
        };
        let parse = || {
            let (first, pieces, len) = (word(0)?, word(3)? as usize, word(4)? as usize);
            if pieces > PIECES || len > CHUNK || bytes.len() != HEADER + 16 * pieces + len {
                return None;
            }
            let list = (0..pieces).map(|at| Some((word(8 + 2 * at)?.cast_signed(), word(9 + 2 * at)?)));
            Some(Self {
                kind: MessageKind::from_repr(first as u8)?,
                op: (first >> 16) as u16,
                element: (first >> 32) as u16,
                error: (word(2)? as u32).cast_signed(),
                id: word(1)?,
                pieces: list.collect::<Option<_>>()?,
                data: bytes[HEADER + 16 * pieces..].to_vec(),
            })
        };
        match parse() {
            Some(message) => Ok(message),
            None => bad(bytes.len()),
        }
    }
}

fn bad(len: usize) -> Result<Message> {
    fail!(ERR_INTERN: "a message of {len} bytes on a window's communicator is none of the window's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_went_and_others_are_refused() {
        let mut message = Message::new(MessageKind::Fetch, 7);
        message.pieces = vec![(-3, 4), (1 << 40, 1)];
        (message.op, message.element, message.error) = (0x21, 0x209, 48);
        message.data = vec![1, 2, 3, 4, 5];
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).unwrap(), message);
        for cut in 0..bytes.len() {
            assert!(Message::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut other = bytes.to_vec();
        other[0] = 99;
        assert!(Message::decode(&other).is_err());
    }
}
