//! Receives of all kinds, and what they must have got.

use super::play::{Rank, pause};
use farpost_fabric::Fabric;
use farpost_generate::program::{ANY_SOURCE, ANY_TAG, Got, Look, Outgoing, PoolCheck, Swap, Wanted};
use farpost_generate::values::GUARD;
use farpost_mpi::p2p;
use farpost_mpi::world::World;

impl<F: Fabric + 'static> Rank<F> {
    pub fn receive(&self, wanted: &Wanted, source: i32, tag: i32) {
        let (comm, buf) = (self.comm(wanted.comm), self.recv_buf(&wanted.data));
        let status = self.expect(self.world.recv(&comm, buf, source, tag));
        self.must_be(&status, wanted.truncated);
        self.statuses.borrow_mut()[wanted.slot] = status;
    }

    pub fn look(&self, look: Look, wanted: &Wanted, req: Option<usize>) {
        let (world, comm) = (&self.world, self.comm(wanted.comm));
        let (source, tag) = (wanted.from, wanted.tag);
        let mut message = None;
        let status = match look {
            Look::Probe => self.expect(world.probe(&comm, source, tag)),
            Look::Iprobe => loop {
                if let Some(status) = self.expect(world.iprobe(&comm, source, tag)) {
                    break status;
                }
                pause();
            },
            Look::Mprobe => {
                let (taken, status) = self.expect(world.mprobe(&comm, source, tag));
                message = Some(taken);
                status
            }
            Look::Improbe => loop {
                if let Some((taken, status)) = self.expect(world.improbe(&comm, source, tag)) {
                    message = Some(taken);
                    break status;
                }
                pause();
            },
        };
        let buf = self.recv_buf(&wanted.data);
        let handle = match (message, req) {
            (None, None) => return self.receive(wanted, status.source, status.tag),
            (Some(message), _) => self.expect(world.imrecv(message, buf)),
            (None, Some(_)) => self.expect(world.irecv(&comm, buf, status.source, status.tag)),
        };
        if let Some(req) = req {
            return self.new_req(req, handle, Some(wanted.slot), false, wanted.truncated);
        }
        let status = self.expect(world.wait(handle));
        self.must_be(&status, wanted.truncated);
        self.statuses.borrow_mut()[wanted.slot] = status;
    }

    pub fn swap(&self, swap: Swap, send: &Outgoing, wanted: &Wanted) {
        let (data, to, tag) = (&send.data, send.to, send.tag);
        let (world, comm) = (&self.world, self.comm(wanted.comm));
        let standard = p2p::Mode::Standard;
        let recv =
            |world: &World<F>| world.irecv(&comm, self.recv_buf(&wanted.data), wanted.from, wanted.tag);
        let send = match swap {
            // What is sent is copied before what comes is put there.
            Swap::Replace => self.expect(world.isend_copy(&comm, &self.send_buf(data), to, tag)),
            _ => self.expect(world.isend(&comm, &self.send_buf(data), to, tag, standard)),
        };
        let recv = self.expect(recv(world));
        if let Swap::Isendrecv(req) = swap {
            let both = self.expect(world.join(recv, send));
            return self.new_req(req, both, Some(wanted.slot), false, false);
        }
        self.expect(world.wait(send));
        let status = self.expect(world.wait(recv));
        self.must_be(&status, false);
        self.statuses.borrow_mut()[wanted.slot] = status;
    }

    /// Receives in the order of posting: source and tag tell which message each must be.
    pub fn check_pool(&self, check: &PoolCheck) {
        let mut gone = vec![false; check.sent.len()];
        for (number, Got { wanted, len, may }) in check.got.iter().enumerate() {
            if wanted.truncated {
                continue;
            }
            let status = self.statuses.borrow()[wanted.slot].clone();
            let found = (0..gone.len()).find(|i| {
                !gone[*i] && (check.sent[*i].source, check.sent[*i].tag) == (status.source, status.tag)
            });
            let name = format!("{}: receive {number}, {status:?}", check.name);
            let Some(message) = found else {
                self.fail(&format!("{name}: nobody sent that"))
            };
            let asked = (wanted.from == ANY_SOURCE || wanted.from == status.source)
                && (wanted.tag == ANY_TAG || wanted.tag == status.tag);
            if !asked || !may.contains(&message) {
                self.fail(&format!("{name}: message {message} is not for it"));
            }
            gone[message] = true;
            let sent = &check.sent[message];
            if status.bytes != sent.bytes {
                self.fail(&format!("{name}: message {message} has {} bytes", sent.bytes));
            }
            let mut want = vec![GUARD; *len as usize];
            self.place_bytes(&mut want, wanted.data.ty, sent.bytes, sent.id);
            self.same(&name, wanted.data.buf, &want);
        }
    }
}
