//! On shared memory, an endpoint per thread: blocking calls, handlers that send, one slow receiver.
#![cfg(not(loom))]

use farpost_fabric::conformance::{End, Harness};
use farpost_fabric::{ErrorStatus, Fabric};
use farpost_fm::{Flow, Fm, FmTunables};
use farpost_shm::Shm;
use farpost_shm::conformance::ShmThreads;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const FEW: FmTunables = FmTunables {
    slots: 8,
    receive: 8,
    streams: 2,
    stack: 64 << 10,
    depth: 4,
    patience: 60,
};

async fn until(end: &End<Shm>, fm: &Fm<Shm>, what: &str, mut done: impl FnMut() -> bool) {
    end.until(what, || {
        fm.extract(usize::MAX);
        done()
    })
    .await;
}

/// Extract until everybody has got here.
async fn meet(end: &End<Shm>, fm: &Fm<Shm>, word: usize) {
    let me = end.me() as usize;
    end.post(word + me, 1);
    let all = end.fabric.size() as usize;
    until(end, fm, "the others", || {
        (0..all).all(|other| end.posted(word + other) == 1)
    })
    .await;
    assert!(fm.settle(Duration::from_secs(30)));
    end.barrier().await;
    assert_eq!(fm.take_faults(), (vec![], 0));
    assert_eq!(end.fabric.take_faults(), (vec![], 0));
}

/// Everybody floods everybody with requests whose handlers answer, with blocking sends and few slots.
#[test]
fn requests_and_answers_do_not_deadlock() {
    const EACH: u32 = 400;
    ShmThreads::default().run(3, async |end| {
        let fm = Fm::new(Rc::clone(&end.fabric), &FEW, &Default::default(), 8);
        let answers = Rc::new(RefCell::new([0u32; 3]));
        fm.register_message_handler(0, |fm, from, bytes| {
            fm.send(from.0, 1, bytes).unwrap();
        })
        .unwrap();
        let seen = Rc::clone(&answers);
        fm.register_message_handler(1, move |_, from, bytes| {
            assert_eq!(bytes.len(), 16);
            seen.borrow_mut()[from.index()] += u32::from_ne_bytes(bytes[12..].try_into().unwrap());
        })
        .unwrap();
        for i in 0..EACH {
            for to in end.others() {
                fm.send_4(to.0, 0, [i, 0, 0, 1]).unwrap();
            }
        }
        let wanted = |me: u32| std::array::from_fn(|to| if to == me as usize { 0 } else { EACH });
        until(end, &fm, "the answers", || *answers.borrow() == wanted(end.me())).await;
        meet(end, &fm, 0).await;
    });
}

/// One receiver that takes little at a time, many senders of messages and streams; then the other way round.
#[test]
fn soak_one_slow_receiver() {
    const SENDERS: u32 = 3;
    const EACH: u32 = 1500;
    ShmThreads::default().run(SENDERS + 1, async |end| {
        let fm = Fm::new(Rc::clone(&end.fabric), &FEW, &Default::default(), 8);
        type Seen = Rc<RefCell<(Vec<Vec<u32>>, Vec<u32>)>>;
        let seen: Seen = Rc::new(RefCell::new((
            vec![vec![]; SENDERS as usize],
            vec![0; SENDERS as usize],
        )));
        let log = Rc::clone(&seen);
        fm.register_message_handler(0, move |_, from, bytes| {
            let number = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
            assert!(
                bytes[4..].iter().all(|b| *b == number as u8),
                "message {number} of {from}"
            );
            log.borrow_mut().0[from.index()].push(number);
        })
        .unwrap();
        let log = Rc::clone(&seen);
        fm.register_handler(1, move |_, receive, from| {
            let number = log.borrow().1[from.index()];
            let mut all = vec![0; (number % 1000) as usize];
            receive.receive(&mut all).unwrap();
            assert!(receive.at_end().unwrap(), "stream {number} of {from}");
            assert!(
                all.iter().all(|b| *b == number as u8),
                "stream {number} of {from}"
            );
            log.borrow_mut().1[from.index()] += 1;
            Flow::Continue
        })
        .unwrap();
        end.barrier().await;
        if end.me() < SENDERS {
            for number in 0..EACH {
                let mut bytes = vec![number as u8; 4 + (number % 125) as usize];
                bytes[..4].copy_from_slice(&number.to_ne_bytes());
                fm.send(SENDERS, 0, &bytes).unwrap();
                if number % 10 == 0 {
                    let all = vec![(number / 10) as u8; (number / 10 % 1000) as usize];
                    let mut sending = loop {
                        match fm.begin_message(SENDERS, all.len(), 1).unwrap() {
                            Some(sending) => break sending,
                            None => {
                                fm.extract_civilly(usize::MAX);
                            }
                        }
                    };
                    for part in all.chunks(300) {
                        sending.piece(part).unwrap();
                    }
                    sending.end().unwrap();
                }
            }
        } else {
            end.until("everything", || {
                fm.extract(100);
                let seen = seen.borrow();
                seen.0.iter().all(|m| m.len() == EACH as usize) && seen.1.iter().all(|n| *n == EACH / 10)
            })
            .await;
            for numbers in &mut seen.borrow_mut().0 {
                numbers.sort_unstable();
                assert!(numbers.iter().copied().eq(0..EACH));
            }
        }
        meet(end, &fm, 0).await;
    });
}

/// Handlers of several senders are suspended in the middle of their messages, and go on in turn: nobody sends on before every handler has what was sent
/// to it, so all of them are in the middle at once.
#[test]
fn handlers_interleave() {
    const PARTS: u32 = 4;
    const SENDERS: [u32; 2] = [1, 2];
    ShmThreads::default().run(3, async |end| {
        let fm = Fm::new(Rc::clone(&end.fabric), &FEW, &Default::default(), 8);
        let log = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&log);
        fm.register_handler(0, move |_, receive, from| {
            for part in 0..PARTS {
                receive.skip(128).unwrap();
                seen.borrow_mut().push((part, from.0));
            }
            seen.borrow_mut().push((PARTS, from.0));
            Flow::Quit
        })
        .unwrap();
        end.barrier().await;
        if end.me() > 0 {
            let mut sending = fm.begin_message(0, 128 * PARTS as usize, 0).unwrap().unwrap();
            sending.piece(&[0; 128]).unwrap();
            for part in 1..PARTS {
                // A full frame leaves when more comes.
                sending.piece(&[0; 128]).unwrap();
                end.until("the handlers", || end.posted(10) >= u64::from(part))
                    .await;
            }
            sending.end().unwrap();
        } else {
            for part in 1..PARTS {
                let both = SENDERS.len() * part as usize;
                until(end, &fm, "a part of each", || log.borrow().len() == both).await;
                end.post(10, part.into());
            }
            let all = SENDERS.len() * (PARTS as usize + 1);
            until(end, &fm, "the ends", || log.borrow().len() == all).await;
            let mut parts: Vec<(u32, u32)> = log.borrow()[..all - 4].to_vec();
            // Whoever comes first in a part: no handler is a part ahead of another.
            parts.chunks_mut(2).for_each(<[_]>::sort_unstable);
            let wanted: Vec<(u32, u32)> = (0..PARTS - 1)
                .flat_map(|part| SENDERS.map(|from| (part, from)))
                .collect();
            assert_eq!(parts, wanted);
        }
        meet(end, &fm, 0).await;
    });
}

/// Programs that call extract in a loop do not keep the others from running, and a message finds a sleeper.
#[test]
fn civil_extraction_with_more_processes_than_cores() {
    let harness = ShmThreads {
        cores: 1,
        ..ShmThreads::default()
    };
    harness.run(4, async |end| {
        let fm = Fm::new(Rc::clone(&end.fabric), &FEW, &Default::default(), 8);
        let token = Rc::new(RefCell::new(0u32));
        let seen = Rc::clone(&token);
        fm.register_message_handler(0, move |_, _, bytes| {
            *seen.borrow_mut() = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        })
        .unwrap();
        end.barrier().await;
        let (me, size) = (end.me(), 4);
        for round in 0..50 {
            let turn = round * size + me + 1;
            if turn > 1 {
                while *token.borrow() != turn - 1 {
                    fm.extract_civilly(usize::MAX);
                }
            }
            fm.send_4(end.next().0, 0, [turn, 0, 0, 0]).unwrap();
        }
        meet(end, &fm, 0).await;
    });
}
