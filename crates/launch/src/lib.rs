//! Farpost launch.
