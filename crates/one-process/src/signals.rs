//! A rank that dies by a signal takes all with it: which one it was is said.

use crate::rank::running;
use libc::{c_int, c_void};

const DEADLY: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
];

/// Bytes of the stack of the handler: a rank may have used up its own.
const STACK: usize = 64 << 10;

/// From now on.
pub fn tell_of_them() {
    let stack = Box::leak(vec![0_u8; STACK].into_boxed_slice());
    let alternate = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: STACK,
    };
    // SAFETY: a stack that lives as long as the process, and a handler that only writes to a descriptor and raises the signal again.
    unsafe {
        libc::sigaltstack(&alternate, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tell as *const c_void as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
        for signal in DEADLY {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn tell(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some(rank) = running() {
        let address = match signal {
            // SAFETY: what the system passes, which has an address for these signals.
            libc::SIGSEGV | libc::SIGBUS => unsafe { (*info).si_addr() }.addr(),
            _ => 0,
        };
        let mut line = [0_u8; 120];
        let mut len = 0;
        let mut add = |bytes: &[u8]| {
            line[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        add(b"farpost sim: rank ");
        add(digits(rank.number, &mut [0; 10]));
        if rank.guard.contains(&address) {
            add(b" has used up its stack (ulimit -s):");
        }
        add(b" killed by signal ");
        add(digits(signal as u32, &mut [0; 10]));
        add(b", and all ranks with it\n");
        // SAFETY: bytes of this function's, to a descriptor.
        unsafe { libc::write(2, line.as_ptr().cast(), len) };
    }
    // SAFETY: takes an integer; the handler is the system's again.
    unsafe { libc::raise(signal) };
}

/// Without memory from the heap.
fn digits(number: u32, to: &mut [u8; 10]) -> &[u8] {
    let (mut at, mut left) = (to.len(), number);
    loop {
        at -= 1;
        to[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &to[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn numbers_are_written() {
        for number in [0, 7, 10, 4_294_967_295] {
            assert_eq!(digits(number, &mut [0; 10]), number.to_string().as_bytes());
        }
    }
}
