//! The trace as Chrome's JSON, which Perfetto reads.
//!
//! Three processes: ranks, adapters, links. A rank's track has its calls and, inside them, its waits; where no call is known it *computes* or *runs*. An adapter's tracks have what went on in it, from an event
//! to the one that it led to; as much of that goes on at once, an adapter has several. A link's track has the packets that it served, one after the other. Messages are flows from
//! the sender's track over the links of their packets to the receiver's. Times are in microseconds, with three digits: the nanoseconds that begin and end are in, so slices that nest in picoseconds nest here.

use super::{name_of, recording};
use crate::core::Core;
use crate::record::{Call, Label, Recording, Wait};
use crate::time::Ps;
use farpost_fabric::Peer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

const RANKS: u32 = 1;
const ADAPTERS: u32 = 2;
const LINKS: u32 = 3;

#[derive(Serialize)]
struct Event<'a, A: Serialize> {
    ph: &'static str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// The end of a flow is bound to the slice that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Order {
    sort_index: u32,
}

#[derive(Serialize)]
struct Waited {
    /// What happened on what.
    #[serde(rename = "for")]
    reason: String,
}

#[derive(Serialize)]
struct Served {
    bytes: u32,
    from_host: u32,
    to_host: u32,
    waited_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize)]
struct Other<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<&'a str>,
    virtual_time_us: f64,
}

/// Whole nanoseconds, in microseconds.
fn micros(time: Ps) -> f64 {
    time.nanos() as f64 / 1e3
}

/// Array elements with commas between them, a line each.
struct Events<'a, W: Write> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn put<A: Serialize>(&mut self, event: &Event<'_, A>) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }

    fn slice(
        &mut self,
        (pid, tid): (u32, u32),
        (from, until): (Ps, Ps),
        name: &str,
        args: Option<impl Serialize>,
    ) -> io::Result<()> {
        let dur = Some((until.nanos() - from.nanos()) as f64 / 1e3);
        let ts = Some(micros(from));
        self.put(&Event {
            ph: "X",
            pid,
            tid,
            ts,
            dur,
            name,
            cat: None,
            id: None,
            bp: None,
            args,
        })
    }

    /// A point of a flow: `s` begins it, `t` goes on, `f` ends it.
    fn flow(
        &mut self,
        ph: &'static str,
        (pid, tid): (u32, u32),
        time: Ps,
        name: &str,
        id: u64,
    ) -> io::Result<()> {
        self.put(&Event::<()> {
            ph,
            pid,
            tid,
            ts: Some(micros(time)),
            dur: None,
            name,
            cat: Some("message"),
            id: Some(id),
            bp: (ph == "f").then_some("e"),
            args: None,
        })
    }

    fn meta(&mut self, (pid, tid): (u32, u32), name: &str, args: impl Serialize) -> io::Result<()> {
        self.put(&Event {
            ph: "M",
            pid,
            tid,
            ts: None,
            dur: None,
            name,
            cat: None,
            id: None,
            bp: None,
            args: Some(args),
        })
    }

    fn process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        self.meta((pid, 0), "process_name", Name { name })?;
        self.meta((pid, 0), "process_sort_index", Order { sort_index: pid })
    }

    fn thread(&mut self, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        self.meta((pid, tid), "thread_name", Name { name })?;
        self.meta((pid, tid), "thread_sort_index", Order { sort_index: tid })
    }
}

/// Write the trace of a run.
///
/// # Errors
/// Nothing was recorded, or it cannot be written.
pub fn perfetto(core: &Core, out: &mut impl Write) -> io::Result<()> {
    let recording = &*recording(core)?;
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut events = Events { out, first: true };
    ranks(core, recording, &mut events)?;
    adapters(core, recording, &mut events)?;
    links(core, recording, &mut events)?;
    messages(recording, &mut events)?;
    let cut = recording.cut().map(|time| {
        format!(
            "what came after {time} is left out: there were more than {} entries",
            recording.limit()
        )
    });
    let other = Other {
        cut: cut.as_deref(),
        virtual_time_us: micros(core.elapsed()),
    };
    out.write_all(b"\n],\"otherData\":")?;
    serde_json::to_writer(&mut *out, &other)?;
    out.write_all(b"}\n")
}

/// What a happening was, in words.
pub(super) fn words(core: &Core, recording: &Recording, label: Label) -> String {
    let travel = |travel: u32| {
        let it = &recording.travels[travel as usize];
        format!("packet of host {} for host {}", it.from, it.to)
    };
    match label {
        Label::Rank(rank) => format!("rank {rank}"),
        Label::Head { travel: it, .. } | Label::Tail { travel: it, .. } => travel(it),
        Label::Served { resource } => name_of(core, resource).into(),
        Label::Adapter { host, what, local } => {
            let what = recording.name(what).replace('_', " ");
            match local {
                true => format!("memory of host {host}: {what}"),
                false => format!("adapter of host {host}: {what}"),
            }
        }
    }
}

fn ranks<W: Write>(core: &Core, recording: &Recording, events: &mut Events<'_, W>) -> io::Result<()> {
    events.process(RANKS, "ranks")?;
    let size = core.kernel.procs.size();
    for rank in 0..size {
        let host = core.kernel.procs.host_of(Peer(rank)).0;
        events.thread(RANKS, rank + 1, &format!("rank {rank} (host {host})"))?;
    }
    for rank in 0..size {
        let track = (RANKS, rank + 1);
        let at = rank as usize;
        let end = recording.ended[at].unwrap_or_else(|| core.kernel.procs.schedule.clock(rank));
        let mut calls = recording.calls_of(rank, end);
        calls.sort_by_key(|call| (call.begun, call.depth));
        let outer: Vec<&Call> = calls.iter().filter(|call| call.depth == 0).collect();
        let between = if outer.is_empty() { "runs" } else { "computes" };
        let mut last = Ps::ZERO;
        for call in &outer {
            if call.begun > last {
                events.slice(track, (last, call.begun), between, None::<()>)?;
            }
            last = last.max(call.end);
        }
        if end > last {
            events.slice(track, (last, end), between, None::<()>)?;
        }
        for call in &calls {
            let name = recording.name(call.name);
            events.slice(track, (call.begun, call.end), name, None::<()>)?;
        }
        for Wait {
            from, until, cause, ..
        } in &recording.waits[at]
        {
            let happening = recording.happenings.get(cause.0 as usize);
            let (name, reason) = match happening {
                Some(it) => ("waits", words(core, recording, it.label)),
                None => ("sleeps", "a time".into()),
            };
            events.slice(track, (*from, *until), name, Some(Waited { reason }))?;
        }
    }
    let interrupts = recording.interrupts.iter().enumerate();
    let mut tid = size;
    for (rank, all) in interrupts.filter(|(_, all)| !all.is_empty()) {
        let name = format!("interrupts of rank {rank}");
        let times = all.iter().map(|it| (it.from, it.until));
        for (lane, slices) in in_lanes(times).into_iter().enumerate() {
            tid += 1;
            events.thread(RANKS, tid, &numbered(&name, lane))?;
            for (_, times) in slices {
                events.slice((RANKS, tid), times, "interrupt", None::<()>)?;
            }
        }
    }
    Ok(())
}

fn numbered(name: &str, lane: usize) -> String {
    match lane {
        0 => name.into(),
        lane => format!("{name}, #{}", lane + 1),
    }
}

/// Times, in as few lanes as they need not to overlap: by lane which they are, in the order of their beginnings.
fn in_lanes(times: impl Iterator<Item = (Ps, Ps)>) -> Vec<Vec<(usize, (Ps, Ps))>> {
    let mut sorted: Vec<_> = times.enumerate().collect();
    sorted.sort_by_key(|(number, (from, until))| (*from, *until, *number));
    let mut lanes: Vec<Vec<(usize, (Ps, Ps))>> = Vec::new();
    for it in sorted {
        let from = it.1.0;
        let free = lanes
            .iter()
            .position(|lane| lane.last().is_none_or(|(_, (_, until))| *until <= from));
        match free {
            Some(lane) => lanes[lane].push(it),
            None => lanes.push(vec![it]),
        }
    }
    lanes
}

/// What an adapter did, and from when to when.
type Work = (u16, (Ps, Ps));

fn adapters<W: Write>(core: &Core, recording: &Recording, events: &mut Events<'_, W>) -> io::Result<()> {
    events.process(ADAPTERS, "adapters")?;
    let adapters: Vec<&'static str> = core.adapters().map(|(_, adapter)| adapter.name()).collect();
    // By host, and adapter before memory: what went on.
    let mut by_adapter: BTreeMap<(u32, bool), Vec<Work>> = BTreeMap::new();
    for it in &recording.happenings {
        let Label::Adapter { host, what, local } = it.label else {
            continue;
        };
        let Some(cause) = recording.happenings.get(it.cause.0 as usize) else {
            continue;
        };
        if cause.time < it.time {
            let all = by_adapter.entry((host, local)).or_default();
            all.push((what, (cause.time, it.time)));
        }
    }
    let mut tid = 0;
    for ((host, local), all) in by_adapter {
        let name = match (local, adapters.get(host as usize)) {
            (false, Some(name)) => format!("{name} of host {host}"),
            _ => format!("memory of host {host}"),
        };
        for (lane, slices) in in_lanes(all.iter().map(|(_, times)| *times))
            .into_iter()
            .enumerate()
        {
            tid += 1;
            events.thread(ADAPTERS, tid, &numbered(&name, lane))?;
            for (number, times) in slices {
                let what = recording.name(all[number].0).replace('_', " ");
                events.slice((ADAPTERS, tid), times, &what, None::<()>)?;
            }
        }
    }
    Ok(())
}

fn links<W: Write>(core: &Core, recording: &Recording, events: &mut Events<'_, W>) -> io::Result<()> {
    events.process(LINKS, "links")?;
    for (id, resource) in core.kernel.net.resources() {
        if resource.usage.packets > 0 {
            events.thread(LINKS, id.0 + 1, &resource.spec.name)?;
        }
    }
    for serve in &recording.serves {
        let travel = &recording.travels[serve.travel as usize];
        let sent = travel.mark.number().map(|number| &recording.sent[number]);
        let name = match sent {
            Some(sent) => format!("{} {} to {}", <&str>::from(sent.kind), sent.from, sent.to),
            None => format!("hosts {} to {}", travel.from, travel.to),
        };
        let message = sent.map(|it| format!("{} bytes of rank {} for rank {}", it.bytes, it.from, it.to));
        let args = Served {
            bytes: travel.bytes,
            from_host: travel.from,
            to_host: travel.to,
            waited_us: micros(serve.begun - serve.came),
            message,
        };
        events.slice(
            (LINKS, serve.resource + 1),
            (serve.begun, serve.served),
            &name,
            Some(args),
        )?;
    }
    Ok(())
}

/// From the sender over the way of the last packet to the receiver. Those that have not arrived have no flow.
fn messages<W: Write>(recording: &Recording, events: &mut Events<'_, W>) -> io::Result<()> {
    // The services of a message's last packet, last one first.
    let mut last = vec![None; recording.sent.len()];
    for travel in &recording.travels {
        if let Some(number) = travel.mark.number() {
            last[number] = Some(travel);
        }
    }
    for (number, sent) in recording.sent.iter().enumerate() {
        let Some(arrived) = sent.arrived else { continue };
        let (name, id) = (<&str>::from(sent.kind), number as u64 + 1);
        events.flow("s", (RANKS, sent.from + 1), sent.begun, name, id)?;
        let mut way = Vec::new();
        let mut serve = last[number].map(|travel| travel.last_serve());
        while let Some(it) = serve.and_then(|serve| recording.serves.get(serve as usize)) {
            way.push(it);
            serve = Some(it.before);
        }
        let passed = way
            .iter()
            .rev()
            .filter(|it| it.begun <= arrived && it.begun >= sent.begun);
        for it in passed {
            events.flow("t", (LINKS, it.resource + 1), it.begun, name, id)?;
        }
        events.flow("f", (RANKS, sent.to + 1), arrived, name, id)?;
    }
    Ok(())
}
