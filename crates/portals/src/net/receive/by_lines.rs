//! From those whose memory we map: what comes by lines comes once and in order. It is not refused either: what there is no
//! pending for, or what the upper layer does not want yet, stays in its lines.
//!
//! Cost class: fast path ([`Receive::spare`]); else queued path.

use super::*;
use crate::malformed::error;

/// What is kept about a process that sends by lines.
pub struct FromLines {
    /// The name of the answer that says that there are lines, until it has been told.
    untold: Option<u16>,
    /// It has ended.
    ended: bool,
    /// Of each channel, the number behind that of the latest message whose body is fetched.
    wanted: [Option<u16>; 2],
}

impl FromLines {
    pub fn new(tag: u16) -> Self {
        Self {
            untold: Some(tag),
            ended: false,
            wanted: [None; 2],
        }
    }

    #[inline(always)]
    pub fn wanted(&self, index: usize) -> Option<u16> {
        self.wanted[index]
    }

    /// The messages wanted next of both channels, and a mask of those that mean something.
    pub fn all_wanted(&self) -> (u16, [u16; 2]) {
        let [answers, requests] = self.wanted.map(|wanted| u16::from(wanted.is_some()));
        (
            answers | requests << 1,
            self.wanted.map(Option::unwrap_or_default),
        )
    }

    /// Whether it has been told that there are lines.
    pub fn is_told(&self) -> bool {
        self.untold.is_none()
    }

    /// What it has to be told: the tag of [`Op::Sync`].
    pub fn news(&self) -> Option<u16> {
        self.untold
    }

    pub fn news_are_told(&mut self) {
        self.untold = None;
    }

    /// It has ended, and is told nothing any more.
    pub fn end(&mut self) {
        (self.untold, self.ended) = (None, true);
    }
}

impl<F: Fabric> Receive<F> {
    /// A pending that is free.
    #[inline(always)]
    pub fn spare(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// A packet that came by lines. None: it cannot be taken now.
    pub fn accept_by_lines(
        &mut self,
        figures: &mut Figures,
        (from, index): (Peer, usize),
        word: &Word,
    ) -> Result<Option<Accepted>, Malformed> {
        let malformed = |what| error!(what, word.kind as u8);
        let stranger = malformed("a Portals process that sends by lines");
        let at = self.origins.find(from).ok_or(stranger)?;
        let origin = self.origins.at(at);
        let ReceivePath::Lines(lines) = &mut origin.path else {
            return Err(stranger);
        };
        let streaming = origin.lanes[index].streaming;
        if lines.ended && word.kind == PacketKind::Data && streaming == NONE {
            // Of a message that has been given up.
            return Ok(Some(Accepted::No));
        }
        if (word.kind == PacketKind::Data) != (streaming != NONE) {
            if streaming != NONE {
                // What was begun never ends: its sender does not keep to the protocol.
                self.abandon(streaming);
            }
            return Err(malformed("the next part of a Portals message"));
        }
        self.urgent |= word.has(WANTS_ACK);
        match word.kind {
            PacketKind::Data => {
                let waits = self.pendings[usize::from(streaming)].stage == Stage::Later;
                Ok((!waits).then_some(Accepted::Data(streaming)))
            }
            PacketKind::Staged | PacketKind::Pull | PacketKind::Gather | PacketKind::Stream => {
                let Some(&number) = self.free.last() else {
                    figures.exhausted += 1;
                    return Ok(None);
                };
                if word.kind != PacketKind::Stream {
                    lines.wanted[index] = Some(word.seq.wrapping_add(1));
                }
                Ok(Some(Accepted::Header(number, at)))
            }
            PacketKind::Short | PacketKind::Control => Err(malformed("a Portals packet in lines")),
        }
    }

    /// A message just begun stays in its lines.
    #[cold]
    pub fn leave(&mut self, number: u16) {
        let pending = &self.pendings[usize::from(number)];
        let (at, index, seq) = (pending.origin, usize::from(pending.lane), pending.seq);
        if pending.holds_back()
            && let ReceivePath::Lines(lines) = &mut self.origins.at(at).path
        {
            lines.wanted[index] = Some(seq);
        }
        self.unlink(number);
        self.release(number);
    }
}
