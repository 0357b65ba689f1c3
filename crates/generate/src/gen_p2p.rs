//! Messages.

use crate::events::Gen;
use crate::pool::{Ask, Offer, explore};
use crate::program::{ANY_SOURCE, ANY_TAG, Actor, Got, Instr, Look, Mode, Outgoing, Part, Sent, Wanted};
use crate::types::{TypeKind, Unit};
use strum::VariantArray;

/// In which order the two sides come.
#[derive(Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub(crate) enum Order {
    /// Receives are posted first, so that any send finds one.
    ReceivesFirst,
    /// Sends that do not block come first, so that any receive finds one.
    SendsFirst,
    /// Blocking calls at one place, as the search permits.
    Together,
    /// Calls that do not block, at any places.
    Mixed,
}

#[derive(Clone, Copy)]
struct Message {
    /// Rank among the senders' group.
    source: usize,
    tag: i32,
    units: u64,
    id: u32,
    blocks: bool,
}

/// A receive before it has a buffer.
#[derive(Clone, Copy)]
struct Receive {
    source: i32,
    tag: i32,
    blocks: bool,
}

/// Where a group of messages goes: communicator, sides, receiver.
pub(crate) struct Route {
    pub comm: usize,
    pub from_side: usize,
    pub dst: usize,
    pub to: Actor,
}

pub(crate) fn route(g: &mut Gen, base: u32, wild: bool) -> Option<Route> {
    let comm = g.pick_comm(base, |c| {
        !wild
            || c.wild
                .as_ref()
                .is_some_and(|used| used.len() < c.groups.iter().map(Vec::len).sum::<usize>())
    })?;
    let side = g.rng.usize(0..g.comms[comm].groups.len());
    let from_side = g.comms[comm].other(side);
    let dst = g.rng.usize(0..g.comms[comm].groups[side].len());
    let rank = g.comms[comm].groups[side][dst];
    let to = g.any_thread(rank);
    if let Some(used) = &mut g.comms[comm].wild {
        // All that one rank receives here belongs to one group.
        if used.contains(&rank) {
            return None;
        }
        used.push(rank);
    }
    Some(Route {
        comm,
        from_side,
        dst,
        to,
    })
}

/// A group of messages from some to one.
pub fn group(g: &mut Gen, base: u32) {
    let wild = g.chance(30);
    let Some(route) = route(g, base, wild) else { return };
    let wild = g.comms[route.comm].wild.is_some();
    let senders = g.comms[route.comm].groups[route.from_side].clone();
    let order = Order::VARIANTS[g.rng.usize(0..4)];
    let mut sources: Vec<usize> = (0..senders.len())
        .filter(|s| order != Order::Together || senders[*s] != route.to.rank)
        .collect();
    if sources.is_empty() {
        return;
    }
    g.rng.shuffle(&mut sources);
    sources.truncate(g.rng.usize(1..=3));
    let many = [1, 1, 2, 3, 4, 6][g.rng.usize(0..6)];
    let tags: Vec<i32> = (0..g.rng.usize(1..=3))
        .map(|_| g.comms[route.comm].tag())
        .collect();
    let unit = g.unit();
    let messages: Vec<Message> = (0..many)
        .map(|_| Message {
            source: sources[g.rng.usize(0..sources.len())],
            tag: tags[g.rng.usize(0..tags.len())],
            units: g.size(2) / unit.bytes(),
            id: g.new_id(),
            blocks: match order {
                Order::Together => true,
                Order::ReceivesFirst => g.rng.bool(),
                _ => false,
            },
        })
        .collect();
    let mut receives = receives(g, order, &messages, wild);
    let may = check(&messages, &receives).or_else(|| {
        // One receive for each message, in the order of the messages.
        for (message, receive) in messages.iter().zip(&mut receives) {
            (receive.source, receive.tag) = (message.source as i32, message.tag);
        }
        check(&messages, &receives)
    });
    let Some(may) = may else { return };
    place(g, base, &route, order, unit, &senders, &messages, &receives, may);
    let name = format!("{many} messages to rank {} of c[{}]", route.dst, route.comm);
    g.end_event(name);
}

fn check(messages: &[Message], receives: &[Receive]) -> Option<Vec<Vec<usize>>> {
    let offers: Vec<Offer> = messages
        .iter()
        .map(
            |&Message {
                 source, tag, blocks, ..
             }| Offer {
                source: source as i32,
                tag,
                blocks,
            },
        )
        .collect();
    let asks: Vec<Ask> = receives
        .iter()
        .map(|r| Ask {
            source: (r.source != ANY_SOURCE).then_some(r.source),
            tag: (r.tag != ANY_TAG).then_some(r.tag),
            blocks: r.blocks,
        })
        .collect();
    explore(&offers, &asks)
}

fn receives(g: &mut Gen, order: Order, messages: &[Message], wild: bool) -> Vec<Receive> {
    let mut from: Vec<usize> = (0..messages.len()).collect();
    if order != Order::Together && g.rng.bool() {
        g.rng.shuffle(&mut from);
    }
    let (any_source, any_tag) = (
        [0, 50, 100][g.rng.usize(0..3)],
        if wild { [0, 50, 100][g.rng.usize(0..3)] } else { 0 },
    );
    from.iter()
        .map(|m| Receive {
            source: if g.chance(any_source) {
                ANY_SOURCE
            } else {
                messages[*m].source as i32
            },
            tag: if g.chance(any_tag) {
                ANY_TAG
            } else {
                messages[*m].tag
            },
            blocks: match order {
                Order::Together => true,
                Order::SendsFirst => g.rng.bool(),
                _ => false,
            },
        })
        .collect()
}

#[allow(clippy::too_many_arguments)]
fn place(
    g: &mut Gen,
    base: u32,
    route: &Route,
    order: Order,
    unit: Unit,
    senders: &[usize],
    messages: &[Message],
    receives: &[Receive],
    may: Vec<Vec<usize>>,
) {
    let n = messages.len();
    let spread = |g: &mut Gen, from: u32| {
        let mut bases: Vec<u32> = (0..n)
            .map(|_| from + if g.rng.bool() { 0 } else { g.rng.u32(0..5) })
            .collect();
        bases.sort_unstable();
        bases
    };
    let (send_at, receive_at) = match order {
        Order::Together => (vec![base; n], vec![base; n]),
        Order::ReceivesFirst => {
            let receive_at = spread(g, base);
            (spread(g, receive_at[n - 1] + 1), receive_at)
        }
        Order::SendsFirst => {
            let send_at = spread(g, base);
            let receive_at = spread(g, send_at[n - 1] + 1);
            (send_at, receive_at)
        }
        Order::Mixed => (spread(g, base), spread(g, base)),
    };
    let all = send_at[n - 1].max(receive_at[n - 1]);
    // A shorter room than the message, where there is no doubt which it is.
    let short = n == 1 && messages[0].units > 1 && g.chance(8);
    let most = messages.iter().map(|m| m.units).max().unwrap_or(0);
    let ready = n == 1
        && order == Order::ReceivesFirst
        && senders[messages[0].source] != route.to.rank
        && g.chance(25);
    // A thread of each sender, for all of its messages: their order is the thread's.
    let by: Vec<Actor> = senders.iter().map(|rank| g.any_thread(*rank)).collect();
    let mut last = all;
    for (message, at) in messages.iter().zip(&send_at) {
        let actor = by[message.source];
        let done = send(g, route, order, unit, actor, *message, *at, all, ready);
        last = last.max(done);
    }
    let mut got = Vec::new();
    for ((receive, at), may) in receives.iter().zip(&receive_at).zip(may) {
        let units = match short {
            true => g.rng.u64(1..most),
            false => most + if g.chance(30) { g.rng.u64(0..9) } else { 0 },
        };
        let (data, len) = g.data(*at, route.to, unit, units, None);
        let wanted = Wanted {
            truncated: short,
            ..Wanted::of(data, receive.source, receive.tag, route.comm, g.new_slot())
        };
        let done = self::receive(g, route.to, wanted, receive.blocks, (*at, all), order);
        last = last.max(done);
        got.push(Got { wanted, len, may });
    }
    if ready {
        announce(g, route, by[messages[0].source], receive_at[0]);
    }
    let sent = |m: &Message| Sent::of(m.source, m.tag, m.units * unit.bytes(), m.id);
    let sent = messages.iter().map(sent).collect();
    let name = format!("group {}", g.plan.events.len());
    g.check(last, route.to, Instr::check_pool(name, sent, got));
    g.uses(route.comm, last);
}

/// Before a ready send: its receiver tells the sender, on c[0], that the receive is there.
fn announce(g: &mut Gen, route: &Route, sender: Actor, base: u32) {
    let rank = sender.rank as i32;
    let (to, from, tag) = (rank, route.to.rank as i32, g.comms[0].tag());
    let unit = Unit::Of(TypeKind::Byte);
    let (data, _) = g.data(base, route.to, unit, 0, None);
    g.at(
        base,
        route.to,
        Instr::Send(Outgoing::of(Mode::Standard, data, to, tag, 0)),
    );
    let (data, _) = g.data(base, sender, unit, 0, None);
    let wanted = Wanted::of(data, from, tag, 0, g.new_slot());
    g.at(base, sender, Instr::Recv(wanted));
    g.uses(0, base);
}

#[allow(clippy::too_many_arguments)]
fn send(
    g: &mut Gen,
    route: &Route,
    order: Order,
    unit: Unit,
    actor: Actor,
    m: Message,
    at: u32,
    all: u32,
    ready: bool,
) -> u32 {
    let (data, len) = g.data(at, actor, unit, m.units, Some(m.id));
    let modes = [Mode::Standard, Mode::Standard, Mode::Synchronous, Mode::Buffered];
    let mut mode = modes[g.rng.usize(0..4)];
    if ready {
        mode = Mode::Ready;
    }
    let send = Outgoing::of(mode, data, route.dst as i32, m.tag, route.comm);
    let blocking = m.blocks || order == Order::SendsFirst && mode == Mode::Buffered && g.rng.bool();
    if blocking {
        g.at(at, actor, Instr::Send(send));
        return at;
    }
    let req = g.new_req();
    let init = g.chance(20);
    g.at(at, actor, Instr::StartSend { send, req, init });
    if init {
        g.at(at, actor, Instr::Start(vec![req]));
    } else if g.chance(5) {
        // The buffer stays until the end.
        g.at(at, actor, Instr::Release(req));
        return at;
    }
    let from = if order == Order::ReceivesFirst { at } else { all };
    let done = from + g.rng.u32(0..4);
    g.complete(done, actor, req);
    if init {
        g.check(done, actor, Instr::Release(req));
    }
    if g.chance(20) {
        let parts = vec![Part::whole(&data, m.id)];
        g.check(done, actor, Instr::expect(data.buf, len, parts, "a send buffer"));
    }
    done
}

/// Receive at `at`, or with a request that is complete once all calls up to `all` were made; when it is.
pub(crate) fn receive(
    g: &mut Gen,
    actor: Actor,
    wanted: Wanted,
    blocks: bool,
    (at, all): (u32, u32),
    order: Order,
) -> u32 {
    let look = Look::VARIANTS[g.rng.usize(0..4)];
    let from = if order == Order::SendsFirst { at } else { all };
    let done = from + g.rng.u32(0..4);
    if blocks {
        if g.chance(50) {
            g.at(at, actor, Instr::Recv(wanted));
            return at;
        }
        // Received at once, or later by a request.
        let req = (g.chance(30)).then(|| g.new_req());
        g.at(at, actor, Instr::LookRecv { look, wanted, req });
        let Some(req) = req else { return at };
        let done = at + g.rng.u32(0..4);
        g.complete(done, actor, req);
        return done;
    }
    let req = g.new_req();
    let init = g.chance(20);
    g.at(at, actor, Instr::StartRecv { wanted, req, init });
    if init {
        g.at(at, actor, Instr::Start(vec![req]));
    }
    g.complete(done, actor, req);
    if init {
        g.check(done, actor, Instr::Release(req));
    }
    done
}
