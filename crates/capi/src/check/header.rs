//! The words before the data of every message of a checked program.
//!
//! ```text
//! word 0   magic (32 bits), number of the sending function (16), class of the datatype (8)
//! word 1   call site of the send
//! word 2.. signature of the data
//! ```

use core::ffi::c_int;
use std::cell::Cell;
use std::rc::Rc;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::{self, Datatype, HEADER_BYTES, HEADER_WORDS, Header, Signature};
use farpost_mpi::engine::request::Status;
use farpost_mpi::{Error, ErrorClass, Result};

use super::report::ReportKind;
use super::{Call, Check, Site};
use crate::abi;
use crate::cx::{CommRef, Cx, comm_name};
use crate::names::Fun;

const MAGIC: u64 = 0xfa12_c4ec;
const SIGNATURE: usize = 2;
const _: () = assert!(SIGNATURE + Signature::WORDS == HEADER_WORDS);

/// What a header says.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) call: Call,
    class: u8,
    pub(crate) signature: Signature,
}

impl Sent {
    fn write(&self) -> Header {
        let mut words = [0; HEADER_WORDS];
        words[0] = MAGIC << 32 | u64::from(self.call.fun.0) << 16 | u64::from(self.class);
        words[1] = self.call.site.0;
        words[SIGNATURE..].copy_from_slice(&self.signature.words());
        Rc::new(words.map(Cell::new))
    }

    /// `None`: no message has come into it.
    pub(crate) fn read(header: &Header) -> Option<Self> {
        let first = header[0].get();
        let fun = Fun((first >> 16) as u16);
        if first >> 32 != MAGIC || !fun.exists() {
            return None;
        }
        let words: [u64; Signature::WORDS] = std::array::from_fn(|at| header[SIGNATURE + at].get());
        Some(Self {
            call: Call {
                fun,
                site: Site(header[1].get()),
            },
            class: first as u8,
            signature: Signature::from_words(&words),
        })
    }
}

/// A receive under way: what its message is compared with.
#[derive(Clone)]
pub(crate) struct Expected {
    header: Header,
    datatype: Datatype,
    count: u64,
    comm: Option<CommRef>,
    call: Call,
}

/// A buffer to send, its header before it.
///
/// # Errors
/// The datatype is too large to have a header.
pub(crate) fn outgoing(call: Call, buf: &SendBuf) -> Result<SendBuf> {
    headed(&header_of(call, buf), buf.address(), buf.count(), buf.datatype())
}

/// A packed copy to send in the place of `of`.
///
/// # Errors
/// As [`outgoing`].
///
/// # Safety
/// As [`SendBuf::new`], of the copy.
pub(crate) unsafe fn outgoing_copy(call: Call, copy: &[u8], of: &SendBuf) -> Result<SendBuf> {
    let address = copy.as_ptr().expose_provenance();
    headed(
        &header_of(call, of),
        address,
        copy.len() as u64,
        &Datatype::byte(),
    )
}

fn header_of(call: Call, buf: &SendBuf) -> Header {
    let sent = Sent {
        call,
        class: buf.sig(),
        signature: buf.datatype().signature().repeated(buf.count()),
    };
    sent.write()
}

fn headed(header: &Header, address: usize, count: u64, datatype: &Datatype) -> Result<SendBuf> {
    let datatype = datatype.headed(header, address, count)?;
    // SAFETY: the header lives as long as the datatype; the data are those of another buffer, whose maker promised
    // that they are there.
    Ok(unsafe { SendBuf::new(core::ptr::with_exposed_provenance(0), 1, datatype) })
}

/// Room for a message, for its header before it. `comm`: `None` for a message that was matched before.
///
/// # Errors
/// The datatype is too large to have a header.
pub(crate) fn incoming(call: Call, buf: &RecvBuf, comm: Option<&CommRef>) -> Result<(RecvBuf, Expected)> {
    let header = Header::default();
    let headed = buf.datatype().headed(&header, buf.address(), buf.count())?;
    let expected = Expected {
        header,
        datatype: buf.datatype().clone(),
        count: buf.count(),
        comm: comm.cloned(),
        call,
    };
    // SAFETY: the header lives as long as the datatype; the room is that of another buffer, whose maker promised it.
    Ok((
        unsafe { RecvBuf::new(core::ptr::with_exposed_provenance_mut(0), 1, headed) },
        expected,
    ))
}

/// Room for the header alone.
pub(crate) fn header_only() -> Result<(RecvBuf, Header)> {
    let header = Header::default();
    let headed = Datatype::byte().headed(&header, 0, 0)?;
    // SAFETY: the header lives as long as the datatype, and there is no room beside it.
    Ok((
        unsafe { RecvBuf::new(core::ptr::with_exposed_provenance_mut(0), 1, headed) },
        header,
    ))
}

/// Bytes of the program's in a message.
pub(crate) fn strip(status: &mut Status) {
    if status.source != abi::MPI_PROC_NULL && status.source != abi::MPI_ANY_SOURCE {
        status.bytes = status.bytes.saturating_sub(HEADER_BYTES);
    }
}

impl Check {
    /// A message has come: compares it with its receive. The status becomes the program's.
    pub(crate) fn received(&self, cx: &Cx, expected: &Expected, status: &mut Status) {
        strip(status);
        if status.cancelled {
            status.bytes = 0;
            return;
        }
        let sent = Sent::read(&expected.header);
        // The next message of a persistent receive writes its own.
        expected.header[0].set(0);
        let class = status.error.as_ref().map(|error| error.class);
        if class.is_some_and(|class| class != ErrorClass::ERR_TRUNCATE) {
            return;
        }
        let Some(sent) = sent else { return };
        let capacity = expected.count.saturating_mul(expected.datatype.size());
        if class.is_some() {
            let text = format!(
                "count={}: the message has {} bytes, the buffer holds {capacity}: {}",
                expected.count,
                sent.signature.bytes,
                self.both(expected, &sent, status)
            );
            status.error = Some(Box::new(Error::new(ErrorClass::ERR_TRUNCATE, text)));
            return;
        }
        let mine = expected.datatype.signature_of(status.bytes);
        if mine.is_none_or(|mine| !mine.matches(&sent.signature)) {
            let text = format!(
                "the types of a message differ: {}",
                self.both(expected, &sent, status)
            );
            self.find(cx, ReportKind::Signature, &text);
        }
        let (theirs, ours) = (sent.class, expected.datatype.sig());
        if theirs != 0 && ours != 0 && theirs != ours && status.bytes > 0 {
            // As without the check.
            let text = format!(
                "datatype: the message was sent as {}, the receive says {}",
                datatype::class_name(theirs),
                expected.datatype.describe()
            );
            status.error = Some(Box::new(Error::new(ErrorClass::ERR_TYPE, text)));
        }
    }

    /// Both ends of a message, in a sentence.
    fn both(&self, expected: &Expected, sent: &Sent, status: &Status) -> String {
        let comm = expected
            .comm
            .as_ref()
            .map_or_else(String::new, |comm| format!(" of {}", comm_name(comm)));
        let room = expected.datatype.signature().repeated(expected.count);
        format!(
            "rank {}{comm} sent {} with tag {} by {}, and {} has room for {}",
            status.source as c_int,
            sent.signature.describe(),
            status.tag,
            self.call_text(sent.call),
            self.call_text(expected.call),
            room.describe()
        )
    }
}
