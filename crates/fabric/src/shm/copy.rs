//! Copying what another core has just written.
//!
//! Cost class: fast path. Every line is still in the writer's cache, so a copy is a row of misses, and it takes as long
//! as few of them are under way at a time. `memcpy` loads four vectors, stores them, and goes on; loading eight lines
//! before the first is stored has more under way: a message of 4 KiB takes three quarters of the time. Long copies are left to `memcpy`,
//! which has better ways for them.

/// Lengths for which this pays, bytes.
#[cfg(target_arch = "x86_64")]
const LENGTHS: std::ops::RangeInclusive<usize> = STEP..=16 << 10;
/// Bytes loaded before the first is stored: sixteen registers.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 512;

/// Copy `len` bytes.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and the two do not overlap. Somebody else may write to `from`
/// meanwhile; then any bytes may be what arrives.
#[inline]
pub(super) unsafe fn from_other_core(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if LENGTHS.contains(&len) && std::arch::is_x86_feature_detected!("avx") {
        let whole = len / STEP * STEP;
        // SAFETY: the processor has AVX; `whole` is at most `len`, and the rest is what is left.
        unsafe {
            in_steps(from, to, len / STEP);
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len - whole);
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Copy `steps` (not zero) times [`STEP`] bytes. Written out, since a compiler makes a call of `memcpy` of any loop that
/// copies.
///
/// # Safety
/// As [`from_other_core`], on a processor with AVX.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn in_steps(from: *const u8, to: *mut u8, steps: usize) {
    // SAFETY: loads and stores `steps * STEP` bytes, which the caller vouches for; the registers it changes are named.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovdqu ymm0, [{from} + 0]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqu ymm4, [{from} + 128]",
            "vmovdqu ymm5, [{from} + 160]",
            "vmovdqu ymm6, [{from} + 192]",
            "vmovdqu ymm7, [{from} + 224]",
            "vmovdqu ymm8, [{from} + 256]",
            "vmovdqu ymm9, [{from} + 288]",
            "vmovdqu ymm10, [{from} + 320]",
            "vmovdqu ymm11, [{from} + 352]",
            "vmovdqu ymm12, [{from} + 384]",
            "vmovdqu ymm13, [{from} + 416]",
            "vmovdqu ymm14, [{from} + 448]",
            "vmovdqu ymm15, [{from} + 480]",
            "vmovdqu [{to} + 0], ymm0",
            "vmovdqu [{to} + 32], ymm1",
            "vmovdqu [{to} + 64], ymm2",
            "vmovdqu [{to} + 96], ymm3",
            "vmovdqu [{to} + 128], ymm4",
            "vmovdqu [{to} + 160], ymm5",
            "vmovdqu [{to} + 192], ymm6",
            "vmovdqu [{to} + 224], ymm7",
            "vmovdqu [{to} + 256], ymm8",
            "vmovdqu [{to} + 288], ymm9",
            "vmovdqu [{to} + 320], ymm10",
            "vmovdqu [{to} + 352], ymm11",
            "vmovdqu [{to} + 384], ymm12",
            "vmovdqu [{to} + 416], ymm13",
            "vmovdqu [{to} + 448], ymm14",
            "vmovdqu [{to} + 480], ymm15",
            "add {from}, 512",
            "add {to}, 512",
            "dec {steps}",
            "jnz 2b",
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            steps = inout(reg) steps => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack)
        );
    }
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
}
