//! How bodies travel that do not fit into the header packet, and the memory that they take meanwhile.
//!
//! Cost class: queued path.

use super::pendings::TransmitPending;
use crate::malformed::{Malformed, fail};
use crate::memory::{Segments, user};
use crate::net::moves;
use crate::net::rendezvous_slots::{Offer, RendezvousSlots};
use crate::net::tunables::NetTunables;
use crate::net::upper::Channel;
use crate::net::wire::{self, PacketKind, STAGING, Writer, stream_bytes};
use crate::owner::Owner;
use farpost_fabric::{Access, Cost, Fabric, LocalMemory, PACKET_BYTES, Peer, Permission, Time};
use std::collections::VecDeque;

/// Longest answer that is copied before its check is made, and how many are at a time.
const COPY: usize = 64 << 10;
const COPIES: usize = 4;
/// What they take, bytes.
pub const COPIED: usize = COPIES * COPY;

/// How a body travels.
#[derive(Clone, Debug)]
pub enum BodyRoute {
    Inline,
    /// In this slot of the staging memory.
    Staged(u16),
    /// The receiver fetches it; withdrawn with this key where that is needed. With a rendezvous slot, both sides copy.
    Pull {
        key: Option<u64>,
        rendezvous_slots: Option<u16>,
    },
    /// The receiver fetches its pieces, of which there is a list in this slot.
    Gather(u16),
    Stream,
}

/// What decides about the route of a body.
pub struct Receiver {
    pub peer: Peer,
    /// Routes that do not work with it ([`wire::NO_PULL`], [`wire::NO_STAGING`]).
    pub not: u8,
    pub checked: bool,
    /// Other messages are on their way to it.
    pub in_company: bool,
}

/// The memory of bodies on their way.
pub struct Bodies<F: Fabric> {
    staging: Option<F::Export>,
    /// Free slots, the one that was free longest first: its last reader is most likely done with its lines.
    slots: VecDeque<u16>,
    slot_bytes: usize,
    rendezvous_slots: RendezvousSlots<F>,
    copies: Copies,
}

impl<F: Fabric> Bodies<F> {
    pub fn new(fabric: &F, owner: Owner, config: &NetTunables) -> Self {
        let slot_bytes = config.staged as usize;
        let mapped = (0..fabric.processes()).any(|peer| fabric.maps(Peer(peer)));
        let staging = (mapped && slot_bytes > 0)
            .then(|| {
                let bytes = slot_bytes * config.staging as usize;
                fabric
                    .export(owner.segment(STAGING), bytes, Access::Everyone(Permission::Read))
                    .ok()
            })
            .flatten();
        let slots = if staging.is_some() {
            config.staging as u16
        } else {
            0
        };
        Self {
            staging,
            slots: (0..slots).collect(),
            slot_bytes,
            rendezvous_slots: RendezvousSlots::new(fabric, owner, mapped, config),
            copies: Copies::new(),
        }
    }

    /// Choose the route of a body and write the rest of its header packet. True: its memory may be used again.
    #[inline(never)]
    pub fn begin(
        &mut self,
        fabric: &F,
        to: &Receiver,
        index: usize,
        pending: &mut TransmitPending,
        body: &Segments,
    ) -> bool {
        let &Receiver {
            peer, not, checked, ..
        } = to;
        let length = body.len();
        let start = start_of(pending, checked);
        let mut len = start;
        let mut put = |bytes: &[u8]| {
            pending.packet[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        let check = |put: &mut dyn FnMut(&[u8]), body: &Segments| {
            if checked {
                put(&moves::check_of(body).to_le_bytes());
            }
        };
        // Of several bodies on their way one system call fetches as many as fit, and so shorter ones are worth it.
        let in_company = to.in_company && fabric.can_transfer_pieces(peer);
        if length <= self.slot_bytes >> u32::from(in_company)
            && not & wire::NO_STAGING == 0
            && let Some(memory) = &self.staging
            && let Some(slot) = self.slots.pop_front()
        {
            let offset = usize::from(slot) * self.slot_bytes;
            fabric.charge(Cost::Copy(length));
            moves::stage(memory, offset, body);
            put(&(length as u32).to_le_bytes());
            put(&(offset as u32).to_le_bytes());
            check(&mut put, body);
            (pending.kind, pending.route) = (PacketKind::Staged, BodyRoute::Staged(slot));
            pending.packet_len = len as u8;
            return true;
        }
        // Others may write what is asked for while it is on its way, and its check is about what it was.
        if checked
            && index == Channel::Answer as usize
            && not & wire::NO_PULL == 0
            && fabric.can_transfer(peer)
        {
            pending.copy = self.copies.take(fabric, body);
        }
        let copied = pending.copy.map(|copy| self.copies.at(copy, length));
        let body = copied.as_ref().unwrap_or(body);
        pending.body = body.clone();
        if not & wire::NO_PULL == 0
            && let Some(one) = body.as_one()
            && fabric.can_transfer(peer)
            && let Ok((position, key)) = user::expose(fabric, peer, one, false)
        {
            put(&(length as u64).to_le_bytes());
            put(&position.to_le_bytes());
            let (key, rendezvous_slots, told) = if fabric.maps(peer) {
                let rendezvous_slots = self.rendezvous_slots.take_line(length);
                (
                    None,
                    rendezvous_slots,
                    rendezvous_slots.map_or(0, |line| u64::from(line) + 1),
                )
            } else {
                (Some(key), None, key)
            };
            put(&told.to_le_bytes());
            check(&mut put, body);
            (pending.kind, pending.route) = (
                PacketKind::Pull,
                BodyRoute::Pull {
                    key,
                    rendezvous_slots,
                },
            );
            pending.packet_len = len as u8;
            return false;
        }
        if not & (wire::NO_PULL | wire::NO_STAGING) == 0
            && fabric.can_transfer_pieces(peer)
            && let Some(memory) = &self.staging
            && let count = body.pieces().count()
            && count * wire::PIECE <= self.slot_bytes
            && let Some(slot) = self.slots.pop_front()
        {
            let offset = usize::from(slot) * self.slot_bytes;
            for (i, piece) in body.pieces().enumerate() {
                let bytes = wire::piece_bytes(piece.address, piece.len);
                memory.write(offset + i * wire::PIECE, &bytes);
            }
            put(&(length as u64).to_le_bytes());
            put(&(offset as u32).to_le_bytes());
            put(&(count as u32).to_le_bytes());
            check(&mut put, body);
            (pending.kind, pending.route) = (PacketKind::Gather, BodyRoute::Gather(slot));
            pending.packet_len = len as u8;
            return false;
        }
        as_stream(pending, start, checked);
        false
    }

    /// A message that waits goes as a stream if its route is one of those that do `not` work.
    pub fn change(&mut self, fabric: &F, not: u8, checked: bool, pending: &mut TransmitPending) {
        let start = start_of(pending, checked);
        match pending.route {
            BodyRoute::Pull { key, .. } if not & wire::NO_PULL != 0 => {
                if let Some(key) = key {
                    fabric.withdraw(key);
                }
                as_stream(pending, start, checked);
            }
            BodyRoute::Gather(slot) if not != 0 => {
                self.slots.push_back(slot);
                as_stream(pending, start, checked);
            }
            // The bytes stay where they are until they have gone.
            BodyRoute::Staged(slot) if not & wire::NO_STAGING != 0 => {
                as_stream(pending, start, checked);
                pending.route = BodyRoute::Staged(slot);
            }
            _ => {}
        }
    }

    /// Write packet `packet` of a body that goes in packets: the bytes of it.
    pub fn part(
        &self,
        fabric: &F,
        pending: &TransmitPending,
        packet: u32,
        buffer: &mut [u8; PACKET_BYTES],
        checked: bool,
    ) -> usize {
        let part = stream_bytes(checked);
        let from = (packet as usize - 1) * part;
        let len = part.min(pending.length - from);
        fabric.charge(Cost::Copy(len));
        let mut writer = Writer::new(buffer, checked);
        match (&pending.route, &self.staging) {
            (BodyRoute::Staged(slot), Some(memory)) => {
                memory.read(usize::from(*slot) * self.slot_bytes + from, writer.room(len));
            }
            _ => moves::load(&pending.body, from, writer.room(len)),
        }
        writer.len()
    }

    /// The lines that the next staged body goes to are with their last reader: call them back while others would wait.
    #[inline(never)]
    pub fn call_back(&self, length: usize) {
        if let (Some(memory), Some(next)) = (&self.staging, self.slots.front()) {
            memory.prefetch_write(usize::from(*next) * self.slot_bytes, length);
        }
    }

    /// A message is over. True: the upper layer waits for that.
    #[inline(never)]
    pub fn release(&mut self, fabric: &F, pending: &mut TransmitPending) -> bool {
        pending.body = Segments::default();
        self.copies.free.extend(pending.copy.take());
        match std::mem::replace(&mut pending.route, BodyRoute::Inline) {
            BodyRoute::Inline => false,
            BodyRoute::Staged(slot) => {
                self.slots.push_back(slot);
                false
            }
            BodyRoute::Pull {
                key,
                rendezvous_slots: line,
            } => {
                if let Some(line) = line {
                    self.rendezvous_slots.give_line(line);
                }
                if let Some(key) = key {
                    fabric.withdraw(key);
                }
                true
            }
            BodyRoute::Gather(slot) => {
                self.slots.push_back(slot);
                true
            }
            BodyRoute::Stream => true,
        }
    }

    /// The receiver lets us copy parts of a body that it fetches: so many bytes, in parts of so many, to this address.
    pub fn open_offer(
        &mut self,
        peer: Peer,
        pending: &TransmitPending,
        [bytes, chunk, address]: [u64; 3],
    ) -> Result<(), Malformed> {
        let BodyRoute::Pull {
            rendezvous_slots: Some(line),
            ..
        } = pending.route
        else {
            return Ok(());
        };
        if bytes > pending.length as u64 || chunk < 4096 {
            return fail!("the parts of a Portals body that both sides copy", bytes);
        }
        let body = pending.body.as_one().unwrap_or_default();
        self.rendezvous_slots.open(Offer {
            peer,
            line,
            body: body.address,
            bytes,
            chunk,
            address,
        });
        Ok(())
    }

    /// Whether there are bodies of ours of which we may copy parts.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        self.rendezvous_slots.is_open()
    }

    /// Copy parts of them.
    pub fn serve_offers(&mut self, fabric: &F) -> bool {
        self.rendezvous_slots.serve(fabric)
    }
}

/// Where in a header packet the header ends.
fn start_of(pending: &TransmitPending, checked: bool) -> usize {
    wire::WORD + if checked { wire::CHECK } else { 0 } + usize::from(pending.header_len)
}

fn as_stream(pending: &mut TransmitPending, start: usize, checked: bool) {
    let length = pending.length;
    pending.packet[start..start + 8].copy_from_slice(&(length as u64).to_le_bytes());
    (pending.kind, pending.route) = (PacketKind::Stream, BodyRoute::Stream);
    pending.packet_len = (start + 8) as u8;
    pending.packets = 1 + length.div_ceil(stream_bytes(checked)) as u32;
}

/// Memory for copies of answers, which stay as they are while they are fetched.
struct Copies {
    memory: Box<[u8]>,
    free: Vec<u16>,
}

impl Copies {
    fn new() -> Self {
        Self {
            memory: vec![0; COPIED].into(),
            free: (0..COPIES as u16).collect(),
        }
    }

    /// Copy a body, if it is short enough and there is room.
    fn take(&mut self, time: &impl Time, body: &Segments) -> Option<u16> {
        if body.len() > COPY {
            return None;
        }
        let place = self.free.pop()?;
        time.charge(Cost::Copy(body.len()));
        user::load(body, &mut self.memory[usize::from(place) * COPY..][..body.len()]);
        Some(place)
    }

    fn at(&mut self, place: u16, len: usize) -> Segments {
        let memory = &mut self.memory[usize::from(place) * COPY..][..len];
        Segments::one(memory.as_mut_ptr().expose_provenance(), len)
    }
}
