//! Objects and data movement (sections 3.9 to 3.13): to come with the library of `farpost_portals`.
#![allow(clippy::too_many_arguments)]

use core::ffi::c_int;

use farpost_portals::Error;

use crate::cx::Cx;
use crate::interfaces::portals3::*;

use super::state::{Answer, Failure, State, code, state};

fn missing(state: &State) -> Answer {
    state.ready()?;
    Err(Failure::new(Error::Fail, "not in this version of Farpost"))
}

pub(crate) fn ptlnistatus(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _status_register: ptl_sr_index_t,
    _status: *mut ptl_sr_value_t,
) -> c_int {
    code(cx, "PtlNIStatus", missing(state(cx)))
}

pub(crate) fn ptlnihandle(
    cx: &'static Cx,
    _handle: ptl_handle_any_t,
    _ni_handle: *mut ptl_handle_ni_t,
) -> c_int {
    code(cx, "PtlNIHandle", missing(state(cx)))
}

pub(crate) fn ptlmeattach(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _pt_index: ptl_pt_index_t,
    _match_id: ptl_process_id_t,
    _match_bits: ptl_match_bits_t,
    _ignore_bits: ptl_match_bits_t,
    _unlink: ptl_unlink_t,
    _position: ptl_ins_pos_t,
    _me_handle: *mut ptl_handle_me_t,
) -> c_int {
    code(cx, "PtlMEAttach", missing(state(cx)))
}

pub(crate) fn ptlmeattachany(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _pt_index: *mut ptl_pt_index_t,
    _match_id: ptl_process_id_t,
    _match_bits: ptl_match_bits_t,
    _ignore_bits: ptl_match_bits_t,
    _unlink: ptl_unlink_t,
    _me_handle: *mut ptl_handle_me_t,
) -> c_int {
    code(cx, "PtlMEAttachAny", missing(state(cx)))
}

pub(crate) fn ptlmeinsert(
    cx: &'static Cx,
    _base: ptl_handle_me_t,
    _match_id: ptl_process_id_t,
    _match_bits: ptl_match_bits_t,
    _ignore_bits: ptl_match_bits_t,
    _unlink: ptl_unlink_t,
    _position: ptl_ins_pos_t,
    _me_handle: *mut ptl_handle_me_t,
) -> c_int {
    code(cx, "PtlMEInsert", missing(state(cx)))
}

pub(crate) fn ptlmeunlink(cx: &'static Cx, _me_handle: ptl_handle_me_t) -> c_int {
    code(cx, "PtlMEUnlink", missing(state(cx)))
}

pub(crate) fn ptlmdattach(
    cx: &'static Cx,
    _me_handle: ptl_handle_me_t,
    _md: ptl_md_t,
    _unlink_op: ptl_unlink_t,
    _md_handle: *mut ptl_handle_md_t,
) -> c_int {
    code(cx, "PtlMDAttach", missing(state(cx)))
}

pub(crate) fn ptlmdbind(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _md: ptl_md_t,
    _unlink_op: ptl_unlink_t,
    _md_handle: *mut ptl_handle_md_t,
) -> c_int {
    code(cx, "PtlMDBind", missing(state(cx)))
}

pub(crate) fn ptlmdunlink(cx: &'static Cx, _md_handle: ptl_handle_md_t) -> c_int {
    code(cx, "PtlMDUnlink", missing(state(cx)))
}

pub(crate) fn ptlmdupdate(
    cx: &'static Cx,
    _md_handle: ptl_handle_md_t,
    _old_md: *mut ptl_md_t,
    _new_md: *mut ptl_md_t,
    _testq: ptl_handle_eq_t,
) -> c_int {
    code(cx, "PtlMDUpdate", missing(state(cx)))
}

pub(crate) fn ptlmemdpost(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _base: ptl_handle_me_t,
    _match_id: ptl_process_id_t,
    _match_bits: ptl_match_bits_t,
    _ignore_bits: ptl_match_bits_t,
    _unlink: ptl_unlink_t,
    _position: ptl_ins_pos_t,
    _md: ptl_md_t,
    _unlink_op: ptl_unlink_t,
    _me_handle: *mut ptl_handle_me_t,
    _md_handle: *mut ptl_handle_md_t,
    _testq: ptl_handle_eq_t,
) -> c_int {
    code(cx, "PtlMEMDPost", missing(state(cx)))
}

pub(crate) fn ptleqalloc(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _count: ptl_size_t,
    _eq_handler: Option<ptl_eq_handler_t>,
    _eq_handle: *mut ptl_handle_eq_t,
) -> c_int {
    code(cx, "PtlEQAlloc", missing(state(cx)))
}

pub(crate) fn ptleqfree(cx: &'static Cx, _eq_handle: ptl_handle_eq_t) -> c_int {
    code(cx, "PtlEQFree", missing(state(cx)))
}

pub(crate) fn ptleqget(cx: &'static Cx, _eq_handle: ptl_handle_eq_t, _event: *mut ptl_event_t) -> c_int {
    code(cx, "PtlEQGet", missing(state(cx)))
}

pub(crate) fn ptleqwait(cx: &'static Cx, _eq_handle: ptl_handle_eq_t, _event: *mut ptl_event_t) -> c_int {
    code(cx, "PtlEQWait", missing(state(cx)))
}

pub(crate) fn ptleqpoll(
    cx: &'static Cx,
    _eq_handles: *mut ptl_handle_eq_t,
    _size: c_int,
    _timeout: ptl_time_t,
    _event: *mut ptl_event_t,
    _which: *mut c_int,
) -> c_int {
    code(cx, "PtlEQPoll", missing(state(cx)))
}

pub(crate) fn ptlacentry(
    cx: &'static Cx,
    _ni_handle: ptl_handle_ni_t,
    _ac_index: ptl_ac_index_t,
    _match_id: ptl_process_id_t,
    _user_id: ptl_uid_t,
    _job_id: ptl_jid_t,
    _pt_index: ptl_pt_index_t,
) -> c_int {
    code(cx, "PtlACEntry", missing(state(cx)))
}

pub(crate) fn ptlput(
    cx: &'static Cx,
    _md_handle: ptl_handle_md_t,
    _ack_req: ptl_ack_req_t,
    _target_id: ptl_process_id_t,
    _pt_index: ptl_pt_index_t,
    _ac_index: ptl_ac_index_t,
    _match_bits: ptl_match_bits_t,
    _remote_offset: ptl_size_t,
    _hdr_data: ptl_hdr_data_t,
) -> c_int {
    code(cx, "PtlPut", missing(state(cx)))
}

pub(crate) fn ptlputregion(
    cx: &'static Cx,
    _md_handle: ptl_handle_md_t,
    _local_offset: ptl_size_t,
    _length: ptl_size_t,
    _ack_req: ptl_ack_req_t,
    _target_id: ptl_process_id_t,
    _pt_index: ptl_pt_index_t,
    _ac_index: ptl_ac_index_t,
    _match_bits: ptl_match_bits_t,
    _remote_offset: ptl_size_t,
    _hdr_data: ptl_hdr_data_t,
) -> c_int {
    code(cx, "PtlPutRegion", missing(state(cx)))
}

pub(crate) fn ptlget(
    cx: &'static Cx,
    _md_handle: ptl_handle_md_t,
    _target_id: ptl_process_id_t,
    _pt_index: ptl_pt_index_t,
    _ac_index: ptl_ac_index_t,
    _match_bits: ptl_match_bits_t,
    _remote_offset: ptl_size_t,
) -> c_int {
    code(cx, "PtlGet", missing(state(cx)))
}

pub(crate) fn ptlgetregion(
    cx: &'static Cx,
    _md_handle: ptl_handle_md_t,
    _local_offset: ptl_size_t,
    _length: ptl_size_t,
    _target_id: ptl_process_id_t,
    _pt_index: ptl_pt_index_t,
    _ac_index: ptl_ac_index_t,
    _match_bits: ptl_match_bits_t,
    _remote_offset: ptl_size_t,
) -> c_int {
    code(cx, "PtlGetRegion", missing(state(cx)))
}

pub(crate) fn ptlgetput(
    cx: &'static Cx,
    _get_md_handle: ptl_handle_md_t,
    _put_md_handle: ptl_handle_md_t,
    _target_id: ptl_process_id_t,
    _pt_index: ptl_pt_index_t,
    _ac_index: ptl_ac_index_t,
    _match_bits: ptl_match_bits_t,
    _remote_offset: ptl_size_t,
    _hdr_data: ptl_hdr_data_t,
) -> c_int {
    code(cx, "PtlGetPut", missing(state(cx)))
}
