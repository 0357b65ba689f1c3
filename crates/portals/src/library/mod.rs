//! The library of section 3 of the paper: objects of one process's network interface and the translation of
//! addresses. Written once; where it runs is somebody else's choice. It does no input and output and follows no address.

/// One network interface's objects.
pub struct Library {}
