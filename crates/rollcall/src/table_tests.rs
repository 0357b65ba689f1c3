use super::*;
use crate::record::Collective;

const SECOND: u64 = 1_000_000_000;

fn world() -> Communicator {
    Communicator {
        name: "MPI_COMM_WORLD".into(),
        context: 1,
    }
}

fn want(kind: WaitKind, peer: u32, tag: i32) -> Want {
    Want {
        kind,
        peer: Some(peer),
        rank: peer,
        tag: Some(tag),
        bytes: 4,
        communicator: Communicator {
            context: 0,
            ..world()
        },
    }
}

fn waits(function: &str, wants: Vec<Want>) -> Record {
    Record {
        function: function.into(),
        since: SECOND,
        quiet: SECOND,
        wants,
        ..Record::default()
    }
}

/// In a collective on MPI_COMM_WORLD of `size` ranks, waiting for the parts of `peers`.
fn collective(function: &str, size: u32, peers: &[u32]) -> Record {
    let part = |peer: &u32| Want {
        tag: None,
        communicator: world(),
        ..want(WaitKind::Part, *peer, 0)
    };
    Record {
        collectives: vec![Collective {
            communicator: world(),
            function: function.into(),
            members: vec![(0, size)],
        }],
        ..waits(function, peers.iter().map(part).collect())
    }
}

fn job(states: Vec<RollState>) -> Vec<Rank> {
    let rank = |(number, state)| Rank {
        number: number as u32,
        host: "node1".into(),
        state,
        now: 31 * SECOND,
    };
    states.into_iter().enumerate().map(rank).collect()
}

fn shown(states: Vec<RollState>) -> String {
    let text = table(&job(states)).expect("somebody waits");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    text
}

#[test]
fn a_hang_in_different_calls_is_told_in_full() {
    let mut receive = waits("MPI_Recv", vec![want(WaitKind::Receive, 1, 7)]);
    receive.nears.push(NearMiss {
        why: Mismatch::Tag,
        peer: 1,
        tag: 8,
        bytes: 4,
        count: 2,
        communicator: world(),
    });
    let text = shown(vec![
        RollState::Waits(receive),
        RollState::Waits(collective("MPI_Barrier", 3, &[0, 2])),
        RollState::Waits(collective("MPI_Bcast", 3, &[0])),
    ]);
    let wanted = "  rank  host   in           on              waits for       tag  bytes   for
  0     node1  MPI_Recv     MPI_COMM_WORLD  message from 1    7      4  30 s
               unmatched here: 2 messages from 1, tag 8, 4 bytes: right source, other tag
  1     node1  MPI_Barrier  MPI_COMM_WORLD  0, 2                        30 s
  2     node1  MPI_Bcast    MPI_COMM_WORLD  0                           30 s
  0 waits for 1, 1 for 0: deadlock
  1 in MPI_Barrier, 2 in MPI_Bcast on MPI_COMM_WORLD: collectives differ
  0 (in MPI_Recv) is missing from MPI_Barrier and MPI_Bcast on MPI_COMM_WORLD
";
    assert_eq!(text, wanted, "{text}");
}

#[test]
fn same_lines_are_folded_and_the_missing_named() {
    let mut states: Vec<RollState> = (0..8)
        .map(|rank: u32| {
            // A tree: each waits for the next, the last but one for the one that is missing.
            RollState::Waits(collective("MPI_Allreduce", 9, &[rank + 1]))
        })
        .collect();
    states.push(RollState::Computes);
    let text = shown(states.clone());
    assert!(
        text.contains("\n  0-7   node1  MPI_Allreduce  MPI_COMM_WORLD  8 (computes)  30 s\n"),
        "{text}"
    );
    assert!(text.contains("\n  8     node1  (computes)\n"), "{text}");
    assert!(
        text.contains("8 (computes) is missing from MPI_Allreduce on MPI_COMM_WORLD"),
        "{text}"
    );
    states[8] = RollState::Ended("ended with code 3".into());
    let text = shown(states);
    assert!(
        text.contains("8 (ended)") && text.contains("(ended with code 3)"),
        "{text}"
    );
}

#[test]
fn rings_of_sends_are_deadlocks() {
    let ring = |size: u32| {
        let send = |rank: u32| {
            RollState::Waits(waits(
                "MPI_Send",
                vec![want(WaitKind::Send, (rank + 1) % size, 0)],
            ))
        };
        shown((0..size).map(send).collect())
    };
    assert!(ring(2).contains("  0 waits for 1, 1 for 0: deadlock\n"));
    assert!(ring(3).contains("  0 waits for 1, 1 for 2, 2 for 0: deadlock\n"));
    assert!(ring(1).contains("  0 waits for itself: deadlock\n"));
    assert!(ring(200).contains("\n  ... and 100 more ranks\n"));
    let long = ring(40);
    assert!(
        long.contains("0 waits for 1, 1 for 2") && long.contains("39 for 0: deadlock"),
        "{long}"
    );
}

#[test]
fn who_waits_for_anybody_is_in_no_cycle() {
    let mut any = waits("MPI_Recv", vec![want(WaitKind::Receive, 1, 0)]);
    any.wants[0].peer = None;
    any.wants[0].tag = None;
    let text = shown(vec![
        RollState::Waits(any),
        RollState::Waits(waits("MPI_Recv", vec![want(WaitKind::Receive, 0, 0)])),
    ]);
    assert!(!text.contains("deadlock"), "{text}");
    assert!(text.contains("message from any rank  any"), "{text}");
    // One of two will do, and the other may come.
    let mut some = waits(
        "MPI_Waitany",
        vec![want(WaitKind::Receive, 1, 0), want(WaitKind::Receive, 2, 0)],
    );
    some.any = true;
    let text = shown(vec![
        RollState::Waits(some),
        RollState::Waits(waits("MPI_Recv", vec![want(WaitKind::Receive, 0, 0)])),
        RollState::Computes,
    ]);
    assert!(
        text.contains("any of: message from 1") && !text.contains("deadlock"),
        "{text}"
    );
}

#[test]
fn many_requests_are_counted() {
    let wants = (1..20).map(|peer| want(WaitKind::Receive, peer, 0)).collect();
    let text = shown(vec![
        RollState::Waits(waits("MPI_Waitall", wants)),
        RollState::Computes,
    ]);
    assert!(
        text.contains("message from 1 (computes)") && text.contains("and 16 more"),
        "{text}"
    );
    assert!(text.lines().count() < 10, "{text}");
    let text = shown(vec![RollState::Waits(waits(
        "MPI_Waitall",
        vec![want(WaitKind::Receive, 1, 0); 6],
    ))]);
    assert!(text.contains("6 messages from 1"), "{text}");
}

#[test]
fn a_job_is_stuck_when_nobody_moves_or_computes() {
    let waiting = || RollState::Waits(waits("MPI_Recv", vec![]));
    assert_eq!(stuck_for(&job(vec![waiting(), waiting()])), Some(30 * SECOND));
    assert_eq!(stuck_for(&job(vec![waiting(), RollState::Computes])), None);
    assert_eq!(stuck_for(&job(vec![waiting(), RollState::Starts])), None);
    assert_eq!(
        stuck_for(&job(vec![waiting(), RollState::Finalised])),
        Some(30 * SECOND)
    );
    assert_eq!(
        stuck_for(&job(vec![RollState::Finalised, RollState::Ended(String::new())])),
        None
    );
    assert_eq!(table(&job(vec![RollState::Computes, RollState::Finalised])), None);
}

#[test]
fn polls_count_as_long_as_they_are_told_of() {
    let mut record = Record {
        how: WaitMode::Polls,
        until: 100,
        ..waits("MPI_Test", vec![])
    };
    let state = |record: &Record, now| Rank::of_words(Ok(record.encode()), now);
    assert_eq!(state(&record, 101), RollState::Computes);
    assert!(matches!(state(&record, 100), RollState::Waits(_)));
    record.until = 0;
    let text = shown(vec![state(&record, 1 << 60)]);
    assert!(text.contains("polls in MPI_Test"), "{text}");
}

#[test]
fn damaged_records_are_told_and_do_no_harm() {
    let broken = Rank::of_words(Ok(vec![1, 2, 3]), 0);
    assert!(matches!(broken, RollState::Damaged(_)));
    assert!(matches!(
        Rank::of_words(Err(crate::slot::Unreadable::Busy), 0),
        RollState::Damaged(_)
    ));
    let mut wild = collective("MPI_Barrier", 2, &[1, u32::MAX]);
    wild.collectives[0].members = vec![(u32::MAX, u32::MAX)];
    wild.since = u64::MAX;
    let text = shown(vec![RollState::Waits(wild), broken]);
    assert!(text.contains("its record is damaged: "), "{text}");
}

#[test]
fn times_are_short() {
    assert_eq!(age(310_000_000), "0.3 s");
    assert_eq!(age(31 * SECOND), "31 s");
    assert_eq!(age(600 * SECOND), "10 min");
    assert_eq!(age(u64::MAX), "5124095 h");
    assert_eq!(span_of((30 * SECOND, 31 * SECOND)), "30-31 s");
    assert_eq!(span_of((30 * SECOND, 600 * SECOND)), "30 s - 10 min");
    assert_eq!(numbers([0, 1, 2, 3, 7].into_iter(), ","), "0-3,7");
    assert_eq!(numbers([4, 5].into_iter(), ", "), "4, 5");
}
