//! JAM: process 1 sends process 0 any messages, of the program and of JAM's own protocols, with the right check, while process 2
//! and process 0 use everything. What process 2 sends arrives.

use crate::input::{Input, Script};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{PACKET_BYTES, PacketQueue, Peer, Port, Priority};
use farpost_jam::vi::Batch;
use farpost_jam::{Header, Jam, JamTunables};
use std::cell::Cell;
use std::rc::Rc;

const SMALL: JamTunables = JamTunables {
    rpc_rdma: 84,
    rpc_max: 4096,
    owner_silence: 1,
    vi_ring: 4096,
};
const PROCEDURE: u32 = 1;

fn jam(end: InProc, calls: &Rc<Cell<u64>>) -> Jam<InProc> {
    let jam = Jam::new(Rc::new(end), &SMALL, &WaitTunables::default());
    let calls = Rc::clone(calls);
    let procedure = move |jam: &Jam<InProc>, from: Peer, argument: &[u8]| {
        assert!(argument.len() as u64 <= SMALL.rpc_max);
        if from == Peer(2) && jam.me() == Peer(0) {
            assert!(argument.iter().all(|byte| *byte == argument.len() as u8));
            calls.set(calls.get() + 1);
        }
    };
    jam.register(PROCEDURE, Rc::new(procedure)).expect("registered");
    jam
}

/// A message with its check: who it is for, of which service, how many words it says that it has.
fn message(service: u8, tag: u32, low: bool, words: u8, payload: &[u8]) -> Vec<u8> {
    let head = u32::from(service & 15) << 16 | u32::from(low) << 25 | u32::from(words & 31) << 26;
    let mut bytes = [head.to_le_bytes(), tag.to_le_bytes()].concat();
    bytes.extend_from_slice(payload);
    let check = farpost_jam::fuzzing::check(&bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        full_every: 0,
        queue_packets: 64,
        bulk: input.u8() & 1 == 0,
        ..Config::default()
    };
    let mut ends = Network::new(3, 1, config);
    let network = ends[0].network().clone();
    let calls = Rc::new(Cell::new(0));
    let honest = jam(ends.pop().expect("an end"), &calls);
    let peer = ends.pop().expect("an end");
    let victim = jam(ends.pop().expect("an end"), &calls);
    let (mut started, mut rung, mut sent) = (0, 0u32, 0u32);
    let (mut came, mut batches) = (0u32, 0u32);
    let mut steps = 0;
    let take = |came: &mut u32, batches: &mut u32| {
        for priority in Priority::ALL {
            while let Some(message) = victim.receive(priority) {
                assert!((2..=22).contains(&message.words().len()));
                if message.from == Peer(2) {
                    assert_eq!(message.tag, *came);
                    *came += 1;
                }
            }
        }
        victim.receive_batches(100, |from, tag, words| {
            assert!(words.len() <= 22);
            if from == Peer(2) {
                assert_eq!(tag, *batches);
                *batches += 1;
            }
        });
    };
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 300 {
            break;
        }
        let priority = Priority::ALL[usize::from(step >> 7)];
        match step & 7 {
            0 | 1 => {
                let (service, tag) = (input.u8(), input.number() as u32);
                let payload = input.counted();
                let payload = &payload[..payload.len().min(100) & !3];
                // Mostly as many as there are.
                let words = match service >> 4 {
                    0 => (payload.len() / 4) as u8,
                    other => other,
                };
                let low = (priority == Priority::Low) ^ (service & 8 != 0);
                let bytes = message(service & 7, tag, low, words, payload);
                let port = if step & 1 == 0 {
                    Port::JamService
                } else {
                    Port::Jam
                };
                let _ = peer.try_send(Peer(0), port, priority, &bytes);
            }
            2 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(PACKET_BYTES)];
                let _ = peer.try_send(Peer(0), Port::JamService, priority, bytes);
            }
            3 => {
                let len = usize::from(input.u8());
                honest
                    .rpc(Peer(0), PROCEDURE, &vec![len as u8; len])
                    .expect("a call");
                started += 1;
            }
            4 => {
                // What goes to process 1 may wait for its answer for ever.
                let _ = victim.rpc(Peer(1), PROCEDURE, &vec![1; usize::from(input.u8())]);
                if step & 0x10 != 0 {
                    let _ = victim.rdma().send(Peer(1), 5, vec![1; 500]);
                }
                if step & 0x20 != 0 {
                    victim.rdma().post(vec![0; 2000]);
                }
            }
            5 => {
                let mut batch = Batch::new(Peer(0));
                batch.push(rung, &[1, 2, 3]).expect("a short message");
                if let Ok(true) = honest.doorbell(&mut batch) {
                    rung += 1;
                }
                let header = Header::new(Peer(0), Priority::Low, sent);
                if honest.send(&header, &[sent, 1]).is_ok() {
                    sent += 1;
                }
            }
            6 => {
                victim.poll();
                take(&mut came, &mut batches);
            }
            _ => {
                for _ in 0..step >> 3 & 15 {
                    network.step();
                }
                for port in [Port::Jam, Port::JamService] {
                    let _ = peer.poll_priority(port, priority, |_, _| ());
                }
            }
        }
        honest.poll();
    }
    network.kill(Peer(1));
    for turn in 0..20_000 {
        victim.poll();
        take(&mut came, &mut batches);
        honest.poll();
        network.step();
        if (calls.get(), came, batches) == (started, sent, rung) {
            break;
        }
        assert!(
            turn < 19_999,
            "{} of {started} calls, {came} of {sent} messages, {batches} of {rung} in batches",
            calls.get()
        );
    }
    while let Some(fault) = victim.next_fault() {
        assert_eq!(fault.peer, Peer(1), "{fault:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = || Script::default().u8(0);
    let of = |script: Script, step: u8, service: u8, tag: u64, words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        script.u8(step).u8(service).number(tag).counted(&bytes)
    };
    let turn = |script: Script| script.u8(0x7f).u8(6);
    let honest = |script: Script| turn(script.u8(3).u8(10).u8(3).u8(200).u8(5).u8(5));
    vec![
        turn(of(honest(script()), 1, 0, 7, &[1, 2, 3])).0,
        turn(of(script(), 0, 1, 1, &[8, 2, 3])).0,
        turn(of(of(script(), 0, 1, 1, &[2; 22]), 0, 1, 1, &[3; 22])).0,
        turn(of(honest(script()), 0x80, 2, 1, &[0, 1, 500, 0, 5, 0, 0, 0, 77])).0,
        turn(of(script().u8(0x34).u8(200), 0x80, 2, 2, &[0, 0, 0, 0])).0,
        turn(of(script(), 0, 3, 1, &[64, 0, 1, 0])).0,
        turn(script().u8(2).counted(&message(1, 1, true, 2, &[1; 8]))).0,
    ]
}
