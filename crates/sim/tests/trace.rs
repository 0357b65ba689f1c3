//! What one sees of a run: traces, utilisation, critical paths, pictures. The same run gives the same bytes.

mod support;

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::time::Ps;
use farpost_sim::{ranks, record, trace};
use serde_json::Value;
use std::collections::BTreeMap;
use support::ns;

/// The calling rank makes a call of this name.
fn call<T>(end: &SimFabric, name: &str, body: impl FnOnce() -> T) -> T {
    let me = end.me();
    end.with_core(|core| core.call_begins(me, name, core.kernel.procs.schedule.clock(me.0)));
    let result = body();
    end.with_core(|core| core.call_ends(me, core.kernel.procs.schedule.clock(me.0)));
    result
}

fn compute(end: &SimFabric, time: Ps) {
    let me = end.me();
    end.with_core(|core| core.compute(me, time));
}

fn send(end: &SimFabric, to: u32, bytes: usize) {
    let payload = vec![1; bytes];
    while end.try_send(Peer(to), Port::Device, Priority::Low, &payload) != TrySend::Sent {
        end.wait_for_something(end.time() + ns(1_000_000));
    }
}

fn receive(end: &SimFabric) {
    while !end.poll_priority(Port::Device, Priority::Low, |_, _| ()) {
        end.wait_for_something(end.time() + ns(1_000_000));
    }
}

/// All ranks but 0 send it packets at the same time; it has computed before. Then it answers the last rank.
fn gather(core: Core) -> Core {
    let size = core.kernel.procs.size();
    let program = |end: SimFabric| match end.me().0 {
        0 => {
            compute(&end, ns(500));
            call(&end, "gather", || (1..size).for_each(|_| receive(&end)));
            compute(&end, ns(3000));
            call(&end, "answer", || send(&end, size - 1, 8));
        }
        me => {
            call(&end, "send", || send(&end, 0, 600));
            if me == size - 1 {
                call(&end, "receive", || receive(&end));
            }
        }
    };
    ranks::run(core, program).expect("no rank hangs").1
}

fn recorded(mut core: Core, limit: usize) -> Core {
    core.record(limit);
    core
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("to memory");
    String::from_utf8(bytes).expect("text")
}

fn gathered(ranks: u32) -> Core {
    gather(recorded(support::cluster(ranks, 1, 3), record::ENTRIES))
}

/// Nanoseconds of a field.
fn nanos(event: &Value, field: &str) -> u64 {
    let micros = event[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} of {event}"));
    (micros * 1e3).round() as u64
}

/// That a trace is well formed: every track has a name, slices of a track nest, flows have both ends. How many slices and flows there are.
fn check(json: &str) -> (usize, usize) {
    let trace: Value = serde_json::from_str(json).expect("it parses");
    let events = trace["traceEvents"].as_array().expect("an array");
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut named = BTreeMap::new();
    let mut flows: BTreeMap<u64, String> = BTreeMap::new();
    for event in events {
        let track = (
            event["pid"].as_u64().expect("pid"),
            event["tid"].as_u64().expect("tid"),
        );
        match event["ph"].as_str().expect("a phase") {
            "X" => {
                let from = nanos(event, "ts");
                tracks
                    .entry(track)
                    .or_default()
                    .push((from, from + nanos(event, "dur")));
            }
            "M" if event["name"] == "thread_name" => {
                let name = event["args"]["name"].as_str().expect("a name");
                assert!(
                    named.insert(track, name.to_owned()).is_none(),
                    "{track:?} has two names"
                );
            }
            "M" => {}
            phase @ ("s" | "t" | "f") => {
                nanos(event, "ts");
                flows
                    .entry(event["id"].as_u64().expect("id"))
                    .or_default()
                    .push_str(phase);
            }
            other => panic!("phase {other}"),
        }
    }
    for (track, slices) in &mut tracks {
        assert!(named.contains_key(track), "{track:?} has no name");
        // Outer ones first; what has no length nests in anything.
        slices.retain(|(from, until)| from < until);
        slices.sort_by_key(|(from, until)| (*from, std::cmp::Reverse(*until)));
        let mut open: Vec<(u64, u64)> = Vec::new();
        for it in slices {
            open.retain(|(_, until)| *until > it.0);
            if let Some(outer) = open.last() {
                assert!(it.1 <= outer.1, "{}: {it:?} overlaps {outer:?}", named[track]);
                let link = track.0 == 3;
                assert!(!link, "{}: a link serves one packet at a time", named[track]);
            }
            open.push(*it);
        }
    }
    for (id, points) in &flows {
        let inner = points.strip_prefix('s').and_then(|it| it.strip_suffix('f'));
        let inner = inner.unwrap_or_else(|| panic!("flow {id} is {points}"));
        assert!(inner.bytes().all(|it| it == b't'), "flow {id} is {points}");
    }
    (tracks.values().map(Vec::len).sum(), flows.len())
}

#[test]
fn a_trace_has_tracks_that_nest_and_flows_with_both_ends() {
    let json = text(|out| trace::perfetto(&gathered(6), out));
    let (slices, flows) = check(&json);
    assert_eq!(flows, 6, "five packets and an answer");
    assert!(slices > 40, "{slices} slices");
    for name in [
        "rank 3 (host 3)",
        "rdma of host 0",
        "to host 0",
        "gather",
        "computes",
        "waits",
    ] {
        assert!(json.contains(&format!("\"{name}\"")), "no {name}");
    }
    assert_eq!(
        json,
        text(|out| trace::perfetto(&gathered(6), out)),
        "the same run"
    );
}

#[test]
fn a_recording_that_is_cut_says_so() {
    let core = gather(recorded(support::cluster(6, 1, 3), 60));
    let json = text(|out| trace::perfetto(&core, out));
    check(&json);
    let trace: Value = serde_json::from_str(&json).expect("it parses");
    let cut = trace["otherData"]["cut"].as_str().expect("it says so");
    assert!(cut.contains("more than 60 entries"), "{cut}");
}

#[test]
fn what_is_not_recorded_is_not_told_and_runs_alike() {
    let plain = gather(support::cluster(6, 1, 3));
    let error = trace::perfetto(&plain, &mut Vec::new()).expect_err("nothing was recorded");
    assert!(error.to_string().contains("nothing was recorded"), "{error}");
    let recorded = gathered(6);
    assert_eq!(plain.elapsed(), recorded.elapsed());
    assert_eq!(plain.kernel.queue.made(), recorded.kernel.queue.made());
}

#[test]
fn utilisation_has_the_busiest_first() {
    let table = text(|out| trace::utilisation(&gathered(6), out));
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("Of ") && lines[1].starts_with("resource"),
        "{table}"
    );
    // Five packets of 632 bytes came by it at the same time, at 1 GB/s.
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(&words[..3], ["to", "host", "0"], "{table}");
    let busy: f64 = words[3].parse().expect("a share");
    let elapsed = gathered(6).elapsed();
    let expected = 100.0 * ns(5 * 632).micros() / elapsed.micros();
    assert!((busy - expected).abs() < 0.051, "{busy}, {expected}");
    assert_eq!(
        &words[5..8],
        ["5", "3160", "4"],
        "packets, bytes, longest queue: {table}"
    );
}

#[test]
fn registers_are_shown_by_host_with_their_sum() {
    let table = text(|out| trace::registers(&gathered(3), out));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["adapter", "packets_sent"]);
    assert_eq!(rows[1], ["rdma", "of", "host", "0", "1"]);
    assert_eq!(rows[4], ["sum", "of", "3", "hosts", "3"]);
}

/// The first number of a line, in thousandths.
fn thousandths(line: &str) -> u64 {
    let word = line.split_whitespace().next().expect("a word");
    word.replace('.', "")
        .parse()
        .unwrap_or_else(|_| panic!("a time begins {line:?}"))
}

#[test]
fn a_critical_path_is_told_in_words_that_add_up() {
    let core = gathered(6);
    let told = text(|out| trace::explain(&core, out));
    println!("{told}");
    let by_place = told.split("By place:\n").nth(1).expect("the places");
    let lines: Vec<&str> = by_place.lines().collect();
    let (whole, parts) = lines.split_last().expect("the whole");
    let sum: u64 = parts.iter().map(|line| thousandths(line)).sum();
    assert_eq!(sum, thousandths(whole));
    assert_eq!(sum, core.elapsed().nanos());
    for part in [
        "computing on rank 0",
        // The last of five that came at the same time, each 632 bytes at 1 GB/s.
        "2.528 us",
        "waiting for to host 0 (behind 1 message of rank 1, 1 message of rank 2, 1 message of rank 3 and 1 more)",
        "passing to host 5",
        // Its bytes come to the bus at the pace of the link.
        "0.574 us    7.5 %  passing from host 5",
        "in the adapter of host 0 (stored)",
        "3.000 us",
        "from rank to rank, over 2 ranks",
        "the end of rank 5",
    ] {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
    assert_eq!(
        told,
        text(|out| trace::explain(&gathered(6), out)),
        "the same run"
    );
}

#[test]
fn a_critical_path_has_no_gaps() {
    let core = gathered(9);
    let path = trace::CriticalPath::of(&core, &core.kernel.recorder.recording().expect("on"));
    let mut time = core.elapsed();
    for piece in &path.pieces {
        assert_eq!(piece.until, time, "{piece:?}");
        assert!(piece.from < piece.until);
        time = piece.from;
    }
    assert_eq!(time, Ps::ZERO);
}

#[test]
fn of_a_recording_that_is_cut_the_path_is_told_as_far_as_it_is_known() {
    let core = gather(recorded(support::cluster(6, 1, 3), 60));
    let told = text(|out| trace::explain(&core, out));
    assert!(
        told.contains("more than 60 entries") && told.contains("not recorded"),
        "{told}"
    );
    assert_eq!(
        thousandths(told.lines().last().expect("the whole")),
        core.elapsed().nanos()
    );
}
