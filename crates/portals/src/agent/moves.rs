//! Bytes being moved between the agent's memory and a client's.

use super::pieces::Pieces;
use super::structures::{Arena, Room};
use crate::memory::user;
use farpost_fabric::{Completion, Direction, Fabric, FabricError, Moment, Peer, Ticket};

/// Bytes of one move before others have their turn.
const CHUNK: usize = 256 << 10;

/// A part that is under way.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Transfer(Ticket, usize),
    Window(usize, usize),
}

/// Bytes being moved between the arena and a client.
pub(super) struct Move {
    pub pieces: Pieces,
    pub direction: Direction,
    /// Which arena.
    pub arena: usize,
    pub room: Room,
    /// Where in the room.
    pub at: usize,
    pub len: usize,
    pub done: usize,
    pub under_way: Option<Part>,
    /// Since when a client is to move them and has not.
    pub since: Option<Moment>,
}

impl Move {
    /// `len` bytes of a room of an arena, from `at` on.
    pub fn new(
        pieces: Pieces,
        direction: Direction,
        (arena, room, at): (usize, Room, usize),
        len: usize,
    ) -> Self {
        Self {
            pieces,
            direction,
            arena,
            room,
            at,
            len,
            done: 0,
            under_way: None,
            since: None,
        }
    }

    /// The key of the piece that is next, the position in what it names, and bytes that lie there in a row.
    pub fn next_part(&self, most: usize) -> Option<(u64, u64, usize)> {
        let mut before = 0;
        for piece in self.pieces.iter() {
            let skip = (self.done - before) as u64;
            if skip < piece.len {
                let len = (piece.len - skip).min((self.len - self.done) as u64);
                return Some((piece.key, piece.position + skip, (len as usize).min(most)));
            }
            before += piece.len as usize;
        }
        None
    }

    /// Go on with what the agent moves itself. True: all has moved.
    pub fn advance<F: Fabric>(
        &mut self,
        fabric: &F,
        client: Peer,
        arenas: &[Arena; 3],
    ) -> Result<bool, FabricError> {
        let mut now = 0;
        loop {
            if let Some(Part::Transfer(ticket, len)) = self.under_way {
                if !fabric
                    .poll_transfer(ticket)
                    .inspect_err(|_| self.under_way = None)?
                {
                    return Ok(false);
                }
                self.under_way = None;
                self.done += len;
            }
            if self.done >= self.len {
                return Ok(true);
            }
            if now >= CHUNK {
                return Ok(false);
            }
            let Some((key, position, len)) = self.next_part(CHUNK) else {
                return Ok(true);
            };
            let local = arenas[self.arena].segment(self.room, self.at + self.done, len);
            match user::transfer(fabric, (client, self.direction), local, (position, key))? {
                Completion::Done => self.done += len,
                Completion::Pending(ticket) => self.under_way = Some(Part::Transfer(ticket, len)),
            }
            now += len;
        }
    }
}
