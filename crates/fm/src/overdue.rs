//! Frames of handlers that have waited in vain: at the greatest [depth](crate::FmTunables) of handlers a send can run no others, and what it waits for may be
//! that this node handles frames. Its frame is kept then, so that the handler returns and the next frame of the host receive queue has its turn.
//!
//! They are bounded, but by many times what the host receive queue holds: while this node's own frames wait for room somewhere, others may send it much that
//! is to be answered.

use crate::wire::Frame;
use std::collections::VecDeque;

/// What is kept, in the order of sending.
pub struct OverdueFrames<const WORDS: usize> {
    frames: VecDeque<Frame<WORDS>>,
    most: usize,
    /// The next frame that is offered may be kept.
    allowed: bool,
}

impl<const WORDS: usize> OverdueFrames<WORDS> {
    pub fn new(most: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            most,
            allowed: false,
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether sends have to look here.
    pub fn is_concerned(&self) -> bool {
        self.allowed || !self.frames.is_empty()
    }

    /// The next frame may be kept, if there is room.
    pub fn allow(&mut self) -> bool {
        self.allowed = self.frames.len() < self.most;
        self.allowed
    }

    pub fn forbid(&mut self) {
        self.allowed = false;
    }

    /// The place of one that may.
    pub fn room(&mut self) -> Option<&mut Frame<WORDS>> {
        if !std::mem::take(&mut self.allowed) {
            return None;
        }
        self.frames.push_back(Frame::default());
        self.frames.back_mut()
    }

    pub fn front(&self) -> Option<Frame<WORDS>> {
        self.frames.front().copied()
    }

    pub fn taken(&mut self) {
        self.frames.pop_front();
    }
}
