//! The bulk transfers that are not over, and the memory that is exposed to them (see `bulk.rs`).
//!
//! Cost class: *queued path*.

use super::calls::{Endpoint, Offered, Registration};
use super::ffi;
use super::link::Link;
use super::operations::{Operation, OperationKind, Pool};
use farpost_fabric::{Descriptor, Direction, FabricError, Result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

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

    /// Begin a transfer with `link`, whose address is known: its ticket. Local memory stays registered until its end.
    ///
    /// # Safety
    /// The local memory may be used as `what` says until the transfer is over.
    pub unsafe fn begin(
        &self,
        endpoint: &Endpoint,
        link: Rc<Link>,
        what: Descriptor,
        registration: Option<Registration>,
    ) -> u64 {
        let ticket = self.next.get() + 1;
        self.next.set(ticket);
        let mut transfer = Transfer {
            link,
            what,
            offered: 0,
            under_way: 0,
            error: None,
            registration,
        };
        let all = self.offer(endpoint, ticket, &mut transfer);
        self.transfers.borrow_mut().insert(ticket, transfer);
        if !all {
            self.blocked.borrow_mut().push_back(ticket);
        }
        ticket
    }

    /// Offer what waits. True: some was taken.
    pub fn flush(&self, endpoint: &Endpoint) -> bool {
        let waiting = std::mem::take(&mut *self.blocked.borrow_mut());
        let mut some = false;
        for ticket in waiting {
            let mut transfers = self.transfers.borrow_mut();
            let Some(transfer) = transfers.get_mut(&ticket) else {
                continue;
            };
            let before = transfer.offered;
            let done = self.offer(endpoint, ticket, transfer);
            some |= transfer.offered != before;
            if !done {
                self.blocked.borrow_mut().push_back(ticket);
            }
        }
        some
    }

    /// Hand on as much as the provider takes. False: not all.
    fn offer(&self, endpoint: &Endpoint, ticket: u64, transfer: &mut Transfer) -> bool {
        let Some(address) = transfer.link.address.get() else {
            return true;
        };
        let most = endpoint.attr.ep.max_msg_size;
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
            // SAFETY: whoever began the transfer vouched for the local memory until its completion.
            let offered = unsafe {
                match transfer.what.direction {
                    Direction::Get => endpoint.read((local, len), desc, there, it.context()),
                    Direction::Put => endpoint.write((local, len), desc, there, it.context()),
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
                        endpoint.library().explain(code),
                    ));
                }
            }
        }
        true
    }

    /// An operation of a transfer ended.
    pub fn completed(&self, provider: &str, operation: NonNull<Operation>, failed: Option<(i32, String)>) {
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
            FabricError::put_failed(peer, format!("{provider} broke a transfer off: {why}"))
        });
    }

    /// Nothing more will be offered to the peer.
    pub fn peer_died(&self, link: &Rc<Link>, why: &str) {
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

    /// Whether a transfer is over; its error, once.
    pub fn poll(&self, ticket: u64) -> Result<bool> {
        let mut transfers = self.transfers.borrow_mut();
        match transfers.get(&ticket) {
            Some(transfer) if transfer.over() => {}
            Some(_) => return Ok(false),
            None => return Ok(true),
        }
        let transfer = transfers.remove(&ticket).expect("just seen");
        transfer.error.map_or(Ok(true), Err)
    }

    /// Offer no more of a transfer, and forget it if the provider has nothing of it. Else the peer whose operations must end first.
    pub fn cancel(&self, ticket: u64) -> Option<Rc<Link>> {
        let mut transfers = self.transfers.borrow_mut();
        let transfer = transfers.get_mut(&ticket)?;
        transfer.offered = transfer.what.len;
        if transfer.under_way == 0 {
            transfers.remove(&ticket);
            return None;
        }
        Some(Rc::clone(&transfer.link))
    }

    /// Make memory, an address and a length, reachable by `register`, or once more: the key.
    pub fn expose(
        &self,
        at: (usize, usize),
        writable: bool,
        register: impl FnOnce() -> Result<Registration>,
    ) -> Result<u64> {
        let mut readable = self.readable.borrow_mut();
        let mut exposed = self.exposed.borrow_mut();
        // While it is exposed it may not be unmapped, so that a registration of it is good.
        if let Some(key) = readable.get(&at).filter(|_| !writable)
            && let Some(same) = exposed.get_mut(key)
        {
            same.times += 1;
            return Ok(*key);
        }
        let registration = register()?;
        let key = registration.key().wrapping_add(1);
        if !writable {
            readable.insert(at, key);
        }
        exposed.insert(
            key,
            Exposed {
                _registration: registration,
                at,
                times: 1,
            },
        );
        Ok(key)
    }

    /// Undo one [`expose`](Self::expose).
    pub fn withdraw(&self, key: u64) {
        let mut exposed = self.exposed.borrow_mut();
        let Some(one) = exposed.get_mut(&key) else { return };
        one.times -= 1;
        if one.times == 0 {
            let at = one.at;
            let mut readable = self.readable.borrow_mut();
            if readable.get(&at) == Some(&key) {
                readable.remove(&at);
            }
            exposed.remove(&key);
        }
    }

    /// Withdraw everything.
    pub fn withdraw_all(&self) {
        self.readable.borrow_mut().clear();
        self.exposed.borrow_mut().clear();
    }
}
