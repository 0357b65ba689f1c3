//! Buffers with some words before the user's data: what a checked program's messages carry.
//!
//! Every device moves such a message as any other with gaps, so that none has to know of it.

use super::Datatype;
use super::envelope::{Combiner, Envelope};
use super::shape::Shape;
use crate::errors::Result;
use std::cell::Cell;
use std::rc::Rc;

/// Words of a [`Header`].
pub const HEADER_WORDS: usize = 8;
/// Bytes of a [`Header`].
pub const HEADER_BYTES: u64 = 8 * HEADER_WORDS as u64;

/// Words before the data. Shared by who writes or reads them and by the datatype, and so by every request that may still
/// use them.
pub type Header = Rc<[Cell<u64>; HEADER_WORDS]>;

impl Datatype {
    /// One element of the new type, at address 0, is `header` and then `count` elements of this type at `address`.
    ///
    /// # Errors
    /// `MPI_ERR_VALUE_TOO_LARGE`: more bytes than 63 bits count.
    pub fn headed(&self, header: &Header, address: usize, count: u64) -> Result<Datatype> {
        let at = header.as_ptr() as usize;
        let shape = Shape::Struct {
            blocks: [HEADER_BYTES, count].into(),
            disps: [at as i64, address as i64].into(),
            children: vec![Datatype::byte(), self.clone()],
        };
        let envelope = Envelope::plain(Combiner::STRUCT, vec![], vec![], vec![]);
        let mut made = Self::build(shape, None, envelope)?;
        if let Some(object) = Rc::get_mut(&mut made.0) {
            object.header = Some(Rc::clone(header));
        }
        made.commit();
        Ok(made)
    }

    /// Bytes before the user's data.
    pub fn header_bytes(&self) -> u64 {
        if self.0.header.is_some() { HEADER_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{RecvBuf, SendBuf};

    #[test]
    fn a_header_travels_before_the_data() {
        let header: Header = Rc::new(std::array::from_fn(|word| Cell::new(word as u64)));
        let data = [7u8; 12];
        let ty = Datatype::byte()
            .headed(&header, data.as_ptr() as usize, 12)
            .unwrap();
        drop(header);
        assert_eq!((ty.size(), ty.header_bytes()), (HEADER_BYTES + 12, HEADER_BYTES));
        let mut packed = [0; HEADER_BYTES as usize + 12];
        send(&ty).pack(0, &mut packed);
        assert_eq!((packed[0], packed[8], packed[56], packed[64]), (0, 1, 7, 7));

        let header: Header = Rc::default();
        let mut data = [0u8; 4];
        let ty = Datatype::byte()
            .headed(&header, data.as_mut_ptr() as usize, 4)
            .unwrap();
        receive(&ty).unpack(0, &packed);
        assert_eq!((header[7].get(), data), (7, [7; 4]));
    }

    #[allow(unsafe_code)]
    fn send(ty: &Datatype) -> SendBuf {
        // SAFETY: the data and the header live as long as the test.
        unsafe { SendBuf::new(std::ptr::with_exposed_provenance(0), 1, ty.clone()) }
    }

    #[allow(unsafe_code)]
    fn receive(ty: &Datatype) -> RecvBuf {
        // SAFETY: the data and the header live as long as the test.
        unsafe { RecvBuf::new(std::ptr::with_exposed_provenance_mut(0), 1, ty.clone()) }
    }
}
