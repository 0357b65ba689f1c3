//! No library: a ring of cache lines in memory that both ranks map.

use super::ends::{Ends, LARGEST, Link};
use crate::abi::Result;
use crate::board::Board;

/// Two rings, one each way.
pub struct Bare {
    board: Board,
    ends: Ends,
}

impl Bare {
    /// On a view of the memory of its own.
    pub fn new(board: Board) -> Self {
        Self {
            ends: Ends::new(board.rank(), LARGEST),
            board,
        }
    }
}

impl Link for Bare {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        self.board.queue_send(&self.ends.out.bytes()[..bytes]);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, bytes: usize) -> Result<()> {
        self.board.queue_receive(&mut self.ends.into.bytes_mut()[..bytes]);
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
