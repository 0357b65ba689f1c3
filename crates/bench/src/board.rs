//! What two ranks of one host share besides the library under test: a place to meet, and the cache lines whose bare hand-over
//! is the floor of every message between them.
//!
//! The memory is a memfd of the process that starts the ranks, which they open through `/proc`. So the floor is measured
//! between the same two processes, on the same cores, in the same minute as the messages, and ranks agree on repetitions
//! without a message of the interface that is measured.

use crate::abi::{BenchError, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Words of a cache line.
const WORDS: usize = 8;
/// Bytes of payload in a line that also has a number.
pub const LINE_PAYLOAD: usize = 8 * (WORDS - 1);
/// Lines of a queue in one direction.
const SLOTS: u64 = 256;
/// How long one rank waits for the other where they meet.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line far from others, also for prefetchers that fetch pairs.
#[repr(C, align(256))]
struct Apart([AtomicU64; WORDS]);

#[repr(C, align(64))]
struct Slot([AtomicU64; WORDS]);

#[repr(C)]
struct Shared {
    value: Apart,
    arrived: [Apart; 2],
    floor: [Apart; 2],
    consumed: [Apart; 2],
    queue: [[Slot; SLOTS as usize]; 2],
}

/// The memory, made by who starts the ranks; it lives as long as this does.
pub struct Memory(File);

impl Memory {
    /// New memory, all zero.
    pub fn new() -> Result<Self> {
        let failed = BenchError::io("making memory for two ranks to meet in");
        // SAFETY: the name is a constant string ended by 0.
        let fd = unsafe { libc::memfd_create(c"farpost-bench".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size_of::<Shared>() as u64).map_err(&failed)?;
        Ok(Self(file))
    }

    /// Where ranks of this host find it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// One rank's view.
pub struct Board {
    shared: &'static Shared,
    rank: usize,
    met: u64,
    number: u64,
    sent: u64,
    received: u64,
}

/// Spin, and give up the core when that has not helped: there may be one core only.
#[inline]
fn until(mut done: impl FnMut() -> bool) {
    let mut turns = 0u32;
    while !done() {
        turns += 1;
        if turns & 0xffff == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Board {
    /// Open what [`Memory::path`] named, as rank 0 or 1.
    pub fn open(path: &Path, rank: usize) -> Result<Self> {
        let where_they_meet = "where the ranks of one host meet (they have to be on one)";
        let what = format!("opening {}, {where_they_meet}", path.display());
        let failed = BenchError::io(what);
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(&failed)?;
        let len = size_of::<Shared>();
        if file.metadata().map_err(&failed)?.len() != len as u64 || rank > 1 {
            return Err(failed(std::io::Error::other("it is not that memory")));
        }
        // SAFETY: a fresh shared mapping of the whole file, whose length was checked; it is never unmapped.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        // SAFETY: page-aligned, `len` bytes, mapped for good; all of `Shared` is atomics, for which any bytes are valid.
        let shared = unsafe { &*address.cast::<Shared>() };
        Ok(Self {
            shared,
            rank,
            met: 0,
            number: 0,
            sent: 0,
            received: 0,
        })
    }

    /// Which of the two this is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Wait for the other rank; `poll` keeps the network going meanwhile.
    pub fn meet(&mut self, mut poll: impl FnMut() -> Result<()>) -> Result<()> {
        self.met += 1;
        let arrived = |rank: usize| &self.shared.arrived[rank].0[0];
        arrived(self.rank).store(self.met, Ordering::Release);
        let start = Instant::now();
        let mut turns = 0u32;
        while arrived(1 - self.rank).load(Ordering::Acquire) < self.met {
            turns += 1;
            if turns.is_multiple_of(64) {
                poll()?;
                std::thread::yield_now();
                if start.elapsed() > PATIENCE {
                    return Err(usage!(
                        "rank {} did not come within {} s to where rank {} is: it has ended, or waits for a message",
                        1 - self.rank,
                        PATIENCE.as_secs(),
                        self.rank
                    ));
                }
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Rank 0's `value`, for both.
    pub fn share(&mut self, value: u64, mut poll: impl FnMut() -> Result<()>) -> Result<u64> {
        if self.rank == 0 {
            self.shared.value.0[0].store(value, Ordering::Relaxed);
        }
        self.meet(&mut poll)?;
        let value = self.shared.value.0[0].load(Ordering::Relaxed);
        self.meet(&mut poll)?;
        Ok(value)
    }

    /// One line of 56 bytes and a number to and fro, with a line for each way: the floor. The sender writes all of it, the
    /// receiver reads all of it.
    pub fn floor_round(&mut self) {
        self.number += 1;
        let (mine, theirs) = (
            &self.shared.floor[self.rank].0,
            &self.shared.floor[1 - self.rank].0,
        );
        let number = self.number;
        let post = || {
            for word in &mine[1..] {
                word.store(number, Ordering::Relaxed);
            }
            mine[0].store(number, Ordering::Release);
        };
        let wait = || {
            until(|| theirs[0].load(Ordering::Acquire) == number);
            let sum = theirs[1..]
                .iter()
                .fold(0u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
            assert_eq!(std::hint::black_box(sum), 7 * number, "a line arrived changed");
        };
        if self.rank == 0 {
            post();
            wait();
        } else {
            wait();
            post();
        }
    }

    /// The least that a queue of messages can be: lines in a ring, each with a number; the receiver tells now and then how far
    /// it has read.
    #[inline]
    pub fn queue_send(&mut self, data: &[u8]) {
        let queue = &self.shared.queue[self.rank];
        let consumed = &self.shared.consumed[self.rank].0[0];
        for part in data.chunks(LINE_PAYLOAD) {
            if self.sent.is_multiple_of(SLOTS / 2) {
                let sent = self.sent;
                until(|| sent - consumed.load(Ordering::Acquire) <= SLOTS / 2);
            }
            let slot = &queue[(self.sent % SLOTS) as usize].0;
            for (word, bytes) in slot[1..].iter().zip(part.chunks(8)) {
                let value = match bytes.try_into() {
                    Ok(eight) => u64::from_ne_bytes(eight),
                    Err(_) => {
                        let mut eight = [0; 8];
                        eight[..bytes.len()].copy_from_slice(bytes);
                        u64::from_ne_bytes(eight)
                    }
                };
                word.store(value, Ordering::Relaxed);
            }
            self.sent += 1;
            slot[0].store(self.sent, Ordering::Release);
        }
    }

    /// Wait for the next `into.len()` bytes of [`Board::queue_send`].
    #[inline]
    pub fn queue_receive(&mut self, into: &mut [u8]) {
        let queue = &self.shared.queue[1 - self.rank];
        let consumed = &self.shared.consumed[1 - self.rank].0[0];
        for part in into.chunks_mut(LINE_PAYLOAD) {
            let slot = &queue[(self.received % SLOTS) as usize].0;
            self.received += 1;
            let number = self.received;
            until(|| slot[0].load(Ordering::Acquire) == number);
            for (word, bytes) in slot[1..].iter().zip(part.chunks_mut(8)) {
                let value = word.load(Ordering::Relaxed).to_ne_bytes();
                bytes.copy_from_slice(&value[..bytes.len()]);
            }
            if self.received.is_multiple_of(SLOTS / 4) {
                consumed.store(self.received, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_meet_share_and_queue() {
        let memory = Memory::new().unwrap();
        let path = memory.path();
        let data: Vec<u8> = (0..600).map(|i| i as u8).collect();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut board = Board::open(&path, 1).unwrap();
                assert_eq!(board.share(5, || Ok(())).unwrap(), 77);
                (0..10).for_each(|_| board.floor_round());
                let mut into = vec![0; 600];
                for _ in 0..200 {
                    into.fill(0);
                    board.queue_receive(&mut into);
                    assert_eq!(into, data);
                }
                board.queue_send(&into[..3]);
            });
            let mut board = Board::open(&path, 0).unwrap();
            assert_eq!(board.share(77, || Ok(())).unwrap(), 77);
            (0..10).for_each(|_| board.floor_round());
            (0..200).for_each(|_| board.queue_send(&data));
            let mut three = [9; 3];
            board.queue_receive(&mut three);
            assert_eq!(three, [0, 1, 2]);
            other.join().unwrap();
        });
        let err = Board::open(Path::new("/proc/self/exe"), 0)
            .err()
            .unwrap()
            .to_string();
        assert!(err.contains("/proc/self/exe"), "{err}");
    }
}
