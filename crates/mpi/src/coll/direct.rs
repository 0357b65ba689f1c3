//! Direct reduce-scatter: every rank sends each other rank the part of its vector that one reduces. Fewest
//! bytes copied, operands in rank order where that matters, reduction overlapped with receiving. Used by
//! `MPI_Reduce_scatter`, and with the results passed on, by `MPI_Reduce` and `MPI_Allreduce`.

use super::Tuning;
use super::mem::Block;
use super::part_of;
use super::plan::{After, Builder, Flow, Step};

/// Who gets the reduced parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Results {
    /// Each rank keeps its own part.
    Stay,
    /// They are collected at this rank.
    At(usize),
    /// Everybody gets all of them.
    Everywhere,
}

/// The arguments of [`reduce_parts`].
pub(super) struct Parts<'a> {
    /// My whole vector.
    pub(super) mine: &'a Block,
    /// (first element, elements) of the part each rank reduces; the same at all ranks.
    pub(super) parts: &'a [(u64, u64)],
    /// Where my reduced part goes. May be the place where `mine` has it (reduction in place).
    pub(super) out: &'a Block,
    /// The whole result, where it is collected.
    pub(super) all: &'a Block,
    /// Who gets the parts.
    pub(super) results: Results,
}

/// Temporaries a rank receives into while it reduces others.
const SLOTS: usize = 4;

/// Reduction of chunks under way at the same time.
const CHUNKS_AHEAD: usize = 4;

/// Add the steps. Chunks are counted in elements, so all ranks cut alike.
pub(super) fn reduce_parts(b: &mut Builder, tuning: &Tuning, args: &Parts<'_>) {
    let (me, p) = (b.rank, b.size);
    let size = args.mine.datatype().size().max(1);
    let largest = args.parts.iter().map(|part| part.1).max().unwrap_or(0);
    let chunk = (tuning.piece(largest * size) / size).max(1);
    let chunks_of = |rank: usize| args.parts[rank].1.div_ceil(chunk) as usize;
    let piece = |rank: usize, c: usize| {
        let (first, count) = args.parts[rank];
        let (from, n) = part_of(count, chunks_of(rank), c);
        (first + from, n)
    };

    // My contributions to the others' parts, the nearest below me first: everyone starts with another peer.
    let mut sent = vec![Vec::new(); p];
    let mut out = Flow::new(tuning.window as usize);
    let most = (0..p).map(chunks_of).max().unwrap_or(0);
    for c in 0..most {
        for k in 1..p {
            let to = (me + p - k) % p;
            if c < chunks_of(to) {
                let (first, n) = piece(to, c);
                let step = b.send(&args.mine.part(first, n), to, &out.next());
                out.push(step);
                sent[to].push(step);
            }
        }
    }

    let mut reducer = Reducer::new(b, tuning, args, chunk);
    let reduced: Vec<Step> = (0..chunks_of(me))
        .map(|c| reducer.chunk(b, args, c, chunks_of(me)))
        .collect();
    let last_recv = reducer.last_recv;

    // The results.
    let wants = |rank: usize| match args.results {
        Results::Stay => false,
        Results::At(root) => rank == root,
        Results::Everywhere => true,
    };
    let mut results: Vec<Flow> = (0..p).map(|_| Flow::new(CHUNKS_AHEAD)).collect();
    for (c, chunk) in reduced.iter().enumerate() {
        let (first, n) = piece(me, c);
        for k in 1..p {
            let to = (me + p - k) % p;
            if wants(to) {
                let order = sent[to].last().copied().unwrap_or(Step::NONE);
                let buf = args.out.part(first - args.parts[me].0, n);
                let [room, _] = results[to].next();
                let step = b.send(&buf, to, &[chunk.done(), order.issued(), room]);
                results[to].push(step);
                sent[to].push(step);
            }
        }
    }
    if !wants(me) {
        return;
    }
    let in_place = args.mine.same_place(args.all);
    let mut flows: Vec<Flow> = (0..p).map(|_| Flow::new(CHUNKS_AHEAD)).collect();
    for k in 1..p {
        let from = (me + k) % p;
        for (c, given) in sent[from].iter().enumerate().take(chunks_of(from)) {
            let (first, n) = piece(from, c);
            let [room, order] = flows[from].next();
            // Reducing in place, the result overwrites what I sent to be reduced.
            let given = if in_place { *given } else { Step::NONE };
            let deps = [room, order, last_recv[from].issued(), given.done()];
            let step = b.recv(&args.all.part(first, n), from, &deps);
            flows[from].push(step);
        }
    }
}

/// Reduces my part, chunk by chunk.
struct Reducer {
    /// Ranks whose vectors are folded, the first one lands in the result itself.
    order: Vec<usize>,
    /// Temporaries and the step after which each is free, taken in turn.
    slots: Vec<(Block, Step)>,
    next_slot: usize,
    /// Where my own operand waits when another one takes its place.
    aside: Option<(Block, Step)>,
    chunks: Flow,
    last_recv: Vec<Step>,
}

impl Reducer {
    fn new(b: &mut Builder, tuning: &Tuning, args: &Parts<'_>, chunk: u64) -> Self {
        let (me, p) = (b.rank, b.size);
        let (first, count) = args.parts[me];
        let in_place = args.mine.part(first, 0).same_place(args.out);
        // The operation puts its left operand in front of what is accumulated: from the last rank down.
        // A commutative one may start anywhere, best with a vector that arrives in place or is there.
        let order: Vec<usize> = if !b.commutes() {
            (0..p).rev().collect()
        } else if in_place {
            (0..p).map(|k| (me + k) % p).collect()
        } else {
            (1..=p).map(|k| (me + k) % p).collect()
        };
        let direct = order[0] != me;
        let received = (p - 1 - usize::from(direct)) * count.div_ceil(chunk) as usize;
        let ty = args.mine.datatype().clone();
        let room = count.min(chunk);
        let slots = (0..received.min(SLOTS))
            .map(|_| (b.temp(room, &ty), Step::NONE))
            .collect();
        let aside = (in_place && direct).then(|| (b.temp(room, &ty), Step::NONE));
        Self {
            order,
            slots,
            next_slot: 0,
            aside,
            chunks: Flow::new(CHUNKS_AHEAD.min(tuning.window as usize)),
            last_recv: vec![Step::NONE; p],
        }
    }

    /// Receive `n` elements from `rank` into a temporary, fold them into `acc` after `have`.
    fn fold(&mut self, b: &mut Builder, rank: usize, n: u64, acc: &Block, have: Step, room: After) -> Step {
        let i = self.next_slot % self.slots.len();
        self.next_slot += 1;
        let (slot, free) = (self.slots[i].0.with_count(n), self.slots[i].1);
        let deps = [free.done(), room, self.last_recv[rank].issued()];
        let got = b.recv(&slot, rank, &deps);
        self.last_recv[rank] = got;
        let step = b.reduce(&slot, acc, &[got.done(), have.done()]);
        self.slots[i].1 = step;
        step
    }

    /// Steps that reduce chunk `c` of my part; returns the one that completes it.
    fn chunk(&mut self, b: &mut Builder, args: &Parts<'_>, c: usize, chunks: usize) -> Step {
        let me = b.rank;
        let (first, count) = args.parts[me];
        let (from, n) = part_of(count, chunks, c);
        let acc = args.out.part(from, n);
        let mut mine = args.mine.part(first + from, n);
        let in_place = mine.same_place(&acc);
        let [room, _] = self.chunks.next();
        let mut have = Step::NONE;
        if let Some((aside, free)) = &self.aside {
            let aside = aside.with_count(n);
            have = b.copy(&mine, &aside, &[free.done(), room]);
            mine = aside;
        }
        for k in 0..self.order.len() {
            let rank = self.order[k];
            have = match (k, rank == me) {
                (0, true) if in_place => Step::NONE,
                (0, true) => b.copy(&mine, &acc, &[room]),
                (0, false) => {
                    let deps = [have.done(), room, self.last_recv[rank].issued()];
                    let step = b.recv(&acc, rank, &deps);
                    self.last_recv[rank] = step;
                    step
                }
                (_, true) => {
                    let step = b.reduce(&mine, &acc, &[have.done()]);
                    if let Some(aside) = &mut self.aside {
                        aside.1 = step;
                    }
                    step
                }
                (_, false) => self.fold(b, rank, n, &acc, have, room),
            };
        }
        self.chunks.push(have);
        have
    }
}
