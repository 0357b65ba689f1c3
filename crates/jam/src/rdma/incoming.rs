//! Blocks of peers: who asks, who owns this process, what comes of its block.

use super::{
    ActiveTransfer, Block, BlockRequest, BlockSource, DAMAGED, DONE, FITTED, GRANT, NOT_FETCHED, Purpose,
    Rdma, RdmaState, SILENT, TOO_LONG, tag,
};
use crate::bulk::{Buffer, Fetch};
use crate::message::Message;
use crate::pio::{Pio, bytes_of};
use crate::{MAX_WORDS, crc16};
use farpost_fabric::{Cost, Fabric, FabricError, Fault, Peer, Port, Priority};

/// Turns of messages that waited while a block came, before the next block: more would let a process that takes no messages wait for
/// its blocks.
const TURNS: u32 = 16;

impl<F: Fabric> Rdma<F> {
    pub(super) fn on_ask(&self, state: &mut RdmaState<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let from = message.from;
        let &[kind, word, len, len_high, base, base_high, key, key_high, check] = message.words() else {
            return pio.refuse(from, "the length of an ask", message.words().len() as u64);
        };
        let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let already = state.asked.iter().any(|asked| asked.from == from)
            || state
                .active
                .as_ref()
                .is_some_and(|active| active.asked.from == from);
        if already {
            return pio.refuse(from, "a second ask", u64::from(id));
        }
        let purpose = match kind & 1 {
            0 => Purpose::User(word),
            _ => Purpose::Rpc(word),
        };
        state.asked.push_back(BlockRequest {
            from,
            id,
            purpose,
            len: usize::try_from(wide(len, len_high)).unwrap_or(usize::MAX),
            check: check as u16,
            place: (kind & 2 != 0).then(|| (wide(base, base_high), wide(key, key_high))),
        });
    }

    pub(super) fn on_data(&self, state: &mut RdmaState<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let from = message.from;
        match &mut state.active {
            Some(ActiveTransfer {
                asked,
                source: BlockSource::Packets(memory, at),
                ..
            }) if asked.from == from && asked.id == id && *at < asked.len => {
                let mut bytes = [0; 4 * MAX_WORDS];
                let len = bytes_of(message.words(), &mut bytes).min(asked.len - *at);
                self.fabric.charge(Cost::Copy(len));
                memory.bytes_mut()[*at..*at + len].copy_from_slice(&bytes[..len]);
                *at += len;
            }
            // What a silent owner had sent, or sends until it is told.
            _ if state.expired == Some((from, id)) => {}
            _ => pio.refuse(from, "a packet of another's transfer, or of none", u64::from(id)),
        }
    }

    pub(super) fn serve_active(&self, state: &mut RdmaState<F>, pio: &Pio<F>) -> bool {
        if state.active.is_none() && !self.admit(state, pio) {
            return false;
        }
        let Some(active) = &mut state.active else {
            return true;
        };
        let (from, id) = (active.asked.from, active.asked.id);
        match &mut active.source {
            BlockSource::Packets(_, at) if *at < active.asked.len => return false,
            BlockSource::Packets(..) => {}
            BlockSource::Fetch(fetch) => match fetch.finished() {
                Ok(false) => return false,
                Ok(true) => {}
                Err(error) => {
                    self.give_up(state, pio, error, [NOT_FETCHED, 0]);
                    return true;
                }
            },
        }
        if !active.is_whole() {
            let error = FabricError::corrupt(from, "the check of a block", active.asked.check);
            self.give_up(state, pio, error, [DAMAGED, 0]);
            return true;
        }
        let Some((asked, memory)) = state.active.take().and_then(ActiveTransfer::end) else {
            return true;
        };
        state.turns = 0;
        match asked.purpose {
            Purpose::Rpc(procedure) => state.arguments.push_back((from, procedure, memory)),
            Purpose::User(tag) => state.arrived.push_back(Block {
                from,
                tag,
                memory,
                len: asked.len,
            }),
        }
        self.reply(state, pio, from, tag(DONE, id), [FITTED, 0]);
        true
    }

    /// The block under way has failed, `error` says why; its sender is told `how`.
    fn give_up(&self, state: &mut RdmaState<F>, pio: &Pio<F>, error: FabricError, how: [u32; 2]) {
        if let Some((from, id)) = state.give_back() {
            self.faults.record(Fault { peer: from, error });
            self.reply(state, pio, from, tag(DONE, id), how);
        }
    }

    /// Make the sender of the next request the owner.
    fn admit(&self, state: &mut RdmaState<F>, pio: &Pio<F>) -> bool {
        let may = |asked: &BlockRequest| state.has_memory_for(asked);
        let Some(index) = state.asked.iter().position(may) else {
            return false;
        };
        if state.turns < TURNS && self.fabric.packets_waiting(Port::Jam, Priority::High, 1) > 0 {
            state.turns += 1;
            return false;
        }
        let Some(asked) = state.asked.remove(index) else {
            return false;
        };
        let (from, id) = (asked.from, asked.id);
        let most = match asked.purpose {
            Purpose::Rpc(_) => self.most,
            Purpose::User(_) => state.posted.front().map_or(0, |(_, memory)| memory.len()),
        };
        if asked.len > most {
            self.faults.record(Fault {
                peer: from,
                error: FabricError::OutOfRange {
                    offset: 0,
                    end: asked.len,
                    len: most,
                },
            });
            let fits = u32::try_from(most).unwrap_or(u32::MAX);
            self.reply(state, pio, from, tag(DONE, id), [TOO_LONG, fits]);
            return true;
        }
        let posted = match asked.purpose {
            Purpose::User(_) => state.posted.pop_front(),
            Purpose::Rpc(_) => None,
        };
        let (posted, mut memory) = match posted {
            Some((name, memory)) => (Some(name), memory),
            None => (None, vec![0; asked.len].into()),
        };
        let silent = (self.fabric.now(), 0);
        if let Some(place) = asked.place
            && asked.len > 0
            && self.fabric.can_transfer(from)
        {
            match Fetch::new(&self.fabric, from, place, (memory, asked.len)) {
                Ok(fetch) => {
                    let source = BlockSource::Fetch(fetch);
                    state.active = Some(ActiveTransfer {
                        asked,
                        source,
                        silent,
                        posted,
                    });
                    return true;
                }
                Err((back, _)) => memory = back,
            }
        }
        let source = BlockSource::Packets(memory, 0);
        state.active = Some(ActiveTransfer {
            asked,
            source,
            silent,
            posted,
        });
        self.reply(state, pio, from, tag(GRANT, id), [0; 2]);
        true
    }

    /// Take the right of an owner from which nothing comes.
    pub(super) fn look_for_silent(&self, state: &mut RdmaState<F>, pio: &Pio<F>) {
        let Some(active) = &mut state.active else { return };
        let now = self.fabric.now();
        let at = match active.source {
            BlockSource::Packets(_, at) => at,
            BlockSource::Fetch(_) => 0,
        };
        if at != active.silent.1 {
            active.silent = (now, at);
        } else if now - active.silent.0 >= self.silence {
            let (peer, id) = (active.asked.from, active.asked.id);
            let millis = u32::try_from(self.silence.as_millis()).unwrap_or(u32::MAX);
            state.expired = Some((peer, id));
            let why = format!(
                "it owned this process and sent nothing for {millis} ms (FARPOST_JAM_OWNER_SILENCE), after {at} bytes"
            );
            let error = FabricError::unsupported(peer, "a block transfer", why);
            self.give_up(state, pio, error, [SILENT, millis]);
        }
    }

    /// Cancel what waits for processes that have ended.
    #[cold]
    pub(super) fn look_for_ended(&self, state: &mut RdmaState<F>) {
        let fabric = &self.fabric;
        state.asked.retain(|asked| !fabric.is_gone(asked.from));
        // Its last packets may have come and wait to be looked at.
        let waits = |priority| fabric.packets_waiting(Port::JamService, priority, 1) > 0;
        if let Some(active) = &state.active
            && fabric.is_gone(active.asked.from)
            && !Priority::ALL.into_iter().any(waits)
        {
            let peer = active.asked.from;
            state.give_back();
            let why = "it ended while it owned this process's block transfer";
            let error = FabricError::dead(peer, why);
            self.faults.record(Fault { peer, error });
        }
        let gone: Vec<Peer> = state
            .sending
            .keys()
            .copied()
            .filter(|to| fabric.is_gone(*to))
            .collect();
        for to in gone {
            while state.sending.contains_key(&to) {
                self.end_first(state, to, Err(crate::JamError::PeerEnded(to)));
            }
        }
        state.answers.retain(|(to, ..)| !fabric.is_gone(*to));
    }
}

impl<F: Fabric> ActiveTransfer<F> {
    /// Whether all its bytes, which have come, are those that were sent.
    fn is_whole(&self) -> bool {
        let memory = match &self.source {
            BlockSource::Packets(memory, _) => Some(memory),
            BlockSource::Fetch(fetch) => fetch.fetched(),
        };
        memory.is_some_and(|memory: &Buffer| crc16::of(&memory.bytes()[..self.asked.len]) == self.asked.check)
    }

    /// End the ownership; the memory is this process's again.
    fn end(self) -> Option<(BlockRequest, Buffer)> {
        let memory = match self.source {
            BlockSource::Packets(memory, _) => memory,
            BlockSource::Fetch(mut fetch) => fetch.take()?,
        };
        Some((self.asked, memory))
    }
}

impl<F: Fabric> RdmaState<F> {
    /// Cancel the block under way: the user's memory is for the next one. Whose it was, and its number.
    fn give_back(&mut self) -> Option<(Peer, u32)> {
        self.turns = 0;
        let active = self.active.take()?;
        let posted = active.posted;
        let name = (active.asked.from, active.asked.id);
        if let (Some(posted), Some((_, memory))) = (posted, active.end()) {
            self.posted.push_front((posted, memory));
        }
        Some(name)
    }
}
