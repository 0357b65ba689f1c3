//! Beginning and end, interfaces, identities, the job (sections 3.4 to 3.8).
//!
//! Cost class: set-up path.

use core::ffi::{c_int, c_uint, c_ulong};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::wait::{Pause, WaitPolicy};
use farpost_fabric::{Fabric, Interrupt};
use farpost_node::{Interface, NodeFabric, PidChoice, PortalsPlace};
use farpost_portals::host::INTERFACE as HOST;
use farpost_portals::interface::BESIDE;
use farpost_portals::{ANY, AnyInterface, Error, Limits, NetworkInterface, ProcessId};

use crate::cx::{self, Cx};
use crate::interfaces::portals3::*;
use crate::interfaces::{Place, refuse};
use crate::node;
use crate::process;
use crate::progress::{self, Reason, Served};
use crate::roll;

use super::convert::{c_id, c_limits, id, limits};
use super::handlers::Handlers;
use super::state::{Answer, Failure, Ni, state, there};

/// Longest time that seeing off what is under way may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// Longest sleep of a fence while messages are under way, which ring nobody, and otherwise.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(50);
/// Interfaces that a process may open.
const INTERFACES: c_int = 3;

pub(crate) fn ptlinit(cx: &'static Cx, a: arg::PtlInit) -> Answer {
    there("max_interfaces", a.max_interfaces)?;
    a.max_interfaces.set(INTERFACES);
    state(cx).initialised.set(true);
    Ok(())
}

/// Where the program asks for the library of the job's interface to run; `None`: as the setting says.
///
/// # Errors
/// There is no such interface.
fn place_of(iface: ptl_interface_t) -> Answer<Option<(PortalsPlace, &'static str)>> {
    match iface {
        PTL_IFACE_DEFAULT => Ok(None),
        PTL_IFACE_INLINE => Ok(Some((PortalsPlace::Inline, "PTL_IFACE_INLINE"))),
        PTL_IFACE_GENERIC => Ok(Some((PortalsPlace::Generic, "PTL_IFACE_GENERIC"))),
        PTL_IFACE_ACCELERATED => Ok(Some((PortalsPlace::Accelerated, "PTL_IFACE_ACCELERATED"))),
        _ => {
            refuse!(
                Error::IfaceInvalid: "iface={iface}: allowed are PTL_IFACE_DEFAULT ({PTL_IFACE_DEFAULT}), PTL_IFACE_INLINE ({PTL_IFACE_INLINE}), \
                 PTL_IFACE_GENERIC ({PTL_IFACE_GENERIC}), PTL_IFACE_ACCELERATED ({PTL_IFACE_ACCELERATED}) and PTL_IFACE_HOST ({PTL_IFACE_HOST})"
            )
        }
    }
}

/// Whether an interface runs where the program asks for it.
///
/// # Errors
/// It runs elsewhere.
fn runs_at(interface: &AnyInterface<NodeFabric>, place: Option<(PortalsPlace, &str)>) -> Answer {
    let there = PortalsPlace::of(interface);
    match place {
        Some((asked, name)) if asked != there => {
            refuse!(
                Error::IfaceInvalid: "iface={name}: a process has one interface by way of an agent at most, beside an inline one, and \
                 this one's has been opened as {}", there.name()
            )
        }
        _ => Ok(()),
    }
}

/// Opens the interface, which joins the job if nobody has.
///
/// # Errors
/// See the table.
fn open(
    cx: &'static Cx,
    place: Option<(PortalsPlace, &str)>,
    pid: ptl_pid_t,
    desired: Option<Limits>,
) -> Answer<Rc<Ni>> {
    let state = state(cx);
    let failed = |why| Failure::new(Error::Fail, why);
    let choice = PidChoice {
        pid,
        inline: place.map(|(place, _)| place == PortalsPlace::Inline),
    };
    let node = node::join_as(cx, (pid != ANY).then_some(choice)).map_err(failed)?;
    let me = node.job.rank();
    let inline = place.map_or(node.settings.portals_place, |(place, _)| place) == PortalsPlace::Inline;
    let number = match inline {
        true => node.portals_beside(me).map_err(failed)?,
        false => None,
    };
    let slot = if number.is_some() {
        &state.beside
    } else {
        &state.job
    };
    if let Some(ni) = &*slot.open.borrow() {
        runs_at(&ni.interface, place)?;
        fits(pid, ni.interface.identity().id.pid)?;
        return Ok(Rc::clone(ni));
    }
    let known = slot.interface.borrow().clone();
    if known.is_none() {
        let numbered = node.portals_numbered(number.unwrap_or(me), pid);
        numbered.map_err(|refusal| Failure::new(refusal.code, refusal.why))?;
    }
    let (interface, fresh) = match known {
        Some(interface) => {
            runs_at(&interface, place)?;
            (interface, false)
        }
        None => {
            let made = match place {
                None => node.portals(desired.as_ref()),
                Some((place, name)) => node.portals_at(place, name, desired.as_ref()),
            };
            let made = made.map_err(failed)?;
            made.set_relax(Some(roll::relax));
            (Rc::new(made), true)
        }
    };
    fits(pid, interface.identity().id.pid)?;
    node::open(cx, Interface::Portals).map_err(failed)?;
    if !fresh {
        let opened = slot.opened.get() + 1;
        let again = interface.reopen(desired.as_ref(), opened, node.settings.start_timeout());
        again.map_err(|error| failed(error.to_string()))?;
        slot.opened.set(opened);
    }
    slot.interface.replace(Some(Rc::clone(&interface)));
    if let [Some(one), Some(other)] = state.of_job() {
        one.set_relax(Some(relax_both));
        other.set_relax(Some(relax_both));
    }
    let of_kind = |rank| match number {
        None => Ok(rank),
        Some(_) => node.portals_beside(rank).map(|beside| beside.unwrap_or(rank)),
    };
    let numbers: Result<Rc<[u32]>, String> = (0..node.job.size()).map(of_kind).collect();
    let ni = Rc::new(Ni {
        handle: interface.handle(),
        limits: interface.limits(),
        job: Rc::clone(&node.job),
        numbers: numbers.map_err(failed)?,
        handlers: Handlers::default(),
        interface,
    });
    slot.open.replace(Some(Rc::clone(&ni)));
    // Without it everything still moves in calls. Where an agent matches and moves, it makes the progress; what this process says
    // to other hosts itself is little more than that it has come to a fence. The first handler changes that.
    let started = if !ni.interface.is_served() {
        progress::start(cx, Reason::Portals, true, serve)
    } else if node.fabric.network().is_some() {
        progress::start(cx, Reason::Portals, false, serve_network)
    } else {
        Ok(())
    };
    if let Err(why) = started {
        process::say(&format!("PtlNIInit: {why}"));
    }
    Ok(ni)
}

/// Opens the interface of this host.
///
/// # Errors
/// See the table.
fn open_host(cx: &'static Cx, pid: ptl_pid_t, desired: Option<Limits>) -> Answer<Rc<Ni>> {
    let state = state(cx);
    if let Some(ni) = &*state.host.borrow() {
        fits(pid, ni.interface.identity().id.pid)?;
        return Ok(Rc::clone(ni));
    }
    let failed = |why| Failure::new(Error::Fail, why);
    let node = node::join(cx).map_err(failed)?;
    let made = node.portals_host(pid, desired.as_ref(), process::say);
    let interface = made.map_err(|refusal| Failure::new(refusal.code, refusal.why))?;
    interface.set_relax(Some(relax_host));
    node::open(cx, Interface::Portals).map_err(failed)?;
    let ni = Rc::new(Ni {
        handle: interface.handle(),
        limits: interface.limits(),
        job: Rc::clone(&node.job),
        numbers: Rc::from([]),
        handlers: Handlers::default(),
        interface: Rc::new(interface),
    });
    state.host.replace(Some(Rc::clone(&ni)));
    Ok(ni)
}

/// What a wait for something of the host's does between its looks: what others wait for on the job's interface is moved meanwhile.
fn relax_host(pause: Pause) -> bool {
    let state = state(cx::process());
    let job = state.of_job();
    if let Some(host) = &*state.host.borrow() {
        let alone = job.iter().all(Option::is_none);
        host.interface.set_longest_sleep(if alone { LONG } else { SHORT });
    }
    job.iter()
        .flatten()
        .fold(false, |moved, job| job.progress() | moved)
        || roll::relax(pause)
}

/// What a wait for something of one of the job's interfaces does between its looks, where there are two: what others wait for on the other
/// is moved meanwhile, and it sleeps until something comes for either.
fn relax_both(pause: Pause) -> bool {
    let cx = cx::process();
    let both = state(cx).of_job();
    let both = || both.iter().flatten();
    if both().fold(false, |moved, it| it.progress() | moved) || roll::relax(pause) {
        return true;
    }
    let (Pause::Sleep, Some(node)) = (pause, cx.node.get()) else {
        return false;
    };
    both().for_each(|it| it.flush());
    let longest = if both().all(|it| it.is_idle() || it.rings()) {
        LONG
    } else {
        SHORT
    };
    node.fabric.sleep(longest, &mut || both().any(|it| it.is_ready()));
    both().for_each(|it| _ = it.attend());
    true
}

/// A call that does not wait has found nothing on one interface: where the job's are two, the other is not left behind.
#[cold]
pub(super) fn beside_too(cx: &'static Cx) {
    if let [Some(one), Some(other)] = state(cx).of_job() {
        one.progress();
        other.progress();
    }
}

/// Where an agent matches and moves, the library's own thread takes the events while the program computes, for their handlers.
pub(super) fn show_handlers(cx: &'static Cx) {
    if let Err(why) = progress::start(cx, Reason::Portals, true, serve) {
        process::say(&format!("PtlEQAlloc: {why}"));
    }
}

/// What the library's own thread does while the program computes (section 1: application bypass).
fn serve(cx: &'static Cx) -> Served {
    let host = state(cx).host.borrow().clone();
    let of_job = state(cx).of_job();
    let moved = of_job
        .iter()
        .flatten()
        .fold(false, |moved, it| it.progress() | moved);
    let handled = host.as_ref().is_some_and(|ni| ni.interface.has_handlers());
    match moved | host.is_some_and(|ni| ni.interface.progress()) {
        true => Served::Moved,
        // The host's agent rings nobody who does not wait.
        false if handled => Served::After(SHORT),
        false => Served::Nothing,
    }
}

/// The same where an agent does the rest.
fn serve_network(cx: &'static Cx) -> Served {
    match cx.node.get() {
        Some(node) if node.fabric.progress() => Served::Moved,
        _ => Served::Nothing,
    }
}

/// # Errors
/// This process has another number.
fn fits(pid: ptl_pid_t, own: u32) -> Answer {
    if pid == ANY || pid == own {
        return Ok(());
    }
    refuse!(
        Error::PidInvalid: "pid={pid}: this interface is number {own} of its node; PTL_PID_ANY always fits"
    )
}

pub(crate) fn ptlniinit(cx: &'static Cx, a: arg::PtlNIInit) -> Answer {
    state(cx).ready()?;
    there("ni_handle", a.ni_handle)?;
    let desired = a.desired.get().map(|desired| limits(&desired));
    let ni = match a.iface {
        PTL_IFACE_HOST => open_host(cx, a.pid, desired)?,
        iface => open(cx, place_of(iface)?, a.pid, desired)?,
    };
    a.actual.set(c_limits(&ni.limits));
    a.ni_handle.set(ni.handle.0);
    Ok(())
}

pub(crate) fn ptlnifini(cx: &'static Cx, a: arg::PtlNIFini) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    close(cx, &ni);
    Ok(())
}

/// Closes the interface. That of the job stays, to drop what still comes and to be opened again.
fn close(cx: &'static Cx, ni: &Ni) {
    let state = state(cx);
    match ni.handle.interface() {
        HOST => state.host.replace(None),
        BESIDE => state.beside.open.replace(None),
        _ => state.job.open.replace(None),
    };
    let ended = ni.interface.agent_has_ended();
    if !ni.interface.close(FAREWELL) && !ended {
        process::say(&format!(
            "PtlNIFini: after {} s not everything that was sent has arrived; it may be lost",
            FAREWELL.as_secs()
        ));
    }
}

pub(crate) fn ptlfini(cx: &'static Cx) {
    let state = state(cx);
    let open: Vec<_> = state.all().collect();
    for ni in &open {
        close(cx, ni);
    }
    state.initialised.set(false);
    progress::stop(cx, Reason::Portals);
    if let Some(node) = cx.node.get() {
        node.close(Interface::Portals);
    }
}

pub(crate) fn ptlnidist(cx: &'static Cx, a: arg::PtlNIDist) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("distance", a.distance)?;
    let far = ni.interface.ni_dist(id(a.process))?;
    a.distance.set(far as c_ulong);
    Ok(())
}

macro_rules! identities {
    ($($function:ident: $Args:ident, $it:ident = |$id:ident| $value:expr;)*) => {$(
        pub(crate) fn $function(cx: &'static Cx, a: arg::$Args) -> Answer {
            let ni = state(cx).interface(a.ni_handle)?;
            there(stringify!($it), a.$it)?;
            let $id = ni.interface.identity();
            a.$it.set($value);
            Ok(())
        }
    )*};
}

identities! {
    ptlgetuid: PtlGetUid, uid = |own| own.uid;
    ptlgetjid: PtlGetJid, jid = |own| own.jid;
    ptlgetid: PtlGetId, id = |own| c_id(own.id);
}

pub(crate) fn ptlgetrank(cx: &'static Cx, a: arg::PtlGetRank) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    there("rank", a.rank)?;
    there("size", a.size)?;
    a.rank.set(ni.job.rank());
    a.size.set(ni.job.size());
    Ok(())
}

pub(crate) fn ptlgetrankid(cx: &'static Cx, a: arg::PtlGetRankId) -> Answer {
    let rank = a.rank;
    let ni = state(cx).interface(a.ni_handle)?;
    there("id", a.id)?;
    if is_host(&ni) {
        return without_job();
    }
    let Some(known) = ni.id(rank) else {
        return refuse!(Error::Fail: "rank={rank}: the job has ranks 0 to {}", ni.job.size() - 1);
    };
    a.id.set(c_id(known));
    Ok(())
}

/// # Errors
/// Always: who of the job is a member of the host's interface, and as what, only the program knows.
#[cold]
fn without_job() -> Answer {
    refuse!(
        Error::Fail: "the processes of a job have no numbers on their host's interface but those they chose or were given; ask the job's interface, \
         and tell each other what PtlGetId says"
    )
}

/// Whether an interface is the host's.
fn is_host(ni: &Ni) -> bool {
    ni.handle.interface() == HOST
}

/// A number of every process.
///
/// # Safety
/// `map` is null or has room for `size` numbers.
unsafe fn map_of(
    cx: &'static Cx,
    handle: u32,
    map: Place<u32>,
    size: c_uint,
    of: impl Fn(&ProcessId) -> u32,
) -> Answer {
    let ni = state(cx).interface(handle)?;
    there("map", map)?;
    if is_host(&ni) {
        return without_job();
    }
    if size != ni.job.size() {
        return refuse!(Error::Fail: "size={size}: the job has {} processes", ni.job.size());
    }
    for (at, id) in (0..size).filter_map(|rank| ni.id(rank)).enumerate() {
        // SAFETY: the caller vouches for `size` numbers, and there are as many ids.
        unsafe { map.pointer().add(at).write(of(&id)) };
    }
    Ok(())
}

pub(crate) unsafe fn ptlgetnidmap(cx: &'static Cx, a: arg::PtlGetNIDMap) -> Answer {
    // SAFETY: the caller vouches for it.
    unsafe { map_of(cx, a.ni_handle, a.map, a.size, |id| id.nid) }
}

pub(crate) unsafe fn ptlgetpidmap(cx: &'static Cx, a: arg::PtlGetPIDMap) -> Answer {
    // SAFETY: the caller vouches for it.
    unsafe { map_of(cx, a.ni_handle, a.map, a.size, |id| id.pid) }
}

pub(crate) fn ptljobfence(cx: &'static Cx, a: arg::PtlJobFence) -> Answer {
    let ni = state(cx).interface(a.ni_handle)?;
    if is_host(&ni) {
        return without_job();
    }
    let node = node::join(cx).map_err(|why| Failure::new(Error::Fail, why))?;
    let policy = WaitPolicy::of(&node.settings.wait, &*node.fabric);
    let rest = || {
        let of_job = state(cx).of_job();
        of_job.iter().flatten().for_each(|it| it.flush());
        match of_job.iter().flatten().all(|it| it.is_idle()) {
            true => LONG,
            false => SHORT,
        }
    };
    let met = (node.fence).wait(
        &*node.fabric,
        &policy,
        Some(roll::relax),
        || {
            state(cx)
                .of_job()
                .iter()
                .flatten()
                .fold(false, |moved, it| it.progress() | moved)
        },
        rest,
    );
    met.map_err(|why| Failure::new(Error::Fail, why))
}
