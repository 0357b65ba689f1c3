//! Going on after processes have ended (`api/mpix.toml`): functions beside the standard's, whose errors go to the communicator's error handler.

pub(crate) mod functions;
