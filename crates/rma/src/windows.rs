//! The windows of a process: how they are made and freed.
//!
//! Requirements of MPI-5.0 section 12.2.

use crate::memory::{Area, Given};
use crate::win::{Flavor, MODEL_UNIFIED, Member, New, Shared, Win, WinCells};
use farpost_fabric::{Access, Fabric, LocalMemory, Peer, Permission, SegmentId};
use farpost_mpi::attr::AttrSet;
use farpost_mpi::comm::Comm;
use farpost_mpi::errhandler::ErrorHandler;
use farpost_mpi::handle::{HandleKind, HandleTable};
use farpost_mpi::info::Info;
use farpost_mpi::world::{Service, World};
use farpost_mpi::{Result, error, fail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Segments of shared windows have numbers from here on.
const SEGMENTS: u32 = 0x60_0000;
const PAGE: u64 = 4096;

/// All windows of a process.
pub struct Windows<F: Fabric> {
    table: RefCell<HandleTable<Rc<Win<F>>>>,
    /// In the order of their making.
    list: RefCell<Vec<Rc<Win<F>>>>,
    segments: Cell<u32>,
}

impl<F: Fabric> Service<F> for Windows<F> {
    fn advance(&self, world: &World<F>) -> bool {
        let (mut moved, mut at) = (false, 0);
        loop {
            let win = self.list.borrow().get(at).cloned();
            let Some(win) = win else { return moved };
            moved |= win.advance(world);
            at += 1;
        }
    }

    fn requests(&self) -> Vec<usize> {
        self.list.borrow().iter().flat_map(|win| win.requests()).collect()
    }
}

/// Bytes that the host has, pages on disks included. Shared memory is given out by the page, so more than that would only be missed when it is
/// written to, by a signal.
fn host_has() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some((field("MemTotal:")? + field("SwapTotal:")?) * 1024)
}

/// Whether everybody is well; else what is wrong, which differs at who is not.
fn agreed(words: &[i64], width: usize, mine: Result<()>, what: &str) -> Result<()> {
    mine?;
    match words.chunks(width).position(|words| words[0] == 0) {
        None => Ok(()),
        Some(rank) => fail!(ERR_NO_MEM: "rank {rank} {what}"),
    }
}

impl<F: Fabric> Windows<F> {
    /// None yet; takes part in the world's progress.
    pub fn new(world: &World<F>) -> Rc<Self> {
        let windows = Rc::new(Self {
            table: RefCell::new(HandleTable::new(HandleKind::Win)),
            list: RefCell::default(),
            segments: Cell::new(0),
        });
        world.add_service(Rc::clone(&windows) as Rc<dyn Service<F>>);
        windows
    }

    /// The window of a live handle.
    pub fn get(&self, handle: usize) -> Option<Rc<Win<F>>> {
        self.table.borrow().get(handle).cloned()
    }

    /// The window that the program knows as this integer.
    pub fn from_int(&self, int: i32) -> Option<usize> {
        self.table.borrow().from_int(int)
    }

    /// Make a window of the processes of `comm`. Collective.
    ///
    /// # Errors
    /// Arguments; `MPI_ERR_NO_MEM` and `MPI_ERR_RMA_SHARED` at all members.
    pub fn make(
        &self,
        world: &World<F>,
        comm: &Rc<Comm>,
        info: Option<&Info>,
        new: New,
    ) -> Result<Rc<Win<F>>> {
        if comm.is_inter() {
            return fail!(ERR_COMM: "comm is an intercommunicator; windows need an intracommunicator");
        }
        if new.unit <= 0 && new.flavor != Flavor::Dynamic {
            return fail!(ERR_ARG: "disp_unit={}: must be positive", new.unit);
        }
        let hint = |key: &str| {
            info.and_then(|info| info.get_str(key))
                .unwrap_or("")
                .trim()
                .to_owned()
        };
        let alignment = hint("mpi_minimum_memory_alignment").parse::<usize>();
        let alignment = alignment
            .ok()
            .filter(|bytes| bytes.is_power_of_two())
            .unwrap_or(64)
            .max(64);
        let private = world.private_comm(comm)?;
        let (mut base, mut given, mut mine) = (new.base, None, Ok(()));
        let direct = comm.size() > 1 && alignment as u64 <= PAGE && self.reaches(world, comm);
        let direct = match new.flavor {
            Flavor::Allocate => {
                let words = world.gather_words(&private, &[i64::from(direct)])?;
                words.iter().all(|word| *word != 0)
            }
            flavor => flavor == Flavor::Shared,
        };
        if new.flavor == Flavor::Allocate && !direct {
            given = Given::new(new.size as u64, alignment);
            match &given {
                Some(given) => base = given.address(),
                None => {
                    mine = Err(error!(ERR_NO_MEM: "size={}: the system has not that many bytes", new.size))
                }
            }
        }
        let apart = hint("alloc_shared_noncontig") == "true";
        let words = [i64::from(mine.is_ok()), new.size, new.unit, i64::from(apart)];
        let words = world.gather_words(&private, &words)?;
        agreed(
            &words,
            4,
            mine,
            "has not enough memory for its part of the window",
        )?;
        let apart = new.flavor == Flavor::Allocate || words.chunks(4).all(|words| words[3] != 0);
        let (mut members, mut at) = (Vec::new(), 0i64);
        for words in words.chunks(4) {
            members.push(Member {
                size: words[1],
                unit: words[2],
                at,
            });
            let step = if apart {
                (words[1] as u64).div_ceil(PAGE).saturating_mul(PAGE) as i64
            } else {
                words[1]
            };
            at = at.saturating_add(step);
        }
        let shared = direct.then(|| self.share(world, &private, at)).transpose()?;
        if let Some(shared) = &shared {
            base = shared
                .base
                .wrapping_add(members[private.rank as usize].at as usize);
        }
        let area = match new.flavor {
            Flavor::Dynamic => Area::Dynamic(RefCell::default()),
            _ => Area::Fixed {
                base,
                len: new.size as u64,
            },
        };
        let win = Rc::new(Win {
            handle: Cell::new(0),
            comm: private,
            name: RefCell::default(),
            errhandler: RefCell::new(ErrorHandler::AreFatal),
            attrs: AttrSet::new(),
            info: RefCell::new(Info::new()),
            flavor: new.flavor,
            base,
            cells: Box::new(WinCells {
                size: new.size,
                unit: new.unit as i32,
                flavor: new.flavor as i32,
                model: MODEL_UNIFIED,
            }),
            area,
            members,
            shared,
            _given: given,
            epochs: RefCell::default(),
            lock: RefCell::default(),
            peers: RefCell::default(),
            served: RefCell::default(),
            pending: RefCell::default(),
            posts: RefCell::default(),
            completes: RefCell::default(),
            slots: RefCell::default(),
            flights: RefCell::default(),
            failed: RefCell::default(),
            lost: RefCell::default(),
            remote_error: Cell::new(0),
            next_id: Cell::new(0),
        });
        if let Some(info) = info {
            win.set_info(info);
        }
        win.open(world)?;
        let handle = self.table.borrow_mut().insert(Rc::clone(&win))?;
        win.handle.set(handle);
        self.list.borrow_mut().push(Rc::clone(&win));
        // Nobody uses it before all can serve it.
        win.meet(world)?;
        Ok(win)
    }

    /// Whether this process shares memory with all of `comm`.
    fn reaches(&self, world: &World<F>, comm: &Comm) -> bool {
        let fabric = world.fabric();
        let me = fabric.me().0;
        comm.local.iter().all(|pid| pid == me || fabric.maps(Peer(pid)))
    }

    /// Memory of `len` bytes, and lines of the members behind it, that all members of `comm` see, made by rank 0.
    fn share(&self, world: &World<F>, comm: &Rc<Comm>, len: i64) -> Result<Shared<F>> {
        let fabric = world.fabric();
        let far = (!self.reaches(world, comm)).then_some(());
        let number = self.segments.get();
        let id = SegmentId(SEGMENTS + number);
        let rank = comm.rank;
        let control = usize::try_from(len)
            .unwrap_or(usize::MAX - (1 << 40))
            .next_multiple_of(64);
        let len = control + crate::lines::Lines::bytes(comm.size() as usize) * comm.size() as usize;
        let mut own = None;
        let mut told = 0;
        if rank == 0 && far.is_none() && host_has().is_none_or(|bytes| len as u64 <= bytes) {
            self.segments.set((number + 1) & 0xf_ffff);
            let made = fabric.export(
                id,
                len.next_multiple_of(PAGE as usize),
                Access::Everyone(Permission::ReadWrite),
            );
            if let Ok(memory) = made {
                (own, told) = (Some((memory, id)), i64::from(id.0));
            }
        }
        let words = world.gather_words(comm, &[i64::from(far.is_none()), told])?;
        if let Some(rank) = words.chunks(2).position(|words| words[0] == 0) {
            if let Some((_, id)) = own {
                let _ = fabric.unpublish(id);
            }
            return fail!(
                ERR_RMA_SHARED: "comm: rank {rank} shares no memory with others of it: MPI_Comm_split_type with MPI_COMM_TYPE_SHARED makes one whose ranks do"
            );
        }
        if words[1] == 0 {
            return fail!(ERR_NO_MEM: "size: the system has not {len} bytes for all ranks together");
        }
        let mut import = None;
        let address = match &own {
            Some((memory, _)) => memory.address(),
            None => {
                let pid = comm.local.pid(0).unwrap_or(0);
                let id = SegmentId(words[1] as u32);
                import = fabric.import(Peer(pid), id, len, Permission::ReadWrite).ok();
                import.as_ref().and_then(F::mapped).and_then(LocalMemory::address)
            }
        };
        let words = world.gather_words(comm, &[i64::from(address.is_some())])?;
        agreed(&words, 1, Ok(()), "cannot map the window's memory")?;
        Ok(Shared {
            control: address.unwrap_or(0) + control,
            size: comm.size() as usize,
            base: address.unwrap_or(0),
            own,
            _import: import,
        })
    }

    /// `MPI_Win_free`. Collective: it waits for all members.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`: inside an epoch. What an attribute's delete callback returned.
    pub fn free(&self, world: &World<F>, win: &Rc<Win<F>>) -> Result<()> {
        win.epochs.borrow().free()?;
        win.check()?;
        win.meet(world)?;
        win.attrs.delete_all(win.handle.get())?;
        win.close(world)?;
        self.list.borrow_mut().retain(|other| !Rc::ptr_eq(other, win));
        self.table.borrow_mut().remove(win.handle.get());
        world.remove_comm(&win.comm);
        if let Some(Shared {
            own: Some((_, id)), ..
        }) = &win.shared
        {
            let _ = world.fabric().unpublish(*id);
        }
        Ok(())
    }
}
