//! Block transfers that go wrong, what they keep out meanwhile, and long arguments of calls.

mod support;

use farpost_fabric::inproc::{Config, InProc};
use farpost_fabric::{FabricError, Peer, Priority};
use farpost_jam::rdma::Transfer;
use farpost_jam::{Buffer, CallRoute, FailedCall, Header, Jam, JamError, JamTunables};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use support::{jams, roomy, step, until};

/// By packets, or fetched by the receiver.
fn ways(seed: u64) -> [Config; 2] {
    [false, true].map(|bulk| Config {
        bulk,
        queue_packets: 6 + seed as usize % 8,
        ..Config::default()
    })
}

fn outcome(jams: &[Jam<InProc>], sender: usize, transfer: Transfer) -> Result<(), JamError> {
    let mut result = None;
    until(jams, || {
        result = jams[sender].rdma().ended(transfer);
        result.is_some()
    });
    result.unwrap()
}

/// The next block at process 0 that is `tag`, of `len` bytes of that value.
fn comes(jams: &[Jam<InProc>], tag: u32, len: usize) {
    let mut block = None;
    until(jams, || {
        block = jams[0].rdma().arrived();
        block.is_some()
    });
    let block = block.unwrap();
    assert_eq!((block.tag, block.len), (tag, len));
    assert!(block.bytes().iter().all(|byte| *byte == tag as u8));
}

#[test]
fn a_block_that_changes_on_its_way_is_refused_by_its_check() {
    for (seed, config) in (0..10).flat_map(|seed| ways(seed).map(|config| (seed, config))) {
        let jams = jams(2, seed, config, &JamTunables::default());
        jams[0].rdma().post(vec![0; 5000]);
        let memory: Vec<AtomicU8> = (0..5000).map(|_| AtomicU8::new(1)).collect();
        // SAFETY: the memory outlives the transfer. One byte of it is changed in between: that is the damage.
        let lent = unsafe { Buffer::lent(memory.as_ptr().cast_mut().cast(), memory.len()) };
        let transfer = jams[1].rdma().send(Peer(0), 1, lent).unwrap();
        memory[4321].fetch_xor(0x10, Ordering::Relaxed);
        let damaged = JamError::Damaged {
            peer: Peer(0),
            bytes: 5000,
        };
        assert_eq!(outcome(&jams, 1, transfer), Err(damaged));
        assert!(jams[0].rdma().arrived().is_none());
        let fault = jams[0].next_fault().unwrap();
        assert!(matches!(
            fault.error,
            FabricError::Corrupt {
                peer: Peer(1),
                what: "the check of a block",
                ..
            }
        ));
        // The memory is for the next one.
        let transfer = jams[1].rdma().send(Peer(0), 2, vec![2; 5000]).unwrap();
        comes(&jams, 2, 5000);
        assert_eq!(outcome(&jams, 1, transfer), Ok(()));
        assert_eq!(jams[0].next_fault(), None);
    }
}

/// Pages that can be taken away.
fn pages(len: usize) -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new pages, wherever there is room.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    address.cast()
}

#[test]
fn a_fetch_that_fails_is_an_error_of_its_own() {
    const BYTES: usize = 3 << 12;
    for seed in 0..10 {
        let jams = jams(2, seed, Config::default(), &JamTunables::default());
        jams[0].rdma().post(vec![9; BYTES]);
        let address = pages(BYTES);
        // SAFETY: the pages are there until the check of the block has been made; afterwards only the kernel looks for them.
        let lent = unsafe { Buffer::lent(address, BYTES) };
        let transfer = jams[1].rdma().send(Peer(0), 1, lent).unwrap();
        // SAFETY: as mapped above.
        assert_eq!(unsafe { libc::munmap(address.cast(), BYTES) }, 0);
        let failed = JamError::NotFetched {
            peer: Peer(0),
            bytes: BYTES,
        };
        assert_eq!(outcome(&jams, 1, transfer), Err(failed));
        assert_eq!(jams[0].next_fault().map(|fault| fault.peer), Some(Peer(1)));
        jams[1].rdma().send(Peer(0), 2, vec![2; 300]).unwrap();
        comes(&jams, 2, 300);
    }
}

#[test]
fn a_silent_owner_loses_its_right() {
    let tunables = JamTunables {
        owner_silence: 1,
        ..JamTunables::default()
    };
    for seed in 0..10 {
        let config = Config {
            bulk: false,
            ..roomy(8)
        };
        let jams = jams(3, seed, config, &tunables);
        jams[0].rdma().post(vec![0; 1 << 16]);
        let first = jams[1].rdma().send(Peer(0), 1, vec![1; 1 << 16]).unwrap();
        until(&jams, || jams[0].rdma().is_owned());
        for _ in 0..20 {
            step(&jams);
        }
        // From now on process 1 computes, and another wants to send.
        jams[2].rdma().send(Peer(0), 2, vec![2; 5000]).unwrap();
        let started = jams[0].fabric().network().now();
        let mut block = None;
        while block.is_none() {
            jams[0].poll();
            jams[2].poll();
            jams[0].fabric().network().step();
            block = jams[0].rdma().arrived();
            assert!((jams[0].fabric().network().now() - started).as_millis() < 1000);
        }
        let block = block.unwrap();
        assert_eq!((block.from, block.tag, block.len), (Peer(2), 2, 5000));
        assert!(block.bytes().iter().all(|byte| *byte == 2));
        assert!((jams[0].fabric().network().now() - started).as_micros() >= 900);
        let fault = jams[0].next_fault().unwrap();
        assert_eq!(fault.peer, Peer(1));
        assert!(fault.error.to_string().contains("FARPOST_JAM_OWNER_SILENCE"));
        // It hears of it, and what it still sends is nobody's fault.
        let silent = JamError::Silent {
            peer: Peer(0),
            millis: 1,
        };
        assert_eq!(outcome(&jams, 1, first), Err(silent));
        jams[0].rdma().post(vec![0; 100]);
        jams[1].rdma().send(Peer(0), 3, vec![3; 100]).unwrap();
        comes(&jams, 3, 100);
        assert_eq!((jams[0].next_fault(), jams[0].refused()), (None, 0));
    }
}

#[test]
fn a_slow_owner_keeps_its_right() {
    let tunables = JamTunables {
        owner_silence: 1,
        ..JamTunables::default()
    };
    let config = Config {
        bulk: false,
        ..roomy(8)
    };
    let jams = jams(2, 3, config, &tunables);
    jams[0].rdma().post(vec![0; 1 << 13]);
    let transfer = jams[1].rdma().send(Peer(0), 1, vec![1; 1 << 13]).unwrap();
    let network = jams[0].fabric().network().clone();
    let started = network.now();
    let (mut result, mut polled) = (None, started);
    while result.is_none() {
        // A few packets every 0.7 milliseconds.
        if (network.now() - polled).as_micros() > 700 {
            jams[1].poll();
            polled = network.now();
        }
        jams[0].poll();
        network.step();
        result = jams[1].rdma().ended(transfer);
    }
    assert_eq!(result, Some(Ok(())));
    assert!((network.now() - started).as_millis() > 5);
    comes(&jams, 1, 1 << 13);
}

#[test]
fn memory_that_was_posted_can_be_withdrawn() {
    for (seed, config) in (0..10).flat_map(|seed| ways(seed).map(|config| (seed, config))) {
        let fetched = config.bulk;
        let jams = jams(2, seed, config, &JamTunables::default());
        let rdma = jams[0].rdma();
        let (first, second) = (rdma.post(vec![7; 100]), rdma.post(vec![8; 200]));
        assert_eq!(
            rdma.withdraw(first).map(|memory| memory.bytes().to_vec()),
            Some(vec![7; 100])
        );
        assert!(rdma.withdraw(first).is_none());
        // What comes fits the second only.
        let transfer = jams[1].rdma().send(Peer(0), 2, vec![2; 150]).unwrap();
        // A fetch may be over before anybody looks.
        if !fetched {
            until(&jams, || rdma.is_owned());
            assert!(rdma.withdraw(second).is_none(), "a block is on its way to it");
        }
        assert_eq!(outcome(&jams, 1, transfer), Ok(()));
        assert!(rdma.withdraw(second).is_none(), "a block is in it");
        comes(&jams, 2, 150);
        assert!(rdma.withdraw(second).is_none());
        // What was asked for waits for memory when there is none.
        let third = rdma.post(vec![0; 10]);
        assert!(rdma.withdraw(third).is_some());
        let transfer = jams[1].rdma().send(Peer(0), 3, vec![3; 150]).unwrap();
        for _ in 0..300 {
            step(&jams);
        }
        assert_eq!(jams[1].rdma().ended(transfer), None);
        rdma.post(vec![0; 150]);
        comes(&jams, 3, 150);
    }
}

/// Memory of no bytes is the program's all the same: blocks of none go there, and it is the one that comes back.
#[test]
fn blocks_of_no_bytes_go_to_memory_of_none() {
    for (seed, config) in (0..10).flat_map(|seed| ways(seed).map(|config| (seed, config))) {
        let jams = jams(2, seed, config, &JamTunables::default());
        let places = [1u8, 2];
        // SAFETY: no bytes, of memory that stays.
        let lent = |at: usize| unsafe { Buffer::lent((&raw const places[at]).cast_mut(), 0) };
        let withdrawn = jams[0].rdma().post(lent(1));
        let back = jams[0].rdma().withdraw(withdrawn).unwrap();
        assert_eq!(back.bytes().as_ptr(), &raw const places[1]);
        jams[0].rdma().post(lent(0));
        let transfer = jams[1].rdma().send(Peer(0), 7, lent(1)).unwrap();
        assert_eq!(outcome(&jams, 1, transfer), Ok(()));
        let block = jams[0].rdma().arrived().unwrap();
        assert_eq!((block.tag, block.len), (7, 0));
        assert_eq!(block.memory.bytes().as_ptr(), &raw const places[0]);
        // A null pointer is no bytes, too.
        // SAFETY: no bytes.
        assert!(unsafe { Buffer::lent(std::ptr::null_mut(), 0) }.is_empty());
    }
}

/// Who leaves does not wait for a peer that waits for memory which is never posted.
#[test]
fn a_block_that_waits_for_memory_keeps_nobody_from_leaving() {
    for (seed, config) in (0..10).flat_map(|seed| ways(seed).map(|config| (seed, config))) {
        let jams = jams(2, seed, config, &JamTunables::default());
        let transfer = jams[1].rdma().send(Peer(0), 1, vec![1; 5000]).unwrap();
        for _ in 0..300 {
            step(&jams);
        }
        assert!(!jams[0].has_waiting() && jams[1].has_waiting());
        // It can go now: until it has, something waits.
        jams[0].rdma().post(vec![0; 5000]);
        assert!(jams[0].has_waiting());
        assert_eq!(outcome(&jams, 1, transfer), Ok(()));
        until(&jams, || !jams[0].has_waiting() && !jams[1].has_waiting());
        comes(&jams, 1, 5000);
    }
}

#[test]
fn a_block_on_its_way_keeps_other_high_messages_out_and_low_ones_go_on() {
    for seed in 0..20 {
        let config = Config {
            bulk: false,
            ..roomy(8)
        };
        let jams = jams(3, seed, config, &JamTunables::default());
        jams[0].rdma().post(vec![0; 20_000]);
        jams[1].rdma().send(Peer(0), 1, vec![1; 20_000]).unwrap();
        until(&jams, || jams[0].rdma().is_owned());
        // The owner and a third process send both kinds.
        for from in [1, 2] {
            for priority in Priority::ALL {
                let header = Header::new(Peer(0), priority, from);
                jams[from as usize].send(&header, &[from, from]).unwrap();
            }
        }
        let (mut low, mut high) = (0, 0);
        let mut low_first = 0;
        until(&jams, || {
            let owned = jams[0].rdma().is_owned();
            if owned {
                assert_eq!(jams[0].status().receive(Priority::High), 0);
            }
            low += usize::from(jams[0].receive(Priority::Low).is_some());
            high += usize::from(jams[0].receive(Priority::High).is_some());
            if jams[0].rdma().is_owned() {
                assert_eq!(high, 0, "a high message beside a block");
                low_first = low;
            }
            (low, high) == (2, 2)
        });
        assert_eq!(low_first, 2, "low messages arrive beside the block");
        comes(&jams, 1, 20_000);
    }
}

#[test]
fn high_messages_have_their_turn_between_blocks() {
    for seed in 0..10 {
        let config = Config {
            bulk: false,
            ..roomy(8)
        };
        let jams = jams(4, seed, config, &JamTunables::default());
        for n in 0..20 {
            jams[0].rdma().post(vec![0; 2000]);
            jams[1 + n % 2].rdma().send(Peer(0), 5, vec![5; 2000]).unwrap();
        }
        until(&jams, || jams[0].rdma().is_owned());
        jams[3]
            .send(&Header::new(Peer(0), Priority::High, 3), &[1, 2])
            .unwrap();
        let mut before = 0;
        until(&jams, || {
            before += usize::from(jams[0].rdma().arrived().is_some());
            jams[0].receive(Priority::High).is_some()
        });
        assert!(before < 5, "{before} blocks before a high message");
        for _ in before..20 {
            comes(&jams, 5, 2000);
        }
    }
}

/// Who takes no messages gets its blocks all the same.
#[test]
fn high_messages_that_nobody_takes_hold_up_no_blocks() {
    let jams = jams(3, 4, roomy(8), &JamTunables::default());
    jams[2]
        .send(&Header::new(Peer(0), Priority::High, 3), &[1, 2])
        .unwrap();
    for _ in 0..3 {
        jams[0].rdma().post(vec![0; 2000]);
        jams[1].rdma().send(Peer(0), 5, vec![5; 2000]).unwrap();
    }
    for _ in 0..3 {
        comes(&jams, 5, 2000);
    }
}

#[test]
fn a_long_argument_that_is_refused_reaches_the_caller() {
    for seed in 0..10 {
        let mut jams = jams(2, seed, Config::default(), &JamTunables::default());
        let small = JamTunables {
            rpc_max: 4096,
            ..JamTunables::default()
        };
        let ends = farpost_fabric::inproc::Network::new(2, seed, Config::default());
        jams.clear();
        for (end, tunables) in ends.into_iter().zip([JamTunables::default(), small]) {
            jams.push(Jam::new(
                Rc::new(end),
                &tunables,
                &farpost_fabric::wait::WaitTunables::default(),
            ));
        }
        let ran = Rc::new(Cell::new(0));
        let count = Rc::clone(&ran);
        let procedure = move |_: &Jam<InProc>, _: Peer, argument: &[u8]| count.set(argument.len());
        jams[1].register(3, Rc::new(procedure)).unwrap();
        jams[0].rpc(Peer(1), 3, &[1; 10_000]).unwrap();
        let mut failed = None;
        until(&jams, || {
            failed = jams[0].failed_call();
            failed.is_some()
        });
        let Some(FailedCall {
            to: Peer(1),
            procedure: 3,
            bytes: 10_000,
            error:
                JamError::TooLong {
                    bytes: 10_000,
                    most: 4096,
                    ..
                },
        }) = failed
        else {
            panic!("{failed:?}");
        };
        assert_eq!(ran.get(), 0);
        // The next one runs.
        jams[0].rpc(Peer(1), 3, &[1; 4096]).unwrap();
        until(&jams, || ran.get() == 4096);
        assert_eq!(jams[0].failed_call(), None);
        // With the same settings the caller knows at once.
        assert_eq!(
            jams[1].rpc(Peer(0), 3, &[0; 4097]).unwrap_err(),
            JamError::TooLong {
                what: "the argument of a procedure (FARPOST_JAM_RPC_MAX)",
                bytes: 4097,
                most: 4096
            }
        );
    }
}

#[test]
fn arguments_go_by_messages_or_by_block_as_their_length_says() {
    let sizes = [0, 1, 84, 85, 500, 2048];
    let long = [2049, 100_000];
    for (seed, config) in (0..4).flat_map(|seed| ways(seed).map(|config| (seed, config))) {
        let jams = jams(2, seed, config, &JamTunables::default());
        for jam in &jams {
            jam.register(1, Rc::new(|_, _, _| ())).unwrap();
        }
        let by = || [CallRoute::Messages, CallRoute::Block, CallRoute::Own].map(|way| jams[1].calls_by(way));
        for (index, len) in sizes.into_iter().enumerate() {
            jams[0].rpc(Peer(1), 1, &vec![0; len]).unwrap();
            until(&jams, || jams[1].calls() == index as u64 + 1);
            assert_eq!(by(), [index as u64 + 1, 0, 0], "{len} bytes");
        }
        for (index, len) in long.into_iter().enumerate() {
            jams[0].rpc(Peer(1), 1, &vec![0; len]).unwrap();
            until(&jams, || by()[1] == index as u64 + 1);
            assert_eq!(by(), [6, index as u64 + 1, 0], "{len} bytes");
        }
        jams[1].rpc(Peer(1), 1, &[0; 5000]).unwrap();
        until(&jams, || jams[1].calls() == 9);
        assert_eq!(by(), [6, 2, 1]);
    }
}
