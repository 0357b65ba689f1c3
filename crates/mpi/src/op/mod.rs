//! Reduction operations (MPI-5.0 section 6.9).
