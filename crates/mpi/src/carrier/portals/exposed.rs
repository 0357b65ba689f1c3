//! Messages that stay with their senders until their receivers have them: the match entries by which they are fetched, and messages that
//! are announced only because there are no more of these.

use super::memory;
use super::send::whole;
use super::{KEPT_HERE, MESSAGES, Portals, bits, descriptor, user};
use crate::buffer::SendBuf;
use crate::engine::request::{Payload, Send};
use farpost_fabric::{Fabric, Peer, Time};
use farpost_portals::{
    AckReq, Error as PortalsError, Handle, Iovec, NetworkInterface, Position, Segment, THRESHOLD_INFINITE,
    Unlink, option,
};

/// The most pieces that scattered memory is described with; what has more is packed.
pub(super) const PIECES: usize = 256;
/// Operations of others that a message's descriptor takes: it is fetched once.
const FETCHES: i32 = 3;

type Result<T> = std::result::Result<T, PortalsError>;

impl<F: Fabric> Portals<F> {
    /// A message that can be fetched: all of it goes, and what is not taken comes again.
    pub(super) fn begin_kept(&mut self, send: &Send, index: u32) -> Result<()> {
        let md = self.keep(send, index)?;
        let Some(sending) = self.sends.get(index) else {
            return Err(PortalsError::Fail);
        };
        let header = bits::header(send.envelope.class, sending.name);
        let target = self.target(send.peer, MESSAGES, self.bits(&send.envelope) | bits::KEPT);
        self.ni.put(md, AckReq::Ack, &target, header)
    }

    /// Let the receiver of send `index` fetch it: its descriptor.
    pub(super) fn keep(&mut self, send: &Send, index: u32) -> Result<Handle> {
        let (start, length, iovec, packed) = described(&*self.fabric, &send.payload);
        if let Some(sending) = self.sends.get(index) {
            sending._packed = packed;
        }
        self.expose(index, (start, length, iovec))
    }

    /// A match entry by which the receiver of send `index` fetches it.
    fn expose(&mut self, index: u32, (start, length, iovec): (usize, u64, Iovec)) -> Result<Handle> {
        let Some(sending) = self.sends.get(index) else {
            return Err(PortalsError::Fail);
        };
        let (id, queue) = (sending.name, sending.queue);
        let receiver = self.ids[sending.peer.index()];
        let me = self
            .ni
            .me_attach(KEPT_HERE, receiver, (id, 0), Unlink::Retain, Position::After)?;
        sending.kept = Some(me);
        self.sends.exposed += 1;
        let pieces = if iovec.is_some() { option::IOVEC } else { 0 };
        let mut md = descriptor(
            start,
            length,
            option::OP_GET | option::MANAGE_REMOTE | pieces,
            user::of(user::KEPT, id as usize),
            self.queues[usize::from(queue)].eq,
        );
        md.threshold = FETCHES;
        if id & bits::IN_PARTS != 0 {
            // The receiver says when it has the last part.
            md.threshold = THRESHOLD_INFINITE;
            md.options |= option::EVENT_END_DISABLE;
            md.eq_handle = Handle::EQ_NONE;
        }
        memory::attach(&self.ni, me, md, iovec, Unlink::Retain)
    }

    /// As [`begin_kept`](Self::begin_kept), when so many are that there is no match entry for each: who has not taken it says
    /// that it wants it, and gets one then.
    pub(super) fn announce(&mut self, send: &Send, index: u32) -> Result<()> {
        let place = self.put_whole(send, index, (bits::KEPT, AckReq::Ack))?;
        // Nothing of it is looked at before this returns.
        if let Some(sending) = self.sends.get(index) {
            sending.announced = Some(place);
        }
        Ok(())
    }

    /// Let `peer` fetch the announced message `id`, which it wants. False: there is no match entry now.
    pub(super) fn expose_announced(&mut self, peer: Peer, id: u64) -> bool {
        let Some((_, index)) = self.sends.of_name(id).filter(|(to, _)| *to == peer) else {
            // It is over, and nobody fetches it: whoever has taken a message keeps its send from ending.
            return true;
        };
        let Some(sending) = self.sends.get(index) else {
            return true;
        };
        let (Some((address, length)), None) = (sending.announced, sending.kept) else {
            return true;
        };
        if self.sends.exposed >= self.sends.most_wanted {
            return false;
        }
        let start = if length == 0 { 0 } else { address };
        if self.expose(index, (start, length, None)).is_ok() {
            return true;
        }
        if let Some(me) = self.sends.get(index).and_then(|sending| sending.kept.take()) {
            self.sends.exposed -= 1;
            self.unlink(me);
        }
        false
    }
}

/// A message as a descriptor has it: pieces if there are few, else a copy.
fn described(time: &impl Time, payload: &Payload) -> (usize, u64, Iovec, Option<Box<[u8]>>) {
    if let Payload::User(buf) = payload
        && let Some(pieces) = pieces(buf.bytes(), payload.contiguous().is_some(), |list| {
            segments(buf, list)
        })
    {
        return (0, pieces.len() as u64, Some(pieces), None);
    }
    let (address, len, packed) = whole(time, payload);
    (address, len as u64, None, packed)
}

fn segments(buf: &SendBuf, list: &mut Vec<(usize, usize)>) -> u64 {
    buf.segments(0, PIECES, list)
}

/// Memory in at most [`PIECES`] pieces, unless it is one run or takes more.
pub(super) fn pieces(
    bytes: u64,
    contiguous: bool,
    list: impl FnOnce(&mut Vec<(usize, usize)>) -> u64,
) -> Option<std::rc::Rc<[Segment]>> {
    if contiguous || bytes == 0 {
        return None;
    }
    let mut runs = Vec::new();
    if list(&mut runs) != bytes {
        return None;
    }
    let segment = |(address, len)| Segment { address, len };
    Some(runs.into_iter().map(segment).collect())
}
