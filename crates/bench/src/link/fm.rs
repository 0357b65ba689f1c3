//! Fast Messages: FM_send_4, FM_send and messages in pieces.

use super::ends::{Ends, LARGEST, Link};
use super::layer::Layer;
use super::library::{self, functions, open};
use super::sink;
use crate::abi::{BenchError, Result};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

type FrameHandler = unsafe extern "C" fn(*mut c_void, c_uint, c_uint);
type StreamHandler = unsafe extern "C" fn(*mut c_void, c_uint) -> c_int;

functions! { Functions {
    initialize: b"FM_initialize\0" ();
    finalize: b"FM_finalize\0" ();
    register_frames: b"FM_register_message_handler\0" (c_ulong, FrameHandler) -> c_ulong;
    register_streams: b"FM_register_handler\0" (c_ulong, StreamHandler) -> c_ulong;
    send_4: b"FM_send_4\0" (c_ulong, c_ulong, u32, u32, u32, u32) -> c_int;
    send: b"FM_send\0" (c_ulong, c_ulong, *const c_void, c_ulong) -> c_int;
    extract: b"FM_extract\0" (c_uint) -> c_int;
    begin: b"FM_begin_message\0" (c_ulong, c_ulong, c_ulong) -> *mut c_void;
    piece: b"FM_send_piece\0" (*mut c_void, *const c_void, c_ulong) -> c_int;
    end: b"FM_end_message\0" (*mut c_void) -> c_int;
    receive: b"FM_receive\0" (*mut c_void, *mut c_void, c_uint) -> c_int;
    error: b"FM_error\0" () -> *const c_char;
} }

/// For handlers, which are called without anything of ours.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

const ALL: c_uint = c_uint::MAX;
const FRAME: c_ulong = 1;
const STREAM: c_ulong = 2;
const REQUEST: c_ulong = 3;
const ANSWER: c_ulong = 4;

unsafe extern "C" fn on_frame(buf: *mut c_void, size: c_uint, _: c_uint) {
    // SAFETY: FM hands over `size` bytes; `Fm` keeps what the sink was given.
    unsafe { sink::deliver(buf.cast(), size as usize) };
}

unsafe extern "C" fn on_stream(stream: *mut c_void, _: c_uint) -> c_int {
    let (into, bytes) = sink::place();
    if let Some(f) = FUNCTIONS.get() {
        // SAFETY: the stream is this handler's, and there is room for so many bytes.
        unsafe { (f.receive)(into.cast(), stream, bytes as c_uint) };
    }
    sink::arrive();
    0
}

unsafe extern "C" fn on_request(buf: *mut c_void, size: c_uint, sender: c_uint) {
    let mut words = [0u32; 4];
    let n = (size as usize).min(16);
    // SAFETY: FM hands over `size` bytes.
    unsafe { std::ptr::copy_nonoverlapping(buf.cast::<u8>(), words.as_mut_ptr().cast(), n) };
    if let Some(f) = FUNCTIONS.get() {
        let [a, b, c, d] = words;
        // SAFETY: plain values. What it says is seen by the asker: a missing answer is waited for.
        unsafe { (f.send_4)(c_ulong::from(sender), ANSWER, a, b, c, d) };
    }
    sink::count_answer();
}

unsafe extern "C" fn on_answer(buf: *mut c_void, size: c_uint, _: c_uint) {
    // SAFETY: FM hands over `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), size as usize) };
    std::hint::black_box(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    sink::count_answer();
}

/// Fast Messages between nodes 0 and 1.
pub struct Fm {
    f: &'static Functions,
    layer: Layer,
    peer: c_ulong,
    taken: u64,
    answered: u64,
    ends: Ends,
}

impl Fm {
    /// Join, and register handlers.
    pub fn open(layer: Layer) -> Result<Self> {
        let lib = open()?;
        let f = Functions::load(lib)?;
        let f = FUNCTIONS.get_or_init(|| f);
        let mut ends = Ends::new(0, LARGEST);
        sink::set(ends.into.bytes_mut());
        // SAFETY: FM's functions from the thread that began; handlers have the types that the header declares.
        ends.rank = unsafe {
            (f.initialize)();
            for (id, handler) in [
                (FRAME, on_frame as FrameHandler),
                (REQUEST, on_request),
                (ANSWER, on_answer),
            ] {
                (f.register_frames)(id, handler);
            }
            (f.register_streams)(STREAM, on_stream);
            **lib
                .get::<*const c_ulong>(b"FM_nodeid\0")
                .map_err(|_| library::missing(b"FM_nodeid"))?
        } as usize;
        Ok(Self {
            f,
            layer,
            peer: c_ulong::from(ends.rank == 0),
            taken: 0,
            answered: 0,
            ends,
        })
    }

    #[inline]
    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code >= 0 { Ok(()) } else { Err(self.failed(call)) }
    }

    #[cold]
    fn failed(&self, call: &'static str) -> BenchError {
        library::failed(call, None, self.f.error)
    }

    #[inline]
    fn extract(&self) -> Result<()> {
        // SAFETY: no memory is passed.
        self.check("FM_extract", unsafe { (self.f.extract)(ALL) })
    }

    /// A word of what is to be sent.
    #[inline]
    fn word(&self, at: usize) -> u32 {
        let bytes = &self.ends.out.bytes()[4 * at..4 * at + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Link for Fm {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn prepare(&mut self, bytes: usize) -> Result<()> {
        sink::expect(bytes);
        Ok(())
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        let (f, peer, out) = (self.f, self.peer, self.ends.out.bytes()[..bytes].as_ptr());
        match self.layer {
            Layer::FmSend4 => {
                let (a, b, c, d) = (self.word(0), self.word(1), self.word(2), self.word(3));
                // SAFETY: plain values.
                self.check("FM_send_4", unsafe { (f.send_4)(peer, FRAME, a, b, c, d) })
            }
            Layer::FmSend
            | Layer::FmBare
            | Layer::FmBuffers
            | Layer::FmBuffersSwitch
            | Layer::FmFlow
            | Layer::FmFlowSwitch => {
                // SAFETY: `out` has so many bytes.
                let code = unsafe { (f.send)(peer, FRAME, out.cast(), bytes as c_ulong) };
                self.check("FM_send", code)
            }
            _ => {
                let stream = loop {
                    // SAFETY: plain values.
                    let stream = unsafe { (f.begin)(peer, bytes as c_ulong, STREAM) };
                    if !stream.is_null() {
                        break stream;
                    }
                    self.extract()?; // no slot is free
                };
                // SAFETY: the stream is the one begun, and `out` has so many bytes.
                let code = unsafe { (f.piece)(stream, out.cast(), bytes as c_ulong) };
                self.check("FM_send_piece", code)?;
                // SAFETY: as above; it is not used afterwards.
                self.check("FM_end_message", unsafe { (f.end)(stream) })
            }
        }
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<()> {
        self.taken += 1;
        while sink::arrived() < self.taken {
            self.extract()?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        self.extract()
    }

    #[inline]
    fn ask(&mut self) -> Result<u64> {
        let n = self.answered as u32;
        // SAFETY: plain values.
        let code = unsafe { (self.f.send_4)(self.peer, REQUEST, n, 1, 2, 3) };
        self.check("FM_send_4", code)?;
        Ok(self.news())
    }

    #[inline]
    fn take(&mut self) -> Result<u64> {
        self.extract()?;
        Ok(self.news())
    }

    #[inline]
    fn answer(&mut self) -> Result<u64> {
        self.take()
    }

    fn close(self) -> Result<()> {
        self.leave();
        Ok(())
    }
}

impl Fm {
    /// Answers counted since the last call.
    #[inline]
    fn news(&mut self) -> u64 {
        let new = sink::answered() - self.answered;
        self.answered += new;
        new
    }

    /// Send about `messages` in all to the other `nodes`, as many to each, and take in as many as they send here.
    pub fn greet(&mut self, nodes: usize, messages: usize) -> Result<()> {
        let others = nodes.saturating_sub(1);
        let each = messages.div_ceil(others.max(1));
        for number in 0..each {
            for other in 1..nodes {
                let to = ((self.ends.rank + other) % nodes) as c_ulong;
                // SAFETY: plain values.
                let code = unsafe { (self.f.send_4)(to, FRAME, number as u32, 1, 2, 3) };
                self.check("FM_send_4", code)?;
                self.extract()?;
            }
        }
        while sink::arrived() < (each * others) as u64 {
            self.extract()?;
        }
        // What is owed to senders is told them when nothing more comes.
        for _ in 0..64 {
            self.extract()?;
        }
        Ok(())
    }

    /// FM_finalize.
    pub fn leave(self) {
        // SAFETY: no memory is passed; the handlers' memory still lives.
        unsafe { (self.f.finalize)() };
    }
}
