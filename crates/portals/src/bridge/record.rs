//! What records hold. Everything read here comes from another process and is checked.

use crate::error::Error;
use crate::library::{AccessEntry, HEADER_BYTES, Target};
use crate::types::{Event, EventKind, Handle, Limits, Md, NiFail, ProcessId};

pub use farpost_channel::records::Malformed;

/// What a client asks. From [`ME_ATTACH`](command::ME_ATTACH) on for accelerated clients only.
pub mod command {
    pub const HELLO: u8 = 1;
    pub const BYE: u8 = 2;
    /// A message whose body lies in the client's memory; the small number is the channel.
    pub const SEND: u8 = 3;
    /// A message whose body comes with the command.
    pub const SEND_SMALL: u8 = 4;
    /// Where a message that was shown goes; the small number is the pending.
    pub const RECEIVE: u8 = 5;
    /// A message that was shown is not wanted.
    pub const DISCARD: u8 = 6;
    /// Bytes have been moved to or from a window; the small number is the window's.
    pub const CARRIED: u8 = 7;
    /// A client of MPI's has made the entries that its messages match.
    pub const ACCEPT: u8 = 8;
    pub const ME_ATTACH: u8 = 10;
    pub const ME_ATTACH_ANY: u8 = 11;
    pub const ME_INSERT: u8 = 12;
    pub const ME_UNLINK: u8 = 13;
    pub const MD_ATTACH: u8 = 14;
    pub const MD_BIND: u8 = 15;
    pub const MD_UNLINK: u8 = 16;
    pub const MD_UPDATE: u8 = 17;
    pub const EQ_ALLOC: u8 = 18;
    pub const EQ_FREE: u8 = 19;
    pub const AC_ENTRY: u8 = 20;
    pub const STATUS: u8 = 21;
    pub const INTERFACE_OF: u8 = 22;
    /// Without a result, as the two that follow.
    pub const PUT: u8 = 23;
    pub const GET: u8 = 24;
    pub const GET_PUT: u8 = 25;
    /// A put of which only the header goes, without a result either.
    pub const PUT_HEADER: u8 = 26;
}

/// What an agent posts.
pub mod event {
    /// A header, for a generic client to match; the small number is the pending, or [`NO_PENDING`].
    pub const ARRIVED: u8 = 1;
    /// What was to be received is in place, or never will be.
    pub const DEPOSITED: u8 = 2;
    /// The memory of a body is free again.
    pub const SENT: u8 = 3;
    /// An event for an accelerated client's queue; the small number is 1 when events before it were lost.
    pub const EVENT: u8 = 4;
    /// Bytes are to be moved between a window, the small number's low half, and memory of the client's; the high half says which way.
    pub const CARRY: u8 = 5;
    /// From the window to the client.
    pub const INTO_CLIENT: u16 = 1;
    /// The body has come with the header.
    pub const NO_PENDING: u16 = u16::MAX;
}

/// What [`MD_UPDATE`](command::MD_UPDATE) is to do.
pub mod update {
    /// Say what the descriptor has.
    pub const READ: u64 = 0;
    /// Replace it, unless the queue holds an event or will.
    pub const REPLACE: u64 = 1;
    /// Replace it, unless the queue holds an event now.
    pub const REPLACE_UNLESS_LOGGED: u64 = 2;
}

/// Says that this side knows the same records.
pub const VERSION: u64 = 5;
/// Longest body that travels in a record.
pub const SMALL: usize = 128;

/// Most pieces of a body.
pub const MAX_PIECES: usize = 256;

/// A piece of a client's memory: its address there, its length, and the position and the key by which the agent reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub address: u64,
    pub len: u64,
    pub position: u64,
    pub key: u64,
}

/// Reads words.
pub struct Words<'a>(pub &'a [u64]);

impl Words<'_> {
    pub fn next(&mut self) -> Result<u64, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed {
            what: "the length of a record",
            value: 0,
        })?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number at most `most`.
    pub fn at_most(&mut self, what: &'static str, most: u64) -> Result<u64, Malformed> {
        let value = self.next()?;
        if value <= most {
            Ok(value)
        } else {
            Err(Malformed { what, value })
        }
    }

    pub fn pair(&mut self) -> Result<(u32, u32), Malformed> {
        let word = self.next()?;
        Ok((word as u32, (word >> 32) as u32))
    }

    pub fn handle(&mut self) -> Result<Handle, Malformed> {
        Ok(Handle(self.at_most("a handle", u64::from(u32::MAX))? as u32))
    }

    pub fn id(&mut self) -> Result<ProcessId, Malformed> {
        let (nid, pid) = self.pair()?;
        Ok(ProcessId::new(nid, pid))
    }

    /// So many bytes.
    pub fn bytes(&mut self, into: &mut [u8]) -> Result<(), Malformed> {
        for part in into.chunks_mut(8) {
            let word = self.next()?.to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
        Ok(())
    }

    pub fn header(&mut self) -> Result<[u8; HEADER_BYTES], Malformed> {
        let mut header = [0; HEADER_BYTES];
        self.bytes(&mut header)?;
        Ok(header)
    }

    pub fn limits(&mut self) -> Result<Limits, Malformed> {
        let mut four = [(0, 0); 4];
        for pair in &mut four {
            *pair = self.pair()?;
        }
        let [a, b, c, d] = four.map(|(low, high)| (low as i32, high as i32));
        Ok(Limits {
            max_mes: a.0,
            max_mds: a.1,
            max_eqs: b.0,
            max_ac_index: b.1,
            max_pt_index: c.0,
            max_md_iovecs: c.1,
            max_me_list: d.0,
            max_getput_md: d.1,
        })
    }

    pub fn md(&mut self) -> Result<Md, Malformed> {
        let (start, length) = (self.next()? as usize, self.next()?);
        let (threshold, options) = self.pair()?;
        Ok(Md {
            start,
            length,
            threshold: threshold as i32,
            options,
            max_size: self.next()?,
            user_ptr: self.next()? as usize,
            eq_handle: self.handle()?,
        })
    }

    pub fn target(&mut self) -> Result<Target, Malformed> {
        let id = self.id()?;
        let (pt_index, ac_index) = self.pair()?;
        Ok(Target {
            id,
            pt_index,
            ac_index,
            match_bits: self.next()?,
            offset: self.next()?,
        })
    }

    /// How many pieces follow.
    pub fn piece_count(&mut self) -> Result<u64, Malformed> {
        self.at_most("a number of segments", MAX_PIECES as u64)
    }

    /// A piece of a list with `total` bytes before it, whose lengths add up.
    pub fn piece(&mut self, total: &mut u64) -> Result<Piece, Malformed> {
        let piece = Piece {
            address: self.next()?,
            len: self.next()?,
            position: self.next()?,
            key: self.next()?,
        };
        let fits =
            piece.address.checked_add(piece.len).is_some() && piece.position.checked_add(piece.len).is_some();
        *total = total.saturating_add(piece.len);
        if !fits || *total > isize::MAX as u64 {
            return Err(Malformed {
                what: "the length of a segment",
                value: piece.len,
            });
        }
        Ok(piece)
    }

    /// At most [`MAX_PIECES`] pieces, whose lengths add up.
    pub fn pieces(&mut self) -> Result<Vec<Piece>, Malformed> {
        let mut total = 0;
        (0..self.piece_count()?).map(|_| self.piece(&mut total)).collect()
    }

    pub fn event(&mut self) -> Result<Event, Malformed> {
        use EventKind::*;
        const KINDS: [EventKind; 12] = [
            GetStart,
            GetEnd,
            PutStart,
            PutEnd,
            GetPutStart,
            GetPutEnd,
            ReplyStart,
            ReplyEnd,
            SendStart,
            SendEnd,
            Ack,
            Unlink,
        ];
        let (kind, fail) = self.pair()?;
        let kind = *KINDS.get(kind as usize).ok_or(Malformed {
            what: "the kind of an event",
            value: u64::from(kind),
        })?;
        let initiator = self.id()?;
        let (uid, jid) = self.pair()?;
        let (pt_index, link) = self.pair()?;
        let (match_bits, rlength, mlength, offset) = (self.next()?, self.next()?, self.next()?, self.next()?);
        let (md_handle, sequence) = self.pair()?;
        Ok(Event {
            kind,
            initiator,
            uid,
            jid,
            pt_index,
            match_bits,
            rlength,
            mlength,
            offset,
            md_handle: Handle(md_handle),
            hdr_data: self.next()?,
            md: self.md()?,
            link,
            ni_fail_type: NiFail(fail),
            sequence,
        })
    }
}

/// Writes words.
#[derive(Default)]
pub struct Pen(pub Vec<u64>);

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Pen {
    pub fn begin(&mut self) -> &mut Self {
        self.0.clear();
        self
    }

    pub fn word(&mut self, word: u64) -> &mut Self {
        self.0.push(word);
        self
    }

    pub fn pair(&mut self, low: u32, high: u32) -> &mut Self {
        self.word(pair(low, high))
    }

    pub fn id(&mut self, id: ProcessId) -> &mut Self {
        self.pair(id.nid, id.pid)
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.word(u64::from_le_bytes(word));
        }
        self
    }

    pub fn limits(&mut self, l: &Limits) -> &mut Self {
        let two = |a: i32, b: i32| pair(a as u32, b as u32);
        self.0.extend([
            two(l.max_mes, l.max_mds),
            two(l.max_eqs, l.max_ac_index),
            two(l.max_pt_index, l.max_md_iovecs),
            two(l.max_me_list, l.max_getput_md),
        ]);
        self
    }

    pub fn md(&mut self, md: &Md) -> &mut Self {
        self.0.extend([
            md.start as u64,
            md.length,
            pair(md.threshold as u32, md.options),
            md.max_size,
            md.user_ptr as u64,
            u64::from(md.eq_handle.0),
        ]);
        self
    }

    pub fn target(&mut self, target: &Target) -> &mut Self {
        self.id(target.id)
            .pair(target.pt_index, target.ac_index)
            .word(target.match_bits)
            .word(target.offset)
    }

    pub fn pieces(&mut self, pieces: &[Piece]) -> &mut Self {
        self.word(pieces.len() as u64);
        for p in pieces {
            self.0.extend([p.address, p.len, p.position, p.key]);
        }
        self
    }

    pub fn event(&mut self, e: &Event) -> &mut Self {
        self.pair(e.kind as u32, e.ni_fail_type.0)
            .id(e.initiator)
            .pair(e.uid, e.jid)
            .pair(e.pt_index, e.link);
        self.0.extend([e.match_bits, e.rlength, e.mlength, e.offset]);
        self.pair(e.md_handle.0, e.sequence).word(e.hdr_data).md(&e.md)
    }

    pub fn access(&mut self, e: &AccessEntry) -> &mut Self {
        self.id(e.id).pair(e.uid, e.jid).word(u64::from(e.pt_index))
    }
}

impl Words<'_> {
    pub fn access(&mut self) -> Result<AccessEntry, Malformed> {
        let id = self.id()?;
        let (uid, jid) = self.pair()?;
        Ok(AccessEntry {
            id,
            uid,
            jid,
            pt_index: self.pair()?.0,
        })
    }
}

/// The error of a code.
pub fn error_of(code: u16) -> Error {
    Error::ALL
        .iter()
        .copied()
        .find(|e| e.code() == i32::from(code))
        .unwrap_or(Error::Fail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::THRESHOLD_INFINITE;

    #[test]
    fn records_are_read_as_they_were_written() {
        let md = Md {
            start: 5,
            length: 7,
            threshold: THRESHOLD_INFINITE,
            max_size: 9,
            options: 3,
            user_ptr: 11,
            eq_handle: Handle::EQ_NONE,
        };
        let event = Event {
            kind: EventKind::Unlink,
            initiator: ProcessId::new(1, 2),
            uid: 3,
            jid: 4,
            pt_index: 5,
            match_bits: 6,
            rlength: 7,
            mlength: 8,
            offset: 9,
            md_handle: Handle(10),
            md,
            hdr_data: 11,
            link: 12,
            ni_fail_type: NiFail(2),
            sequence: 13,
        };
        let mut pen = Pen::default();
        pen.event(&event).limits(&Limits::LIBRARY).bytes(b"some bytes");
        let mut words = Words(&pen.0);
        assert_eq!(words.event(), Ok(event));
        assert_eq!(words.limits(), Ok(Limits::LIBRARY));
        let mut bytes = [0; 10];
        words.bytes(&mut bytes).expect("bytes");
        assert_eq!(&bytes, b"some bytes");
        assert!(words.next().is_err());
    }

    #[test]
    fn segments_that_cannot_be_are_refused() {
        let piece = |address, len, position| [1, address, len, position, 0];
        assert!(Words(&piece(8, 8, 8)).pieces().is_ok());
        assert!(Words(&piece(u64::MAX, 8, 8)).pieces().is_err());
        assert!(Words(&piece(8, 8, u64::MAX)).pieces().is_err());
        assert!(Words(&piece(8, 1 << 63, 8)).pieces().is_err());
        assert!(Words(&[257]).pieces().is_err() && Words(&[1, 2]).pieces().is_err());
    }

    /// Any words at all are a value within its bounds or a complaint.
    #[test]
    fn whatever_words_say_is_checked() {
        for seed in 0..20_000u64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let words: Vec<u64> = (0..rng.usize(..60))
                .map(|_| match rng.u8(..5) {
                    0 => rng.u64(..4),
                    1 => rng.u64(..300),
                    2 => u64::MAX - rng.u64(..4),
                    3 => 1 << rng.u32(..64),
                    _ => rng.u64(..),
                })
                .collect();
            let read = || Words(&words);
            let (limits, event, md) = (read().limits(), read().event(), read().md());
            assert_eq!(limits.is_err(), words.len() < 4);
            assert!(words.len() >= 6 || md.is_err());
            assert!(event.is_err() || words[0] as u32 <= EventKind::Unlink as u32);
            let _ = (read().target(), read().access(), read().header(), read().handle());
            if let Ok(pieces) = read().pieces() {
                let total = pieces
                    .iter()
                    .try_fold(0u64, |sum, piece| sum.checked_add(piece.len));
                assert!(pieces.len() <= MAX_PIECES && total.is_some_and(|total| total <= isize::MAX as u64));
                assert!(
                    pieces
                        .iter()
                        .all(|piece| piece.address.checked_add(piece.len).is_some())
                );
            }
            let mut bytes = [0; 128];
            assert_eq!(read().bytes(&mut bytes).is_ok(), words.len() >= 16);
        }
    }
}
