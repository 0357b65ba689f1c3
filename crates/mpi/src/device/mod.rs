//! Ways to carry MPI messages, one file each. The postbox device is the only one so far.

pub mod wire;
