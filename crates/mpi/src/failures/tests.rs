use super::{Agreement, Message, Told, Verdict};
use std::collections::VecDeque;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

struct Process {
    agreement: Agreement,
    begun: bool,
    dead: bool,
    /// Whose end it knows of.
    knows: Vec<bool>,
}

/// Processes that end at random moments, messages that take their time, ends that are known sooner or later: those who are left come to an
/// outcome, and nobody ever had another one.
#[test]
fn all_that_decide_decide_the_same_whoever_ends_meanwhile() {
    let (mut after_a_leader, mut early) = (0, 0);
    for seed in 0..4000 {
        let draw = &mut Draw(seed);
        let size = 2 + draw.below(5);
        let fresh = |_| Process {
            agreement: Agreement::default(),
            begun: false,
            dead: false,
            knows: vec![false; size],
        };
        let mut all: Vec<Process> = (0..size).map(fresh).collect();
        let mut way: Vec<VecDeque<Message>> = vec![VecDeque::new(); size * size];
        let mut may_end = draw.below(size);
        for turn in 0.. {
            assert!(turn < 20_000, "seed {seed}: no end");
            let at = draw.below(size);
            match draw.below(8) {
                0 if may_end > 0
                    && !all[at].dead
                    && (all[at].agreement.decided().is_some() || draw.below(20) == 0) =>
                {
                    all[at].dead = true;
                    may_end -= 1;
                    after_a_leader += usize::from(at == 0);
                    early += usize::from(all[at].agreement.decided().is_some());
                }
                1 => {
                    let who = draw.below(size);
                    // What it sent before comes first.
                    if all[who].dead && way[who * size + at].is_empty() {
                        all[at].knows[who] = true;
                    }
                }
                2 if !all[at].begun && !all[at].dead => {
                    let mine = Verdict {
                        flags: !(1 << at),
                        acknowledged: vec![0],
                        ..Verdict::default()
                    };
                    all[at].begun = true;
                    all[at]
                        .agreement
                        .begin(at as u32, (0..size as u32).collect(), mine);
                }
                3 | 4 if !all[at].dead => {
                    let process = &mut all[at];
                    let knows = process.knows.clone();
                    let context = || 1000 + turn as u64;
                    for (to, message) in process.agreement.advance(|pid| knows[pid as usize], context) {
                        way[at * size + to as usize].push_back(message);
                        // Anybody may end between two messages.
                        if may_end > 0 && draw.below(20) == 0 {
                            all[at].dead = true;
                            may_end -= 1;
                            early += usize::from(all[at].agreement.decided().is_some());
                            break;
                        }
                    }
                }
                _ => {
                    let from = draw.below(size);
                    if let Some(message) = way[from * size + at].pop_front()
                        && !all[at].dead
                        && let Some(answer) = all[at].agreement.hear(from as u32, message)
                    {
                        way[at * size + from].push_back(answer);
                    }
                }
            }
            if all.iter().all(|p| p.dead || p.agreement.decided().is_some()) {
                break;
            }
        }
        let outcomes: Vec<&Verdict> = all.iter().filter_map(|p| p.agreement.decided()).collect();
        assert!(
            outcomes.windows(2).all(|two| two[0] == two[1]),
            "seed {seed}: {outcomes:?}"
        );
        for (pid, process) in all.iter().enumerate() {
            // Who is left has brought its part.
            if !process.dead {
                assert_eq!(outcomes[0].flags & 1 << pid, 0, "seed {seed}");
                assert!(!outcomes[0].failed.contains(&(pid as u32)), "seed {seed}");
            }
        }
    }
    assert!(
        after_a_leader > 100 && early > 20,
        "{after_a_leader} {early}: the cases that matter happen"
    );
}

#[test]
fn what_is_told_comes_back_from_its_bytes_and_malformed_bytes_do_not() {
    let verdict = Verdict {
        flags: -7,
        failed: vec![3, 5],
        acknowledged: vec![5],
        context: 1 << 40,
    };
    let agreeing = |message| Told::Agreeing {
        context: 12,
        serial: 3,
        message,
    };
    let all = [
        Told::Revoked { context: 99 },
        agreeing(Message::State {
            mine: verdict.clone(),
            proposal: None,
        }),
        agreeing(Message::State {
            mine: Verdict::default(),
            proposal: Some((4, verdict.clone())),
        }),
        agreeing(Message::Proposed(verdict.clone())),
        agreeing(Message::Accepted),
        agreeing(Message::Decided(verdict)),
    ];
    for told in all {
        let bytes = told.to_bytes();
        assert_eq!(Told::from_bytes(&bytes), Some(told));
        for len in 0..bytes.len() {
            assert_eq!(Told::from_bytes(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Told::from_bytes(&[&*bytes, &[0; 8]].concat()), None);
        assert_eq!(Told::from_bytes(&[&[0xff; 8], &bytes[8..]].concat()), None);
    }
}
