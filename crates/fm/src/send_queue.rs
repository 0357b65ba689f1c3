//! The send queue (paper, section 4.4): frames on their way from the host to the interface.
//!
//! Two free-running counters, each written by one side: `hostsent` counts frames that the host has put, `lanaisent`
//! those that the interface has taken; they differ by what waits. A frame is there because `hostsent` has passed it:
//! no flags. Each side keeps its own counter in a register (here: a value that it owns) and compares with
//! wrap-around arithmetic.
//!
//! Here the interface is a fabric's packet queue, and its side runs in calls of the same process; nothing in this file
//! relies on that.

use crate::frames::Frames;
use crate::wire::Frame;
use farpost_fabric::sync::{AtomicU32, Ordering};

/// The queue, shared by the two sides.
pub struct SendQueue {
    /// Frames that the host has put; written by the host only.
    hostsent: AtomicU32,
    /// Frames that the interface has sent; written by the interface only.
    lanaisent: AtomicU32,
    frames: Frames,
}

/// The host's side: its counter.
pub struct HostSide {
    hostsent: u32,
}

/// The interface's side: its counter.
pub struct LanaiSide {
    lanaisent: u32,
}

impl SendQueue {
    /// A queue of at least `slots` frames of so many words, whose counters start at `count`, and its two sides.
    pub fn new(slots: u32, words: usize, count: u32) -> (Self, HostSide, LanaiSide) {
        let queue = Self {
            hostsent: AtomicU32::new(count),
            lanaisent: AtomicU32::new(count),
            frames: Frames::new(slots, words),
        };
        (
            queue,
            HostSide { hostsent: count },
            LanaiSide { lanaisent: count },
        )
    }

    /// Host: put a frame. False: no slot is free.
    pub fn put<const WORDS: usize>(&self, host: &mut HostSide, frame: &Frame<WORDS>) -> bool {
        let waiting = host.hostsent.wrapping_sub(self.lanaisent.load(Ordering::Acquire));
        if waiting >= self.frames.slots() {
            return false;
        }
        self.frames.store(host.hostsent, frame);
        host.hostsent = host.hostsent.wrapping_add(1);
        self.hostsent.store(host.hostsent, Ordering::Release);
        true
    }

    /// Host: whether the interface has sent everything.
    #[inline(always)]
    pub fn all_sent(&self, host: &HostSide) -> bool {
        host.hostsent == self.lanaisent.load(Ordering::Relaxed)
    }

    /// Interface: the oldest frame that waits, which stays.
    pub fn front<const WORDS: usize>(&self, lanai: &LanaiSide, frame: &mut Frame<WORDS>) -> bool {
        if self.hostsent.load(Ordering::Acquire) == lanai.lanaisent {
            return false;
        }
        self.frames.load(lanai.lanaisent, frame);
        true
    }

    /// Interface: the oldest frame has been sent; its slot is free.
    pub fn sent(&self, lanai: &mut LanaiSide) {
        lanai.lanaisent = lanai.lanaisent.wrapping_add(1);
        self.lanaisent.store(lanai.lanaisent, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{FRAME_WORDS, FrameKind, Header};

    #[test]
    fn counters_wrap_around() {
        let (queue, mut host, mut lanai) = SendQueue::new(4, FRAME_WORDS, u32::MAX - 5);
        let frame = |n: u8| Frame::new(u32::from(n), &Header::new(FrameKind::Message, 0, 0, 1), &[n]);
        let mut out = Frame::empty();
        for lap in 0..6u8 {
            for n in 0..4 {
                assert!(queue.put(&mut host, &frame(lap * 4 + n)));
            }
            assert!(!queue.put(&mut host, &frame(99)), "four slots");
            assert!(!queue.all_sent(&host));
            for n in 0..4 {
                assert!(queue.front(&lanai, &mut out));
                assert_eq!(out, frame(lap * 4 + n));
                queue.sent(&mut lanai);
            }
            assert!(!queue.front(&lanai, &mut out));
            assert!(queue.all_sent(&host));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::wire::{FRAME_WORDS, FrameKind, Header};
    use loom::sync::Arc;
    use loom::thread;

    /// Host and interface at once, more frames than slots, counters that wrap: each frame arrives once, whole, in order.
    #[test]
    fn loom_send_queue() {
        loom::model(|| {
            let (queue, mut host, mut lanai) = SendQueue::new(2, FRAME_WORDS, u32::MAX - 1);
            let queue = Arc::new(queue);
            let frame = |n: u32| Frame::new(n, &Header::new(FrameKind::Message, 0, n as u16, 0), &[]);
            let interface = thread::spawn({
                let queue = Arc::clone(&queue);
                move || {
                    let (mut next, mut out) = (0, Frame::empty());
                    for _ in 0..3 {
                        if queue.front(&lanai, &mut out) {
                            assert_eq!((out.peer, out.words().next()), (next, frame(next).words().next()));
                            queue.sent(&mut lanai);
                            next += 1;
                        }
                    }
                    (next, lanai)
                }
            });
            let mut put = 0;
            for _ in 0..3 {
                put += u32::from(queue.put(&mut host, &frame(put)));
            }
            assert!(put >= 2);
            let (mut next, mut lanai) = interface.join().unwrap();
            let mut out = Frame::empty();
            while queue.front(&lanai, &mut out) {
                assert_eq!(out.peer, next);
                queue.sent(&mut lanai);
                next += 1;
            }
            assert_eq!(next, put);
            assert!(queue.all_sent(&host));
        });
    }
}
