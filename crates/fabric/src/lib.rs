//! Farpost fabric.
