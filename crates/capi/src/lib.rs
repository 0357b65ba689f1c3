//! Farpost capi.
