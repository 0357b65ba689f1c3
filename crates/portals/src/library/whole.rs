//! Messages whose body is here, with its header or where it can be read at once: puts among them begin and end here and now. Fast path.

use super::descriptor::Descriptor;
use super::drops::DropReason;
use super::operation::{Facts, PUT};
use super::wire::{Header, MessageKind, NO_ANSWER};
use super::{Library, NO_TOKEN, Verdict};
use crate::memory::Segments;
use crate::types::{EventKind, Identity, option};

impl Library {
    /// As [`incoming`](Self::incoming), of a message whose body has come with its header. Of a put it is stored here and now, by `store`,
    /// which is given the descriptor's memory, where in it, and the bytes: then both its events are logged, and it is over.
    /// `searched` as for [`incoming_searched`](Self::incoming_searched). Never [`Verdict::Store`] for a put. Fast path.
    #[inline(always)]
    pub fn incoming_whole(
        &mut self,
        from: u32,
        bytes: &[u8],
        body: &[u8],
        store: impl FnOnce(&Segments, u64, &[u8]),
        searched: impl FnOnce(usize),
    ) -> Verdict {
        let length = body.len() as u64;
        let store = |memory: &Segments, at, kept| store(memory, at, &body[..kept as usize]);
        match Header::decode(bytes, length) {
            Ok(header) if header.kind == MessageKind::Put => {
                self.put_whole(from, &header, length, store, searched)
            }
            _ => self.incoming_searched(from, bytes, length, searched),
        }
    }

    /// As [`incoming_whole`](Self::incoming_whole), of a body that is elsewhere: `store` is given the descriptor's memory, where in it, and how many
    /// bytes from its beginning. `None`, and nothing has happened: it is no put, or none that can be.
    #[inline]
    pub fn incoming_near(
        &mut self,
        from: u32,
        bytes: &[u8],
        length: u64,
        store: impl FnOnce(&Segments, u64, u64),
        searched: impl FnOnce(usize),
    ) -> Option<Verdict> {
        let header = Header::decode(bytes, length).ok()?;
        (header.kind == MessageKind::Put).then(|| self.put_whole(from, &header, length, store, searched))
    }

    /// As [`incoming_whole`](Self::incoming_whole), of a put that nobody is to be told of and that finds what the request before it found.
    /// Its header is given in [words](Header::words), `store` as for [`incoming_near`](Self::incoming_near). False: it is another one, and
    /// nothing has happened. Fast path.
    #[inline(always)]
    pub fn put_again(
        &mut self,
        from: u32,
        header: ([u64; 4], u32),
        length: u64,
        store: impl FnOnce(&Segments, u64, u64),
    ) -> bool {
        let Some(header) = self.again.repeated(from, header) else {
            return false;
        };
        let Some(found) = self.find_again(&header, length) else {
            return false;
        };
        let Some(who) = self.processes.identity(from).copied() else {
            return false;
        };
        self.take_whole(from, &who, (&header, length), found, store);
        true
    }

    #[inline(always)]
    fn put_whole(
        &mut self,
        from: u32,
        header: &Header,
        length: u64,
        store: impl FnOnce(&Segments, u64, u64),
        searched: impl FnOnce(usize),
    ) -> Verdict {
        let Some(who) = self.processes.identity(from).copied() else {
            return self.refuse(DropReason::UnknownProcess, from, None);
        };
        let again = self.again.is(from, header);
        let found = match again.then(|| self.find_again(header, length)).flatten() {
            Some(found) => {
                searched(1);
                Ok(found)
            }
            None => self.find((from, &who), (header, length), PUT, true, searched),
        };
        match found {
            Ok(found) => self.take_whole(from, &who, (header, length), found, store),
            Err(reason) => self.refuse(reason, from, Some(header)),
        }
    }

    /// A put has matched, and its bytes are here.
    #[inline(always)]
    fn take_whole(
        &mut self,
        from: u32,
        who: &Identity,
        (header, length): (&Header, u64),
        (md, offset, accepted): (u32, u64, u64),
        store: impl FnOnce(&Segments, u64, u64),
    ) -> Verdict {
        let pt_index = u32::from(header.pt_index);
        let mut acknowledges = false;
        let facts = Facts {
            pt_index,
            match_bits: header.match_bits,
            rlength: length,
            mlength: accepted,
            offset,
            hdr_data: header.data,
            link: self.link(),
            start: 0,
        };
        self.log_whole(
            md,
            [EventKind::PutStart, EventKind::PutEnd],
            who,
            &facts,
            #[inline(always)]
            |descriptor: &mut Descriptor| {
                descriptor.take(accepted);
                store(&descriptor.region.memory, offset, accepted);
                acknowledges = !descriptor.has(option::ACK_DISABLE);
            },
            |library: &mut Self| library.portals[pt_index as usize].found_is_over(),
        );
        if header.operation == NO_ANSWER {
            Verdict::Done
        } else if acknowledges {
            let none = (Segments::default(), NO_TOKEN);
            Verdict::Reply(self.answer(
                from,
                (MessageKind::Ack, header.operation),
                (offset, accepted),
                none,
            ))
        } else {
            Verdict::Reply(self.nothing(from, header.operation))
        }
    }

    /// The descriptor that a put is for, as [`find`](Self::find) has it, where it asks for what the request before it asked for
    /// ([`LastRequest`]) and would find the same entry again: peers send many messages of one kind. Nothing else that `find` asks can have
    /// changed since.
    #[inline(always)]
    fn find_again(&self, header: &Header, length: u64) -> Option<(u32, u64, u64)> {
        let list = self.portals.get(usize::from(header.pt_index))?;
        let md = u32::from(list.found_again(PUT)?.md);
        let (offset, accepted) = self.mds.get(md)?.room(header.offset, length)?;
        Some((md, offset, accepted))
    }
}

/// The request that was looked for last and found.
pub(super) struct LastRequest {
    /// Who sent it; `u32::MAX`: nobody.
    from: u32,
    /// The beginning of its header.
    route: u32,
    match_bits: u64,
}

impl LastRequest {
    pub const NONE: Self = Self {
        from: u32::MAX,
        route: 0,
        match_bits: 0,
    };

    pub fn new(from: u32, header: &Header) -> Self {
        Self {
            from,
            route: header.route(),
            match_bits: header.match_bits,
        }
    }

    #[inline(always)]
    fn is(&self, from: u32, header: &Header) -> bool {
        self.from == from && self.route == header.route() && self.match_bits == header.match_bits
    }

    /// The header of a put to which nothing is answered and that asks for the same. What is compared need not be checked again, and what
    /// is left can have any value.
    #[inline(always)]
    fn repeated(&self, from: u32, (words, half): ([u64; 4], u32)) -> Option<Header> {
        let [first, second, third, fourth] = words;
        let match_bits = second >> 32 | third << 32;
        let is_same = self.from == from
            && first == u64::from(self.route) | NO_ANSWER << 32
            && second as u32 == NO_ANSWER as u32
            && match_bits == self.match_bits
            && self.route as u8 == MessageKind::Put as u8;
        let [_, pt_index, ac_index, interface] = self.route.to_le_bytes();
        is_same.then_some(Header {
            kind: MessageKind::Put,
            pt_index,
            ac_index,
            interface,
            operation: NO_ANSWER,
            match_bits,
            offset: third >> 32 | fourth << 32,
            data: fourth >> 32 | u64::from(half) << 32,
        })
    }
}
