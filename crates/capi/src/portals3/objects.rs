//! Match entries, memory descriptors, access control, status (sections 3.5, 3.9, 3.10, 3.12).
//!
//! Cost class: *queued path*.
#![allow(clippy::too_many_arguments)]

use core::ffi::c_int;

use farpost_portals::{ANY, DropReason, Error, Handle, Md, NetworkInterface, SR_DROP_COUNT};

use crate::cx::Cx;
use crate::interfaces::portals3::*;

use super::convert::{self, id, show};
use super::state::{Failure, code, state, there};

pub(crate) unsafe fn ptlnistatus(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    status_register: ptl_sr_index_t,
    status: *mut ptl_sr_value_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("status", status)?;
        let total = ni.interface.ni_status(SR_DROP_COUNT)?;
        let value = match status_register {
            SR_DROP_COUNT => total,
            register => match DropReason::ALL.get(register as usize - 1) {
                Some(reason) => ni.interface.dropped(*reason),
                None => return Err(Error::SrIndexInvalid.into()),
            },
        };
        // SAFETY: not null, and the caller vouches for it.
        unsafe { status.write(value) };
        Ok(())
    };
    let arguments = || format!("status_register={status_register}");
    code(cx, "PtlNIStatus", body(), arguments)
}

pub(crate) unsafe fn ptlnihandle(
    cx: &'static Cx,
    handle: ptl_handle_any_t,
    ni_handle: *mut ptl_handle_ni_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::HandleInvalid)?;
        there("ni_handle", ni_handle)?;
        let of = ni.interface.ni_handle(Handle(handle))?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { ni_handle.write(of.0) };
        Ok(())
    };
    code(cx, "PtlNIHandle", body(), || format!("handle={handle:#x}"))
}

pub(crate) unsafe fn ptlmeattach(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    pt_index: ptl_pt_index_t,
    match_id: ptl_process_id_t,
    match_bits: ptl_match_bits_t,
    ignore_bits: ptl_match_bits_t,
    unlink: ptl_unlink_t,
    position: ptl_ins_pos_t,
    me_handle: *mut ptl_handle_me_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("me_handle", me_handle)?;
        let (unlink, position) = (convert::unlink("unlink", unlink)?, convert::position(position)?);
        let bits = (match_bits, ignore_bits);
        let me = ni
            .interface
            .me_attach(pt_index, id(match_id), bits, unlink, position)?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { me_handle.write(me.0) };
        Ok(())
    };
    let arguments = || format!("pt_index={pt_index}, match_id={}", show(match_id));
    code(cx, "PtlMEAttach", body(), arguments)
}

pub(crate) unsafe fn ptlmeattachany(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    pt_index: *mut ptl_pt_index_t,
    match_id: ptl_process_id_t,
    match_bits: ptl_match_bits_t,
    ignore_bits: ptl_match_bits_t,
    unlink: ptl_unlink_t,
    me_handle: *mut ptl_handle_me_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("pt_index", pt_index)?;
        there("me_handle", me_handle)?;
        let unlink = convert::unlink("unlink", unlink)?;
        let (index, me) = ni
            .interface
            .me_attach_any(id(match_id), (match_bits, ignore_bits), unlink)?;
        // SAFETY: not null, and the caller vouches for them.
        unsafe {
            pt_index.write(index);
            me_handle.write(me.0);
        }
        Ok(())
    };
    let arguments = || format!("match_id={}", show(match_id));
    code(cx, "PtlMEAttachAny", body(), arguments)
}

pub(crate) unsafe fn ptlmeinsert(
    cx: &'static Cx,
    base: ptl_handle_me_t,
    match_id: ptl_process_id_t,
    match_bits: ptl_match_bits_t,
    ignore_bits: ptl_match_bits_t,
    unlink: ptl_unlink_t,
    position: ptl_ins_pos_t,
    me_handle: *mut ptl_handle_me_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MeInvalid)?;
        there("me_handle", me_handle)?;
        let (unlink, position) = (convert::unlink("unlink", unlink)?, convert::position(position)?);
        let bits = (match_bits, ignore_bits);
        let me = ni
            .interface
            .me_insert(Handle(base), id(match_id), bits, unlink, position)?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { me_handle.write(me.0) };
        Ok(())
    };
    let arguments = || format!("base={base:#x}, match_id={}", show(match_id));
    code(cx, "PtlMEInsert", body(), arguments)
}

pub(crate) fn ptlmeunlink(cx: &'static Cx, me_handle: ptl_handle_me_t) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MeInvalid)?;
        Ok(ni.interface.me_unlink(Handle(me_handle))?)
    };
    code(cx, "PtlMEUnlink", body(), || format!("me_handle={me_handle:#x}"))
}

fn show_md(md: &ptl_md_t) -> String {
    format!(
        "md={{start={:p}, length={}, threshold={}, options={:#x}, eq_handle={:#x}}}",
        md.start, md.length, md.threshold, md.options, md.eq_handle
    )
}

pub(crate) unsafe fn ptlmdattach(
    cx: &'static Cx,
    me_handle: ptl_handle_me_t,
    md: ptl_md_t,
    unlink_op: ptl_unlink_t,
    md_handle: *mut ptl_handle_md_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MeInvalid)?;
        let unlink = convert::unlink("unlink_op", unlink_op)?;
        // SAFETY: the caller vouches for the pieces.
        let (own, pieces) = unsafe { convert::descriptor(&md, &ni.limits)? };
        // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
        let made = unsafe { ni.interface.md_attach(Handle(me_handle), own, pieces, unlink)? };
        if !md_handle.is_null() {
            // SAFETY: not null, and the caller vouches for it.
            unsafe { md_handle.write(made.0) };
        }
        Ok(())
    };
    let arguments = || format!("me_handle={me_handle:#x}, {}", show_md(&md));
    code(cx, "PtlMDAttach", body(), arguments)
}

pub(crate) unsafe fn ptlmdbind(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    md: ptl_md_t,
    unlink_op: ptl_unlink_t,
    md_handle: *mut ptl_handle_md_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("md_handle", md_handle)?;
        let unlink = convert::unlink("unlink_op", unlink_op)?;
        // SAFETY: the caller vouches for the pieces.
        let (own, pieces) = unsafe { convert::descriptor(&md, &ni.limits)? };
        // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
        let made = unsafe { ni.interface.md_bind(own, pieces, unlink)? };
        // SAFETY: not null, and the caller vouches for it.
        unsafe { md_handle.write(made.0) };
        Ok(())
    };
    code(cx, "PtlMDBind", body(), || show_md(&md))
}

pub(crate) fn ptlmdunlink(cx: &'static Cx, md_handle: ptl_handle_md_t) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MdInvalid)?;
        Ok(ni.interface.md_unlink(Handle(md_handle))?)
    };
    code(cx, "PtlMDUnlink", body(), || format!("md_handle={md_handle:#x}"))
}

pub(crate) unsafe fn ptlmdupdate(
    cx: &'static Cx,
    md_handle: ptl_handle_md_t,
    old_md: *mut ptl_md_t,
    new_md: *mut ptl_md_t,
    testq: ptl_handle_eq_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::MdInvalid)?;
        let (new, illegal) = if new_md.is_null() {
            (None, None)
        } else {
            // SAFETY: not null, and the caller vouches for it and its pieces.
            match unsafe { convert::descriptor(&new_md.read(), &ni.limits) } {
                Ok(new) => (Some(new), None),
                Err(why) => (None, Some(why)),
            }
        };
        let mut old = Md::BLANK;
        let wanted = !old_md.is_null();
        let wants = wanted.then_some(&mut old);
        // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
        let updated = unsafe {
            ni.interface
                .md_update(Handle(md_handle), wants, new, Handle(testq))
        };
        // "In any case": but for a handle that names nothing.
        if wanted && !matches!(updated, Err(Error::MdInvalid)) {
            // SAFETY: not null, and the caller vouches for it.
            unsafe { old_md.write(convert::c_descriptor(&old)) };
        }
        updated?;
        illegal.map_or(Ok(()), Err)
    };
    let arguments = || format!("md_handle={md_handle:#x}, testq={testq:#x}");
    code(cx, "PtlMDUpdate", body(), arguments)
}

pub(crate) unsafe fn ptlmemdpost(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    base: ptl_handle_me_t,
    match_id: ptl_process_id_t,
    match_bits: ptl_match_bits_t,
    ignore_bits: ptl_match_bits_t,
    unlink: ptl_unlink_t,
    position: ptl_ins_pos_t,
    md: ptl_md_t,
    unlink_op: ptl_unlink_t,
    me_handle: *mut ptl_handle_me_t,
    md_handle: *mut ptl_handle_md_t,
    testq: ptl_handle_eq_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("me_handle", me_handle)?;
        there("md_handle", md_handle)?;
        let (unlink, position) = (convert::unlink("unlink", unlink)?, convert::position(position)?);
        let unlink_op = convert::unlink("unlink_op", unlink_op)?;
        // SAFETY: the caller vouches for the pieces.
        let (own, pieces) = unsafe { convert::descriptor(&md, &ni.limits)? };
        let interface = &ni.interface;
        let bits = (match_bits, ignore_bits);
        let me = interface.me_insert(Handle(base), id(match_id), bits, unlink, position)?;
        // Nothing arrives between these: inactive at first, then all at once, as the recipe of section 6 does it.
        let idle = farpost_portals::Md { threshold: 0, ..own };
        // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
        let made = unsafe {
            let made = interface.md_attach(me, idle, pieces.clone(), unlink_op);
            made.and_then(|made| {
                interface.md_update(made, None, Some((own, pieces)), Handle(testq))?;
                Ok(made)
            })
        };
        match made {
            Ok(made) => {
                // SAFETY: not null, and the caller vouches for them.
                unsafe {
                    me_handle.write(me.0);
                    md_handle.write(made.0);
                }
                Ok(())
            }
            Err(error) => {
                // Its descriptor, if it has one, goes with it; neither was ever active.
                let _ = interface.me_unlink(me);
                Err(Failure::from(error))
            }
        }
    };
    let arguments = || {
        format!(
            "base={base:#x}, match_id={}, {}, testq={testq:#x}",
            show(match_id),
            show_md(&md)
        )
    };
    code(cx, "PtlMEMDPost", body(), arguments)
}

pub(crate) fn ptlacentry(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    ac_index: ptl_ac_index_t,
    match_id: ptl_process_id_t,
    user_id: ptl_uid_t,
    job_id: ptl_jid_t,
    pt_index: ptl_pt_index_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        let entry = convert::access_entry(match_id, user_id, job_id, pt_index);
        Ok(ni.interface.ac_entry(ac_index, entry)?)
    };
    let arguments = || {
        let portal = match pt_index {
            ANY => "any".to_owned(),
            pt_index => pt_index.to_string(),
        };
        format!(
            "ac_index={ac_index}, match_id={}, pt_index={portal}",
            show(match_id)
        )
    };
    code(cx, "PtlACEntry", body(), arguments)
}
