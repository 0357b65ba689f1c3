//! The papers' machines in virtual time.

pub mod machine;
pub mod net;
pub mod queue;
pub mod time;
pub mod topology;
