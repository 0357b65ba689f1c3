//! Match entries, memory descriptors, access control, status (sections 3.5, 3.9, 3.10, 3.12).
//!
//! Cost class: *queued path*.

use core::ffi::c_int;

use farpost_portals::{ANY, DropReason, Error, Handle, Md, NetworkInterface, SR_DROP_COUNT};

use crate::cx::Cx;
use crate::interfaces::Answer as _;
use crate::interfaces::portals3::*;

use super::convert::{self, id, position, unlink};
use super::state::{Answer, Failure, state, there};

pub(crate) fn ptlnistatus(cx: &'static Cx, a: arg::PtlNIStatus) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("status", a.status)?;
    let total = ni.interface.ni_status(SR_DROP_COUNT)?;
    let value = match a.status_register {
        SR_DROP_COUNT => total,
        register => match DropReason::ALL.get(register as usize - 1) {
            Some(reason) => ni.interface.dropped(*reason),
            None => return Err(Error::SrIndexInvalid.into()),
        },
    };
    a.status.set(value);
    Ok(())
}

pub(crate) fn ptlnihandle(cx: &'static Cx, a: arg::PtlNIHandle) -> Answer {
    let ni = state(cx).any(a.handle, Error::HandleInvalid)?;
    there("ni_handle", a.ni_handle)?;
    let of = ni.interface.ni_handle(Handle(a.handle))?;
    a.ni_handle.set(of.0);
    Ok(())
}

pub(crate) fn ptlmeattach(cx: &'static Cx, a: arg::PtlMEAttach) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("me_handle", a.me_handle)?;
    let (unlink, position) = (unlink("unlink", a.unlink)?, position(a.position)?);
    let bits = (a.match_bits, a.ignore_bits);
    let me = ni
        .interface
        .me_attach(a.pt_index, id(a.match_id), bits, unlink, position)?;
    a.me_handle.set(me.0);
    Ok(())
}

pub(crate) fn ptlmeattachany(cx: &'static Cx, a: arg::PtlMEAttachAny) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("pt_index", a.pt_index)?;
    there("me_handle", a.me_handle)?;
    let unlink = unlink("unlink", a.unlink)?;
    let (index, me) = ni
        .interface
        .me_attach_any(id(a.match_id), (a.match_bits, a.ignore_bits), unlink)?;
    a.pt_index.set(index);
    a.me_handle.set(me.0);
    Ok(())
}

pub(crate) fn ptlmeinsert(cx: &'static Cx, a: arg::PtlMEInsert) -> Answer {
    let ni = state(cx).any(a.base, Error::MeInvalid)?;
    there("me_handle", a.me_handle)?;
    let (unlink, position) = (unlink("unlink", a.unlink)?, position(a.position)?);
    let bits = (a.match_bits, a.ignore_bits);
    let me = ni
        .interface
        .me_insert(Handle(a.base), id(a.match_id), bits, unlink, position)?;
    a.me_handle.set(me.0);
    Ok(())
}

pub(crate) fn ptlmeunlink(cx: &'static Cx, a: arg::PtlMEUnlink) -> Answer {
    let ni = state(cx).any(a.me_handle, Error::MeInvalid)?;
    Ok(ni.interface.me_unlink(Handle(a.me_handle))?)
}

pub(crate) unsafe fn ptlmdattach(cx: &'static Cx, a: arg::PtlMDAttach) -> Answer {
    let ni = state(cx).any(a.me_handle, Error::MeInvalid)?;
    let unlink = unlink("unlink_op", a.unlink_op)?;
    // SAFETY: the caller vouches for the pieces.
    let (own, pieces) = unsafe { convert::descriptor(&a.md, &ni.limits)? };
    // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
    let made = unsafe { ni.interface.md_attach(Handle(a.me_handle), own, pieces, unlink)? };
    a.md_handle.set(made.0);
    Ok(())
}

pub(crate) unsafe fn ptlmdbind(cx: &'static Cx, a: arg::PtlMDBind) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("md_handle", a.md_handle)?;
    let unlink = unlink("unlink_op", a.unlink_op)?;
    // SAFETY: the caller vouches for the pieces.
    let (own, pieces) = unsafe { convert::descriptor(&a.md, &ni.limits)? };
    // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
    let made = unsafe { ni.interface.md_bind(own, pieces, unlink)? };
    a.md_handle.set(made.0);
    Ok(())
}

pub(crate) fn ptlmdunlink(cx: &'static Cx, a: arg::PtlMDUnlink) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    Ok(ni.interface.md_unlink(Handle(a.md_handle))?)
}

pub(crate) unsafe fn ptlmdupdate(cx: &'static Cx, a: arg::PtlMDUpdate) -> Answer {
    let ni = state(cx).any(a.md_handle, Error::MdInvalid)?;
    // SAFETY: the caller vouches for the pieces.
    let new = a
        .new_md
        .get()
        .map(|new| unsafe { convert::descriptor(&new, &ni.limits) });
    let (new, illegal) = match new.transpose() {
        Ok(new) => (new, None),
        Err(why) => (None, Some(why)),
    };
    let mut old = Md::BLANK;
    let wanted = !a.old_md.is_null();
    let wants = wanted.then_some(&mut old);
    // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
    let updated = unsafe {
        ni.interface
            .md_update(Handle(a.md_handle), wants, new, Handle(a.testq))
    };
    // "In any case": but for a handle that names nothing.
    if wanted && !matches!(updated, Err(Error::MdInvalid)) {
        a.old_md.set(convert::c_descriptor(&old));
    }
    updated?;
    illegal.map_or(Ok(()), Err)
}

pub(crate) unsafe fn ptlmemdpost(cx: &'static Cx, a: arg::PtlMEMDPost) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("me_handle", a.me_handle)?;
    there("md_handle", a.md_handle)?;
    let (unlink, position) = (unlink("unlink", a.unlink)?, position(a.position)?);
    let unlink_op = convert::unlink("unlink_op", a.unlink_op)?;
    // SAFETY: the caller vouches for the pieces.
    let (own, pieces) = unsafe { convert::descriptor(&a.md, &ni.limits)? };
    let interface = &ni.interface;
    let bits = (a.match_bits, a.ignore_bits);
    let me = interface.me_insert(Handle(a.base), id(a.match_id), bits, unlink, position)?;
    // Nothing arrives between these: inactive at first, then all at once, as the recipe of section 6 does it.
    let idle = farpost_portals::Md { threshold: 0, ..own };
    // SAFETY: the program leaves the memory to the interface (reference page, "Memory").
    let made = unsafe {
        let made = interface.md_attach(me, idle, pieces.clone(), unlink_op);
        made.and_then(|made| {
            interface.md_update(made, None, Some((own, pieces)), Handle(a.testq))?;
            Ok(made)
        })
    };
    match made {
        Ok(made) => {
            a.me_handle.set(me.0);
            a.md_handle.set(made.0);
            Ok(())
        }
        Err(error) => {
            // Its descriptor, if it has one, goes with it; neither was ever active.
            let _ = interface.me_unlink(me);
            Err(Failure::from(error))
        }
    }
}

pub(crate) fn ptlacentry(cx: &'static Cx, a: arg::PtlACEntry) -> c_int {
    let (ac_index, pt_index) = (a.ac_index, a.pt_index);
    let body = || -> Answer {
        let ni = state(cx).interface(a.ni_handle)?;
        let entry = convert::access_entry(a.match_id, a.user_id, a.job_id, pt_index);
        Ok(ni.interface.ac_entry(ac_index, entry)?)
    };
    let arguments = || {
        let portal = match pt_index {
            ANY => "any".to_owned(),
            pt_index => pt_index.to_string(),
        };
        format!("ac_index={ac_index}, match_id={}, pt_index={portal}", a.match_id)
    };
    body().told(cx, "PtlACEntry", arguments)
}
