//! What comes from one socket: a buffer for frames, and the memory where bulk data goes directly.
//!
//! Cost class: *fast path*.

use super::heap::Rest;
use super::socket;
use crate::link::{HEADER_BYTES, Header, ORDERED_MAX};
use crate::trust::{BadRecord, Opener, RECORD_HEADER, RECORD_MAX};
use std::io;
use std::os::fd::RawFd;

/// Bytes of the buffer at first, and when much comes.
const SMALL: usize = 16 << 10;
const LARGE: usize = 128 << 10;

const _: () = assert!(LARGE >= HEADER_BYTES + ORDERED_MAX + RECORD_MAX);

/// While a payload goes to its place, so much of the buffer is offered for what follows it: more would take bytes of
/// the next payload that then have to be copied.
const BEHIND: usize = 4 << 10;

/// A bulk frame whose payload is on its way.
pub struct Sink {
    pub header: Header,
    /// Bytes of it that are here.
    pub done: usize,
}

/// Buffers that all connections of a process read into, one at a time: a connection keeps only what came of a frame that is
/// not complete, so that many peers take no more memory than one.
#[derive(Default)]
pub struct ReadBuffers {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    rest: Rest,
}

impl ReadBuffers {
    /// Free them if little came at a time for a while: so many bytes, and when to look again. What the next read needs in any case is
    /// kept, or a process that polls would take it again at once.
    pub fn rest(&mut self, now: u64) -> (usize, u64) {
        let bytes = self.plain.capacity() + self.sealed.capacity();
        if bytes <= SMALL {
            return (0, u64::MAX);
        }
        if self.rest.is_over(now) {
            (self.plain, self.sealed) = (Vec::new(), Vec::new());
            return (bytes, u64::MAX);
        }
        (0, self.rest.look_at())
    }
}

/// The receiving side of a socket.
pub struct Input {
    /// While it is read, the room of all; else the bytes that wait, and no more.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    pub sink: Option<Sink>,
    /// More came at once than [`SMALL`] since it has had the room of all: pings alone do not keep the room.
    much_came: bool,
    /// Sealed bytes, where the stream is encrypted.
    sealed: Vec<u8>,
    /// Bytes of frames that came since somebody took the count.
    pub came: usize,
}

/// What one read of a socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Bytes, and perhaps more wait.
    More,
    /// Bytes, and the socket is empty now.
    Drained,
    /// Nothing.
    Nothing,
    /// The peer has closed its side.
    Closed,
}

impl Input {
    pub fn new() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            sink: None,
            much_came: false,
            sealed: Vec::new(),
            came: 0,
        }
    }

    /// The connection is read next: what waits moves to the room of all.
    #[inline]
    pub fn enter(&mut self, read_buffers: &mut ReadBuffers) {
        // A sealed connection takes its room at each read, also if nothing comes.
        read_buffers.rest.used |= read_buffers.sealed.capacity() > 0;
        std::mem::swap(&mut self.buffer, &mut read_buffers.plain);
        let left = self.end - self.start;
        if left > 0 {
            let waiting = std::mem::take(&mut read_buffers.plain);
            if self.buffer.len() < left {
                self.buffer = vec![0; LARGE.max(left)];
            }
            self.buffer[..left].copy_from_slice(&waiting[self.start..self.end]);
        }
        (self.start, self.end) = (0, left);
        if read_buffers.sealed.capacity() > self.sealed.capacity() {
            read_buffers.sealed.clear();
            read_buffers.sealed.append(&mut self.sealed);
            self.sealed = std::mem::take(&mut read_buffers.sealed);
        }
    }

    /// It was read: others have the room, and what waits is kept apart.
    #[inline]
    pub fn leave(&mut self, read_buffers: &mut ReadBuffers) {
        read_buffers.rest.used |= std::mem::take(&mut self.much_came);
        let waiting = self.waiting().to_vec();
        (self.start, self.end) = (0, waiting.len());
        read_buffers.plain = std::mem::replace(&mut self.buffer, waiting);
        if self.sealed.capacity() > 0 {
            let waiting = self.sealed.to_vec();
            read_buffers.sealed = std::mem::replace(&mut self.sealed, waiting);
        }
    }

    /// Bytes that it keeps while it is not read.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.buffer.capacity() + self.sealed.capacity()
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

    /// A frame of `len` bytes, at most [`LARGE`], is to come whole.
    pub fn expect(&mut self, len: usize) {
        if self.buffer.len() < len {
            self.grow(LARGE);
        }
    }

    /// More room, of which no page is touched before something comes there.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes.max(self.end)];
        buffer[..self.end].copy_from_slice(&self.buffer[..self.end]);
        self.buffer = buffer;
    }

    /// Free bytes of the buffer, at its end.
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.grow(if self.buffer.is_empty() { SMALL } else { LARGE });
        }
        &mut self.buffer[self.end..]
    }

    /// Receive once; first of all the `direct` bytes, if any, of the frame under way. With `little`, take no more than
    /// a few frames' headers: what follows them shall go to its place without being copied.
    ///
    /// # Safety
    /// `direct` is writable memory that nobody else uses meanwhile.
    #[inline]
    pub unsafe fn receive(
        &mut self,
        fd: RawFd,
        direct: Option<(*mut u8, usize)>,
        little: bool,
    ) -> io::Result<ReadOutcome> {
        let mut room = self.room();
        if little && room.len() > BEHIND {
            room = &mut room[..BEHIND];
        }
        let (result, first, offered) = match direct {
            Some((at, len)) => {
                let behind = room.len().min(BEHIND);
                let parts = [socket::part(at, len), socket::part(room.as_ptr(), behind)];
                // SAFETY: the caller vouches for the first; the other is our buffer.
                (unsafe { socket::receive(fd, &parts) }, len, len + behind)
            }
            None => {
                let parts = [socket::part(room.as_ptr(), room.len())];
                // SAFETY: our buffer.
                (unsafe { socket::receive(fd, &parts) }, 0, room.len())
            }
        };
        let came = match result {
            Ok(0) => return Ok(ReadOutcome::Closed),
            Ok(came) => came,
            Err(e) if socket::would_block(&e) => return Ok(ReadOutcome::Nothing),
            Err(e) => return Err(e),
        };
        self.came += came;
        let to_place = came.min(first);
        if let Some(sink) = &mut self.sink {
            sink.done += to_place;
        }
        self.end += came - to_place;
        self.much_came |= self.end > SMALL;
        if came < offered {
            return Ok(ReadOutcome::Drained);
        }
        if direct.is_none() && !little && self.buffer.len() < LARGE {
            self.grow(LARGE);
        }
        Ok(ReadOutcome::More)
    }

    /// Receive encrypted bytes once, and open what is complete of them.
    pub fn receive_sealed(
        &mut self,
        fd: RawFd,
        opener: &mut Opener,
    ) -> io::Result<Result<ReadOutcome, BadRecord>> {
        let before = self.sealed.len();
        self.sealed.resize(before + 4 * RECORD_MAX, 0);
        let room = &self.sealed[before..];
        let parts = [socket::part(room.as_ptr(), room.len())];
        // SAFETY: our buffer.
        let result = unsafe { socket::receive(fd, &parts) };
        let came = *result.as_ref().unwrap_or(&0);
        self.sealed.truncate(before + came);
        match result {
            Ok(0) => return Ok(Ok(ReadOutcome::Closed)),
            Err(e) if socket::would_block(&e) => return Ok(Ok(ReadOutcome::Nothing)),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        let mut at = 0;
        let opened = loop {
            let len = match opener.record_len(&self.sealed[at..]) {
                Ok(Some(len)) if len <= self.sealed.len() - at => len,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            };
            let plain = match opener.open(&mut self.sealed[at..at + len]) {
                Ok(plain) => plain.len(),
                Err(error) => break Err(error),
            };
            if self.buffer.len() - self.end < plain {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
                let needed = (self.end + plain).max(LARGE);
                if self.buffer.len() < needed {
                    self.buffer.resize(needed, 0);
                }
            }
            let from = at + RECORD_HEADER;
            self.buffer[self.end..self.end + plain].copy_from_slice(&self.sealed[from..from + plain]);
            self.end += plain;
            self.came += plain;
            at += len;
        };
        self.sealed.drain(..at);
        Ok(opened.map(|()| {
            if came < 4 * RECORD_MAX {
                ReadOutcome::Drained
            } else {
                ReadOutcome::More
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_keeps_what_waits_and_no_more() {
        let mut read_buffers = ReadBuffers::default();
        let mut pairs: Vec<_> = (0..8)
            .map(|_| (UnixStream::pair().unwrap(), Input::new(), Vec::new()))
            .collect();
        let mut rng = fastrand::Rng::with_seed(7);
        for round in 0..500 {
            for ((to, from), input, waits) in &mut pairs {
                from.set_nonblocking(true).unwrap();
                let bytes: Vec<u8> = (0..rng.usize(0..5000)).map(|at| (at + round) as u8).collect();
                to.write_all(&bytes).unwrap();
                waits.extend(bytes);
                input.enter(&mut read_buffers);
                // SAFETY: nothing goes anywhere but to the buffer.
                while unsafe { input.receive(from.as_raw_fd(), None, false) }.unwrap() == ReadOutcome::More {}
                assert_eq!(input.waiting(), waits);
                let taken = rng.usize(0..=waits.len());
                input.take(taken);
                waits.drain(..taken);
                if rng.bool() {
                    input.expect(ORDERED_MAX);
                }
                input.leave(&mut read_buffers);
                assert_eq!(input.waiting(), waits);
                assert_eq!(input.memory(), waits.len(), "round {round}");
            }
        }
    }
}
