//! Segments: published in the region's table, passed through `/proc/<pid>/fd`.

use super::mapping::Mapping;
use super::{Shm, file_identity, region};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::{Access, FabricError, Peer, Permission, RemoteMemory, SegmentId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// The segments this process has published: table slot and file, kept open for importers.
#[derive(Default)]
pub struct Segments(RefCell<BTreeMap<u32, (usize, OwnedFd)>>);

impl RemoteMemory for Shm {
    const MAPPED: bool = true;
    type Export = Mapping;
    type Import = Mapping;

    fn export(&self, id: SegmentId, len: usize, access: Access) -> Result<Mapping, FabricError> {
        if self.segments.0.borrow().contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let memory = self.allocate(len)?;
        self.publish(id, &memory, access)?;
        Ok(memory)
    }

    fn allocate(&self, len: usize) -> Result<Mapping, FabricError> {
        let memory = Mapping::shared(len)?;
        if crate::LocalMemory::len(&memory) as u64 >= self.tunables.huge_from {
            memory.prefer_huge_pages();
        }
        Ok(memory)
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<(), FabricError> {
        let mut mine = self.segments.0.borrow_mut();
        if mine.contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let table = &self.process(Peer(self.index)).segments;
        let slot = table
            .iter()
            .position(|entry| entry.id_plus_one.load(Ordering::Relaxed) == 0)
            .ok_or_else(|| FabricError::Unsupported {
                peer: Peer(self.index),
                what: "another published segment",
                why: format!("the table holds {}", region::SEGMENTS),
            })?;
        let file = memory.clone_file()?;
        let code = self.encode_access(slot, &access)?;
        let (device, inode) = file_identity(&file)?;
        let entry = &table[slot];
        entry.fd.store(file.as_raw_fd() as u32, Ordering::Relaxed);
        entry
            .len
            .store(crate::LocalMemory::len(memory) as u64, Ordering::Relaxed);
        entry.device.store(device, Ordering::Relaxed);
        entry.inode.store(inode, Ordering::Relaxed);
        entry.access.store(code, Ordering::Relaxed);
        entry.id_plus_one.store(u64::from(id.0) + 1, Ordering::Release);
        mine.insert(id.0, (slot, file));
        memory.replace_given(true);
        Ok(())
    }

    /// Who looks meanwhile finds no such segment.
    fn republish(&self, id: SegmentId, _memory: &Mapping, access: Access) -> Result<(), FabricError> {
        let mine = self.segments.0.borrow();
        let &(slot, _) = mine.get(&id.0).ok_or(FabricError::NotPublished {
            peer: Peer(self.index),
            id: id.0,
        })?;
        if let Access::Only(list) = &access {
            list.iter().try_for_each(|(peer, _)| self.check_peer(*peer))?;
        }
        let entry = &self.process(Peer(self.index)).segments[slot];
        entry.id_plus_one.store(0, Ordering::Release);
        fence(Ordering::AcqRel);
        entry
            .access
            .store(self.encode_access(slot, &access)?, Ordering::Relaxed);
        entry.id_plus_one.store(u64::from(id.0) + 1, Ordering::Release);
        Ok(())
    }

    fn detach(&self, memory: &Mapping) -> Result<(), FabricError> {
        memory.renew()
    }

    unsafe fn overlay(&self, memory: &Mapping, address: usize) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        unsafe { memory.overlay(address) }
    }

    unsafe fn uncover(&self, memory: &Mapping) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        unsafe { memory.uncover() }
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
        let pid = self.process(peer).identity.pid.load(Ordering::Acquire);
        if pid == region::GONE {
            return Err(FabricError::PeerDead {
                peer,
                why: "it has left the job".into(),
            });
        }
        let gone = FabricError::NotPublished { peer, id: id.0 };
        let Some((slot, seen)) = self.find(peer, id) else {
            return Err(gone);
        };
        let granted = self.granted(peer, slot, seen.access)?;
        if granted.is_none() || granted == Some(Permission::Read) && permission == Permission::ReadWrite {
            return Err(FabricError::Denied { peer, id: id.0 });
        }
        // What was read belongs together only if the entry was this segment's all the time.
        fence(Ordering::Acquire);
        if pid == 0 || self.find(peer, id) != Some((slot, seen)) {
            return Err(gone);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(permission == Permission::ReadWrite)
            // Whatever a wrong descriptor number leads to: do not wait for it, do not let it own us.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{}", seen.fd))
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ENOENT | libc::ESRCH) if has_ended(pid) => FabricError::PeerDead {
                    peer,
                    why: format!("its process {pid} has ended"),
                },
                // Withdrawn just now.
                Some(libc::ENOENT) if self.find(peer, id) != Some((slot, seen)) => gone,
                Some(libc::ENOENT | libc::ENXIO) => FabricError::Corrupt {
                    peer,
                    what: "a segment's descriptor",
                    value: u64::from(seen.fd),
                },
                _ => FabricError::os_error("open a peer's segment", &error),
            })?;
        verify(peer, &seen, &file)?;
        if len as u64 > seen.len {
            return Err(FabricError::OutOfRange {
                offset: 0,
                end: len,
                len: seen.len as usize,
            });
        }
        Mapping::of_segment(file.as_fd(), 0, seen.len as usize, permission, (peer, id))
    }

    fn common(&self, peer: Peer) -> Option<Mapping> {
        self.check_peer(peer).ok()?;
        let at = region::process_offset(peer.0, self.size) + std::mem::offset_of!(region::Process, common);
        Some(self.region.slice(at, crate::COMMON_BYTES))
    }

    #[inline]
    fn mapped(import: &Mapping) -> Option<&Mapping> {
        Some(import)
    }
}

/// A table entry as read once. Nothing is read twice: the second time it might be something else.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    fd: u32,
    len: u64,
    device: u64,
    inode: u64,
    access: u32,
}

impl Shm {
    /// The table entry of a segment.
    fn find(&self, peer: Peer, id: SegmentId) -> Option<(usize, Seen)> {
        let table = &self.process(peer).segments;
        let wanted = u64::from(id.0) + 1;
        let slot = table
            .iter()
            .position(|entry| entry.id_plus_one.load(Ordering::Acquire) == wanted)?;
        let entry = &table[slot];
        let seen = Seen {
            fd: entry.fd.load(Ordering::Relaxed),
            len: entry.len.load(Ordering::Relaxed),
            device: entry.device.load(Ordering::Relaxed),
            inode: entry.inode.load(Ordering::Relaxed),
            access: entry.access.load(Ordering::Relaxed),
        };
        Some((slot, seen))
    }

    fn list_word(&self, owner: Peer, slot: usize, word: usize) -> &AtomicU64 {
        let list = region::list_offset(owner.0, slot, self.size);
        self.region.word(list + 8 * word)
    }

    /// Write the list of segment `slot`, if there is one, and say what the table's entry must say.
    fn encode_access(&self, slot: usize, access: &Access) -> Result<u32, FabricError> {
        let list = match access {
            Access::Everyone(permission) => return Ok(code(*permission)),
            Access::Only(list) => list,
        };
        let mut words = vec![0u64; region::list_words(self.size)];
        // From the back, so that of two entries for a peer the first counts, as in `Access::of`.
        for (peer, permission) in list.iter().rev() {
            self.check_peer(*peer)?;
            let shift = peer.0 % region::LISTED_PER_WORD * 2;
            let word = &mut words[(peer.0 / region::LISTED_PER_WORD) as usize];
            *word = *word & !(3 << shift) | u64::from(code(*permission)) << shift;
        }
        for (i, word) in words.into_iter().enumerate() {
            let to = self.list_word(Peer(self.index), slot, i);
            to.store(word, Ordering::Relaxed);
        }
        Ok(region::access::LISTED)
    }

    /// What `peer` lets us do with its segment `slot`.
    fn granted(&self, peer: Peer, slot: usize, access: u32) -> Result<Option<Permission>, FabricError> {
        let code = if access == region::access::LISTED {
            let word = self.list_word(peer, slot, (self.index / region::LISTED_PER_WORD) as usize);
            let bits = word.load(Ordering::Relaxed) >> (self.index % region::LISTED_PER_WORD * 2);
            bits as u32 & 3
        } else {
            access
        };
        match code {
            region::access::NOBODY => Ok(None),
            region::access::READ => Ok(Some(Permission::Read)),
            region::access::READ_WRITE => Ok(Some(Permission::ReadWrite)),
            other => Err(FabricError::Corrupt {
                peer,
                what: "a segment's access",
                value: u64::from(other),
            }),
        }
    }
}

fn code(permission: Permission) -> u32 {
    match permission {
        Permission::Read => region::access::READ,
        Permission::ReadWrite => region::access::READ_WRITE,
    }
}

/// Whether a process is gone, or dead and not yet waited for.
pub(super) fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => says_ended(&stat),
        // ESRCH: it went while we were reading. Anything else (no descriptors left) says nothing of it.
        Err(error) => matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)),
    }
}

/// What the text of /proc/<pid>/stat says. A process whose first thread has ended shows as a zombie too, while
/// its other threads go on.
fn says_ended(stat: &str) -> bool {
    // The fields follow the name, which is in parentheses and may contain any: the state, and 17 later the
    // number of threads (proc(5)).
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let dead = fields.next().is_some_and(|state| ["Z", "X"].contains(&state));
    dead && fields.nth(16).is_none_or(|threads| ["0", "1"].contains(&threads))
}

/// The file is the one that was published, belongs to this user, and cannot shrink under us.
fn verify(peer: Peer, seen: &Seen, file: &File) -> Result<(), FabricError> {
    let about = file
        .metadata()
        .map_err(|e| FabricError::os_error("inspect a peer's segment", &e))?;
    // SAFETY: plain calls on a descriptor that is open.
    let (seals, uid) = unsafe { (libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS), libc::getuid()) };
    let kept = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    let seals = seals.max(0) as u64 & kept as u64;
    let checks = [
        ("a segment's device", about.dev(), seen.device),
        ("a segment's inode", about.ino(), seen.inode),
        ("a segment's size", about.len(), seen.len),
        ("a segment's owner", u64::from(about.uid()), u64::from(uid)),
        ("a segment's seals", seals, kept as u64),
    ];
    for (what, value, wanted) in checks {
        if value != wanted {
            return Err(FabricError::Corrupt { peer, what, value });
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended() {
        assert!(!has_ended(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // Not waited for: it may be dead or not, and is afterwards.
        has_ended(child.id());
        child.wait().unwrap();
        assert!(has_ended(child.id()));
        let stat = |state, threads| {
            format!("7 (a) b (c) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0\n")
        };
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert!(!says_ended(&stat(state, 1)), "{state}");
        }
        assert!(says_ended(&stat("Z", 1)));
        assert!(says_ended(&stat("X", 0)));
        // The first thread has ended, two others go on.
        assert!(!says_ended(&stat("Z", 3)));
        assert!(!says_ended(""));
    }
}
