//! Receiving a message in pieces: a handler that wants more than has arrived is suspended on a stack of its own until the
//! next piece is there. A message of one frame is handled on the caller's stack.

use crate::FmError;
use crate::running::Flow;
use crate::wire::{FRAME_WORDS, Frame, HEADER_BYTES};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use farpost_fabric::{Cost, Fabric, Peer};

/// What resumes a handler.
pub(crate) enum Wake<const WORDS: usize> {
    /// The next piece, and whether it is the last.
    Piece(Frame<WORDS>, bool),
    /// Nothing more will come.
    BrokenOff,
}

/// What a handler did.
pub(crate) enum Resumed {
    /// It waits for more, on that stack.
    Waits(usize),
    /// It has returned.
    Returned(Flow),
}

pub(crate) type Apart<const WORDS: usize> = Coroutine<Wake<WORDS>, (), Flow, DefaultStack>;

/// Handlers that are suspended, and stacks for those to come.
pub(crate) struct Stacks<const WORDS: usize> {
    pub(crate) apart: Vec<Option<Apart<WORDS>>>,
    pub(crate) spare: Vec<DefaultStack>,
    pub(crate) bytes: usize,
}

impl<const WORDS: usize> Stacks<WORDS> {
    /// For so many handlers, of so many bytes each.
    pub fn new(most: usize, bytes: usize) -> Self {
        let mut apart = Vec::new();
        apart.resize_with(most, || None);
        Self {
            apart,
            spare: Vec::with_capacity(most),
            bytes,
        }
    }
}

/// The message that a handler handles.
pub struct Receive<'a, F, const WORDS: usize = FRAME_WORDS> {
    fabric: &'a F,
    frame: &'a mut Frame<WORDS>,
    /// Bytes of the frame's payload that were received.
    at: usize,
    last: bool,
    broken: bool,
    yielder: Option<&'a Yielder<Wake<WORDS>, ()>>,
}

impl<'a, F: Fabric, const WORDS: usize> Receive<'a, F, WORDS> {
    /// Of one frame.
    #[inline(always)]
    pub(crate) fn whole(fabric: &'a F, frame: &'a mut Frame<WORDS>) -> Self {
        Self {
            fabric,
            frame,
            at: 0,
            last: true,
            broken: false,
            yielder: None,
        }
    }

    /// Of several, handled on a stack of its own.
    pub(crate) fn first_of(
        fabric: &'a F,
        frame: &'a mut Frame<WORDS>,
        last: bool,
        yielder: &'a Yielder<Wake<WORDS>, ()>,
    ) -> Self {
        Self {
            last,
            yielder: Some(yielder),
            ..Self::whole(fabric, frame)
        }
    }

    fn peer(&self) -> Peer {
        Peer(self.frame.peer)
    }

    /// Fill `buffer` with the next bytes of the message (`FM_receive`); waits for them, letting others run. What a handler
    /// does not receive is discarded when it returns.
    ///
    /// # Errors
    /// [`PastEnd`](FmError::PastEnd): fewer were sent; `buffer` has those that were.
    /// [`BrokenOff`](FmError::BrokenOff): the sender is gone or began another message.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<(), FmError> {
        let mut done = 0;
        while done < buffer.len() {
            if self.here() == 0 && !self.more(buffer.len() - done)? {
                continue;
            }
            let len = self.here().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&self.frame.payload()[self.at..self.at + len]);
            self.fabric.charge(Cost::Copy(len));
            self.at += len;
            done += len;
        }
        Ok(())
    }

    /// Skip the next `bytes` bytes. Errors as for [`receive`](Receive::receive).
    pub fn skip(&mut self, bytes: usize) -> Result<(), FmError> {
        let mut left = bytes;
        while left > 0 {
            if self.here() == 0 && !self.more(left)? {
                continue;
            }
            let len = self.here().min(left);
            self.at += len;
            left -= len;
        }
        Ok(())
    }

    /// Bytes that can be received without waiting.
    #[inline(always)]
    pub fn here(&self) -> usize {
        self.frame.packet().len() - HEADER_BYTES - self.at
    }

    /// Whether everything has been received. Waits if what is here has been received and was not the last.
    pub fn at_end(&mut self) -> Result<bool, FmError> {
        while self.here() == 0 {
            if self.last {
                return Ok(true);
            }
            self.more(1)?;
        }
        Ok(false)
    }

    /// Wait for the next piece; false if it is empty.
    fn more(&mut self, wanted: usize) -> Result<bool, FmError> {
        let peer = self.peer();
        if self.broken {
            return Err(FmError::BrokenOff { peer });
        }
        let yielder = match self.yielder {
            Some(yielder) if !self.last => yielder,
            _ => return Err(FmError::PastEnd { peer, wanted }),
        };
        match yielder.suspend(()) {
            Wake::Piece(frame, last) => {
                *self.frame = frame;
                self.at = 0;
                self.last = last;
                Ok(self.here() > 0)
            }
            Wake::BrokenOff => {
                self.broken = true;
                Err(FmError::BrokenOff { peer })
            }
        }
    }
}
