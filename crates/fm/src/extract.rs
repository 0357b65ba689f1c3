//! Extraction: accepted frames meet their handlers.

use crate::engine::{Fm, Handler};
use crate::receive::{Receive, Resumed, Wake};
use crate::running::Flow;
use crate::sorting::Overflow;
use crate::state::MessageStage;
use crate::wire::{BEGIN, END, Frame, FrameKind, Header, Malformed};
use farpost_fabric::{Cost, Counter, Fabric, Peer, Work};

/// Frames that one extraction handles at most, so that senders cannot keep it going.
const FRAMES_AT_ONCE: u32 = 4096;
/// Frames between two looks at control.
const FRAMES_BETWEEN: u32 = 32;
/// Extractions in a row without anything after which everything owed is acknowledged.
const EMPTY_BEFORE_ACK: u32 = 8;
/// And after which what came back may go again.
const EMPTY_BEFORE_PASSED: u32 = 64;

impl<F: Fabric + 'static, const WORDS: usize> Fm<F, WORDS> {
    /// Handle what has arrived (`FM_extract`): the bytes of payload handled. Does not block.
    ///
    /// With `usize::MAX`, everything, straight from the network. With less, at most that many bytes and what is left of
    /// the last frame: the network is emptied into the host receive queue first, and what has no room there goes back to
    /// its senders.
    ///
    /// Inside a handler it handles other messages, up to a depth; inside one that receives piece by piece it moves the
    /// network and handles nothing.
    #[inline]
    pub fn extract(&self, max_bytes: usize) -> usize {
        let engine = &*self.0;
        if !engine.running.may_extract(engine.depth) {
            self.drain();
            return 0;
        }
        let (frames, bytes) = self.extract_frames(max_bytes);
        if frames > 0 {
            engine.pacer.found();
        } else if engine.pacer.nothing().is_multiple_of(EMPTY_BEFORE_ACK) {
            engine.state.borrow_mut().acknowledge_all(&*engine.fabric);
        }
        bytes
    }

    /// As [`extract`](Fm::extract), for programs that call it in a loop: after many calls in a row that found nothing, a
    /// call gives up the core, and after more it sleeps until rung, for a millisecond at most.
    #[inline]
    pub fn extract_civilly(&self, max_bytes: usize) -> usize {
        let engine = &*self.0;
        engine.pacer.begin();
        if !engine.running.may_extract(engine.depth) {
            self.drain();
            engine.pacer.nothing();
            return 0;
        }
        let (frames, bytes) = self.extract_frames(max_bytes);
        if frames > 0 {
            engine.pacer.found();
            return bytes;
        }
        let empty = engine.pacer.nothing();
        if empty.is_multiple_of(EMPTY_BEFORE_ACK) {
            engine.state.borrow_mut().acknowledge_all(&*engine.fabric);
            if empty.is_multiple_of(EMPTY_BEFORE_PASSED) {
                engine.state.borrow_mut().time_passed();
                if engine.pacer.may_ask(empty) {
                    self.look_for_lost();
                }
            }
        }
        if !engine.running.inside() {
            engine.pacer.idle(&*engine.fabric);
        }
        bytes
    }

    /// As [`extract`](Fm::extract): the number of frames handled.
    #[inline(always)]
    pub(crate) fn extract_some(&self, max_bytes: usize) -> u32 {
        self.extract_frames(max_bytes).0
    }

    /// Frames and bytes.
    #[inline(always)]
    fn extract_frames(&self, max_bytes: usize) -> (u32, usize) {
        let engine = &*self.0;
        let fabric = &*engine.fabric;
        let straight;
        let (mut frames, mut bytes) = (0, 0);
        {
            let mut state = engine.state.borrow_mut();
            state.serve(fabric);
            straight = state.goes_straight(max_bytes);
            if !straight {
                state.drain(fabric, Overflow::Returned);
            }
        }
        // Made once: most extractions find nothing. Those inside a handler make their own.
        let mut spare = engine.spare.take().unwrap_or_default();
        let frame = &mut *spare;
        while bytes < max_bytes && frames < FRAMES_AT_ONCE {
            let header = match engine.state.borrow_mut().next(fabric, straight, frame) {
                Some(header) => header,
                None => break,
            };
            frames += 1;
            fabric.charge(Cost::Work(Work::FmExtract));
            bytes += usize::from(header.len);
            fabric.count(Peer(frame.peer), Counter::Received, 1);
            fabric.count(Peer(frame.peer), Counter::ReceivedBytes, u64::from(header.len));
            if self.handle(frame, &header) == Flow::Quit {
                break;
            }
            if frames % FRAMES_BETWEEN == 0 {
                engine.state.borrow_mut().serve(fabric);
            }
        }
        engine.spare.set(Some(spare));
        if frames > 0 {
            engine.state.borrow_mut().acknowledge_if_urgent(fabric);
        }
        (frames, bytes)
    }

    /// The handler of that number; an unknown one is the sender's fault.
    #[inline(always)]
    fn handler(&self, peer: u32, id: u16) -> Option<Handler<F, WORDS>> {
        let found = self.0.handlers.borrow().get(usize::from(id)).cloned().flatten();
        if found.is_none() {
            self.refuse(peer, "the number of a registered FM handler", u64::from(id));
        }
        found
    }

    #[cold]
    fn refuse(&self, peer: u32, what: &'static str, value: u64) {
        let engine = &*self.0;
        let bad = Malformed { what, value };
        engine.state.borrow_mut().refuse(&*engine.fabric, peer, bad);
    }

    #[inline(always)]
    fn handle(&self, frame: &mut Frame<WORDS>, header: &Header) -> Flow {
        if header.kind == FrameKind::Piece {
            return self.handle_piece(frame, header);
        }
        self.handle_whole(frame, header)
    }

    /// A message of one frame.
    #[inline(always)]
    fn handle_whole(&self, frame: &mut Frame<WORDS>, header: &Header) -> Flow {
        let peer = frame.peer;
        match self.handler(peer, header.handler) {
            None => Flow::Continue,
            Some(Handler::Message(handler)) => {
                let _entered = self.0.running.enter(false);
                handler(self, Peer(peer), frame.payload());
                if cfg!(debug_assertions) {
                    // Whoever kept its address is found out (paper, section 3.1: buffers live until the handler returns).
                    frame.poison();
                }
                Flow::Continue
            }
            Some(Handler::Stream(handler)) => {
                let _entered = self.0.running.enter(false);
                let flow = handler(self, &mut Receive::whole(&*self.0.fabric, frame), Peer(peer));
                if cfg!(debug_assertions) {
                    frame.poison();
                }
                flow
            }
        }
    }

    fn handle_piece(&self, frame: &mut Frame<WORDS>, header: &Header) -> Flow {
        let engine = &*self.0;
        let peer = frame.peer;
        let (begins, ends) = (header.has(BEGIN), header.has(END));
        // The message it belongs to is the first of its sender that has not been handled to its end.
        let mut state = engine.state.borrow_mut();
        let at = loop {
            match state.incoming.iter().position(|one| one.peer == peer) {
                Some(at) if begins && state.incoming[at].stage != MessageStage::Fresh => {
                    // The one before was never ended.
                    let broken = state.incoming.remove(at);
                    drop(state);
                    self.refuse(peer, "the end of an FM message", u64::from(header.handler));
                    self.break_stage(broken.stage);
                    state = engine.state.borrow_mut();
                }
                found => break found,
            }
        };
        if begins && ends {
            drop(state);
            return self.handle_whole(frame, header);
        }
        let Some(at) = at else {
            // Of a peer that was lost meanwhile.
            return Flow::Continue;
        };
        let one = &mut state.incoming[at];
        one.handled += usize::from(header.len);
        let (stage, handled, announced) = (one.stage, one.handled, one.announced);
        // Nobody else finds it while its handler runs; nothing is extracted then.
        one.stage = MessageStage::Discarded;
        drop(state);
        let mut stage = stage;
        let mut flow = Flow::Continue;
        if handled > announced && stage != MessageStage::Discarded {
            self.refuse(peer, "the length of an FM message as announced", handled as u64);
            self.break_stage(stage);
            stage = MessageStage::Discarded;
        }
        let resumed = match stage {
            MessageStage::Discarded => None,
            MessageStage::Waits(stack) => {
                let _entered = engine.running.enter(true);
                Some(self.resume(stack, Wake::Piece(*frame, ends)))
            }
            MessageStage::Fresh => match self.handler(peer, header.handler) {
                None => None,
                Some(Handler::Message(_)) => {
                    let what = "a message of one frame for a handler of such";
                    self.refuse(peer, what, announced as u64);
                    None
                }
                Some(Handler::Stream(handler)) => {
                    let _entered = engine.running.enter(true);
                    Some(self.start(handler, *frame, ends))
                }
            },
        };
        let stage = match resumed {
            Some(Resumed::Waits(stack)) => MessageStage::Waits(stack),
            Some(Resumed::Returned(said)) => {
                flow = said;
                MessageStage::Discarded
            }
            None => MessageStage::Discarded,
        };
        let mut state = engine.state.borrow_mut();
        if let Some(at) = state.incoming.iter().position(|one| one.peer == peer) {
            if ends {
                state.incoming.remove(at);
            } else {
                state.incoming[at].stage = stage;
            }
        }
        flow
    }

    /// Messages of `peer` that are incomplete will never be complete.
    pub(crate) fn break_off(&self, peer: u32) {
        loop {
            let mut state = self.0.state.borrow_mut();
            let Some(at) = state.incoming.iter().position(|one| one.peer == peer) else {
                return;
            };
            let one = state.incoming.remove(at);
            drop(state);
            self.break_stage(one.stage);
        }
    }

    /// Let a handler that waits know that nothing more comes.
    fn break_stage(&self, stage: MessageStage) {
        if let MessageStage::Waits(stack) = stage {
            let _entered = self.0.running.enter(true);
            let ended = self.resume(stack, Wake::BrokenOff);
            debug_assert!(
                matches!(ended, Resumed::Returned(_)),
                "receiving fails from now on"
            );
        }
    }
}

#[cfg(all(test, not(loom), debug_assertions))]
mod tests {
    use super::*;
    use crate::FmTunables;
    use crate::wire::{HEADER_BYTES, POISON};
    use farpost_fabric::inproc::{Config, Network};
    use std::rc::Rc;

    /// What a handler was shown is not there any more when it has returned: who keeps its address finds nothing that was sent.
    #[test]
    fn in_debug_builds_handlers_buffers_are_poisoned() {
        let mut ends = Network::new(2, 1, Config::counting(farpost_fabric::inproc::Costs::NOTHING));
        let network = ends[0].network().clone();
        let node = |end| Fm::new(Rc::new(end), &FmTunables::default(), &Default::default(), 4);
        let (receiver, sender) = (node(ends.pop().unwrap()), node(ends.pop().unwrap()));
        let buffer = Rc::new(std::cell::Cell::new(0));
        let seen = Rc::clone(&buffer);
        receiver
            .register_message_handler(1, move |_, _, bytes| {
                assert_eq!(bytes, [7; 100]);
                seen.set(bytes.as_ptr().addr());
            })
            .unwrap();
        receiver
            .register_handler(2, |_, receive, _| {
                let mut bytes = [0; 50];
                receive.receive(&mut bytes).unwrap();
                assert_eq!(bytes, [7; 50]);
                Flow::Continue
            })
            .unwrap();
        for handler in [1, 2] {
            assert!(sender.try_send(1, handler, &[7; 100]).unwrap());
            network.settle();
            assert_eq!(receiver.extract(usize::MAX), 100);
            let frame = receiver.0.spare.take().unwrap();
            assert_eq!(frame.payload(), [POISON; 100]);
            if handler == 1 {
                let at = frame.payload().as_ptr().addr();
                assert_eq!(at, buffer.get(), "the handler was shown this very memory");
                assert_eq!(frame.packet().len(), HEADER_BYTES + 100);
            }
            receiver.0.spare.set(Some(frame));
        }
    }
}
