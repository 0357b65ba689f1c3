//! Farpost bench.
