//! How a world runs collectives: their schedules over the engine, and two ways without a plan and without messages, for blocking
//! ones. Short ones go by lines that all ranks read (`quick`), and large reductions in each other's memory (`peers`).

pub mod board;
pub mod by_host;
mod collective;
mod peers;
mod quick;

pub use collective::CollectiveRequest;
pub(crate) use collective::Via;
