//! A body that both sides copy, under a model checker: a sender and a receiver claim its parts from both ends.

use crate::memory::Words;
use farpost_channel::{CopyOutcome, SharedCopy, Side};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

const CHUNK: u64 = 10;
/// Parts of the longest body.
const MOST: usize = 3;

/// What sender and receiver share.
struct Pair {
    memory: Words,
    /// Where the bodies go: whoever writes a part while another reads or writes it is an error that loom reports.
    parts: [UnsafeCell<u64>; MOST],
    /// Packets: how many bodies the receiver has let the sender copy, and how many it has ended.
    granted: AtomicU32,
    ended: AtomicU32,
}

impl Pair {
    fn line(&self) -> SharedCopy<'_, Words> {
        SharedCopy::new(&self.memory, 0)
    }

    fn write(&self, at: u64, body: u64) {
        // SAFETY: nobody else touches a part that was claimed: what is tested here, by loom's cells.
        self.parts[(at / CHUNK) as usize].with_mut(|part| unsafe { *part = body });
    }

    fn read(&self, part: usize) -> u64 {
        // SAFETY: nobody writes what is whole: what is tested here, by loom's cells.
        self.parts[part].with(|part| unsafe { *part })
    }

    /// The receiver's side of body number `body`.
    fn receive(&self, body: u64, bytes: u64) {
        self.granted.store(body as u32, Ordering::Release);
        loop {
            let copy = |at, _| {
                self.write(at, body);
                true
            };
            if self.line().copy_part(Side::Front, (bytes, CHUNK), copy) {
                continue;
            }
            match self.line().outcome((bytes, CHUNK)) {
                CopyOutcome::UnderWay => thread::yield_now(),
                CopyOutcome::Failed => {
                    (0..bytes.div_ceil(CHUNK)).for_each(|part| self.write(part * CHUNK, body));
                    break;
                }
                CopyOutcome::Whole => break,
            }
        }
        for part in 0..bytes.div_ceil(CHUNK) as usize {
            assert_eq!(self.read(part), body);
        }
        self.ended.store(body as u32, Ordering::Release);
    }

    /// The sender's side; the parts that begin in `broken` it cannot copy.
    fn send(&self, body: u64, bytes: u64, broken: u64) {
        while self.granted.load(Ordering::Acquire) < body as u32 {
            thread::yield_now();
        }
        let copy = |at, _| {
            let well = at != broken;
            if well {
                self.write(at, body);
            }
            well
        };
        while self.line().copy_part(Side::Back, (bytes, CHUNK), copy) {}
        while self.ended.load(Ordering::Acquire) < body as u32 {
            thread::yield_now();
        }
        // For the next body.
        self.line().clear();
        self.ended.store(body as u32 | CLEARED, Ordering::Release);
    }
}

/// The sender has taken the line for the next body.
const CLEARED: u32 = 1 << 16;

fn check(bodies: &'static [u64], broken: u64, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let pair = Arc::new(Pair {
            memory: Words::new(3),
            parts: std::array::from_fn(|_| UnsafeCell::new(0)),
            granted: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        });
        let sender = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                for (number, bytes) in bodies.iter().enumerate() {
                    pair.send(number as u64 + 1, *bytes, broken);
                }
            }
        });
        for (number, bytes) in bodies.iter().enumerate() {
            let body = number as u64 + 1;
            // The header of the next body comes when the line is free.
            while number > 0 && pair.ended.load(Ordering::Acquire) != number as u32 | CLEARED {
                thread::yield_now();
            }
            pair.receive(body, *bytes);
        }
        sender.join().expect("the sender");
    });
}

/// The parts of a body, the last of them short, are each copied once, and are there when the receiver goes on.
#[test]
fn loom_both_copy_a_body() {
    check(&[25], u64::MAX, 2);
}

#[test]
fn loom_a_line_is_used_again() {
    check(&[20, 10], u64::MAX, 1);
}

/// The receiver hears of a part that the sender could not copy, and copies again when nobody else writes.
#[test]
fn loom_a_part_that_fails_is_copied_by_the_receiver() {
    check(&[20], 10, 2);
}
