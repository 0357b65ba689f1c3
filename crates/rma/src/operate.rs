//! The origin's side: operations, cut into messages.
//!
//! Requirements of MPI-5.0 sections 12.3, 12.7.1.

use crate::direct::Deed;
use crate::flight::Then;
use crate::memory::{Area, cut, pieces, run_to_fill, run_to_send};
use crate::message::{CHUNK, Message, MessageKind, PIECES, Piece, long_get, long_put};
use crate::peer::{OUTSTANDING, PendingReply, Track};
use crate::win::{PROC_NULL, Win};
use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::{Op, Predefined};
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::World;
use farpost_mpi::{Result, error, fail};
use std::rc::Rc;

/// Bytes from which one piece travels from user memory to user memory.
const LONG: u64 = 16 * 1024;

/// An operation, with the origin's buffers.
pub enum What {
    Put(SendBuf),
    Get(RecvBuf),
    Accumulate(SendBuf, Op),
    /// `MPI_Get_accumulate` and `MPI_Fetch_and_op`. Without data for `MPI_NO_OP`.
    Fetch(Option<SendBuf>, RecvBuf, Op),
    /// The new value, and the one to compare with.
    CompareAndSwap(SendBuf, SendBuf, RecvBuf),
}

/// The target's side of an operation.
pub struct Place<'a> {
    pub rank: i32,
    pub disp: i64,
    pub count: u64,
    pub datatype: &'a Datatype,
}

impl What {
    /// The elements of an operation that is atomic by elements.
    fn element(&self, place: &Place<'_>) -> Result<Option<Datatype>> {
        let same = |name: &str, ty: &Datatype| {
            let target = place.datatype.accumulated();
            match (ty.accumulated(), target) {
                (Some(one), Some(other)) if one.handle() == other.handle() => Ok(Some(one)),
                _ => fail!(
                    ERR_TYPE: "{name}={}, target_datatype={}: accumulate operations need elements of one predefined datatype, the same on both sides",
                    ty.describe(), place.datatype.describe()
                ),
            }
        };
        let empty = place.count == 0 || place.datatype.size() == 0;
        let (op, element) = match self {
            Self::Put(_) | Self::Get(_) => return Ok(None),
            Self::CompareAndSwap(..) => {
                if !place.datatype.is_comparable() {
                    return fail!(
                        ERR_TYPE: "datatype={}: MPI_Compare_and_swap takes predefined integers, logicals and bytes",
                        place.datatype.describe()
                    );
                }
                return Ok(Some(place.datatype.clone()));
            }
            Self::Accumulate(from, op) => {
                if op.as_predefined() == Some(Predefined::NoOp) {
                    return fail!(ERR_OP: "op=MPI_NO_OP: not for MPI_Accumulate, which would do nothing");
                }
                (
                    op,
                    if empty {
                        None
                    } else {
                        same("origin_datatype", from.datatype())?
                    },
                )
            }
            Self::Fetch(from, to, op) => {
                let element = if empty {
                    None
                } else {
                    same("result_datatype", to.datatype())?
                };
                if let (Some(from), false) = (from, empty) {
                    same("origin_datatype", from.datatype())?;
                }
                (op, element)
            }
        };
        if !op.is_predefined() {
            return fail!(ERR_OP: "op: accumulate operations take predefined operations, not the program's own");
        }
        if let Some(element) = &element {
            op.valid_for(element)?;
        }
        Ok(element)
    }

    /// Whether each side of the origin has as many bytes as the target.
    fn fits(&self, bytes: u64) -> Result<()> {
        let same = |name: &str, here: u64| match here == bytes {
            true => Ok(()),
            false => {
                fail!(ERR_TYPE: "{name} has {here} bytes, and the target's {bytes}: both sides have as many")
            }
        };
        match self {
            Self::Put(from) | Self::Accumulate(from, _) => same("origin", from.bytes()),
            Self::Get(to) => same("origin", to.bytes()),
            Self::CompareAndSwap(_, _, to) => same("origin", to.bytes()),
            Self::Fetch(from, to, _) => {
                same("result", to.bytes())?;
                from.as_ref().map_or(Ok(()), |from| same("origin", from.bytes()))
            }
        }
    }
}

impl<F: Fabric> Win<F> {
    /// A target's rank.
    pub fn target(&self, name: &str, rank: i32) -> Result<()> {
        if rank == PROC_NULL || rank >= 0 && (rank as u32) < self.comm.size() {
            return Ok(());
        }
        fail!(ERR_RANK: "{name}={rank}: the window has ranks 0 to {}, and MPI_PROC_NULL", self.comm.size() - 1)
    }

    /// Where a target's element 0 lies, after a look at its bounds.
    fn offset(&self, place: &Place<'_>) -> Result<i64> {
        let (disp, ty) = (place.disp, place.datatype);
        if let Area::Dynamic(_) = self.area {
            return Ok(disp);
        }
        if disp < 0 {
            return fail!(ERR_DISP: "target_disp={disp}: must not be negative");
        }
        let member = &self.members[place.rank as usize];
        let start = i128::from(disp) * i128::from(member.unit);
        if place.count > 0 && ty.size() > 0 {
            let last = (i128::from(place.count) - 1) * i128::from(ty.extent());
            let low = start + i128::from(ty.true_lb()) + last.min(0);
            let high = start + i128::from(ty.true_lb()) + i128::from(ty.true_extent()) + last.max(0);
            if low < 0 || high > i128::from(member.size) {
                return fail!(
                    ERR_RMA_RANGE: "target_disp={disp}: bytes {low} to {high} of the window of rank {}, which has {}",
                    place.rank, member.size
                );
            }
        }
        i64::try_from(start).map_err(|_| error!(ERR_DISP: "target_disp={disp}: beyond every window"))
    }

    /// Start an operation; with `by_request`, its request.
    ///
    /// # Errors
    /// No epoch that permits it, and arguments that fit neither each other nor the window.
    pub fn operate(
        &self,
        world: &World<F>,
        what: What,
        place: &Place<'_>,
        by_request: bool,
    ) -> Result<Option<usize>> {
        self.target("target_rank", place.rank)?;
        let element = what.element(place)?;
        if place.rank == PROC_NULL {
            let done = || world.done(farpost_mpi::engine::request::Status::EMPTY);
            return by_request.then(done).transpose();
        }
        let total = place.count.saturating_mul(place.datatype.size());
        what.fits(total)?;
        let disp = self.offset(place)?;
        self.check()?;
        if self.epochs.borrow_mut().operate(place.rank, by_request)? {
            self.take_lock(world, place.rank)?;
        }
        if self.shared.is_some() {
            let deed = match &what {
                What::Put(from) => Deed::Put(from),
                What::Get(to) => Deed::Get(to),
                What::Accumulate(from, op) => Deed::Accumulate(Some(from), None, op),
                What::Fetch(from, to, op) => Deed::Accumulate(from.as_ref(), Some(to), op),
                What::CompareAndSwap(new, compare, to) => Deed::CompareAndSwap(new, compare, to),
            };
            self.do_directly(
                world,
                &deed,
                place.rank,
                (disp, place.count, place.datatype),
                element.as_ref(),
            )?;
            let done = || world.done(farpost_mpi::engine::request::Status::EMPTY);
            return by_request.then(done).transpose();
        }
        let request = by_request.then(|| world.open_request()).transpose()?;
        let track = request.map(Track::new);
        let part = element.as_ref().map_or(1, Datatype::size).max(1);
        let mut from = 0;
        while from < total {
            let room = || self.with_peer(place.rank, |peer| peer.outstanding) < OUTSTANDING;
            if !room() {
                self.wait(world, room)?;
            }
            let (list, bytes) = pieces(disp, place.datatype, place.count, from, PIECES);
            if let Some(first) = list.first().filter(|(_, len)| *len >= LONG)
                && place.rank != self.comm.rank
                && self.start_long(world, &what, place.rank, from, *first, track.as_ref())?
            {
                from += first.1;
                continue;
            }
            let now = bytes.min(CHUNK as u64 / 2) / part * part;
            if now == 0 {
                return fail!(ERR_TYPE: "target_datatype={}: its elements are in too many parts", place.datatype.describe());
            }
            let list = cut(list, now);
            self.start_short(
                world,
                &what,
                place.rank,
                (from, now),
                list,
                (element.as_ref(), track.as_ref()),
            )?;
            from += now;
        }
        if let Some(track) = track {
            track.end(world);
        }
        Ok(request)
    }

    /// One piece, by a message of its own. False: the origin's side is not one run, or it is no put or get.
    fn start_long(
        &self,
        world: &World<F>,
        what: &What,
        target: i32,
        from: u64,
        piece: Piece,
        track: Option<&Rc<Track>>,
    ) -> Result<bool> {
        let id = self.new_id();
        let (kind, request, then) = match what {
            What::Put(buf) => {
                let Some(run) = run_to_send(buf, from, piece.1) else {
                    return Ok(false);
                };
                let mut message = Message::new(MessageKind::PutLong, id);
                message.pieces = vec![piece];
                // The target posts its receive when it hears of it.
                self.send(world, target, message)?;
                let request = world.isend(&self.comm, &run, target, long_put(id), Mode::Standard)?;
                let track = track.cloned();
                (MessageKind::PutLong, request, Then::Sent { target, track })
            }
            What::Get(buf) => {
                let Some(run) = run_to_fill(buf, from, piece.1) else {
                    return Ok(false);
                };
                let request = world.irecv(&self.comm, run, target, long_get(id))?;
                let mut message = Message::new(MessageKind::GetLong, id);
                message.pieces = vec![piece];
                self.send(world, target, message)?;
                let (bytes, track) = (piece.1, track.cloned());
                (MessageKind::GetLong, request, Then::Got { target, bytes, track })
            }
            _ => return Ok(false),
        };
        if let Some(track) = track {
            track.begin();
        }
        self.with_peer(target, |peer| {
            peer.outstanding += 1;
            peer.local += 1;
            peer.silent += u64::from(kind == MessageKind::PutLong);
        });
        self.begin(request, then);
        Ok(true)
    }

    fn start_short(
        &self,
        world: &World<F>,
        what: &What,
        target: i32,
        (from, len): (u64, u64),
        list: Vec<Piece>,
        (element, track): (Option<&Datatype>, Option<&Rc<Track>>),
    ) -> Result<()> {
        let data = |buf: &SendBuf| {
            let mut data = vec![0; len as usize];
            buf.pack(from, &mut data);
            data
        };
        let id = self.new_id();
        let (kind, data, to, op) = match what {
            What::Put(buf) => (MessageKind::Put, data(buf), None, None),
            What::Get(to) => (MessageKind::Get, Vec::new(), Some(to), None),
            What::Accumulate(buf, op) => (MessageKind::Accumulate, data(buf), None, Some(op)),
            What::Fetch(buf, to, op) => (
                MessageKind::Fetch,
                buf.as_ref().map(data).unwrap_or_default(),
                Some(to),
                Some(op),
            ),
            What::CompareAndSwap(new, compare, to) => (
                MessageKind::CompareAndSwap,
                [data(new), data(compare)].concat(),
                Some(to),
                None,
            ),
        };
        let message = Message {
            kind,
            op: op.map_or(0, |op| op.handle() as u16),
            element: element.map_or(0, |ty| ty.handle() as u16),
            error: 0,
            id,
            pieces: list,
            data,
        };
        self.with_peer(target, |peer| {
            peer.outstanding += 1;
            peer.local += u64::from(to.is_some());
            peer.silent += u64::from(to.is_none());
        });
        if let Some(to) = to {
            if let Some(track) = track {
                track.begin();
            }
            let pending = PendingReply {
                target,
                to: Some((to.clone(), from)),
                track: track.cloned(),
            };
            self.pending.borrow_mut().insert(id, pending);
        }
        self.send(world, target, message)
    }
}
