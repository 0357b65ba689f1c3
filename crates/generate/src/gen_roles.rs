//! What each rank of a collective passes to it, has in its buffers before, and must have after.

use crate::comms::Comm;
use crate::events::Gen;
use crate::program::{Arg, Call, Coll, Data, PROC_NULL, Part, ROOT, Values};
use crate::types::Unit;
use crate::values::Numbers;
use strum::VariantArray;

/// What stands in a buffer; identifiers count from that of the round.
#[derive(Clone)]
pub(crate) enum Content {
    Part(Part),
    Numbers(Values),
}

pub(crate) struct Buffer {
    pub buf: usize,
    pub len: u64,
    /// What it holds before.
    pub filled: Vec<Content>,
    /// What it holds after, in its first `look` bytes.
    pub expected: Option<(u64, Vec<Content>)>,
}

/// One rank's part of a collective.
pub(crate) struct Role {
    pub rank: usize,
    pub buffers: Vec<Buffer>,
    pub call: Call,
}

/// Those of [`Coll`] that inter-communicators have too, that have no neighbours, and that have.
const INTER: std::ops::Range<usize> = 0..15;
const INTRA: std::ops::Range<usize> = 0..17;
const AROUND: std::ops::Range<usize> = 17..22;

/// The number of what `from` has for `to`, of one side.
fn id_of(side: usize, from: usize, to: usize) -> u32 {
    (side * 4096 + from * 64 + to + 1) as u32
}

/// Identifiers that one round takes.
pub(crate) const IDS: u32 = 8192;

/// The number of a contribution to a reduction.
fn who_of(side: usize, rank: usize) -> usize {
    side * 32 + rank
}

/// A buffer for one block for each of some.
struct Blocks {
    arg: Arg,
    places: Vec<(u64, usize, u64)>,
    len: u64,
    buf: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Even,
    V,
    W,
}

impl Blocks {
    fn contents(&self, ids: &[Option<u32>]) -> Vec<Content> {
        let parts = self.places.iter().zip(ids);
        parts
            .filter_map(|(&(at, ty, count), id)| id.map(|id| Content::Part(Part { at, ty, count, id })))
            .collect()
    }
}

struct Making<'a> {
    g: &'a mut Gen,
    comm: usize,
    unit: Unit,
    /// Counts are multiples of it.
    step: u64,
}

impl Making<'_> {
    /// Blocks of `units` each.
    fn blocks(&mut self, shape: Shape, units: &[u64]) -> Blocks {
        let g = &mut *self.g;
        let buf = g.new_buf();
        let mut order: Vec<usize> = (0..units.len()).collect();
        if shape != Shape::Even && g.rng.bool() {
            g.rng.shuffle(&mut order);
        }
        let (mut places, mut len) = (vec![(0, 0, 0); units.len()], 0);
        let arg = match shape {
            Shape::Even => {
                let each = units.first().copied().unwrap_or(0);
                let (ty, count) = g.plan.types.pick(self.unit, each, &mut g.rng);
                let laid = g.plan.types.get(ty);
                for (i, place) in places.iter_mut().enumerate() {
                    *place = (i as u64 * count * laid.extent(), ty, count);
                    len = len.max(place.0 + laid.span(count));
                }
                Arg::One(Data {
                    buf,
                    ty,
                    count,
                    brief: g.chance(12),
                })
            }
            Shape::V => {
                let ty = loop {
                    let (ty, count) = g.plan.types.pick(self.unit, self.step, &mut g.rng);
                    if count == 1 {
                        break ty;
                    }
                };
                let laid = g.plan.types.get(ty);
                let (mut counts, mut displs, mut at) = (vec![0; units.len()], vec![0; units.len()], 0);
                for i in order {
                    at += g.rng.u64(0..3);
                    counts[i] = units[i] / self.step;
                    displs[i] = at;
                    places[i] = (at * laid.extent(), ty, counts[i]);
                    at += counts[i];
                    len = len.max(places[i].0 + laid.span(counts[i]));
                }
                Arg::V {
                    buf,
                    ty,
                    counts,
                    displs,
                }
            }
            Shape::W => {
                let (mut counts, mut displs, mut types) =
                    (vec![0; units.len()], vec![0; units.len()], vec![0; units.len()]);
                for i in order {
                    let at = len + g.rng.u64(0..3) * 8;
                    let (ty, count) = g.plan.types.pick(self.unit, units[i], &mut g.rng);
                    (counts[i], displs[i], types[i]) = (count, at, ty);
                    places[i] = (at, ty, count);
                    len = (at + g.plan.types.get(ty).span(count)).div_ceil(8) * 8;
                }
                Arg::W {
                    buf,
                    counts,
                    displs,
                    types,
                }
            }
        };
        Blocks {
            arg,
            places,
            len,
            buf,
        }
    }

    /// One block as it stands in a buffer of its own.
    fn one(&mut self, units: u64) -> Blocks {
        self.blocks(Shape::Even, &[units])
    }

    fn call(&self, coll: Coll) -> Call {
        Call {
            coll,
            comm: self.comm,
            root: 0,
            send: Arg::None,
            recv: Arg::None,
            op: None,
            shares: Vec::new(),
        }
    }
}

/// The same buffer before with some ids, after with others.
fn in_place(blocks: &Blocks, before: &[Option<u32>], after: &[Option<u32>]) -> Buffer {
    Buffer {
        buf: blocks.buf,
        len: blocks.len,
        filled: blocks.contents(before),
        expected: Some((blocks.len, blocks.contents(after))),
    }
}

/// What is sent stays as it is.
fn input(blocks: &Blocks, ids: &[Option<u32>]) -> Buffer {
    in_place(blocks, ids, ids)
}

fn output(blocks: &Blocks, ids: &[Option<u32>]) -> Buffer {
    in_place(blocks, &[], ids)
}

/// Everybody's part of a collective on `comm`.
pub(crate) fn roles(g: &mut Gen, comm: usize) -> (Coll, Vec<Role>) {
    let inter = g.comms[comm].is_inter();
    let which = match (&g.comms[comm].topo, inter) {
        (Some(_), _) if g.rng.bool() => AROUND,
        (_, true) => INTER,
        _ => INTRA,
    };
    let coll = Coll::VARIANTS[which.start + g.rng.usize(0..which.len())];
    let unit = g.unit();
    let step = g.rng.u64(1..4);
    let members = g.comms[comm].members();
    let mut making = Making { g, comm, unit, step };
    let roles = match coll {
        Coll::Barrier => {
            let role = |&(_, _, rank): &_| Role {
                rank,
                buffers: Vec::new(),
                call: making.call(coll),
            };
            members.iter().map(role).collect()
        }
        Coll::Bcast | Coll::Gather | Coll::Gatherv | Coll::Scatter | Coll::Scatterv => {
            rooted(&mut making, coll)
        }
        Coll::Reduce
        | Coll::Allreduce
        | Coll::ReduceScatter
        | Coll::ReduceScatterBlock
        | Coll::Scan
        | Coll::Exscan => reductions(&mut making, coll),
        Coll::Allgather | Coll::Allgatherv | Coll::Alltoall | Coll::Alltoallv | Coll::Alltoallw => {
            everybody(&mut making, coll)
        }
        _ => around(&mut making, coll),
    };
    (coll, roles)
}

fn units(making: &mut Making<'_>, copies: usize, even: bool) -> u64 {
    let bytes = making.g.size(copies as u64);
    let units = bytes / making.unit.bytes();
    if even {
        units
    } else {
        units.div_ceil(making.step) * making.step
    }
}

/// The argument `root` at a rank on the root's side, or on the other, that is the root or not.
fn root_of(comm: &Comm, on_its_side: bool, is_root: bool, root: usize) -> i32 {
    match (comm.is_inter() && on_its_side, is_root) {
        (true, true) => ROOT,
        (true, false) => PROC_NULL,
        _ => root as i32,
    }
}

fn rooted(making: &mut Making<'_>, coll: Coll) -> Vec<Role> {
    let comm = making.g.comms[making.comm].clone();
    let root_side = making.g.rng.usize(0..comm.groups.len());
    let root = making.g.rng.usize(0..comm.groups[root_side].len());
    // Those on the other end.
    let far = comm.other(root_side);
    let far_size = comm.groups[far].len();
    let shape = if matches!(coll, Coll::Gatherv | Coll::Scatterv) {
        Shape::V
    } else {
        Shape::Even
    };
    let most = units(making, 2 * far_size, shape == Shape::Even);
    let each: Vec<u64> = (0..far_size)
        .map(|_| match shape {
            Shape::Even => most,
            _ => making.g.rng.u64(0..=most / making.step) * making.step,
        })
        .collect();
    let step = making.step;
    let mut all = Vec::new();
    for (side, me, rank) in comm.members() {
        let is_root = side == root_side && me == root;
        let mut call = making.call(coll);
        call.root = root_of(&comm, side == root_side, is_root, root);
        let mut buffers = Vec::new();
        let takes_part = side == far;
        let ids: Vec<Option<u32>> = (0..far_size).map(|i| Some(id_of(far, i, 0))).collect();
        match coll {
            Coll::Bcast => {
                if is_root || takes_part {
                    let blocks = making.one(most);
                    let id = [Some(id_of(0, 0, 0))];
                    buffers.push(if is_root {
                        input(&blocks, &id)
                    } else {
                        output(&blocks, &id)
                    });
                    call.send = blocks.arg;
                }
            }
            _ => {
                let gathers = matches!(coll, Coll::Gather | Coll::Gatherv);
                let alone = is_root && !comm.is_inter() && making.g.chance(30);
                let (mut whole, mut part) = (Arg::None, Arg::None);
                if is_root {
                    let blocks = making.blocks(shape, &each);
                    let own = |i: usize| ids[i].filter(|_| alone && i == me);
                    let before: Vec<Option<u32>> = (0..far_size).map(own).collect();
                    buffers.push(match gathers {
                        true => in_place(&blocks, &before, &ids),
                        false => input(&blocks, &ids),
                    });
                    whole = blocks.arg;
                }
                if takes_part && alone {
                    part = Arg::InPlace;
                } else if takes_part {
                    let blocks = making.one(each[me]);
                    buffers.push(match gathers {
                        true => input(&blocks, &[ids[me]]),
                        false => output(&blocks, &[ids[me]]),
                    });
                    part = blocks.arg;
                }
                (call.send, call.recv) = if gathers { (part, whole) } else { (whole, part) };
            }
        }
        all.push(Role { rank, buffers, call });
    }
    making.step = step;
    all
}

fn everybody(making: &mut Making<'_>, coll: Coll) -> Vec<Role> {
    let comm = making.g.comms[making.comm].clone();
    let to_all = matches!(coll, Coll::Alltoall | Coll::Alltoallv | Coll::Alltoallw);
    let shape = match coll {
        Coll::Allgather | Coll::Alltoall => Shape::Even,
        Coll::Alltoallw => Shape::W,
        _ => Shape::V,
    };
    let sizes: Vec<usize> = comm.groups.iter().map(Vec::len).collect();
    let total: usize = comm.members().len();
    let most = units(making, 2 * total * total, shape == Shape::Even);
    let step = making.step;
    let in_places = !comm.is_inter() && making.g.chance(25);
    // Of rank i of a side for rank j of the other; from a rank to all alike for allgather.
    let mut table: Vec<Vec<Vec<u64>>> = Vec::new();
    for side in 0..comm.groups.len() {
        let far = sizes[comm.other(side)];
        let mut rows: Vec<Vec<u64>> = Vec::new();
        for i in 0..sizes[side] {
            let drawn = |making: &mut Making<'_>| making.g.rng.u64(0..=most / step) * step;
            let alike = drawn(making);
            let mut row = vec![alike; far];
            if shape == Shape::Even {
                row.fill(most);
            } else if to_all {
                row.fill_with(|| drawn(making));
                if in_places {
                    // What goes out and what comes in have one buffer.
                    let before = rows.iter().map(|other| other[i]);
                    row.iter_mut()
                        .zip(before)
                        .for_each(|(units, theirs)| *units = theirs);
                }
            }
            rows.push(row);
        }
        table.push(rows);
    }
    let mut all = Vec::new();
    for (side, me, rank) in comm.members() {
        let far = comm.other(side);
        let mut call = making.call(coll);
        let mut buffers = Vec::new();
        let coming: Vec<u64> = (0..sizes[far]).map(|j| table[far][j][me]).collect();
        let ids: Vec<Option<u32>> = (0..sizes[far])
            .map(|j| Some(id_of(far, j, if to_all { me } else { 0 })))
            .collect();
        let blocks = making.blocks(shape, &coming);
        if in_places {
            let before: Vec<Option<u32>> = (0..sizes[far])
                .map(|j| match to_all {
                    true => Some(id_of(side, me, j)),
                    false => ids[j].filter(|_| j == me),
                })
                .collect();
            buffers.push(in_place(&blocks, &before, &ids));
            call.send = Arg::InPlace;
        } else {
            buffers.push(output(&blocks, &ids));
            let going = if to_all {
                let going = making.blocks(shape, &table[side][me]);
                let ids: Vec<Option<u32>> = (0..sizes[far]).map(|j| Some(id_of(side, me, j))).collect();
                buffers.push(input(&going, &ids));
                going
            } else {
                let going = making.one(table[side][me].first().copied().unwrap_or(0));
                buffers.push(input(&going, &[Some(id_of(side, me, 0))]));
                going
            };
            call.send = going.arg;
        }
        call.recv = blocks.arg;
        all.push(Role { rank, buffers, call });
    }
    all
}

fn around(making: &mut Making<'_>, coll: Coll) -> Vec<Role> {
    let comm = making.g.comms[making.comm].clone();
    let Some(topo) = comm.topo.clone() else {
        return Vec::new();
    };
    let to_all = !matches!(coll, Coll::NeighborAllgather | Coll::NeighborAllgatherv);
    let shape = match coll {
        Coll::NeighborAllgather | Coll::NeighborAlltoall => Shape::Even,
        Coll::NeighborAlltoallw => Shape::W,
        _ => Shape::V,
    };
    let size = comm.groups[0].len();
    let most = units(making, 4 * size, shape == Shape::Even);
    let step = making.step;
    let table: Vec<Vec<u64>> = (0..size)
        .map(|_| {
            let mut units = |_| match shape {
                Shape::Even => most,
                _ => making.g.rng.u64(0..=most / step) * step,
            };
            let row: Vec<u64> = (0..size).map(&mut units).collect();
            if to_all { row } else { vec![row[0]; size] }
        })
        .collect();
    let mut all = Vec::new();
    for (_, me, rank) in comm.members() {
        let mut call = making.call(coll);
        // With nobody there the count is anything.
        let length = |from: i32, to: i32| match from.min(to) {
            ..0 => most / step * step,
            _ => table[from as usize][to as usize],
        };
        let own = me as i32;
        let coming: Vec<u64> = topo.sources[me].iter().map(|s| length(*s, own)).collect();
        let even = |list: Vec<u64>| match shape {
            Shape::Even => vec![most; list.len()],
            _ => list,
        };
        let ids: Vec<Option<u32>> = topo.sources[me]
            .iter()
            .map(|s| (*s >= 0).then(|| id_of(0, *s as usize, if to_all { me } else { 0 })))
            .collect();
        let blocks = making.blocks(shape, &even(coming));
        let mut buffers = vec![output(&blocks, &ids)];
        call.recv = blocks.arg;
        let going = if to_all {
            let list: Vec<u64> = topo.destinations[me].iter().map(|d| length(own, *d)).collect();
            let going = making.blocks(shape, &even(list));
            let ids: Vec<Option<u32>> = topo.destinations[me]
                .iter()
                .map(|d| Some(id_of(0, me, (*d).max(0) as usize)))
                .collect();
            buffers.push(input(&going, &ids));
            going
        } else {
            let going = making.one(table[me][0]);
            buffers.push(input(&going, &[Some(id_of(0, me, 0))]));
            going
        };
        call.send = going.arg;
        all.push(Role { rank, buffers, call });
    }
    all
}

fn reductions(making: &mut Making<'_>, coll: Coll) -> Vec<Role> {
    let comm = making.g.comms[making.comm].clone();
    let numbers = Numbers::VARIANTS[making.g.rng.usize(0..Numbers::VARIANTS.len())];
    let total = comm.members().len();
    let n = making.g.size(2 * total as u64) / numbers.size();
    let rooted = coll == Coll::Reduce;
    let root_side = making.g.rng.usize(0..comm.groups.len());
    let root = making.g.rng.usize(0..comm.groups[root_side].len());
    // What each rank of each side gets. Both sides' shares are of vectors of one length, each being reduced over the other side.
    let shares: Vec<Vec<u64>> = match coll {
        Coll::ReduceScatterBlock => {
            let sizes: Vec<u64> = comm.groups.iter().map(|group| group.len() as u64).collect();
            let all: u64 = sizes.iter().product();
            sizes
                .iter()
                .map(|size| vec![n / all * all / size; *size as usize])
                .collect()
        }
        Coll::ReduceScatter => {
            let size = comm.groups[0].len();
            let first: Vec<u64> = (0..size)
                .map(|_| making.g.rng.u64(0..=2 * n / size as u64))
                .collect();
            let whole: u64 = first.iter().sum();
            let mut all = vec![first];
            if let Some(group) = comm.groups.get(1) {
                let mut cuts: Vec<u64> = (1..group.len()).map(|_| making.g.rng.u64(0..=whole)).collect();
                cuts.sort_unstable();
                cuts.push(whole);
                let mut from = 0;
                let share = |to| to - std::mem::replace(&mut from, to);
                all.push(cuts.into_iter().map(share).collect());
            }
            all
        }
        _ => Vec::new(),
    };
    let whole = shares.first().map_or(n, |shares| shares.iter().sum());
    // In place is everybody's choice of its own, but for the collectives that say "all".
    let all_in_place = !comm.is_inter() && making.g.chance(30);
    let mut all = Vec::new();
    for (side, me, rank) in comm.members() {
        let far = comm.other(side);
        let is_root = side == root_side && me == root;
        let mut call = making.call(coll);
        call.op = Some(numbers);
        call.root = root_of(&comm, side == root_side, is_root, root);
        let sends = !rooted || side == comm.other(root_side);
        let receives = !rooted || is_root;
        let who: Vec<usize> = match coll {
            Coll::Scan => (0..=me).map(|i| who_of(0, i)).collect(),
            Coll::Exscan => (0..me).map(|i| who_of(0, i)).collect(),
            _ => (0..comm.groups[far].len()).map(|i| who_of(far, i)).collect(),
        };
        let (first, count) = match shares.get(side) {
            None => (0, n),
            Some(shares) => (shares[..me].iter().sum(), shares[me]),
        };
        let in_place = receives && all_in_place;
        let content = |first: u64, n: u64, who: Vec<usize>| {
            let at = 0;
            vec![Content::Numbers(Values {
                at,
                numbers,
                first,
                n,
                who,
            })]
        };
        let mine = || content(0, whole, vec![who_of(side, me)]);
        let mut buffers = Vec::new();
        let mut buffer = |making: &mut Making<'_>, n: u64, filled: Vec<Content>, expected| {
            let buf = making.g.new_buf();
            buffers.push(Buffer {
                buf,
                len: n * numbers.size(),
                filled,
                expected,
            });
            Arg::One(Data {
                buf,
                ty: 0,
                count: n,
                brief: false,
            })
        };
        if receives {
            let look = count * numbers.size();
            let expected = (!who.is_empty()).then(|| (look, content(first, count, who)));
            let (room, filled) = match in_place {
                true => (whole, mine()),
                false => (count, Vec::new()),
            };
            call.recv = buffer(making, room, filled, expected);
        }
        if in_place {
            call.send = Arg::InPlace;
        } else if sends {
            let stays = Some((whole * numbers.size(), mine()));
            call.send = buffer(making, whole, mine(), stays);
        }
        // How many elements stands in the call of one without a buffer, too.
        call.shares = shares.get(side).cloned().unwrap_or_else(|| vec![n]);
        all.push(Role { rank, buffers, call });
    }
    all
}
