use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn dial(n: u16, now: Instant) -> Dial {
    let candidate = |i: u16| Candidate {
        to: ([10, 0, 0, 2], 4000 + i).into(),
        from: None,
        interface: format!("eth{i}"),
        why: String::new(),
    };
    let limits = DialLimits {
        stagger: ms(250),
        attempt: ms(2000),
        total: ms(5000),
    };
    Dial::new((0..n).map(candidate).collect(), limits, now)
}

fn start(d: &mut Dial, now: Instant) -> (Attempt, usize) {
    match d.step(now) {
        DialStep::Start(a, n) => (a, n),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_address_joins_after_a_moment_and_the_first_through_wins() {
    let t = Instant::now();
    let mut d = dial(3, t);
    let (a, n) = start(&mut d, t);
    assert_eq!(n, 0);
    assert_eq!(d.step(t), DialStep::Wait(t + ms(250)));
    let (b, n) = start(&mut d, t + ms(250));
    assert_eq!(n, 1);
    assert_eq!(d.succeeded(b), [a]);
}

#[test]
fn a_failure_starts_the_next_at_once() {
    let t = Instant::now();
    let mut d = dial(2, t);
    let (a, _) = start(&mut d, t);
    d.failed(a, t + ms(1), "connection refused");
    let (b, n) = start(&mut d, t + ms(1));
    assert_eq!(n, 1);
    // All have failed: once more, after a pause.
    d.failed(b, t + ms(2), "network unreachable");
    assert_eq!(d.step(t + ms(2)), DialStep::Wait(t + ms(52)));
    assert_eq!(start(&mut d, t + ms(52)).1, 0);
    assert_eq!(
        d.report(t + ms(52)),
        "10.0.0.2:4000 via eth0: connection refused; 10.0.0.2:4001 via eth1: network unreachable"
    );
    // A late word about an attempt that is over changes nothing.
    d.failed(a, t + ms(60), "nonsense");
    assert!(!d.report(t).contains("nonsense"));
}

#[test]
fn an_address_that_swallows_everything_is_given_up_in_time() {
    let t = Instant::now();
    let mut d = dial(1, t);
    let (a, _) = start(&mut d, t);
    assert_eq!(d.step(t + ms(1)), DialStep::Wait(t + ms(2000)));
    assert_eq!(d.step(t + ms(2000)), DialStep::Abandon(a));
    let mut now = t + ms(2000);
    let why = loop {
        match d.step(now) {
            DialStep::Wait(until) => {
                assert!(until > now);
                now = until;
            }
            DialStep::GiveUp(why) => break why,
            DialStep::Start(..) | DialStep::Abandon(_) => {}
        }
    };
    assert_eq!(now, t + ms(5000));
    assert_eq!(
        why,
        "10.0.0.2:4000 via eth0: no answer in 2 s (tried 3 times in 5 s)"
    );
}

#[test]
fn after_a_long_absence_every_address_still_has_its_try() {
    let t = Instant::now();
    let mut d = dial(2, t);
    let (a, _) = start(&mut d, t);
    let late = t + ms(60_000);
    assert_eq!(d.step(late), DialStep::Abandon(a));
    let (b, n) = start(&mut d, late);
    assert_eq!(n, 1);
    assert_eq!(d.step(late), DialStep::Wait(late + ms(2000)));
    d.failed(b, late + ms(1), "connection refused");
    assert!(matches!(d.step(late + ms(1)), DialStep::GiveUp(_)));
}

#[test]
fn no_address_is_said_at_once() {
    let t = Instant::now();
    assert!(matches!(dial(0, t).step(t), DialStep::GiveUp(_)));
}

proptest! {
    /// Whatever fails whenever: it ends, soon after its time, with a reason, and never waits for what has passed.
    #[test]
    fn it_always_ends(n in 1u16..6, events in proptest::collection::vec((any::<bool>(), 0u64..3000), 0..60)) {
        let t = Instant::now();
        let (mut d, mut now) = (dial(n, t), t);
        let mut running = Vec::new();
        let mut events = events.into_iter();
        for turn in 0.. {
            prop_assert!(turn < 10_000, "no end");
            match d.step(now) {
                DialStep::Start(a, which) => {
                    prop_assert!(which < usize::from(n));
                    running.push(a);
                }
                DialStep::Abandon(a) => {
                    prop_assert!(running.contains(&a));
                    running.retain(|x| *x != a);
                }
                DialStep::Wait(until) => {
                    prop_assert!(until > now);
                    match events.next() {
                        Some((true, _)) if !running.is_empty() => d.failed(running.swap_remove(0), now, "refused"),
                        Some((_, jump)) => now += ms(jump),
                        None => now = until,
                    }
                }
                DialStep::GiveUp(why) => {
                    prop_assert!(running.is_empty() && !why.is_empty());
                    prop_assert!(now >= t + ms(5000));
                    break;
                }
            }
        }
    }
}
