use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

fn from(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn gate(places: usize) -> Gate {
    Gate::new(Limits {
        places,
        patience: ms(2000),
        known_patience: ms(60_000),
    })
}

fn wait(g: &mut Gate, now: Instant, source: u32) -> (GateSlot, Option<GateSlot>) {
    match g.admit(now, from(source)) {
        Admission::Wait { place, drop } => (place, drop),
        Admission::TurnAway => panic!("turned away"),
    }
}

#[test]
fn who_says_nothing_is_dropped_in_time_and_counted() {
    let (mut g, t) = (gate(4), Instant::now());
    let (p, _) = wait(&mut g, t, 1);
    assert_eq!(g.next_deadline(), Some(t + ms(2000)));
    assert_eq!(g.overdue(t + ms(1999)), None);
    assert_eq!(g.overdue(t + ms(2000)), Some(p));
    let h = Handshake::responder(&secret(), listener());
    g.refused(p, t + ms(2000), &h.late());
    assert_eq!((g.waiting(), g.next_deadline()), (0, None));
    assert_eq!(g.tally().refused[Reason::TooSlow as usize], 1);
    assert_eq!(g.tally().sentence(), "1 too slow (last from 10.0.0.1)");
}

#[test]
fn a_flood_of_half_open_connections_drops_its_own_oldest() {
    let (mut g, t) = (gate(64), Instant::now());
    for n in 0..10_000u32 {
        let (place, drop) = wait(&mut g, t + ms(u64::from(n)) / 100, n % 7);
        assert!(place.index() < 64 && g.waiting() <= 64);
        assert_eq!(drop.map(GateSlot::index), (n >= 64).then_some(n as usize % 64));
        assert!(drop != Some(place));
    }
    assert_eq!(g.tally().refused[Reason::Crowded as usize], 10_000 - 64);
}

#[test]
fn a_member_of_the_job_gets_through_a_flood() {
    let (mut g, t) = (gate(8), Instant::now());
    let flood = |g: &mut Gate, n: u64| {
        for i in 0..100 {
            g.admit(t + ms(n * 100 + i), from(9));
        }
    };
    flood(&mut g, 0);
    let (p, _) = wait(&mut g, t + ms(100), 9);
    g.known(p, t + ms(100), [1; 16]).unwrap();
    flood(&mut g, 1);
    // Still there after a hundred more from the same address, and not late after a minute less a moment.
    assert!(g.overdue(t + ms(60_000)) != Some(p));
    g.passed(p);
    assert_eq!(g.tally().passed, 1);
    assert_eq!(g.waiting(), 7);
}

#[test]
fn an_address_with_a_bad_name_goes_first_and_is_forgiven() {
    let (mut g, t) = (gate(2), Instant::now());
    for _ in 0..8 {
        let (p, _) = wait(&mut g, t, 66);
        g.refused(p, t, &Refusal::WrongSecret);
    }
    // Less time than others get.
    let (bad, _) = wait(&mut g, t, 66);
    assert_eq!(g.next_deadline(), Some(t + ms(500)));
    // Others take its place, although it is not the oldest that could go.
    let (good, _) = wait(&mut g, t, 1);
    let (other, drop) = wait(&mut g, t + ms(1), 2);
    assert_eq!(drop, Some(bad));
    // It takes nobody's.
    assert_eq!(g.admit(t + ms(2), from(66)), Admission::TurnAway);
    g.passed(good);
    g.passed(other);
    // Time passes.
    let later = t + ms(20_000);
    wait(&mut g, later, 66);
    assert_eq!(g.next_deadline(), Some(later + ms(2000)));
}

/// Who plays a member's first message again is a stranger: its place is free at once, however often it comes.
#[test]
fn a_first_message_once_more_has_no_claim() {
    let (mut g, t) = (gate(4), Instant::now());
    let (member, _) = wait(&mut g, t, 1);
    g.known(member, t, [7; 16]).unwrap();
    // Asked again about the same connection.
    g.known(member, t, [7; 16]).unwrap();
    for n in 0..100 {
        let (player, drop) = wait(&mut g, t + ms(n), 9);
        assert_eq!(drop, None);
        assert_eq!(g.known(player, t + ms(n), [7; 16]), Err(Refusal::Replay));
        g.refused(player, t + ms(n), &Refusal::Replay);
        assert_eq!(g.waiting(), 1);
    }
    // So it is after the member has gone.
    g.passed(member);
    let (player, _) = wait(&mut g, t + ms(200), 9);
    assert_eq!(g.known(player, t + ms(200), [7; 16]), Err(Refusal::Replay));
    g.refused(player, t + ms(200), &Refusal::Replay);
    // Another member's is another message.
    let (other, _) = wait(&mut g, t + ms(200), 9);
    g.known(other, t + ms(200), [8; 16]).unwrap();
    // More messages than are remembered take no more memory, and the latest are refused.
    for n in 0..70_000u64 {
        let (place, _) = wait(&mut g, t + ms(300), 1);
        let hello: [u8; 16] = core::array::from_fn(|at| n.to_le_bytes()[at % 8]);
        g.known(place, t + ms(300), hello).unwrap();
        g.passed(place);
    }
    let (player, _) = wait(&mut g, t + ms(300), 9);
    let last: [u8; 16] = core::array::from_fn(|at| 69_999u64.to_le_bytes()[at % 8]);
    assert_eq!(g.known(player, t + ms(300), last), Err(Refusal::Replay));
}

#[test]
fn members_that_connect_all_at_once_do_not_drive_each_other_out() {
    let (mut g, t) = (gate(4), Instant::now());
    let first: Vec<GateSlot> = (0..4).map(|n| wait(&mut g, t, n).0).collect();
    assert_eq!(g.room(t + ms(1)), Err(t + ms(100)));
    // One more is taken as soon as one is through.
    g.known(first[2], t + ms(1), [2; 16]).unwrap();
    g.passed(first[2]);
    assert_eq!(g.room(t + ms(2)), Ok(()));
    assert_eq!(wait(&mut g, t + ms(2), 5).1, None);
    // Those who know the secret are left in peace longer than strangers.
    assert_eq!(g.room(t + ms(100)), Ok(()));
    for (n, p) in first.iter().enumerate() {
        g.known(*p, t + ms(3), [n as u8 + 10; 16]).unwrap();
    }
    assert_eq!(g.room(t + ms(100)), Err(t + ms(102)));
    let (p, drop) = wait(&mut g, t + ms(102), 6);
    assert_eq!(drop.map(GateSlot::index), Some(2));
    g.known(p, t + ms(103), [3; 16]).unwrap();
    assert_eq!(g.room(t + ms(103)), Err(t + ms(2000)));
}

#[test]
fn a_place_is_not_mistaken_for_its_next_user() {
    let (mut g, t) = (gate(1), Instant::now());
    let (first, _) = wait(&mut g, t, 1);
    let (second, drop) = wait(&mut g, t, 2);
    assert_eq!(drop, Some(first));
    g.passed(first);
    g.refused(first, t, &Refusal::WrongSecret);
    assert_eq!((g.waiting(), g.tally().passed), (1, 0));
    g.passed(second);
    assert_eq!((g.waiting(), g.tally().passed), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes from wherever: never more than the places, every connection is accounted for.
    #[test]
    fn accounts_balance(steps in proptest::collection::vec((0..6u8, 0..200u32, 0..3000u64), 0..400)) {
        let (mut g, mut t) = (gate(16), Instant::now());
        let mut open: Vec<GateSlot> = Vec::new();
        for (what, who, wait) in steps {
            t += ms(wait / 10);
            match (what, open.len()) {
                (0..=2, _) | (_, 0) => {
                    if let Admission::Wait { place, drop } = g.admit(t, from(who)) {
                        open.retain(|p| Some(*p) != drop);
                        prop_assert!(open.iter().all(|p| p.index() != place.index()));
                        open.push(place);
                    }
                }
                (3, n) => g.passed(open.swap_remove(who as usize % n)),
                (4, n) => g.refused(open.swap_remove(who as usize % n), t, &Refusal::Replay),
                (_, n) => drop(g.known(open[who as usize % n], t, [who as u8; 16])),
            }
            while let Some(p) = g.overdue(t) {
                g.refused(p, t, &Refusal::TooSlow(HandshakeStage::Hello));
                open.retain(|x| *x != p);
            }
            prop_assert_eq!(g.waiting(), open.len());
            prop_assert!(g.waiting() <= 16);
            let tally = g.tally();
            prop_assert_eq!(tally.came, tally.passed + tally.all_refused() + open.len() as u64);
        }
    }
}
