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
use super::calls::{Endpoint, Offered, Registration};
use super::core::Inner;
use super::ffi;
use super::link::Link;
use super::operations::{Operation, OperationKind, Pool};
use super::token;
use farpost_fabric::{
    BulkTransfer, Completion, Counter, Descriptor, Direction, FabricError, Peer, Result, Ticket,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;
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

/// A transfer that is not over.
struct Transfer {
    link: Rc<Link>,
    what: Descriptor,
    /// Bytes handed to the provider.
    offered: usize,
    /// Operations that the provider has.
    under_way: u32,
    error: Option<FabricError>,
    registration: Option<Registration>,
}

impl Transfer {
    fn over(&self) -> bool {
        self.under_way == 0 && (self.error.is_some() || self.offered == self.what.len)
    }
}

/// All transfers, and what is exposed.
pub struct Bulk {
    operations: Pool,
    next: Cell<u64>,
    transfers: RefCell<BTreeMap<u64, Transfer>>,
    /// Those with bytes not yet offered.
    blocked: RefCell<VecDeque<u64>>,
    exposed: RefCell<BTreeMap<u64, Exposed>>,
    /// Keys of what is exposed for reading, by address and length.
    readable: RefCell<BTreeMap<(usize, usize), u64>>,
}

/// Memory that peers may reach.
struct Exposed {
    _registration: Registration,
    at: (usize, usize),
    /// How often it was exposed and not withdrawn.
    times: u32,
}

impl Bulk {
    pub fn new(endpoint: &Rc<Endpoint>) -> Self {
        Self {
            operations: Pool::new(endpoint, 0, 64),
            next: Cell::new(0),
            transfers: RefCell::default(),
            blocked: RefCell::default(),
            exposed: RefCell::default(),
            readable: RefCell::default(),
        }
    }

    /// Whether something waits for room.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.borrow().is_empty()
    }

    /// Whether a transfer with the peer is not over.
    pub fn waits_for(&self, link: &Rc<Link>) -> bool {
        self.transfers
            .borrow()
            .values()
            .any(|t| !t.over() && Rc::ptr_eq(&t.link, link))
    }

    /// Offer what waits. True: some was taken.
    pub fn flush(&self, inner: &Inner) -> bool {
        let waiting = std::mem::take(&mut *self.blocked.borrow_mut());
        let mut some = false;
        for ticket in waiting {
            let mut transfers = self.transfers.borrow_mut();
            let Some(transfer) = transfers.get_mut(&ticket) else {
                continue;
            };
            let before = transfer.offered;
            let done = self.offer(inner, ticket, transfer);
            some |= transfer.offered != before;
            if !done {
                self.blocked.borrow_mut().push_back(ticket);
            }
        }
        some
    }

    /// Hand on as much as the provider takes. False: not all.
    fn offer(&self, inner: &Inner, ticket: u64, transfer: &mut Transfer) -> bool {
        let Some(address) = inner.resolve(&transfer.link) else {
            return true;
        };
        let most = inner.endpoint.attr.ep.max_msg_size;
        let desc = transfer
            .registration
            .as_ref()
            .map_or(std::ptr::null_mut::<c_void>(), Registration::desc);
        while transfer.offered < transfer.what.len && transfer.error.is_none() {
            let len = (transfer.what.len - transfer.offered).min(most);
            let operation = self.operations.take(OperationKind::Bulk, transfer.link.peer);
            // SAFETY: operations live as long as their pool; this one is ours.
            let it = unsafe { operation.as_ref() };
            it.ticket.set(ticket);
            let local = std::ptr::with_exposed_provenance_mut::<u8>(transfer.what.local + transfer.offered);
            let remote = (transfer.what.remote as u64).wrapping_add(transfer.offered as u64);
            let there = (address, remote, transfer.what.key.wrapping_sub(1));
            // SAFETY: whoever submitted the transfer vouched for the local memory until its completion.
            let offered = unsafe {
                match transfer.what.direction {
                    Direction::Get => inner.endpoint.read((local, len), desc, there, it.context()),
                    Direction::Put => inner.endpoint.write((local, len), desc, there, it.context()),
                }
            };
            match offered {
                Offered::Taken => {
                    transfer.offered += len;
                    transfer.under_way += 1;
                }
                Offered::Again => {
                    self.operations.give(operation);
                    return false;
                }
                Offered::Failed(code) => {
                    self.operations.give(operation);
                    transfer.error = Some(FabricError::unsupported(
                        transfer.link.peer,
                        "a transfer",
                        inner.endpoint.library().explain(code),
                    ));
                }
            }
        }
        true
    }

    /// An operation of a transfer ended.
    pub fn completed(&self, inner: &Inner, operation: NonNull<Operation>, failed: Option<(i32, String)>) {
        // SAFETY: as in `offer`.
        let ticket = unsafe { operation.as_ref() }.ticket.get();
        self.operations.give(operation);
        let mut transfers = self.transfers.borrow_mut();
        let Some(transfer) = transfers.get_mut(&ticket) else {
            return;
        };
        transfer.under_way -= 1;
        transfer.link.heard.set(true);
        let Some((error, why)) = failed else { return };
        let peer = transfer.link.peer;
        let refused = [
            libc::EACCES,
            libc::EINVAL,
            libc::EPERM,
            libc::EKEYREJECTED,
            ffi::FI_ENOKEY,
        ];
        transfer.error.get_or_insert(if refused.contains(&error) {
            FabricError::corrupt(peer, "a key or a position of exposed memory", transfer.what.key)
        } else {
            FabricError::put_failed(
                peer,
                format!("{} broke a transfer off: {why}", inner.card.provider),
            )
        });
    }

    /// Nothing more will be offered to the peer.
    pub fn peer_died(&self, _inner: &Inner, link: &Rc<Link>, why: &str) {
        let Ok(mut transfers) = self.transfers.try_borrow_mut() else {
            return;
        };
        for transfer in transfers
            .values_mut()
            .filter(|t| Rc::ptr_eq(&t.link, link) && !t.over())
        {
            transfer.error.get_or_insert(FabricError::dead(link.peer, why));
        }
    }
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
        let bulk = &self.bulk;
        let mut readable = bulk.readable.borrow_mut();
        let mut exposed = bulk.exposed.borrow_mut();
        // While it is exposed it may not be unmapped, so that a registration of it is good.
        if let Some(key) = readable.get(&(address, len)).filter(|_| !writable)
            && let Some(same) = exposed.get_mut(key)
        {
            same.times += 1;
            return Ok(*key);
        }
        let registration = self.register_random((at, len), access)?;
        let key = registration.key().wrapping_add(1);
        if !writable {
            readable.insert((address, len), key);
        }
        exposed.insert(
            key,
            Exposed {
                _registration: registration,
                at: (address, len),
                times: 1,
            },
        );
        Ok(key)
    }

    /// Undo one [`expose`](Self::expose).
    pub fn withdraw(&self, key: u64) {
        let bulk = &self.bulk;
        let mut exposed = bulk.exposed.borrow_mut();
        let Some(one) = exposed.get_mut(&key) else { return };
        one.times -= 1;
        if one.times == 0 {
            let at = one.at;
            let mut readable = bulk.readable.borrow_mut();
            if readable.get(&at) == Some(&key) {
                readable.remove(&at);
            }
            exposed.remove(&key);
        }
    }

    /// Withdraw everything.
    pub fn withdraw_all(&self) {
        self.bulk.readable.borrow_mut().clear();
        self.bulk.exposed.borrow_mut().clear();
    }

    /// What a peer is told as the position of the first byte exposed at `address`.
    pub fn exposed_base(&self, address: usize) -> u64 {
        if self.addresses_count() { address as u64 } else { 0 }
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
        self.0.withdraw(key);
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        let inner = &self.0;
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
        let bulk = &inner.bulk;
        let ticket = bulk.next.get() + 1;
        bulk.next.set(ticket);
        let mut transfer = Transfer {
            link,
            what: *descriptor,
            offered: 0,
            under_way: 0,
            error: None,
            registration,
        };
        let all = bulk.offer(inner, ticket, &mut transfer);
        inner.check_alive(&transfer.link)?;
        transfer.link.count(Counter::BulkBytes, descriptor.len as u64);
        bulk.transfers.borrow_mut().insert(ticket, transfer);
        if !all {
            bulk.blocked.borrow_mut().push_back(ticket);
        }
        Ok(Completion::Pending(Ticket(ticket)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        let mut transfers = self.0.bulk.transfers.borrow_mut();
        match transfers.get(&ticket.0) {
            Some(transfer) if transfer.over() => {}
            Some(_) => return Ok(false),
            None => return Ok(true),
        }
        let transfer = transfers.remove(&ticket.0).expect("just seen");
        transfer.error.map_or(Ok(true), Err)
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        let inner = &self.0;
        let limit = Duration::from_millis(inner.tunables.gone);
        let began = Instant::now();
        loop {
            let mut transfers = inner.bulk.transfers.borrow_mut();
            let Some(transfer) = transfers.get_mut(&ticket.0) else {
                return;
            };
            transfer.offered = transfer.what.len;
            if transfer.under_way == 0 {
                transfers.remove(&ticket.0);
                return;
            }
            // The provider cannot be made to forget an operation: it ends, or its peer does.
            if began.elapsed() > limit {
                let link = Rc::clone(&transfer.link);
                drop(transfers);
                inner.give_up(&link, "a transfer with it could not be brought to an end");
                return;
            }
            drop(transfers);
            if !inner.progress() {
                std::thread::yield_now();
            }
        }
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
