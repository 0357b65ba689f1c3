//! The roll-call: what ranks say of their waits, in the memory of this host and in packets from others. Whatever is there, a table comes of
//! it that has an end and holds nothing that a terminal would take for a command.

use crate::input::{Input, Script};
use farpost_fabric::PACKET_BYTES;
use farpost_fabric::sync::AtomicU64;
use farpost_node::fuzzing::{Hearing, packets};
use farpost_rollcall::record::WORDS;
use farpost_rollcall::slot::{BESIDE, Slot};
use farpost_rollcall::table::{Rank, RollState, stuck_for, table};
use farpost_rollcall::{Collective, Communicator, Mismatch, NearMiss, Record, WaitKind, WaitMode, Want};

const NOW: u64 = 1 << 40;
/// Ranks of this host, and of the other one.
const HERE: u32 = 4;
const THERE: u32 = 6;
/// No table of so few ranks is longer.
const LONGEST: usize = 64 << 10;

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// A record that can be read is written so that it is read again. Text that was no text may be shorter then.
fn look_at(state: &RollState) {
    if let RollState::Waits(record) = state {
        let again = Record::decode(&record.encode()).expect("a record's words");
        assert_eq!(Record::decode(&again.encode()).as_ref(), Ok(&again));
        assert_eq!((again.since, again.quiet), (record.since, record.quiet));
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut hearing = Hearing::default();
    let mut ranks: Vec<Rank> = Vec::new();
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 60 {
            break;
        }
        if step & 1 == 0 {
            let bytes = input.counted();
            hearing.packet(&bytes[..bytes.len().min(PACKET_BYTES)], THERE);
            continue;
        }
        // The memory of a rank of this host, whose first words are a count of versions and a length.
        let len = usize::from(input.u16());
        let mut found = words(input.bytes(len));
        found.resize(WORDS + BESIDE, 0);
        let memory: Vec<AtomicU64> = found.into_iter().map(AtomicU64::new).collect();
        let number = u32::from(step >> 1) % HERE;
        let state = Rank::of_words(Slot::new(&memory).read(), NOW);
        ranks.retain(|rank| rank.number != number);
        ranks.push(rank(number, state));
    }
    for (number, state) in hearing.ranks(NOW).unwrap_or_default() {
        assert!(number < THERE, "rank {number} is on no host that spoke");
        ranks.push(rank(HERE + number, state));
    }
    for rank in &ranks {
        look_at(&rank.state);
    }
    let _ = stuck_for(&ranks);
    if let Some(text) = table(&ranks) {
        assert!(text.len() < LONGEST, "a table of {} bytes", text.len());
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}

fn rank(number: u32, state: RollState) -> Rank {
    Rank {
        number,
        host: format!("host{}", number / HERE),
        state,
        now: NOW,
    }
}

fn place() -> Communicator {
    Communicator {
        name: "MPI_COMM_WORLD".into(),
        context: 1,
    }
}

fn want(kind: WaitKind, peer: Option<u32>) -> Want {
    Want {
        kind,
        peer,
        rank: peer.unwrap_or(0),
        tag: (kind != WaitKind::Part).then_some(7),
        bytes: 4096,
        communicator: place(),
    }
}

fn waits(how: WaitMode, wants: Vec<Want>) -> Record {
    Record {
        how,
        function: "MPI_Waitall".into(),
        since: NOW - (1 << 36),
        quiet: NOW - (1 << 35),
        wants,
        ..Record::default()
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let collective = |function: &str, peer| Record {
        collectives: vec![Collective {
            communicator: place(),
            function: function.into(),
            members: vec![(0, HERE)],
        }],
        ..waits(WaitMode::Waits, vec![want(WaitKind::Part, Some(peer))])
    };
    let near = NearMiss {
        why: Mismatch::Tag,
        peer: 1,
        tag: 8,
        bytes: 64,
        count: 2,
        communicator: place(),
    };
    let records = [
        waits(WaitMode::Waits, vec![want(WaitKind::Receive, Some(1))]),
        waits(
            WaitMode::Polls,
            vec![want(WaitKind::Send, Some(0)), want(WaitKind::Probe, None)],
        ),
        collective("MPI_Barrier", 3),
        collective("MPI_Bcast", 2),
        Record {
            any: true,
            more: 3,
            nears: vec![near],
            ..waits(
                WaitMode::Waits,
                vec![want(WaitKind::Rest, Some(2)), want(WaitKind::Space, Some(3))],
            )
        },
    ];
    let in_memory = |script: Script, (at, record): (usize, &Record)| {
        let record = record.encode();
        let words = [2, record.len() as u64].into_iter().chain(record);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        script
            .u8(1 | (at as u8) << 1)
            .u16(bytes.len() as u16)
            .bytes(&bytes)
    };
    let all = |records: &[Record]| records.iter().enumerate().fold(Script::default(), in_memory);
    let mut seeds: Vec<_> = records.windows(2).map(|two| all(two).0).collect();
    seeds.push(all(&records).0);
    let states = [
        RollState::Computes,
        RollState::Starts,
        RollState::Finalised,
        RollState::Elsewhere,
    ];
    let waiting = records.into_iter().map(RollState::Waits);
    let there: Vec<Rank> = waiting.chain(states).map(|state| rank(0, state)).collect();
    for some in there.chunks(2) {
        let numbered: Vec<Rank> = some
            .iter()
            .enumerate()
            .map(|(number, of)| rank(number as u32, of.state.clone()))
            .collect();
        let packets = packets(&numbered, 1, NOW);
        let script = packets
            .iter()
            .fold(Script::default(), |script, packet| script.u8(0).counted(packet));
        seeds.push(script.0);
    }
    seeds
}
