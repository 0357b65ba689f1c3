//! What waits to be sent to one peer, in order: bytes of ours, and bytes that lie in a user's memory.
//!
//! Cost class: *fast path*.

use super::socket::{self, Part};
use super::wire::{HEAD, Head};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

/// Parts given to the kernel at once.
const PARTS: usize = 16;

/// A buffer that grew beyond this is not kept when it is empty.
const KEPT: usize = 1 << 20;

enum Chunk {
    Owned {
        bytes: Vec<u8>,
        sent: usize,
    },
    /// Memory lent by who exposed it or submitted a transfer, under `owner`, until [`Output::forget`].
    Lent {
        at: *const u8,
        len: usize,
        owner: u64,
    },
}

/// Zeroes to send in place of memory that was taken back.
static ZEROES: [u8; 4096] = [0; 4096];

/// The owner of [`ZEROES`].
const NOBODY: u64 = u64::MAX;

/// A queue of bytes.
///
/// Invariant: every `Lent` chunk is readable memory until its owner is forgotten.
#[derive(Default)]
pub struct Output {
    chunks: VecDeque<Chunk>,
    len: usize,
    spare: Vec<u8>,
}

impl Output {
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Queue bytes that belong together, `head` and `payload`.
    pub fn push(&mut self, head: &[u8], payload: &[u8]) {
        self.len += head.len() + payload.len();
        if !matches!(self.chunks.back(), Some(Chunk::Owned { .. })) {
            let bytes = std::mem::take(&mut self.spare);
            self.chunks.push_back(Chunk::Owned { bytes, sent: 0 });
        }
        if let Some(Chunk::Owned { bytes, .. }) = self.chunks.back_mut() {
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(payload);
        }
    }

    /// Queue a frame.
    #[inline]
    pub fn frame(&mut self, head: Head, payload: &[u8]) {
        debug_assert_eq!(head.len as usize, payload.len());
        self.push(&head.encode(), payload);
    }

    /// Queue a frame whose payload stays where it is.
    ///
    /// # Safety
    /// The payload is readable memory until [`forget`](Self::forget) of `owner`.
    pub unsafe fn lend(&mut self, head: Head, at: *const u8, owner: u64) {
        let len = head.len as usize;
        self.push(&head.encode(), &[]);
        if len > 0 {
            self.chunks.push_back(Chunk::Lent { at, len, owner });
            self.len += len;
        }
    }

    /// The memory of `owner` is not read any more: what of it was promised and not sent goes out as zeroes, so that
    /// the frames keep their lengths.
    pub fn forget(&mut self, owner: u64) {
        let mut kept = VecDeque::with_capacity(self.chunks.len());
        for chunk in self.chunks.drain(..) {
            match chunk {
                Chunk::Lent { len, owner: of, .. } if of == owner => {
                    let mut rest = len;
                    while rest > 0 {
                        let len = rest.min(ZEROES.len());
                        let at = ZEROES.as_ptr();
                        let owner = NOBODY;
                        kept.push_back(Chunk::Lent { at, len, owner });
                        rest -= len;
                    }
                }
                other => kept.push_back(other),
            }
        }
        self.chunks = kept;
    }

    /// Nothing waits any more; nothing is read any more.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.len = 0;
    }

    /// Send bytes that are queued nowhere yet, or queue them if others wait. False: the socket is full.
    #[inline]
    pub fn send_now(&mut self, fd: RawFd, bytes: &[u8]) -> io::Result<bool> {
        if self.len > 0 {
            self.push(bytes, &[]);
            return self.flush(fd);
        }
        let sent = match socket::send(fd, bytes) {
            Ok(sent) => sent,
            Err(e) if socket::would_block(&e) => 0,
            Err(e) => return Err(e),
        };
        if sent == bytes.len() {
            return Ok(true);
        }
        self.push(&bytes[sent..], &[]);
        Ok(false)
    }

    /// Send a frame from where its payload lies, behind what waits; what is not taken at once is copied. False: the
    /// socket is full.
    pub fn send_along(&mut self, fd: RawFd, head: Head, payload: &[u8]) -> io::Result<bool> {
        if self.chunks.len() > 1 {
            self.frame(head, payload);
            return self.flush(fd);
        }
        let head: [u8; HEAD] = head.encode();
        let before = self.len;
        let mut parts = [socket::part(std::ptr::null(), 0); 3];
        let mut count = 0;
        let waiting: Option<Part> = self.chunks.front().map(Chunk::part);
        for part in [
            waiting,
            Some(socket::part(head.as_ptr(), HEAD)),
            Some(socket::part(payload.as_ptr(), payload.len())),
        ]
        .into_iter()
        .flatten()
        {
            parts[count] = part;
            count += 1;
        }
        // SAFETY: a queued chunk is readable (invariant of the type), and so are the two slices.
        let mut sent = match unsafe { socket::send_parts(fd, &parts[..count]) } {
            Ok(sent) => sent,
            Err(e) if socket::would_block(&e) => 0,
            Err(e) => return Err(e),
        };
        let all = before + HEAD + payload.len();
        let full = sent < all;
        let of_queue = sent.min(before);
        self.advance(of_queue);
        sent -= of_queue;
        let of_head = sent.min(HEAD);
        if full {
            self.push(&head[of_head..], &payload[sent - of_head..]);
        }
        Ok(!full)
    }

    /// Send what waits. False: the socket is full.
    pub fn flush(&mut self, fd: RawFd) -> io::Result<bool> {
        while self.len > 0 {
            let mut parts = [socket::part(std::ptr::null(), 0); PARTS];
            let mut offered = 0;
            let mut count = 0;
            for (part, chunk) in parts.iter_mut().zip(&self.chunks) {
                *part = chunk.part();
                offered += part.iov_len;
                count += 1;
            }
            // SAFETY: queued chunks are readable (invariant of the type).
            let sent = match unsafe { socket::send_parts(fd, &parts[..count]) } {
                Ok(sent) => sent,
                Err(e) if socket::would_block(&e) => return Ok(false),
                Err(e) => return Err(e),
            };
            self.advance(sent);
            if sent < offered {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut sent: usize) {
        self.len -= sent;
        while let Some(chunk) = self.chunks.front_mut() {
            let whole = chunk.part().iov_len;
            if sent < whole {
                match chunk {
                    Chunk::Owned { sent: at, .. } => *at += sent,
                    Chunk::Lent { at, len, .. } => {
                        *at = at.wrapping_add(sent);
                        *len -= sent;
                    }
                }
                return;
            }
            sent -= whole;
            if let Some(Chunk::Owned { mut bytes, .. }) = self.chunks.pop_front()
                && bytes.capacity() <= KEPT
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}

impl Chunk {
    fn part(&self) -> Part {
        match self {
            Chunk::Owned { bytes, sent } => socket::part(bytes[*sent..].as_ptr(), bytes.len() - sent),
            Chunk::Lent { at, len, .. } => socket::part(*at, *len),
        }
    }
}
