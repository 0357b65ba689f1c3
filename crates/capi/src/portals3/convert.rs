//! Between C's types and the library's.

use core::fmt::{self, Display, Formatter};
use std::rc::Rc;

use farpost_portals::{
    AccessEntry, AckReq, Error, Event, Handle, Iovec, Limits, Md, Position, ProcessId, Segment, Target,
    Unlink, field, option,
};

use crate::interfaces::portals3::*;
use crate::interfaces::refuse;

use super::state::Answer;

pub(super) fn id(of: ptl_process_id_t) -> ProcessId {
    ProcessId::new(of.nid, of.pid)
}

pub(super) fn c_id(id: ProcessId) -> ptl_process_id_t {
    ptl_process_id_t {
        nid: id.nid,
        pid: id.pid,
    }
}

/// As in a sentence.
impl Display for ptl_process_id_t {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}, {}}}", self.nid, self.pid)
    }
}

/// As in a sentence: what errors are mostly about.
impl Display for ptl_md_t {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{start={:p}, length={}, threshold={}, options={:#x}, eq_handle={:#x}}}",
            self.start, self.length, self.threshold, self.options, self.eq_handle
        )
    }
}

#[cold]
fn none_of<T>(name: &str, value: u32, allowed: &str) -> Answer<T> {
    refuse!(Error::Fail: "{name}={value}: allowed are {allowed}")
}

/// # Errors
/// None of the values.
#[inline]
pub(super) fn unlink(name: &str, value: ptl_unlink_t) -> Answer<Unlink> {
    match value {
        PTL_RETAIN => Ok(Unlink::Retain),
        PTL_UNLINK => Ok(Unlink::Unlink),
        _ => none_of(name, value, "PTL_RETAIN (0) and PTL_UNLINK (1)"),
    }
}

/// # Errors
/// None of the values.
#[inline]
pub(super) fn position(value: ptl_ins_pos_t) -> Answer<Position> {
    match value {
        PTL_INS_BEFORE => Ok(Position::Before),
        PTL_INS_AFTER => Ok(Position::After),
        _ => none_of("position", value, "PTL_INS_BEFORE (0) and PTL_INS_AFTER (1)"),
    }
}

/// # Errors
/// None of the values.
#[inline]
pub(super) fn ack_req(value: ptl_ack_req_t) -> Answer<AckReq> {
    match value {
        PTL_ACK_REQ => Ok(AckReq::Ack),
        PTL_NO_ACK_REQ => Ok(AckReq::NoAck),
        _ => none_of("ack_req", value, "PTL_ACK_REQ (0) and PTL_NO_ACK_REQ (1)"),
    }
}

pub(super) fn access_entry(
    match_id: ptl_process_id_t,
    uid: ptl_uid_t,
    jid: ptl_jid_t,
    pt_index: ptl_pt_index_t,
) -> AccessEntry {
    AccessEntry {
        id: id(match_id),
        uid,
        jid,
        pt_index,
    }
}

#[inline]
pub(super) fn target(
    to: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    offset: ptl_size_t,
) -> Target {
    Target {
        id: id(to),
        pt_index,
        ac_index,
        match_bits,
        offset,
    }
}

/// A descriptor of the program's, with its pieces if it has them: the array is read here, once.
///
/// # Safety
/// With `PTL_MD_IOVEC`, `start` is null or points to `length` pieces.
///
/// # Errors
/// More pieces than the limit, or none where there should be some.
pub(super) unsafe fn descriptor(md: &ptl_md_t, limits: &Limits) -> Answer<(Md, Iovec)> {
    let own = Md {
        start: md.start.addr(),
        length: md.length,
        threshold: md.threshold,
        max_size: md.max_size,
        options: md.options,
        user_ptr: md.user_ptr.addr(),
        eq_handle: Handle(md.eq_handle),
    };
    if md.options & option::IOVEC == 0 {
        return Ok((own, None));
    }
    let most = u64::try_from(limits.max_md_iovecs).unwrap_or(0);
    if md.length > most || (md.start.is_null() && md.length > 0) {
        return refuse!(
            Error::MdIllegal: "md.start={:p}, md.length={}: with PTL_MD_IOVEC an array of at most {most} pieces is wanted (limits: max_md_iovecs)", md.start, md.length
        );
    }
    let pieces = md.start.cast_const().cast::<ptl_md_iovec_t>();
    let each = (0..md.length as usize).map(|at| {
        // SAFETY: the caller vouches for `length` pieces. The program's array may lie anywhere.
        let piece = unsafe { pieces.add(at).read_unaligned() };
        Segment {
            address: piece.iov_base.addr(),
            // More than an address space has is refused below.
            len: usize::try_from(piece.iov_len).unwrap_or(usize::MAX),
        }
    });
    Ok((own, Some(Rc::from_iter(each))))
}

/// A descriptor as C sees it.
#[inline]
pub(super) fn c_descriptor(md: &Md) -> ptl_md_t {
    ptl_md_t {
        start: core::ptr::with_exposed_provenance_mut(md.start),
        length: md.length,
        threshold: md.threshold,
        max_size: md.max_size,
        options: md.options,
        user_ptr: core::ptr::with_exposed_provenance_mut(md.user_ptr),
        eq_handle: md.eq_handle.0,
    }
}

/// An event as C sees it.
#[inline]
pub(super) fn c_event(event: &Event) -> ptl_event_t {
    ptl_event_t {
        r#type: event.kind as ptl_event_kind_t,
        initiator: c_id(field(&event.initiator)),
        uid: field(&event.uid),
        jid: field(&event.jid),
        pt_index: field(&event.pt_index),
        match_bits: field(&event.match_bits),
        rlength: field(&event.rlength),
        mlength: field(&event.mlength),
        offset: field(&event.offset),
        md_handle: field(&event.md_handle.0),
        md: c_descriptor(&event.md),
        hdr_data: field(&event.hdr_data),
        link: field(&event.link),
        ni_fail_type: field(&event.ni_fail_type.0),
        sequence: field(&event.sequence),
    }
}

/// The same fields in another structure.
macro_rules! same_limits {
    ($to:ident, $of:expr) => {
        $to {
            max_mes: $of.max_mes,
            max_mds: $of.max_mds,
            max_eqs: $of.max_eqs,
            max_ac_index: $of.max_ac_index,
            max_pt_index: $of.max_pt_index,
            max_md_iovecs: $of.max_md_iovecs,
            max_me_list: $of.max_me_list,
            max_getput_md: $of.max_getput_md,
        }
    };
}

pub(super) fn limits(of: &ptl_ni_limits_t) -> Limits {
    same_limits!(Limits, of)
}

pub(super) fn c_limits(of: &Limits) -> ptl_ni_limits_t {
    same_limits!(ptl_ni_limits_t, of)
}
