//! What frames do. Everything in them is a peer's claim.
//!
//! Cost class: lines, words and puts are *fast path*.

use super::other::Standing;
use super::receive::End;
use super::segments::Told;
use super::state::State;
use crate::link::{GetRequest, Header, Kind, TAIL};
use farpost_fabric::{LINE_BYTES, Line, LocalMemory, Peer, Permission};

/// What a control frame says; its words are 64 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// So many more packets (word 0) of lane `object` may be sent.
    Credit = 1,
    /// Answer when all before this is done; word 0 is the number of the fence.
    Fence = 2,
    /// The answer; what was refused before was told by [`Code::Refused`].
    Fenced = 3,
    /// A segment, or that there is none: [`Told`].
    Segment = 4,
    /// Which handle has segment `object`? Word 0 is a token.
    Find = 5,
    /// The segment of handle `object` is withdrawn.
    Forget = 6,
    /// The answer to that.
    Forgotten = 7,
    /// Fetch what is to be put into what was exposed: token, key there, offset, bytes, key here.
    PutAsk = 8,
    /// The transfer of that token is over; word 1 is 1 if it was refused.
    PutDone = 9,
    /// So many bytes (word 0), in all, may follow lines.
    Tails = 10,
    /// So many puts (word 0), in all, to the segment of handle `object`, which is withdrawn, were refused.
    Refused = 11,
}

impl Code {
    fn of(byte: u8) -> Option<(Self, usize)> {
        use Code::*;
        const ALL: [(Code, usize); 11] = [
            (Credit, 1),
            (Fence, 1),
            (Fenced, 1),
            (Segment, Told::WORDS),
            (Find, 1),
            (Forget, 0),
            (Forgotten, 0),
            (PutAsk, 5),
            (PutDone, 2),
            (Tails, 1),
            (Refused, 1),
        ];
        ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }
}

/// Most words of a control frame.
pub const WORDS_MAX: usize = 5;

fn native(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

impl State {
    /// Do what a frame says, whose turn it is.
    #[inline]
    pub fn apply(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), End> {
        let unit = match header.kind {
            Kind::PutLine => LINE_BYTES,
            Kind::PutWord => 8,
            Kind::Put => 1,
            _ => return self.apply_other(peer, header, payload),
        };
        if !header.offset.is_multiple_of(unit as u64) {
            return Err(End::Bad("an aligned offset", header.offset));
        }
        let (handle, len) = (header.object, payload.len());
        let reached = self
            .segments
            .reach(peer, handle, header.offset, len, Permission::ReadWrite);
        let Some((memory, offset)) = reached.map_err(|(what, value)| End::Bad(what, value))? else {
            self.segments.refuse(peer, handle);
            return Ok(());
        };
        match header.kind {
            Kind::PutLine => {
                let mut line: Line = [0; 8];
                for (to, from) in line.iter_mut().zip(payload.chunks_exact(8)) {
                    *to = native(from);
                }
                memory.store_line(offset, &line);
            }
            Kind::PutWord => memory.store(offset, native(payload)),
            _ => memory.write(offset, payload),
        }
        Ok(())
    }

    fn apply_other(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), End> {
        match header.kind {
            Kind::Packet => {
                let taken = self.packets.arrived(peer, header.flags, payload);
                taken.map_err(|(what, value)| End::Bad(what, value))
            }
            Kind::BulkGet => {
                let request = GetRequest::parse(payload).ok_or(End::Bad("a request for bytes", 0))?;
                self.bulk_request(peer, header.object, &request);
                Ok(())
            }
            Kind::BulkRefused => {
                if let Some(other) = &mut self.others[peer.index()]
                    && let Some(token) = other.tickets.remove(&header.object)
                {
                    self.transfer_refused(peer, token);
                }
                Ok(())
            }
            Kind::BulkDone if header.flags == TAIL => {
                self.tail_arrived(peer, header.object);
                Ok(())
            }
            Kind::Control => self.control_frame(peer, header, payload),
            Kind::Bye => {
                if let Some(other) = &mut self.others[peer.index()] {
                    other.standing = Standing::Left;
                }
                Ok(())
            }
            Kind::Fault => Err(End::Accused(String::from_utf8_lossy(payload).into_owned())),
            _ => Ok(()),
        }
    }

    fn control_frame(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), End> {
        let bad = |(what, value)| End::Bad(what, value);
        let (code, count) = Code::of(header.flags).ok_or(End::Bad("a control frame", header.flags.into()))?;
        if payload.len() != 8 * count {
            return Err(End::Bad("the length of a control frame", payload.len() as u64));
        }
        let mut words = [0; WORDS_MAX];
        for (to, from) in words.iter_mut().zip(payload.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().expect("eight bytes"));
        }
        match code {
            Code::Credit => self.packets.credit(peer, header.object, words[0]).map_err(bad)?,
            Code::Fence => {
                for (handle, puts) in self.segments.refusals_of(peer) {
                    self.control(peer, Code::Refused, handle, &[puts]);
                }
                self.control(peer, Code::Fenced, 0, &[words[0]]);
            }
            Code::Fenced => {
                if let Some(other) = &mut self.others[peer.index()] {
                    let number = words[0];
                    if number > other.fences || number < other.fenced {
                        return Err(End::Bad("the number of a fence", number));
                    }
                    other.fenced = number;
                }
            }
            Code::Segment => self
                .segments
                .told(peer, &Told::decode(header.object, &words))
                .map_err(bad)?,
            Code::Find => {
                let told = self.segments.answer(peer, header.object, words[0]);
                self.control(peer, Code::Segment, told.id, &told.encode());
            }
            Code::Forget => {
                self.segments.forget(peer, header.object);
                self.control(peer, Code::Forgotten, header.object, &[]);
            }
            Code::Refused => self
                .segments
                .refused(peer, header.object, words[0])
                .map_err(bad)?,
            Code::Forgotten => self.segments.forgotten(peer, header.object),
            Code::PutAsk => self.put_asked(peer, &words),
            Code::Tails => self.tails_granted(peer, words[0])?,
            Code::PutDone => self.put_done(peer, words[0], words[1] == 0),
        }
        Ok(())
    }
}
