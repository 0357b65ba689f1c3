//! Exposed memory, and the bulk transfers that this process began.

use crate::link::Refusal;
use farpost_fabric::{Peer, TransferMemory};
use std::collections::{BTreeMap, HashMap};

pub struct ExposedMemory {
    pub peer: Peer,
    pub address: usize,
    pub len: usize,
    pub writable: bool,
    /// The rails by which it goes out, a bit each.
    pub rails: u32,
}

/// Why a transfer of mine ended early.
#[derive(Clone, Copy)]
pub enum TransferError {
    /// The peer refused; the position asked for.
    Refused(u64),
    /// The peer is gone.
    Gone,
}

pub enum TransferStatus {
    Pending,
    Done,
    Failed(TransferError),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TransferPurpose {
    /// A get of the user's.
    Get,
    /// A put of the user's: the peer gets from what is exposed under this key.
    Put(u64),
    /// A put to a segment, of which [`Transfers::striped`] has a copy: the peer gets it over all rails.
    Striped { key: u64, handle: u32 },
    /// A put of the peer's, of that token, into what is exposed under this key.
    Serve { token: u64, key: u64 },
}

/// A transfer that I began.
pub struct OwnTransfer {
    pub peer: Peer,
    pub purpose: TransferPurpose,
    pub remote: u64,
    pub status: TransferStatus,
}

#[derive(Default)]
pub struct Transfers {
    /// A generation and what is exposed under it.
    exposed: Vec<(u32, Option<ExposedMemory>)>,
    free: Vec<u32>,
    pub ours: HashMap<u64, OwnTransfer>,
    /// What is put over several rails, by peer and token, until the peer has it.
    pub striped: BTreeMap<(Peer, u64), Box<[u8]>>,
    /// Bytes of it.
    pub striped_bytes: usize,
    /// What puts and gets under way read and write, by token.
    pub memory: HashMap<u64, TransferMemory>,
    pub next_token: u64,
}

impl Transfers {
    pub fn begin(&mut self, peer: Peer, purpose: TransferPurpose, remote: u64) -> u64 {
        self.next_token += 1;
        let ours = OwnTransfer {
            peer,
            purpose,
            remote,
            status: TransferStatus::Pending,
        };
        self.ours.insert(self.next_token, ours);
        self.next_token
    }

    /// What the transfer of that token is for.
    pub fn purpose(&self, token: u64) -> Option<TransferPurpose> {
        self.ours.get(&token).map(|ours| ours.purpose)
    }

    /// Whether a transfer of mine is over; then it is forgotten.
    pub fn poll(&mut self, token: u64) -> Result<bool, TransferError> {
        let over = match self.ours.get(&token).map(|ours| &ours.status) {
            Some(TransferStatus::Pending) => return Ok(false),
            Some(TransferStatus::Done) | None => Ok(true),
            Some(TransferStatus::Failed(why)) => Err(*why),
        };
        if let Some(OwnTransfer {
            purpose: TransferPurpose::Put(key),
            ..
        }) = self.ours.remove(&token)
        {
            self.withdraw(key);
        }
        over
    }

    pub fn expose(&mut self, exposed: ExposedMemory) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.exposed.push((0, None));
            self.exposed.len() as u32 - 1
        });
        let slot = &mut self.exposed[index as usize];
        // Keys of this index come again after 2^31 exposures only; the top bit says that it is a segment.
        slot.0 = (slot.0 + 1) & 0x7fff_ffff;
        slot.1 = Some(exposed);
        u64::from(slot.0) << 32 | u64::from(index)
    }

    pub fn withdraw(&mut self, key: u64) -> Option<ExposedMemory> {
        let index = key as u32;
        let slot = self.exposed.get_mut(index as usize)?;
        if u64::from(slot.0) != key >> 32 {
            return None;
        }
        let exposed = slot.1.take()?;
        self.free.push(index);
        Some(exposed)
    }

    /// The rails by which what is exposed under `key` goes out.
    pub fn rails_of(&self, key: u64) -> u32 {
        let slot = self.exposed.get((key & 0xffff_ffff) as usize);
        let exposed = slot.and_then(|slot| slot.1.as_ref());
        exposed.map_or(crate::link::ALL_RAILS, |exposed| exposed.rails)
    }

    /// The memory that `peer` may use under `key`.
    pub fn exposed(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        len: u64,
        write: bool,
    ) -> Result<usize, Refusal> {
        let slot = self.exposed.get((key & 0xffff_ffff) as usize);
        let exposed = slot
            .filter(|slot| u64::from(slot.0) == key >> 32)
            .and_then(|slot| slot.1.as_ref());
        let exposed = exposed.filter(|exposed| exposed.peer == peer && (exposed.writable || !write));
        let exposed = exposed.ok_or(Refusal::NoSuchKey)?;
        match (usize::try_from(offset), usize::try_from(len)) {
            (Ok(offset), Ok(len)) if offset <= exposed.len && len <= exposed.len - offset => {
                Ok(exposed.address + offset)
            }
            _ => Err(Refusal::OutOfRange),
        }
    }

    /// Nothing more comes from `peer` or goes to it.
    pub fn peer_gone(&mut self, peer: Peer) {
        self.ours.retain(|_, ours| {
            if ours.peer == peer && matches!(ours.status, TransferStatus::Pending) {
                ours.status = TransferStatus::Failed(TransferError::Gone);
                // Nobody asks for these.
                return !matches!(
                    ours.purpose,
                    TransferPurpose::Serve { .. } | TransferPurpose::Striped { .. }
                );
            }
            true
        });
    }
}
