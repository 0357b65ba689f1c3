//! Memory that both processes reach, of which models use words and lines only, with the orders that [`LocalMemory`], its lines and
//! [`Remote`](farpost_fabric::Remote) promise and no more: a line's first word is written last and read first.

use farpost_fabric::{FabricError, Line, LocalMemory, PlainLines};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

/// Of a line the first two words are used: what the others hold is ordered as the second is.
#[derive(Clone)]
pub struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    pub fn new(words: usize) -> Self {
        Self(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}

impl LocalMemory for Words {
    type Lines = PlainLines<Words>;
    fn lines(&self, offset: usize, count: u32) -> PlainLines<Words> {
        PlainLines::new(self.clone(), offset, count)
    }
    fn len(&self) -> usize {
        self.bytes()
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
    fn load_line(&self, offset: usize) -> Line {
        let first = self.0[offset / 8].load(Ordering::Acquire);
        let second = self.0[offset / 8 + 1].load(Ordering::Relaxed);
        [first, second, 0, 0, 0, 0, 0, 0]
    }
    fn store_line(&self, offset: usize, line: &Line) {
        self.0[offset / 8 + 1].store(line[1], Ordering::Relaxed);
        self.0[offset / 8].store(line[0], Ordering::Release);
    }
    fn read(&self, _: usize, _: &mut [u8]) {
        unreachable!("words and lines are used")
    }
    fn write(&self, _: usize, _: &[u8]) {
        unreachable!("words and lines are used")
    }
}

/// What is local memory to both processes is each other's as well.
macro_rules! remote {
    ($memory:ty) => {
        impl farpost_fabric::Remote for $memory {
            fn len(&self) -> usize {
                LocalMemory::len(self)
            }
            fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
                self.write(offset, from);
                Ok(())
            }
            fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError> {
                self.store(offset, value);
                Ok(())
            }
            fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
                self.store_line(offset, line);
                Ok(())
            }
            fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
                self.read(offset, to);
                Ok(())
            }
            fn fence(&self) -> Result<(), FabricError> {
                Ok(())
            }
        }
    };
}

remote!(Words);
