//! One process's interface: its FIFOs, rings, block transfers and procedures.

use crate::faults::Faults;
use crate::leftover::{Leftover, Tended};
use crate::message::{Message, Service};
use crate::pio::{Pio, Status};
use crate::rdma::{FailedCall, Rdma};
use crate::region::{Armed, Region, Regions};
use crate::rpc::{CallRoute, Rpc};
use crate::vi::{Batch, Vi};
use crate::{Header, JamError, JamTunables};
use farpost_fabric::wait::{Idle, WaitPolicy, WaitTunables};
use farpost_fabric::{Cost, Counter, Fabric, Fault, Peer, Port, Priority, Wake, Work};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

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
    regions: Regions,
    rpc: Rpc<Procedure<F>>,
    depth: Cell<u32>,
    faults: Rc<Faults<F>>,
    leftover: Rc<Leftover>,
    idle: Idle,
    policy: WaitPolicy,
}

impl<F: Fabric> Jam<F> {
    /// JAM on `fabric`.
    pub fn new(fabric: Rc<F>, tunables: &JamTunables, wait: &WaitTunables) -> Self {
        let faults = Faults::new(Rc::clone(&fabric));
        let leftover = Rc::new(Leftover::default());
        let told = || (Rc::clone(&faults), Rc::clone(&leftover));
        Self {
            idle: Idle::default(),
            policy: WaitPolicy::of(wait, &*fabric),
            pio: Pio::telling(told(), Rc::clone(&fabric), Port::Jam),
            service: Pio::telling(told(), Rc::clone(&fabric), Port::JamService),
            rdma: Rdma::new(told(), Rc::clone(&fabric), tunables),
            vi: Vi::new(Rc::clone(&faults), Rc::clone(&fabric), tunables.vi_ring),
            regions: Regions::default(),
            rpc: Rpc::new(fabric.me(), tunables.rpc_rdma),
            depth: Cell::new(0),
            faults,
            leftover,
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
        self.pio.send(header, payload)?;
        self.count_sent(header.to, 1, size_of_val(payload));
        Ok(())
    }

    /// Messages or calls of the user's, for who watches.
    #[inline(always)]
    fn count_sent(&self, to: Peer, messages: usize, bytes: usize) {
        self.fabric.count(to, Counter::Sent, messages as u64);
        self.fabric.count(to, Counter::SentBytes, bytes as u64);
    }

    #[inline(always)]
    fn count_received(&self, from: Peer, bytes: usize) {
        self.fabric.count(from, Counter::Received, 1);
        self.fabric.count(from, Counter::ReceivedBytes, bytes as u64);
    }

    /// The next message of one priority. While blocks are on their way this polls; while one comes here, there is none of high priority.
    #[inline]
    pub fn receive(&self, priority: Priority) -> Option<Message> {
        let mut taken = None;
        while taken.is_none()
            && self.receive_in_place(priority, |from, tag, payload| {
                self.fabric.charge(Cost::Copy(payload.len()));
                taken = Some(Message::of(from, priority, tag, payload));
            })
        {}
        taken
    }

    /// As [`receive`](Self::receive), where it lies: see [`Pio::receive_in_place`].
    #[inline]
    pub fn receive_in_place(&self, priority: Priority, mut take: impl FnMut(Peer, u32, &[u8])) -> bool {
        if (self.rdma.is_busy() | self.regions.is_armed()) && self.is_elsewhere(priority) {
            return false;
        }
        self.fabric.progress();
        self.pio.launch();
        self.pio.receive_in_place(
            priority,
            #[inline(always)]
            |from, tag, payload| {
                self.count_received(from, payload.len());
                take(from, tag, payload);
            },
        )
    }

    /// Whether messages of this priority wait until a block has come, or go to a region.
    #[cold]
    fn is_elsewhere(&self, priority: Priority) -> bool {
        if self.rdma.is_busy() {
            // Who only receives would keep the block's owner waiting, and thereby itself.
            self.poll();
        }
        self.deposit();
        priority == Priority::High && (self.rdma.is_owned() || self.regions.is_armed())
    }

    /// Arm a receive region: from now on, messages of high priority and those of batches are deposited there, behind what was armed before,
    /// until it is exhausted.
    ///
    /// # Errors
    /// It is too short.
    pub fn arm(&self, region: Region) -> Result<Armed, JamError> {
        self.regions.arm(region)
    }

    /// Deposit what has come in the regions that are armed, and run nothing: what somebody may do for a program that computes. True: there
    /// was something.
    pub fn deposit(&self) -> bool {
        let has_room = || self.regions.is_armed() && !self.rdma.is_owned();
        let mut any = false;
        if !has_room() {
            return any;
        }
        self.fabric.progress();
        self.pio.launch();
        while has_room()
            && self.pio.receive_in_place(Priority::High, |from, tag, payload| {
                self.fabric.charge(Cost::Copy(payload.len()));
                self.count_received(from, payload.len());
                self.regions.deposit(from, tag, payload);
                any = true;
            })
        {}
        let mut ring = 0;
        while has_room()
            && self
                .vi
                .receive_bytes(&self.service, &mut ring, |from, tag, payload| {
                    self.fabric.charge(Cost::Copy(payload.len()));
                    self.count_received(from, payload.len());
                    self.regions.deposit(from, tag, payload);
                })
        {
            any = true;
        }
        any
    }

    /// To be told, in the middle of a call, when one leaves something behind that has yet to go out: [`tend`](Self::tend) does that while the
    /// program computes.
    pub fn set_left_over(&self, tell: Option<fn()>) {
        self.leftover.set(tell);
    }

    /// What the network's side does while the program computes and calls nothing, for who has a thread for that: what calls have left behind goes out
    /// as far as there is room, and what peers answer about blocks is taken in. Runs no procedure.
    pub fn tend(&self) -> Tended {
        if !(self.pio.has_waiting()
            || self.service.has_waiting()
            || self.rpc.is_held_up()
            || self.rdma.is_busy())
        {
            return Tended::Nothing;
        }
        self.fabric.progress();
        let mut moved = self.pio.launch();
        moved |= self.service.launch();
        moved |= self.rpc.push(&self.service);
        for _ in 0..AT_ONCE {
            let any = self
                .service
                .take_in_place(Priority::High, |from, service, tag, payload| {
                    if service == Service::Rpc as u8 {
                        // Calls are of low priority, and run in the program's own polls.
                        self.service
                            .refuse(from, "the priority of a call", Priority::High as u64);
                    } else {
                        self.dispatch(Priority::High, from, service, tag, payload);
                    }
                });
            if !any {
                break;
            }
            moved = true;
        }
        moved |= self.rdma.serve(&self.service);
        let held_up = || {
            self.pio.has_waiting()
                || self.service.has_waiting()
                || self.rpc.is_held_up()
                || self.rdma.looks_again()
        };
        match (moved, held_up()) {
            (true, _) => Tended::Moved,
            (_, true) => Tended::Waits,
            _ => Tended::Nothing,
        }
    }

    /// The next message that was deposited and not taken by this, in the order of the depositing.
    pub fn take_deposited(&self) -> Option<Message> {
        self.deposit();
        self.regions.take()
    }

    /// The oldest region that is exhausted and whose messages [`take_deposited`](Self::take_deposited) has all taken: it is not armed any more.
    pub fn exhausted(&self) -> Option<(Armed, Region)> {
        self.regions.exhausted()
    }

    /// Take a region back, with what it holds: so many bytes of messages. None: it is not armed any more.
    pub fn disarm(&self, region: Armed) -> Option<(Region, usize)> {
        self.regions.disarm(region)
    }

    /// Sleep until something comes for this process, at most `longest`. Whether there is something: it is then to be polled for or received.
    pub fn sleep(&self, longest: Duration) -> bool {
        self.fabric.sleep(longest, &mut || self.is_ready()) == Wake::Ready || self.is_ready()
    }

    /// The status word of the FIFOs.
    pub fn status(&self) -> Status {
        self.fabric.progress();
        self.pio.status(self.rdma.is_owned())
    }

    /// Launch a batch: see [`Vi::doorbell`].
    ///
    /// # Errors
    /// The batch is longer than half the ring, the receiver does not exist or has ended.
    pub fn doorbell(&self, batch: &mut Batch) -> Result<bool, JamError> {
        let (to, messages, bytes) = batch.amount();
        let rung = self.vi.doorbell(&self.service, batch)?;
        if rung {
            self.count_sent(to, messages, bytes);
        }
        Ok(rung)
    }

    /// Hand messages of batches to `take`: see [`Vi::receive`].
    pub fn receive_batches(&self, most: usize, mut take: impl FnMut(Peer, u32, &[u32])) -> usize {
        if (self.rdma.is_busy() | self.regions.is_armed()) && self.is_elsewhere(Priority::High) {
            return 0;
        }
        self.vi.receive(&self.service, most, |from, tag, words| {
            self.count_received(from, size_of_val(words));
            take(from, tag, words);
        })
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
        self.rpc.start(&self.service, &self.rdma, to, number, argument)?;
        self.count_sent(to, 1, argument.len());
        Ok(())
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
        let call = |procedure: Procedure<F>, from, argument: &[u8]| {
            self.count_received(from, argument.len());
            procedure(self, from, argument);
        };
        ran += self.rpc.run_others(&self.service, &self.rdma, call);
        if self.regions.is_armed() {
            moved |= self.deposit();
        }
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
                let call = |procedure: Procedure<F>, argument: &[u8]| {
                    self.count_received(from, argument.len());
                    procedure(self, from, argument);
                };
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

    /// Calls that ran here, by the way they came.
    pub fn calls_by(&self, way: CallRoute) -> u64 {
        self.rpc.calls_by(way)
    }

    /// The oldest call of this process's that did not run there and was not told yet: see [`Rdma::failed_call`].
    pub fn failed_call(&self) -> Option<FailedCall> {
        self.rdma.failed_call()
    }

    /// Whether something of this process's waits to go out: before leaving, poll until it does not.
    pub fn has_waiting(&self) -> bool {
        self.pio.has_waiting()
            || self.service.has_waiting()
            || self.rpc.has_waiting()
            || self.rdma.has_waiting()
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
        let waits = |port, priority| self.fabric.packets_waiting(port, priority, 1) > 0;
        Priority::ALL
            .into_iter()
            .any(|priority| waits(Port::JamService, priority))
            || waits(Port::Jam, Priority::Low)
            || !self.rdma.is_owned() && (waits(Port::Jam, Priority::High) || self.vi.waiting())
    }
}
