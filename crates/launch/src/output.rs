//! Bringing the ranks' output to where mpiexec's goes, in whole lines.
//!
//! Every rank writes into pipes of its own. Lines are passed on when they are complete; what has no newline yet
//! waits, except at a terminal, where it is shown after a moment (it may be a question), and where it becomes
//! longer than [`LINE_MAX`]. When another stream has lines meanwhile, a newline is put in between, so that no two
//! ranks ever share a line.

use crate::options::Marks;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, write};
use rustix::net::{SendFlags, send};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{Error, IsTerminal, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest line kept back until it is complete.
const LINE_MAX: usize = 1 << 20;
/// Bytes waiting for a slow reader before the ranks have to wait.
const QUEUE_MAX: usize = 256 << 10;
/// How long an incomplete line is kept from a terminal.
const PATIENCE: Duration = Duration::from_millis(50);
/// How a line begins with which a rank says why it cannot start (the library's `farpost: MPI_Init: ...`).
const REFUSAL: &[u8] = b"farpost: MPI_Init";
/// Of so many different ones it is known whether they were written.
const REFUSALS_MAX: usize = 64;
/// Who writes mpiexec's own messages.
const OURSELVES: usize = usize::MAX;

enum StreamKind {
    /// Writing may wait, but not for a person: a file.
    File,
    /// Opened again so that writing never waits: a pipe or a terminal.
    Pollable,
    Socket,
}

/// Where output goes.
pub struct Sink {
    fd: OwnedFd,
    kind: StreamKind,
    terminal: bool,
    queue: Vec<u8>,
    /// The stream that wrote the unfinished line at the end of what was written.
    midline: Option<usize>,
    /// What ranks said when they could not start, each line once: all of them say it.
    refusals: HashSet<Vec<u8>>,
    /// Nobody reads any more, or the disk is full.
    pub broken: Option<Error>,
}

impl Sink {
    /// Write to where one of mpiexec's own descriptors leads.
    pub fn new(of: BorrowedFd<'_>) -> Result<Sink> {
        let again = || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            open(format!("/proc/self/fd/{}", of.as_raw_fd()), flags, Mode::empty()).ok()
        };
        let (kind, opened) = match FileType::from_raw_mode(fstat(of)?.st_mode) {
            FileType::Socket => (StreamKind::Socket, None),
            FileType::Fifo | FileType::CharacterDevice => {
                again().map_or((StreamKind::File, None), |fd| (StreamKind::Pollable, Some(fd)))
            }
            _ => (StreamKind::File, None),
        };
        let fd = opened.map_or_else(|| of.try_clone_to_owned(), Ok)?;
        Ok(Sink {
            fd,
            kind,
            terminal: of.is_terminal(),
            queue: Vec::new(),
            midline: None,
            refusals: HashSet::new(),
            broken: None,
        })
    }

    /// The descriptor to watch while something is queued.
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Something waits to be written.
    pub fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && self.broken.is_none()
    }

    /// So much waits that no more should be read.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_MAX && self.broken.is_none()
    }

    fn try_write(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() && self.broken.is_none() {
            let rest = &bytes[done..];
            let result = match &self.kind {
                StreamKind::Socket => send(&self.fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
                _ => write(&self.fd, rest),
            };
            match result {
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if matches!(self.kind, StreamKind::File) => {
                    // Somebody made the shared file non-blocking and we could not open our own.
                    let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
                    let _ = poll(
                        &mut fds,
                        Timespec::try_from(Duration::from_millis(100)).ok().as_ref(),
                    );
                }
                Err(Errno::AGAIN) => break,
                Err(e) => self.broken = Some(e.into()),
            }
        }
        done
    }

    /// Whole lines, without those in which another rank has already said why it cannot start.
    fn news<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !bytes.windows(REFUSAL.len()).any(|part| part == REFUSAL) {
            return bytes.into();
        }
        let mut all = Vec::with_capacity(bytes.len());
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let known = line.starts_with(REFUSAL) && line.ends_with(b"\n") && !self.is_new(line);
            if !known {
                all.extend_from_slice(line);
            }
        }
        all.into()
    }

    fn is_new(&mut self, line: &[u8]) -> bool {
        !self.refusals.contains(line)
            && (self.refusals.len() >= REFUSALS_MAX || self.refusals.insert(line.to_vec()))
    }

    /// Write what waits, as far as the reader takes it.
    pub fn flush(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        let done = self.try_write(&queue);
        if self.broken.is_none() && done < queue.len() {
            self.queue = queue;
            self.queue.drain(..done);
        }
    }

    fn emit(&mut self, from: usize, bytes: &[u8]) {
        if bytes.is_empty() || self.broken.is_some() {
            return;
        }
        if self.midline.is_some_and(|m| m != from) {
            self.push(b"\n");
        }
        self.midline = (bytes.last() != Some(&b'\n')).then_some(from);
        self.push(bytes);
    }

    fn push(&mut self, bytes: &[u8]) {
        let done = if self.queue.is_empty() {
            self.try_write(bytes)
        } else {
            0
        };
        if self.broken.is_none() {
            self.queue.extend_from_slice(&bytes[done..]);
        }
    }

    /// A line of mpiexec's own.
    pub fn say(&mut self, line: &str) {
        self.emit(OURSELVES, format!("{line}\n").as_bytes());
    }
}

/// One rank's standard output or standard error.
pub struct Stream {
    pub fd: OwnedFd,
    pub rank: u32,
    pub sink: usize,
    /// It is no rank's but a service's, of this name: each line is marked with it.
    service: Option<&'static str>,
    /// `stdout` or `stderr`.
    name: &'static str,
    /// The line that is not complete yet.
    partial: Vec<u8>,
    since: Option<Instant>,
    /// The beginning of the current line is written already.
    begun: bool,
}

impl Stream {
    pub fn new(fd: OwnedFd, rank: u32, sink: usize, name: &'static str) -> Stream {
        Stream {
            fd,
            rank,
            sink,
            service: None,
            name,
            partial: Vec::new(),
            since: None,
            begun: false,
        }
    }

    /// The same of a service.
    pub fn of_service(self, name: &'static str) -> Stream {
        Stream {
            service: Some(name),
            ..self
        }
    }

    fn mark(&self, marks: Marks) -> String {
        let mut mark = String::new();
        if marks.time {
            mark.push_str(&timestamp(std::time::SystemTime::now()));
            mark.push(' ');
        }
        if let Some(service) = self.service {
            mark.push_str(&format!("[{service}] "));
            return mark;
        }
        if marks.tag {
            mark.push_str(&format!("[1,{}]<{}>: ", self.rank, self.name));
        }
        if marks.rank {
            mark.push_str(&format!("[{}] ", self.rank));
        }
        mark
    }

    /// Add the marks to bytes that begin where a line is begun or not, as `self.begun` says.
    fn marked(&mut self, bytes: &[u8], marks: Marks) -> Vec<u8> {
        let mark = self.mark(marks);
        let mut all = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if !self.begun {
                all.extend_from_slice(mark.as_bytes());
            }
            all.extend_from_slice(line);
            self.begun = line.last() != Some(&b'\n');
        }
        all
    }

    fn emit(&mut self, id: usize, sink: &mut Sink, marks: Marks, bytes: &[u8]) {
        // A newline was put after our unfinished line.
        self.begun &= sink.midline == Some(id);
        if marks.none() && self.service.is_none() {
            let bytes = if self.begun || self.name != "stderr" {
                bytes.into()
            } else {
                sink.news(bytes)
            };
            self.begun = bytes.last().is_some_and(|b| *b != b'\n');
            sink.emit(id, &bytes);
        } else {
            let bytes = self.marked(bytes, marks);
            sink.emit(id, &bytes);
        }
    }

    /// New bytes from the rank. `id` tells this stream from others.
    pub fn take(&mut self, id: usize, sink: &mut Sink, marks: Marks, bytes: &[u8]) {
        let complete = match bytes.iter().rposition(|b| *b == b'\n') {
            Some(at) => at + 1,
            None if self.partial.len() + bytes.len() > LINE_MAX => bytes.len(),
            None => 0,
        };
        if complete > 0 {
            if self.partial.is_empty() {
                self.emit(id, sink, marks, &bytes[..complete]);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(&bytes[..complete]);
                self.emit(id, sink, marks, &whole);
            }
            self.since = None;
        }
        if complete < bytes.len() {
            self.partial.extend_from_slice(&bytes[complete..]);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Pass on an incomplete line: the stream has ended.
    pub fn finish(&mut self, id: usize, sink: &mut Sink, marks: Marks) {
        let rest = std::mem::take(&mut self.partial);
        self.since = None;
        if !rest.is_empty() {
            self.emit(id, sink, marks, &rest);
        }
    }

    /// When an incomplete line should be shown on a terminal.
    pub fn due(&self, sink: &Sink) -> Option<Instant> {
        self.since.filter(|_| sink.terminal).map(|s| s + PATIENCE)
    }
}

/// A time in UTC, to the millisecond.
fn timestamp(time: std::time::SystemTime) -> String {
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the leap day comes last.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_era_years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_years + of_era_years / 4 - of_era_years / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = of_era_years + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Seek};

    struct Bench {
        file: std::fs::File,
        sink: Sink,
        streams: Vec<Stream>,
        marks: Marks,
    }

    impl Bench {
        fn new(streams: u32, marks: Marks) -> Bench {
            let file = rustix::fs::memfd_create(c"sink", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            let sink = Sink::new(file.as_fd()).unwrap();
            let streams = (0..streams)
                .map(|r| Stream::new(std::io::pipe().unwrap().0.into(), r, 0, "stdout"))
                .collect();
            Bench {
                file: file.into(),
                sink,
                streams,
                marks,
            }
        }

        fn take(&mut self, id: usize, text: &str) {
            self.streams[id].take(id, &mut self.sink, self.marks, text.as_bytes());
        }

        fn end(mut self) -> String {
            for id in 0..self.streams.len() {
                self.streams[id].finish(id, &mut self.sink, self.marks);
            }
            let mut all = String::new();
            self.file.rewind().unwrap();
            self.file.read_to_string(&mut all).unwrap();
            all
        }
    }

    /// Every rank says on standard error why it cannot start: once is enough, of each reason. What programs print is theirs.
    #[test]
    fn one_refusal_of_all_ranks_is_one_line() {
        let mut b = Bench::new(3, Marks::default());
        for stream in &mut b.streams {
            stream.name = "stderr";
        }
        let (why, other) = (
            "farpost: MPI_Init: FARPOST_FABRIC=x: bad\n",
            "farpost: MPI_Init: no\n",
        );
        b.take(0, &format!("here\n{why}"));
        b.take(1, &format!("here\n{}", &why[..20]));
        b.take(1, &why[20..]);
        b.take(2, &format!("{other}{why}again {why}"));
        b.streams[2].name = "stdout";
        b.take(2, why);
        assert_eq!(b.end(), format!("here\n{why}here\n{other}again {why}{why}"));
    }

    #[test]
    fn lines_stay_whole() {
        let mut b = Bench::new(2, Marks::default());
        b.take(0, "one ");
        b.take(1, "other\nrest");
        b.take(0, "line\ntwo\n");
        assert_eq!(b.end(), "other\none line\ntwo\nrest");
        let mut b = Bench::new(2, Marks::default());
        b.take(0, "x");
        b.take(1, "y");
        b.sink.say("said");
        assert_eq!(b.end(), "said\nx\ny");
    }

    #[test]
    fn marks_are_put_once_per_line() {
        let mut b = Bench::new(
            2,
            Marks {
                rank: true,
                ..Marks::default()
            },
        );
        b.take(1, "a\nb");
        b.take(0, "c\n");
        b.take(1, "d\ne");
        assert_eq!(b.end(), "[1] a\n[0] c\n[1] bd\n[1] e");
        let mut b = Bench::new(
            1,
            Marks {
                tag: true,
                ..Marks::default()
            },
        );
        b.take(0, "a\n");
        assert_eq!(b.end(), "[1,0]<stdout>: a\n");
    }

    #[test]
    fn lines_of_a_service_are_marked_anyway() {
        for (marks, own) in [
            (Marks::default(), ""),
            (
                Marks {
                    rank: true,
                    ..Marks::default()
                },
                "[0] ",
            ),
        ] {
            let mut b = Bench::new(2, marks);
            let stream = b.streams.pop().unwrap();
            b.streams.push(stream.of_service("clerk"));
            b.take(1, "a\nb\n");
            b.take(0, "c\n");
            assert_eq!(b.end(), format!("[clerk] a\n[clerk] b\n{own}c\n"));
        }
    }

    #[test]
    fn a_very_long_line_is_not_kept_back() {
        let mut b = Bench::new(
            2,
            Marks {
                rank: true,
                ..Marks::default()
            },
        );
        let piece = "x".repeat(LINE_MAX / 2 + 1);
        b.take(0, &piece);
        b.take(0, &piece);
        b.take(0, "end\n");
        b.take(1, "other\n");
        assert_eq!(b.end(), format!("[0] {piece}{piece}end\n[1] other\n"));
    }

    #[test]
    fn times_are_right() {
        let at = |s: u64| timestamp(std::time::UNIX_EPOCH + Duration::from_millis(s));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(at(1_767_225_599_000), "2025-12-31T23:59:59.000Z");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_mixed(pieces in proptest::collection::vec((0usize..3, "[a-c\n]{0,9}"), 0..60)) {
            let mut b = Bench::new(3, Marks { rank: true, ..Marks::default() });
            let mut sent = [const { String::new() }; 3];
            for (id, text) in &pieces {
                b.take(*id, text);
                sent[*id].push_str(text);
            }
            let got = b.end();
            for (id, sent) in sent.iter().enumerate() {
                let mine: Vec<&str> = got.lines().filter_map(|l| l.strip_prefix(&format!("[{id}] "))).collect();
                prop_assert_eq!(mine, sent.lines().collect::<Vec<_>>());
            }
        }
    }
}
