//! Datatypes and where their bytes lie: the layout is computed here from the constructors' definitions (MPI-5.0 chapter 5), not asked
//! of a library.

/// A basic type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::VariantArray)]
pub enum TypeKind {
    Byte,
    I16,
    I32,
    U32,
    I64,
    F32,
    F64,
}

impl TypeKind {
    pub fn size(self) -> u64 {
        self.facts().0
    }

    pub fn name(self) -> &'static str {
        self.facts().1
    }

    /// The standard ABI's handle.
    pub fn abi(self) -> usize {
        self.facts().2
    }

    fn facts(self) -> (u64, &'static str, usize) {
        match self {
            Self::Byte => (1, "MPI_BYTE", 583),
            Self::I16 => (2, "MPI_INT16_T", 584),
            Self::I32 => (4, "MPI_INT32_T", 592),
            Self::U32 => (4, "MPI_UINT32_T", 593),
            Self::I64 => (8, "MPI_INT64_T", 600),
            Self::F32 => (4, "MPI_FLOAT", 528),
            Self::F64 => (8, "MPI_DOUBLE", 532),
        }
    }
}

/// What messages consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Of(TypeKind),
    /// An `int32_t` and a `double`.
    Pair,
}

impl Unit {
    pub fn bytes(self) -> u64 {
        match self {
            Self::Of(kind) => kind.size(),
            Self::Pair => 12,
        }
    }
}

/// How a type is constructed; types are numbers in [`Types`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Build {
    Basic(TypeKind),
    Contiguous {
        count: u64,
        of: usize,
    },
    Vector {
        count: u64,
        len: u64,
        stride: u64,
        of: usize,
    },
    Hvector {
        count: u64,
        len: u64,
        stride: u64,
        of: usize,
    },
    Indexed {
        lens: Vec<u64>,
        displs: Vec<u64>,
        of: usize,
    },
    Hindexed {
        lens: Vec<u64>,
        displs: Vec<u64>,
        of: usize,
    },
    IndexedBlock {
        len: u64,
        displs: Vec<u64>,
        of: usize,
    },
    Struct {
        lens: Vec<u64>,
        displs: Vec<u64>,
        of: Vec<usize>,
    },
    Resized {
        extent: u64,
        of: usize,
    },
    /// Two dimensions, C order: rows and columns of the array, of the part, and where that begins.
    Subarray {
        sizes: [u64; 2],
        part: [u64; 2],
        start: [u64; 2],
        of: usize,
    },
    Dup {
        of: usize,
    },
}

/// A type: its constructor and its layout.
#[derive(Clone, Debug)]
pub struct Ty {
    pub build: Build,
    /// Offset and length of each run of bytes, in the order of the type map.
    pub segs: Vec<(u64, u64)>,
    pub size: u64,
    pub lb: u64,
    pub ub: u64,
    /// Basic elements.
    pub basics: u64,
}

impl Ty {
    pub fn extent(&self) -> u64 {
        self.ub - self.lb
    }

    /// Bytes from the buffer's address to the last one that `count` elements touch.
    pub fn span(&self, count: u64) -> u64 {
        let last = self.segs.iter().map(|(at, len)| at + len).max().unwrap_or(0);
        if count == 0 {
            0
        } else {
            (count - 1) * self.extent() + last
        }
    }
}

/// The types of a program.
#[derive(Clone, Debug, Default)]
pub struct Types {
    pub all: Vec<Ty>,
    /// Elements of structures lie in the order in which they are named.
    pub ascending: bool,
}

/// Most runs of bytes in one element.
const RUNS: u64 = 64;
/// Most bytes that a message's buffer may span.
const SPAN: u64 = 4 << 20;

impl Types {
    pub fn get(&self, ty: usize) -> &Ty {
        &self.all[ty]
    }

    /// The type constructed so, made if it is not there.
    pub fn add(&mut self, build: Build) -> usize {
        if let Some(known) = self.all.iter().position(|ty| ty.build == build) {
            return known;
        }
        let ty = self.lay_out(build);
        self.all.push(ty);
        self.all.len() - 1
    }

    fn lay_out(&self, build: Build) -> Ty {
        // Where copies of which types stand.
        let mut copies: Vec<(u64, usize)> = Vec::new();
        let row = |copies: &mut Vec<_>, at: u64, len: u64, of: usize| {
            copies.extend((0..len).map(|i| (at + i * self.get(of).extent(), of)));
        };
        let mut bounds = None;
        match &build {
            Build::Basic(kind) => {
                return Ty {
                    segs: vec![(0, kind.size())],
                    size: kind.size(),
                    lb: 0,
                    ub: kind.size(),
                    basics: 1,
                    build,
                };
            }
            Build::Contiguous { count, of } => row(&mut copies, 0, *count, *of),
            Build::Vector {
                count,
                len,
                stride,
                of,
            } => {
                let step = stride * self.get(*of).extent();
                (0..*count).for_each(|i| row(&mut copies, i * step, *len, *of));
            }
            Build::Hvector {
                count,
                len,
                stride,
                of,
            } => {
                (0..*count).for_each(|i| row(&mut copies, i * stride, *len, *of));
            }
            Build::Indexed { lens, displs, of } => {
                let extent = self.get(*of).extent();
                lens.iter()
                    .zip(displs)
                    .for_each(|(len, at)| row(&mut copies, at * extent, *len, *of));
            }
            Build::Hindexed { lens, displs, of } => {
                lens.iter()
                    .zip(displs)
                    .for_each(|(len, at)| row(&mut copies, *at, *len, *of));
            }
            Build::IndexedBlock { len, displs, of } => {
                let extent = self.get(*of).extent();
                displs
                    .iter()
                    .for_each(|at| row(&mut copies, at * extent, *len, *of));
            }
            Build::Struct { lens, displs, of } => {
                for ((len, at), of) in lens.iter().zip(displs).zip(of) {
                    row(&mut copies, *at, *len, *of);
                }
            }
            Build::Resized { extent, of } => {
                row(&mut copies, 0, 1, *of);
                bounds = Some((0, *extent));
            }
            Build::Subarray {
                sizes,
                part,
                start,
                of,
            } => {
                let extent = self.get(*of).extent();
                for i in 0..part[0] {
                    let at = (start[0] + i) * sizes[1] + start[1];
                    row(&mut copies, at * extent, part[1], *of);
                }
                bounds = Some((0, sizes[0] * sizes[1] * extent));
            }
            Build::Dup { of } => row(&mut copies, 0, 1, *of),
        }
        let mut segs: Vec<(u64, u64)> = Vec::new();
        for (at, of) in &copies {
            for (offset, len) in &self.get(*of).segs {
                let start = at + offset;
                match segs.last_mut() {
                    Some(last) if last.0 + last.1 == start => last.1 += len,
                    _ => segs.push((start, *len)),
                }
            }
        }
        let (lb, ub) = bounds.unwrap_or_else(|| {
            let lb = copies.iter().map(|(at, of)| at + self.get(*of).lb).min();
            let ub = copies.iter().map(|(at, of)| at + self.get(*of).ub).max();
            (lb.unwrap_or(0), ub.unwrap_or(0))
        });
        Ty {
            segs,
            size: copies.iter().map(|(_, of)| self.get(*of).size).sum(),
            lb,
            ub,
            basics: copies.iter().map(|(_, of)| self.get(*of).basics).sum(),
            build,
        }
    }

    pub fn basic(&mut self, kind: TypeKind) -> usize {
        self.add(Build::Basic(kind))
    }

    /// A type of one unit; of a pair one of several.
    pub fn unit(&mut self, unit: Unit, rng: &mut fastrand::Rng) -> usize {
        match unit {
            Unit::Of(kind) => self.basic(kind),
            Unit::Pair => {
                let (int, double) = (self.basic(TypeKind::I32), self.basic(TypeKind::F64));
                let (displs, extent) = [
                    (vec![0, 8], 16),
                    (vec![8, 0], 16),
                    (vec![0, 4], 12),
                    (vec![4, 16], 40),
                    (vec![20, 8], 24),
                ][if self.ascending { 0 } else { rng.usize(0..5) }]
                .clone();
                let of = self.add(Build::Struct {
                    lens: vec![1, 1],
                    displs,
                    of: vec![int, double],
                });
                self.add(Build::Resized { extent, of })
            }
        }
    }

    /// A type and a count for `n` units, at random.
    pub fn pick(&mut self, unit: Unit, n: u64, rng: &mut fastrand::Rng) -> (usize, u64) {
        let base = self.unit(unit, rng);
        if n == 0 || rng.u32(0..10) < 4 {
            return (base, n);
        }
        let divisors: Vec<u64> = (1..=64.min(n)).filter(|d| n.is_multiple_of(*d)).collect();
        // Elements: few large ones, or many small ones.
        let count = divisors[rng.usize(0..divisors.len())];
        let (count, each) = if rng.bool() || n / count > 64 {
            (count, n / count)
        } else {
            (n / count, count)
        };
        let ty = self.of_units(base, each, rng);
        let ty = match rng.u32(0..12) {
            0 => self.add(Build::Dup { of: ty }),
            1 => {
                let extent = self.get(ty).ub + rng.u64(0..3) * 8;
                self.add(Build::Resized { extent, of: ty })
            }
            _ => ty,
        };
        if self.get(ty).span(count) > SPAN || self.get(ty).segs.len() as u64 * count > 20_000 {
            return (base, n);
        }
        (ty, count)
    }

    /// A type of `each` units that stand together or apart.
    fn of_units(&mut self, of: usize, each: u64, rng: &mut fastrand::Rng) -> usize {
        let extent = self.get(of).extent();
        let blocks: Vec<u64> = (1..=RUNS.min(each)).filter(|d| each.is_multiple_of(*d)).collect();
        let k = blocks[rng.usize(0..blocks.len())];
        let len = each / k;
        let gap = rng.u64(0..4);
        let order = |rng: &mut fastrand::Rng, k: u64| {
            let mut order: Vec<u64> = (0..k).collect();
            if rng.bool() {
                rng.shuffle(&mut order);
            }
            order
        };
        match rng.u32(0..8) {
            0 => self.add(Build::Contiguous { count: each, of }),
            1 => {
                let (count, stride) = (k, len + gap);
                self.add(Build::Vector {
                    count,
                    len,
                    stride,
                    of,
                })
            }
            2 => {
                let stride = len * extent + gap * if rng.bool() { 8 } else { extent };
                self.add(Build::Hvector {
                    count: k,
                    len,
                    stride,
                    of,
                })
            }
            3 => {
                let displs = order(rng, k).into_iter().map(|i| i * (len + gap)).collect();
                self.add(Build::IndexedBlock { len, displs, of })
            }
            4 | 5 => {
                // Cut at random into runs, with gaps at random, in any order.
                let runs = rng.u64(1..=each.min(6));
                let mut cuts: Vec<u64> = (1..runs).map(|_| rng.u64(1..=each)).collect();
                cuts.push(each);
                cuts.sort_unstable();
                cuts.dedup();
                let mut at = rng.u64(0..3);
                let (mut lens, mut displs, mut from) = (Vec::new(), Vec::new(), 0);
                for cut in cuts {
                    lens.push(cut - from);
                    displs.push(at);
                    at += cut - from + rng.u64(0..5);
                    from = cut;
                }
                let order = order(rng, lens.len() as u64);
                let lens = order.iter().map(|i| lens[*i as usize]).collect();
                let displs: Vec<u64> = order.iter().map(|i| displs[*i as usize]).collect();
                if rng.bool() {
                    self.add(Build::Indexed { lens, displs, of })
                } else {
                    let displs = displs.into_iter().map(|at| at * extent).collect();
                    self.add(Build::Hindexed { lens, displs, of })
                }
            }
            6 => {
                let start = [rng.u64(0..2), rng.u64(0..3)];
                let sizes = [k + start[0] + rng.u64(0..2), len + start[1] + gap];
                self.add(Build::Subarray {
                    sizes,
                    part: [k, len],
                    start,
                    of,
                })
            }
            _ => {
                let inner = self.add(Build::Contiguous { count: len, of });
                self.add(Build::Vector {
                    count: k,
                    len: 1,
                    stride: 1 + gap.min(1),
                    of: inner,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_holds_its_bytes_once() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut types = Types::default();
            let unit = if rng.bool() {
                Unit::Pair
            } else {
                Unit::Of(TypeKind::I16)
            };
            let n = rng.u64(0..300);
            let (ty, count) = types.pick(unit, n, &mut rng);
            let ty = types.get(ty);
            assert_eq!(ty.size * count, n * unit.bytes(), "{ty:?}");
            let mut seen = vec![false; ty.span(count) as usize];
            for i in 0..count {
                for (at, len) in &ty.segs {
                    for byte in at + i * ty.extent()..at + i * ty.extent() + len {
                        assert!(!std::mem::replace(&mut seen[byte as usize], true), "{ty:?}");
                    }
                }
            }
        }
    }
}
