//! The NAS Parallel Benchmarks of table 3 and figure 8, as skeletons: the messages of each kernel's iteration, with their sizes and number, and between them so
//! much computing as the benchmarks count operations. Nothing is computed, and each iteration is like the others, so one stands for all.
//!
//! The paper says nothing of computing times, so they cannot be predicted: [`RATE`] was chosen for all kernels alike. What processors have of the memory of
//! one node or of two is not modelled in them.

use super::machine::{self, Rank, recv_buf, send_buf};
use crate::{Effort, Expected, Origin, Row, Unit};
use farpost_mpi::coll;
use farpost_mpi::op::Op;
use farpost_sim::machine::Machine;
use farpost_sim::time::Ps;

/// Operations a second of a processor: a sixth of its clock.
const RATE: f64 = 150e6;

/// A kernel, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Kernel {
    Bt,
    Cg,
    Ep,
    Ft,
    Is,
    Lu,
    Mg,
    Sp,
}

/// How large its problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    A,
    B,
}

/// A problem: 10^9 operations of so many iterations on this many points, rows or keys (of cubes: along an edge).
struct Problem {
    operations: f64,
    iterations: u32,
    size: usize,
}

impl Kernel {
    /// As the benchmarks' report (Bailey and others, RNR-94-007) has it.
    fn problem(self, class: Class) -> Problem {
        let (a, b) = match self {
            Self::Bt => ((181.3, 200, 64), (721.5, 200, 102)),
            Self::Cg => ((1.508, 15, 14_000), (54.89, 75, 75_000)),
            Self::Ep => ((26.68, 1, 1 << 28), (100.9, 1, 1 << 30)),
            Self::Ft => ((5.631, 6, 256 * 256 * 128), (71.37, 20, 512 * 256 * 256)),
            Self::Is => ((0.7812, 10, 1 << 23), (3.150, 10, 1 << 25)),
            Self::Lu => ((64.57, 250, 64), (319.6, 250, 102)),
            Self::Mg => ((3.905, 4, 256), (18.81, 20, 256)),
            Self::Sp => ((102.0, 400, 64), (447.1, 400, 102)),
        };
        let (operations, iterations, size) = if class == Class::A { a } else { b };
        Problem {
            operations,
            iterations,
            size,
        }
    }

    /// Whether it runs on so many processes.
    pub fn runs_on(self, processes: u32) -> bool {
        match self {
            Self::Bt | Self::Sp => processes.isqrt().pow(2) == processes,
            _ => processes.is_power_of_two(),
        }
    }
}

/// Seconds of an iteration of a kernel on (processes, nodes).
pub fn time(machine: &Machine, kernel: Kernel, class: Class, job: (u32, u32)) -> f64 {
    let problem = kernel.problem(class);
    let operations = problem.operations * 1e9 / f64::from(problem.iterations) / f64::from(job.0);
    let times = machine::run(machine, job, |rank| {
        let one = Iteration {
            rank,
            size: problem.size,
            seconds: operations / RATE,
        };
        // The first one makes connections.
        one.of(kernel);
        rank.barrier();
        let begun = rank.now();
        one.of(kernel);
        (begun, rank.now())
    });
    let begun = times.iter().map(|time| time.0).min().unwrap_or(Ps::ZERO);
    let ended = times.iter().map(|time| time.1).max().unwrap_or(Ps::ZERO);
    (ended - begun).secs()
}

/// Bytes of a number.
const WORD: usize = 8;

/// An iteration at one rank.
struct Iteration<'a> {
    rank: &'a Rank,
    size: usize,
    /// Of computing.
    seconds: f64,
}

impl Iteration<'_> {
    fn of(&self, kernel: Kernel) {
        match kernel {
            Kernel::Ep => self.ep(),
            Kernel::Is => self.is(),
            Kernel::Ft => self.ft(),
            Kernel::Cg => self.cg(),
            Kernel::Mg => self.mg(),
            Kernel::Lu => self.lu(),
            // A block of a 5 x 5 matrix and a vector forward, a vector back.
            Kernel::Bt => self.cells(30, 5),
            // Bands of the five equations.
            Kernel::Sp => self.cells(22, 10),
        }
    }

    /// This share of the computing.
    fn compute(&self, share: f64) {
        self.rank.compute(Ps((self.seconds * share * 1e12) as u64));
    }

    /// `bytes` to one rank, and as many from another.
    fn exchange(&self, bytes: usize, to: usize, from: usize) {
        if to != self.rank.me {
            let (sent, mut got) = (vec![0; bytes], vec![0; bytes]);
            self.rank.exchange((&sent, to), (&mut got, from));
        }
    }

    fn all_reduce(&self, bytes: usize) {
        let (mine, mut sum) = (vec![0; bytes], vec![0; bytes]);
        let (mine, sum) = (send_buf(&mine), recv_buf(&mut sum));
        let site = self.rank.world.site(self.rank.comm());
        let plan = coll::allreduce(&site, Some(mine.into()), sum.into(), &Op::BOR);
        self.rank.collective(plan.expect("a plan"));
    }

    fn all_to_all(&self, block: usize) {
        let all = block * self.rank.size;
        let (mine, mut others) = (vec![0; all], vec![0; all]);
        let (mine, others) = (send_buf(&mine[..block]), recv_buf(&mut others[..block]));
        let site = self.rank.world.site(self.rank.comm());
        let plan = coll::alltoall(&site, Some(mine.into()), others.into());
        self.rank.collective(plan.expect("a plan"));
    }

    /// Random numbers, and the sums and counts of ten squares.
    fn ep(&self) {
        self.compute(1.0);
        for words in [1, 1, 10] {
            self.all_reduce(words * WORD);
        }
    }

    /// Keys of four bytes: the sizes of 1024 buckets, how many keys for each process, and the keys.
    fn is(&self) {
        self.compute(1.0);
        self.all_reduce((1024 + 5) * 4);
        self.all_to_all(4);
        self.all_to_all(4 * self.size / self.rank.size.pow(2));
    }

    /// A transposition of complex numbers, and a check sum.
    fn ft(&self) {
        self.compute(1.0);
        self.all_to_all(2 * WORD * self.size / self.rank.size.pow(2));
        self.all_reduce(2 * WORD);
    }

    /// 25 steps of conjugate gradients on a grid of rows and columns of processes: the product is summed along a row and goes to the transposed process, then two
    /// scalar products along the row.
    fn cg(&self) {
        const STEPS: usize = 25;
        let (me, ranks) = (self.rank.me, self.rank.size);
        let rows = 1 << (ranks.ilog2() / 2);
        let columns = ranks / rows;
        let stages = columns.ilog2();
        let along = |bytes: usize| {
            for stage in 0..stages {
                let other = me / columns * columns + ((me % columns) ^ (1 << stage));
                self.exchange(bytes, other, other);
            }
        };
        let twice = columns / rows;
        let half = me / twice;
        let transposed = twice * (half % rows * rows + half / rows) + me % twice;
        for _ in 0..STEPS {
            self.compute(1.0 / STEPS as f64);
            along(self.size / rows * WORD);
            self.exchange(self.size / columns * WORD, transposed, transposed);
            along(WORD);
            along(WORD);
        }
    }

    /// A V cycle: at each level three times the faces of a process's part, along each axis to both sides.
    fn mg(&self) {
        let (me, bits) = (self.rank.me, self.rank.size.ilog2());
        // As the benchmark divides the axes: the last has most.
        let x = bits / 3;
        let y = (bits - x) / 2;
        let processes = [x, y, bits - x - y].map(|bits| 1_usize << bits);
        let place = [
            me % processes[0],
            me / processes[0] % processes[1],
            me / processes[0] / processes[1],
        ];
        let rank = |place: [usize; 3]| place[0] + processes[0] * (place[1] + processes[1] * place[2]);
        let levels = self.size.ilog2();
        let whole: f64 = (0..levels).map(|level| 8_f64.powi(-(level as i32))).sum();
        for level in 0..levels {
            let points = processes.map(|processes| (self.size >> level).div_ceil(processes));
            let share = 8_f64.powi(-(level as i32)) / whole;
            for _ in 0..3 {
                self.compute(share / 3.0);
                for axis in 0..3 {
                    let face = points[(axis + 1) % 3] * points[(axis + 2) % 3] * WORD;
                    let beside = |step: usize| {
                        let mut place = place;
                        place[axis] = (place[axis] + step) % processes[axis];
                        rank(place)
                    };
                    let (up, down) = (beside(1), beside(processes[axis] - 1));
                    self.exchange(face, up, down);
                    self.exchange(face, down, up);
                }
            }
        }
    }

    /// Two wavefronts over a grid of processes, plane by plane, forth and back; then the layers at the edges to both sides.
    fn lu(&self) {
        let (me, ranks) = (self.rank.me, self.rank.size);
        let columns = 1 << ranks.ilog2().div_ceil(2);
        let rows = ranks / columns;
        let (row, column) = (me / columns, me % columns);
        let (high, wide) = (self.size / rows, self.size / columns);
        let vector = 5 * WORD;
        let planes = self.size - 2;
        // One neighbour each way, if there is one, with the bytes of an edge of a plane.
        let before = [
            (row > 0).then(|| (me - columns, wide * vector)),
            (column > 0).then(|| (me - 1, high * vector)),
        ];
        let behind = [
            (row + 1 < rows).then(|| (me + columns, wide * vector)),
            (column + 1 < columns).then(|| (me + 1, high * vector)),
        ];
        for (from, to) in [(before, behind), (behind, before)] {
            for _ in 0..planes {
                for (rank, bytes) in from.into_iter().flatten() {
                    self.rank.recv(&mut vec![0; bytes], rank);
                }
                self.compute(0.75 / 2.0 / planes as f64);
                for (rank, bytes) in to.into_iter().flatten() {
                    self.rank.send(&vec![0; bytes], rank);
                }
            }
        }
        self.compute(0.25);
        for axis in 0..2 {
            let edges = [before[axis], behind[axis]];
            for (out, into) in [(0, 1), (1, 0)] {
                // Two layers of all planes.
                let bytes = |edge: (usize, usize)| 2 * self.size * edge.1;
                let mut got = edges[into].map(|edge| vec![0; bytes(edge)]);
                let receiving = edges[into]
                    .zip(got.as_mut())
                    .map(|(edge, got)| self.rank.begin_recv(got, edge.0));
                if let Some(edge) = edges[out] {
                    self.rank.send(&vec![0; bytes(edge)], edge.0);
                }
                if let Some(receiving) = receiving {
                    self.rank.world.wait(receiving).expect("wait");
                }
            }
        }
    }

    /// Cells on diagonals, as many for each process as an axis has processes: two layers of five numbers at their faces in all directions, then along each axis
    /// from cell to cell and back, so many numbers for each point of a face.
    fn cells(&self, forward: usize, back: usize) {
        let me = self.rank.me;
        let side = self.rank.size.isqrt();
        let (row, column) = (me / side, me % side);
        let at = |row: usize, column: usize| row % side * side + column % side;
        // The next of a process along each axis, and the one before.
        let axes = [
            (at(row, column + 1), at(row, column + side - 1)),
            (at(row + 1, column), at(row + side - 1, column)),
            (at(row + 1, column + 1), at(row + side - 1, column + side - 1)),
        ];
        let face = (self.size / side).pow(2) * WORD;
        self.compute(0.25);
        for (next, before) in axes {
            self.exchange((side - 1) * face * 10, next, before);
            self.exchange((side - 1) * face * 10, before, next);
        }
        let piece = 0.75 / 6.0 / side as f64;
        for (next, before) in axes {
            for (numbers, to, from) in [(forward, next, before), (back, before, next)] {
                for _ in 1..side {
                    self.compute(piece);
                    self.exchange(face * numbers, to, from);
                }
                self.compute(piece);
            }
        }
    }
}

/// Table 3: time on one node by that on two, of class A on 16 processes.
const TABLE: [(Kernel, f64); 8] = [
    (Kernel::Bt, 1.08),
    (Kernel::Cg, 0.96),
    (Kernel::Ep, 1.00),
    (Kernel::Ft, 1.05),
    (Kernel::Is, 0.94),
    (Kernel::Lu, 0.96),
    (Kernel::Mg, 1.20),
    (Kernel::Sp, 1.01),
];

/// Rows S14.
pub fn rows(machine: &Machine, effort: Effort, rows: &mut Vec<Row>) {
    // FT moves as much as all others together.
    let table = TABLE
        .into_iter()
        .filter(|(kernel, _)| effort == Effort::Full || *kernel != Kernel::Ft);
    for (kernel, ratio) in table {
        let [one, two] = [1, 2].map(|nodes| time(machine, kernel, Class::A, (16, nodes)));
        rows.push(Row {
            null_model: Some(1.0),
            ..super::row(
                &format!("S14.{kernel}"),
                &format!("NPB {kernel}, class A: one node's time by two's"),
                crate::Class::Ratio,
                Origin::Predicted,
                Unit::Plain,
                Expected::Value(ratio),
                one / two,
            )
        });
    }
}
