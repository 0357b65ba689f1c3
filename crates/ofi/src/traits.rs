//! The smaller traits: status, counters, topology, and the fabric itself.

use super::Ofi;
use super::wire::{Small, control};
use farpost_fabric::{Counter, Counters, Distance, ErrorStatus, Fabric, Fault, Peer, Topology};
use std::rc::Rc;
use std::time::{Duration, Instant};

impl ErrorStatus for Ofi {
    fn record_fault(&self, fault: Fault) {
        self.0.record_fault(fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.0.take_faults()
    }

    #[inline(always)]
    fn faulted(&self) -> bool {
        self.0.faulted.get()
    }

    fn is_gone(&self, peer: Peer) -> bool {
        let link = self.0.known(peer);
        link.is_some_and(|link| link.left.get() || link.dead.borrow().is_some())
    }
}

impl Counters for Ofi {
    #[inline]
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.0.link(peer).count(counter, amount);
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        let inner = &self.0;
        assert!(of.0 < inner.size && peer.0 < inner.size);
        if of != inner.me {
            return inner.counter_of(of, peer, counter);
        }
        inner
            .known(peer)
            .map_or(0, |l| l.counters[counter as usize].get())
    }
}

impl Topology for Ofi {
    fn hosts(&self) -> u32 {
        self.0.host_of.iter().max().map_or(1, |last| last + 1)
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.0.host_of[peer.index()]
    }

    fn distance(&self, peer: Peer) -> Distance {
        if peer == self.0.me {
            Distance::Same
        } else if self.host_of(peer) == self.host_of(self.0.me) {
            Distance::Host
        } else {
            Distance::Far
        }
    }

    fn rails(&self, _peer: Peer) -> u32 {
        1
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        (self.0.cores, self.0.processes)
    }
}

impl Fabric for Ofi {
    #[inline]
    fn me(&self) -> Peer {
        self.0.me
    }

    #[inline]
    fn size(&self) -> u32 {
        self.0.size
    }

    fn name(&self) -> &'static str {
        "ofi"
    }

    #[inline]
    fn progress(&self) -> bool {
        self.0.progress()
    }

    fn close(&self, patience: Duration) {
        let inner = &self.0;
        let met = inner.met.borrow().clone();
        let living = || met.iter().filter(|link| !link.is_dead());
        for link in living().filter(|link| !link.left.get()) {
            // With a completion, and after all that was sent before: when it is out, so are they.
            let bye = Small::control(link.token(), inner.me.0, control::BYE, 0, &[]);
            inner.send_parts(link, &[bye.bytes()]);
        }
        let began = Instant::now();
        while began.elapsed() < patience && living().any(|link: &Rc<_>| link.busy()) {
            if !inner.progress() {
                std::thread::yield_now();
            }
        }
    }
}
