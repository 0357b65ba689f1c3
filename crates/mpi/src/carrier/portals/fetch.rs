//! Messages that are got from their senders, in one or in parts: how many at a time is bounded, and further ones begin when these are here.

use super::parts::AT_A_TIME;
use super::questions::Want;
use super::receive::{Room, room};
use super::send::failure;
use super::{KEPT_HERE, Portals, Seen, bits, descriptor, memory, refused, user};
use crate::Error;
use crate::buffer::RecvBuf;
use crate::carrier::{Chosen, Engine};
use crate::engine::request::{Operation, RecvState};
use farpost_fabric::{Fabric, Peer};
use farpost_portals::{Error as PortalsError, Handle, NetworkInterface, NiFail, option};

/// A message that is being got from its sender.
pub(super) struct Fetch {
    peer: Peer,
    /// What its sender calls it.
    id: u64,
    request: Option<usize>,
    md: Handle,
    queue: u8,
    wanted: u64,
    /// Bytes of a get at most.
    step: u64,
    /// Bytes that were asked for, and gets that have not been answered.
    asked: u64,
    coming: u32,
    fail: NiFail,
    landing: Option<Box<[u8]>>,
    /// Its descriptor is gone: nothing comes any more, unless it is logged already.
    given_up: bool,
}

impl Fetch {
    fn is_in_parts(&self) -> bool {
        self.id & bits::IN_PARTS != 0
    }

    /// Gets at a time, for whose events there is room.
    fn at_a_time(&self) -> u32 {
        at_a_time(self.id)
    }

    fn error(&self) -> Option<Error> {
        failure(self.peer, self.fail)
    }
}

fn at_a_time(id: u64) -> u32 {
    if id & bits::IN_PARTS != 0 { AT_A_TIME } else { 1 }
}

/// The fetch of a receive whose message cannot be fetched yet.
pub(super) const NO_FETCH: u32 = u32::MAX;

impl<F: Fabric> Portals<F> {
    /// Get what is wanted of a message that its sender keeps.
    fn fetch(&mut self, want: &Want, buf: &RecvBuf) -> std::result::Result<u32, PortalsError> {
        let Want {
            peer,
            id,
            bytes: wanted,
            request,
        } = *want;
        let events = at_a_time(id);
        let queue = self.reserve(events)?;
        let number = match self.fetches.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.fetches.push(None);
                self.fetches.len() - 1
            }
        };
        let Room {
            start,
            length,
            iovec,
            landing,
        } = room(buf, wanted);
        let pieces = if iovec.is_some() { option::IOVEC } else { 0 };
        let eq = self.queues[usize::from(queue)].eq;
        let md = descriptor(start, length, pieces, user::of(user::FETCH, number), eq);
        let begun = memory::bind(&self.ni, md, iovec).and_then(|md| {
            self.fetches[number] = Some(Fetch {
                peer,
                id,
                request: Some(request),
                md,
                queue,
                wanted,
                step: if events > 1 { self.parts.part } else { u64::MAX },
                asked: 0,
                coming: 0,
                fail: NiFail::OK,
                landing,
                given_up: false,
            });
            self.ask_for_next(number).inspect_err(|_| {
                self.fetches[number] = None;
                _ = self.ni.md_unlink(md);
            })
        });
        if let Err(error) = begun {
            self.release(queue, events);
            return Err(error);
        }
        self.fetching += 1;
        self.needs_progress = true;
        self.ask_on(number);
        Ok(number as u32)
    }

    /// Get the next part of a message, or all of it.
    fn ask_for_next(&mut self, number: usize) -> std::result::Result<(), PortalsError> {
        let Some(Some(fetch)) = self.fetches.get(number) else {
            return Ok(());
        };
        let mut target = self.target(fetch.peer, KEPT_HERE, fetch.id);
        target.offset = fetch.asked;
        let len = fetch.step.min(fetch.wanted - fetch.asked);
        self.ni.get_region(fetch.md, (fetch.asked, len), &target)?;
        if let Some(Some(fetch)) = self.fetches.get_mut(number) {
            fetch.asked += len;
            fetch.coming += 1;
        }
        Ok(())
    }

    /// Get further parts, as many as may be on their way.
    fn ask_on(&mut self, number: usize) {
        while let Some(Some(fetch)) = self.fetches.get(number)
            && fetch.asked < fetch.wanted
            && fetch.coming < fetch.at_a_time()
            && fetch.request.is_some()
            && fetch.fail == NiFail::OK
        {
            match self.ask_for_next(number) {
                Ok(()) => self.needs_progress = true,
                Err(error) => {
                    if let Some(Some(fetch)) = self.fetches.get_mut(number) {
                        fetch.fail = match error {
                            // The agent has ended.
                            PortalsError::Fail => NiFail::UNDELIVERABLE,
                            _ => NiFail::FAIL,
                        };
                    }
                }
            }
        }
    }

    /// A reply is here, or never will be. The fetch, if it was the last one.
    fn got(&mut self, number: usize, seen: &Seen) -> Option<Fetch> {
        let fetch = self.fetches.get_mut(number)?.as_mut()?;
        fetch.coming = fetch.coming.saturating_sub(1);
        let due = fetch.wanted.saturating_sub(seen.offset).min(fetch.step);
        if seen.fail != NiFail::OK {
            fetch.fail = seen.fail;
        } else if seen.mlength != due {
            fetch.fail = NiFail::FAIL;
        }
        self.ask_on(number);
        let place = self.fetches.get_mut(number)?;
        let fetch = place.take_if(|fetch| fetch.coming == 0)?;
        while matches!(self.fetches.last(), Some(None)) {
            self.fetches.pop();
        }
        self.release(fetch.queue, fetch.at_a_time());
        if fetch.given_up {
            return Some(fetch);
        }
        self.fetching -= 1;
        let unlinked = self.ni.md_unlink(fetch.md);
        debug_assert!(Self::begun(unlinked), "{unlinked:?}");
        if fetch.is_in_parts() && fetch.fail != NiFail::UNDELIVERABLE {
            self.notice(fetch.peer, fetch.id, fetch.fail);
        }
        Some(fetch)
    }

    /// Nobody waits for it any more. Whoever was asked may have ended, and then no event tells: what has not begun to come will find no
    /// descriptor. The place stays taken, since its events may be logged already. A sender that is not `lost` is told if it is to hear of
    /// the end.
    pub(super) fn abandon_fetch(&mut self, number: u32, lost: bool) {
        let Some(Some(fetch)) = self.fetches.get_mut(number as usize) else {
            return;
        };
        fetch.request = None;
        if fetch.given_up || self.ni.md_unlink(fetch.md) == Err(PortalsError::MdInUse) {
            return;
        }
        fetch.given_up = true;
        self.fetching -= 1;
        if fetch.is_in_parts() && !lost {
            let (peer, id) = (fetch.peer, fetch.id);
            self.notice(peer, id, NiFail::OK);
        }
    }

    /// Whether something that is to be fetched may still come.
    pub(super) fn awaits_fetches(&self) -> bool {
        self.fetches.iter().flatten().any(|fetch| !fetch.given_up)
    }
}

impl<F: Fabric> Engine<F> {
    /// Get what a receive wants, as soon as few enough others are being fetched.
    pub(super) fn fetch_kept(&mut self, want: Want) {
        let portals = portals!(self);
        let Some((recv, _)) = self.requests.recv_mut(want.request) else {
            return;
        };
        let peer = want.peer;
        if portals.fetching >= portals.most_fetching {
            recv.state = RecvState::Got {
                peer,
                fetch: NO_FETCH,
            };
            return portals.later.push_back(want);
        }
        match portals.fetch(&want, &recv.buf) {
            Ok(fetch) => recv.state = RecvState::Got { peer, fetch },
            Err(error) => {
                let error = refused("getting a message", error);
                self.fail(want.request, error);
            }
        }
    }

    /// Begin the fetches that others have made room for.
    #[inline]
    pub(super) fn fetch_later(&mut self) {
        while let Chosen::Portals(portals) = &mut self.carrier
            && portals.fetching < portals.most_fetching
            && let Some(want) = portals.later.pop_front()
        {
            self.fetch_kept(want);
        }
    }

    /// The reply to a get is here.
    pub(super) fn on_got(&mut self, seen: &Seen) {
        let portals = portals!(self);
        let Some(fetch) = portals.got(seen.number(), seen) else {
            return;
        };
        let error = fetch.error();
        let Some(handle) = fetch.request else { return };
        if let (Some(landing), Some(request)) = (&fetch.landing, self.requests.get(handle))
            && let Operation::Recv(recv) = &request.operation
        {
            recv.buf.unpack_on(&*self.fabric, 0, landing);
        }
        self.complete(handle, |status| {
            status.error = error.map(Box::new).or(status.error.take());
        });
    }
}
