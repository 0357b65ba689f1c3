//! The plumbing between the ranks' pipes and mpiexec's own output: which pipe is watched when, who waits for whom.

use crate::options::Marks;
use crate::output::{Sink, Stream};
use crate::signals::KILL_NOW;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{stderr, stdout};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Tokens of sinks; smaller ones are the guardian's.
const SINKS: u64 = 2;
/// Tokens of streams.
const STREAMS: u64 = 16;

/// All streams, and where they go.
pub struct Plumbing {
    pub epoll: OwnedFd,
    marks: Marks,
    sinks: Vec<Sink>,
    sink_watched: Vec<bool>,
    /// Index of the sink for mpiexec's own messages.
    messages: usize,
    streams: Vec<Option<Stream>>,
    stream_paused: Vec<bool>,
    buffer: Vec<u8>,
    /// Output was lost, and not because nobody wanted it.
    lost: bool,
}

impl Plumbing {
    pub fn new(marks: Marks) -> std::io::Result<Plumbing> {
        let mut sinks = vec![Sink::new(stdout())?];
        let (out, err) = (fstat(stdout())?, fstat(stderr())?);
        if (out.st_dev, out.st_ino) != (err.st_dev, err.st_ino) {
            sinks.push(Sink::new(stderr())?);
        }
        Ok(Plumbing {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            marks,
            sink_watched: vec![false; sinks.len()],
            messages: sinks.len() - 1,
            sinks,
            streams: Vec::new(),
            stream_paused: Vec::new(),
            buffer: vec![0; 64 << 10],
            lost: false,
        })
    }

    /// A line of mpiexec's own.
    pub fn say(&mut self, text: &str) {
        self.sinks[self.messages].say(&format!("mpiexec: {text}"));
    }

    /// Make a pipe for a rank's standard output (`which` 0) or error (1), or for a service's of that name; its writing end is
    /// returned.
    pub fn open(
        &mut self,
        rank: u32,
        which: usize,
        service: Option<&'static str>,
    ) -> std::io::Result<OwnedFd> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&reader, true)?;
        let token = EventData::new_u64(STREAMS + self.streams.len() as u64);
        epoll::add(&self.epoll, &reader, token, EventFlags::IN)?;
        let sink = if which == 0 { 0 } else { self.messages };
        let stream = Stream::new(reader, rank, sink, ["stdout", "stderr"][which]);
        self.streams.push(Some(match service {
            Some(name) => stream.of_service(name),
            None => stream,
        }));
        self.stream_paused.push(false);
        Ok(writer)
    }

    /// Something happened to a sink or a stream.
    pub fn ready(&mut self, token: u64) {
        if token >= STREAMS {
            let id = (token - STREAMS) as usize;
            if id < self.streams.len() {
                self.drain(id, 1);
            }
        } else if let Some(sink) = self.sinks.get_mut((token - SINKS) as usize) {
            sink.flush();
        }
    }

    /// Take in what a rank has said so far, within reason.
    pub fn drain_rank(&mut self, rank: u32) {
        for id in 0..self.streams.len() {
            if self.streams[id].as_ref().is_some_and(|s| s.rank == rank) {
                self.drain(id, 1 << 20);
            }
        }
    }

    /// When an incomplete line is to be shown.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.streams
            .iter()
            .flatten()
            .filter_map(|s| s.due(&self.sinks[s.sink]))
            .min()
    }

    /// Show incomplete lines that have waited long enough.
    pub fn show_partial_lines(&mut self, now: Instant) {
        for id in 0..self.streams.len() {
            let Some(stream) = &mut self.streams[id] else {
                continue;
            };
            let sink = &mut self.sinks[stream.sink];
            if stream.due(sink).is_some_and(|at| at <= now) {
                stream.finish(id, sink, self.marks);
            }
        }
    }

    /// Read from a stream until it is empty, ends, or gave `limit` bytes.
    fn drain(&mut self, id: usize, limit: usize) {
        let mut taken = 0;
        while taken < limit {
            let Some(stream) = &mut self.streams[id] else {
                return;
            };
            let sink = &mut self.sinks[stream.sink];
            match read(&stream.fd, &mut self.buffer) {
                Ok(0) => {
                    stream.finish(id, sink, self.marks);
                    self.streams[id] = None;
                }
                Ok(n) => {
                    stream.take(id, sink, self.marks, &self.buffer[..n]);
                    taken += n;
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Watch what waits to be written, pause streams whose sink is full, close those whose sink is gone.
    pub fn watch_sinks(&mut self) {
        for i in 0..self.sinks.len() {
            let sink = &mut self.sinks[i];
            if let Some(error) = sink.broken.take() {
                // From now on the ranks find nobody reading either.
                for stream in &mut self.streams {
                    if stream.as_ref().is_some_and(|s| s.sink == i) {
                        *stream = None;
                    }
                }
                if error.kind() != ErrorKind::BrokenPipe && !self.lost {
                    self.lost = true;
                    self.say(&format!("cannot write output: {error}"));
                }
                continue;
            }
            let (waiting, full, watched) = (sink.is_waiting(), sink.is_full(), sink.watched());
            if waiting != self.sink_watched[i] {
                let _ = if waiting {
                    let token = EventData::new_u64(SINKS + i as u64);
                    epoll::add(&self.epoll, watched, token, EventFlags::OUT)
                } else {
                    epoll::delete(&self.epoll, watched)
                };
                self.sink_watched[i] = waiting;
            }
            for (id, stream) in self.streams.iter().enumerate() {
                let Some(stream) = stream.as_ref().filter(|s| s.sink == i) else {
                    continue;
                };
                if full != self.stream_paused[id] {
                    let _ = if full {
                        epoll::delete(&self.epoll, &stream.fd)
                    } else {
                        let token = EventData::new_u64(STREAMS + id as u64);
                        epoll::add(&self.epoll, &stream.fd, token, EventFlags::IN)
                    };
                    self.stream_paused[id] = full;
                }
            }
        }
    }

    /// After all processes have ended: pass on the last output. `false`: some is lost. `control` tells when the user does not want to wait.
    pub fn finish(&mut self, control: &OwnedFd) -> bool {
        for id in 0..self.streams.len() {
            loop {
                self.drain(id, 1);
                let Some(sink) = self.streams[id].as_ref().map(|s| s.sink) else {
                    break;
                };
                if self.sinks[sink].is_full() && !self.settle(control) {
                    return !self.lost;
                }
                let Some(stream) = &self.streams[id] else {
                    break;
                };
                let mut fds = [PollFd::new(&stream.fd, PollFlags::IN)];
                if poll(&mut fds, Some(&Timespec::default())) != Ok(1) {
                    break;
                }
            }
            if let Some(mut stream) = self.streams[id].take() {
                stream.finish(id, &mut self.sinks[stream.sink], self.marks);
            }
        }
        self.settle(control);
        self.watch_sinks();
        !self.lost
    }

    /// Wait until all that is queued is written. `false`: the user does not want to wait, or is gone.
    fn settle(&mut self, control: &OwnedFd) -> bool {
        while let Some(sink) = self.sinks.iter_mut().find(|s| s.is_waiting()) {
            let mut fds = [
                PollFd::from_borrowed_fd(sink.watched(), PollFlags::OUT),
                PollFd::new(control, PollFlags::IN),
            ];
            let _ = poll(&mut fds, None);
            let [writable, told] = fds.map(|fd| !fd.revents().is_empty());
            if told {
                let mut bytes = [0; 64];
                let n = read(control, &mut bytes).unwrap_or(0);
                if n == 0 || bytes[..n].contains(&KILL_NOW) {
                    return false;
                }
            }
            if writable {
                sink.flush();
            }
        }
        true
    }
}
