//! The descriptor on which a launcher serves PMI: bounded lines and frames, each awaited until a deadline.

use super::broken;
use crate::deadline::Step;
use crate::error::JobError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

/// Longest line or frame accepted, in bytes.
pub(crate) const LINE_MAX: usize = 8192;

pub(crate) struct Wire {
    stream: File,
    buffer: Vec<u8>,
    limit: Duration,
    /// The protocol, for messages.
    pub speaks: &'static str,
}

impl Wire {
    pub fn new(stream: File, limit: Duration, speaks: &'static str) -> Wire {
        Wire {
            stream,
            buffer: Vec::new(),
            limit,
            speaks,
        }
    }

    #[cfg(test)]
    pub fn with_limit(self, limit: Duration) -> Wire {
        Wire { limit, ..self }
    }

    /// Begin to wait for an answer to `command`.
    pub fn step(&self, command: &str) -> Step {
        Step::begin(
            format!("the {} launcher's answer to {command}", self.speaks),
            self.limit,
        )
    }

    /// Begin to wait for all ranks.
    pub fn fence_step(&self) -> Step {
        Step::begin(
            format!("all ranks to reach a fence of the {} launcher", self.speaks),
            self.limit,
        )
    }

    fn ready(&self, events: PollFlags, step: &Step) -> Result<(), JobError> {
        loop {
            let left = Timespec::try_from(step.left()?).ok();
            match poll(&mut [PollFd::new(&self.stream, events)], left.as_ref()) {
                Ok(1..) => return Ok(()),
                Ok(0) | Err(Errno::INTR) => {}
                Err(e) => {
                    let what = format!("waiting for the {} launcher", self.speaks);
                    return Err(JobError::system(what, e));
                }
            }
        }
    }

    /// As write(2), but to a launcher that has ended it fails: it is no SIGPIPE, which would end the program.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL) {
            // Launchers serve PMI on sockets, but nothing says that they must.
            Err(Errno::NOTSOCK) => self.stream.write(bytes),
            sent => Ok(sent?),
        }
    }

    /// Send all of `bytes`.
    pub fn send(&mut self, mut bytes: &[u8], step: &Step) -> Result<(), JobError> {
        while !bytes.is_empty() {
            self.ready(PollFlags::OUT, step)?;
            match self.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if retry(&e) => {}
                Err(source) => {
                    return Err(JobError::system(
                        format!("sending to the {} launcher", self.speaks),
                        source,
                    ));
                }
            }
        }
        Ok(())
    }

    fn more(&mut self, most: usize, step: &Step) -> Result<(), JobError> {
        let mut chunk = [0; 1024];
        let room = most.min(chunk.len());
        loop {
            self.ready(PollFlags::IN, step)?;
            match self.stream.read(&mut chunk[..room]) {
                Ok(0) => return Err(broken(self.speaks, "closed the connection")),
                Ok(n) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    return Ok(());
                }
                Err(e) if retry(&e) => {}
                Err(source) => {
                    return Err(JobError::system(
                        format!("reading from the {} launcher", self.speaks),
                        source,
                    ));
                }
            }
        }
    }

    fn take(&mut self, len: usize, rest: usize) -> Result<String, JobError> {
        let bytes: Vec<u8> = self.buffer.drain(..len + rest).take(len).collect();
        String::from_utf8(bytes).map_err(|_| broken(self.speaks, "sent something that is not text"))
    }

    /// The next line without its newline.
    pub fn line(&mut self, step: &Step) -> Result<String, JobError> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.buffer[looked..].iter().position(|b| *b == b'\n') {
                return self.take(looked + end, 1);
            }
            looked = self.buffer.len();
            if looked >= LINE_MAX {
                return Err(broken!(self.speaks, "sent a line of more than {LINE_MAX} bytes"));
            }
            self.more(LINE_MAX - looked, step)?;
        }
    }

    /// The next `len` bytes, at most [`LINE_MAX`].
    pub fn exactly(&mut self, len: usize, step: &Step) -> Result<String, JobError> {
        assert!(len <= LINE_MAX);
        while self.buffer.len() < len {
            self.more(len - self.buffer.len(), step)?;
        }
        self.take(len, 0)
    }
}

fn retry(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}
