//! Sending a message in pieces (FM 2.x): gathered into frames, which leave as they fill.

use crate::FmError;
use crate::engine::Fm;
use crate::wire::{BEGIN, END, FRAME_WORDS, FrameKind, Header};
use farpost_fabric::{Cost, Fabric, Peer};

/// A message that is being sent. Dropped before its end, it is broken off: the receiver learns that with the next message
/// from here.
pub struct Sending<F: Fabric + 'static, const WORDS: usize = FRAME_WORDS> {
    fm: Fm<F, WORDS>,
    to: u32,
    handler: u16,
    announced: usize,
    /// Bytes of pieces taken so far.
    taken: usize,
    begun: bool,
    fill: usize,
    frame: [[u8; 8]; WORDS],
}

impl<F: Fabric + 'static, const WORDS: usize> Fm<F, WORDS> {
    /// Whether a message is being sent: until it has ended, no other can be begun.
    pub fn is_sending(&self) -> bool {
        self.0.sending.get()
    }

    /// Begin a message of at most `announced` bytes (`FM_begin_message`). Does not block. None: another message is being
    /// sent, or no slot is free; [`extract`](Fm::extract), then try again. A handler rather gives up: what it waits for may
    /// be that it returns.
    pub fn begin_message(
        &self,
        to: u32,
        announced: usize,
        handler: u32,
    ) -> Result<Option<Sending<F, WORDS>>, FmError> {
        self.check(to, handler)?;
        if announced > u32::MAX as usize {
            return Err(FmError::AnnouncedTooMuch { bytes: announced });
        }
        {
            let mut state = self.0.state.borrow_mut();
            if state.is_lost(to) {
                return Err(FmError::Lost { peer: Peer(to) });
            }
            if state.window.free() == 0 {
                state.serve(&*self.0.fabric);
            }
            if state.window.free() == 0 || self.0.sending.get() {
                return Ok(None);
            }
        }
        self.0.sending.set(true);
        Ok(Some(Sending {
            fm: self.clone(),
            to,
            handler: handler as u16,
            announced,
            taken: 0,
            begun: false,
            fill: 0,
            frame: [[0; 8]; WORDS],
        }))
    }
}

impl<F: Fabric + 'static, const WORDS: usize> Sending<F, WORDS> {
    /// To whom.
    pub fn to(&self) -> u32 {
        self.to
    }

    /// Take as much of a piece as goes without waiting: how many bytes.
    ///
    /// # Errors
    /// [`MoreThanAnnounced`](FmError::MoreThanAnnounced), with nothing taken; [`Lost`](FmError::Lost).
    pub fn try_piece(&mut self, piece: &[u8]) -> Result<usize, FmError> {
        let total = self.taken + piece.len();
        if total > self.announced {
            return Err(FmError::MoreThanAnnounced {
                peer: Peer(self.to),
                bytes: piece.len(),
                total,
                announced: self.announced,
            });
        }
        let frame = self.fm.frame();
        let mut taken = 0;
        while taken < piece.len() {
            // A full frame leaves when more comes, so that the last one can say that it is the last.
            if self.fill == frame && !self.leave(0)? {
                break;
            }
            let len = (piece.len() - taken).min(frame - self.fill);
            self.frame.as_flattened_mut()[self.fill..self.fill + len]
                .copy_from_slice(&piece[taken..taken + len]);
            self.fill += len;
            taken += len;
        }
        self.fm.fabric().charge(Cost::Copy(taken));
        self.taken += taken;
        Ok(taken)
    }

    /// Send a piece (`FM_send_piece`). Without a free slot it waits, and runs handlers meanwhile where that is allowed.
    ///
    /// # Errors
    /// As for [`try_piece`](Sending::try_piece), and [`Stuck`](FmError::Stuck).
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), FmError> {
        let mut done = self.try_piece(piece)?;
        if done < piece.len() {
            let fm = self.fm.clone();
            fm.until(self.to, || {
                done += self.try_piece(&piece[done..])?;
                Ok(done == piece.len())
            })?;
        }
        Ok(())
    }

    /// End the message if that goes without waiting.
    pub fn try_end(&mut self) -> Result<bool, FmError> {
        self.leave(END)
    }

    /// End the message (`FM_end_message`).
    ///
    /// # Errors
    /// [`Lost`](FmError::Lost), [`Stuck`](FmError::Stuck).
    pub fn end(mut self) -> Result<(), FmError> {
        if self.try_end()? {
            return Ok(());
        }
        let fm = self.fm.clone();
        fm.until(self.to, || self.try_end())
    }

    fn leave(&mut self, flags: u8) -> Result<bool, FmError> {
        let begin = if self.begun { 0 } else { BEGIN };
        let mut header = Header::new(FrameKind::Piece, flags | begin, self.handler, self.fill);
        if !self.begun {
            header.announced = self.announced as u32;
        }
        let left = self
            .fm
            .offer(self.to, header, &[], &self.frame.as_flattened()[..self.fill])?;
        if left {
            self.begun = true;
            self.fill = 0;
        }
        Ok(left)
    }
}

impl<F: Fabric + 'static, const WORDS: usize> Drop for Sending<F, WORDS> {
    fn drop(&mut self) {
        self.fm.0.sending.set(false);
    }
}
