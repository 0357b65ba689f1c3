//! Messages that do not come in groups: floods, rings, persistent requests, cancels, nobody.

use crate::events::Gen;
use crate::gen_p2p::{Order, receive, route};
use crate::program::{
    ANY_SOURCE, ANY_TAG, Actor, Data, Got, Instr, Mode, Outgoing, PROC_NULL, Part, Sent, Swap, Wanted,
};
use crate::types::{TypeKind, Unit};

/// Many messages to one who receives late.
pub fn flood(g: &mut Gen, base: u32) {
    let Some(route) = route(g, base, false) else {
        return;
    };
    let senders = g.comms[route.comm].groups[route.from_side].clone();
    let many = [20, 40, 80, 150][g.rng.usize(0..4)];
    let mut sources: Vec<usize> = (0..senders.len()).collect();
    g.rng.shuffle(&mut sources);
    sources.truncate(g.rng.usize(1..=3));
    let tag = g.comms[route.comm].tag();
    let unit = Unit::Of(TypeKind::Byte);
    let size = [0, 8, 40, 41, 200, 265, 1000, 5000][g.rng.usize(0..8)];
    let by: Vec<Actor> = senders.iter().map(|rank| g.any_thread(*rank)).collect();
    let standard = Mode::Standard;
    let modes = [standard, standard, standard, Mode::Synchronous, Mode::Buffered];
    let mode = modes[g.rng.usize(0..5)];
    let any = g.rng.bool();
    // Something that comes later than the flood and is wanted before it.
    let behind = g.rng.bool().then(|| g.comms[route.comm].tag());
    let (sent_at, received_at) = (base, base + 1 + g.rng.u32(0..3));
    let last = received_at + g.rng.u32(0..3);
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    for number in 0..=many {
        let source = sources[g.rng.usize(0..sources.len())];
        let tag = match behind {
            Some(behind) if number == many => behind,
            _ => tag,
        };
        let id = g.new_id();
        let actor = by[source];
        let (data, _) = g.data(sent_at, actor, unit, size, Some(id));
        let req = g.new_req();
        let send = Outgoing::of(mode, data, route.dst as i32, tag, route.comm);
        g.at(sent_at, actor, Instr::isend(send, req));
        g.complete(last, actor, req);
        sent.push(Sent::of(source, tag, size, id));
    }
    let asks: Vec<(i32, i32)> = sent
        .iter()
        .map(|s| (if any { ANY_SOURCE } else { s.source }, s.tag))
        .collect();
    let mut order: Vec<usize> = (0..asks.len()).collect();
    if behind.is_some() {
        order.rotate_right(1);
    }
    for number in order {
        let (data, len) = g.data(received_at, route.to, unit, size, None);
        let (from, tag) = asks[number];
        let wanted = Wanted::of(data, from, tag, route.comm, g.new_slot());
        let when = (received_at, received_at);
        let done = receive(g, route.to, wanted, true, when, Order::SendsFirst);
        let may = (0..sent.len())
            .filter(|m| sent[*m].tag == tag && (any || sent[*m].source == from))
            .collect();
        debug_assert!(done <= received_at + 4);
        got.push(Got { wanted, len, may });
    }
    let name = format!("flood {}", g.plan.events.len());
    let last = received_at + 4;
    g.check(last, route.to, Instr::check_pool(name, sent, got));
    g.uses(route.comm, last);
    g.end_event(format!(
        "{many} messages to rank {} of c[{}], who is late",
        route.dst, route.comm
    ));
}

/// Each of some ranks sends to the next and receives from the one before in one call.
pub fn ring(g: &mut Gen, base: u32) {
    let Some(comm) = g.pick_comm(base, |c| {
        !c.is_inter() && c.groups[0].len() >= 2 && c.wild.is_none()
    }) else {
        return;
    };
    let group = g.comms[comm].groups[0].clone();
    let mut ranks: Vec<usize> = (0..group.len()).collect();
    g.rng.shuffle(&mut ranks);
    ranks.truncate(g.rng.usize(2..=group.len()));
    let closed = g.chance(70);
    let k = ranks.len();
    let tag = g.comms[comm].tag();
    let unit = g.unit();
    let swaps = [0, 1, 2][g.rng.usize(0..3)];
    let units = g.size(2 * k as u64) / unit.bytes();
    // In place, both messages have one datatype.
    let same = g.plan.types.pick(unit, units, &mut g.rng);
    let ids: Vec<u32> = ranks.iter().map(|_| g.new_id()).collect();
    let mut last = base;
    for i in 0..k {
        let actor = g.any_thread(group[ranks[i]]);
        let before = (i + k - 1) % k;
        let next_to = |there: bool, at: usize| {
            if there || closed {
                ranks[at] as i32
            } else {
                PROC_NULL
            }
        };
        let (to, from) = (next_to(i + 1 < k, (i + 1) % k), next_to(i > 0, before));
        let (data, wanted_data, len);
        if swaps == 1 {
            let (ty, count) = same;
            len = g.plan.types.get(ty).span(count);
            let buf = g.new_buf();
            g.at(base, actor, Instr::Room { buf, len });
            let id = ids[i];
            let part = Part { at: 0, ty, count, id };
            g.at(base, actor, Instr::Place { buf, part });
            let brief = g.chance(12);
            data = Data {
                buf,
                ty,
                count,
                brief,
            };
            wanted_data = data;
        } else {
            data = g.data(base, actor, unit, units, Some(ids[i])).0;
            (wanted_data, len) = g.data(base, actor, unit, units, None);
        }
        let wanted = Wanted::of(wanted_data, from, tag, comm, g.new_slot());
        let swap = match swaps {
            0 => Swap::Sendrecv,
            1 => Swap::Replace,
            _ => Swap::Isendrecv(g.new_req()),
        };
        let send = Outgoing::of(Mode::Standard, data, to, tag, comm);
        g.at(base, actor, Instr::Swap { swap, send, wanted });
        let mut done = base;
        if let Swap::Isendrecv(req) = swap {
            done = base + g.rng.u32(0..5);
            g.complete(done, actor, req);
        }
        let id = if from == PROC_NULL { ids[i] } else { ids[before] };
        let parts = match from == PROC_NULL && swaps != 1 {
            true => Vec::new(),
            false => vec![Part::whole(&wanted_data, id)],
        };
        let name = format!("ring {}", g.plan.events.len());
        g.check(done, actor, Instr::expect(wanted_data.buf, len, parts, name));
        last = last.max(done);
    }
    g.uses(comm, last);
    g.end_event(format!("a ring of {k} on c[{comm}]"));
}

/// Messages by requests that are started again and again, on either side or both.
pub fn repeated(g: &mut Gen, base: u32) {
    let Some(route) = route(g, base, false) else {
        return;
    };
    let senders = g.comms[route.comm].groups[route.from_side].clone();
    let source = g.rng.usize(0..senders.len());
    let tag = g.comms[route.comm].tag();
    let from = g.any_thread(senders[source]);
    let unit = g.unit();
    let units = g.size(4) / unit.bytes();
    let rounds = g.rng.u32(2..5);
    let again = [(true, true), (true, false), (false, true)][g.rng.usize(0..3)];
    let modes = [Mode::Standard, Mode::Synchronous, Mode::Buffered];
    let mode = modes[g.rng.usize(0..3)];
    let (to, comm) = (route.dst as i32, route.comm);
    let (out, out_len) = g.data(base, from, unit, units, None);
    let (into, len) = g.data(base, route.to, unit, units, None);
    let (mut send_req, mut recv_req) = (g.new_req(), g.new_req());
    let slot = g.new_slot();
    let any = g.comms[route.comm].wild.is_some() && g.rng.bool();
    let asked = if g.rng.bool() { ANY_SOURCE } else { source as i32 };
    let wanted = Wanted::of(into, asked, if any { ANY_TAG } else { tag }, comm, slot);
    let send = Outgoing::of(mode, out, to, tag, comm);
    let init = true;
    if again.0 {
        let req = send_req;
        g.at(base, from, Instr::StartSend { send, req, init });
    }
    if again.1 {
        let req = recv_req;
        g.at(base, route.to, Instr::StartRecv { wanted, req, init });
    }
    let mut at = base;
    for _ in 0..rounds {
        let id = g.new_id();
        let (s, r) = (at + g.rng.u32(0..3), at + g.rng.u32(0..3));
        let both = s.max(r);
        let (s_done, r_done) = (both + g.rng.u32(0..3), both + g.rng.u32(0..3));
        let (buf, part) = (out.buf, Part::whole(&out, id));
        g.at(s, from, Instr::Clear { buf, len: out_len });
        g.at(s, from, Instr::Place { buf, part });
        if again.0 {
            g.at(s, from, Instr::Start(vec![send_req]));
        } else {
            send_req = g.new_req();
            g.at(s, from, Instr::isend(send, send_req));
        }
        g.at(r, route.to, Instr::Clear { buf: into.buf, len });
        if again.1 {
            g.at(r, route.to, Instr::Start(vec![recv_req]));
        } else {
            recv_req = g.new_req();
            g.at(r, route.to, Instr::irecv(wanted, recv_req));
        }
        g.complete(s_done, from, send_req);
        g.complete(r_done, route.to, recv_req);
        let sent = Sent::of(source, tag, units * unit.bytes(), id);
        let name = format!("round of {}", g.plan.events.len());
        g.check(r_done, route.to, only(name, sent, wanted, len));
        at = s_done.max(r_done) + 1;
    }
    if again.0 {
        g.at(at, from, Instr::Release(send_req));
    }
    if again.1 {
        g.at(at, route.to, Instr::Release(recv_req));
    }
    g.uses(comm, at);
    g.end_event(format!("{rounds} times a message to rank {to} of c[{comm}]"));
}

/// The only message of a group was received, into a room of `len` bytes.
fn only(name: String, sent: Sent, wanted: Wanted, len: u64) -> Instr {
    let may = vec![0];
    Instr::check_pool(name, vec![sent], vec![Got { wanted, len, may }])
}

/// A receive that is cancelled: one that nobody sends to, or one whose message may have come, and which is received then.
pub fn cancelled(g: &mut Gen, base: u32) {
    let Some(route) = route(g, base, false) else {
        return;
    };
    let senders = g.comms[route.comm].groups[route.from_side].clone();
    let source = g.rng.usize(0..senders.len());
    let tag = g.comms[route.comm].tag();
    let unit = g.unit();
    let units = g.size(2) / unit.bytes();
    let (data, len) = g.data(base, route.to, unit, units, None);
    let comm = route.comm;
    let from = if g.rng.bool() { ANY_SOURCE } else { source as i32 };
    let wanted = Wanted::of(data, from, tag, comm, g.new_slot());
    let req = g.new_req();
    let init = g.chance(20);
    g.at(base, route.to, Instr::StartRecv { wanted, req, init });
    if init {
        g.at(base, route.to, Instr::Start(vec![req]));
    }
    let cancel_at = base + g.rng.u32(0..3);
    g.at(cancel_at, route.to, Instr::Cancel(req));
    let wait_at = cancel_at + g.rng.u32(0..2);
    g.complete(wait_at, route.to, req);
    let mut last = wait_at + 1;
    if g.chance(40) {
        g.at(last, route.to, Instr::MustBeCancelled(req));
        let empty = Instr::expect(data.buf, len, Vec::new(), "a cancelled receive");
        g.at(last, route.to, empty);
    } else {
        let sender = g.any_thread(senders[source]);
        let id = g.new_id();
        let at = base + g.rng.u32(0..4);
        let (out, _) = g.data(at, sender, unit, units, Some(id));
        let send_req = g.new_req();
        let mode = [Mode::Standard, Mode::Synchronous, Mode::Buffered][g.rng.usize(0..3)];
        let send = Outgoing::of(mode, out, route.dst as i32, tag, comm);
        g.at(at, sender, Instr::isend(send, send_req));
        let again_at = at.max(wait_at) + 1;
        g.at(again_at, route.to, Instr::RecvIfCancelled { req, wanted });
        let done = again_at + g.rng.u32(0..2);
        g.complete(done, sender, send_req);
        let sent = Sent::of(source, tag, units * unit.bytes(), id);
        let name = format!("cancelled {}", g.plan.events.len());
        g.at(again_at, route.to, only(name, sent, wanted, len));
        last = again_at + 1;
    }
    if init {
        g.at(last, route.to, Instr::Release(req));
    }
    g.uses(comm, last);
    g.end_event(format!("a cancelled receive of rank {} of c[{comm}]", route.dst));
}

/// Messages with `MPI_PROC_NULL`.
pub fn nobody(g: &mut Gen, base: u32) {
    let Some(comm) = g.pick_comm(base, |_| true) else {
        return;
    };
    let members = g.comms[comm].members();
    let (_, _, rank) = members[g.rng.usize(0..members.len())];
    let actor = g.any_thread(rank);
    let unit = g.unit();
    let (data, _) = g.data(base, actor, unit, 5, Some(1));
    let (into, len) = g.data(base, actor, unit, 5, None);
    let tag = 3;
    let wanted = Wanted::of(into, PROC_NULL, tag, comm, g.new_slot());
    let send = |mode| Outgoing::of(mode, data, PROC_NULL, tag, comm);
    if g.rng.bool() {
        g.at(base, actor, Instr::Send(send(Mode::Synchronous)));
        g.at(base, actor, Instr::Recv(wanted));
    } else {
        let (a, b) = (g.new_req(), g.new_req());
        g.at(base, actor, Instr::isend(send(Mode::Standard), a));
        g.at(base, actor, Instr::irecv(wanted, b));
        g.complete(base, actor, a);
        g.complete(base, actor, b);
    }
    let empty = Instr::expect(into.buf, len, Vec::new(), "from MPI_PROC_NULL");
    g.check(base, actor, empty);
    g.uses(comm, base);
    g.end_event(format!("nobody on c[{comm}]"));
}

/// A rank that computes for a while.
pub fn late(g: &mut Gen, base: u32) {
    let rank = g.rng.usize(0..g.limits.ranks);
    let actor = g.any_thread(rank);
    let us = if g.limits.sleeps {
        [10, 100, 1000, 5000, 5000, 40_000][g.rng.usize(0..6)]
    } else {
        1
    };
    g.at(base, actor, Instr::Sleep { us });
    g.end_event(format!("rank {rank} is late"));
}
