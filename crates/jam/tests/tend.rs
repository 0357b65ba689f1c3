//! What calls leave behind goes out while the program calls nothing and somebody tends, and no procedure runs meanwhile.

mod support;

use farpost_fabric::inproc::{Config, InProc};
use farpost_fabric::{Peer, Priority};
use farpost_jam::{Header, Jam, JamTunables, Tended};
use std::cell::Cell;
use std::rc::Rc;
use support::{jams, roomy, until};

const CALLS: u32 = 200;
const LONG: usize = 20_000;

/// Process 1 polls, process 0 only tends, and things arrive.
fn tended(jams: &[Jam<InProc>], mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..100_000 {
        if done() {
            return true;
        }
        jams[0].tend();
        jams[1].poll();
        jams[0].fabric().network().step();
    }
    false
}

fn count(jam: &Jam<InProc>, number: u32) -> Rc<Cell<u32>> {
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let procedure = Rc::new(move |_: &Jam<InProc>, _, _: &[u8]| counted.set(counted.get() + 1));
    jam.register(number, procedure).unwrap();
    count
}

#[test]
fn what_calls_leave_behind_goes_out_and_nothing_runs() {
    for (seed, bulk) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = Config {
            bulk,
            queue_packets: 6 + seed as usize % 8,
            ..Config::default()
        };
        let jams = jams(2, seed, config, &JamTunables::default());
        let (here, there) = (count(&jams[0], 1), count(&jams[1], 1));
        let mut messages = 0;
        jams[1].rdma().post(vec![0; LONG]);
        // For the one that tends: it waits for its polls.
        jams[1].rpc(Peer(0), 1, &[1]).unwrap();
        jams[0].rpc(Peer(0), 1, &[2]).unwrap();
        for _ in 0..CALLS {
            jams[0].rpc(Peer(1), 1, &[3; 50]).unwrap();
        }
        jams[0].rpc(Peer(1), 1, &[4; LONG]).unwrap();
        for tag in 0..10 {
            let header = Header::new(Peer(1), Priority::Low, tag);
            jams[0].send(&header, &[1, 2]).unwrap();
        }
        let transfer = jams[0].rdma().send(Peer(1), 9, vec![5; LONG]).unwrap();
        let mut block = None;
        let all = tended(&jams, || {
            messages += u32::from(jams[1].receive(Priority::Low).is_some());
            block = block.take().or_else(|| jams[1].rdma().arrived());
            there.get() == CALLS + 1 && messages == 10 && block.is_some()
        });
        assert!(all, "{} calls, {messages} messages, seed {seed}", there.get());
        assert_eq!(block.unwrap().bytes(), [5; LONG]);
        // Its end is told without a poll, and then nothing is left to do.
        let mut ended = None;
        assert!(tended(&jams, || {
            ended = ended.take().or_else(|| jams[0].rdma().ended(transfer));
            ended.is_some()
        }));
        assert_eq!(ended, Some(Ok(())));
        assert_eq!((jams[0].tend(), here.get()), (Tended::Nothing, 0));
        until(&jams, || here.get() == 2);
        assert_eq!((jams[0].refused(), jams[1].refused()), (0, 0));
    }
}

thread_local! {
    static TOLD: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn a_call_that_leaves_something_behind_tells() {
    let jams = jams(2, 1, roomy(4), &JamTunables::default());
    TOLD.set(0);
    jams[0].set_left_over(Some(|| TOLD.set(TOLD.get() + 1)));
    jams[0].rpc(Peer(1), 1, &[1]).unwrap();
    assert_eq!((TOLD.get(), jams[0].tend()), (0, Tended::Nothing));
    while TOLD.get() == 0 {
        jams[0].rpc(Peer(1), 1, &[1]).unwrap();
    }
    // Nobody takes anything in: only time would help.
    assert_eq!(jams[0].tend(), Tended::Waits);
    for long in [vec![1; LONG], vec![2; LONG]] {
        let before = TOLD.get();
        jams[0].rpc(Peer(1), 1, &long).unwrap();
        assert!(TOLD.get() > before);
    }
}
