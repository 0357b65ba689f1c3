//! RSMAPI: messages as a program makes them of puts. Each rank exports a ring of slots; the peer puts data and a number into
//! the next one. Up to 56 bytes travel with their number in one line, which arrives whole; longer ones are put, ordered by a
//! barrier, and then the number is put.

use super::ends::{Block, Ends, LARGEST, Link};
use super::library::{self, functions, open};
use crate::abi::{BenchError, Result};
use crate::board::LINE_PAYLOAD;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

type Handle = *mut c_void;

/// `rsmapi_barrier_t`.
#[repr(C)]
struct Barrier {
    segment: Handle,
    generation: u16,
    private: *mut c_void,
}

/// The beginning of `rsm_topology_t`.
#[repr(C)]
struct Topology {
    local_node: u32,
    controllers: c_int,
}

/// `rsmapi_access_entry_t`.
#[repr(C)]
struct Access {
    node: u32,
    permission: u32,
}

functions! { Functions {
    get_controller: b"rsm_get_controller\0" (*const c_char, *mut Handle) -> c_int;
    topology: b"rsm_get_interconnect_topology\0" (*mut *mut Topology) -> c_int;
    free_topology: b"rsm_free_interconnect_topology\0" (*mut Topology);
    create: b"rsm_memseg_export_create\0" (Handle, *mut Handle, *mut c_void, usize, c_uint) -> c_int;
    publish: b"rsm_memseg_export_publish\0" (Handle, *mut u32, *mut Access, c_uint) -> c_int;
    connect: b"rsm_memseg_import_connect\0" (Handle, u32, u32, u32, *mut Handle) -> c_int;
    set_mode: b"rsm_memseg_import_set_mode\0" (Handle, c_int) -> c_int;
    init_barrier: b"rsm_memseg_import_init_barrier\0" (Handle, c_uint, *mut Barrier) -> c_int;
    open_barrier: b"rsm_memseg_import_open_barrier\0" (*mut Barrier) -> c_int;
    order_barrier: b"rsm_memseg_import_order_barrier\0" (*mut Barrier) -> c_int;
    put: b"rsm_memseg_import_put\0" (Handle, libc::off_t, *const c_void, usize) -> c_int;
    put64: b"rsm_memseg_import_put64\0" (Handle, libc::off_t, *const u64, libc::c_ulong) -> c_int;
    message: b"rsm_error_message\0" () -> *const c_char;
} }

const SEGMENT: u32 = 0x0050_4242;
const PAGE: usize = 4096;
const SLOTS: u64 = 32;
const READ_WRITE: u32 = 0o600;
const NOT_PUBLISHED: c_int = 7;

/// Remote shared memory between nodes 0 and 1.
pub struct Rsm {
    f: Functions,
    import: Handle,
    barrier: Box<Barrier>,
    /// Exported: a page whose first word is the peer's count of what it has read of ours, then the slots.
    exported: *mut u8,
    sent: u64,
    received: u64,
    slot: usize,
    line: Block,
    ends: Ends,
}

impl Rsm {
    pub fn open() -> Result<Self> {
        let f = Functions::load(open()?)?;
        let len = (PAGE + SLOTS as usize * (LARGEST + 64)).next_multiple_of(PAGE);
        let check = |call: &'static str, code: c_int| {
            if code == 0 {
                return Ok(());
            }
            Err(library::failed(call, None, f.message))
        };
        // SAFETY: a fresh private mapping, which RSM may share pages of; it is never unmapped.
        let memory = unsafe {
            let (read_write, private) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            libc::mmap(std::ptr::null_mut(), len, read_write, private, -1, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(BenchError::Io {
                what: "mapping memory for a segment".into(),
                cause: std::io::Error::last_os_error(),
            });
        }
        let (mut controller, mut export, mut import) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let mut barrier = Box::new(Barrier {
            segment: std::ptr::null_mut(),
            generation: 0,
            private: std::ptr::null_mut(),
        });
        // SAFETY: out pointers are valid, handles are those that the calls before have set, the memory is that mapped above.
        let rank = unsafe {
            check(
                "rsm_get_controller",
                (f.get_controller)(c"shm0".as_ptr(), &mut controller),
            )?;
            let mut topology = std::ptr::null_mut();
            check("rsm_get_interconnect_topology", (f.topology)(&mut topology))?;
            let rank = (*topology).local_node as usize;
            (f.free_topology)(topology);
            let peer = u32::from(rank == 0);
            check(
                "rsm_memseg_export_create",
                (f.create)(controller, &mut export, memory, len, 0),
            )?;
            let mut id = SEGMENT;
            let mut access = Access {
                node: peer,
                permission: READ_WRITE,
            };
            check(
                "rsm_memseg_export_publish",
                (f.publish)(export, &mut id, &mut access, 1),
            )?;
            loop {
                match (f.connect)(controller, peer, SEGMENT, READ_WRITE, &mut import) {
                    NOT_PUBLISHED => std::thread::yield_now(),
                    code => break check("rsm_memseg_import_connect", code)?,
                }
            }
            check("rsm_memseg_import_set_mode", (f.set_mode)(import, 0))?;
            check(
                "rsm_memseg_import_init_barrier",
                (f.init_barrier)(import, 1, &mut *barrier),
            )?;
            check("rsm_memseg_import_open_barrier", (f.open_barrier)(&mut *barrier))?;
            rank
        };
        Ok(Self {
            f,
            import,
            barrier,
            exported: memory.cast(),
            sent: 0,
            received: 0,
            slot: 64,
            line: Block::new(64),
            ends: Ends::new(rank, LARGEST),
        })
    }

    #[inline]
    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.failed(call)) }
    }

    #[cold]
    fn failed(&self, call: &'static str) -> BenchError {
        library::failed(call, None, self.f.message)
    }

    /// A word of the exported memory, which the peer writes.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: offsets are multiples of 8 inside the memory, which is never unmapped and only the peer writes.
        unsafe { &*self.exported.add(at).cast::<AtomicU64>() }
    }

    #[inline]
    fn put(&self, at: usize, from: &[u8]) -> Result<()> {
        // SAFETY: the slice lives through the call.
        let code = unsafe { (self.f.put)(self.import, at as libc::off_t, from.as_ptr().cast(), from.len()) };
        self.check("rsm_memseg_import_put", code)
    }

    #[inline]
    fn put_word(&self, at: usize, value: u64) -> Result<()> {
        // SAFETY: one word that lives through the call.
        let code = unsafe { (self.f.put64)(self.import, at as libc::off_t, &raw const value, 1) };
        self.check("rsm_memseg_import_put64", code)
    }

    /// Where a slot begins.
    #[inline]
    fn at(&self, number: u64) -> usize {
        PAGE + (number % SLOTS) as usize * self.slot
    }
}

impl Link for Rsm {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn prepare(&mut self, bytes: usize) -> Result<()> {
        self.slot = if bytes <= LINE_PAYLOAD {
            64
        } else {
            bytes.next_multiple_of(64) + 64
        };
        Ok(())
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        while self.sent - self.word(0).load(Ordering::Acquire) >= SLOTS {
            std::hint::spin_loop();
        }
        let at = self.at(self.sent);
        self.sent += 1;
        let number = self.sent;
        if bytes <= LINE_PAYLOAD {
            let line = &mut self.line.bytes_mut()[..64];
            line[..bytes].copy_from_slice(&self.ends.out.bytes()[..bytes]);
            line[LINE_PAYLOAD..].copy_from_slice(&number.to_ne_bytes());
            return self.put(at, &self.line.bytes()[..64]);
        }
        self.put(at, &self.ends.out.bytes()[..bytes])?;
        // SAFETY: the barrier is the one opened.
        let code = unsafe { (self.f.order_barrier)(&mut *self.barrier) };
        self.check("rsm_memseg_import_order_barrier", code)?;
        self.put_word(at + self.slot - 64, number)
    }

    #[inline]
    fn receive(&mut self, bytes: usize) -> Result<()> {
        let at = self.at(self.received);
        self.received += 1;
        let flag = if bytes <= LINE_PAYLOAD {
            at + LINE_PAYLOAD
        } else {
            at + self.slot - 64
        };
        let mut turns = 0u32;
        while self.word(flag).load(Ordering::Acquire) != self.received {
            turns += 1;
            if turns & 0xffff == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        // SAFETY: the number says that so many bytes are there; the peer does not write them before it is told, below.
        unsafe {
            let from = self.exported.add(at);
            std::ptr::copy_nonoverlapping(from, self.ends.into.bytes_mut().as_mut_ptr(), bytes);
        }
        if self.received.is_multiple_of(SLOTS / 2) {
            self.put_word(0, self.received)?;
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(()) // RSMAPI has no call for the end
    }
}
