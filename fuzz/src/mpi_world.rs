//! Worlds of MPI in one thread, for targets that write into what they read from each other.

use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::World;

/// `MPI_BYTE`.
const BYTE: usize = 0x247;
pub const ANY_SOURCE: i32 = -1;
pub const ANY_TAG: i32 = -1;

/// What lies around every buffer and must not be written.
const GUARD: u8 = 0xa5;
const AROUND: usize = 64;

struct Buffer {
    bytes: Box<[u8]>,
    /// What all of it must stay; `None`: it is to be written.
    fixed: Option<u8>,
}

/// Buffers of operations under way: they outlive the worlds, which may still write to them.
#[derive(Default)]
pub struct Buffers(Vec<Buffer>);

impl Buffers {
    /// A buffer of `len` bytes, which stays where it is: of `value`, or to be written.
    fn take(&mut self, len: usize, fixed: Option<u8>) -> *mut u8 {
        let mut bytes = vec![GUARD; len + 2 * AROUND].into_boxed_slice();
        bytes[AROUND..AROUND + len].fill(fixed.unwrap_or(0));
        self.0.push(Buffer { bytes, fixed });
        self.0.last_mut().expect("just pushed").bytes[AROUND..].as_mut_ptr()
    }

    /// Nothing was written that was not to be.
    pub fn check(&self) {
        for Buffer { bytes, fixed } in &self.0 {
            let (before, rest) = bytes.split_at(AROUND);
            let (inside, after) = rest.split_at(rest.len() - AROUND);
            assert!(
                before.iter().chain(after).all(|byte| *byte == GUARD),
                "written beside a buffer"
            );
            assert!(
                fixed.is_none_or(|value| inside.iter().all(|byte| *byte == value)),
                "written to a send's buffer"
            );
        }
    }
}

fn byte() -> Datatype {
    Datatype::predefined(BYTE).expect("MPI_BYTE")
}

/// Start a send of `len` bytes of `value`. What it refuses is no matter.
pub fn send<F: Fabric>(
    world: &World<F>,
    buffers: &mut Buffers,
    dest: u32,
    tag: i32,
    len: usize,
    value: u8,
    mode: Mode,
) -> Option<usize> {
    let at = buffers.take(len, Some(value));
    // SAFETY: `buffers` keeps them until the worlds have gone.
    let buf = unsafe { SendBuf::new(at, len as u64, byte()) };
    world.isend(world.comm_world(), &buf, dest as i32, tag, mode).ok()
}

/// Start a receive of at most `len` bytes; where they go.
pub fn receive<F: Fabric>(
    world: &World<F>,
    buffers: &mut Buffers,
    source: i32,
    tag: i32,
    len: usize,
) -> Option<(usize, *const u8)> {
    let at = buffers.take(len, None);
    // SAFETY: as above.
    let buf = unsafe { RecvBuf::new(at, len as u64, byte()) };
    world
        .irecv(world.comm_world(), buf, source, tag)
        .ok()
        .map(|handle| (handle, at.cast_const()))
}

/// Complete whatever is complete of `handles`, with whatever result.
pub fn reap<F: Fabric>(world: &World<F>, handles: &mut Vec<usize>) {
    handles.retain(|handle| match world.is_complete(*handle) {
        Ok(false) => true,
        _ => {
            let _ = world.finish(*handle);
            false
        }
    });
}

/// Whether `len` bytes of `value` get from one world to another; `turn` lets time pass.
pub fn delivers<F: Fabric>(
    (from, to): (&World<F>, &World<F>),
    buffers: &mut Buffers,
    (tag, len, value): (i32, usize, u8),
    mut turn: impl FnMut(),
) -> bool {
    let Some((received, at)) = receive(to, buffers, from.pid() as i32, tag, len) else {
        return false;
    };
    let Some(sent) = send(from, buffers, to.pid(), tag, len, value, Mode::Standard) else {
        return false;
    };
    for _ in 0..4000 {
        turn();
        if matches!(
            (from.is_complete(sent), to.is_complete(received)),
            (Ok(true), Ok(true))
        ) {
            let ended = from.finish(sent).is_ok()
                && to
                    .finish(received)
                    .is_ok_and(|(status, _)| status.bytes == len as u64 && status.error.is_none());
            // SAFETY: `len` bytes of a buffer that lives; the receive is over.
            return ended
                && unsafe { std::slice::from_raw_parts(at, len) }
                    .iter()
                    .all(|byte| *byte == value);
        }
    }
    false
}
