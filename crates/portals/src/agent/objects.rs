//! Objects of an accelerated client, which its agent keeps.

use super::pieces::{Pieces, Store};
use crate::bridge::mailbox::Title;
use crate::bridge::record::{Halves, Pen, Piece, Update, Words, Write, command};
use crate::error::Error;
use crate::library::{DropReason, Library};
use crate::malformed::{Malformed, fail};
use crate::memory::{Segment, Segments};
use crate::types::{Event, Handle, Iovec, Limits, Md, SR_DROP_COUNT, option};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Events of a queue of an accelerated client at most: a bound for what its commands may ask of the agent's memory.
const MAX_EVENTS: u32 = 1 << 16;
/// Its queues.
const MAX_QUEUES: usize = 64;
/// Events that one call of the library may log in a queue, and more: what was logged before is handed on before the next.
const MIN_EVENTS: u32 = 4;
/// Events of queues with handlers that are kept for a client which takes none: handlers see every event, so that messages
/// wait when there are no more. Half of them are for messages that come, whatever the client has begun itself.
const KEPT: u32 = 1 << 11;
/// Events of one operation at most: a get-put logs three for each of its descriptors.
const OF_OPERATION: usize = 6;

/// Bytes of what is kept of a descriptor beside the library's.
const EXPOSED: usize = size_of::<(Handle, Vec<Piece>)>();
/// So many descriptors that have gone may be kept.
const FEW: usize = 64;

/// Limits of what is closed.
pub(super) const NOTHING: Limits = Limits {
    max_mes: 0,
    max_mds: 0,
    max_eqs: 0,
    max_ac_index: 0,
    max_pt_index: 0,
    max_md_iovecs: 0,
    max_me_list: 0,
    max_getput_md: 0,
};

/// A queue as its agent sees it.
pub(crate) struct Queue {
    pub handle: Handle,
    /// Events that have been handed on to the client.
    pub forwarded: u64,
    /// A handler sees every event, whatever the queue loses.
    handled: bool,
}

/// A client's objects. They are made by its calls, within the limits it has; what messages need is made at the start.
pub(crate) struct Objects {
    /// While the client is not open, it answers in its name.
    pub library: Library,
    /// Descriptors and the memory they describe, some that have gone among them.
    exposed: BTreeMap<Handle, Vec<Piece>>,
    /// As many are looked through for those that have gone.
    many: usize,
    /// Pieces in them.
    shown: usize,
    pub queues: Vec<Queue>,
    /// Events may have been logged.
    pub dirty: bool,
    /// Get-puts whose bytes are here, in order; the first is being exchanged.
    pub swaps: VecDeque<u64>,
    /// Bytes that all of them may take.
    most: u64,
}

/// The segments of a descriptor's pieces.
fn iovec_of(md: &Md, pieces: &[Piece]) -> Iovec {
    (md.options & option::IOVEC != 0).then(|| {
        let segments = pieces
            .iter()
            .map(|p| Segment::new(p.address as usize, p.len as usize));
        segments.collect::<Rc<[Segment]>>()
    })
}

impl Objects {
    /// Of a client that is not open.
    pub fn new(closed: Library, jobs: usize, most: u64) -> Self {
        Self {
            library: closed,
            exposed: BTreeMap::new(),
            many: FEW,
            shown: 0,
            queues: Vec::with_capacity(MAX_QUEUES),
            dirty: false,
            swaps: VecDeque::with_capacity(jobs),
            most,
        }
    }

    /// The client has attached.
    pub fn begin(&mut self, limits: &Limits, opening: u32) {
        self.library = self.library.anew(Some(limits), opening);
    }

    /// The client has gone.
    pub fn end(&mut self, opening: u32) {
        self.library = self.library.anew(Some(&NOTHING), opening);
        self.exposed.clear();
        self.shown = 0;
        self.queues.clear();
        self.swaps.clear();
        self.dirty = false;
    }

    /// Whether there is room for one more object, with this and that of its own.
    pub fn may_make(&mut self, pieces: usize, events: u32) -> Result<(), Error> {
        let more = EXPOSED + pieces * size_of::<Piece>() + events as usize * size_of::<Event>();
        if self.exposed.len() >= self.many || !self.has_room(more) {
            self.forget_what_is_gone();
        }
        self.has_room(more).then_some(()).ok_or(Error::NoSpace)
    }

    fn has_room(&self, more: usize) -> bool {
        let exposed = self.exposed.len() * EXPOSED + self.shown * size_of::<Piece>();
        (self.library.object_bytes() + exposed + more) as u64 <= self.most
    }

    /// The memory of a descriptor, in place of what it had.
    fn expose(&mut self, md: Handle, pieces: Vec<Piece>) {
        self.shown += pieces.len();
        if let Some(old) = self.exposed.insert(md, pieces) {
            self.shown -= old.len();
        }
    }

    /// Whether the events of one more operation can be kept for handlers until the client takes them: of the client's own, or of a
    /// message that comes. What the client begins leaves room, or clients could wait for each other in a circle.
    #[inline]
    pub fn has_room_for_events(&self, own: bool) -> bool {
        !self.queues.iter().any(|queue| queue.handled) || self.keeps_one_more(own)
    }

    fn keeps_one_more(&self, own: bool) -> bool {
        let handled = self.queues.iter().filter(|queue| queue.handled);
        let kept: usize = handled.map(|queue| self.library.eq_len(queue.handle)).sum();
        let most = KEPT as usize / if own { 2 } else { 1 };
        kept + OF_OPERATION * (self.library.operations() + 1) <= most
    }

    /// Where the agent reaches memory of the client's, for the operation with this token. None: the client did not show it.
    ///
    /// The memory is reached as its own descriptor shows it. Others may have some of the same memory, with other rights, and may be
    /// unlinked while the operation is in progress.
    pub(super) fn pieces_of(&mut self, lists: &Rc<Store>, token: u64, memory: &Segments) -> Option<Pieces> {
        let md = self.library.descriptor_of(token)?;
        lists.list(memory.pieces().map(|wanted| {
            let (address, len) = (wanted.address as u64, wanted.len as u64);
            let mut shown = self.exposed.get(&md)?.iter();
            let holds = |p: &&Piece| p.address <= address && address - p.address + len <= p.len;
            shown.find(holds).map(|p| Piece {
                address,
                len,
                position: p.position + (address - p.address),
                key: p.key,
            })
        }))
    }

    /// A call that has a result: its code; the words are the pen's.
    ///
    /// # Errors
    /// It is none.
    pub fn call(&mut self, title: Title, mut words: Words, pen: &mut Pen) -> Result<u16, Malformed> {
        let makes_entry = matches!(
            title.kind,
            command::ME_ATTACH | command::ME_ATTACH_ANY | command::ME_INSERT
        );
        if makes_entry && let Err(no) = self.may_make(0, 0) {
            return Ok(code_of(no));
        }
        let library = &mut self.library;
        Ok(match title.kind {
            command::ME_ATTACH => {
                let (pt_index, id, bits, Halves(unlink, position)) = words.read()?;
                answer(pen, library.me_attach(pt_index, id, bits, unlink, position))
            }
            command::ME_ATTACH_ANY => {
                let (id, bits, unlink) = words.read()?;
                let made = library.me_attach_any(id, bits, unlink);
                answer(pen, made.map(|(pt_index, handle)| Halves(handle, pt_index)))
            }
            command::ME_INSERT => {
                let (base, id, bits, Halves(unlink, position)) = words.read()?;
                answer(pen, library.me_insert(base, id, bits, unlink, position))
            }
            command::ME_UNLINK => answer(pen, library.me_unlink(words.read()?)),
            command::MD_ATTACH | command::MD_BIND => {
                let (me, unlink, md) = words.read()?;
                let pieces = words.pieces()?;
                if let Err(no) = self.may_make(pieces.len(), 0) {
                    return Ok(code_of(no));
                }
                let library = &mut self.library;
                let iovec = iovec_of(&md, &pieces);
                let made = if title.kind == command::MD_ATTACH {
                    library.md_attach(me, md, iovec, unlink)
                } else {
                    library.md_bind(md, iovec, unlink)
                };
                if let Ok(handle) = made {
                    self.expose(handle, pieces);
                }
                answer(pen, made)
            }
            command::MD_UNLINK => answer(pen, library.md_unlink(words.read()?)),
            command::MD_UPDATE => {
                let (md, testq, seen, how, new): (Handle, Handle, u64, Update, Md) = words.read()?;
                let replaces = how != Update::Read;
                let pieces = words.pieces()?;
                // What has been forwarded and not been seen is in the queue as far as the program is concerned.
                let is_unseen = |queue: &Queue| queue.handle == testq && queue.forwarded != seen;
                let refused = if !replaces {
                    None
                } else if self.queues.iter().any(is_unseen) {
                    Some(Error::MdNoUpdate)
                } else {
                    self.may_make(pieces.len(), 0).err()
                };
                let library = &mut self.library;
                let mut old = new;
                let iovec = iovec_of(&new, &pieces);
                let done = if let Some(no) = refused {
                    let _ = library.md_update(md, Some(&mut old), None, testq);
                    Err(no)
                } else {
                    how.apply(
                        library,
                        (md, testq),
                        Some(&mut old),
                        replaces.then_some((new, iovec)),
                    )
                };
                if done.is_ok() && replaces {
                    self.expose(md, pieces);
                }
                let code = answer(pen, done);
                pen.begin(old);
                code
            }
            command::EQ_ALLOC => {
                let (count, handled): (u32, bool) = words.read()?;
                let least = if handled { KEPT } else { MIN_EVENTS };
                let kept = count.min(MAX_EVENTS).max(least).next_power_of_two();
                let room = self.may_make(0, kept);
                let library = &mut self.library;
                let made = match count {
                    0 => Ok(None),
                    _ if count > MAX_EVENTS || self.queues.len() >= MAX_QUEUES => Err(Error::NoSpace),
                    // What the client's own queue holds, and loses, is the client's affair.
                    _ => room.and_then(|()| library.eq_alloc(kept, false)),
                };
                if let Ok(Some(handle)) = made {
                    self.queues.push(Queue {
                        handle,
                        forwarded: 0,
                        handled,
                    });
                }
                answer(pen, made.map(|handle| handle.unwrap_or(Handle::EQ_NONE)))
            }
            command::EQ_FREE => {
                let handle = words.read()?;
                let done = library.eq_free(handle);
                if done.is_ok() {
                    self.queues.retain(|queue| queue.handle != handle);
                }
                answer(pen, done)
            }
            command::AC_ENTRY => {
                let (index, entry) = words.read()?;
                answer(pen, library.ac_entry(index, entry))
            }
            command::STATUS => {
                let status = match words.read()? {
                    0usize => library.status(SR_DROP_COUNT),
                    reason => DropReason::ALL
                        .get(reason - 1)
                        .map(|reason| library.drops().of(*reason))
                        .ok_or(Error::SrIndexInvalid),
                };
                answer(pen, status)
            }
            command::INTERFACE_OF => answer(pen, library.interface_of(words.read()?)),
            other => return fail!("the kind of a command", other),
        })
    }

    /// What it costs is paid by those that were made since the last time.
    fn forget_what_is_gone(&mut self) {
        let library = &self.library;
        self.exposed.retain(|md, _| library.interface_of(*md).is_ok());
        self.shown = self.exposed.values().map(Vec::len).sum();
        self.many = 2 * self.exposed.len() + FEW;
    }
}

/// Write down what a call has made, for a result: its code.
pub(crate) fn answer(pen: &mut Pen, made: Result<impl Write, Error>) -> u16 {
    pen.begin(());
    match made {
        Ok(made) => {
            pen.begin(made);
            0
        }
        Err(error) => code_of(error),
    }
}

/// The code of an error, for a result.
pub(crate) fn code_of(error: Error) -> u16 {
    error.code() as u16
}
