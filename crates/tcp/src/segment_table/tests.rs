//! What peers say of segments.

use super::*;

const PEER: Peer = Peer(1);

fn told(id: u32, flag: u32, token: u64) -> SegmentNotice {
    SegmentNotice {
        id,
        handle: 3,
        flag,
        len: 4096,
        token,
    }
}

/// An answer is believed from whom the question went to, about the segment that it was about, once.
#[test]
fn answers_are_taken_from_who_was_asked() {
    let mut table = SegmentTable::default();
    let question = SegmentQuery {
        asked: PEER,
        id: 7,
        answer: None,
    };
    table.questions.insert(5, question);
    let wrong = Err(("an answer to a question", 5));
    assert_eq!(table.on_notice(Peer(2), &told(7, 3, 5)), wrong);
    assert_eq!(
        table.on_notice(PEER, &told(8, 3, 5)),
        Err(("the segment that was asked for", 8))
    );
    assert_eq!(
        table.on_notice(PEER, &told(7, 3, 6)),
        Err(("an answer to a question", 6))
    );
    assert!(table.questions[&5].answer.is_none() && !table.knows(Peer(2), SegmentId(7)));
    assert_eq!(table.on_notice(PEER, &told(7, 3, 5)), Ok(()));
    assert!(matches!(
        table.questions[&5].answer,
        Some((3, PeerSegment { handle: 3, .. }))
    ));
    assert!(table.knows(PEER, SegmentId(7)));
    assert_eq!(table.on_notice(PEER, &told(7, ABSENT, 5)), wrong);
}

/// Refused puts are of the segment that they went to, and reported once.
#[test]
fn refusals_are_kept_by_segment() {
    let mut table = SegmentTable::default();
    table.refuse(PEER, 4);
    table.refuse(PEER, 4);
    table.refuse(Peer(2), 4);
    table.refuse(PEER, 9);
    assert_eq!(table.refusals_of(PEER), [(4, 2), (9, 1)]);
    assert_eq!(table.refusals_of(PEER), []);
    table.refuse(PEER, 9);
    assert_eq!(table.refusals_of(PEER), [(9, 2)]);

    table.refused(PEER, 4, 2).unwrap();
    assert_eq!(table.refused_since(PEER, 9), 0);
    assert_eq!(table.refused_since(Peer(2), 4), 0);
    assert_eq!(table.refused_since(PEER, 4), 2);
    assert_eq!(table.refused_since(PEER, 4), 0);
    table.refused(PEER, 4, 5).unwrap();
    assert_eq!(table.refused_since(PEER, 4), 3);
    // Nobody refuses fewer than before.
    assert_eq!(
        table.refused(PEER, 4, 5),
        Err(("the number of puts that it refused", 5))
    );
}

/// A peer that tells of very many is not believed; another one is, all the same.
#[test]
fn refusals_of_one_peer_are_no_others() {
    let mut table = SegmentTable::default();
    let most = ANNOUNCED_MAX as u32;
    for handle in 0..most {
        table.refused(PEER, handle, 1).unwrap();
    }
    let many = Err(("the number of puts that it refused", 1));
    assert_eq!(table.refused(PEER, most, 1), many);
    assert_eq!(table.refused(PEER, 7, 2), Ok(()));
    assert_eq!(table.refused(Peer(2), 0, 1), Ok(()));
    assert_eq!(table.refused_since(Peer(2), 0), 1);
}
