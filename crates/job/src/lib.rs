//! Farpost job.
