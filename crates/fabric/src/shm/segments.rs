//! Segments: published in the region's table, passed through `/proc/<pid>/fd`.

use super::mapping::{Mapping, sealed_memory};
use super::{Shm, region};
use crate::sync::Ordering;
use crate::{Access, FabricError, Peer, Permission, RemoteMemory, SegmentId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// The segments this process has published: table slot and file, kept open for importers.
#[derive(Default)]
pub struct Segments(RefCell<BTreeMap<u32, (usize, OwnedFd)>>);

impl RemoteMemory for Shm {
    const MAPPED: bool = true;
    type Export = Mapping;
    type Import = Mapping;

    fn export(&self, id: SegmentId, len: usize, access: Access) -> Result<Mapping, FabricError> {
        let mut mine = self.segments.0.borrow_mut();
        if mine.contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let table = &self.process(Peer(self.index)).segments;
        let slot = table
            .iter()
            .position(|entry| entry.id_plus_one.load(Ordering::Relaxed) == 0)
            .ok_or(FabricError::Unsupported {
                peer: Peer(self.index),
                what: "another published segment",
                why: format!("the table holds {}", region::SEGMENTS),
            })?;
        let len = len.next_multiple_of(region::PAGE);
        let file = sealed_memory(c"farpost-segment", len)?;
        let mapping = Mapping::new(file.as_fd(), 0, len, Permission::ReadWrite)?;
        if len as u64 >= self.tunables.huge_from {
            mapping.prefer_huge_pages();
        }
        let about = File::from(
            file.try_clone()
                .map_err(|e| FabricError::os_error("publish a segment", &e))?,
        )
        .metadata()
        .map_err(|e| FabricError::os_error("publish a segment", &e))?;
        let entry = &table[slot];
        entry.fd.store(file.as_raw_fd() as u32, Ordering::Relaxed);
        entry.len.store(len as u64, Ordering::Relaxed);
        entry.device.store(about.dev(), Ordering::Relaxed);
        entry.inode.store(about.ino(), Ordering::Relaxed);
        entry
            .access
            .store(encode_access(&access, self.size)?, Ordering::Relaxed);
        entry.id_plus_one.store(u64::from(id.0) + 1, Ordering::Release);
        mine.insert(id.0, (slot, file));
        Ok(mapping)
    }

    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        let (slot, _file) = self
            .segments
            .0
            .borrow_mut()
            .remove(&id.0)
            .ok_or(FabricError::NotPublished {
                peer: Peer(self.index),
                id: id.0,
            })?;
        let entry = &self.process(Peer(self.index)).segments[slot];
        entry.id_plus_one.store(0, Ordering::Release);
        Ok(())
    }

    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Mapping, FabricError> {
        self.check_peer(peer)?;
        let process = self.process(peer);
        let entry = process
            .segments
            .iter()
            .find(|entry| entry.id_plus_one.load(Ordering::Acquire) == u64::from(id.0) + 1)
            .ok_or(FabricError::NotPublished { peer, id: id.0 })?;
        if !admits(entry.access.load(Ordering::Relaxed), Peer(self.index), permission) {
            return Err(FabricError::Denied { peer, id: id.0 });
        }
        let published = entry.len.load(Ordering::Relaxed);
        if len as u64 > published {
            return Err(FabricError::OutOfRange {
                offset: 0,
                end: len,
                len: published as usize,
            });
        }
        let pid = process.identity.pid.load(Ordering::Acquire);
        let fd = entry.fd.load(Ordering::Relaxed);
        let file = OpenOptions::new()
            .read(true)
            .write(permission == Permission::ReadWrite)
            .open(format!("/proc/{pid}/fd/{fd}"))
            .map_err(|e| FabricError::os_error("open a peer's segment", &e))?;
        self.verify(peer, entry, &file)?;
        Mapping::new(file.as_fd(), 0, published as usize, permission)
    }

    #[inline]
    fn mapped(import: &Mapping) -> Option<&Mapping> {
        Some(import)
    }
}

impl Shm {
    /// The file is the one that was published, belongs to this user, and cannot shrink under us.
    fn verify(&self, peer: Peer, entry: &region::Published, file: &File) -> Result<(), FabricError> {
        let about = file
            .metadata()
            .map_err(|e| FabricError::os_error("inspect a peer's segment", &e))?;
        // SAFETY: plain calls on a descriptor that is open.
        let (seals, uid) = unsafe { (libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS), libc::getuid()) };
        let kept = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        let checks = [
            (
                "a segment's device",
                about.dev(),
                entry.device.load(Ordering::Relaxed),
            ),
            (
                "a segment's inode",
                about.ino(),
                entry.inode.load(Ordering::Relaxed),
            ),
            ("a segment's size", about.len(), entry.len.load(Ordering::Relaxed)),
            ("a segment's owner", u64::from(about.uid()), u64::from(uid)),
            (
                "a segment's seals",
                seals.max(0) as u64 & kept as u64,
                kept as u64,
            ),
        ];
        for (what, found, wanted) in checks {
            if found != wanted {
                return Err(FabricError::Corrupt {
                    peer,
                    what,
                    value: found,
                });
            }
        }
        Ok(())
    }
}

/// A segment's access in one word: 2 bits for everyone, or a bitmap of up to 14 listed peers is not enough
/// in general, so lists are kept as "one peer" (the common case) or refused.
fn encode_access(access: &Access, size: u32) -> Result<u32, FabricError> {
    let bit = |p: Permission| u32::from(p == Permission::ReadWrite);
    match access {
        Access::Everyone(permission) => Ok(bit(*permission)),
        Access::Only(list) => match list.as_slice() {
            [] => Ok(2),
            [(peer, permission)] if peer.0 < size.min(1 << 28) => Ok(4 | bit(*permission) | peer.0 << 3),
            _ => Err(FabricError::Unsupported {
                peer: list[0].0,
                what: "an access list of several processes",
                why: "the region's table has room for one".into(),
            }),
        },
    }
}

fn admits(word: u32, me: Peer, wanted: Permission) -> bool {
    let enough = wanted == Permission::Read || word & 1 == 1;
    match word & 6 {
        0 => enough,
        4 => word >> 3 == me.0 && enough,
        _ => false,
    }
}
