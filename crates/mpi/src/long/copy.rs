//! One copy, where the kernel copies between memories: the receiver copies, or opens the offer in the sender's rendezvous slot, and then
//! both sides claim chunks and copy until none is left.
//!
//! `farpost_channel::RendezvousSlot` is what the slot says, and in which order. Third processes map it too, so that nothing in it says where
//! bytes go or come from: that is in the receiver's grant (`grant`).

use crate::engine::grant::{self, Grant, Message};
use crate::engine::lost::of_transfer;
use crate::engine::request::{RecvState, SendState};
use crate::engine::{Carrier, Engine};
use farpost_channel::{CopyOutcome, RendezvousSlots, Side, part_bytes};
use farpost_fabric::{Fabric, Peer, memcheck};

/// Chunks that one call copies before it looks after the rest of the world.
const CHUNKS_A_CALL: u32 = 8;

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        if self.tunables.both_copy == 0 {
            return None;
        }
        if self.free_slots.is_none() {
            self.post.my_slots()?;
            self.free_slots = Some((0..RendezvousSlots::<F>::LINES).rev().collect());
        }
        let line = self.free_slots.as_mut()?.pop()?;
        let slots = self.post.my_slots()?;
        slots.slot(line).clear();
        Some(line)
    }

    pub(super) fn free_slot(&mut self, line: u32) {
        if let Some(free) = &mut self.free_slots {
            free.push(line);
        }
    }

    /// Receiver: open the sender's slot, so that both copy.
    pub(super) fn copy_with_sender(
        &mut self,
        handle: usize,
        (peer, request): (Peer, u64),
        address: u64,
        slot: u32,
        wanted: u64,
    ) {
        let chunk = self.chunk_bytes(wanted);
        let (Some(slots), Some((recv, _))) = (self.post.slots_of(peer), self.requests.recv_mut(handle))
        else {
            return;
        };
        let message = Message {
            sender: peer,
            line: slot,
            request,
        };
        let grant = Grant {
            address: recv.buf.contiguous_address().unwrap_or(0) as u64,
            bytes: wanted,
            chunk,
        };
        let granted = self.grants.give(&message, &grant);
        slots.slot(slot).open(granted.map_or(0, |(_, at)| at));
        recv.state = RecvState::Copying {
            peer,
            slot,
            address,
            grant: granted.map(|(place, _)| place),
        };
        self.fabric.wake(peer);
        self.copying.push(handle);
        self.serve_copying();
    }

    /// Receiver, with a buffer that is not one run or without a slot: copy everything.
    pub(super) fn copy_alone(
        &mut self,
        handle: usize,
        (peer, request): (Peer, u64),
        address: u64,
        wanted: u64,
    ) {
        let Some(recv) = self.requests.recv(handle) else {
            return;
        };
        let moved = recv.buf.fill_from_peer(&*self.fabric, peer, address, wanted);
        self.end_of_get(handle, (peer, request), moved);
    }

    /// Chunks small enough that both sides get some, large enough to be worth a system call.
    fn chunk_bytes(&self, wanted: u64) -> u64 {
        let low = self.tunables.chunk_min.min(self.tunables.chunk_max);
        part_bytes(wanted, (low, self.tunables.chunk_max))
    }

    /// Receiver: copy chunks of what is being fetched.
    pub(crate) fn serve_copying(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.copying.len()).rev() {
            let handle = self.copying[index];
            let Some(recv) = self.requests.recv(handle) else {
                self.copying.swap_remove(index);
                continue;
            };
            let RecvState::Copying {
                peer,
                slot: line,
                address,
                grant,
            } = recv.state
            else {
                continue;
            };
            let Some(slots) = self.post.slots_of(peer) else {
                continue;
            };
            let wanted = self
                .requests
                .get(handle)
                .map_or(0, |request| request.status.bytes);
            let chunk = self.chunk_bytes(wanted);
            // What is copied by both is one run of memory (`fetch`).
            let local = recv.buf.contiguous_address().unwrap_or(0);
            let mut failed = None;
            let line = slots.slot(line);
            for _ in 0..CHUNKS_A_CALL {
                let copied = line.copy().copy_part(Side::Front, (wanted, chunk), |at, len| {
                    let from = address.wrapping_add(at);
                    let filled = recv.buf.fill_part_from_peer(&*self.fabric, peer, from, at, len);
                    filled.map_err(|error| failed = Some(error)).is_ok()
                });
                if !copied {
                    break;
                }
                moved = true;
            }
            if let Some(error) = failed {
                let error = of_transfer(&error);
                if let Some(request) = self.requests.get_mut(handle) {
                    request.status.error.get_or_insert(Box::new(error));
                }
            }
            let outcome = line.copy().outcome((wanted, chunk));
            if outcome != CopyOutcome::UnderWay {
                memcheck::written_by_peer(local, wanted as usize);
                if outcome == CopyOutcome::Failed
                    && let Some(request) = self.requests.get_mut(handle)
                {
                    let error = || error!(ERR_OTHER: "{peer} could not copy its part of the message");
                    request.status.error.get_or_insert_with(|| Box::new(error()));
                }
                line.close();
                if let Some(slot) = grant {
                    self.grants.take_back(slot);
                }
                self.fabric.wake(peer);
                self.copying.swap_remove(index);
                self.complete(handle, |_| {});
                moved = true;
            }
        }
        moved
    }

    /// Sender: help the receivers that have opened an offer.
    pub(crate) fn serve_offered(&mut self) -> bool {
        let Some(slots) = self.post.my_slots() else {
            return false;
        };
        let mut moved = false;
        for index in (0..self.offered.len()).rev() {
            let Some(&handle) = self.offered.get(index) else {
                continue;
            };
            let Some(send) = self.requests.send(handle) else {
                self.offered.swap_remove(index);
                continue;
            };
            let SendState::Offered { slot: Some(line), .. } = send.state else {
                continue;
            };
            let shared = slots.slot(line);
            if !shared.is_open() {
                continue;
            }
            let peer = send.peer;
            let message = Message {
                sender: self.fabric.me(),
                line,
                request: handle as u64,
            };
            // Without a grant the receiver copies alone.
            let granted = shared.record(|at| grant::fetch(&*self.fabric, peer, at, &message));
            if let Some(Grant { bytes, .. }) = granted
                && bytes > send.payload.bytes()
            {
                self.fail_sender(peer, "the length of an opened offer", bytes);
                return true;
            }
            if let Some(Grant {
                address: remote,
                bytes,
                chunk,
            }) = granted
            {
                let mut copied = false;
                for _ in 0..CHUNKS_A_CALL {
                    let more = shared.copy().copy_part(Side::Back, (bytes, chunk), |at, len| {
                        let to = remote.wrapping_add(at);
                        send.payload
                            .copy_to_peer(&*self.fabric, peer, at, len, to)
                            .is_ok()
                    });
                    if !more {
                        break;
                    }
                    copied = true;
                }
                if copied {
                    self.fabric.wake(peer);
                    moved = true;
                }
            }
            if shared.is_closed() {
                self.offered.swap_remove(index);
                self.free_slot(line);
                self.complete(handle, |_| {});
                moved = true;
            }
        }
        moved
    }
}
