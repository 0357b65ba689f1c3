//! Copying what another core has just written, and what another core will read.
//!
//! Cost class: fast path. Every line is still in the writer's cache, so a copy is a row of misses, and it takes as long
//! as few of them are under way at a time. `memcpy` loads four vectors, stores them, and goes on; loading eight lines
//! before the first is stored has more under way: on Intel's processors a message of 4 KiB takes three quarters of the time, on AMD's (Zen 4) a quarter
//! more. Long copies are left to `memcpy`, which has better ways for them.
//!
//! Copies for other cores use non-temporal stores where fetching lines back takes long: see `streaming`.

use super::streaming::COPY_POLICY;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Whether this processor looks far ahead by itself: AMD's, and those made after them.
#[cfg(target_arch = "x86_64")]
fn looks_ahead() -> bool {
    use std::sync::LazyLock;
    // The instruction takes long in a virtual machine.
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        let maker = std::arch::x86_64::__cpuid(0);
        let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
        [b"AuthenticAMD", b"HygonGenuine"].contains(&name.as_flattened().try_into().expect("twelve bytes"))
    });
    *FOUND
}

/// Copy `len` bytes for another core.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and the two do not overlap.
#[inline]
pub(super) unsafe fn to_other_core(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if COPY_POLICY.matters(len) {
        // SAFETY: the caller's promise, both times.
        return COPY_POLICY.copy(
            len,
            || unsafe { std::ptr::copy_nonoverlapping(from, to, len) },
            || unsafe { non_temporal(from, to, len) },
        );
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Copy `len` bytes by non-temporal stores, followed by a store fence.
///
/// # Safety
/// As [`to_other_core`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn non_temporal(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let head = to.align_offset(64).min(len);
    let lines = (len - head) / 64;
    // SAFETY: all in the ranges that the caller vouches for; the streamed stores go to multiples of 64, and the fence puts them before
    // whatever tells others of them. Every processor of this architecture has these.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (source, target) = (from.add(head), to.add(head));
        for line in 0..lines {
            let (source, target) = (
                source.add(line * 64).cast::<__m128i>(),
                target.add(line * 64).cast::<__m128i>(),
            );
            let words: [__m128i; 4] = std::array::from_fn(|part| _mm_loadu_si128(source.add(part)));
            for (part, word) in words.into_iter().enumerate() {
                _mm_stream_si128(target.add(part), word);
            }
        }
        let done = head + lines * 64;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
        _mm_sfence();
    }
}

/// Lengths for which this pays, bytes.
#[cfg(target_arch = "x86_64")]
const LENGTHS: std::ops::RangeInclusive<usize> = STEP..=16 << 10;
/// Bytes loaded before the first is stored: sixteen registers.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 512;
/// The same on processors that look further ahead by themselves.
#[cfg(target_arch = "x86_64")]
const SMALL_STEP: usize = 128;

/// Copy `len` bytes.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and the two do not overlap. Somebody else may write to `from`
/// meanwhile; then any bytes may be what arrives.
#[inline]
pub(super) unsafe fn from_other_core(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if LENGTHS.contains(&len) && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; as many steps as fit into `len`, and the rest is what is left.
        unsafe {
            let whole = if looks_ahead() {
                in_small_steps(from, to, len / SMALL_STEP);
                len / SMALL_STEP * SMALL_STEP
            } else {
                in_steps(from, to, len / STEP);
                len / STEP * STEP
            };
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len - whole);
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// A function that copies some steps of so many bytes, each by these registers of 32 bytes. Written out by the assembler, since a compiler makes a
/// call of `memcpy` of any loop that copies.
#[cfg(target_arch = "x86_64")]
macro_rules! copy_in_steps {
    ($name:ident, $bytes:literal by $registers:literal) => {
        /// Copy `steps` (not zero) times so many bytes.
        ///
        /// # Safety
        /// As [`from_other_core`], on a processor with AVX.
        #[inline]
        unsafe fn $name(from: *const u8, to: *mut u8, steps: usize) {
            // SAFETY: loads and stores `steps` times so many bytes, which the caller vouches for; the registers it changes are named.
            unsafe {
                std::arch::asm!(
                    "2:",
                    concat!(".irp n, ", $registers),
                    "vmovdqu ymm\\n, [{from} + 32 * \\n]",
                    ".endr",
                    concat!(".irp n, ", $registers),
                    "vmovdqu [{to} + 32 * \\n], ymm\\n",
                    ".endr",
                    concat!("sub {from}, -", $bytes),
                    concat!("sub {to}, -", $bytes),
                    "dec {steps}",
                    "jnz 2b",
                    "vzeroupper",
                    from = inout(reg) from => _,
                    to = inout(reg) to => _,
                    steps = inout(reg) steps => _,
                    // vzeroupper changes all of them.
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                    out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                    out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack)
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
copy_in_steps!(in_small_steps, 128 by "0, 1, 2, 3");
#[cfg(target_arch = "x86_64")]
copy_in_steps!(in_steps, 512 by "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15");

/// Stores that a processor has for lines, by their bytes: AVX-512's, AVX's, and those of every processor.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Stores {
    Of16,
    Of32,
    Of64,
}

#[cfg(target_arch = "x86_64")]
impl Stores {
    /// The widest of this processor.
    #[inline(always)]
    fn widest() -> Self {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") {
            Stores::Of64
        } else if has!("avx") {
            Stores::Of32
        } else {
            Stores::Of16
        }
    }
}

/// Copy `count` lines by stores of that width. Of a line that takes several, the first part is stored last.
///
/// # Safety
/// As [`lines`], on a processor that has such stores.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lines_by(stores: Stores, mut from: *const u8, mut to: *mut u8, count: usize) {
    if stores == Stores::Of64 {
        for _ in 0..count {
            // A register that older instructions do not know: after one that they do, the next of them would take a
            // hundred nanoseconds unless the upper parts are cleared first.
            // SAFETY: a line of each, which the caller vouches for; the processor has AVX-512.
            unsafe {
                std::arch::asm!(
                    "vmovdqu64 zmm16, [{from}]",
                    "vmovdqa64 [{to}], zmm16",
                    from = in(reg) from,
                    to = in(reg) to,
                    out("zmm16") _,
                    options(nostack, preserves_flags)
                );
                (from, to) = (from.add(64), to.add(64));
            }
        }
    } else if stores == Stores::Of32 {
        for _ in 0..count {
            // SAFETY: as above; the processor has AVX.
            unsafe {
                std::arch::asm!(
                    "vmovdqu ymm0, [{from}]",
                    "vmovdqu ymm1, [{from} + 32]",
                    "vmovdqa [{to} + 32], ymm1",
                    "vmovdqa [{to}], ymm0",
                    "vzeroupper",
                    from = in(reg) from,
                    to = in(reg) to,
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                    out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                    out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack, preserves_flags)
                );
                (from, to) = (from.add(64), to.add(64));
            }
        }
    } else {
        for _ in 0..count {
            // SAFETY: as above; every processor of this architecture has SSE2.
            unsafe {
                std::arch::asm!(
                    "movdqu xmm0, [{from}]",
                    "movdqu xmm1, [{from} + 16]",
                    "movdqu xmm2, [{from} + 32]",
                    "movdqu xmm3, [{from} + 48]",
                    "movdqa [{to} + 48], xmm3",
                    "movdqa [{to} + 32], xmm2",
                    "movdqa [{to} + 16], xmm1",
                    "movdqa [{to}], xmm0",
                    from = in(reg) from,
                    to = in(reg) to,
                    out("xmm0") _,
                    out("xmm1") _,
                    out("xmm2") _,
                    out("xmm3") _,
                    options(nostack, preserves_flags)
                );
                (from, to) = (from.add(64), to.add(64));
            }
        }
    }
}

/// Copy `count` lines, each by the widest stores that the processor has: one of 64 bytes (AVX-512), two of 32 (AVX), or
/// four of 16. Of a line that takes several, the first part is stored last.
///
/// # Safety
/// `from` is readable and `to`, a multiple of 64, writable for `count` lines, and the two do not overlap. Others may read
/// `to` meanwhile.
#[inline]
pub(super) unsafe fn lines(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's promise, and the processor has the widest that it has.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        lines_by(Stores::widest(), from, to, count);
    }
    #[cfg(not(target_arch = "x86_64"))]
    for line in 0..count {
        // The first word last.
        for word in (0..8).rev() {
            let at = line * 64 + word * 8;
            // SAFETY: words of the lines that the caller vouches for; `to` is aligned.
            unsafe {
                let value = from.add(at).cast::<u64>().read_unaligned();
                (*to.add(at).cast::<std::sync::atomic::AtomicU64>()).store(value, Release);
            }
        }
    }
}

/// `$body` for elements of so many bytes, of the integer and its atomic.
macro_rules! by_size {
    ($size:expr, $atomic:ident, $plain:ident => $body:expr) => {
        by_size!(@ $size, $atomic, $plain, $body, 1 AtomicU8 u8, 2 AtomicU16 u16, 4 AtomicU32 u32, _ AtomicU64 u64)
    };
    (@ $size:expr, $atomic:ident, $plain:ident, $body:expr, $($bytes:tt $a:ident $p:ident),*) => {
        match $size {$(
            $bytes => {
                type $atomic = std::sync::atomic::$a;
                type $plain = $p;
                $body
            }
        )*}
    };
}

/// Store `len` bytes of elements of `size` bytes (1, 2, 4, 8), each whole.
///
/// # Safety
/// `from` is readable and `to`, a multiple of `size`, writable for `len` bytes, and the two do not overlap. Others may use
/// `to` meanwhile.
#[inline]
pub(super) unsafe fn store_elements(from: *const u8, to: *mut u8, len: usize, size: usize) {
    by_size!(size, Atomic, Plain => for at in (0..len).step_by(size) {
        // SAFETY: an element in range, aligned in `to`.
        unsafe {
            let value = from.add(at).cast::<Plain>().read_unaligned();
            (*to.add(at).cast::<Atomic>()).store(value, Release);
        }
    });
}

/// Load `len` bytes of elements of `size` bytes (1, 2, 4, 8), each whole.
///
/// # Safety
/// `from`, a multiple of `size`, is readable and `to` writable for `len` bytes, and the two do not overlap. Others may use
/// `from` meanwhile.
#[inline]
pub(super) unsafe fn load_elements(from: *const u8, to: *mut u8, len: usize, size: usize) {
    by_size!(size, Atomic, Plain => for at in (0..len).step_by(size) {
        // SAFETY: an element in range, aligned in `from`.
        unsafe {
            let value = (*from.add(at).cast::<Atomic>()).load(Acquire);
            to.add(at).cast::<Plain>().write_unaligned(value);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_of_every_length_and_no_others() {
        let from: Vec<u8> = (0..17 << 10).map(|i: usize| (i % 251) as u8 + 1).collect();
        for len in (0..1100).chain([4095, 4096, 8192, 8193, 16 << 10, (16 << 10) + 1]) {
            for skew in [0, 1, 31] {
                let mut to = vec![0; len + 64];
                // SAFETY: both sides have the room.
                unsafe { from_other_core(from[skew..].as_ptr(), to[skew..].as_mut_ptr(), len) };
                assert!(to[..skew].iter().all(|byte| *byte == 0), "{len} bytes");
                assert!(to[skew..skew + len] == from[skew..skew + len], "{len} bytes");
                assert!(to[skew + len..].iter().all(|byte| *byte == 0), "{len} bytes");
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn past_the_caches_too() {
        let from: Vec<u8> = (0..9 << 10).map(|i: usize| (i % 251) as u8 + 1).collect();
        for len in (0..300).chain([4095, 4096, 8192, 8193]) {
            for skew in [0, 1, 31, 63] {
                let mut to = vec![0; len + 128];
                // SAFETY: both sides have the room.
                unsafe { non_temporal(from[skew..].as_ptr(), to[skew..].as_mut_ptr(), len) };
                assert!(to[..skew].iter().all(|byte| *byte == 0), "{len} bytes");
                assert!(to[skew..skew + len] == from[skew..skew + len], "{len} bytes");
                assert!(to[skew + len..].iter().all(|byte| *byte == 0), "{len} bytes");
            }
        }
    }

    #[test]
    fn lines_and_elements() {
        let from: Vec<u8> = (0..1024).map(|i: usize| (i % 251) as u8 + 1).collect();
        let mut to = vec![0u8; 1024 + 64];
        let start = to.as_ptr().align_offset(64);
        for count in 0..=15 {
            to.fill(0);
            // SAFETY: both sides have the room, and `start` is where a line starts.
            unsafe { lines(from[3..].as_ptr(), to[start..].as_mut_ptr(), count) };
            assert!(to[start..start + count * 64] == from[3..3 + count * 64]);
            assert!(to[start + count * 64..].iter().all(|byte| *byte == 0));
            // By stores that other processors would take.
            #[cfg(target_arch = "x86_64")]
            for stores in [Stores::Of16, Stores::Of32, Stores::Of64] {
                if stores > Stores::widest() {
                    farpost_testing::not_here(&format!("this processor has no stores {stores:?}"));
                    continue;
                }
                to.fill(0);
                // SAFETY: as above, and the processor has such stores.
                unsafe { lines_by(stores, from[5..].as_ptr(), to[start..].as_mut_ptr(), count) };
                assert!(to[..start].iter().all(|byte| *byte == 0), "{stores:?}");
                assert!(
                    to[start..start + count * 64] == from[5..5 + count * 64],
                    "{stores:?}"
                );
                assert!(
                    to[start + count * 64..].iter().all(|byte| *byte == 0),
                    "{stores:?}"
                );
            }
        }
        for size in [1, 2, 4, 8] {
            to.fill(0);
            let mut back = vec![0; 64];
            // SAFETY: as above.
            unsafe {
                store_elements(from[1..].as_ptr(), to[start + 8..].as_mut_ptr(), 64, size);
                load_elements(to[start + 8..].as_ptr(), back.as_mut_ptr(), 64, size);
            }
            assert!(back == from[1..65] && to[start + 8..start + 72] == from[1..65]);
            assert!(to[start + 72..].iter().all(|byte| *byte == 0));
        }
    }
}
