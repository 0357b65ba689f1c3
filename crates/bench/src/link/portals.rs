//! Portals 3.3, as the module for NetPIPE of the Cray XT3 paper (section 5.2) uses it: a portal with one match entry, whose
//! descriptor, with its queue, is made once for each round of messages. Where the library runs, the job's settings say.
//!
//! A queue that is full loses events, so a sender runs ahead of its receiver by less than a queue: the receiver says how far it is
//! by empty puts to a portal with a queue of its own.

use super::ends::{Ends, HUGE, Link, MOST_PERTURBED};
use super::layer::Layer;
use super::library::{self, functions, open};
use crate::abi::{BenchError, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

/// `ptl_process_id_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Id {
    nid: u32,
    pid: u32,
}

/// `ptl_md_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Md {
    start: *mut c_void,
    length: u64,
    threshold: c_int,
    max_size: u64,
    options: c_uint,
    user_ptr: *mut c_void,
    eq: u32,
}

/// `PTL_IFACE_HOST`.
const IFACE_HOST: u32 = 4;

/// Room for a `ptl_event_t`, and more.
type Event = [u64; 32];

functions! { Functions {
    init: b"PtlInit\0" (*mut c_int) -> c_int;
    fini: b"PtlFini\0" ();
    ni_init: b"PtlNIInit\0" (u32, u32, *const c_void, *mut c_void, *mut u32) -> c_int;
    ni_fini: b"PtlNIFini\0" (u32) -> c_int;
    status: b"PtlNIStatus\0" (u32, u32, *mut u64) -> c_int;
    rank: b"PtlGetRank\0" (u32, *mut c_uint, *mut c_uint) -> c_int;
    rank_id: b"PtlGetRankId\0" (u32, c_uint, *mut Id) -> c_int;
    jid: b"PtlGetJid\0" (u32, *mut u32) -> c_int;
    fence: b"PtlJobFence\0" (u32) -> c_int;
    error: b"PtlErrorMessage\0" () -> *const c_char;
    me_attach: b"PtlMEAttach\0" (u32, u32, Id, u64, u64, c_uint, c_uint, *mut u32) -> c_int;
    me_unlink: b"PtlMEUnlink\0" (u32) -> c_int;
    md_attach: b"PtlMDAttach\0" (u32, Md, c_uint, *mut u32) -> c_int;
    md_bind: b"PtlMDBind\0" (u32, Md, c_uint, *mut u32) -> c_int;
    md_unlink: b"PtlMDUnlink\0" (u32) -> c_int;
    eq_alloc: b"PtlEQAlloc\0" (u32, u64, *const c_void, *mut u32) -> c_int;
    eq_free: b"PtlEQFree\0" (u32) -> c_int;
    eq_wait: b"PtlEQWait\0" (u32, *mut Event) -> c_int;
    put: b"PtlPut\0" (u32, c_uint, Id, u32, u32, u64, u64, u64) -> c_int;
    get: b"PtlGet\0" (u32, Id, u32, u32, u64, u64) -> c_int;
} }

const ANY: u32 = u32::MAX;
const OK: c_int = 0;
const MD_IN_USE: c_int = 10;
const ME_IN_USE: c_int = 13;
const OP_PUT: c_uint = 0x1;
const OP_GET: c_uint = 0x2;
const MANAGE_REMOTE: c_uint = 0x4;
const START_DISABLE: c_uint = 0x80;
const INFINITE: c_int = -1;
const RETAIN: c_uint = 0;
const AFTER: c_uint = 1;
const NO_ACK: c_uint = 1;
const PORTAL: u32 = 4;
const BITS: u64 = 7;
/// Events that a queue keeps.
const EVENTS: u64 = 4096;
/// Portal of what the receiver returns.
const CREDITS: u32 = 5;
/// Receipts for which a credit is returned.
const PER_CREDIT: u64 = EVENTS / 4;
/// Puts that the receiver may not have seen.
const AHEAD_MOST: u64 = 3 * PER_CREDIT;
/// Puts whose memory has not been given back.
const OUTSTANDING: u64 = 64;
/// Ignored by the entry of a round. With entries ahead of it every other put has it: the same one twice in a row is not looked for twice.
const IGNORED: u64 = 1 << 63;
/// Entries ahead of the one that matches.
pub const AHEAD: usize = 1000;

/// What is made once for each round.
#[derive(Clone, Copy)]
struct Round {
    bytes: usize,
    entry: u32,
    own: u32,
    came: u32,
    sent: u32,
}

/// Portals between ranks 0 and 1.
pub struct Portals {
    f: Functions,
    layer: Layer,
    /// The job's interface, by which both meet.
    job: u32,
    /// The one that is measured.
    ni: u32,
    peer: Id,
    round: Option<Round>,
    outstanding: u64,
    /// Match bits of the put before.
    bits: u64,
    /// Puts for which no credit has come back.
    ahead: u64,
    /// Receipts for which none has been returned.
    owed: u64,
    /// What is put for a credit: nothing.
    nothing: u32,
    /// Where credits arrive.
    credits: u32,
    ends: Ends,
}

impl Portals {
    /// Open the interface; for `PortalsMatch` put entries ahead of all that will match.
    pub fn open(layer: Layer) -> Result<Self> {
        let f = Functions::load(open()?)?;
        let mut it = Self {
            f,
            layer,
            job: 0,
            ni: 0,
            peer: Id::default(),
            round: None,
            outstanding: 0,
            bits: BITS,
            ahead: 0,
            owed: 0,
            nothing: 0,
            credits: 0,
            ends: Ends::new(0, HUGE + MOST_PERTURBED),
        };
        let (mut most, mut rank, mut size) = (0, 0, 0);
        // SAFETY: Portals' functions, with pointers to what the header declares.
        unsafe {
            it.ok("PtlInit", (it.f.init)(&mut most))?;
            let mut ni = 0;
            let opened = (it.f.ni_init)(0, ANY, ptr::null(), ptr::null_mut(), &mut ni);
            it.ok("PtlNIInit", opened)?;
            (it.job, it.ni) = (ni, ni);
            it.ok("PtlGetRank", (it.f.rank)(ni, &mut rank, &mut size))?;
            let peer = c_uint::from(rank == 0);
            let mut id = Id::default();
            it.ok("PtlGetRankId", (it.f.rank_id)(ni, peer, &mut id))?;
            it.peer = id;
            if layer == Layer::HostPut {
                // Two numbers that both know and other jobs have hardly chosen.
                let mut jid = 0;
                it.ok("PtlGetJid", (it.f.jid)(ni, &mut jid))?;
                let pid = |rank: c_uint| 1 + jid % 500 * 2 + rank;
                let opened = (it.f.ni_init)(IFACE_HOST, pid(rank), ptr::null(), ptr::null_mut(), &mut it.ni);
                it.ok("PtlNIInit", opened)?;
                it.peer = Id {
                    nid: 0,
                    pid: pid(peer),
                };
            }
        }
        it.ends.rank = rank as usize;
        it.credits = it.queue()?;
        let entry = it.entry(CREDITS, BITS, 0)?;
        let target = it.describe(ptr::null(), 0, OP_PUT, it.credits);
        let nothing = it.describe(ptr::null(), 0, 0, NO_QUEUE);
        // SAFETY: no memory is described; room for a handle.
        unsafe {
            let made = (it.f.md_attach)(entry, target, RETAIN, ptr::null_mut());
            it.ok("PtlMDAttach", made)?;
            let mut handle = 0;
            let made = (it.f.md_bind)(it.ni, nothing, RETAIN, &mut handle);
            it.ok("PtlMDBind", made)?;
            it.nothing = handle;
        }
        if layer == Layer::HostPut {
            // The agent knows who has joined.
            // SAFETY: a handle of ours.
            it.ok("PtlJobFence", unsafe { (it.f.fence)(it.job) })?;
        }
        if layer == Layer::PortalsMatch {
            for ahead in 0..AHEAD {
                let entry = it.entry(PORTAL, BITS + 1 + ahead as u64, 0)?;
                let md = it.describe(it.ends.into.bytes().as_ptr(), 8, OP_PUT, NO_QUEUE);
                // SAFETY: the memory lives as long as the interface.
                it.ok("PtlMDAttach", unsafe {
                    (it.f.md_attach)(entry, md, RETAIN, ptr::null_mut())
                })?;
            }
        }
        Ok(it)
    }

    #[inline]
    fn ok(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == OK {
            Ok(())
        } else {
            Err(self.failed(call, code))
        }
    }

    #[cold]
    fn failed(&self, call: &'static str, code: c_int) -> BenchError {
        library::failed(call, Some(code), self.f.error)
    }

    fn entry(&self, portal: u32, bits: u64, ignore: u64) -> Result<u32> {
        let (anybody, mut entry) = (Id { nid: ANY, pid: ANY }, 0);
        // SAFETY: plain values, and room for a handle.
        let made =
            unsafe { (self.f.me_attach)(self.ni, portal, anybody, bits, ignore, RETAIN, AFTER, &mut entry) };
        self.ok("PtlMEAttach", made).map(|()| entry)
    }

    fn describe(&self, start: *const u8, bytes: usize, options: c_uint, eq: u32) -> Md {
        Md {
            start: start.cast_mut().cast(),
            length: bytes as u64,
            threshold: INFINITE,
            max_size: 0,
            options: options | START_DISABLE,
            user_ptr: ptr::null_mut(),
            eq,
        }
    }

    fn queue(&self) -> Result<u32> {
        let mut eq = 0;
        // SAFETY: plain values, and room for a handle.
        let made = unsafe { (self.f.eq_alloc)(self.ni, EVENTS, ptr::null(), &mut eq) };
        self.ok("PtlEQAlloc", made).map(|()| eq)
    }

    /// Call until nothing is under way.
    fn insist(&self, call: &'static str, busy: c_int, attempt: impl Fn() -> c_int) -> Result<()> {
        loop {
            match attempt() {
                code if code == busy => {}
                code => return self.ok(call, code),
            }
        }
    }

    fn end_round(&mut self) -> Result<()> {
        let Some(round) = self.round.take() else {
            return Ok(());
        };
        self.outstanding = 0;
        // SAFETY: handles of ours.
        unsafe {
            self.insist("PtlMEUnlink", ME_IN_USE, || (self.f.me_unlink)(round.entry))?;
            self.insist("PtlMDUnlink", MD_IN_USE, || (self.f.md_unlink)(round.own))?;
            self.ok("PtlEQFree", (self.f.eq_free)(round.came))?;
            self.ok("PtlEQFree", (self.f.eq_free)(round.sent))
        }
    }

    #[inline]
    fn await_event(&self, eq: u32) -> Result<()> {
        let mut event = std::mem::MaybeUninit::<Event>::uninit();
        // SAFETY: room for more than an event.
        let code = unsafe { (self.f.eq_wait)(eq, event.as_mut_ptr()) };
        self.ok("PtlEQWait", code)
    }

    fn no_round() -> BenchError {
        BenchError::Usage("a message of Portals without a round".into())
    }
}

/// `PTL_EQ_NONE`.
const NO_QUEUE: u32 = 0xbfff_ffff;

impl Link for Portals {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn pulls(&self) -> bool {
        self.layer.is_get()
    }

    fn prepare(&mut self, bytes: usize) -> Result<()> {
        if self.round.is_some_and(|round| round.bytes == bytes) {
            return Ok(());
        }
        self.end_round()?;
        let (came, sent, entry) = (self.queue()?, self.queue()?, self.entry(PORTAL, BITS, IGNORED)?);
        let (out, into) = (self.ends.out.bytes().as_ptr(), self.ends.into.bytes().as_ptr());
        // Others put into what arrives, or get from what is sent.
        let (shown, option, used) = match self.pulls() {
            true => (out, OP_GET, into),
            false => (into, OP_PUT, out),
        };
        let target = self.describe(shown, bytes, option | MANAGE_REMOTE, came);
        let own = self.describe(used, bytes, 0, sent);
        let mut handle = 0;
        // SAFETY: the memory lives as long as the interface; room for a handle.
        unsafe {
            let made = (self.f.md_attach)(entry, target, RETAIN, ptr::null_mut());
            self.ok("PtlMDAttach", made)?;
            self.ok("PtlMDBind", (self.f.md_bind)(self.ni, own, RETAIN, &mut handle))?;
        }
        self.round = Some(Round {
            bytes,
            entry,
            own: handle,
            came,
            sent,
        });
        Ok(())
    }

    /// Put; or wait until the other one has got.
    #[inline]
    fn send(&mut self, _: usize) -> Result<()> {
        let round = self.round.ok_or_else(Self::no_round)?;
        if self.pulls() {
            return self.await_event(round.came);
        }
        if self.outstanding >= OUTSTANDING {
            self.await_event(round.sent)?;
        } else {
            self.outstanding += 1;
        }
        if self.ahead >= AHEAD_MOST {
            self.await_event(self.credits)?;
            self.ahead -= PER_CREDIT;
        }
        self.ahead += 1;
        if self.layer == Layer::PortalsMatch {
            self.bits ^= IGNORED;
        }
        // SAFETY: plain values; the memory lives.
        let code = unsafe { (self.f.put)(round.own, NO_ACK, self.peer, PORTAL, 0, self.bits, 0, 0) };
        self.ok("PtlPut", code)
    }

    /// The memory is the program's again: it may be written for the next message.
    #[inline]
    fn flush(&mut self) -> Result<()> {
        let round = self.round.ok_or_else(Self::no_round)?;
        while self.outstanding > 0 {
            self.outstanding -= 1;
            self.await_event(round.sent)?;
        }
        Ok(())
    }

    /// Wait for a put; or get.
    #[inline]
    fn receive(&mut self, _: usize) -> Result<()> {
        let round = self.round.ok_or_else(Self::no_round)?;
        if !self.pulls() {
            self.await_event(round.came)?;
            self.owed += 1;
            if self.owed < PER_CREDIT {
                return Ok(());
            }
            self.owed = 0;
            // SAFETY: plain values, and no memory.
            let code = unsafe { (self.f.put)(self.nothing, NO_ACK, self.peer, CREDITS, 0, BITS, 0, 0) };
            return self.ok("PtlPut", code);
        }
        // SAFETY: plain values; the memory lives.
        let code = unsafe { (self.f.get)(round.own, self.peer, PORTAL, 0, BITS, 0) };
        self.ok("PtlGet", code)?;
        self.await_event(round.sent)
    }

    fn poll(&mut self) -> Result<()> {
        let mut drops = 0;
        // SAFETY: room for a value.
        let code = unsafe { (self.f.status)(self.ni, 0, &mut drops) };
        self.ok("PtlNIStatus", code)
    }

    fn close(mut self) -> Result<()> {
        // The other one may still be busy with the last round.
        // SAFETY: handles of ours.
        unsafe {
            self.ok("PtlJobFence", (self.f.fence)(self.job))?;
            self.end_round()?;
            self.ok("PtlNIFini", (self.f.ni_fini)(self.ni))?;
            if self.job != self.ni {
                self.ok("PtlNIFini", (self.f.ni_fini)(self.job))?;
            }
            (self.f.fini)();
        }
        Ok(())
    }
}
