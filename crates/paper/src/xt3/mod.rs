//! Portals 3.3 on the Cray XT3 (Brightwell, Hudson, Pedretti, Riesen and Underwood, 2005): rows P1 to P18.

pub mod machine;
pub mod netpipe;
