//! What comes from one socket: a buffer for headers and small frames, and a place where the payload of a large
//! frame goes directly.
//!
//! Cost class: *fast path*.

use super::socket;
use crate::LocalMemory;
use crate::shm::Mapping;
use std::io;
use std::os::fd::RawFd;

/// Bytes of the buffer.
const BUFFER: usize = 64 << 10;

/// While a payload goes to its place, so much of the buffer is offered for what follows it: more would take bytes of
/// the next payload that then have to be copied.
const BEHIND: usize = 8 << 10;

/// Where the payload of a frame goes.
pub enum Place {
    /// Into a segment of ours, from this offset on.
    Segment(Mapping, usize),
    /// Into memory lent for a transfer of ours or of the peer's: readable and writable until the transfer is over,
    /// which ends the sink too.
    Lent(*mut u8),
    /// Nowhere.
    Nowhere,
}

/// A payload on its way.
pub struct Sink {
    pub place: Place,
    /// Bytes still to come.
    pub rest: usize,
    /// Bytes in all.
    pub len: usize,
    /// The transfer it belongs to, if to one: the flag of its frame, and its token.
    pub token: Option<(u8, u64)>,
}

impl Sink {
    fn copy(&mut self, bytes: &[u8]) {
        let done = self.len - self.rest;
        match &self.place {
            Place::Segment(memory, offset) => memory.write(offset + done, bytes),
            Place::Lent(at) => {
                // SAFETY: the place is writable for `len` bytes (see `Place::Lent`), and `bytes` are at most the
                // `rest` of them.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(done), bytes.len()) };
            }
            Place::Nowhere => {}
        }
        self.rest -= bytes.len();
    }

    /// Where the next byte goes.
    fn target(&self) -> Option<*mut u8> {
        let done = self.len - self.rest;
        match &self.place {
            Place::Segment(memory, offset) => Some(memory.bytes(offset + done, self.rest).as_ptr()),
            Place::Lent(at) => Some(at.wrapping_add(done)),
            Place::Nowhere => None,
        }
    }
}

/// The receiving side of a socket.
pub struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    pub sink: Option<Sink>,
}

/// What a look at the socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Bytes, and perhaps more wait.
    More,
    /// Bytes, and that was all.
    All,
    /// Nothing.
    Nothing,
    /// The peer has closed its side.
    End,
}

impl Input {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            sink: None,
        }
    }

    /// Bytes that came and are not taken.
    #[inline]
    pub fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// `len` of them are taken.
    #[inline]
    pub fn take(&mut self, len: usize) {
        self.start += len;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Move what waits to the sink. The sink, when it has all.
    pub fn fill_sink(&mut self) -> Option<Sink> {
        let sink = self.sink.as_mut()?;
        let len = sink.rest.min(self.end - self.start);
        sink.copy(&self.buffer[self.start..self.start + len]);
        let complete = sink.rest == 0;
        self.take(len);
        if complete { self.sink.take() } else { None }
    }

    /// Receive once.
    #[inline]
    pub fn receive(&mut self, fd: RawFd) -> io::Result<Came> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = &mut self.buffer[self.end..];
        let (result, direct, offered) = match self.sink.as_ref().map(|sink| (sink.rest, sink.target())) {
            Some((rest, Some(target))) => {
                debug_assert_eq!(self.end, 0, "what waited went to the sink");
                let behind = room.len().min(BEHIND);
                let parts = [socket::part(target, rest), socket::part(room.as_ptr(), behind)];
                // SAFETY: the target is writable for `rest` bytes: a range of a segment that was checked and is
                // mapped while the sink lives, or lent memory; the rest is our buffer.
                (unsafe { socket::receive(fd, &parts) }, rest, rest + behind)
            }
            _ => {
                let parts = [socket::part(room.as_ptr(), room.len())];
                // SAFETY: our buffer.
                (unsafe { socket::receive(fd, &parts) }, 0, room.len())
            }
        };
        let came = match result {
            Ok(0) => return Ok(Came::End),
            Ok(came) => came,
            Err(e) if socket::would_block(&e) => return Ok(Came::Nothing),
            Err(e) => return Err(e),
        };
        let to_sink = came.min(direct);
        if let Some(sink) = &mut self.sink {
            sink.rest -= to_sink;
        }
        self.end += came - to_sink;
        Ok(if came < offered { Came::All } else { Came::More })
    }
}
