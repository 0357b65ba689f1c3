//! Receiving: pieces go to the buffer of the receive that takes their message, or to a message that is kept.

use super::{
    ByMessages, HOLD_BACK, Head, KIND_BROKEN, KIND_CREDIT, Layer, Tally, takes_credit, wire, words_of,
};
use crate::Rank;
use crate::carrier::Engine;
use crate::engine::carrier::Direct;
use crate::engine::context::{ANY_SOURCE, ANY_TAG, Held};
use crate::engine::deliver::note_match;
use crate::engine::envelope::{Envelope, FLAG_SYNC};
use crate::engine::request::RecvState;
use farpost_fabric::{Cost, Fabric, Line, Peer};

/// The longest message that any sender sends unasked.
const LONGEST: u32 = 1 << 20;

/// What a peer is sending: bytes `at..end` of the message, or of a part of it, that are yet to come.
pub(super) struct Incoming {
    at: u64,
    end: u64,
    to: Target,
}

/// Where they go.
enum Target {
    /// To a receive, which wants the first bytes of the message; behind them, nowhere.
    Receive {
        handle: usize,
        wanted: u64,
        message: Option<Title>,
    },
    /// Nobody has received the message yet.
    Keep { data: Vec<u8>, message: Title },
    /// Its receive was given up.
    Nowhere,
}

/// What the first piece of a message says.
#[derive(Clone, Copy)]
struct Title {
    envelope: Envelope,
    /// The sender's request that waits for the match.
    sync: Option<u64>,
    total: u64,
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"))
}

/// The first piece of a message: what it says, and its bytes.
#[inline(always)]
fn title(head: Head, piece: &[u8]) -> Option<(Title, &[u8])> {
    if piece.len() < 16 || head.number > LONGEST {
        return None;
    }
    let mut line = [0; 8];
    (line[1], line[2]) = (word(piece, 0), word(piece, 1));
    let envelope = Envelope::of(&line);
    let is_awaited = envelope.flags & FLAG_SYNC != 0;
    let bytes = piece.get(if is_awaited { 24 } else { 16 }..)?;
    let title = Title {
        envelope,
        sync: is_awaited.then(|| word(piece, 2)),
        total: u64::from(head.number),
    };
    Some((title, bytes))
}

impl<F: Fabric, L: Layer<F>> ByMessages<F, L> {
    /// Take a piece for a receive without a request, which `wanted` says, if it is a whole message that this one takes.
    #[inline(always)]
    pub(super) fn take_at_once(
        engine: &mut Engine<F>,
        wanted: &Direct,
        to: &mut [u8],
        (peer, head, piece): (Peer, Head, &[u8]),
    ) -> Option<(Rank, i32, usize)> {
        if peer != wanted.peer || head.kind != wire::KIND_RUN {
            return None;
        }
        let (Title { envelope, total, .. }, bytes) = title(head, piece)?;
        let far = &L::of(&engine.carrier).peers[peer.index()];
        if envelope.context != wanted.context_id
            || envelope.source != wanted.source as u32
            || (envelope.tag != wanted.tag && wanted.tag != ANY_TAG)
            || envelope.flags != 0
            || (envelope.class != wanted.class && envelope.class != 0 && wanted.class != 0)
            || total != bytes.len() as u64
            || bytes.len() > to.len()
            || far.is_closed
            || far.incoming.is_some()
        {
            return None;
        }
        engine.fabric.charge(Cost::Copy(bytes.len()));
        to[..bytes.len()].copy_from_slice(bytes);
        L::of_mut(&mut engine.carrier).count_come(peer, bytes.len());
        Self::taken(engine, peer, false, total);
        Some((envelope.source as Rank, envelope.tag, bytes.len()))
    }

    /// A piece has come.
    #[inline]
    pub(super) fn on_piece(engine: &mut Engine<F>, peer: Peer, head: Head, piece: &[u8]) {
        let Some(far) = L::of(&engine.carrier).peers.get(peer.index()) else {
            return;
        };
        if far.is_closed {
            return;
        }
        let right = match head.kind {
            wire::KIND_MORE => Self::on_more(engine, peer, piece),
            wire::KIND_RUN => Self::on_message(engine, peer, head, piece),
            wire::KIND_DATA => Self::on_part(engine, peer, head, piece),
            kind => Self::on_line(engine, peer, kind, piece),
        };
        if !right {
            Self::close(engine, peer);
        }
    }

    /// What can be neither right nor skipped. Always false.
    #[cold]
    fn wrong(engine: &mut Engine<F>, peer: Peer, what: &'static str, value: u64) -> bool {
        Self::close(engine, peer);
        engine.fail_sender(peer, what, value);
        false
    }

    /// Nothing is sent to a peer and nothing of it is taken any more.
    #[cold]
    pub(super) fn close(engine: &mut Engine<F>, peer: Peer) {
        let messages = L::of_mut(&mut engine.carrier);
        let far = &mut messages.peers[peer.index()];
        far.is_closed = true;
        far.run = None;
        far.incoming = None;
        messages.arriving.retain(|other| *other != peer);
    }

    /// The beginning of a message.
    #[inline]
    fn on_message(engine: &mut Engine<F>, peer: Peer, head: Head, piece: &[u8]) -> bool {
        let far = &L::of(&engine.carrier).peers[peer.index()];
        if far.incoming.is_some() || engine.by_postbox.get(peer) {
            return Self::wrong(engine, peer, "a message within a message", u64::from(head.number));
        }
        let Some((message, bytes)) =
            title(head, piece).filter(|(title, bytes)| bytes.len() as u64 <= title.total)
        else {
            return Self::wrong(engine, peer, "the length of a message", u64::from(head.number));
        };
        let Title {
            envelope,
            sync,
            total,
        } = message;
        let Some(context) = engine.admit(peer, &envelope) else {
            return false;
        };
        L::of_mut(&mut engine.carrier).count_come(peer, bytes.len());
        let at = bytes.len() as u64;
        if at == total {
            Self::taken(engine, peer, sync.is_some(), total);
            engine.arrive(peer, context, envelope, bytes, sync);
            return true;
        }
        let queues = &mut engine.contexts[context].queues;
        let to = match queues.take_posted(envelope.source, envelope.tag) {
            Some(handle) => Self::begin(engine, peer, handle, message, bytes),
            None => {
                let mut data = Vec::with_capacity(total as usize);
                engine.fabric.charge(Cost::Copy(bytes.len()));
                data.extend_from_slice(bytes);
                L::of_mut(&mut engine.carrier).arriving.push(peer);
                Target::Keep { data, message }
            }
        };
        L::of_mut(&mut engine.carrier).peers[peer.index()].incoming = Some(Incoming { at, end: total, to });
        true
    }

    /// A receive takes a message of which the first `bytes` have come.
    fn begin(engine: &mut Engine<F>, peer: Peer, handle: usize, message: Title, bytes: &[u8]) -> Target {
        let Some((recv, status)) = engine.requests.recv_mut(handle) else {
            return Target::Nowhere;
        };
        let wanted = note_match(status, &recv.buf, &message.envelope, message.total);
        recv.state = RecvState::Streaming { peer, at: 0, wanted };
        let bytes = &bytes[..bytes.len().min(wanted as usize)];
        recv.buf.unpack_on(&*engine.fabric, 0, bytes);
        Target::Receive {
            handle,
            wanted,
            message: Some(message),
        }
    }

    /// Give the receive `handle` a message that is arriving, if there is one for it. None of those that have come is.
    #[cold]
    pub(super) fn take_arriving(engine: &mut Engine<F>, handle: usize) -> bool {
        let Some(recv) = engine.requests.recv(handle) else {
            return false;
        };
        let (context, source, tag) = (recv.context, recv.source, recv.tag);
        let entry = &engine.contexts[context];
        if entry.queues.peek_unexpected(source, tag).is_some() {
            return false;
        }
        let messages = L::of_mut(&mut engine.carrier);
        let is_it = |message: &Title| {
            let Envelope {
                context,
                source: from,
                tag: its,
                ..
            } = message.envelope;
            context == entry.id
                && (source == ANY_SOURCE || source == from as Rank)
                && (tag == ANY_TAG || tag == its)
        };
        let Some(place) = messages.arriving.iter().position(|peer| {
            let incoming = &messages.peers[peer.index()].incoming;
            matches!(incoming, Some(Incoming { to: Target::Keep { message, .. }, .. }) if is_it(message))
        }) else {
            return false;
        };
        let peer = messages.arriving.remove(place);
        if let Some(mut incoming) = messages.peers[peer.index()].incoming.take() {
            if let Target::Keep { data, message } = &incoming.to {
                incoming.to = Self::begin(engine, peer, handle, *message, data);
            }
            L::of_mut(&mut engine.carrier).peers[peer.index()].incoming = Some(incoming);
        }
        true
    }

    /// The beginning of a part of a long message that we asked for.
    fn on_part(engine: &mut Engine<F>, peer: Peer, head: Head, piece: &[u8]) -> bool {
        let far = &mut L::of_mut(&mut engine.carrier).peers[peer.index()];
        let len = u64::from(head.number);
        if far.incoming.is_some() || piece.len() < 8 || (piece.len() - 8) as u64 > len || len == 0 {
            return Self::wrong(engine, peer, "a part of a message", len);
        }
        let handle = word(piece, 0) as usize;
        let (at, to) = match engine.requests.recv(handle).map(|recv| recv.state) {
            Some(RecvState::Streaming {
                peer: from,
                at,
                wanted,
            }) if from == peer && len <= wanted - at => {
                let message = None;
                (
                    at,
                    Target::Receive {
                        handle,
                        wanted,
                        message,
                    },
                )
            }
            // It was given up meanwhile.
            None if engine.requests.get(handle).is_none() => (0, Target::Nowhere),
            _ => return Self::wrong(engine, peer, "a part of a message", len),
        };
        far.incoming = Some(Incoming {
            at,
            end: at + len,
            to,
        });
        piece.len() == 8 || Self::on_more(engine, peer, &piece[8..])
    }

    /// The next bytes of what a peer is sending.
    #[inline]
    fn on_more(engine: &mut Engine<F>, peer: Peer, bytes: &[u8]) -> bool {
        let messages = L::of_mut(&mut engine.carrier);
        messages.count_come(peer, bytes.len());
        let far = &mut messages.peers[peer.index()];
        let Some(incoming) = far
            .incoming
            .as_mut()
            .filter(|incoming| !bytes.is_empty() && bytes.len() as u64 <= incoming.end - incoming.at)
        else {
            return Self::wrong(engine, peer, "the length of a piece", bytes.len() as u64);
        };
        match &mut incoming.to {
            Target::Receive { handle, wanted, .. } => {
                if let Some(recv) = engine.requests.recv(*handle)
                    && incoming.at < *wanted
                {
                    let len = (bytes.len() as u64).min(*wanted - incoming.at) as usize;
                    recv.buf.unpack_on(&*engine.fabric, incoming.at, &bytes[..len]);
                }
            }
            Target::Keep { data, .. } => {
                engine.fabric.charge(Cost::Copy(bytes.len()));
                data.extend_from_slice(bytes);
            }
            Target::Nowhere => {}
        }
        incoming.at += bytes.len() as u64;
        if incoming.at == incoming.end
            && let Some(all) = far.incoming.take()
        {
            Self::on_end(engine, peer, all);
        }
        true
    }

    /// All of a message, or of a part, has come.
    fn on_end(engine: &mut Engine<F>, peer: Peer, Incoming { end, to, .. }: Incoming) {
        match to {
            Target::Receive {
                handle,
                wanted,
                message,
            } => {
                if let Some(Title { sync, total, .. }) = message {
                    Self::taken(engine, peer, sync.is_some(), total);
                    if let Some(request) = sync {
                        engine.answer_done(peer, request);
                    }
                }
                if end >= wanted {
                    // Source, tag and bytes were noted when the message was matched.
                    if engine.requests.recv(handle).is_some() {
                        engine.complete(handle, |_| {});
                    }
                } else if let Some((recv, _)) = engine.requests.recv_mut(handle) {
                    recv.state = RecvState::Streaming {
                        peer,
                        at: end,
                        wanted,
                    };
                }
            }
            Target::Keep { data, message } => {
                let Title {
                    envelope,
                    sync,
                    total,
                } = message;
                let messages = L::of_mut(&mut engine.carrier);
                messages.arriving.retain(|other| *other != peer);
                Self::taken(engine, peer, sync.is_some(), total);
                let context = engine.context(envelope.context);
                if engine.contexts[context].queues.has_posted() {
                    engine.arrive(peer, context, envelope, &data, sync);
                } else {
                    engine.hold(peer, context, envelope, Held::Data(data.into()), sync);
                }
            }
            Target::Nowhere => {}
        }
    }

    /// A message has been taken; its sender hears of it now and then.
    #[inline(always)]
    fn taken(engine: &mut Engine<F>, peer: Peer, is_awaited: bool, bytes: u64) {
        if !takes_credit(is_awaited, bytes) {
            return;
        }
        let messages = L::of_mut(&mut engine.carrier);
        let far = &mut messages.peers[peer.index()];
        far.taken.add(bytes);
        let owed = far.taken.since(far.told);
        if owed.messages >= messages.most.messages / 2 || owed.bytes >= messages.most.bytes / 2 {
            Self::give_credit(engine, peer);
        }
    }

    /// An offer or an answer.
    fn on_line(engine: &mut Engine<F>, peer: Peer, kind: u8, piece: &[u8]) -> bool {
        let mut line: Line = [0; 8];
        line[0] = u64::from(kind) << 32;
        let words = words_of(kind, &line).len();
        if piece.len() != 8 * words {
            return Self::wrong(engine, peer, "the length of an answer", piece.len() as u64);
        }
        let first = if kind == wire::KIND_RTS { 1 } else { 3 };
        for (at, to) in line[first..first + words].iter_mut().enumerate() {
            *to = word(piece, at);
        }
        match kind {
            KIND_CREDIT => Self::on_credit(engine, peer, &line),
            KIND_BROKEN => Self::on_broken(engine, peer, &line),
            wire::KIND_RTS if line[6] & !wire::ONE_RUN != 0 || (line[6] != 0 && !L::TRANSFERS) => {
                Self::wrong(engine, peer, "the place of a long message", line[6])
            }
            _ => engine.on_line(peer, &line),
        }
    }

    /// The peer has taken messages.
    fn on_credit(engine: &mut Engine<F>, peer: Peer, line: &Line) -> bool {
        let far = &mut L::of_mut(&mut engine.carrier).peers[peer.index()];
        let acked = Tally {
            messages: line[3] as u32,
            bytes: line[4],
        };
        let (out, new) = (far.sent.since(far.acked), acked.since(far.acked));
        if new.messages > out.messages || new.bytes > out.bytes {
            return Self::wrong(engine, peer, "the messages that it has taken", line[3]);
        }
        far.acked = acked;
        far.holds_back = line[3] & HOLD_BACK != 0;
        true
    }

    /// The rest of what a peer was sending will not come: it has given the message up.
    fn on_broken(engine: &mut Engine<F>, peer: Peer, line: &Line) -> bool {
        let part = (line[4] != 0).then_some(line[3] as usize);
        let messages = L::of_mut(&mut engine.carrier);
        let far = &mut messages.peers[peer.index()];
        let taken = far.incoming.take_if(|incoming| match incoming.to {
            Target::Receive {
                handle,
                message: None,
                ..
            } => part == Some(handle),
            Target::Nowhere => true,
            _ => part.is_none(),
        });
        let handle = match (part, taken) {
            (Some(part), _) => Some(part),
            (
                None,
                Some(Incoming {
                    to: Target::Receive { handle, .. },
                    ..
                }),
            ) => Some(handle),
            (None, taken) => {
                if let Some(Incoming {
                    to: Target::Keep { .. },
                    ..
                }) = taken
                {
                    messages.arriving.retain(|other| *other != peer);
                }
                None
            }
        };
        if let Some(handle) = handle
            && let Some(recv) = engine.requests.recv(handle)
            && recv.state.peer() == Some(peer)
        {
            let error = error!(ERR_PROC_ABORTED: "{peer} has given the message up");
            engine.fail(handle, error);
        }
        true
    }
}
