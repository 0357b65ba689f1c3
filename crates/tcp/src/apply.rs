//! Applies the frames that the link delivers. Nothing in a frame is trusted.
//!
//! Cost class: lines, words and puts are *fast path*.

use super::close_reason::CloseReason;
use super::control::{ControlCode, SegmentNotice, WORDS_MAX};
use super::peer::PeerStatus;
use super::state::TcpState;
use crate::link::{FrameKind, GetRequest, Header, ZCOPY};
use farpost_fabric::{LINE_BYTES, Line, LocalMemory, Peer, Permission};

fn native(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

impl TcpState {
    /// Apply a frame whose turn it is.
    #[inline]
    pub fn apply(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), CloseReason> {
        let unit = match header.kind {
            FrameKind::PutLine => LINE_BYTES,
            FrameKind::PutWord => 8,
            FrameKind::Put => 1,
            _ => return self.apply_non_put(peer, header, payload),
        };
        if !header.offset.is_multiple_of(unit as u64) {
            return Err(CloseReason::Violation("an aligned offset", header.offset));
        }
        let (handle, len) = (header.object, payload.len());
        let reached = self
            .segments
            .reach(peer, handle, header.offset, len, Permission::ReadWrite);
        let Some((memory, offset)) = reached? else {
            self.segments.refuse(peer, handle);
            return Ok(());
        };
        match header.kind {
            FrameKind::PutLine => {
                let mut line: Line = [0; 8];
                for (to, from) in line.iter_mut().zip(payload.chunks_exact(8)) {
                    *to = native(from);
                }
                memory.store_line(offset, &line);
            }
            FrameKind::PutWord => memory.store(offset, native(payload)),
            _ => memory.write(offset, payload),
        }
        Ok(())
    }

    fn apply_non_put(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), CloseReason> {
        match header.kind {
            FrameKind::Packet => Ok(self.packets.arrived(peer, header.flags, payload)?),
            FrameKind::BulkGet => {
                let request =
                    GetRequest::parse(payload).ok_or(CloseReason::Violation("a request for bytes", 0))?;
                self.bulk_request(peer, header.object, &request);
                Ok(())
            }
            FrameKind::BulkRefused => {
                if let Some(remote) = self.peers.at(peer)
                    && let Some(token) = remote.tickets.remove(&header.object)
                {
                    self.transfer_refused(peer, token);
                }
                Ok(())
            }
            FrameKind::BulkDone if header.flags == ZCOPY => {
                self.zcopy_arrived(peer, header.object);
                Ok(())
            }
            FrameKind::Control => self.control_frame(peer, header, payload),
            FrameKind::Bye => {
                self.peers
                    .at(peer)
                    .into_iter()
                    .for_each(|remote| remote.status = PeerStatus::Left);
                Ok(())
            }
            FrameKind::Fault => Err(CloseReason::Accused(
                String::from_utf8_lossy(payload).into_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn control_frame(&mut self, peer: Peer, header: &Header, payload: &[u8]) -> Result<(), CloseReason> {
        let code = ControlCode::from_repr(header.flags)
            .ok_or(CloseReason::Violation("a control frame", header.flags.into()))?;
        if payload.len() != 8 * code.words() {
            return Err(CloseReason::Violation(
                "the length of a control frame",
                payload.len() as u64,
            ));
        }
        let mut words = [0; WORDS_MAX];
        for (to, from) in words.iter_mut().zip(payload.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().expect("eight bytes"));
        }
        match code {
            ControlCode::Credit => self.packets.credit(peer, header.object, words[0])?,
            ControlCode::Fence => {
                for (handle, puts) in self.segments.refusals_of(peer) {
                    self.control(peer, ControlCode::Refused, handle, &[puts]);
                }
                self.control(peer, ControlCode::Fenced, 0, &[words[0]]);
            }
            ControlCode::Fenced => {
                if let Some(remote) = self.peers.at(peer) {
                    let number = words[0];
                    if number > remote.fences || number < remote.fenced {
                        return Err(CloseReason::Violation("the number of a fence", number));
                    }
                    remote.fenced = number;
                }
            }
            ControlCode::Segment => self
                .segments
                .on_notice(peer, &SegmentNotice::decode(header.object, &words))?,
            ControlCode::Find => {
                let told = self.segments.answer(peer, header.object, words[0]);
                self.control(peer, ControlCode::Segment, told.id, &told.encode());
            }
            ControlCode::Forget => {
                self.segments.forget(peer, header.object);
                self.control(peer, ControlCode::Forgotten, header.object, &[]);
            }
            ControlCode::Refused => self.segments.refused(peer, header.object, words[0])?,
            ControlCode::Forgotten => self.segments.forgotten(peer, header.object),
            ControlCode::PutAsk => self.put_asked(peer, &words)?,
            ControlCode::ZcopyGrant => self.zcopy_granted(peer, words[0])?,
            ControlCode::PutDone => self.put_done(peer, words[0], words[1] == 0),
        }
        Ok(())
    }
}
