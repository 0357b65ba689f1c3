//! Collectives, and making communicators.

use super::play::Rank;
use farpost_fabric::Fabric;
use farpost_generate::program::{Arg, Call, CallMode, Coll, Making, PROC_NULL, ROOT};
use farpost_generate::values::Numbers;
use farpost_mpi::Result;
use farpost_mpi::coll::{self, Block, Blocks, Neighbors, Plan, Root, Site};
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::topo::{DistGraph, Topology};
use std::rc::Rc;

fn reduction(numbers: Numbers) -> (Datatype, Op) {
    let (ty, op) = match numbers {
        Numbers::SumU32 => (593, 33),
        Numbers::ProdU32 => (593, 36),
        Numbers::MaxI32 => (592, 35),
        Numbers::MinI64 => (600, 34),
        Numbers::SumF64 => (532, 33),
        Numbers::BxorI64 => (600, 42),
        Numbers::BandI32 => (592, 40),
        Numbers::BorByte => (583, 41),
        Numbers::Maxloc => (555, 57),
        Numbers::Compose => {
            let two = Datatype::contiguous(2, &Datatype::predefined(593).expect("a type")).expect("a type");
            two.commit();
            return (two, Op::user(Rc::new(compose), false));
        }
    };
    (
        Datatype::predefined(ty).expect("a type"),
        Op::predefined(op).expect("an operation"),
    )
}

fn compose(input: *const u8, inout: *mut u8, len: u64, _: &Datatype) {
    for i in 0..len as usize {
        // SAFETY: both hold `len` elements of two `u32`.
        unsafe {
            let (a, b) = (
                input.add(8 * i).cast::<[u32; 2]>().read_unaligned(),
                inout.add(8 * i).cast::<[u32; 2]>(),
            );
            b.write_unaligned(Numbers::Compose.combine(a, b.read_unaligned()));
        }
    }
}

/// Buffers of a collective, before a plan is made of them: persistent ones make it anew each time.
#[derive(Clone)]
struct Buffers {
    send: Option<Blocks>,
    recv: Option<Blocks>,
    op: Option<Op>,
    neighbors: Option<Neighbors>,
}

fn first(blocks: Option<Blocks>) -> Option<Block> {
    blocks.map(|blocks| match blocks {
        Blocks::Even(block) => block,
        Blocks::Each(list) => list.into_iter().next().unwrap_or_else(Block::none),
    })
}

fn plan(site: &Site<'_>, call: &Call, b: Buffers) -> Result<Plan> {
    let root = match call.root {
        ROOT => Root::Me,
        PROC_NULL => Root::Idle,
        rank => Root::Rank(rank as usize),
    };
    let Buffers {
        send,
        recv,
        op,
        neighbors,
    } = b;
    let all = |blocks: Option<Blocks>| blocks.unwrap_or(Blocks::Each(Vec::new()));
    let one = |blocks: Option<Blocks>| first(blocks).unwrap_or_else(Block::none);
    let op = || op.as_ref().expect("an operation");
    let around = || neighbors.as_ref().expect("neighbours");
    match call.coll {
        Coll::Barrier => coll::barrier(site),
        Coll::Bcast => coll::bcast(site, one(send), root),
        Coll::Gather => coll::gather(site, first(send), one(recv), root),
        Coll::Gatherv => coll::gatherv(site, first(send), all(recv), root),
        Coll::Scatter => coll::scatter(site, one(send), first(recv), root),
        Coll::Scatterv => coll::scatterv(site, all(send), first(recv), root),
        Coll::Allgather => coll::allgather(site, first(send), one(recv)),
        Coll::Allgatherv => coll::allgatherv(site, first(send), all(recv)),
        Coll::Alltoall => coll::alltoall(site, first(send), one(recv)),
        Coll::Alltoallv | Coll::Alltoallw => coll::alltoallv(site, send, all(recv)),
        Coll::Reduce => coll::reduce(site, first(send), one(recv), op(), root),
        Coll::Allreduce => coll::allreduce(site, first(send), one(recv), op()),
        Coll::ReduceScatter => coll::reduce_scatter(site, first(send), one(recv), &call.shares, op()),
        Coll::ReduceScatterBlock => {
            let recv = one(recv).with_count(call.shares[0]);
            coll::reduce_scatter_block(site, first(send), recv, op())
        }
        Coll::Scan => coll::scan(site, first(send), one(recv), op()),
        Coll::Exscan => coll::exscan(site, first(send), one(recv), op()),
        Coll::NeighborAllgather | Coll::NeighborAllgatherv => {
            coll::neighbor_allgather(site, around(), one(send), all(recv))
        }
        _ => coll::neighbor_alltoall(site, around(), all(send), all(recv)),
    }
}

impl<F: Fabric + 'static> Rank<F> {
    /// `None` is `MPI_IN_PLACE`.
    fn blocks(&self, arg: &Arg, ty: Option<&Datatype>) -> Option<Blocks> {
        let block = |buf: usize, at: u64, count: u64, ty: &Datatype| {
            let address = self.address(buf).wrapping_add(at as usize);
            // SAFETY: buffers stay until the program is over, and programs leave them alone until operations are.
            unsafe { Block::new(address, count, ty.clone()) }
        };
        match arg {
            Arg::None => Some(Blocks::Even(Block::none())),
            Arg::InPlace => None,
            Arg::One(data) => {
                let ty = ty.cloned().unwrap_or_else(|| self.type_of(data));
                Some(Blocks::Even(block(data.buf, 0, data.count, &ty)))
            }
            Arg::V {
                buf,
                ty,
                counts,
                displs,
            } => {
                let base = block(*buf, 0, 0, &self.types[*ty]);
                Some(Blocks::v(
                    &base,
                    counts.iter().copied(),
                    displs.iter().map(|d| *d as i64),
                ))
            }
            Arg::W {
                buf,
                counts,
                displs,
                types,
            } => {
                let each = counts.iter().zip(displs).zip(types);
                let list = each.map(|((count, at), ty)| block(*buf, *at, *count, &self.types[*ty]));
                Some(Blocks::Each(list.collect()))
            }
        }
    }

    pub fn collective(&self, call: &Call, how: CallMode) {
        let comm = self.comm(call.comm);
        let kind = call.op.map(reduction);
        let ty = kind.as_ref().map(|(ty, _)| ty);
        let topology = comm.topology.borrow().clone();
        let neighbors = topology.map(|topology| {
            let around = topology.neighbors(comm.rank).expect("neighbours");
            match topology {
                Topology::Cart(_) => Neighbors::cartesian(&around.sources),
                _ => Neighbors::graph(&around.sources, &around.destinations),
            }
        });
        let buffers = Buffers {
            send: self.blocks(&call.send, ty),
            recv: self.blocks(&call.recv, ty),
            op: kind.map(|(_, op)| op),
            neighbors,
        };
        let world = &self.world;
        let made =
            plan(&world.site(&comm), call, buffers.clone()).unwrap_or_else(|e| self.fail(&e.to_string()));
        let started = match how {
            CallMode::Blocking => world.run_collective(&comm, made).map(|()| None),
            CallMode::Nonblocking(req) => world
                .start_collective(&comm, made)
                .map(|handle| Some((req, handle, false))),
            CallMode::Init(req) => {
                let persistent = self.persistent(&comm, call.clone(), buffers);
                persistent.map(|handle| Some((req, handle, true)))
            }
        };
        match started {
            Ok(Some((req, handle, init))) => self.new_req(req, handle, None, init, false),
            Ok(None) => {}
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn persistent(&self, comm: &Rc<Comm>, call: Call, buffers: Buffers) -> Result<usize> {
        // The shape of a communicator does not change: what plans are built from is kept beside it.
        let rank: *const Self = self;
        let of = Rc::clone(comm);
        let again = move || {
            // SAFETY: the rank lives until all of its requests are over; it does not move, being in an `Rc`.
            let world = unsafe { &(*rank).world };
            plan(&world.site(&of), &call, buffers.clone())
        };
        self.world.persistent_collective(comm, Box::new(again))
    }

    pub fn make(&self, making: &Making) {
        if let Err(error) = self.try_make(making) {
            self.fail(&error.to_string());
        }
    }

    fn try_make(&self, making: &Making) -> Result<()> {
        let world = &self.world;
        let of = |comm: &usize| self.comm(*comm);
        let (made, new) = match making {
            Making::Dup { of: old, new } => (Some(world.comm_dup(&of(old), None)?), Some(*new)),
            Making::Idup { of: old, new, req } => {
                let (handle, request) = world.comm_idup(&of(old), None)?;
                self.new_req(*req, request, None, false, false);
                (world.comm(handle), Some(*new))
            }
            Making::Split {
                of: old,
                color,
                key,
                new,
            } => {
                const UNDEFINED: i32 = farpost_mpi::group::UNDEFINED;
                (
                    world.comm_split(&of(old), color.unwrap_or(UNDEFINED), *key)?,
                    *new,
                )
            }
            Making::Create {
                of: old,
                ranks,
                tag,
                new,
            } => {
                let old = of(old);
                let ranks: Vec<i32> = ranks.iter().map(|r| *r as i32).collect();
                let group = old.local.incl(&ranks)?;
                let made = match tag {
                    Some(tag) => world.comm_create_group(&old, &group, *tag)?,
                    None => world.comm_create(&old, &group)?,
                };
                (made, *new)
            }
            Making::Cart {
                of: old,
                dims,
                periods,
                new,
            } => (world.cart_create(&of(old), dims, periods)?, *new),
            Making::CartSub { of: old, remain, new } => (Some(world.cart_sub(&of(old), remain)?), Some(*new)),
            Making::OldGraph {
                of: old,
                index,
                edges,
                new,
            } => (world.graph_create(&of(old), index, edges)?, *new),
            Making::Graph {
                of: old,
                sources,
                destinations,
                new,
            } => {
                let old = of(old);
                let graph = DistGraph::adjacent(old.size(), sources, None, destinations, None);
                (Some(world.dist_graph_create_adjacent(&old, graph)?), Some(*new))
            }
            Making::Inter {
                local,
                leader,
                peer,
                remote_leader,
                tag,
                new,
            } => {
                let (local, peer) = (of(local), of(peer));
                let made = world.intercomm_create(
                    &local,
                    *leader as i32,
                    Some(&peer),
                    *remote_leader as i32,
                    *tag,
                )?;
                (Some(made), Some(*new))
            }
            Making::Merge { of: old, high, new } => {
                (Some(world.intercomm_merge(&of(old), *high)?), Some(*new))
            }
        };
        match (made, new) {
            (Some(made), Some(new)) => self.set_comm(new, &made),
            (None, None) => {}
            _ => self.fail("a communicator where none should be, or none where one should"),
        }
        Ok(())
    }
}
