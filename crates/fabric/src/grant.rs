//! Who may do what with a segment, and where it ends: checks that every fabric makes.

use crate::{Access, FabricError, Peer, Permission, Result, SegmentId};

impl Permission {
    /// Whether who has this may do what needs `wanted`.
    #[inline]
    pub fn admits(self, wanted: Permission) -> bool {
        self == Permission::ReadWrite || wanted == Permission::Read
    }
}

impl Access {
    /// Whether `peer` may do what needs `wanted`.
    #[inline]
    pub fn admits(&self, peer: Peer, wanted: Permission) -> bool {
        self.of(peer).is_some_and(|granted| granted.admits(wanted))
    }

    /// Whether a job of `size` processes has all that are listed; else [`FabricError::NoSuchPeer`].
    pub fn check(&self, size: u32) -> Result<()> {
        match self {
            Access::Only(list) => list.iter().try_for_each(|(peer, _)| peer.check(size)),
            Access::Everyone(_) => Ok(()),
        }
    }
}

/// Whether `len` bytes from `offset` on lie in a segment of `limit` bytes; else [`FabricError::OutOfRange`].
#[inline]
pub fn check_range(offset: usize, len: usize, limit: usize) -> Result<()> {
    if offset > limit || len > limit - offset {
        return Err(FabricError::OutOfRange {
            offset,
            end: offset.saturating_add(len),
            len: limit,
        });
    }
    Ok(())
}

/// An `offset` of something that has to lie at a multiple of `to` bytes, such as a word or a line.
///
/// # Panics
/// When it does not.
#[inline(always)]
pub fn assert_aligned(offset: usize, to: usize) {
    assert!(
        offset.is_multiple_of(to),
        "offset {offset} is no multiple of {to}"
    );
}

/// What an importer of a segment has been given.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Whose segment, and which of its.
    pub owner: (Peer, SegmentId),
    /// Bytes.
    pub len: usize,
    /// What it may do.
    pub permission: Permission,
}

impl Grant {
    /// Of the segment of `owner`, which has `len` bytes and admits the importer with `granted`, to one who asks for the
    /// permission and the number of bytes that are `wanted`.
    ///
    /// # Errors
    /// [`FabricError::Denied`], or [`FabricError::OutOfRange`] when the segment is shorter.
    pub fn new(
        owner: (Peer, SegmentId),
        len: usize,
        granted: Option<Permission>,
        wanted: (Permission, usize),
    ) -> Result<Self> {
        let (permission, bytes) = wanted;
        if !granted.is_some_and(|granted| granted.admits(permission)) {
            return Err(denied(owner));
        }
        check_range(0, bytes, len)?;
        Ok(Self {
            owner,
            len,
            permission,
        })
    }

    /// Whether these bytes may be read.
    #[inline]
    pub fn check(&self, offset: usize, len: usize) -> Result<()> {
        check_range(offset, len, self.len)
    }

    /// Whether these bytes may be written.
    #[inline]
    pub fn check_write(&self, offset: usize, len: usize) -> Result<()> {
        self.check(offset, len)?;
        if self.permission == Permission::Read {
            return Err(denied(self.owner));
        }
        Ok(())
    }
}

#[cold]
fn denied((peer, id): (Peer, SegmentId)) -> FabricError {
    FabricError::Denied { peer, id: id.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Permission::{Read, ReadWrite};

    const OWNER: (Peer, SegmentId) = (Peer(3), SegmentId(9));

    #[test]
    fn a_segment_ends_where_it_ends() {
        for (offset, len) in [(0, 0), (0, 64), (64, 0), (60, 4)] {
            assert_eq!(check_range(offset, len, 64), Ok(()));
        }
        for (offset, len) in [
            (0, 65),
            (64, 1),
            (65, 0),
            (60, 5),
            (8, usize::MAX),
            (usize::MAX, 8),
        ] {
            let end = offset.saturating_add(len);
            assert_eq!(
                check_range(offset, len, 64),
                Err(FabricError::OutOfRange { offset, end, len: 64 })
            );
        }
    }

    #[test]
    fn nobody_gets_more_than_is_granted() {
        let denied = Err(FabricError::Denied { peer: Peer(3), id: 9 });
        let ask =
            |granted, wanted| Grant::new(OWNER, 64, granted, (wanted, 64)).map(|grant| grant.permission);
        assert_eq!(ask(None, Read), denied);
        assert_eq!(ask(Some(Read), ReadWrite), denied);
        assert_eq!(ask(Some(Read), Read), Ok(Read));
        assert_eq!(ask(Some(ReadWrite), Read), Ok(Read));
        assert_eq!(ask(Some(ReadWrite), ReadWrite), Ok(ReadWrite));
        assert!(
            Grant::new(OWNER, 64, Some(Read), (Read, 65)).is_err(),
            "too short"
        );
        let reader = Grant::new(OWNER, 64, Some(ReadWrite), (Read, 8)).unwrap();
        assert_eq!(reader.check(0, 64), Ok(()), "all of it, whatever was asked for");
        assert_eq!(reader.check_write(0, 8).map(|()| Read), denied);
    }

    #[test]
    fn a_list_names_processes_of_the_job() {
        let list = |peer| Access::Only(vec![(Peer(0), Read), (Peer(peer), ReadWrite)]);
        assert_eq!(list(1).check(2), Ok(()));
        let (peer, size) = (Peer(2), 2);
        assert_eq!(list(2).check(2), Err(FabricError::NoSuchPeer { peer, size }));
        assert!(list(1).admits(Peer(0), Read) && !list(1).admits(Peer(0), ReadWrite));
        assert!(list(1).admits(Peer(1), ReadWrite) && !list(1).admits(Peer(2), Read));
    }
}
