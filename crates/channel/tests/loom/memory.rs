//! Words that both processes map, of which a model uses loads, stores and additions only.

use farpost_fabric::{Line, LocalMemory, PlainLines};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone)]
pub struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    pub fn new(words: usize) -> Self {
        Self(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl LocalMemory for Words {
    type Lines = PlainLines<Words>;
    fn lines(&self, _: usize, _: u32) -> PlainLines<Words> {
        unreachable!("only words are used")
    }
    fn len(&self) -> usize {
        self.0.len() * 8
    }
    fn load(&self, offset: usize) -> u64 {
        self.0[offset / 8].load(Ordering::Acquire)
    }
    fn store(&self, offset: usize, value: u64) {
        self.0[offset / 8].store(value, Ordering::Release);
    }
    fn fetch_add(&self, offset: usize, amount: u64) -> u64 {
        self.0[offset / 8].fetch_add(amount, Ordering::AcqRel)
    }
    fn load_line(&self, _: usize) -> Line {
        unreachable!("only words are used")
    }
    fn store_line(&self, _: usize, _: &Line) {
        unreachable!("only words are used")
    }
    fn read(&self, _: usize, _: &mut [u8]) {
        unreachable!("only words are used")
    }
    fn write(&self, _: usize, _: &[u8]) {
        unreachable!("only words are used")
    }
}
