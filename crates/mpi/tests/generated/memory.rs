//! Buffers with edges that nobody may touch.

use farpost_generate::values::GUARD;

/// Bytes before and behind each.
const EDGE: usize = 64;
const CANARY: u8 = 0x5C;

pub struct Buffer {
    memory: *mut u8,
    len: usize,
    /// Bytes that it begins behind the edge, so that some are not aligned.
    skew: usize,
}

impl Buffer {
    pub fn new(len: u64, skew: u64) -> Self {
        let (len, skew) = (len as usize, skew as usize);
        let mut memory = vec![CANARY; len + skew + 2 * EDGE].into_boxed_slice();
        memory[EDGE + skew..EDGE + skew + len].fill(GUARD);
        Self {
            memory: Box::into_raw(memory).cast(),
            len,
            skew,
        }
    }

    pub fn start(&self) -> *mut u8 {
        self.memory.wrapping_add(EDGE + self.skew)
    }

    pub fn with<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: the memory is ours until drop. The program has no operation under way that writes here, or that reads
        // while we write; and one coroutine runs at a time.
        use_it(unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) })
    }

    /// Whether the edges are as they were.
    pub fn is_sound(&self) -> bool {
        // SAFETY: as above.
        let all = unsafe { std::slice::from_raw_parts(self.memory, self.len + self.skew + 2 * EDGE) };
        all[..EDGE + self.skew]
            .iter()
            .chain(&all[EDGE + self.skew + self.len..])
            .all(|b| *b == CANARY)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let all = std::ptr::slice_from_raw_parts_mut(self.memory, self.len + self.skew + 2 * EDGE);
        // SAFETY: it came from a box of this size.
        drop(unsafe { Box::from_raw(all) });
    }
}
