//! No library: a ring of cache lines in memory that both ranks map.

use super::{Block, LARGEST, Link};
use crate::abi::Result;
use crate::board::Board;

/// Two rings, one each way.
pub struct Bare {
    board: Board,
    out: Block,
    into: Block,
}

impl Bare {
    /// On a view of the memory of its own.
    pub fn new(board: Board) -> Self {
        let block = || Block::new(LARGEST);
        Self {
            board,
            out: block(),
            into: block(),
        }
    }
}

impl Link for Bare {
    fn rank(&self) -> usize {
        self.board.rank()
    }

    fn outbox(&mut self) -> &mut Block {
        &mut self.out
    }

    fn inbox(&mut self) -> &mut Block {
        &mut self.into
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        self.board.queue_send(&self.out.bytes()[..bytes]);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, bytes: usize) -> Result<()> {
        self.board.queue_receive(&mut self.into.bytes_mut()[..bytes]);
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
