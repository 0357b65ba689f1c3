//! Messages that come without their bodies: a put of which only the header is to go, and what is left of a put or a reply whose body
//! could not be read. The document has neither (`docs/portals-deviations.md`). Queued path.

use super::operation::PUT;
use super::wire::{HEADER_BYTES, Header, MessageKind, NO_ANSWER};
use super::{Library, NO_TOKEN, Outgoing, Target, Verdict};
use crate::error::Error;
use crate::memory::Segments;
use crate::types::{Identity, NiFail};

/// Where a header has the initiator's operation, and here the length of the body that does not come.
const OPERATION: std::ops::Range<usize> = 4..12;

/// Make the header of a message whose body of `length` bytes cannot be had say so: the target, or who waits for the reply, learns of it
/// in its turn. False: such a message always has its body, and the header is as it was.
pub fn lose_body(header: &mut [u8; HEADER_BYTES], length: u64) -> bool {
    const PUT: u8 = MessageKind::Put as u8;
    const REPLY: u8 = MessageKind::Reply as u8;
    const LOST: [u8; 2] = [MessageKind::LostPut as u8, MessageKind::LostReply as u8];
    match header[0] {
        PUT => {
            header[0] = LOST[0];
            header[OPERATION].copy_from_slice(&length.to_le_bytes());
        }
        REPLY => header[0] = LOST[1],
        kind => return LOST.contains(&kind),
    }
    true
}

impl Library {
    /// The header of a put of `length` bytes, which go no way: it is matched as that put would be, and its events at the target have
    /// this length as the one that was requested, and 0 as the one that was stored. Here nothing is logged, and it is not acknowledged.
    ///
    /// # Errors
    /// [`Error::ProcessInvalid`]; [`Error::MdIllegal`]: no memory is so long.
    pub fn put_header(&self, length: u64, target: &Target, hdr_data: u64) -> Result<Outgoing, Error> {
        let to = self.processes.number(target.id).ok_or(Error::ProcessInvalid)?;
        if length > isize::MAX as u64 {
            return Err(Error::MdIllegal);
        }
        let header = target.header(MessageKind::PutHeader, self.network, length, hdr_data);
        Ok(Outgoing {
            to,
            header: header.encode(),
            body: Segments::default(),
            token: NO_TOKEN,
        })
    }

    /// A put without its body: matched, begun with nothing to store, and for the second of the kinds failed.
    #[cold]
    pub(super) fn put_without_body(
        &mut self,
        from: u32,
        who: &Identity,
        header: &Header,
        searched: impl FnOnce(usize),
    ) -> Verdict {
        let length = header.operation;
        let header = Header {
            operation: NO_ANSWER,
            ..*header
        };
        let (md, offset) = match self.find((from, who), (&header, length), PUT, false, searched) {
            Ok((md, offset, _)) => (md, offset),
            Err(reason) => return self.refuse(reason, from, None),
        };
        let verdict = self.accept(from, who, &header, length, PUT, (md, offset, 0));
        match header.kind {
            MessageKind::LostPut => self.lost(verdict),
            _ => verdict,
        }
    }

    /// A reply without its body: who waits for it waits no more.
    #[cold]
    pub(super) fn reply_without_body(&mut self, from: u32, who: &Identity, header: &Header) -> Verdict {
        let verdict = self.reply(from, who, header, 0);
        self.lost(verdict)
    }

    fn lost(&mut self, verdict: Verdict) -> Verdict {
        let Verdict::Store { token, .. } = verdict else {
            return verdict;
        };
        match self.finished(token, NiFail::FAIL) {
            Some(answer) => Verdict::Reply(answer),
            None => Verdict::Done,
        }
    }
}
