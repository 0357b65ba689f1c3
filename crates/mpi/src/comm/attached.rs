//! Buffers that programs attach for buffered sends (MPI-5.0 section 3.6).

/// An attached buffer.
pub struct Attached {
    /// Address and size as given.
    pub address: usize,
    pub size: u64,
    /// MPI_BUFFER_AUTOMATIC: no limit.
    pub automatic: bool,
    /// Sends under way: request and what they take.
    pub(crate) pending: Vec<(usize, u64)>,
}

impl Attached {
    /// A buffer of `size` bytes at `address`.
    pub fn new(address: usize, size: u64, automatic: bool) -> Self {
        Self {
            address,
            size,
            automatic,
            pending: Vec::new(),
        }
    }
}
