//! Sending: messages in one piece at once, others piece by piece while there is room.

use super::{
    ByMessages, HOLD_BACK, Head, KIND_BROKEN, KIND_CREDIT, Layer, TINY, takes_credit, wire, words_of,
};
use crate::carrier::{Chosen, Engine};
use crate::engine::Carrier;
use crate::engine::envelope::{Envelope, FLAG_SYNC};
use crate::engine::request::{Mode, Payload, Send, SendState};
use crate::{Result, long};
use farpost_fabric::{Fabric, Line, Peer, Time};

/// Bytes of a long message that go before other messages have their turn.
const PART: u64 = 16 << 10;
/// The longest piece of any layer.
const PIECE: usize = 128;

/// What is being sent to a peer: bytes of the payload of `handle`, which is the first of its list.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub handle: usize,
    at: u64,
    end: u64,
    /// A part of a long message, and not a message.
    is_part: bool,
    /// The receiver is to tell of the match.
    is_awaited: bool,
}

/// Send a line that is no message. False: not now.
pub(super) fn try_line<F: Fabric>(layer: &impl Layer<F>, peer: Peer, line: &Line) -> bool {
    let kind = wire::kind(line);
    layer.try_send(peer, Head { kind, number: 0 }, words_of(kind, line), &[])
}

/// The rest of a part for the receive `remote`, or of a message, will not come.
pub(super) fn broken(remote: Option<u64>) -> Line {
    let mut line = [0; 8];
    line[0] = u64::from(KIND_BROKEN) << 32;
    line[3] = remote.unwrap_or(0);
    line[4] = u64::from(remote.is_some());
    line
}

/// At most `to.len()` bytes of a payload from `at` on: where they lie, or packed into `to`.
#[inline(always)]
fn bytes_at<'a>(time: &impl Time, payload: &'a Payload, at: u64, to: &'a mut [u8]) -> &'a [u8] {
    if let Some(data) = payload.contiguous() {
        return &data[at as usize..at as usize + to.len()];
    }
    let mut done = 0;
    while done < to.len() {
        let n = payload.pack_on(time, at + done as u64, &mut to[done..]);
        assert!(n > 0, "a payload gave fewer bytes than it said");
        done += n;
    }
    to
}

impl<F: Fabric, L: Layer<F>> ByMessages<F, L> {
    /// Send a message that is one piece, at once. False: it is longer, or there is no room.
    #[inline(always)]
    pub(super) fn send_whole(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if data.len() > L::MOST - 16 || engine.is_busy.get(peer) || peer == engine.me {
            return false;
        }
        let messages = L::of_mut(&mut engine.carrier);
        let far = &mut messages.peers[peer.index()];
        let bytes = data.len() as u64;
        let out = far.sent.since(far.acked);
        if out.messages >= messages.most.messages
            || out.bytes + bytes > messages.most.bytes
            || far.holds_back
            || bytes > far.eager
            || far.is_closed
        {
            return false;
        }
        let line = envelope.line(wire::KIND_RUN, 0, 0);
        let head = Head {
            kind: wire::KIND_RUN,
            number: data.len() as u32,
        };
        if !messages.layer.try_send(peer, head, &line[1..3], data) {
            return false;
        }
        far.sent.add(bytes);
        messages.count_gone(peer, data.len());
        true
    }

    /// Start a send to another process.
    pub(super) fn start_send(
        engine: &mut Engine<F>,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        engine.check_way(peer, L::of(&engine.carrier).peers[peer.index()].is_closed)?;
        let handle = engine.enqueue(Send::new(peer, envelope, payload, mode))?;
        Self::push_all(engine, peer);
        engine.retire_if_empty(peer);
        if mode == Mode::Standard && engine.requests.is_complete(handle) {
            engine.reap(handle);
            return Ok(None);
        }
        Ok(Some(handle))
    }

    /// Send what waits for a peer while there is room: answers first, then the rest of a run, then messages and parts in turn.
    pub(super) fn push_all(engine: &mut Engine<F>, peer: Peer) -> bool {
        let mut moved = false;
        loop {
            while let Some(line) = engine.outgoing[peer.index()].control.front() {
                if !try_line(&*L::of(&engine.carrier).layer, peer, line) {
                    return moved;
                }
                engine.outgoing[peer.index()].control.pop_front();
                moved = true;
            }
            let far = &mut L::of_mut(&mut engine.carrier).peers[peer.index()];
            let went = match far.run {
                Some(run) => Self::push_run(engine, peer, run),
                None => {
                    far.part_next = !far.part_next;
                    let mut turns = [Self::begin_message, Self::begin_part];
                    if far.part_next {
                        turns.reverse();
                    }
                    turns.iter().any(|begin| begin(engine, peer))
                }
            };
            if !went {
                return moved;
            }
            moved = true;
        }
    }

    /// The next message in order: as a run, or an offer of it. False: there is none, or no room for it.
    fn begin_message(engine: &mut Engine<F>, peer: Peer) -> bool {
        let Some(&handle) = engine.outgoing[peer.index()].sends.front() else {
            return false;
        };
        let Some(send) = engine.requests.send_mut(handle) else {
            engine.outgoing[peer.index()].sends.pop_front();
            return true;
        };
        let messages = L::of_mut(&mut engine.carrier);
        let far = &mut messages.peers[peer.index()];
        let total = send.payload.bytes();
        // Of what the receiver holds back it gets the header only, and that belongs to a send that is not over: so its memory for
        // headers is bounded by that of its senders. What is as short as a header goes along.
        let holds_back = far.holds_back && total > TINY;
        if total > far.eager.max(TINY) || holds_back {
            send.for_space = holds_back && total <= far.eager;
            let line = long::offer(&*engine.fabric, send, handle, L::TRANSFERS, None);
            engine.promised += usize::from(send.is_promise());
            let outgoing = &mut engine.outgoing[peer.index()];
            outgoing.sends.pop_front();
            outgoing.control.push_back(line);
            return true;
        }
        let mut envelope = send.envelope;
        if far.holds_back {
            envelope.flags |= FLAG_SYNC;
        }
        let is_awaited = envelope.flags & FLAG_SYNC != 0;
        let charged = takes_credit(is_awaited, total);
        let out = far.sent.since(far.acked);
        if charged && (out.messages >= messages.most.messages || out.bytes + total > messages.most.bytes) {
            return false;
        }
        let mut line = envelope.line(wire::KIND_RUN, 0, 0);
        line[3] = handle as u64;
        let words = &line[1..if is_awaited { 4 } else { 3 }];
        let len = total.min((L::MOST - 8 * words.len()) as u64);
        let mut packed = [0; PIECE];
        let bytes = bytes_at(&*engine.fabric, &send.payload, 0, &mut packed[..len as usize]);
        let head = Head {
            kind: wire::KIND_RUN,
            number: total as u32,
        };
        if !messages.layer.try_send(peer, head, words, bytes) {
            return false;
        }
        if charged {
            far.sent.add(total);
        }
        send.for_space = far.holds_back;
        messages.count_gone(peer, len as usize);
        send.state = SendState::Leaving;
        let run = Run {
            handle,
            at: len,
            end: total,
            is_part: false,
            is_awaited,
        };
        if len < total {
            messages.peers[peer.index()].run = Some(run);
        } else {
            Self::end_run(engine, peer, run);
        }
        true
    }

    /// The next part of a long message that its receiver asked for.
    fn begin_part(engine: &mut Engine<F>, peer: Peer) -> bool {
        let Some(&handle) = engine.outgoing[peer.index()].streams.front() else {
            return false;
        };
        let Some(send) = engine.requests.send(handle) else {
            engine.outgoing[peer.index()].streams.pop_front();
            return true;
        };
        let SendState::Streaming { remote, sent, wanted } = send.state else {
            engine.outgoing[peer.index()].streams.pop_front();
            return true;
        };
        let messages = L::of_mut(&mut engine.carrier);
        let end = wanted.min(sent + PART);
        let len = (end - sent).min(L::MOST as u64 - 8);
        let mut packed = [0; PIECE];
        let bytes = bytes_at(&*engine.fabric, &send.payload, sent, &mut packed[..len as usize]);
        let head = Head {
            kind: wire::KIND_DATA,
            number: (end - sent) as u32,
        };
        if !messages.layer.try_send(peer, head, &[remote], bytes) {
            return false;
        }
        messages.count_gone(peer, len as usize);
        let run = Run {
            handle,
            at: sent + len,
            end,
            is_part: true,
            is_awaited: false,
        };
        if run.at < end {
            messages.peers[peer.index()].run = Some(run);
        } else {
            Self::end_run(engine, peer, run);
        }
        true
    }

    /// Send pieces of a run. False: none went.
    fn push_run(engine: &mut Engine<F>, peer: Peer, mut run: Run) -> bool {
        let messages = L::of_mut(&mut engine.carrier);
        let Some(send) = engine.requests.send(run.handle) else {
            // It was given up, and the peer has been told.
            messages.peers[peer.index()].run = None;
            return true;
        };
        let head = Head {
            kind: wire::KIND_MORE,
            number: 0,
        };
        let begin = run.at;
        let mut packed = [0; PIECE];
        while run.at < run.end {
            let len = (run.end - run.at).min(L::MOST as u64);
            let bytes = bytes_at(
                &*engine.fabric,
                &send.payload,
                run.at,
                &mut packed[..len as usize],
            );
            if !messages.layer.try_send(peer, head, &[], bytes) {
                break;
            }
            run.at += len;
            messages.count_gone(peer, len as usize);
        }
        if run.at == run.end {
            messages.peers[peer.index()].run = None;
            Self::end_run(engine, peer, run);
            return true;
        }
        messages.peers[peer.index()].run = Some(run);
        run.at > begin
    }

    /// All of a run has left.
    fn end_run(engine: &mut Engine<F>, peer: Peer, run: Run) {
        let Some(send) = engine.requests.send_mut(run.handle) else {
            return;
        };
        let outgoing = &mut engine.outgoing[peer.index()];
        if run.is_part {
            outgoing.streams.pop_front();
            if let SendState::Streaming { sent, wanted, .. } = &mut send.state {
                *sent = run.end;
                if run.end < *wanted {
                    outgoing.streams.push_back(run.handle);
                    return;
                }
            }
        } else {
            outgoing.sends.pop_front();
            if run.is_awaited {
                send.state = SendState::Matched;
                engine.promised += usize::from(send.is_promise());
                if send.cancelling {
                    Chosen::ask_back(engine, run.handle);
                }
                return;
            }
        }
        engine.complete(run.handle, |_| {});
    }

    /// The peer may send on, or is to hold back.
    pub(super) fn give_credit(engine: &mut Engine<F>, peer: Peer) {
        let far = &mut L::of_mut(&mut engine.carrier).peers[peer.index()];
        far.told = far.taken;
        let mut line = [0; 8];
        line[0] = u64::from(KIND_CREDIT) << 32;
        line[3] = u64::from(far.told.messages);
        if engine.is_held_back.get(peer) {
            line[3] |= HOLD_BACK;
        }
        line[4] = far.told.bytes;
        Self::answer(engine, peer, line);
    }
}
