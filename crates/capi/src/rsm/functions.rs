//! One body per function of `api/rsm.toml`, under its name in lower case.
