//! The exporter's side.

use core::ffi::{c_uint, c_void};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::{Fabric, FabricError, LocalMemory, Peer, RemoteMemory};
use farpost_node::NodeFabric;
use farpost_rsm::{AccessEntry, Code, Memory, Perm, RsmError, fail};

use super::library::{
    Adopted, Exported, Library, PAGE, Polled, Result, bad_segment, controller, exported, opened, there,
};
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::rsm::arg;
use crate::interfaces::rsm::{RSM_ALLOW_REBIND, RSM_LOCK_OPS, rsmapi_access_entry_t};
use crate::process;
use crate::progress::{self, Reason, Served};

fn unusable(what: &str, error: &FabricError) -> RsmError {
    let code = match error {
        FabricError::Unsupported { .. } => Code::BAD_ADDR,
        _ => Code::INSUFFICIENT_MEM,
    };
    RsmError::new(code, format!("{what}: {error}"))
}

fn check_range(vaddr: *mut c_void, length: usize) -> Result<()> {
    if vaddr.is_null() {
        return fail!(BAD_ADDR: "vaddr is null");
    }
    if length == 0 {
        return fail!(BAD_LENGTH: "length is 0");
    }
    if !vaddr.addr().is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) {
        return fail!(
            BAD_MEM_ALIGNMENT: "vaddr {vaddr:p} and length {length}: both must be multiples of {PAGE}"
        );
    }
    Ok(())
}

impl Library {
    /// The memory that is in the place of the program's pages, put there if nobody has.
    ///
    /// # Safety
    /// The range is the caller's, used by nobody during the call, and stays mapped until `give_back`.
    unsafe fn adopt(&self, address: usize, len: usize) -> Result<Memory<NodeFabric>> {
        let mut adopted = self.adopted.borrow_mut();
        if let Some(known) = adopted.iter_mut().find(|a| (a.address, a.len) == (address, len)) {
            known.segments += 1;
            return Ok(known.memory.clone());
        }
        let memory = self.rsm.memory(len)?;
        // SAFETY: the caller's promise.
        unsafe { memory.local().overlay(address) }.map_err(|e| unusable("exporting memory", &e))?;
        adopted.push(Adopted {
            address,
            len,
            memory: memory.clone(),
            segments: 1,
        });
        Ok(memory)
    }

    /// One segment less: with the last the program has its private memory again.
    ///
    /// # Safety
    /// The range is still mapped and used by nobody during the call.
    unsafe fn give_back(&self, memory: &Memory<NodeFabric>) -> Result<()> {
        let mut adopted = self.adopted.borrow_mut();
        let Some(at) = adopted.iter().position(|a| a.memory.is(memory)) else {
            return Ok(());
        };
        adopted[at].segments -= 1;
        if adopted[at].segments > 0 {
            return Ok(());
        }
        let gone = adopted.swap_remove(at);
        // SAFETY: the caller's promise.
        unsafe { gone.memory.local().uncover() }.map_err(|e| unusable("giving exported memory back", &e))
    }
}

/// Importers on other hosts are served while this process computes, as long as there may be any; and signals are taken in while it sleeps on
/// a descriptor of a segment.
pub(super) fn serve_meanwhile(cx: &'static Cx, library: &Library) {
    let Some(node) = cx.node.get().filter(|node| node.settings.progress.rsm != 0) else {
        return;
    };
    let fabric = &node.fabric;
    let far = |exported: &Rc<Exported>| {
        let export = &exported.export;
        let reached = |peer: u32| !fabric.maps(Peer(peer)) && library.rsm.reaches(export.controller(), peer);
        export.id().is_some() && (0..fabric.size()).any(reached)
    };
    let polled = library.polls();
    if library.imports.borrow().iter().next().is_none() {
        library.asks.set(false);
    }
    let asks = library.asks.get();
    if !polled && !asks && !library.exports.borrow().iter().any(far) {
        progress::stop(cx, Reason::Rsm);
    } else if let Err(why) = progress::start(cx, Reason::Rsm, polled, serve) {
        process::say(&why);
    }
}

/// What moves RSMAPI while the program computes.
fn serve(cx: &'static Cx) -> Served {
    let Some(library) = opened(cx) else {
        return Served::Nothing;
    };
    if library.rsm.progress() {
        Served::Moved
    } else if library.rsm.owes() {
        Served::After(Duration::from_millis(1))
    } else {
        Served::Nothing
    }
}

/// What everybody may do where there is no list: as with files.
fn mask() -> Perm {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status
        .lines()
        .find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    Perm(0o666 & !umask.unwrap_or(0o077))
}

pub(crate) unsafe fn rsm_memseg_export_create(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_create,
) -> Result<()> {
    let (handle, length, flags) = (a.controller, a.length, a.flags);
    let (library, controller) = controller(cx, handle)?;
    there(a.memseg, Code::BAD_SEG_HNDL, "memseg")?;
    check_range(a.vaddr, length)?;
    if flags & RSM_LOCK_OPS as c_uint != 0 {
        return fail!(LOCKS_NOT_SUPPORTED: "flags {flags:#x} has RSM_LOCK_OPS: nothing here locks a segment");
    }
    let most = library.rsm.attributes(controller).max_export_segment_size;
    if most != 0 && length > most {
        return fail!(BAD_LENGTH: "length {length}: the controller allows {most}");
    }
    // SAFETY: the interface's contract: the range is the caller's, and stays so until the segment is destroyed.
    let memory = unsafe { library.adopt(a.vaddr.addr(), length)? };
    let export = match library.rsm.export(controller, &memory, length, mask()) {
        Ok(export) => export,
        Err(error) => {
            // SAFETY: as above.
            let _ = unsafe { library.give_back(&memory) };
            return Err(error);
        }
    };
    let exported = Rc::new(Exported {
        export,
        may_rebind: flags & RSM_ALLOW_REBIND as c_uint != 0,
        creator: std::process::id(),
        polled: Polled::default(),
    });
    let kept = library.exports.borrow_mut().add(exported);
    if kept.is_err() {
        // SAFETY: as above.
        let _ = unsafe { library.give_back(&memory) };
    }
    a.memseg.set(kept?);
    Ok(())
}

pub(crate) unsafe fn rsm_memseg_export_destroy(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_destroy,
) -> Result<()> {
    let (library, exported) = exported(cx, a.memseg)?;
    exported.export.destroy()?;
    library.exports.borrow_mut().remove(a.memseg);
    serve_meanwhile(cx, library);
    // SAFETY: the interface's contract: the range stays mapped until the segment is destroyed.
    unsafe { library.give_back(&exported.export.memory()) }
}

/// The access list of a call.
///
/// # Safety
/// `list`, if not null, has `count` entries.
unsafe fn entries(list: Place<rsmapi_access_entry_t>, count: c_uint) -> Result<Vec<AccessEntry>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return fail!(BAD_ACL: "access_list is null, and access_list_length {count}");
    }
    // SAFETY: the caller's promise.
    let list = unsafe { core::slice::from_raw_parts(list.pointer(), count as usize) };
    let one = |entry: &rsmapi_access_entry_t| AccessEntry {
        node: entry.ae_node,
        permission: Perm(entry.ae_permission),
    };
    Ok(list.iter().map(one).collect())
}

pub(crate) unsafe fn rsm_memseg_export_publish(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_publish,
) -> Result<()> {
    let Some(wanted) = a.segment_id.get() else {
        return fail!(BAD_SEGID: "segment_id is null");
    };
    let (library, exported) = exported(cx, a.memseg)?;
    // SAFETY: the interface's contract.
    let entries = unsafe { entries(a.access_list, a.access_list_length)? };
    let id = exported.export.publish(wanted, &entries)?;
    serve_meanwhile(cx, library);
    a.segment_id.set(id);
    Ok(())
}

pub(crate) fn rsm_memseg_export_unpublish(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_unpublish,
) -> Result<()> {
    let (library, exported) = exported(cx, a.memseg)?;
    let done = exported.export.unpublish();
    serve_meanwhile(cx, library);
    done
}

pub(crate) unsafe fn rsm_memseg_export_republish(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_republish,
) -> Result<()> {
    let (_, exported) = exported(cx, a.memseg)?;
    // SAFETY: the interface's contract.
    let entries = unsafe { entries(a.access_list, a.access_list_length)? };
    exported.export.republish(&entries)
}

pub(crate) unsafe fn rsm_memseg_export_rebind(
    cx: &'static Cx,
    a: arg::rsm_memseg_export_rebind,
) -> Result<()> {
    let (vaddr, length) = (a.vaddr, a.length);
    let (library, exported) = exported(cx, a.memseg)?;
    check_range(vaddr, length)?;
    if length != exported.export.len() {
        let len = exported.export.len();
        return fail!(BAD_LENGTH: "length {length}: the segment has {len}");
    }
    if !exported.may_rebind {
        return fail!(REBIND_NOT_ALLOWED: "the segment was created without RSM_ALLOW_REBIND");
    }
    let memory = exported.export.memory();
    let mut adopted = library.adopted.borrow_mut();
    let Some(entry) = adopted.iter_mut().find(|a| a.memory.is(&memory)) else {
        return bad_segment();
    };
    if entry.address == vaddr.addr() {
        return Ok(());
    }
    if entry.segments > 1 {
        return fail!(REBIND_NOT_ALLOWED: "another segment shows the same memory");
    }
    // SAFETY: the interface's contract: both ranges are the caller's and mapped.
    unsafe { memory.local().overlay(vaddr.addr()) }
        .map_err(|e| unusable("binding a segment to other memory", &e))?;
    entry.address = vaddr.addr();
    Ok(())
}
