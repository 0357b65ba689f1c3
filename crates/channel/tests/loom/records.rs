//! A queue of records: a writer and a reader, every interleaving of a small queue.

use crate::memory::Words;
use farpost_channel::records::{Reader, Title, Writer};
use farpost_fabric::PlainLines;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Lines of the queue.
const LINES: usize = 2;

fn title(number: u64) -> Title {
    Title {
        kind: 1 + number as u8,
        aux: 7,
    }
}

/// Take what is there; every record is the next one, and whole. `lines` says how many lines record *n* has.
fn take(reader: &mut Reader<PlainLines<Words>>, next: &mut u64, lines: fn(u64) -> usize) {
    while let Some((kind, words)) = reader.take().expect("a record") {
        assert_eq!(kind, title(*next));
        assert_eq!(words.len(), lines(*next) * 7);
        assert!((0..lines(*next)).all(|line| words[line * 7] == 100 * (1 + *next) + line as u64));
        *next += 1;
    }
}

/// `records` of them pass, as many as there was room for; the reader says how far it is where the writer looks.
fn pass(records: u64, lines: fn(u64) -> usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let (memory, taken) = (Words::new(LINES * 8), Arc::new(AtomicU32::new(0)));
        let writer = thread::spawn({
            let (memory, taken) = (memory.clone(), Arc::clone(&taken));
            move || {
                let mut writer = Writer::new(&memory, 0, LINES as u32, 0);
                let mut number = 0;
                for _ in 0..records + 1 {
                    writer.told(taken.load(Ordering::Acquire));
                    let words: Vec<u64> = (0..lines(number) * 7)
                        .map(|at| {
                            if at % 7 == 0 {
                                100 * (1 + number) + at as u64 / 7
                            } else {
                                0
                            }
                        })
                        .collect();
                    number += u64::from(writer.put(title(number), &words).expect("written"));
                }
                number
            }
        });
        let (mut reader, mut next) = (Reader::new(&memory, 0, LINES as u32), 0);
        for _ in 0..2 {
            take(&mut reader, &mut next, lines);
            taken.store(reader.taken(), Ordering::Release);
        }
        let written = writer.join().expect("the writer");
        take(&mut reader, &mut next, lines);
        assert_eq!(next, written, "all that was written has come");
    });
}

#[test]
fn loom_records_of_one_line() {
    pass(3, |_| 1);
}

#[test]
fn loom_records_of_two_lines() {
    pass(2, |_| 2);
}

#[test]
fn loom_records_of_one_and_two_lines() {
    pass(2, |number| 1 + number as usize % 2);
}
