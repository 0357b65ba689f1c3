//! Segments: published in the region's table, passed through `/proc/<pid>/fd`.

use super::{Shm, file_identity, region};
use farpost_fabric::publish::View;
use farpost_fabric::sync::{AtomicU64, Ordering};
use farpost_fabric::{Access, FabricError, Grant, Peer, Permission, RemoteMemory, Result, SegmentId};
use farpost_mapped::Mapping;
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

    fn allocate(&self, len: usize) -> Result<Mapping> {
        let memory = Mapping::shared(len)?;
        if farpost_fabric::LocalMemory::len(&memory) as u64 >= self.tunables.huge_from {
            memory.prefer_huge_pages();
        }
        Ok(memory)
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        let mut mine = self.segments.0.borrow_mut();
        if mine.contains_key(&id.0) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let table = &self.process(Peer(self.index)).segments;
        let slot = table
            .iter()
            .position(|entry| !entry.shown.is_shown())
            .ok_or_else(|| {
                FabricError::unsupported(
                    Peer(self.index),
                    "another published segment",
                    format!("the table holds {}", region::SEGMENTS),
                )
            })?;
        let file = memory.clone_file()?;
        let code = self.encode_access(slot, &access)?;
        let (device, inode) = file_identity(&file)?;
        let entry = &table[slot];
        entry.fd.store(file.as_raw_fd() as u32, Ordering::Relaxed);
        entry
            .len
            .store(farpost_fabric::LocalMemory::len(memory) as u64, Ordering::Relaxed);
        entry.device.store(device, Ordering::Relaxed);
        entry.inode.store(inode, Ordering::Relaxed);
        entry.access.store(code, Ordering::Relaxed);
        entry.shown.show(id.0);
        mine.insert(id.0, (slot, file));
        memory.replace_given(true);
        Ok(())
    }

    /// Who looks meanwhile finds no such segment.
    fn republish(&self, id: SegmentId, _memory: &Mapping, access: Access) -> Result<()> {
        let mine = self.segments.0.borrow();
        let &(slot, _) = mine
            .get(&id.0)
            .ok_or(FabricError::not_published(Peer(self.index), id))?;
        access.check(self.size)?;
        let entry = &self.process(Peer(self.index)).segments[slot];
        entry.shown.hide();
        let code = self.encode_access(slot, &access)?;
        entry.access.store(code, Ordering::Relaxed);
        entry.shown.show(id.0);
        Ok(())
    }

    fn detach(&self, memory: &Mapping) -> Result<()> {
        memory.renew()
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    fn give_back(&self, _peer: Peer, memory: &Mapping, range: std::ops::Range<usize>) {
        memory.give_back(range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let (slot, _file) = self
            .segments
            .0
            .borrow_mut()
            .remove(&id.0)
            .ok_or(FabricError::not_published(Peer(self.index), id))?;
        self.process(Peer(self.index)).segments[slot].shown.hide();
        Ok(())
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Mapping> {
        self.check_peer(peer)?;
        let life = self.life(peer);
        let pid = life.pid;
        if pid == region::GONE {
            return Err(FabricError::dead(peer, "it has left the job"));
        }
        let gone = FabricError::NotPublished { peer, id: id.0 };
        let Some((slot, seen)) = self.find(peer, id) else {
            return Err(gone);
        };
        let granted = self.granted(peer, slot, seen.access);
        // What was read belongs together only if the entry was this segment's all the time.
        if pid == 0 || !self.is_still(peer, slot, &seen) {
            return Err(gone);
        }
        let granted = granted?;
        let grant = Grant::new((peer, id), seen.len as usize, granted, (permission, 0))?;
        let file = OpenOptions::new()
            .read(true)
            .write(permission == Permission::ReadWrite)
            // Whatever a wrong descriptor number leads to: do not wait for it, do not let it own us.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{}", seen.fd))
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ENOENT | libc::ESRCH) if super::process_handles::has_ended(life) => {
                    FabricError::dead(peer, format!("its process {pid} has ended"))
                }
                // Withdrawn just now.
                Some(libc::ENOENT) if !self.is_still(peer, slot, &seen) => gone,
                Some(libc::ENOENT | libc::ENXIO) => {
                    FabricError::corrupt(peer, "a segment's descriptor", seen.fd)
                }
                _ => FabricError::os_error("open a peer's segment", &error),
            })?;
        // Withdrawn just now, and its descriptor's number is another file's.
        let verified = verify(peer, &seen, &file);
        if verified.is_err() && !self.is_still(peer, slot, &seen) {
            return Err(FabricError::NotPublished { peer, id: id.0 });
        }
        verified?;
        grant.check(0, len)?;
        Mapping::of_segment(file.as_fd(), 0, grant.len, permission, grant.owner)
    }

    fn common(&self, peer: Peer) -> Option<Mapping> {
        self.check_peer(peer).ok()?;
        let at = region::process_offset(peer.0, self.size) + std::mem::offset_of!(region::Process, common);
        Some(self.region.slice(at, farpost_fabric::COMMON_BYTES))
    }

    #[inline]
    fn mapped(import: &Mapping) -> Option<&Mapping> {
        Some(import)
    }
}

/// A table entry as read once. Nothing is read twice: the second time it might be something else.
#[derive(Clone, Copy)]
struct SegmentSnapshot {
    view: View,
    fd: u32,
    len: u64,
    device: u64,
    inode: u64,
    access: u32,
}

impl Shm {
    /// The table entry of a segment.
    fn find(&self, peer: Peer, id: SegmentId) -> Option<(usize, SegmentSnapshot)> {
        let table = &self.process(peer).segments;
        let (slot, view) = table.iter().enumerate().find_map(|(slot, entry)| {
            let view = entry.shown.view().filter(|view| view.key() == id.0)?;
            Some((slot, view))
        })?;
        let entry = &table[slot];
        let seen = SegmentSnapshot {
            view,
            fd: entry.fd.load(Ordering::Relaxed),
            len: entry.len.load(Ordering::Relaxed),
            device: entry.device.load(Ordering::Relaxed),
            inode: entry.inode.load(Ordering::Relaxed),
            access: entry.access.load(Ordering::Relaxed),
        };
        Some((slot, seen))
    }

    /// Whether what was read of a table entry belongs together, and is so still.
    fn is_still(&self, peer: Peer, slot: usize, seen: &SegmentSnapshot) -> bool {
        self.process(peer).segments[slot].shown.still(seen.view)
    }

    fn list_word(&self, owner: Peer, slot: usize, word: usize) -> &AtomicU64 {
        let list = region::list_offset(owner.0, slot, self.size);
        self.region.word(list + 8 * word)
    }

    /// Write the list of segment `slot`, if there is one, and say what the table's entry must say.
    fn encode_access(&self, slot: usize, access: &Access) -> Result<u32> {
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
    fn granted(&self, peer: Peer, slot: usize, access: u32) -> Result<Option<Permission>> {
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
            other => Err(FabricError::corrupt(peer, "a segment's access", other)),
        }
    }
}

fn code(permission: Permission) -> u32 {
    match permission {
        Permission::Read => region::access::READ,
        Permission::ReadWrite => region::access::READ_WRITE,
    }
}

/// The file is the one that was published, belongs to this user, and cannot shrink under us.
fn verify(peer: Peer, seen: &SegmentSnapshot, file: &File) -> Result<()> {
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
            return Err(FabricError::corrupt(peer, what, value));
        }
    }
    Ok(())
}
