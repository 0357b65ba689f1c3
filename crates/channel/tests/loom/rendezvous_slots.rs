//! A rendezvous slot: owner and receiver copy together, and the owner finds the receiver's record or none, never half of one.

use crate::memory::Words;
use farpost_channel::{CopyOutcome, Record, RendezvousSlot, Side};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Parts of the longest message.
const MOST: usize = 4;
/// Where the record lies: the models have one.
const HERE: u64 = 4096;
const LINE: usize = 64;

/// What the owner of the rendezvous slots and the receiver share, and the receiver's memory.
struct Pair {
    memory: Words,
    record: Record,
    /// Where messages go: whoever writes a part while another reads or writes it is an error that loom reports.
    parts: [UnsafeCell<u64>; MOST],
    /// Packets: how many messages have been offered.
    offered: AtomicU32,
}

/// What a record says of message `number` of so many parts.
fn words(number: u64, parts: u64) -> [u64; 8] {
    // Who reads it knows the message, and not the parts.
    [number, 0, 0, 0, 0, 0, 0, number << 32 | parts]
}

impl Pair {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: Words::new(2 * LINE / 8),
            record: Record::default(),
            parts: std::array::from_fn(|_| UnsafeCell::new(0)),
            offered: AtomicU32::new(0),
        })
    }

    fn line(&self, line: usize) -> RendezvousSlot<'_, Words> {
        RendezvousSlot::new(&self.memory, line * LINE)
    }

    fn write(&self, part: u64, number: u64) {
        // SAFETY: nobody else touches a part that was claimed: what is tested here, by loom's cells.
        self.parts[part as usize].with_mut(|part| unsafe { *part = number });
    }

    /// Owner: clear the line and send the offer.
    fn offer(&self, line: usize, number: u32) {
        self.line(line).clear();
        self.offered.store(number, Ordering::Release);
    }

    /// Owner: one look at the line. True: it is closed, and the message is over.
    fn serve(&self, line: usize, number: u64, parts: u64, broken: Option<u64>) -> bool {
        let line = self.line(line);
        // As the kernel copies: word by word, in no order.
        let read = |at| {
            let found = (at == HERE).then(|| self.record.words())?;
            (found[0] == number).then_some(found)
        };
        if let Some(found) = line.record(read) {
            assert_eq!(found, words(number, parts), "a record of two messages");
            while line
                .copy()
                .copy_part(Side::Back, (found[7] & 0xffff_ffff, 1), |part, _| {
                    if broken != Some(part) {
                        self.write(part, number);
                    }
                    broken != Some(part)
                })
            {}
        }
        line.is_closed()
    }

    /// Receiver: until the message is there.
    fn receive(&self, line: usize, number: u64, parts: u64, granted: bool) -> bool {
        while self.offered.load(Ordering::Acquire) < number as u32 {
            thread::yield_now();
        }
        let line = self.line(line);
        if granted {
            self.record.write(&words(number, parts));
        }
        line.open(if granted { HERE } else { 0 });
        let well = loop {
            while line.copy().copy_part(Side::Front, (parts, 1), |part, _| {
                self.write(part, number);
                true
            }) {}
            match line.copy().outcome((parts, 1)) {
                CopyOutcome::UnderWay => thread::yield_now(),
                outcome => break outcome == CopyOutcome::Whole,
            }
        };
        for part in 0..parts as usize {
            // SAFETY: nobody writes what is complete: what is tested here, by loom's cells.
            let found = self.parts[part].with(|part| unsafe { *part });
            assert!(found == number || !well);
        }
        line.close();
        if granted {
            self.record.clear();
        }
        well
    }
}

/// Messages: their line, their parts, and whether there is a record for them.
fn check(messages: &'static [(usize, u64, bool)], broken: Option<u64>, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let pair = Pair::new();
        let owner = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                for (number, (line, parts, _)) in (1..).zip(messages) {
                    pair.offer(*line, number);
                    while !pair.serve(*line, u64::from(number), *parts, broken) {
                        thread::yield_now();
                    }
                }
            }
        });
        for (number, (line, parts, granted)) in (1..).zip(messages) {
            let well = pair.receive(*line, number, *parts, *granted);
            assert!(well || broken.is_some());
        }
        owner.join().unwrap();
    });
}

#[test]
fn both_copy_a_message() {
    check(&[(0, 3, true)], None, 2);
}

#[test]
fn without_a_record_the_receiver_copies() {
    check(&[(0, 2, false)], None, 3);
}

#[test]
fn a_line_and_a_record_are_used_again() {
    check(&[(0, 2, true), (0, 1, true)], None, 1);
}

#[test]
fn the_receiver_hears_of_a_part_that_failed() {
    check(&[(0, 2, true)], Some(1), 2);
}

/// Two messages on the way at once: the record of the first becomes that of the second while the owner still looks at the first.
#[test]
fn a_record_is_never_half_of_one_and_half_of_the_next() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    builder.max_branches = 20_000;
    builder.check(|| {
        let pair = Pair::new();
        pair.offer(0, 1);
        pair.offer(1, 2);
        let owner = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                let mut over = [false; 2];
                while over != [true; 2] {
                    for (line, parts) in [(0, 1), (1, 2)] {
                        over[line] = over[line] || pair.serve(line, line as u64 + 1, parts, None);
                    }
                    if over != [true; 2] {
                        thread::yield_now();
                    }
                }
            }
        });
        assert!(pair.receive(0, 1, 1, true));
        assert!(pair.receive(1, 2, 2, true));
        owner.join().unwrap();
    });
}
