//! JAM: PIO messages, batches, blocks and remote procedures.

use super::ends::{Ends, LARGEST, Link};
use super::layer::Layer;
use super::library::{self, functions, open};
use super::sink;
use crate::abi::{BenchError, Result};
use std::ffi::{c_char, c_int, c_void};

type Procedure = unsafe extern "C" fn(u32, *const c_void, usize, *mut c_void);
type Receiver = unsafe extern "C" fn(u32, u32, *const u32, c_int, *mut c_void);

/// `JAM_message`.
#[repr(C)]
struct Message {
    from: u32,
    priority: c_int,
    tag: u32,
    count: c_int,
    words: [u32; 22],
}

/// `JAM_block`.
#[repr(C)]
struct Arrived {
    from: u32,
    tag: u32,
    buffer: *mut c_void,
    size: usize,
}

functions! { Functions {
    initialize: b"JAM_initialize\0" ();
    finalize: b"JAM_finalize\0" ();
    error: b"JAM_error\0" () -> *const c_char;
    send: b"JAM_send\0" (u32, c_int, c_int, u32, *const u32, c_int) -> c_int;
    receive: b"JAM_receive\0" (c_int, *mut Message) -> c_int;
    batch_create: b"JAM_batch_create\0" (u32) -> *mut c_void;
    batch_free: b"JAM_batch_free\0" (*mut c_void);
    batch_push: b"JAM_batch_push\0" (*mut c_void, u32, *const u32, c_int) -> c_int;
    batch_launch: b"JAM_batch_launch\0" (*mut c_void) -> c_int;
    batch_receive: b"JAM_batch_receive\0" (c_int, Receiver, *mut c_void) -> c_int;
    rdma_send: b"JAM_rdma_send\0" (u32, u32, *const c_void, usize, *mut u64) -> c_int;
    rdma_test: b"JAM_rdma_test\0" (u64) -> c_int;
    rdma_post: b"JAM_rdma_post\0" (*mut c_void, usize) -> c_int;
    rdma_receive: b"JAM_rdma_receive\0" (*mut Arrived) -> c_int;
    register: b"JAM_register\0" (u32, Procedure, *mut c_void) -> c_int;
    rpc: b"JAM_rpc\0" (u32, u32, *const c_void, usize) -> c_int;
    poll: b"JAM_poll\0" () -> c_int;
} }

const AGAIN: c_int = 1;
const HIGH: c_int = 0;
const LOW: c_int = 1;
const PROCEDURE: u32 = 1;
/// Messages of a batch.
const BATCH: usize = 16;
/// Calls that may be on their way unanswered: nothing else bounds what `JAM_rpc`, which never waits, keeps.
const CALLS: u64 = 256;

unsafe extern "C" fn on_call(_: u32, argument: *const c_void, size: usize, _: *mut c_void) {
    // SAFETY: JAM hands over `size` bytes; `Jam` keeps what the sink was given.
    unsafe { sink::deliver(argument.cast(), size) };
}

unsafe extern "C" fn on_credit(_: u32, _: *const c_void, _: usize, _: *mut c_void) {
    sink::count_answer();
}

unsafe extern "C" fn on_batched(_: u32, _: u32, words: *const u32, count: c_int, _: *mut c_void) {
    // SAFETY: JAM hands over `count` words.
    unsafe { sink::deliver(words.cast(), 4 * count.max(0) as usize) };
}

/// JAM between processes 0 and 1.
pub struct Jam {
    f: Functions,
    layer: Layer,
    peer: u32,
    taken: u64,
    called: u64,
    batch: *mut c_void,
    pushed: usize,
    posted: bool,
    ends: Ends,
    words: [u32; 4],
}

impl Jam {
    /// Join, and register procedures.
    pub fn open(layer: Layer) -> Result<Self> {
        let lib = open()?;
        let f = Functions::load(lib)?;
        let mut ends = Ends::new(0, LARGEST);
        sink::set(ends.into.bytes_mut());
        // SAFETY: JAM's functions, with procedures of the type that the header declares; JAM_me is a variable of the library.
        ends.rank = unsafe {
            (f.initialize)();
            (f.register)(PROCEDURE, on_call, std::ptr::null_mut());
            (f.register)(PROCEDURE + 1, on_credit, std::ptr::null_mut());
            **lib
                .get::<*const u32>(b"JAM_me\0")
                .map_err(|_| library::missing(b"JAM_me"))?
        } as usize;
        let peer = u32::from(ends.rank == 0);
        // SAFETY: a plain value.
        let batch = unsafe { (f.batch_create)(peer) };
        Ok(Self {
            f,
            layer,
            peer,
            taken: 0,
            called: 0,
            batch,
            pushed: 0,
            posted: false,
            ends,
            words: [1, 2, 3, 4],
        })
    }

    #[inline]
    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.failed(call, code))
        }
    }

    #[cold]
    fn failed(&self, call: &'static str, code: c_int) -> BenchError {
        library::failed(call, Some(code), self.f.error)
    }

    /// Call until there is room.
    #[inline]
    fn insist(&self, call: &'static str, mut attempt: impl FnMut() -> c_int) -> Result<()> {
        loop {
            match attempt() {
                0 => return Ok(()),
                // SAFETY: no memory is passed.
                AGAIN => unsafe { (self.f.poll)() },
                code => return Err(self.failed(call, code)),
            };
        }
    }

    /// The next message of one priority, if there is one; its payload goes to `into`.
    #[inline]
    fn next(&mut self, priority: c_int) -> bool {
        let mut message = std::mem::MaybeUninit::<Message>::uninit();
        // SAFETY: room for a message; JAM fills what it says it has received: the header fields and `count` words.
        unsafe {
            if (self.f.receive)(priority, message.as_mut_ptr()) == 0 {
                return false;
            }
            let message = message.as_ptr();
            let bytes = 4 * ((*message).count.clamp(0, 22) as usize);
            let words = (&raw const (*message).words).cast::<u8>();
            std::ptr::copy_nonoverlapping(words, self.ends.into.bytes_mut().as_mut_ptr(), bytes);
        }
        true
    }

    fn launch(&mut self) -> Result<()> {
        if self.pushed > 0 {
            self.pushed = 0;
            // SAFETY: the batch is ours and lives.
            return self.insist("JAM_batch_launch", || unsafe {
                (self.f.batch_launch)(self.batch)
            });
        }
        Ok(())
    }

    fn post(&mut self) -> Result<()> {
        if !self.posted {
            self.posted = true;
            let into = self.ends.into.bytes_mut();
            // SAFETY: the memory lives until `close`, and is looked at only when a block has come.
            let code = unsafe { (self.f.rdma_post)(into.as_mut_ptr().cast(), into.len()) };
            self.check("JAM_rdma_post", code)?;
        }
        Ok(())
    }
}

impl Link for Jam {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        let out = self.ends.out.bytes()[..bytes].as_ptr();
        let words = (bytes / 4) as c_int;
        match self.layer {
            // SAFETY: `out` has so many words and is aligned.
            Layer::JamPio => self.insist("JAM_send", || unsafe {
                (self.f.send)(self.peer, LOW, 0, 7, out.cast(), words)
            }),
            Layer::JamVi => {
                // SAFETY: as above, and the batch is ours.
                let code = unsafe { (self.f.batch_push)(self.batch, 7, out.cast(), words) };
                self.check("JAM_batch_push", code)?;
                self.pushed += 1;
                if self.pushed >= BATCH {
                    self.launch()?;
                }
                Ok(())
            }
            Layer::JamRdma => {
                let mut transfer = 0u64;
                // SAFETY: `out` has so many bytes and is not changed before the transfer has ended, below.
                let code = unsafe { (self.f.rdma_send)(self.peer, 7, out.cast(), bytes, &mut transfer) };
                self.check("JAM_rdma_send", code)?;
                // SAFETY: a plain value.
                self.insist("JAM_rdma_test", || unsafe { (self.f.rdma_test)(transfer) })
            }
            _ => {
                while self.called - sink::answered() * (CALLS / 2) >= CALLS {
                    self.poll()?;
                }
                self.called += 1;
                // SAFETY: `out` has so many bytes, which are copied.
                let code = unsafe { (self.f.rpc)(self.peer, PROCEDURE, out.cast(), bytes) };
                self.check("JAM_rpc", code)
            }
        }
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<()> {
        match self.layer {
            Layer::JamPio => while !self.next(LOW) {},
            Layer::JamVi => {
                self.taken += 1;
                while sink::arrived() < self.taken {
                    // SAFETY: the receiver has the type that the header declares and needs no context.
                    unsafe {
                        (self.f.batch_receive)(c_int::MAX, on_batched, std::ptr::null_mut());
                        if sink::arrived() < self.taken {
                            (self.f.poll)();
                        }
                    }
                }
            }
            Layer::JamRdma => {
                self.post()?;
                let mut block = std::mem::MaybeUninit::<Arrived>::uninit();
                // SAFETY: room for what is written when a block has come.
                while unsafe { (self.f.rdma_receive)(block.as_mut_ptr()) } == 0 {}
                self.posted = false;
                // For the next one: the sender need not wait for it to be asked for.
                self.post()?;
            }
            _ => {
                self.taken += 1;
                while sink::arrived() < self.taken {
                    self.poll()?;
                }
                if self.taken.is_multiple_of(CALLS / 2) {
                    // SAFETY: no argument.
                    let code = unsafe { (self.f.rpc)(self.peer, PROCEDURE + 1, std::ptr::null(), 0) };
                    self.check("JAM_rpc", code)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        if self.layer == Layer::JamVi {
            self.launch()?;
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Result<()> {
        // SAFETY: no memory is passed.
        unsafe { (self.f.poll)() };
        Ok(())
    }

    #[inline]
    fn ask(&mut self) -> Result<u64> {
        let mut taken = 0;
        loop {
            // SAFETY: four words that live; requests go with low priority, answers with high.
            match unsafe { (self.f.send)(self.peer, LOW, 0, 7, self.words.as_ptr(), 4) } {
                0 => return Ok(taken),
                AGAIN => {
                    taken += u64::from(self.next(HIGH));
                    self.poll()?;
                }
                code => return Err(self.failed("JAM_send", code)),
            }
        }
    }

    #[inline]
    fn take(&mut self) -> Result<u64> {
        Ok(u64::from(self.next(HIGH)))
    }

    #[inline]
    fn answer(&mut self) -> Result<u64> {
        if !self.next(LOW) {
            return Ok(0);
        }
        let words = self.ends.into.bytes().as_ptr().cast::<u32>();
        // SAFETY: the request's four words have just arrived there.
        self.insist("JAM_send", || unsafe {
            (self.f.send)(self.peer, HIGH, 0, 7, words, 4)
        })?;
        Ok(1)
    }

    fn close(self) -> Result<()> {
        // SAFETY: the batch is ours; what was posted still lives.
        unsafe {
            (self.f.batch_free)(self.batch);
            (self.f.finalize)();
        }
        Ok(())
    }
}
