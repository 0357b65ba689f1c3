//! The fast lanes of the four functions that programs call for every message: messages of predefined
//! types that go or have come at once, when nothing is wrong and nothing else is to be done. Everything else, errors included, takes the
//! long way through the checks: a lane only ever says "done" or "not here".
//!
//! Cost class: fast path. No lock (but at MPI_THREAD_MULTIPLE with several threads), no shared ownership taken,
//! no allocation.

use core::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use farpost_mpi::buffer::RecvRun;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::SENT;

use crate::abi::{self, MPI_Status};
use crate::cx::World;
use crate::lock;

/// Handles of predefined datatypes are this, and the 255 that follow.
const FIRST_TYPE: usize = 0x200;

/// What the lanes need, between MPI_Init and MPI_Finalize.
struct Lanes {
    world: &'static World,
    /// Size (0: not here) and class of the predefined types that are one run of bytes.
    types: [(u8, u8); 256],
    /// The same types.
    datatypes: [Option<Datatype>; 256],
}

static LANES: AtomicPtr<Lanes> = AtomicPtr::new(core::ptr::null_mut());

/// The lanes after they are closed: never freed, and no leak for who looks for those, which is all that it is read by.
#[used]
static CLOSED: AtomicPtr<Lanes> = AtomicPtr::new(core::ptr::null_mut());

/// Open the lanes: MPI is initialised.
pub(crate) fn open(world: &'static World) {
    let mut types = [(0, 0); 256];
    let mut datatypes = [const { None }; 256];
    for (offset, entry) in types.iter_mut().enumerate() {
        if let Some(ty) = Datatype::predefined(FIRST_TYPE + offset)
            && ty.is_contiguous()
            && ty.true_lb() == 0
        {
            *entry = (ty.size() as u8, ty.sig());
            datatypes[offset] = Some(ty);
        }
    }
    // Never freed: another thread may be looking at it when MPI ends.
    LANES.store(
        Box::leak(Box::new(Lanes {
            world,
            types,
            datatypes,
        })),
        Ordering::Release,
    );
}

/// Close the lanes: MPI is finalised.
pub(crate) fn close() {
    let lanes = LANES.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !lanes.is_null() {
        CLOSED.store(lanes, Ordering::Relaxed);
    }
}

#[inline(always)]
fn lanes() -> Option<&'static Lanes> {
    // SAFETY: null, or what `open` leaked.
    unsafe { LANES.load(Ordering::Acquire).as_ref() }
}

impl Lanes {
    /// Bytes and class of `count` elements, if they are one run.
    #[inline(always)]
    fn bytes(&self, count: i64, datatype: usize) -> Option<(usize, u8)> {
        let (size, class) = *self.types.get(datatype.wrapping_sub(FIRST_TYPE))?;
        // A negative count is a huge one here.
        let count = u32::try_from(count as u64).ok()?;
        (size != 0).then_some((count as usize * usize::from(size), class))
    }
}

/// Null and the constants that are no addresses: for the whole way, which says what is wrong.
#[inline(always)]
fn no_memory(buf: *const c_void) -> bool {
    buf as usize <= abi::MPI_BUFFER_AUTOMATIC
}

/// `MPI_Send`, and `MPI_Isend` whose request is then [`SENT`]. True: done.
///
/// # Safety
/// As for MPI_Send.
#[inline(always)]
pub(crate) unsafe fn send(
    buf: *const c_void,
    count: i64,
    datatype: usize,
    dest: c_int,
    tag: c_int,
    comm: usize,
) -> bool {
    let _inside = lock::enter();
    let Some(lanes) = lanes() else { return false };
    let Some((len, class)) = lanes.bytes(count, datatype) else {
        return false;
    };
    if tag < 0 || no_memory(buf) {
        return false;
    }
    // SAFETY: the program's buffer has `len` bytes, which nobody changes during the call.
    let data = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) };
    lanes.world.with_comm(
        comm,
        #[inline(always)]
        move |comm| lanes.world.send_short(comm, data, class, dest, tag),
    ) == Some(true)
}

/// `MPI_Isend`. True: done.
///
/// # Safety
/// As for MPI_Isend.
#[inline(always)]
pub(crate) unsafe fn isend(
    buf: *const c_void,
    count: i64,
    datatype: usize,
    dest: c_int,
    tag: c_int,
    comm: usize,
    request: *mut usize,
) -> bool {
    // SAFETY: the caller's promise.
    if request.is_null() || !unsafe { send(buf, count, datatype, dest, tag, comm) } {
        return false;
    }
    // SAFETY: not null; the program gave room for a request.
    unsafe { request.write(SENT) };
    true
}

/// `MPI_Recv`. True: done.
///
/// # Safety
/// As for MPI_Recv.
#[inline(always)]
pub(crate) unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: usize,
    source: c_int,
    tag: c_int,
    comm: usize,
    status: *mut MPI_Status,
) -> bool {
    let _inside = lock::enter();
    let Some(lanes) = lanes() else { return false };
    let Some((len, class)) = lanes.bytes(count, datatype) else {
        return false;
    };
    if tag < -2 || tag == -1 || source < 0 || no_memory(buf) {
        return false;
    }
    // SAFETY: the program's buffer has `len` bytes, which are ours during the call.
    let to = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), len) };
    let got = lanes.world.with_comm(
        comm,
        #[inline(always)]
        move |comm| lanes.world.receive_short(comm, source, tag, class, to),
    );
    let Some(Some((source, tag, len))) = got else {
        return false;
    };
    if !status.is_null() {
        // SAFETY: not MPI_STATUS_IGNORE, so the program gave room for a status.
        unsafe {
            (*status).MPI_SOURCE = source;
            (*status).MPI_TAG = tag;
            (*status).MPI_internal = [len as c_int, 0, 0, 0, 0];
        }
    }
    true
}

/// `MPI_Irecv`. True: done.
///
/// # Safety
/// As for MPI_Irecv.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: usize,
    source: c_int,
    tag: c_int,
    comm: usize,
    request: *mut usize,
) -> bool {
    let _inside = lock::enter();
    let Some(lanes) = lanes() else { return false };
    let Some((len, _)) = lanes.bytes(count, datatype) else {
        return false;
    };
    if tag < -2 || tag == -1 || source < -1 || no_memory(buf) || request.is_null() {
        return false;
    }
    let Some(ty) = &lanes.datatypes[datatype - FIRST_TYPE] else {
        return false;
    };
    let world = lanes.world;
    let started = world.with_comm(
        comm,
        #[inline(always)]
        move |comm| {
            world.irecv_run(
                comm,
                #[inline(always)]
                move || {
                    // SAFETY: the program leaves the buffer alone until the request completes; predefined types
                    // that are here are one run, and `len` is the size of `count` of them.
                    unsafe { RecvRun::new(buf.cast(), count as u64, ty, len) }
                },
                source,
                tag,
            )
        },
    );
    let Some(Some(handle)) = started else { return false };
    // SAFETY: not null; the program gave room for a request.
    unsafe { request.write(handle) };
    true
}
