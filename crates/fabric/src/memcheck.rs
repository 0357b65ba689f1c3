//! A word to valgrind. Its memcheck follows what a process writes into its own memory; what a neighbour writes there (its half
//! of a long message, its part of a large reduction) it does not see, and calls it uninitialised. So who has received tells it.
//!
//! This is the sequence of instructions that valgrind knows as a request and a processor as nothing: rotations of a register
//! that come to a whole turn. It is the interface that valgrind promises to keep (valgrind.h, "client request").
//!
//! Cost class: a handful of instructions once for each transfer in which a peer wrote, which are of tens of kilobytes.

/// `VG_USERREQ__MAKE_MEM_DEFINED` of memcheck.h.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const MAKE_MEM_DEFINED: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16 | 2;

/// A peer has written `len` bytes at `address` of this process.
#[inline]
pub fn written_by_peer(address: usize, len: usize) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    request(&[MAKE_MEM_DEFINED, address, len, 0, 0, 0]);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (address, len);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn request(arguments: &[usize; 6]) {
    // SAFETY: the rotations come to 128 bits, two whole turns of rdi, and the exchange of rbx with itself changes nothing.
    // valgrind reads the six words at rax and writes rdx, which is declared.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => _,
            options(nostack)
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn request(arguments: &[usize; 6]) {
    // SAFETY: the rotations come to 128 bits, two whole turns of x12, and x10 or x10 is x10. valgrind reads the six words at x4
    // and writes x3, which is declared.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") arguments.as_ptr(),
            inout("x3") 0usize => _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_changes_nothing() {
        let mut memory = [7u8; 100];
        for len in 0..memory.len() {
            super::written_by_peer(memory.as_mut_ptr() as usize, len);
        }
        super::written_by_peer(0, usize::MAX);
        assert_eq!(memory, [7; 100]);
    }
}
