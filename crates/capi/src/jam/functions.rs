//! One body per function of `api/jam.toml`, under its name in lower case.
