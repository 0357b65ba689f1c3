//! An interpreter of generated programs over worlds in one thread. Each thread of a rank is a coroutine that calls the world's
//! blocking functions: where these would wait, another one runs, which a seed chooses.

use super::memory::Buffer;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use farpost_fabric::Fabric;
use farpost_fabric::wait::Pause;
use farpost_generate::program::{Data, Instr, Mode, Part, Program, Style, Values};
use farpost_generate::types::Build;
use farpost_generate::values::{GUARD, pattern};
use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::comm::Attached;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p;
use farpost_mpi::world::{PersistentSpec, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Turns that a program may take.
const TURNS: u64 = 200_000;

thread_local! {
    /// Of the coroutine that runs.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// Let others run.
pub fn pause() {
    let yielder = YIELDER.get();
    if !yielder.is_null() {
        // SAFETY: the scheduler sets it before it resumes the coroutine that the yielder belongs to, and to null afterwards.
        unsafe { (*yielder).suspend(()) };
    }
}

fn relax(_: Pause) -> bool {
    pause();
    true
}

#[derive(Clone, Copy, Default)]
struct Req {
    handle: usize,
    slot: Option<usize>,
    done: bool,
    cancelled: bool,
    truncates: bool,
    persistent: bool,
}

/// One rank: its world, and what the program's numbers stand for.
pub struct Rank<F: Fabric> {
    pub world: World<F>,
    pub program: Rc<Program>,
    pub types: Vec<Datatype>,
    /// Handles: a communicator that is made without waiting is another value when it is there.
    comms: RefCell<Vec<Option<usize>>>,
    buffers: RefCell<Vec<Option<Buffer>>>,
    reqs: RefCell<Vec<Req>>,
    pub statuses: RefCell<Vec<Status>>,
    /// What its threads do, for who wants to know where they hang.
    doing: RefCell<Vec<String>>,
    begun: Cell<bool>,
    ended: Cell<usize>,
}

impl<F: Fabric> Drop for Rank<F> {
    fn drop(&mut self) {
        self.world.set_relax(None);
    }
}

impl<F: Fabric + 'static> Rank<F> {
    pub fn new(world: World<F>, program: &Rc<Program>) -> Self {
        world.set_relax(Some(relax));
        Self {
            types: types_of(program),
            comms: RefCell::new(vec![None; program.comms]),
            buffers: RefCell::new((0..program.bufs).map(|_| None).collect()),
            reqs: RefCell::new(vec![Req::default(); program.reqs]),
            statuses: RefCell::new(vec![Status::EMPTY; program.slots]),
            doing: RefCell::new(vec![String::new(); program.threads]),
            begun: Cell::new(false),
            ended: Cell::new(0),
            program: Rc::clone(program),
            world,
        }
    }

    pub fn comm(&self, comm: usize) -> Rc<Comm> {
        let handle = self.comms.borrow()[comm].expect("a communicator that was made");
        self.world.comm(handle).expect("a live handle")
    }

    pub fn set_comm(&self, at: usize, comm: &Comm) {
        self.comms.borrow_mut()[at] = Some(comm.handle.get());
    }

    pub fn address(&self, buf: usize) -> *mut u8 {
        self.buffers.borrow()[buf].as_ref().expect("a buffer").start()
    }

    /// A type that nobody has beside the call, or the program's.
    pub fn type_of(&self, data: &Data) -> Datatype {
        match data.brief {
            true => self.types[data.ty].dup().expect("a duplicate"),
            false => self.types[data.ty].clone(),
        }
    }

    pub fn send_buf(&self, data: &Data) -> SendBuf {
        // SAFETY: buffers stay until the program is over, and programs leave them alone until operations are.
        unsafe { SendBuf::new(self.address(data.buf), data.count, self.type_of(data)) }
    }

    pub fn recv_buf(&self, data: &Data) -> RecvBuf {
        // SAFETY: as above.
        unsafe { RecvBuf::new(self.address(data.buf), data.count, self.type_of(data)) }
    }

    /// Thread `thread`'s whole part.
    fn play(&self, thread: usize) {
        let code = self
            .program
            .code
            .iter()
            .find(|c| (c.rank, c.thread) == (self.world.pid() as usize, thread))
            .expect("code");
        if thread == 0 {
            let automatic = Attached::new(0, 0, true);
            self.world
                .attach_buffer(self.world.process_buffer(), automatic)
                .expect("a buffer");
            let all = self
                .world
                .comm_dup(self.world.comm_world(), None)
                .expect("a duplicate");
            self.set_comm(0, &all);
            self.list(thread, &code.before);
            self.begun.set(true);
        }
        while !self.begun.get() {
            pause();
        }
        self.list(thread, &code.body);
        self.ended.set(self.ended.get() + 1);
        if thread == 0 {
            while self.ended.get() < self.program.threads {
                pause();
            }
            self.list(thread, &code.after);
            self.world
                .detach_buffer(self.world.process_buffer())
                .expect("the buffer");
            let all = self.comm(0);
            self.world.comm_free(&all).expect("freed");
            let sound = self.buffers.borrow().iter().flatten().all(Buffer::is_sound);
            assert!(
                sound,
                "rank {}: memory around a buffer was written",
                self.world.pid()
            );
        }
        self.doing.borrow_mut()[thread].clear();
    }

    fn list(&self, thread: usize, list: &[Instr]) {
        for instr in list {
            let mut text = format!("{instr:?}");
            text.truncate(300);
            self.doing.borrow_mut()[thread] = text;
            self.step(instr);
        }
    }

    pub fn expect<T>(&self, result: farpost_mpi::Result<T>) -> T {
        result.unwrap_or_else(|e| self.fail(&e.to_string()))
    }

    pub fn fail(&self, text: &str) -> ! {
        panic!(
            "rank {}: {text}\n{}",
            self.world.pid(),
            self.doing.borrow().join("\n")
        )
    }

    fn step(&self, instr: &Instr) {
        let world = &self.world;
        match instr {
            Instr::Make(making) => self.make(making),
            Instr::FreeComm { comm, disconnect } => {
                let (at, comm) = (*comm, self.comm(*comm));
                self.comms.borrow_mut()[at] = None;
                let done = if *disconnect {
                    world.comm_disconnect(&comm)
                } else {
                    world.comm_free(&comm)
                };
                self.expect(done);
            }
            Instr::Room { buf, len } => {
                let skew = farpost_generate::program::skew(self.program.seed, *buf);
                self.buffers.borrow_mut()[*buf] = Some(Buffer::new(*len, skew));
            }
            Instr::Clear { buf, .. } => self.memory(*buf, |bytes| bytes.fill(GUARD)),
            Instr::Place { buf, part } => self.memory(*buf, |bytes| self.place(bytes, part)),
            Instr::PutNumbers { buf, values, id } => self.memory(*buf, |bytes| {
                let Values {
                    at,
                    numbers,
                    first,
                    n,
                    who,
                } = values;
                let values = (*first..first + n).flat_map(|i| numbers.bytes(numbers.value(*id, who[0], i)));
                put_bytes(bytes, *at, values);
            }),
            Instr::Send(send) => {
                let (comm, buf) = (self.comm(send.comm), self.send_buf(&send.data));
                let (to, tag) = (send.to, send.tag);
                self.expect(match send.mode {
                    Mode::Buffered => world.bsend(&comm, &buf, to, tag),
                    mode => world.send(&comm, &buf, to, tag, mode_of(mode)),
                });
            }
            Instr::StartSend { send, req, init } => {
                let (comm, buf) = (self.comm(send.comm), self.send_buf(&send.data));
                let (dest, tag) = (send.to, send.tag);
                let handle = self.expect(match (init, send.mode) {
                    (true, Mode::Buffered) => {
                        world.persistent(PersistentSpec::BufferedSend { comm, buf, dest, tag })
                    }
                    (true, mode) => {
                        let mode = mode_of(mode);
                        world.persistent(PersistentSpec::Send {
                            comm,
                            buf,
                            dest,
                            tag,
                            mode,
                        })
                    }
                    (false, Mode::Buffered) => world.ibsend(&comm, &buf, dest, tag),
                    (false, mode) => world.isend(&comm, &buf, dest, tag, mode_of(mode)),
                });
                self.new_req(*req, handle, None, *init, false);
            }
            Instr::Recv(wanted) => self.receive(wanted, wanted.from, wanted.tag),
            Instr::StartRecv { wanted, req, init } => {
                let (comm, buf) = (self.comm(wanted.comm), self.recv_buf(&wanted.data));
                let (source, tag) = (wanted.from, wanted.tag);
                let handle = self.expect(match init {
                    true => world.persistent(PersistentSpec::Recv {
                        comm,
                        buf,
                        source,
                        tag,
                    }),
                    false => world.irecv(&comm, buf, source, tag),
                });
                self.new_req(*req, handle, Some(wanted.slot), *init, wanted.truncated);
            }
            Instr::LookRecv { look, wanted, req } => self.look(*look, wanted, *req),
            Instr::Swap { swap, send, wanted } => self.swap(*swap, send, wanted),
            Instr::Start(reqs) => {
                for req in reqs {
                    self.reqs.borrow_mut()[*req].done = false;
                    self.expect(world.start(self.req(*req).handle));
                }
            }
            Instr::Release(req) => {
                let entry = self.req(*req);
                // One that was looked at may be complete, and gone.
                if entry.persistent || !entry.done {
                    self.expect(world.free_request(entry.handle));
                }
            }
            Instr::Complete { style, reqs } => self.complete(*style, reqs),
            Instr::Poke { reqs, .. } => reqs.iter().for_each(|req| _ = self.try_take(*req)),
            Instr::Cancel(req) => {
                let req = self.req(*req);
                if !req.done {
                    self.expect(world.cancel(req.handle));
                }
            }
            Instr::MustBeCancelled(req) => {
                if !self.req(*req).cancelled {
                    self.fail("a receive that nobody sends to was not cancelled");
                }
            }
            Instr::RecvIfCancelled { req, wanted } => {
                if self.req(*req).cancelled {
                    self.receive(wanted, wanted.from, wanted.tag);
                }
            }
            Instr::Coll { call, how } => self.collective(call, *how),
            Instr::CheckPool(check) => self.check_pool(check),
            Instr::Expect {
                buf,
                len,
                parts,
                name,
            } => {
                let mut want = vec![GUARD; *len as usize];
                parts.iter().for_each(|part| self.place(&mut want, part));
                self.same(name, *buf, &want);
            }
            Instr::ExpectNumbers {
                buf,
                len,
                values,
                id,
                name,
            } => {
                let Values {
                    at,
                    numbers,
                    first,
                    n,
                    who,
                } = values;
                let mut want = vec![GUARD; *len as usize];
                let values = (*first..first + n).flat_map(|i| numbers.bytes(numbers.reduced(*id, who, i)));
                put_bytes(&mut want, *at, values);
                self.same(name, *buf, &want);
            }
            Instr::Sleep { us } => (0..us / 10).for_each(|_| pause()),
        }
    }

    fn memory<R>(&self, buf: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        self.buffers.borrow()[buf]
            .as_ref()
            .expect("a buffer")
            .with(use_it)
    }

    /// Put the first `bytes` of pattern `id` where elements of type `ty` have theirs.
    pub fn place_bytes(&self, to: &mut [u8], ty: usize, bytes: u64, id: u32) {
        let ty = self.program.types.get(ty);
        let runs = (0..).flat_map(|i| ty.segs.iter().map(move |(at, len)| (i * ty.extent() + at, *len)));
        let mut k = 0;
        for (at, len) in runs {
            if k == bytes {
                return;
            }
            for byte in at..at + len.min(bytes - k) {
                to[byte as usize] = pattern(id, k);
                k += 1;
            }
        }
    }

    fn place(&self, to: &mut [u8], part: &Part) {
        let bytes = self.program.types.get(part.ty).size * part.count;
        let at = part.at.min(to.len() as u64) as usize;
        self.place_bytes(&mut to[at..], part.ty, bytes, part.id);
    }

    pub fn same(&self, name: &str, buf: usize, want: &[u8]) {
        self.memory(buf, |have| {
            if let Some(at) = (0..want.len()).find(|at| have[*at] != want[*at]) {
                let wrong = (0..want.len()).filter(|at| have[*at] != want[*at]).count();
                let (h, w) = (have[at], want[at]);
                self.fail(&format!(
                    "{name}: byte {at} of {} is {h:#x}, expected {w:#x} ({wrong} wrong)",
                    want.len()
                ));
            }
        });
    }

    // --- requests ---

    fn req(&self, req: usize) -> Req {
        self.reqs.borrow()[req]
    }

    pub fn new_req(&self, req: usize, handle: usize, slot: Option<usize>, inactive: bool, truncates: bool) {
        let cancelled = false;
        self.reqs.borrow_mut()[req] = Req {
            handle,
            slot,
            done: inactive,
            cancelled,
            truncates,
            persistent: inactive,
        };
    }

    pub fn must_be(&self, status: &Status, truncates: bool) {
        let error = status.error.as_ref().map(|e| e.class);
        let wanted = truncates.then_some(ErrorClass::ERR_TRUNCATE);
        if error != wanted {
            self.fail(&format!("status {status:?}, expected error {wanted:?}"));
        }
    }

    fn took(&self, req: usize, status: Status) {
        let mut reqs = self.reqs.borrow_mut();
        let entry = &mut reqs[req];
        entry.done = true;
        entry.cancelled = status.cancelled;
        let (truncates, slot) = (entry.truncates, entry.slot);
        drop(reqs);
        self.must_be(&status, truncates);
        if let Some(slot) = slot {
            self.statuses.borrow_mut()[slot] = status;
        }
    }

    /// Take its result if it is complete.
    fn try_take(&self, req: usize) -> bool {
        let entry = self.req(req);
        if entry.done {
            return true;
        }
        let there = self.expect(self.world.test(entry.handle));
        self.world.looked(there);
        if there {
            let (status, _) = self.expect(self.world.finish(entry.handle));
            self.took(req, status);
        }
        there
    }

    fn complete(&self, style: Style, reqs: &[usize]) {
        match style {
            Style::Wait | Style::Waitall => {
                for req in reqs {
                    let entry = self.req(*req);
                    if !entry.done {
                        let status = self.expect(self.world.wait(entry.handle));
                        self.took(*req, status);
                    }
                }
            }
            Style::GetStatus => {
                for req in reqs {
                    let entry = self.req(*req);
                    while !entry.done && !self.expect(self.world.test(entry.handle)) {
                        pause();
                    }
                    if !entry.done {
                        self.expect(self.world.peek_status(entry.handle));
                        assert!(self.try_take(*req), "complete, and then not");
                    }
                }
            }
            // One after the other of those that are complete.
            _ => {
                while reqs.iter().filter(|req| !self.try_take(**req)).count() > 0 {
                    pause();
                }
            }
        }
    }
}

fn put_bytes(to: &mut [u8], at: u64, values: impl Iterator<Item = u8>) {
    let bytes = to[at as usize..].iter_mut();
    bytes.zip(values).for_each(|(byte, value)| *byte = value);
}

fn mode_of(mode: Mode) -> p2p::Mode {
    match mode {
        Mode::Synchronous => p2p::Mode::Synchronous,
        _ => p2p::Mode::Standard,
    }
}

fn types_of(program: &Program) -> Vec<Datatype> {
    let signed = |list: &[u64]| list.iter().map(|v| *v as i64).collect::<Vec<_>>();
    let mut types: Vec<Datatype> = Vec::new();
    for ty in &program.types.all {
        let made = match &ty.build {
            Build::Basic(kind) => Ok(Datatype::predefined(kind.abi()).expect("a basic type")),
            Build::Contiguous { count, of } => Datatype::contiguous(*count as i64, &types[*of]),
            Build::Vector {
                count,
                len,
                stride,
                of,
            } => Datatype::vector(*count as i64, *len as i64, *stride as i64, &types[*of]),
            Build::Hvector {
                count,
                len,
                stride,
                of,
            } => Datatype::hvector(*count as i64, *len as i64, *stride as i64, &types[*of]),
            Build::Indexed { lens, displs, of } => {
                Datatype::indexed(&signed(lens), &signed(displs), &types[*of])
            }
            Build::Hindexed { lens, displs, of } => {
                Datatype::hindexed(&signed(lens), &signed(displs), &types[*of])
            }
            Build::IndexedBlock { len, displs, of } => {
                Datatype::indexed_block(*len as i64, &signed(displs), &types[*of])
            }
            Build::Struct { lens, displs, of } => {
                let of: Vec<Datatype> = of.iter().map(|of| types[*of].clone()).collect();
                Datatype::structure(&signed(lens), &signed(displs), &of)
            }
            Build::Resized { extent, of } => Datatype::resized(&types[*of], 0, *extent as i64),
            Build::Subarray {
                sizes,
                part,
                start,
                of,
            } => {
                // MPI_ORDER_C
                const ORDER_C: i32 = 0xC;
                Datatype::subarray(
                    &signed(sizes),
                    &signed(part),
                    &signed(start),
                    ORDER_C,
                    &types[*of],
                )
            }
            Build::Dup { of } => types[*of].dup(),
        };
        let made = made.expect("a legal type");
        made.commit();
        types.push(made);
    }
    types
}

/// Run a program to its end. `step` lets time pass. `Err`: who waits for what when nothing ends.
pub fn run<F: Fabric + 'static>(
    worlds: Vec<World<F>>,
    program: Program,
    step: &dyn Fn(),
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let program = Rc::new(program);
    let ranks: Vec<Rc<Rank<F>>> = worlds
        .into_iter()
        .map(|world| Rc::new(Rank::new(world, &program)))
        .collect();
    struct Thread {
        rank: usize,
        coroutine: Coroutine<(), (), ()>,
        yielder: Rc<Cell<*const Yielder<(), ()>>>,
    }
    let mut threads: Vec<Thread> = Vec::new();
    for (at, rank) in ranks.iter().enumerate() {
        for thread in 0..program.threads {
            let yielder: Rc<Cell<*const Yielder<(), ()>>> = Rc::new(Cell::new(std::ptr::null()));
            let (rank, told) = (Rc::clone(rank), Rc::clone(&yielder));
            let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                told.set(yielder);
                YIELDER.set(yielder);
                rank.play(thread);
            });
            threads.push(Thread {
                rank: at,
                coroutine,
                yielder,
            });
        }
    }
    let mut turns = 0;
    while threads.iter().any(|t| !t.coroutine.done()) {
        let at = rng.usize(0..threads.len());
        let thread = &mut threads[at];
        if thread.coroutine.done() {
            // As MPI_Finalize does.
            ranks[thread.rank].world.progress();
        } else {
            // Some turns in a row, as a scheduler gives.
            for _ in 0..rng.u32(1..6) {
                YIELDER.set(thread.yielder.get());
                let over = matches!(thread.coroutine.resume(()), CoroutineResult::Return(()));
                YIELDER.set(std::ptr::null());
                if over {
                    break;
                }
            }
        }
        for _ in 0..rng.u32(0..4) {
            step();
        }
        turns += 1;
        if turns > TURNS {
            let each = ranks
                .iter()
                .enumerate()
                .map(|(n, rank)| format!("rank {n}: {}", rank.doing.borrow().join(" | ")));
            let text = each.collect::<Vec<_>>().join("\n");
            // Coroutines in the middle of calls cannot be dropped while the worlds that they use go.
            std::mem::forget(threads);
            return Err(format!("no end after {turns} turns\n{text}"));
        }
    }
    drop(threads);
    for rank in &ranks {
        let faults = rank.world.take_faults();
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
    }
    Ok(())
}
