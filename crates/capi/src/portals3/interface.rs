//! Beginning and end, interfaces, identities, the job (sections 3.4 to 3.8).
//!
//! Cost class: set-up path.

use core::ffi::{c_int, c_uint, c_ulong};
use std::rc::Rc;

use farpost_fabric::wait::Pause;
use farpost_job::Job;
use farpost_portals::{ANY, Error, Limits, ProcessId};

use crate::cx::Cx;
use crate::interfaces::portals3::*;
use crate::lock;
use crate::node::{self, Interface};

use super::state::{Answer, Failure, Ni, code, ni_handle, state, there};

/// Interfaces that a process may open.
const INTERFACES: c_int = 1;

pub(crate) unsafe fn ptlinit(cx: &'static Cx, max_interfaces: *mut c_int) -> c_int {
    let body = || {
        there("max_interfaces", max_interfaces)?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { max_interfaces.write(INTERFACES) };
        state(cx).initialised.set(true);
        Ok(())
    };
    code(cx, "PtlInit", body())
}

pub(crate) fn ptlfini(cx: &'static Cx) {
    let state = state(cx);
    if state.open.borrow().is_some() {
        close(cx);
    }
    state.initialised.set(false);
}

/// Ids of all processes by rank: the host, and the process's number on it from 1, so that an id that nobody has set
/// names nobody.
fn ids(job: &Job) -> Rc<[ProcessId]> {
    let mut beside = vec![0; job.hosts() as usize];
    let each = job.host_map().iter().map(|host| {
        let pid = &mut beside[*host as usize];
        *pid += 1;
        ProcessId::new(*host, *pid)
    });
    each.collect()
}

pub(crate) unsafe fn ptlniinit(
    cx: &'static Cx,
    iface: ptl_interface_t,
    pid: ptl_pid_t,
    desired: *mut ptl_ni_limits_t,
    actual: *mut ptl_ni_limits_t,
    handle: *mut ptl_handle_ni_t,
) -> c_int {
    let body = || {
        let state = state(cx);
        state.ready()?;
        there("ni_handle", handle)?;
        if iface != PTL_IFACE_DEFAULT {
            let why = format!("iface={iface}: the only one is PTL_IFACE_DEFAULT ({PTL_IFACE_DEFAULT})");
            return Err(Failure::new(Error::IfaceInvalid, why));
        }
        let _ = desired;
        let node = node::join(cx).map_err(|why| Failure::new(Error::Fail, why))?;
        let ids = ids(&node.job);
        let own = ids[node.job.rank() as usize].pid;
        if pid != ANY && pid != own {
            let why = format!("pid={pid}: this process is number {own} of its node; PTL_PID_ANY always fits");
            return Err(Failure::new(Error::PidInvalid, why));
        }
        let ni = match state.open.borrow().clone() {
            Some(ni) => ni,
            None => open(cx, ids)?,
        };
        state.open.replace(Some(Rc::clone(&ni)));
        // SAFETY: the caller vouches for both: one is not null, the other null or writable.
        unsafe {
            if !actual.is_null() {
                actual.write(limits(&Limits::LIBRARY));
            }
            handle.write(ni.handle.0);
        }
        Ok(())
    };
    code(cx, "PtlNIInit", body())
}

fn open(cx: &'static Cx, ids: Rc<[ProcessId]>) -> Answer<Rc<Ni>> {
    let state = state(cx);
    let node = node::open(cx, Interface::Portals).map_err(|why| Failure::new(Error::Fail, why))?;
    let opened = state.opened.get();
    state.opened.set(opened.wrapping_add(1));
    Ok(Rc::new(Ni {
        handle: ni_handle(opened),
        job: Rc::clone(&node.job),
        ids,
        // SAFETY: asks the kernel for a number.
        uid: unsafe { libc::getuid() },
        jid: node.job.pid(0).unwrap_or(0),
    }))
}

fn limits(of: &Limits) -> ptl_ni_limits_t {
    ptl_ni_limits_t {
        max_mes: of.max_mes,
        max_mds: of.max_mds,
        max_eqs: of.max_eqs,
        max_ac_index: of.max_ac_index,
        max_pt_index: of.max_pt_index,
        max_md_iovecs: of.max_md_iovecs,
        max_me_list: of.max_me_list,
        max_getput_md: of.max_getput_md,
    }
}

pub(crate) fn ptlnifini(cx: &'static Cx, handle: ptl_handle_ni_t) -> c_int {
    let body = || {
        state(cx).interface(handle)?;
        close(cx);
        Ok(())
    };
    code(cx, "PtlNIFini", body())
}

fn close(cx: &'static Cx) {
    state(cx).open.replace(None);
    if let Some(node) = cx.node.get() {
        node.close(Interface::Portals);
    }
}

pub(crate) unsafe fn ptlnidist(
    cx: &'static Cx,
    handle: ptl_handle_ni_t,
    process: ptl_process_id_t,
    distance: *mut c_ulong,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        there("distance", distance)?;
        let id = ProcessId::new(process.nid, process.pid);
        let rank = ni.rank_of(id).ok_or_else(|| {
            let why = format!("process={{{}, {}}}: not of this job", id.nid, id.pid);
            Failure::new(Error::ProcessInvalid, why)
        })?;
        let far = match rank {
            rank if rank == ni.job.rank() => 0,
            rank if ni.job.is_local(rank) => 1,
            _ => 100,
        };
        // SAFETY: not null, and the caller vouches for it.
        unsafe { distance.write(far) };
        Ok(())
    };
    code(cx, "PtlNIDist", body())
}

/// Tells something of the interface.
///
/// # Safety
/// `to` is null or writable.
unsafe fn tell<T>(
    cx: &'static Cx,
    function: &str,
    handle: u32,
    name: &str,
    to: *mut T,
    what: impl FnOnce(&Ni) -> T,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        there(name, to)?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { to.write(what(&ni)) };
        Ok(())
    };
    code(cx, function, body())
}

pub(crate) unsafe fn ptlgetuid(cx: &'static Cx, ni: ptl_handle_ni_t, uid: *mut ptl_uid_t) -> c_int {
    // SAFETY: the caller vouches for it: null or writable.
    unsafe { tell(cx, "PtlGetUid", ni, "uid", uid, |ni| ni.uid) }
}

pub(crate) unsafe fn ptlgetjid(cx: &'static Cx, ni: ptl_handle_ni_t, jid: *mut ptl_jid_t) -> c_int {
    // SAFETY: the caller vouches for it: null or writable.
    unsafe { tell(cx, "PtlGetJid", ni, "jid", jid, |ni| ni.jid) }
}

fn c_id(id: ProcessId) -> ptl_process_id_t {
    ptl_process_id_t {
        nid: id.nid,
        pid: id.pid,
    }
}

pub(crate) unsafe fn ptlgetid(cx: &'static Cx, ni: ptl_handle_ni_t, id: *mut ptl_process_id_t) -> c_int {
    // SAFETY: the caller vouches for it: null or writable.
    unsafe {
        tell(cx, "PtlGetId", ni, "id", id, |ni| {
            c_id(ni.ids[ni.job.rank() as usize])
        })
    }
}

pub(crate) unsafe fn ptlgetrank(
    cx: &'static Cx,
    handle: ptl_handle_ni_t,
    rank: *mut c_uint,
    size: *mut c_uint,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        there("rank", rank)?;
        there("size", size)?;
        // SAFETY: not null, and the caller vouches for them.
        unsafe {
            rank.write(ni.job.rank());
            size.write(ni.job.size());
        }
        Ok(())
    };
    code(cx, "PtlGetRank", body())
}

pub(crate) unsafe fn ptlgetrankid(
    cx: &'static Cx,
    handle: ptl_handle_ni_t,
    rank: c_uint,
    id: *mut ptl_process_id_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        there("id", id)?;
        let known = ni.ids.get(rank as usize).ok_or_else(|| {
            let why = format!("rank={rank}: the job has ranks 0 to {}", ni.job.size() - 1);
            Failure::new(Error::Fail, why)
        })?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { id.write(c_id(*known)) };
        Ok(())
    };
    code(cx, "PtlGetRankId", body())
}

/// A number of every process.
///
/// # Safety
/// `map` is null or has room for `size` numbers.
unsafe fn map_of(
    cx: &'static Cx,
    function: &str,
    handle: u32,
    map: *mut u32,
    size: c_uint,
    of: impl Fn(&ProcessId) -> u32,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        there("map", map)?;
        if size != ni.job.size() {
            let why = format!("size={size}: the job has {} processes", ni.job.size());
            return Err(Failure::new(Error::Fail, why));
        }
        for (at, id) in ni.ids.iter().enumerate() {
            // SAFETY: the caller vouches for `size` numbers, and there are as many ids.
            unsafe { map.add(at).write(of(id)) };
        }
        Ok(())
    };
    code(cx, function, body())
}

pub(crate) unsafe fn ptlgetnidmap(
    cx: &'static Cx,
    ni: ptl_handle_ni_t,
    map: *mut ptl_nid_t,
    size: c_uint,
) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { map_of(cx, "PtlGetNIDMap", ni, map, size, |id| id.nid) }
}

pub(crate) unsafe fn ptlgetpidmap(
    cx: &'static Cx,
    ni: ptl_handle_ni_t,
    map: *mut ptl_pid_t,
    size: c_uint,
) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { map_of(cx, "PtlGetPIDMap", ni, map, size, |id| id.pid) }
}

pub(crate) fn ptljobfence(cx: &'static Cx, handle: ptl_handle_ni_t) -> c_int {
    let body = || {
        let ni = state(cx).interface(handle)?;
        let job: &Job = &ni.job;
        // The job's fence waits in the system or at the launcher: in a thread of its own, while this one moves messages.
        std::thread::scope(|scope| {
            let fence = scope.spawn(|| job.fence().map_err(|error| error.to_string()));
            while !fence.is_finished() {
                if !lock::relax(Pause::Sleep) {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
            let end = fence.join().unwrap_or_else(|_| Err("the fence failed".into()));
            end.map_err(|why| Failure::new(Error::Fail, why))
        })
    };
    code(cx, "PtlJobFence", body())
}
