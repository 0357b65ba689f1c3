//! What records hold. Everything read here comes from another process and is checked.

use crate::error::Error;
use crate::library::{AccessEntry, Target};
use crate::malformed::{Malformed, error, fail};
use crate::types::{AckReq, Event, EventKind, Handle, Limits, Md, NiFail, Position, ProcessId, Unlink};

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

/// What an update of a descriptor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum Update {
    /// Say what the descriptor has.
    Read = 0,
    /// Replace it, unless the queue holds an event or will.
    Replace = 1,
    /// Replace it, unless the queue holds an event now.
    ReplaceUnlessLogged = 2,
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
    #[inline]
    pub fn next(&mut self) -> Result<u64, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(error!("the length of a record", 0))?;
        self.0 = rest;
        Ok(*first)
    }

    /// What is next.
    #[inline]
    pub fn read<T: Record>(&mut self) -> Result<T, Malformed> {
        T::read(self)
    }

    /// A number at most `most`.
    pub fn at_most(&mut self, what: &'static str, most: u64) -> Result<u64, Malformed> {
        let value = self.next()?;
        if value <= most {
            Ok(value)
        } else {
            fail!(what, value)
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, into: &mut [u8]) -> Result<(), Malformed> {
        for part in into.chunks_mut(8) {
            let word = self.next()?.to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
        Ok(())
    }

    /// How many pieces follow.
    pub fn piece_count(&mut self) -> Result<u64, Malformed> {
        self.at_most("a number of segments", MAX_PIECES as u64)
    }

    /// A piece of a list with `total` bytes before it, whose lengths add up.
    pub fn piece(&mut self, total: &mut u64) -> Result<Piece, Malformed> {
        let piece: Piece = self.read()?;
        let fits =
            piece.address.checked_add(piece.len).is_some() && piece.position.checked_add(piece.len).is_some();
        *total = total.saturating_add(piece.len);
        if !fits || *total > isize::MAX as u64 {
            return fail!("the length of a segment", piece.len);
        }
        Ok(piece)
    }

    /// At most [`MAX_PIECES`] pieces, whose lengths add up.
    pub fn pieces(&mut self) -> Result<Vec<Piece>, Malformed> {
        let mut total = 0;
        (0..self.piece_count()?).map(|_| self.piece(&mut total)).collect()
    }
}

/// Writes words.
#[derive(Default)]
pub struct Pen(pub Vec<u64>);

impl Pen {
    /// A record of this alone.
    #[inline]
    pub fn begin(&mut self, what: impl Write) -> &[u64] {
        self.0.clear();
        what.write(self);
        &self.0
    }
}

/// What records are written from.
pub trait Write {
    fn write(&self, pen: &mut Pen);
}

/// What is read from them, too.
pub trait Record: Write + Sized {
    fn read(words: &mut Words) -> Result<Self, Malformed>;
}

impl<T: Write + ?Sized> Write for &T {
    #[inline]
    fn write(&self, pen: &mut Pen) {
        (**self).write(pen);
    }
}

/// Bytes, in as many words as they take.
impl Write for [u8] {
    fn write(&self, pen: &mut Pen) {
        for part in self.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            pen.0.push(u64::from_le_bytes(word));
        }
    }
}

impl<const N: usize> Write for [u8; N] {
    fn write(&self, pen: &mut Pen) {
        self.as_slice().write(pen);
    }
}

impl<const N: usize> Record for [u8; N] {
    fn read(words: &mut Words) -> Result<Self, Malformed> {
        let mut bytes = [0; N];
        words.bytes(&mut bytes)?;
        Ok(bytes)
    }
}

/// How many, and each.
impl Write for [Piece] {
    fn write(&self, pen: &mut Pen) {
        self.len().write(pen);
        self.iter().for_each(|piece| piece.write(pen));
    }
}

/// Numbers of a word.
macro_rules! words {
    ($($number:ty),*) => {$(
        impl Write for $number {
            #[inline]
            fn write(&self, pen: &mut Pen) {
                pen.0.push(*self as u64);
            }
        }

        impl Record for $number {
            #[inline]
            fn read(words: &mut Words) -> Result<Self, Malformed> {
                Ok(words.next()? as $number)
            }
        }
    )*};
}

words!(u64, usize);

/// What fits into half a word. Alone it takes a whole one.
pub trait Half: Copy {
    fn half(self) -> u32;
    fn of_half(half: u32) -> Result<Self, Malformed>;
}

macro_rules! halves {
    ($($half:ty: $value:pat => $number:expr, $read:pat => $of:expr;)*) => {$(
        impl Half for $half {
            #[inline]
            fn half(self) -> u32 {
                let $value = self;
                $number
            }

            #[inline]
            fn of_half($read: u32) -> Result<Self, Malformed> {
                $of
            }
        }

        impl Write for $half {
            #[inline]
            fn write(&self, pen: &mut Pen) {
                pen.0.push(u64::from(self.half()));
            }
        }

        impl Record for $half {
            #[inline]
            fn read(words: &mut Words) -> Result<Self, Malformed> {
                Self::of_half(words.at_most("a number of 32 bits", u64::from(u32::MAX))? as u32)
            }
        }
    )*};
}

halves! {
    u32: it => it, half => Ok(half);
    i32: it => it as u32, half => Ok(half as i32);
    bool: it => u32::from(it), half => Ok(half != 0);
    Handle: Handle(it) => it, half => Ok(Handle(half));
    NiFail: NiFail(it) => it, half => Ok(NiFail(half));
    EventKind: it => it as u32, half => EventKind::from_repr(half).ok_or(error!("the kind of an event", half));
    Unlink: it => it as u32, half => Unlink::from_repr(half).ok_or(error!("when an object is released", half));
    Position: it => it as u32, half => Position::from_repr(half).ok_or(error!("where a match entry goes", half));
    Update: it => it as u32, half => Update::from_repr(half).ok_or(error!("how to update a descriptor", half));
    AckReq: it => it as u32, half => AckReq::from_repr(half).ok_or(error!("whether a put is acknowledged", half));
}

/// Two halves of a word.
pub struct Halves<A, B>(pub A, pub B);

impl<A: Half, B: Half> Write for Halves<A, B> {
    #[inline]
    fn write(&self, pen: &mut Pen) {
        pen.0
            .push(u64::from(self.0.half()) | u64::from(self.1.half()) << 32);
    }
}

impl<A: Half, B: Half> Record for Halves<A, B> {
    #[inline]
    fn read(words: &mut Words) -> Result<Self, Malformed> {
        let word = words.next()?;
        Ok(Self(A::of_half(word as u32)?, B::of_half((word >> 32) as u32)?))
    }
}

impl Write for () {
    fn write(&self, _: &mut Pen) {}
}

impl Record for () {
    fn read(_: &mut Words) -> Result<Self, Malformed> {
        Ok(())
    }
}

/// One after the other.
macro_rules! tuples {
    ($($($part:ident $index:tt)+;)*) => {$(
        impl<$($part: Write),+> Write for ($($part,)+) {
            #[inline]
            fn write(&self, pen: &mut Pen) {
                $(self.$index.write(pen);)+
            }
        }

        impl<$($part: Record),+> Record for ($($part,)+) {
            #[inline]
            fn read(words: &mut Words) -> Result<Self, Malformed> {
                Ok(($($part::read(words)?,)+))
            }
        }
    )*};
}

tuples! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// Structures, field by field; two in brackets are halves of a word.
macro_rules! structures {
    ($($name:ty: $($([$low:ident, $high:ident])? $($field:ident)?),*;)*) => {$(
        impl Write for $name {
            #[inline]
            fn write(&self, pen: &mut Pen) {
                $($(Halves(self.$low, self.$high).write(pen);)? $(self.$field.write(pen);)?)*
            }
        }

        impl Record for $name {
            #[inline]
            fn read(words: &mut Words) -> Result<Self, Malformed> {
                $($(let Halves($low, $high) = words.read()?;)? $(let $field = words.read()?;)?)*
                Ok(Self { $($($low, $high,)? $($field,)?)* })
            }
        }
    )*};
}

structures! {
    ProcessId: [nid, pid];
    Limits: [max_mes, max_mds], [max_eqs, max_ac_index], [max_pt_index, max_md_iovecs], [max_me_list, max_getput_md];
    Md: start, length, [threshold, options], max_size, user_ptr, eq_handle;
    Target: id, [pt_index, ac_index], match_bits, offset;
    AccessEntry: id, [uid, jid], pt_index;
    Piece: address, len, position, key;
    Event: [kind, ni_fail_type], initiator, [uid, jid], [pt_index, link], match_bits, rlength, mlength, offset,
        [md_handle, sequence], hdr_data, md;
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
    use crate::library::HEADER_BYTES;
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
        pen.begin((event, Limits::LIBRARY, *b"some bytes"));
        let mut words = Words(&pen.0);
        assert_eq!(words.read(), Ok(event));
        assert_eq!(words.read(), Ok(Limits::LIBRARY));
        assert_eq!(words.read(), Ok(*b"some bytes"));
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
            let (limits, event, md) = (
                read().read::<Limits>(),
                read().read::<Event>(),
                read().read::<Md>(),
            );
            assert_eq!(limits.is_err(), words.len() < 4);
            assert!(words.len() >= 6 || md.is_err());
            assert!(event.is_err() || words[0] as u32 <= EventKind::Unlink as u32);
            let _ = (read().read::<Target>(), read().read::<AccessEntry>());
            let _ = (read().read::<[u8; HEADER_BYTES]>(), read().read::<Handle>());
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
