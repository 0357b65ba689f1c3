//! An agent of a host, of which one member asks anything. Two others go on exchanging messages, and each other's memory stays theirs.
//!
//! Script: questions: kind, how many words, and words.

use crate::hosts::{BASE, One, PT, agent, any};
use crate::input::{Input, Script};
use farpost_portals::{AckReq, EventKind, NetworkInterface, Target, option};

const BOTH: u32 = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;

fn to(one: &One) -> Target {
    Target {
        id: one.id,
        pt_index: PT,
        ac_index: 0,
        match_bits: 1,
        offset: 0,
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let agent = agent();
    let (a, b, mut bad) = (any(&agent), any(&agent), any(&agent));
    b.attach(1, b.md(0, 64, BOTH), None);
    b.fill(64, &[9; 64]);
    let from = a.bind(a.md(0, 8, 0));
    for turn in 0..40u8 {
        let Some(kind) = input.step() else { break };
        let count = input.u8() % 64;
        let words: Vec<u64> = [u64::from(kind)]
            .into_iter()
            .chain((0..count).map(|_| input.number()))
            .collect();
        let pid = bad.id.pid;
        let asked = agent.borrow_mut().ask(pid, &words);
        match asked {
            Ok(told) => assert!(!told.is_empty(), "an answer has a code"),
            Err(_) => {
                agent.borrow_mut().leave(pid);
                bad.ended.set(true);
                bad = any(&agent);
            }
        }
        // What the bad one has put is within what was shown to it.
        assert_eq!(b.bytes(64, 64), [9; 64]);
        drop(b.events());
        a.fill(0, &[turn; 8]);
        a.member.put(from, AckReq::Ack, &to(&b), 5).expect("a put");
        assert_eq!(b.bytes(0, 8), [turn; 8]);
        assert_eq!(a.events().last().map(|event| event.kind), Some(EventKind::Ack));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let pair = |low: u64, high: u64| low | high << 32;
    let any = u64::MAX;
    let eq = 0xbfff_ffff;
    let md = [BASE as u64, 500, pair(0xffff_ffff, 0x1f), 0, 0, eq];
    let to = [pair(0, 1022), pair(3, 0), 1, 0];
    let mut all = vec![];
    for kind in (10..27).chain([40, 41, 42]) {
        let words: Vec<u64> = match kind {
            10..=12 => vec![3, any, 9, 0, 0, 0],
            14 | 15 => [&[1, 0][..], &md, &[0]].concat(),
            17 => [&[1, eq, 0, 1][..], &md, &[0]].concat(),
            23..=26 => [&[pair(1, 1), pair(0, 1), 0, 100][..], &to, &[5]].concat(),
            _ => vec![1, 2, 3],
        };
        let script = Script::default().u8(kind).u8(words.len() as u8);
        all.push(words.iter().fold(script, |script, word| script.number(*word)).0);
    }
    all
}
