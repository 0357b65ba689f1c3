//! Operations by loads and stores, where all members map the window's memory.
//!
//! Requirements of MPI-5.0 sections 12.3, 12.5.

use crate::epoch::LockKind;
use crate::lines::Patience;
use crate::memory::{Area, CHUNK_DIRECT, copy_in, copy_out, pieces};
use crate::win::Win;
use farpost_fabric::{Fabric, Peer};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::World;
use farpost_mpi::{Result, fail};

/// Most pieces of memory at a time.
const PIECES: usize = 512;

/// The two sides of an operation, as the origin does it.
pub(crate) enum Deed<'a> {
    Put(&'a SendBuf),
    Get(&'a RecvBuf),
    Accumulate(Option<&'a SendBuf>, Option<&'a RecvBuf>, &'a Op),
    CompareAndSwap(&'a SendBuf, &'a SendBuf, &'a RecvBuf),
}

fn packed(buf: &SendBuf, from: u64, len: u64) -> Vec<u8> {
    let mut data = vec![0; len as usize];
    buf.pack(from, &mut data);
    data
}

impl<F: Fabric> Win<F> {
    /// Do it now: `count` elements of `ty` from byte `disp` of the memory of `rank` on.
    pub(crate) fn do_directly(
        &self,
        world: &World<F>,
        deed: &Deed<'_>,
        rank: i32,
        (disp, count, ty): (i64, u64, &Datatype),
        element: Option<&Datatype>,
    ) -> Result<()> {
        let Some(shared) = &self.shared else {
            return fail!(ERR_INTERN: "the window's memory is not shared");
        };
        let member = &self.members[rank as usize];
        let area = Area::Fixed {
            base: shared.base.wrapping_add(member.at as usize),
            len: member.size as u64,
        };
        let total = count.saturating_mul(ty.size());
        if ty.is_contiguous() && total > 0 {
            let piece = (disp.wrapping_add(ty.true_lb()), total);
            match deed {
                Deed::Put(from) => return copy_in(&area, piece, from),
                Deed::Get(to) => return copy_out(&area, piece, to),
                _ => {}
            }
        }
        let lines = shared.lines(rank);
        let (me, died) = (self.comm.rank, |rank| self.has_died(world, rank));
        let part = element.map_or(1, Datatype::size).max(1);
        let mut from = 0;
        while from < total {
            let (list, bytes) = pieces(disp, ty, count, from, PIECES);
            let now = bytes.min(CHUNK_DIRECT) / part * part;
            if now == 0 {
                return fail!(ERR_TYPE: "target_datatype={}: its elements are in too many parts", ty.describe());
            }
            let list = crate::memory::cut(list, now);
            match deed {
                Deed::Put(buf) => area.scatter(&list, &packed(buf, from, now))?,
                Deed::Get(to) => _ = to.unpack(from, &area.gather(&list)?),
                Deed::Accumulate(buf, to, op) => {
                    let data = buf.map(|buf| packed(buf, from, now)).unwrap_or_default();
                    let element = element.cloned().unwrap_or_else(Datatype::byte);
                    let old = lines.alone(me, died, || area.accumulate(op, &element, &list, &data))?;
                    if let Some(to) = to {
                        to.unpack(from, &old);
                    }
                }
                Deed::CompareAndSwap(new, compare, to) => {
                    let data = [packed(new, from, now), packed(compare, from, now)].concat();
                    let old = lines.alone(me, died, || area.compare_and_swap(&list, &data))?;
                    to.unpack(from, &old);
                }
            }
            from += now;
        }
        Ok(())
    }

    /// Wait for the lock of `rank`.
    pub(crate) fn lock_directly(&self, world: &World<F>, kind: LockKind, rank: i32) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let (lines, me) = (shared.lines(rank), self.comm.rank as usize);
        if lines.lock.try_lock(kind, me) {
            return Ok(());
        }
        let mut patience = Patience::default();
        let got = world.wait_unrung(|| {
            if let Some(error) = &*self.failed.borrow() {
                return Err(error.clone());
            }
            let got = lines.lock.try_lock(kind, me);
            if !got && patience.is_over() {
                let others = lines.lock.others(me).into_iter();
                others
                    .filter(|other| self.has_died(world, *other as i32))
                    .for_each(|other| lines.lock.withdraw(other));
            }
            Ok(got)
        });
        if got.is_err() {
            lines.lock.withdraw(me);
        }
        got
    }

    /// Whether the process of a member has ended: what it held is free.
    fn has_died(&self, world: &World<F>, rank: i32) -> bool {
        let pid = self.comm.local.pid(rank);
        pid.is_some_and(|pid| world.fabric().has_ended(Peer(pid)))
    }

    pub(crate) fn unlock_directly(&self, kind: LockKind, rank: i32) {
        if let Some(shared) = &self.shared {
            shared.lines(rank).lock.unlock(kind, self.comm.rank as usize);
        }
    }
}
