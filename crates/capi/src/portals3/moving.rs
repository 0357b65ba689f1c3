//! Data movement (section 3.13).
//!
//! Cost class: *fast path*, but for errors.

use farpost_portals::{Error, Handle, NetworkInterface};

use crate::cx::Cx;
use crate::interfaces::portals3::arg;

use super::convert::{ack_req, target};
use super::state::{Answer, state};

#[inline(always)]
pub(crate) fn ptlput(cx: &'static Cx, a: arg::PtlPut) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    let to = target(a.target_id, a.pt_index, a.ac_index, a.match_bits, a.remote_offset);
    let (md, ack) = (Handle(a.md_handle), ack_req(a.ack_req)?);
    Ok(ni.interface.put(md, ack, &to, a.hdr_data)?)
}

#[inline(always)]
pub(crate) fn ptlputregion(cx: &'static Cx, a: arg::PtlPutRegion) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    let to = target(a.target_id, a.pt_index, a.ac_index, a.match_bits, a.remote_offset);
    let (md, ack) = (Handle(a.md_handle), ack_req(a.ack_req)?);
    let region = (a.local_offset, a.length);
    Ok(ni.interface.put_region(md, region, ack, &to, a.hdr_data)?)
}

#[inline(always)]
pub(crate) fn ptlget(cx: &'static Cx, a: arg::PtlGet) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    let to = target(a.target_id, a.pt_index, a.ac_index, a.match_bits, a.remote_offset);
    Ok(ni.interface.get(Handle(a.md_handle), &to)?)
}

#[inline(always)]
pub(crate) fn ptlgetregion(cx: &'static Cx, a: arg::PtlGetRegion) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    let to = target(a.target_id, a.pt_index, a.ac_index, a.match_bits, a.remote_offset);
    let region = (a.local_offset, a.length);
    Ok(ni.interface.get_region(Handle(a.md_handle), region, &to)?)
}

#[inline(always)]
pub(crate) fn ptlgetput(cx: &'static Cx, a: arg::PtlGetPut) -> Answer {
    let ni = state(cx).any(a.get_md_handle, Error::MdInvalid)?;
    let to = target(a.target_id, a.pt_index, a.ac_index, a.match_bits, a.remote_offset);
    let (get, put) = (Handle(a.get_md_handle), Handle(a.put_md_handle));
    Ok(ni.interface.get_put(get, put, &to, a.hdr_data)?)
}
