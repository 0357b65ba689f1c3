//! The host receive queue (paper, section 4.4): frames that the interface has delivered to the host's memory and that
//! no handler has seen yet. A frame in here has been accepted and is acknowledged.
//!
//! As in the [send queue](crate::send_queue), each side owns one free-running counter: `delivered` the interface's,
//! `extracted` the host's.

use crate::frames::Frames;
use crate::wire::Frame;
use farpost_fabric::sync::{AtomicU32, Ordering};

/// The queue, shared by the two sides.
pub struct HostReceiveQueue {
    /// Frames delivered; written by the interface's side only.
    delivered: AtomicU32,
    /// Frames extracted; written by the host only.
    extracted: AtomicU32,
    frames: Frames,
}

/// The interface's side: its counter.
pub struct LanaiSide {
    delivered: u32,
}

/// The host's side: its counter.
pub struct HostSide {
    extracted: u32,
}

impl HostReceiveQueue {
    /// A queue of at least `slots` frames of so many words, whose counters start at `count`, and its two sides.
    pub fn new(slots: u32, words: usize, count: u32) -> (Self, LanaiSide, HostSide) {
        let queue = Self {
            delivered: AtomicU32::new(count),
            extracted: AtomicU32::new(count),
            frames: Frames::new(slots, words),
        };
        (
            queue,
            LanaiSide { delivered: count },
            HostSide { extracted: count },
        )
    }

    /// Interface: whether a frame would find room.
    pub fn has_room(&self, lanai: &LanaiSide) -> bool {
        let waiting = lanai
            .delivered
            .wrapping_sub(self.extracted.load(Ordering::Acquire));
        waiting < self.frames.slots()
    }

    /// Interface: deliver a frame. False: no slot is free.
    pub fn deliver<const WORDS: usize>(&self, lanai: &mut LanaiSide, frame: &Frame<WORDS>) -> bool {
        if !self.has_room(lanai) {
            return false;
        }
        self.frames.store(lanai.delivered, frame);
        lanai.delivered = lanai.delivered.wrapping_add(1);
        self.delivered.store(lanai.delivered, Ordering::Release);
        true
    }

    /// Host: how many frames wait.
    #[inline(always)]
    pub fn waiting(&self, host: &HostSide) -> u32 {
        self.delivered
            .load(Ordering::Acquire)
            .wrapping_sub(host.extracted)
    }

    /// Host: extract the oldest frame.
    pub fn extract<const WORDS: usize>(&self, host: &mut HostSide, frame: &mut Frame<WORDS>) -> bool {
        if self.waiting(host) == 0 {
            return false;
        }
        self.frames.load(host.extracted, frame);
        host.extracted = host.extracted.wrapping_add(1);
        self.extracted.store(host.extracted, Ordering::Release);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{FRAME_WORDS, FrameKind, Header};

    #[test]
    fn counters_wrap_around() {
        let (queue, mut lanai, mut host) = HostReceiveQueue::new(2, FRAME_WORDS, u32::MAX - 2);
        let frame = |n: u8| Frame::new(u32::from(n), &Header::new(FrameKind::Message, 0, 0, 1), &[n]);
        let mut out = Frame::empty();
        for lap in 0..6u8 {
            assert!(queue.deliver(&mut lanai, &frame(lap)));
            assert!(queue.deliver(&mut lanai, &frame(100 + lap)));
            assert!(!queue.has_room(&lanai) && !queue.deliver(&mut lanai, &frame(99)));
            assert_eq!(queue.waiting(&host), 2);
            for n in [lap, 100 + lap] {
                assert!(queue.extract(&mut host, &mut out));
                assert_eq!(out, frame(n));
            }
            assert!(!queue.extract(&mut host, &mut out));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::send_queue::SendQueue;
    use crate::wire::{FRAME_WORDS, FrameKind, Header};
    use loom::sync::Arc;
    use loom::thread;

    fn frame(n: u32) -> Frame {
        Frame::new(n, &Header::new(FrameKind::Message, 0, n as u16, 0), &[])
    }

    #[test]
    fn loom_host_receive_queue() {
        loom::model(|| {
            let (queue, mut lanai, mut host) = HostReceiveQueue::new(2, FRAME_WORDS, u32::MAX - 1);
            let queue = Arc::new(queue);
            let interface = thread::spawn({
                let queue = Arc::clone(&queue);
                move || {
                    let mut put = 0;
                    for _ in 0..3 {
                        put += u32::from(queue.deliver(&mut lanai, &frame(put)));
                    }
                    put
                }
            });
            let (mut next, mut out) = (0, Frame::empty());
            for _ in 0..2 {
                if queue.extract(&mut host, &mut out) {
                    assert_eq!((out.peer, out.words().next()), (next, frame(next).words().next()));
                    next += 1;
                }
            }
            let put = interface.join().unwrap();
            while queue.extract(&mut host, &mut out) {
                assert_eq!(out.peer, next);
                next += 1;
            }
            assert_eq!(next, put);
        });
    }

    /// The pair as one path: a host puts, an interface carries from the send queue to the other's host receive queue as
    /// far as there is room, a host extracts. Nothing is lost, doubled or torn.
    #[test]
    fn loom_the_queue_pair() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let (send, mut host, mut sending) = SendQueue::new(2, FRAME_WORDS, u32::MAX);
            let (receive, mut delivering, mut extracting) = HostReceiveQueue::new(1, FRAME_WORDS, u32::MAX);
            let (send, receive) = (Arc::new(send), Arc::new(receive));
            let interface = thread::spawn({
                let (send, receive) = (Arc::clone(&send), Arc::clone(&receive));
                move || {
                    let mut carry = Frame::empty();
                    for _ in 0..2 {
                        if receive.has_room(&delivering) && send.front(&sending, &mut carry) {
                            assert!(receive.deliver(&mut delivering, &carry));
                            send.sent(&mut sending);
                        }
                    }
                    (sending, delivering)
                }
            });
            let extractor = thread::spawn({
                let receive = Arc::clone(&receive);
                move || {
                    let (mut seen, mut out) = (0, Frame::empty());
                    if receive.extract(&mut extracting, &mut out) {
                        assert_eq!(out.peer, seen);
                        seen += 1;
                    }
                    (seen, extracting)
                }
            });
            assert!(send.put(&mut host, &frame(0)) && send.put(&mut host, &frame(1)));
            let (mut sending, mut delivering) = interface.join().unwrap();
            let (mut seen, mut extracting) = extractor.join().unwrap();
            let mut frame = Frame::empty();
            loop {
                if receive.extract(&mut extracting, &mut frame) {
                    assert_eq!(frame.peer, seen);
                    seen += 1;
                } else if send.front(&sending, &mut frame) {
                    assert!(receive.deliver(&mut delivering, &frame));
                    send.sent(&mut sending);
                } else {
                    break;
                }
            }
            assert_eq!(seen, 2);
        });
    }
}
