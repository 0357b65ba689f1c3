//! Data movement (section 3.13).
//!
//! Cost class: *fast path*, but for errors.
#![allow(clippy::too_many_arguments)]

use core::ffi::c_int;

use farpost_portals::{Error, Handle, NetworkInterface, Target};

use crate::cx::Cx;
use crate::interfaces::portals3::*;

use super::convert::{ack_req, show, target};
use super::state::{Answer, code, state};

#[inline(always)]
fn put(
    cx: &'static Cx,
    function: &'static str,
    md_handle: ptl_handle_md_t,
    region: Option<(u64, u64)>,
    ack: ptl_ack_req_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
    hdr_data: ptl_hdr_data_t,
) -> c_int {
    let to = target(target_id, pt_index, ac_index, match_bits, remote_offset);
    let answer = begin_put(cx, md_handle, region, ack, &to, hdr_data);
    code(cx, function, answer, || arguments(md_handle, region, target_id))
}

// Not a closure, which a call would have to be given every argument by its address for.
#[inline(always)]
fn begin_put(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    region: Option<(u64, u64)>,
    ack: ptl_ack_req_t,
    to: &Target,
    hdr_data: ptl_hdr_data_t,
) -> Answer {
    let ni = state(cx).any(Error::MdInvalid)?;
    let (md, ack) = (Handle(md_handle), ack_req(ack)?);
    match region {
        None => ni.interface.put(md, ack, to, hdr_data)?,
        Some(region) => ni.interface.put_region(md, region, ack, to, hdr_data)?,
    }
    Ok(())
}

#[cold]
fn arguments(md_handle: u32, region: Option<(u64, u64)>, to: ptl_process_id_t) -> String {
    let region = region.map_or(String::new(), |(offset, length)| {
        format!(", local_offset={offset}, length={length}")
    });
    format!("md_handle={md_handle:#x}{region}, target_id={}", show(to))
}

#[inline(always)]
pub(crate) fn ptlput(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    ack_req: ptl_ack_req_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
    hdr_data: ptl_hdr_data_t,
) -> c_int {
    put(
        cx,
        "PtlPut",
        md_handle,
        None,
        ack_req,
        target_id,
        pt_index,
        ac_index,
        match_bits,
        remote_offset,
        hdr_data,
    )
}

#[inline(always)]
pub(crate) fn ptlputregion(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    local_offset: ptl_size_t,
    length: ptl_size_t,
    ack_req: ptl_ack_req_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
    hdr_data: ptl_hdr_data_t,
) -> c_int {
    put(
        cx,
        "PtlPutRegion",
        md_handle,
        Some((local_offset, length)),
        ack_req,
        target_id,
        pt_index,
        ac_index,
        match_bits,
        remote_offset,
        hdr_data,
    )
}

#[inline(always)]
fn get(
    cx: &'static Cx,
    function: &'static str,
    md_handle: ptl_handle_md_t,
    region: Option<(u64, u64)>,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MdInvalid)?;
        let to = target(target_id, pt_index, ac_index, match_bits, remote_offset);
        match region {
            None => ni.interface.get(Handle(md_handle), &to)?,
            Some(region) => ni.interface.get_region(Handle(md_handle), region, &to)?,
        }
        Ok(())
    };
    code(cx, function, body(), || arguments(md_handle, region, target_id))
}

#[inline(always)]
pub(crate) fn ptlget(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
) -> c_int {
    get(
        cx,
        "PtlGet",
        md_handle,
        None,
        target_id,
        pt_index,
        ac_index,
        match_bits,
        remote_offset,
    )
}

#[inline(always)]
pub(crate) fn ptlgetregion(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    local_offset: ptl_size_t,
    length: ptl_size_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
) -> c_int {
    let region = Some((local_offset, length));
    get(
        cx,
        "PtlGetRegion",
        md_handle,
        region,
        target_id,
        pt_index,
        ac_index,
        match_bits,
        remote_offset,
    )
}

#[inline(always)]
pub(crate) fn ptlgetput(
    cx: &'static Cx,
    get_md_handle: ptl_handle_md_t,
    put_md_handle: ptl_handle_md_t,
    target_id: ptl_process_id_t,
    pt_index: ptl_pt_index_t,
    ac_index: ptl_ac_index_t,
    match_bits: ptl_match_bits_t,
    remote_offset: ptl_size_t,
    hdr_data: ptl_hdr_data_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MdInvalid)?;
        let to = target(target_id, pt_index, ac_index, match_bits, remote_offset);
        Ok(ni
            .interface
            .get_put(Handle(get_md_handle), Handle(put_md_handle), &to, hdr_data)?)
    };
    let arguments = || {
        format!(
            "get_md_handle={get_md_handle:#x}, put_md_handle={put_md_handle:#x}, target_id={}",
            show(target_id)
        )
    };
    code(cx, "PtlGetPut", body(), arguments)
}
