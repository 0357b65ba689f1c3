//! Bulk transfers: `fi_read` and `fi_write` between user memories, registered as long as an operation needs it.
//!
//! A registration outlives no operation on memory that is not ours: a program may unmap its buffer and map another one at
//! the same address, and a registration kept would go on meaning the old pages. Where the provider's registrations
//! are a table entry (tcp) this costs next to nothing.
//!
//! A key is the provider's plus one, so that 0 is the key of nothing. Keys are random; where we choose all of their
//! bits, the upper 16 tell about how much is exposed, so that a position that cannot be right is refused before it
//! leaves: to a provider on sockets it would cost the connection. Positions are addresses where the provider
//! works with addresses (`FI_MR_VIRT_ADDR`), else they count from the start of what is exposed.
//!
//! Cost class: *queued path*.
//!
//! A registration kept longer would need a proof that the address still means the same pages, and a library has none: `munmap`, `mremap`, `madvise` and a
//! `brk` that shrinks happen without it; hooked functions miss direct system calls; `userfaultfd` tells of unmapping only while a thread reads
//! it, and makes the program wait for that thread; soft-dirty bits and frame numbers in `/proc/self/pagemap` need privileges or can repeat. Providers
//! whose registrations are costly (verbs, efa, cxi) have caches with a monitor for this (`FI_MR_CACHE_MONITOR`). A registration is shared by
//! operations that expose the same bytes for reading at the same time.

use super::Ofi;
use super::calls::Registration;
use super::core::Inner;
use super::{ffi, token};
use farpost_fabric::{
    BulkTransfer, Completion, Counter, Descriptor, Direction, FabricError, Peer, Result, Ticket,
};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Times that a random key is tried.
const KEY_TRIES: u32 = 8;

/// Bits of a key that are random where the rest tells the length.
const RANDOM_BITS: u32 = 48;

/// A length in 16 bits, rounded up: six for the highest bit's place, ten for the bits after it.
fn brief(len: usize) -> u64 {
    let len = len as u64;
    if len < 1 << 10 {
        return len;
    }
    let shift = 63 - len.leading_zeros() - 10;
    let up = len.div_ceil(1 << shift);
    // Rounding up may have made another bit, which this adds to the place.
    (u64::from(shift) << 10) + up
}

/// The length that [`brief`] told, or a little more.
fn full(brief: u64) -> u64 {
    if brief < 1 << 11 {
        return brief;
    }
    let shift = (brief >> 10) - 1;
    ((1 << 10) + (brief & 1023))
        .checked_shl(shift as u32)
        .unwrap_or(u64::MAX)
}

impl Inner {
    /// Whether keys tell lengths.
    fn keys_tell(&self) -> bool {
        let attr = self.endpoint.attr.domain;
        attr.mr_key_size == 8 && self.endpoint.mr_mode() & (ffi::FI_MR_PROV_KEY | ffi::FI_MR_VIRT_ADDR) == 0
    }

    /// Register with a random key, where we choose keys.
    fn register_random(&self, at: (*mut u8, usize), access: u64) -> Result<Registration> {
        let told = self.keys_tell().then(|| brief(at.1) << RANDOM_BITS);
        let bits = (self.endpoint.attr.domain.mr_key_size * 8).min(64) as u32;
        // The largest number means no key.
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        let mut last = String::new();
        for _ in 0..KEY_TRIES {
            let random = token::random() & mask;
            let key = match told {
                Some(told) => told | random >> (64 - RANDOM_BITS),
                None => random >> 1,
            };
            match self.endpoint.register(at, access, key) {
                Ok(registration) => return Ok(registration),
                Err((code, why)) => {
                    last = why;
                    // Taken: another one.
                    if code != ffi::FI_ENOKEY && code != libc::EEXIST {
                        break;
                    }
                }
            }
        }
        Err(FabricError::unsupported(
            self.me,
            "registering memory",
            format!(
                "{}: {last} (is the limit on locked memory, ulimit -l, high enough?)",
                self.card.provider
            ),
        ))
    }

    /// Make memory reachable, or once more: the key.
    pub fn expose(&self, (address, len): (usize, usize), writable: bool) -> Result<u64> {
        let access = if writable {
            ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE
        } else {
            ffi::FI_REMOTE_READ
        };
        let at = std::ptr::with_exposed_provenance_mut::<u8>(address);
        self.bulk.expose((address, len), writable, || {
            self.register_random((at, len), access)
        })
    }

    /// What a peer is told as the position of the first byte exposed at `address`.
    pub fn exposed_base(&self, address: usize) -> u64 {
        if self.addresses_count() { address as u64 } else { 0 }
    }

    /// Start a transfer.
    ///
    /// # Safety
    /// As of [`BulkTransfer::submit`].
    pub unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        let inner = self;
        let peer = descriptor.peer;
        inner.check_peer(peer)?;
        if peer == inner.me {
            return Err(FabricError::unsupported(
                peer,
                "a transfer",
                "it is this process itself",
            ));
        }
        let link = Rc::clone(inner.link(peer));
        inner.check_alive(&link)?;
        if descriptor.len == 0 {
            return Ok(Completion::Done);
        }
        if descriptor.key == 0 {
            return Err(FabricError::corrupt(peer, "a key of exposed memory", 0u64));
        }
        if inner.keys_tell() {
            let exposed = full((descriptor.key - 1) >> RANDOM_BITS);
            let end = (descriptor.remote as u64).checked_add(descriptor.len as u64);
            if end.is_none_or(|end| end > exposed) {
                return Err(FabricError::corrupt(
                    peer,
                    "a position in exposed memory",
                    descriptor.remote as u64,
                ));
            }
        }
        let mut registration = None;
        if inner.endpoint.mr_mode() & ffi::FI_MR_LOCAL != 0 {
            let access = match descriptor.direction {
                Direction::Get => ffi::FI_READ,
                Direction::Put => ffi::FI_WRITE,
            };
            let at = std::ptr::with_exposed_provenance_mut::<u8>(descriptor.local);
            registration = Some(inner.register_random((at, descriptor.len), access)?);
        }
        inner.resolve(&link);
        inner.check_alive(&link)?;
        link.count(Counter::BulkBytes, descriptor.len as u64);
        // SAFETY: whoever submits the transfer vouches for the local memory until its completion.
        let ticket = unsafe { inner.bulk.begin(&inner.endpoint, link, *descriptor, registration) };
        Ok(Completion::Pending(Ticket(ticket)))
    }

    /// Give a transfer up. Its memory is not touched after this.
    pub fn cancel(&self, ticket: Ticket) {
        let limit = Duration::from_millis(self.tunables.gone);
        let began = Instant::now();
        loop {
            let Some(link) = self.bulk.cancel(ticket.0) else {
                return;
            };
            // The provider cannot be made to forget an operation: it ends, or its peer does.
            if began.elapsed() > limit {
                self.give_up(&link, "a transfer with it could not be brought to an end");
                return;
            }
            if !self.progress() {
                std::thread::yield_now();
            }
        }
    }

    fn addresses_count(&self) -> bool {
        self.endpoint.mr_mode() & ffi::FI_MR_VIRT_ADDR != 0
    }
}

/// None: a provider's message has its own bounds and its own buffers.
impl farpost_fabric::ZeroCopy for Ofi {}

impl BulkTransfer for Ofi {
    fn can_transfer(&self, peer: Peer) -> bool {
        peer.0 < self.0.size && peer != self.0.me && self.0.known(peer).is_none_or(|link| !link.is_dead())
    }

    unsafe fn expose(&self, peer: Peer, address: usize, len: usize, writable: bool) -> Result<u64> {
        self.0.check_peer(peer)?;
        if len == 0 {
            return Ok(0);
        }
        self.0.expose((address, len), writable)
    }

    fn exposed_base(&self, _peer: Peer, address: usize) -> u64 {
        self.0.exposed_base(address)
    }

    fn withdraw(&self, key: u64) {
        self.0.bulk.withdraw(key);
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit(descriptor) }
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        self.0.bulk.poll(ticket.0)
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        self.0.cancel(ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_the_length_or_a_little_more() {
        let some = (0..=62).flat_map(|b| [(1usize << b) - 1, 1 << b, (1 << b) + 1, (1 << b) + (1 << b) / 3]);
        for len in some.chain(0..5000) {
            let told = full(brief(len));
            assert!(brief(len) < 1 << 16, "{len}");
            assert!(
                told >= len as u64 && told <= len as u64 + len as u64 / 1024 + 1,
                "{len}: {told}"
            );
        }
        assert_eq!(full(brief(32)), 32);
    }
}
