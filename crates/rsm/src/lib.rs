//! Farpost rsm.
