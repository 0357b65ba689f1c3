//! Memory descriptors (section 3.10): checks of what the program writes, room, threshold, activity.

use super::table::Named;
use crate::error::Error;
use crate::memory::{Segment, Segments};
use crate::types::{Handle, HandleKind, Iovec, Limits, Md, THRESHOLD_INFINITE, Unlink, option};

/// A descriptor as the library keeps it.
pub(super) struct Descriptor {
    pub handle: Handle,
    /// The program's values; the threshold counts down here.
    pub md: Md,
    pub region: Region,
    /// The local offset, where offsets are managed locally.
    pub offset: u64,
    /// False after the threshold or `max_size` has ended it, or when it was made with threshold 0.
    pub active: bool,
    pub unlink: Unlink,
    /// Operations accepted or started whose END has not been logged.
    pub pending: u32,
    /// The match entry it is attached to.
    pub me: Option<u32>,
}

/// The memory that a descriptor describes.
#[derive(Clone)]
pub(super) struct Region {
    pub memory: Segments,
    /// Bytes.
    pub length: u64,
}

impl Named for Descriptor {
    const KIND: HandleKind = HandleKind::Md;
    #[inline]
    fn handle(&self) -> Handle {
        self.handle
    }
}

fn exists(segment: &Segment) -> bool {
    segment.len == 0
        || (segment.address != 0
            && segment.len <= isize::MAX as usize
            && segment.address.checked_add(segment.len).is_some())
}

impl Region {
    /// Check what the program wrote. With [`option::IOVEC`] `length` counts the segments in `iovec` (section 12, 11).
    ///
    /// # Errors
    /// [`Error::MdIllegal`]: memory that cannot be, options that do not exist, a threshold below -1, more segments
    /// than the limit, segments given without the option or the reverse.
    pub fn check(md: &Md, iovec: Iovec, limits: &Limits) -> Result<Self, Error> {
        if md.options & !option::ALL != 0 || md.threshold < THRESHOLD_INFINITE {
            return Err(Error::MdIllegal);
        }
        if iovec.is_some() && md.length > limits.max_md_iovecs as u64 {
            return Err(Error::MdIllegal);
        }
        let memory = memory_of(md, iovec).ok_or(Error::MdIllegal)?;
        let length = memory.len() as u64;
        Ok(Self { memory, length })
    }
}

/// The memory that a descriptor describes, if there can be such.
pub fn memory_of(md: &Md, iovec: Iovec) -> Option<Segments> {
    match (md.options & option::IOVEC != 0, iovec) {
        (false, None) => {
            let segment = Segment::new(md.start, usize::try_from(md.length).ok()?);
            exists(&segment).then(|| segment.into())
        }
        (true, Some(list)) => {
            let total = list.iter().try_fold(0usize, |sum, s| sum.checked_add(s.len))?;
            let fits = total <= isize::MAX as usize && md.length == list.len() as u64;
            (fits && list.iter().all(exists)).then(|| Segments::many(list))
        }
        _ => None,
    }
}

impl Descriptor {
    pub fn new(handle: Handle, md: Md, region: Region, unlink: Unlink, me: Option<u32>) -> Self {
        let mut new = Self {
            handle,
            md,
            region,
            offset: 0,
            active: false,
            unlink,
            pending: 0,
            me,
        };
        new.replace(md, new.region.clone());
        new
    }

    /// Take other values (section 6, MDUpdate): the local offset begins again, and the threshold decides activity.
    /// The reference forgets that for threshold 0; `max_size` means nothing where the offset is managed remotely.
    pub fn replace(&mut self, mut md: Md, region: Region) {
        if md.options & option::MANAGE_REMOTE != 0 {
            md.options &= !option::MAX_SIZE;
        }
        self.md = md;
        self.region = region;
        self.offset = 0;
        self.active = md.threshold != 0;
    }

    #[inline]
    pub fn has(&self, option: u32) -> bool {
        self.md.options & option != 0
    }

    /// Incoming operations that it is ready for.
    #[inline]
    pub fn operations(&self) -> u8 {
        if self.active {
            (self.md.options & (option::OP_PUT | option::OP_GET)) as u8
        } else {
            0
        }
    }

    /// The space rule (section 4.2, rule 6): where a request of `length` bytes would go and how many are accepted.
    #[inline]
    pub fn room(&self, requested: u64, length: u64) -> Option<(u64, u64)> {
        let offset = if self.has(option::MANAGE_REMOTE) {
            requested
        } else {
            self.offset
        };
        let left = self.region.length.checked_sub(offset)?;
        if length <= left {
            Some((offset, length))
        } else if self.has(option::TRUNCATE) {
            Some((offset, left))
        } else {
            None
        }
    }

    /// One operation of the threshold (section 6).
    #[inline]
    pub fn consume(&mut self) {
        if self.md.threshold > 0 {
            self.md.threshold -= 1;
            self.active &= self.md.threshold != 0;
        }
    }

    /// An incoming request has been accepted, and is in progress.
    #[inline]
    pub fn accept(&mut self, accepted: u64) {
        self.take(accepted);
        self.pending += 1;
    }

    /// An incoming request has been accepted (section 4.2, rule 7). The local offset moves only where it is used; the
    /// reference moves it always.
    #[inline]
    pub fn take(&mut self, accepted: u64) {
        if !self.has(option::MANAGE_REMOTE) {
            self.offset += accepted;
            if self.has(option::MAX_SIZE) && self.region.length - self.offset < self.md.max_size {
                self.active = false;
            }
        }
        self.consume();
    }

    /// `length` bytes from `offset`, which lie within.
    #[inline]
    pub fn part(&self, offset: u64, length: u64) -> Segments {
        self.region.memory.region(offset as usize, length as usize)
    }
}
