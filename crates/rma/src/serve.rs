//! The target's side: what is done about each message. Nothing here waits, and each answer is a short message of its own.
//!
//! Requirements of MPI-5.0 sections 12.5, 12.7.

use crate::epoch::LockKind;
use crate::flight::Then;
use crate::memory::Room;
use crate::message::{Message, MessageKind, long_get, long_put};
use crate::peer::UNASKED;
use crate::served::Served;
use crate::win::Win;
use farpost_fabric::Fabric;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::World;
use farpost_mpi::{ErrorClass, Result, fail};

impl<F: Fabric> Win<F> {
    /// Act on a message of `from`.
    pub(crate) fn take(&self, world: &World<F>, from: i32, message: Message) {
        match message.kind {
            MessageKind::Put => self.done(world, from, self.area.scatter(&message.pieces, &message.data)),
            MessageKind::Accumulate => {
                let result = self.accumulate(&message);
                self.done(world, from, result.map(drop));
            }
            MessageKind::PutLong => self.put_long(world, from, &message),
            MessageKind::GetLong => self.get_long(world, from, &message),
            MessageKind::Get => self.reply(world, from, message.id, self.area.gather(&message.pieces)),
            MessageKind::Fetch => self.reply(world, from, message.id, self.accumulate(&message)),
            MessageKind::CompareAndSwap => {
                let old = self.area.compare_and_swap(&message.pieces, &message.data);
                self.reply(world, from, message.id, old);
            }
            MessageKind::Hurry => {
                self.with_served(from, |served| served.hurry = true);
                self.tell(world, from);
            }
            MessageKind::Lock => {
                let kind = if message.id == 1 {
                    LockKind::Exclusive
                } else {
                    LockKind::Shared
                };
                self.lock.borrow_mut().ask(from, kind);
                self.grant(world);
            }
            MessageKind::Unlock => {
                self.with_served(from, |served| (served.hurry, served.unlocking) = (true, true));
                self.tell(world, from);
            }
            MessageKind::Reply => self.replied(world, from, message),
            MessageKind::Done => {
                self.note_remote(message.error);
                self.with_peer(from, |peer| {
                    peer.outstanding = peer.outstanding.saturating_sub(message.id)
                });
            }
            MessageKind::Granted => self.with_peer(from, |peer| peer.granted = true),
            MessageKind::Unlocked => self.with_peer(from, |peer| peer.unlocked = true),
            MessageKind::Post => *self.posts.borrow_mut().entry(from).or_default() += 1,
            MessageKind::Complete => *self.completes.borrow_mut().entry(from).or_default() += 1,
        }
    }

    fn with_served<T>(&self, origin: i32, then: impl FnOnce(&mut Served) -> T) -> T {
        then(self.served.borrow_mut().entry(origin).or_default())
    }

    fn accumulate(&self, message: &Message) -> Result<Vec<u8>> {
        let op = Op::predefined(usize::from(message.op));
        let element = Datatype::predefined(usize::from(message.element));
        match (op, element) {
            (Some(op), Some(element)) => self
                .area
                .accumulate(&op, &element, &message.pieces, &message.data),
            _ => fail!(ERR_INTERN: "an accumulate operation of another process is none"),
        }
    }

    fn put_long(&self, world: &World<F>, from: i32, message: &Message) {
        let piece = message.pieces.first().copied().unwrap_or((0, 0));
        // What may not be written has to be taken all the same.
        let (buffer, astray) = match self.area.incoming(piece) {
            Ok(buffer) => (buffer, None),
            Err(_) => {
                let mut room = Room::new(piece.1 as usize);
                (room.buffer(), Some(room))
            }
        };
        match world.irecv(&self.comm, buffer, from, long_put(message.id)) {
            Ok(request) => {
                self.with_served(from, |served| served.under_way += 1);
                self.begin(request, Then::Written { origin: from, astray });
            }
            Err(error) => self.fail(world, error),
        }
    }

    /// Long data have come.
    pub(crate) fn written(&self, world: &World<F>, origin: i32, astray: bool) {
        self.with_served(origin, |served| served.under_way -= 1);
        let result = match astray {
            false => Ok(()),
            true => fail!(ERR_RMA_RANGE: "not in the window"),
        };
        self.done(world, origin, result);
    }

    fn get_long(&self, world: &World<F>, from: i32, message: &Message) {
        let piece = message.pieces.first().copied().unwrap_or((0, 0));
        let tag = long_get(message.id);
        let started = match self.area.outgoing(piece) {
            Ok(buffer) => world.isend(&self.comm, &buffer, from, tag, farpost_mpi::p2p::Mode::Standard),
            // Fewer bytes than wanted say so.
            Err(_) => world.isend_owned(&self.comm, Box::default(), from, tag),
        };
        match started {
            Ok(request) => self.begin(request, Then::Nothing),
            Err(error) => self.fail(world, error),
        }
    }

    /// An operation without a reply is done.
    fn done(&self, world: &World<F>, origin: i32, result: Result<()>) {
        self.with_served(origin, |served| {
            served.untold += 1;
            if let Err(error) = result {
                served.error = error.class.0;
            }
        });
        self.tell(world, origin);
    }

    /// Tell an origin what is done, if it is time.
    fn tell(&self, world: &World<F>, origin: i32) {
        let (told, unlocking) = self.with_served(origin, |served| {
            let settled = served.hurry && served.under_way == 0;
            let told = (settled && served.untold > 0 || served.untold >= UNASKED).then(|| {
                let mut message = Message::new(MessageKind::Done, std::mem::take(&mut served.untold));
                message.error = std::mem::take(&mut served.error);
                message
            });
            if settled {
                served.hurry = false;
            }
            (told, settled && std::mem::take(&mut served.unlocking))
        });
        if let Some(message) = told {
            self.answer(world, origin, message);
        }
        if unlocking {
            self.lock.borrow_mut().release(origin);
            self.answer(world, origin, Message::new(MessageKind::Unlocked, 0));
            self.grant(world);
        }
    }

    fn grant(&self, world: &World<F>) {
        loop {
            let next = self.lock.borrow_mut().grant();
            let Some(rank) = next else { return };
            self.answer(world, rank, Message::new(MessageKind::Granted, 0));
        }
    }

    fn reply(&self, world: &World<F>, to: i32, id: u64, result: Result<Vec<u8>>) {
        let mut message = Message::new(MessageKind::Reply, id);
        match result {
            Ok(data) => message.data = data,
            Err(error) => message.error = error.class.0,
        }
        self.answer(world, to, message);
    }

    /// A reply has come.
    fn replied(&self, world: &World<F>, from: i32, message: Message) {
        let pending = self.pending.borrow_mut().remove(&message.id);
        let Some(pending) = pending.filter(|pending| pending.target == from) else {
            let class = ErrorClass::ERR_INTERN;
            let why = format!("rank {from} has answered what nobody asked");
            return self.fail(world, farpost_mpi::Error::new(class, why));
        };
        self.note_remote(message.error);
        if let Some((to, at)) = pending.to
            && message.error == 0
        {
            to.unpack(at, &message.data);
        }
        self.with_peer(from, |peer| {
            peer.local -= 1;
            peer.outstanding -= 1;
        });
        if let Some(track) = pending.track {
            track.end(world);
        }
    }
}
