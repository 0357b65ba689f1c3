//! The network layer: moves messages, each an opaque header and a body, between processes.
