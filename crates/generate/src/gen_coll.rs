//! Collectives, blocking, nonblocking and persistent.

use crate::events::Gen;
use crate::gen_roles::{Content, IDS, Role, roles};
use crate::program::{Actor, CallMode, Instr};

fn fill(g: &mut Gen, base: u32, actor: Actor, role: &Role, id: u32, fresh: bool) {
    for buffer in &role.buffers {
        let (buf, len) = (buffer.buf, buffer.len);
        let empty = match fresh {
            true => Instr::Room { buf, len },
            false => Instr::Clear { buf, len },
        };
        g.at(base, actor, empty);
        for content in &buffer.filled {
            let instr = match content.clone() {
                Content::Part(part) => {
                    let part = part.from(id);
                    Instr::Place { buf, part }
                }
                Content::Numbers(values) => Instr::PutNumbers { buf, values, id },
            };
            g.at(base, actor, instr);
        }
    }
}

fn verify(g: &mut Gen, base: u32, actor: Actor, role: &Role, id: u32, name: &str) {
    for buffer in &role.buffers {
        let Some((len, expected)) = buffer.expected.clone() else {
            continue;
        };
        let (buf, name) = (buffer.buf, format!("{name} at rank {} of the job", actor.rank));
        let mut parts = Vec::new();
        let mut numbers = None;
        for content in expected {
            match content {
                Content::Part(part) => parts.push(part.from(id)),
                Content::Numbers(values) => numbers = Some(values),
            }
        }
        let instr = match numbers {
            Some(values) => Instr::ExpectNumbers {
                buf,
                len,
                values,
                id,
                name,
            },
            None => Instr::expect(buf, len, parts, name),
        };
        g.check(base, actor, instr);
    }
}

/// A blocking or nonblocking collective.
pub fn one(g: &mut Gen, base: u32) {
    let Some(comm) = g.pick_comm(base, |_| true) else {
        return;
    };
    let (coll, roles) = roles(g, comm);
    let id = g.next_id;
    g.next_id += IDS;
    let blocking = g.rng.bool();
    let name = format!("{coll:?} {} on c[{comm}]", g.plan.events.len());
    let mut last = base;
    for role in roles {
        let actor = g.owner(comm, role.rank);
        fill(g, base, actor, &role, id, true);
        let mut done = base;
        if blocking {
            g.at(base, actor, Instr::coll(&role.call, CallMode::Blocking));
        } else {
            let req = g.new_req();
            g.at(base, actor, Instr::coll(&role.call, CallMode::Nonblocking(req)));
            done = base + g.rng.u32(0..8);
            g.complete(done, actor, req);
        }
        verify(g, done, actor, &role, id, &name);
        last = last.max(done);
    }
    g.uses(comm, last);
    g.end_event(name);
}

/// Some persistent collectives on one communicator, started in rounds, by each rank in an order of its own.
pub fn persistent(g: &mut Gen, base: u32) {
    let Some(comm) = g.pick_comm(base, |_| true) else {
        return;
    };
    let many = g.rng.usize(1..4);
    let rounds = g.rng.u32(1..4);
    let all: Vec<Vec<Role>> = (0..many).map(|_| roles(g, comm).1).collect();
    let mut reqs = vec![Vec::new(); many];
    for (roles, reqs) in all.iter().zip(&mut reqs) {
        for role in roles {
            let actor = g.owner(comm, role.rank);
            for buffer in &role.buffers {
                let (buf, len) = (buffer.buf, buffer.len);
                g.at(base, actor, Instr::Room { buf, len });
            }
            let req = g.new_req();
            reqs.push(req);
            g.at(base, actor, Instr::coll(&role.call, CallMode::Init(req)));
        }
    }
    let name = format!("persistent {} on c[{comm}]", g.plan.events.len());
    let mut at = base;
    for _ in 0..rounds {
        let ids: Vec<u32> = (0..many).map(|i| g.next_id + i as u32 * IDS).collect();
        g.next_id += many as u32 * IDS;
        let mut last = at;
        for member in 0..all[0].len() {
            let actor = g.owner(comm, all[0][member].rank);
            for (roles, id) in all.iter().zip(&ids) {
                fill(g, at, actor, &roles[member], *id, false);
            }
            let mut order: Vec<usize> = (0..many).collect();
            if !g.limits.for_others {
                g.rng.shuffle(&mut order);
            }
            let order: Vec<usize> = order.iter().map(|i| reqs[*i][member]).collect();
            if g.rng.bool() {
                g.at(at, actor, Instr::Start(order));
            } else {
                order
                    .iter()
                    .for_each(|req| g.at(at, actor, Instr::Start(vec![*req])));
            }
            for (i, roles) in all.iter().enumerate() {
                let done = at + g.rng.u32(0..4);
                g.complete(done, actor, reqs[i][member]);
                verify(g, done, actor, &roles[member], ids[i], &name);
                last = last.max(done);
            }
        }
        at = last + 1;
    }
    for (i, roles) in all.iter().enumerate() {
        for (member, role) in roles.iter().enumerate() {
            let actor = g.owner(comm, role.rank);
            g.at(at, actor, Instr::Release(reqs[i][member]));
        }
    }
    g.uses(comm, at);
    g.end_event(name);
}
