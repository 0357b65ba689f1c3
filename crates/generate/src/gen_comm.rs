//! Communicators made and freed.

use crate::comms::{Comm, Topo, grid, sub_grids};
use crate::events::{END, Gen, Item};
use crate::program::{Actor, CallMode, Instr, Making};
use std::collections::HashMap;

/// Communicator 0: a duplicate of `MPI_COMM_WORLD`, which the program has from the start.
pub fn world(g: &mut Gen) {
    let all: Vec<usize> = (0..g.limits.ranks).collect();
    add(g, vec![all], 0, None);
    g.comms[0].wild = None;
}

/// `rank`'s part in making a communicator.
fn make_at(g: &mut Gen, base: u32, rank: usize, making: Making) {
    g.at(base, Actor { rank, thread: 0 }, Instr::Make(Box::new(making)));
}

fn add(g: &mut Gen, groups: Vec<Vec<usize>>, from: u32, topo: Option<Topo>) -> usize {
    let mut owner = HashMap::new();
    for rank in groups.iter().flatten() {
        let thread = g.rng.usize(0..g.plan.threads);
        owner.insert(*rank, thread);
    }
    let wild = if g.chance(35) { Some(Vec::new()) } else { None };
    let id = g.comms.len();
    g.comms.push(Comm {
        id,
        groups,
        owner,
        from,
        last: from,
        wild,
        next_tag: 0,
        topo,
    });
    if !g.event.makes.contains(&id) && id > 0 {
        g.event.makes.push(id);
    }
    id
}

/// Make one at `base`: 0 is before threads begin.
pub fn make(g: &mut Gen, base: u32) {
    if g.comms.len() > 12 {
        return;
    }
    // Calls on inter-communicators are few.
    let Some(of) = g.pick_comm(base, |c| !c.is_inter()) else {
        return;
    };
    let first = |rank: usize| Actor { rank, thread: 0 };
    let group = g.comms[of].groups[0].clone();
    let size = group.len();
    let from = base + 1;
    g.uses(of, base);
    let grid_of = g.comms[of].topo.as_ref().and_then(|topo| topo.grid.clone());
    let name = match g.rng.u32(0..22) {
        _ if grid_of.is_some() && g.chance(50) => {
            let (dims, periods) = grid_of.unwrap_or_default();
            cart_sub(g, base, of, &dims, &periods);
            "part of a grid"
        }
        0..3 => {
            let new = add(g, vec![group.clone()], from, g.comms[of].topo.clone());
            for rank in group {
                make_at(g, base, rank, Making::Dup { of, new });
            }
            "dup"
        }
        3 if base > 0 => {
            let until = base + g.rng.u32(0..4);
            let new = add(g, vec![group.clone()], until + 1, g.comms[of].topo.clone());
            for rank in group {
                let req = g.new_req();
                make_at(g, base, rank, Making::Idup { of, new, req });
                let done = base + g.rng.u32(0..=until - base);
                g.complete(done, first(rank), req);
            }
            "idup"
        }
        3..9 => {
            let parts = g.rng.i32(1..=3);
            split(g, base, of, parts);
            "split"
        }
        9..12 => {
            let mut ranks: Vec<usize> = (0..size).collect();
            g.rng.shuffle(&mut ranks);
            ranks.truncate(g.rng.usize(1..=size));
            let members: Vec<usize> = ranks.iter().map(|r| group[*r]).collect();
            let tag = g.rng.bool().then(|| g.comms[of].tag());
            let new = add(g, vec![members.clone()], from, None);
            for rank in group {
                let inside = members.contains(&rank);
                if inside || tag.is_none() {
                    let new = inside.then_some(new);
                    let ranks = ranks.clone();
                    make_at(g, base, rank, Making::Create { of, ranks, tag, new });
                }
            }
            "create"
        }
        12..14 => {
            // Dimensions of one or two that close in a circle have the same neighbour twice.
            let a = if size >= 4 && g.rng.bool() { 2 } else { 1 };
            let b = size as i32 / a;
            let dims = if g.rng.bool() { vec![a, b] } else { vec![b] };
            let periods: Vec<bool> = dims.iter().map(|dim| *dim > 2 && g.rng.bool()).collect();
            let inside = dims.iter().product::<i32>() as usize;
            let topo = Some(grid(&dims, &periods));
            let new = add(g, vec![group[..inside].to_vec()], from, topo);
            for (at, rank) in group.into_iter().enumerate() {
                let new = (at < inside).then_some(new);
                let (dims, periods) = (dims.clone(), periods.clone());
                make_at(
                    g,
                    base,
                    rank,
                    Making::Cart {
                        of,
                        dims,
                        periods,
                        new,
                    },
                );
            }
            "cart"
        }
        14..16 => {
            let mut topo = Topo {
                sources: vec![Vec::new(); size],
                destinations: vec![Vec::new(); size],
                grid: None,
            };
            let mut edges: Vec<(usize, usize)> =
                (0..size).flat_map(|a| (0..size).map(move |b| (a, b))).collect();
            g.rng.shuffle(&mut edges);
            edges.truncate(g.rng.usize(0..=edges.len().min(3 * size)));
            for (a, b) in edges {
                topo.destinations[a].push(b as i32);
                topo.sources[b].push(a as i32);
            }
            topo.destinations.iter_mut().for_each(|list| g.rng.shuffle(list));
            topo.sources.iter_mut().for_each(|list| g.rng.shuffle(list));
            let new = add(g, vec![group.clone()], from, Some(topo.clone()));
            for (at, rank) in group.into_iter().enumerate() {
                let (sources, destinations) = (topo.sources[at].clone(), topo.destinations[at].clone());
                let making = Making::Graph {
                    of,
                    sources,
                    destinations,
                    new,
                };
                make_at(g, base, rank, making);
            }
            "graph"
        }
        16..18 => {
            old_graph(g, base, of);
            "graph of all"
        }
        _ if size >= 2 && g.comms[of].wild.is_none() => {
            let sides = split(g, base, of, 2);
            if sides.len() == 2 && g.comms[sides[0]].from == g.comms[sides[1]].from {
                inter(g, base, of, &sides);
            }
            "intercommunicator"
        }
        _ => {
            split(g, base, of, 2);
            "split"
        }
    };
    g.end_event(format!("{name} of c[{of}]"));
}

/// The parts of a grid with some of its dimensions, maybe with none.
fn cart_sub(g: &mut Gen, base: u32, of: usize, dims: &[i32], periods: &[bool]) {
    let group = g.comms[of].groups[0].clone();
    let remain: Vec<bool> = dims.iter().map(|_| g.chance(60)).collect();
    let kept = |i: &usize| remain[*i];
    let sub_dims: Vec<i32> = (0..dims.len()).filter(kept).map(|i| dims[i]).collect();
    let sub_periods: Vec<bool> = (0..dims.len()).filter(kept).map(|i| periods[i]).collect();
    for part in sub_grids(dims, &remain) {
        let members: Vec<usize> = part.iter().map(|rank| group[*rank as usize]).collect();
        let topo = Some(grid(&sub_dims, &sub_periods));
        let new = add(g, vec![members.clone()], base + 1, topo);
        for rank in members {
            let remain = remain.clone();
            let making = Making::CartSub { of, remain, new };
            make_at(g, base, rank, making);
        }
    }
}

/// A graph that all ranks know, with an edge back for each edge, as neighbourhood collectives want it; some ranks may be left out.
fn old_graph(g: &mut Gen, base: u32, of: usize) {
    let group = g.comms[of].groups[0].clone();
    let nodes = if g.chance(30) {
        g.rng.usize(1..=group.len())
    } else {
        group.len()
    };
    let mut around = vec![Vec::new(); nodes];
    let mut edges: Vec<(usize, usize)> = (0..nodes).flat_map(|a| (0..=a).map(move |b| (a, b))).collect();
    g.rng.shuffle(&mut edges);
    edges.truncate(g.rng.usize(0..=edges.len().min(2 * nodes)));
    for (a, b) in edges {
        around[a].push(b as i32);
        if a != b {
            around[b].push(a as i32);
        }
    }
    around.iter_mut().for_each(|list| g.rng.shuffle(list));
    let mut end = 0;
    let ends = around.iter().map(|list| {
        end += list.len() as i32;
        end
    });
    let index: Vec<i32> = ends.collect();
    let edges = around.concat();
    let topo = Topo {
        sources: around.clone(),
        destinations: around,
        grid: None,
    };
    let new = add(g, vec![group[..nodes].to_vec()], base + 1, Some(topo));
    for (at, rank) in group.into_iter().enumerate() {
        let making = Making::OldGraph {
            of,
            index: index.clone(),
            edges: edges.clone(),
            new: (at < nodes).then_some(new),
        };
        make_at(g, base, rank, making);
    }
}

/// Split `of` into at most `parts`; some ranks may be left out.
fn split(g: &mut Gen, base: u32, of: usize, parts: i32) -> Vec<usize> {
    let group = g.comms[of].groups[0].clone();
    let some_out = g.chance(25);
    let picked: Vec<(Option<i32>, i32)> = group
        .iter()
        .map(|_| {
            let out = some_out && g.chance(30);
            ((!out).then(|| g.rng.i32(0..parts)), g.rng.i32(-2..3))
        })
        .collect();
    let mut news = Vec::new();
    let mut of_color = HashMap::new();
    for color in 0..parts {
        let mut members: Vec<(i32, usize)> = (0..group.len())
            .filter(|r| picked[*r].0 == Some(color))
            .map(|r| (picked[r].1, r))
            .collect();
        members.sort_unstable();
        if members.is_empty() {
            continue;
        }
        let members = members.into_iter().map(|(_, r)| group[r]).collect();
        let new = add(g, vec![members], base + 1, None);
        of_color.insert(color, new);
        news.push(new);
    }
    for (rank, (color, key)) in group.into_iter().zip(picked) {
        let new = color.map(|color| of_color[&color]);
        let making = Making::Split { of, color, key, new };
        make_at(g, base, rank, making);
    }
    news
}

/// An intercommunicator of two halves, at the same base behind them, and perhaps one communicator of both.
fn inter(g: &mut Gen, base: u32, of: usize, sides: &[usize]) {
    let groups: Vec<Vec<usize>> = sides
        .iter()
        .map(|side| g.comms[*side].groups[0].clone())
        .collect();
    let tag = g.comms[of].tag();
    let new = add(g, groups.clone(), base + 1, None);
    let leaders = [g.rng.usize(0..groups[0].len()), g.rng.usize(0..groups[1].len())];
    let rank_in = |g: &Gen, world: usize| {
        g.comms[of].groups[0]
            .iter()
            .position(|r| *r == world)
            .unwrap_or(0)
    };
    for (s, members) in groups.iter().enumerate() {
        for rank in members {
            let remote_leader = rank_in(g, groups[1 - s][leaders[1 - s]]);
            let making = Making::Inter {
                local: sides[s],
                leader: leaders[s],
                peer: of,
                remote_leader,
                tag,
                new,
            };
            make_at(g, base, *rank, making);
        }
    }
    if g.chance(40) {
        let high = g.rng.usize(0..2);
        let merged = [groups[1 - high].clone(), groups[high].clone()].concat();
        let one = add(g, vec![merged], base + 1, None);
        for (s, members) in groups.iter().enumerate() {
            for rank in members {
                let making = Making::Merge {
                    of: new,
                    high: s == high,
                    new: one,
                };
                make_at(g, base, *rank, making);
            }
        }
    }
}

/// The last place of a call that names a communicator, or that starts a request made on it; none where one is being duplicated
/// without waiting. What was started then may be under way still.
fn last_call(g: &Gen, comm: usize) -> Option<u32> {
    let mut last = g.comms[comm].from;
    let mut made: Vec<usize> = Vec::new();
    for (place, _, item) in g.plan.events.iter().flat_map(|event| &event.items) {
        let Item::Do(instr) = item else { continue };
        let names = match instr {
            Instr::StartSend { req, init: true, .. }
            | Instr::StartRecv { req, init: true, .. }
            | Instr::Coll {
                how: CallMode::Init(req),
                ..
            } => {
                let here = instr.comm() == Some(comm);
                if here {
                    made.push(*req);
                }
                here
            }
            Instr::Start(reqs) => reqs.iter().any(|req| made.contains(req)),
            Instr::Make(making) => {
                let of = making.of();
                if of.contains(&comm) && matches!(**making, Making::Idup { .. }) {
                    return None;
                }
                of.contains(&comm)
            }
            instr => instr.comm() == Some(comm),
        };
        if names {
            last = last.max(place.base);
        }
    }
    Some(last)
}

/// All are freed: some as soon as no call names them, while operations are under way, some when these are over, the rest in the end.
pub fn free_all(g: &mut Gen) {
    let mut ids: Vec<usize> = (1..g.comms.len()).collect();
    g.rng.shuffle(&mut ids);
    for comm in ids {
        let early = g.plan.threads == 1 && g.comms[comm].from > 0 && g.rng.bool();
        let over = g.comms[comm].last + 1;
        let base = match early {
            true if g.rng.bool() => last_call(g, comm).map_or(over, |last| last + 1),
            true => over,
            false => END,
        };
        let disconnect = !early && g.rng.bool();
        g.event.uses.push(comm);
        for (_, _, rank) in g.comms[comm].members() {
            let actor = Actor { rank, thread: 0 };
            g.at(base, actor, Instr::FreeComm { comm, disconnect });
        }
        g.end_event(format!("free of c[{comm}]"));
    }
}
