//! One process's interface: its FIFOs, rings, block transfers and procedures.

use crate::faults::Faults;
use crate::message::{Message, Service};
use crate::pio::{Pio, Status};
use crate::rdma::Rdma;
use crate::rpc::Rpc;
use crate::vi::{Batch, Vi};
use crate::{Header, JamError, JamTunables};
use farpost_fabric::wait::{Idle, WaitPolicy, WaitTunables};
use farpost_fabric::{Cost, Fabric, Fault, Peer, Port, Priority, Work};
use std::cell::Cell;
use std::rc::Rc;

/// What a call runs: it gets the caller and the argument, which lives until the procedure returns.
pub type Procedure<F> = Rc<dyn Fn(&Jam<F>, Peer, &[u8])>;

/// Messages of JAM's own protocols taken in by one poll.
const AT_ONCE: usize = 64;
/// How deep procedures may poll inside procedures.
const DEPTH: u32 = 16;

/// A process's interface to the network, with everything that JAM puts on it. One thread at a time uses it.
pub struct Jam<F: Fabric> {
    fabric: Rc<F>,
    pio: Pio<F>,
    service: Pio<F>,
    rdma: Rdma<F>,
    vi: Vi<F>,
    rpc: Rpc<Procedure<F>>,
    depth: Cell<u32>,
    faults: Rc<Faults<F>>,
    idle: Idle,
    policy: WaitPolicy,
}

impl<F: Fabric> Jam<F> {
    /// JAM on `fabric`.
    pub fn new(fabric: Rc<F>, tunables: &JamTunables, wait: &WaitTunables) -> Self {
        let faults = Faults::new(Rc::clone(&fabric));
        let told = || Rc::clone(&faults);
        Self {
            idle: Idle::default(),
            policy: WaitPolicy::of(wait, &*fabric),
            pio: Pio::telling(told(), Rc::clone(&fabric), Port::Jam),
            service: Pio::telling(told(), Rc::clone(&fabric), Port::JamService),
            rdma: Rdma::new(told(), Rc::clone(&fabric), tunables.rpc_max),
            vi: Vi::new(told(), Rc::clone(&fabric), tunables.vi_ring),
            rpc: Rpc::new(fabric.me(), tunables.rpc_rdma),
            depth: Cell::new(0),
            faults,
            fabric,
        }
    }

    /// The fabric underneath.
    pub fn fabric(&self) -> &Rc<F> {
        &self.fabric
    }

    /// Who I am.
    pub fn me(&self) -> Peer {
        self.fabric.me()
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.fabric.size()
    }

    /// The FIFOs of the user's messages.
    pub fn pio(&self) -> &Pio<F> {
        &self.pio
    }

    pub(crate) fn service(&self) -> &Pio<F> {
        &self.service
    }

    /// Block transfers.
    pub fn rdma(&self) -> &Rdma<F> {
        &self.rdma
    }

    /// Launch a message: see [`Pio::send`].
    ///
    /// # Errors
    /// The receiver does not exist, the payload has no legal length, or the transmit queue is full.
    #[inline]
    pub fn send(&self, header: &Header, payload: &[u32]) -> Result<(), JamError> {
        self.pio.send(header, payload)
    }

    /// The next message of one priority.
    #[inline]
    pub fn receive(&self, priority: Priority) -> Option<Message> {
        self.fabric.progress();
        self.pio.launch();
        self.pio.receive(priority)
    }

    /// As [`receive`](Self::receive), where it lies: see [`Pio::receive_in_place`].
    #[inline]
    pub fn receive_in_place(&self, priority: Priority, take: impl FnMut(Peer, u32, &[u8])) -> bool {
        self.fabric.progress();
        self.pio.launch();
        self.pio.receive_in_place(priority, take)
    }

    /// The status word of the FIFOs.
    pub fn status(&self) -> Status {
        self.fabric.progress();
        self.pio.status()
    }

    /// Launch a batch: see [`Vi::doorbell`].
    ///
    /// # Errors
    /// The batch is longer than half the ring, the receiver does not exist or has ended.
    pub fn doorbell(&self, batch: &mut Batch) -> Result<bool, JamError> {
        self.vi.doorbell(&self.service, batch)
    }

    /// Hand messages of batches to `take`: see [`Vi::receive`].
    pub fn receive_batches(&self, most: usize, take: impl FnMut(Peer, u32, &[u32])) -> usize {
        self.vi.receive(&self.service, most, take)
    }

    /// Register a procedure: see [`Rpc::register`].
    ///
    /// # Errors
    /// The number is too high.
    pub fn register(&self, number: u32, procedure: Procedure<F>) -> Result<(), JamError> {
        self.rpc.register(number, procedure)
    }

    /// `JAM_rpc`: start procedure `number` in process `to` with a copy of `argument`. Does not wait.
    ///
    /// # Errors
    /// The process does not exist, or the number cannot be one.
    #[inline]
    pub fn rpc(&self, to: Peer, number: u32, argument: &[u8]) -> Result<(), JamError> {
        self.fabric.charge(Cost::Work(Work::JamRpcCall));
        self.rpc.start(&self.service, &self.rdma, to, number, argument)
    }

    /// `JAM_poll`: serve the network and run the calls that have come. How many ran.
    pub fn poll(&self) -> usize {
        if self.depth.get() >= DEPTH {
            return 0;
        }
        self.begin();
        self.depth.set(self.depth.get() + 1);
        let mut ran = 0;
        let mut moved = false;
        self.fabric.progress();
        self.pio.launch();
        self.service.launch();
        self.rpc.push(&self.service);
        for _ in 0..AT_ONCE {
            let any = Priority::ALL.iter().any(|&priority| {
                self.service
                    .take_in_place(priority, |from, service, tag, payload| {
                        ran += usize::from(self.dispatch(priority, from, service, tag, payload));
                    })
            });
            if !any {
                break;
            }
            moved = true;
        }
        moved |= self.rdma.serve(&self.service);
        let call = |procedure: Procedure<F>, from, argument: &[u8]| procedure(self, from, argument);
        ran += self.rpc.run_others(&self.service, &self.rdma, call);
        if moved {
            // JAM's own protocols move without a procedure that runs: who polls for them is not idle.
            self.idle.found();
        }
        self.depth.set(self.depth.get() - 1);
        ran
    }

    #[inline]
    fn dispatch(&self, priority: Priority, from: Peer, service: u8, tag: u32, payload: &[u8]) -> bool {
        const RPC: u8 = Service::Rpc as u8;
        const RDMA: u8 = Service::Rdma as u8;
        const VI: u8 = Service::Vi as u8;
        let message = || {
            self.fabric().charge(Cost::Copy(payload.len()));
            Message::of(from, priority, tag, payload)
        };
        match service {
            RPC => {
                let call = |procedure: Procedure<F>, argument: &[u8]| procedure(self, from, argument);
                let at = (&*self.fabric, &self.service);
                return self.rpc.on_message(at, from, (tag, payload), call);
            }
            RDMA => self.rdma.on_message(&self.service, &message()),
            VI => self.vi.on_message(&self.service, &message()),
            other => self
                .service
                .refuse(from, "the service of a message", u64::from(other)),
        }
        false
    }

    /// Messages refused so far: a wrong check, a header that cannot be, an unknown procedure.
    pub fn refused(&self) -> u64 {
        self.pio.refused() + self.service.refused()
    }

    /// The oldest fault not told yet: who caused it, and a sentence with the value. What is refused is dropped, and what
    /// comes after it arrives.
    pub fn next_fault(&self) -> Option<Fault> {
        self.faults.next()
    }

    /// Procedures run so far.
    pub fn calls(&self) -> u64 {
        self.rpc.calls()
    }

    /// Whether something of this process's waits to go out: before leaving, poll until it does not.
    pub fn has_waiting(&self) -> bool {
        self.pio.has_waiting() || self.service.has_waiting() || self.rpc.has_waiting() || !self.rdma.is_idle()
    }

    /// To be told that a receive begins that programs call in loops; a poll says so itself.
    #[inline(always)]
    pub fn begin(&self) {
        self.idle.begin(&self.policy);
    }

    /// To be told whether a poll or a receive found something, by programs that call them in loops until it does: a
    /// loop that finds nothing for long gives up the core here, and later sleeps until something comes, for at most a
    /// millisecond at a time.
    #[inline]
    pub fn rest(&self, found: bool) {
        if found {
            self.idle.found();
        } else {
            self.idle.nothing(&self.policy, &*self.fabric, || self.is_ready());
        }
    }

    /// Whether a poll or a receive would find something.
    pub fn is_ready(&self) -> bool {
        self.fabric.progress();
        let waits = |port| {
            Priority::ALL
                .iter()
                .any(|priority| self.fabric.packets_waiting(port, *priority, 1) > 0)
        };
        waits(Port::JamService) || waits(Port::Jam) || self.vi.waiting()
    }
}
