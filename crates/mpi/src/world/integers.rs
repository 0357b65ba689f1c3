//! Handles from the integers that stand for them (MPI-5.0 section 20.4).

use super::World;
use crate::engine::SENT;
use farpost_fabric::Fabric;

impl<F: Fabric> World<F> {
    /// The communicator that the program knows as this integer, beside the predefined ones.
    pub fn comm_from_int(&self, int: i32) -> Option<usize> {
        self.comms.borrow().from_int(int)
    }

    /// The session that the program knows as this integer.
    pub fn session_from_int(&self, int: i32) -> Option<usize> {
        self.sessions.borrow().from_int(int)
    }

    /// The request that the program knows as this integer.
    pub fn request_from_int(&self, int: i32) -> Option<usize> {
        if int as usize == SENT {
            return Some(SENT);
        }
        self.engine.borrow().requests.from_int(int)
    }

    /// The matched message that the program knows as this integer.
    pub fn message_from_int(&self, int: i32) -> Option<usize> {
        self.messages.borrow().from_int(int)
    }
}
