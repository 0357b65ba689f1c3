//! A queue of records: a writer and a reader, every interleaving of a small queue.

use farpost_channel::records::{Reader, Title, Writer};
use farpost_fabric::{FabricError, Line, Lines, LocalMemory, Remote};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

/// Two words of each line: what the others hold is ordered as the second is.
const LINES: usize = 2;

/// Memory of both sides, with what [`Lines`] and [`Remote`] promise and no more: a line's first word is written last and
/// read first.
#[derive(Clone)]
struct Shared(Arc<[[AtomicU64; 2]; LINES]>);

impl Shared {
    fn load(&self, number: u32) -> Line {
        let line = &self.0[number as usize % LINES];
        let first = line[0].load(Ordering::Acquire);
        let mut words = [0; 8];
        words[..2].copy_from_slice(&[first, line[1].load(Ordering::Relaxed)]);
        words
    }
}

impl Lines for Shared {
    fn first(&self, number: u32) -> u64 {
        self.0[number as usize % LINES][0].load(Ordering::Acquire)
    }
    fn word(&self, number: u32, index: usize) -> u64 {
        self.0[number as usize % LINES][index].load(Ordering::Relaxed)
    }
    fn line(&self, number: u32) -> Line {
        Shared::load(self, number)
    }
    fn put(&self, _: u32, _: &Line, _: usize) {
        unreachable!("the reader writes nothing")
    }
    fn put_first(&self, _: u32, _: u64) {
        unreachable!("the reader writes nothing")
    }
}

impl LocalMemory for Shared {
    type Lines = Shared;
    fn lines(&self, _: usize, _: u32) -> Shared {
        self.clone()
    }
    fn len(&self) -> usize {
        LINES * 64
    }
    fn load(&self, _: usize) -> u64 {
        unreachable!("not the queue's")
    }
    fn store(&self, _: usize, _: u64) {
        unreachable!("not the queue's")
    }
    fn fetch_add(&self, _: usize, _: u64) -> u64 {
        unreachable!("not the queue's")
    }
    fn load_line(&self, _: usize) -> Line {
        unreachable!("not the queue's")
    }
    fn store_line(&self, _: usize, _: &Line) {
        unreachable!("not the queue's")
    }
    fn read(&self, _: usize, _: &mut [u8]) {
        unreachable!("not the queue's")
    }
    fn write(&self, _: usize, _: &[u8]) {
        unreachable!("not the queue's")
    }
}

impl Remote for Shared {
    fn len(&self) -> usize {
        LINES * 64
    }
    fn put(&self, _: usize, _: &[u8]) -> Result<(), FabricError> {
        unreachable!("not the queue's")
    }
    fn put_word(&self, _: usize, _: u64) -> Result<(), FabricError> {
        unreachable!("not the queue's")
    }
    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        let at = &self.0[offset / 64];
        at[1].store(line[1], Ordering::Relaxed);
        at[0].store(line[0], Ordering::Release);
        Ok(())
    }
    fn get(&self, _: usize, _: &mut [u8]) -> Result<(), FabricError> {
        unreachable!("not the queue's")
    }
    fn fence(&self) -> Result<(), FabricError> {
        Ok(())
    }
}

fn memory() -> Shared {
    Shared(Arc::new(std::array::from_fn(|_| {
        std::array::from_fn(|_| AtomicU64::new(0))
    })))
}

fn title(number: u64) -> Title {
    Title {
        kind: 1 + number as u8,
        aux: 7,
    }
}

/// Take what is there; every record is the next one, and whole. `lines` says how many lines record *n* has.
fn take(reader: &mut Reader<Shared>, next: &mut u64, lines: fn(u64) -> usize) {
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
        let (memory, taken) = (memory(), Arc::new(AtomicU32::new(0)));
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
