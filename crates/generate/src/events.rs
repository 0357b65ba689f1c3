//! Events, of which programs are made.

use crate::comms::Comm;
use crate::program::{Actor, Data, Instr, Part};
use crate::types::{TypeKind, Types, Unit};
use strum::VariantArray;

/// A place in the order of all calls of a program: calls at one base come in the order of events, then completions, then checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub base: u32,
    pub event: u32,
    pub sub: u32,
}

/// Behind all events of a base.
pub const COMPLETIONS: u32 = u32::MAX - 1;
pub const CHECKS: u32 = u32::MAX;
/// Behind all bases: each rank's first thread is alone again.
pub const END: u32 = 1_000_000;

#[derive(Clone, Debug)]
pub enum Item {
    Do(Instr),
    /// This request is completed, in whichever way.
    Complete(usize),
}

/// A thing that happens between ranks, with all its calls. Leaving it out leaves a legal program, if those go that use the
/// communicators that it makes.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub name: String,
    pub items: Vec<(Place, Actor, Item)>,
    pub makes: Vec<usize>,
    pub uses: Vec<usize>,
}

/// What programs are to be like.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub ranks: usize,
    /// Events, at most.
    pub events: u32,
    /// Threads of a rank, at most.
    pub threads: usize,
    /// Bytes of one message, and of all messages of a program.
    pub message: u64,
    pub bytes: u64,
    /// Whether ranks may be held up in real time.
    pub sleeps: bool,
    /// Without what other libraries get wrong, so that a program that fails there is one to look at: `MPI_Request_get_status` of
    /// persistent receives (MPICH 5.0 loses the status), structures whose elements do not ascend (signatures of parts), persistent
    /// collectives that each rank starts in an order of its own.
    pub for_others: bool,
}

impl Limits {
    pub fn of(ranks: usize) -> Self {
        Self {
            ranks,
            // The more ranks, the more calls an event has.
            events: 44 / ranks as u32 + 14,
            threads: 3,
            message: (1 << 20) + 1,
            bytes: 6 << 20,
            sleeps: true,
            for_others: false,
        }
    }
}

/// A program before it is sorted by ranks.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub ranks: usize,
    pub threads: usize,
    pub types: Types,
    pub events: Vec<Event>,
    pub comms: usize,
    pub bufs: usize,
    pub reqs: usize,
    pub slots: usize,
    /// Requests are completed by `MPI_Wait` alone, and nothing is tested.
    pub plain: bool,
    /// No `MPI_Request_get_status`.
    pub no_get_status: bool,
}

/// The generator's state.
pub struct Gen {
    pub rng: fastrand::Rng,
    pub limits: Limits,
    pub plan: Plan,
    pub comms: Vec<Comm>,
    pub event: Event,
    pub next_id: u32,
    sub: u32,
    bytes: u64,
}

/// Sizes about which protocols change, and some others.
const SIZES: [u64; 58] = [
    0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 39, 40, 41, 48, 55, 56, 57, 63, 64, 65, 83, 84, 85, 127, 128, 129, 175,
    176, 177, 263, 264, 265, 431, 432, 433, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 4098, 8191,
    8192, 8193, 16383, 16384, 16385, 32767, 32768, 32769, 40000, 65535, 65536, 65537,
];
const LARGE: [u64; 14] = [
    100_000, 131_071, 131_072, 131_073, 200_000, 262_143, 262_144, 262_145, 524_287, 524_288, 524_289,
    1_048_575, 1_048_576, 1_048_577,
];

impl Gen {
    pub fn new(seed: u64, limits: Limits) -> Self {
        let mut rng =
            fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ limits.ranks as u64);
        let threads = if rng.u32(0..4) == 0 {
            rng.usize(1..=limits.threads)
        } else {
            1
        };
        Self {
            plan: Plan {
                seed,
                ranks: limits.ranks,
                threads,
                types: Types {
                    ascending: limits.for_others,
                    ..Types::default()
                },
                events: Vec::new(),
                comms: 0,
                bufs: 0,
                reqs: 0,
                slots: 0,
                plain: false,
                no_get_status: limits.for_others,
            },
            rng,
            limits,
            comms: Vec::new(),
            event: Event::default(),
            next_id: 1,
            sub: 0,
            bytes: 0,
        }
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// A size in bytes; `copies` of it are wanted.
    pub fn size(&mut self, copies: u64) -> u64 {
        let size = match self.rng.u32(0..100) {
            0..45 => SIZES[self.rng.usize(0..32)],
            45..80 => SIZES[self.rng.usize(0..SIZES.len())],
            80..92 => self.rng.u64(0..3000),
            92..97 => self.rng.u64(0..70_000),
            _ => LARGE[self.rng.usize(0..LARGE.len())],
        };
        let left = self.limits.bytes.saturating_sub(self.bytes) / copies.max(1);
        let size = size.min(self.limits.message).min(left.max(41));
        self.bytes += size * copies;
        size
    }

    pub fn unit(&mut self) -> Unit {
        match self.rng.u32(0..10) {
            0..5 => Unit::Of(TypeKind::Byte),
            5 => Unit::Pair,
            _ => Unit::Of(TypeKind::VARIANTS[self.rng.usize(0..TypeKind::VARIANTS.len())]),
        }
    }

    pub fn new_buf(&mut self) -> usize {
        self.plan.bufs += 1;
        self.plan.bufs - 1
    }

    pub fn new_req(&mut self) -> usize {
        self.plan.reqs += 1;
        self.plan.reqs - 1
    }

    pub fn new_slot(&mut self) -> usize {
        self.plan.slots += 1;
        self.plan.slots - 1
    }

    pub fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub fn any_thread(&mut self, rank: usize) -> Actor {
        let thread = self.rng.usize(0..self.plan.threads);
        Actor { rank, thread }
    }

    pub fn owner(&self, comm: usize, rank: usize) -> Actor {
        Actor {
            rank,
            thread: self.comms[comm].owner[&rank],
        }
    }

    /// This event's call at `base`. Calls of one event at one base stand in the order in which this is called.
    pub fn at(&mut self, base: u32, actor: Actor, instr: Instr) {
        let instr = instr.keeping_types();
        self.sub += 1;
        let place = Place {
            base,
            event: self.plan.events.len() as u32,
            sub: self.sub,
        };
        self.event.items.push((place, actor, Item::Do(instr)));
    }

    pub fn complete(&mut self, base: u32, actor: Actor, req: usize) {
        self.sub += 1;
        let place = Place {
            base,
            event: COMPLETIONS,
            sub: req as u32,
        };
        self.event.items.push((place, actor, Item::Complete(req)));
    }

    pub fn check(&mut self, base: u32, actor: Actor, instr: Instr) {
        self.sub += 1;
        let place = Place {
            base,
            event: CHECKS,
            sub: (self.plan.events.len() as u32) << 12 | self.sub & 0xfff,
        };
        self.event.items.push((place, actor, Item::Do(instr)));
    }

    /// The communicator is used up to `base`.
    pub fn uses(&mut self, comm: usize, base: u32) {
        self.comms[comm].last = self.comms[comm].last.max(base);
        if !self.event.uses.contains(&comm) {
            self.event.uses.push(comm);
        }
    }

    pub fn end_event(&mut self, name: String) {
        let mut event = std::mem::take(&mut self.event);
        event.name = name;
        self.plan.events.push(event);
        self.sub = 0;
    }

    /// A buffer for `n` units laid out at random, filled with pattern `id` or empty.
    pub fn data(&mut self, base: u32, actor: Actor, unit: Unit, n: u64, id: Option<u32>) -> (Data, u64) {
        let (ty, count) = self.plan.types.pick(unit, n, &mut self.rng);
        let len = self.plan.types.get(ty).span(count) + self.rng.u64(0..2) * 8;
        let buf = self.new_buf();
        self.at(base, actor, Instr::Room { buf, len });
        if let Some(id) = id {
            let part = Part { at: 0, ty, count, id };
            self.at(base, actor, Instr::Place { buf, part });
        }
        let brief = self.chance(12);
        (
            Data {
                buf,
                ty,
                count,
                brief,
            },
            len,
        )
    }

    /// A communicator that is there at `base`.
    pub fn pick_comm(&mut self, base: u32, fits: impl Fn(&Comm) -> bool) -> Option<usize> {
        let there: Vec<usize> = (0..self.comms.len())
            .filter(|c| self.comms[*c].from <= base && fits(&self.comms[*c]))
            .collect();
        if there.is_empty() {
            None
        } else {
            Some(there[self.rng.usize(0..there.len())])
        }
    }
}
