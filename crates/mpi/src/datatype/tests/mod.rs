//! Every constructor against the standard's definitions, expanded entry by entry.
//!
//! Requirements of MPI-5.0 sections 5.1.1, 5.1.2, 5.1.3, 5.1.4, 5.1.11.
#![allow(unsafe_code)]

mod cases;

use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::pack::{pack_external, pack_external_size, unpack_external};
use proptest::prelude::*;

/// A typemap, written out, with the markers of explicit bounds.
#[derive(Clone, Debug, Default)]
struct Map {
    entries: Vec<(i64, Basic)>,
    marks: Vec<(i64, i64)>,
    /// Bounds of the parts, padding included.
    spans: Vec<(i64, i64)>,
}

impl Map {
    fn of(basic: Basic) -> Map {
        let entries = match basic.info().pair {
            None => vec![(0, basic)],
            Some((value, index)) => {
                let (value, index) = (Basic::known(value as usize), Basic::known(index as usize));
                vec![
                    (0, value),
                    (
                        value.size().next_multiple_of(index.info().align as u64) as i64,
                        index,
                    ),
                ]
            }
        };
        let mut map = Map {
            entries,
            ..Map::default()
        };
        map.spans = vec![map.true_bounds()];
        map
    }

    fn true_bounds(&self) -> (i64, i64) {
        let lows = self.entries.iter().map(|(disp, _)| *disp);
        let highs = self
            .entries
            .iter()
            .map(|(disp, basic)| disp + basic.size() as i64);
        (lows.min().unwrap_or(0), highs.max().unwrap_or(0))
    }

    fn bounds(&self) -> (i64, i64) {
        if !self.marks.is_empty() {
            let lb = self.marks.iter().map(|mark| mark.0).min().unwrap();
            return (lb, self.marks.iter().map(|mark| mark.1).max().unwrap());
        }
        let lb = self.spans.iter().map(|span| span.0).min().unwrap_or(0);
        let ub = self.spans.iter().map(|span| span.1).max().unwrap_or(0);
        let align = self
            .entries
            .iter()
            .map(|(_, basic)| basic.info().align)
            .max()
            .unwrap_or(1) as i64;
        (lb, lb + (ub - lb + align - 1) / align * align)
    }

    fn extent(&self) -> i64 {
        self.bounds().1 - self.bounds().0
    }

    fn size(&self) -> u64 {
        self.entries.iter().map(|(_, basic)| basic.size()).sum()
    }

    fn append(&mut self, other: &Map, disp: i64) {
        self.entries
            .extend(other.entries.iter().map(|(at, basic)| (at + disp, *basic)));
        self.marks
            .extend(other.marks.iter().map(|(lb, ub)| (lb + disp, ub + disp)));
        if other.marks.is_empty() && !other.entries.is_empty() {
            let (lb, ub) = other.bounds();
            self.spans.push((lb + disp, ub + disp));
        }
    }

    fn block(&mut self, other: &Map, disp: i64, length: i64) {
        for k in 0..length {
            self.append(other, disp + k * other.extent());
        }
    }

    /// Offsets of the bytes of the stream of `count` elements.
    fn stream(&self, count: u64) -> Vec<i64> {
        let mut bytes = vec![];
        for k in 0..count as i64 {
            for (disp, basic) in &self.entries {
                bytes.extend((0..basic.size() as i64).map(|byte| k * self.extent() + disp + byte));
            }
        }
        bytes
    }
}

type Made = (Datatype, Map);

fn leaf() -> impl Strategy<Value = Made> {
    prop::sample::select(Basic::all().collect::<Vec<_>>())
        .prop_map(|basic| (Datatype::from_basic(basic), Map::of(basic)))
}

fn lists(most: usize) -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0i64..4, -6i64..12), 0..most)
}

/// One constructor over types already made.
fn derive(inner: impl Strategy<Value = Made> + Clone + 'static) -> impl Strategy<Value = Made> {
    let one = inner.clone();
    prop_oneof![
        (one.clone(), 0i64..5).prop_map(|((ty, map), count)| {
            let mut new = Map::default();
            new.block(&map, 0, count);
            (Datatype::contiguous(count, &ty).unwrap(), new)
        }),
        (one.clone(), 0i64..4, 0i64..4, -4i64..6).prop_map(|((ty, map), count, block, stride)| {
            let mut new = Map::default();
            for k in 0..count {
                new.block(&map, k * stride * map.extent(), block);
            }
            (Datatype::vector(count, block, stride, &ty).unwrap(), new)
        }),
        (one.clone(), 0i64..4, 0i64..4, -20i64..40).prop_map(|((ty, map), count, block, stride)| {
            let mut new = Map::default();
            for k in 0..count {
                new.block(&map, k * stride, block);
            }
            (Datatype::hvector(count, block, stride, &ty).unwrap(), new)
        }),
        (one.clone(), lists(5), any::<bool>()).prop_map(|((ty, map), list, bytes)| {
            let (blocks, disps): (Vec<i64>, Vec<i64>) = list.iter().copied().unzip();
            let unit = if bytes { 1 } else { map.extent() };
            let mut new = Map::default();
            for (block, disp) in list {
                new.block(&map, disp * unit, block);
            }
            let make = if bytes {
                Datatype::hindexed
            } else {
                Datatype::indexed
            };
            (make(&blocks, &disps, &ty).unwrap(), new)
        }),
        (one.clone(), 0i64..4, lists(5), any::<bool>()).prop_map(|((ty, map), block, list, bytes)| {
            let disps: Vec<i64> = list.iter().map(|(_, disp)| *disp).collect();
            let unit = if bytes { 1 } else { map.extent() };
            let mut new = Map::default();
            for disp in &disps {
                new.block(&map, disp * unit, block);
            }
            let make = if bytes {
                Datatype::hindexed_block
            } else {
                Datatype::indexed_block
            };
            (make(block, &disps, &ty).unwrap(), new)
        }),
        prop::collection::vec((inner, 0i64..3, -40i64..80), 0..4).prop_map(|parts| {
            let mut new = Map::default();
            let (mut blocks, mut disps, mut types) = (vec![], vec![], vec![]);
            for ((ty, map), block, disp) in parts {
                new.block(&map, disp, block);
                blocks.push(block);
                disps.push(disp);
                types.push(ty);
            }
            (Datatype::structure(&blocks, &disps, &types).unwrap(), new)
        }),
        (one.clone(), -10i64..10, -10i64..40).prop_map(|((ty, mut map), lb, extent)| {
            map.marks = vec![(lb, lb + extent)];
            (Datatype::resized(&ty, lb, extent).unwrap(), map)
        }),
        one.clone().prop_map(|(ty, map)| (ty.dup().unwrap(), map)),
        (
            one,
            prop::collection::vec((1i64..4, 0i64..3, 0i64..3), 1..3),
            any::<bool>()
        )
            .prop_map(|((ty, map), dims, c)| {
                let sizes: Vec<i64> = dims
                    .iter()
                    .map(|(sub, before, after)| sub + before + after)
                    .collect();
                let subs: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
                let starts: Vec<i64> = dims.iter().map(|dim| dim.1).collect();
                let order = if c { ORDER_C } else { ORDER_FORTRAN };
                let inside = |dim: usize, at: i64| (starts[dim]..starts[dim] + subs[dim]).contains(&at);
                let new = array(&map, &sizes, order, inside);
                (
                    Datatype::subarray(&sizes, &subs, &starts, order, &ty).unwrap(),
                    new,
                )
            }),
    ]
}

/// The elements of an array for which `inside(dimension, index)` holds in every dimension.
fn array(map: &Map, sizes: &[i64], order: i32, inside: impl Fn(usize, i64) -> bool) -> Map {
    let mut new = Map::default();
    let total: i64 = sizes.iter().product();
    for linear in 0..total {
        let mut left = linear;
        let mut all = true;
        for k in 0..sizes.len() {
            let dim = if order == ORDER_C { sizes.len() - 1 - k } else { k };
            all &= inside(dim, left % sizes[dim]);
            left /= sizes[dim];
        }
        if all {
            new.append(map, linear * map.extent());
        }
    }
    new.marks = vec![(0, total * map.extent())];
    new
}

fn any_type() -> impl Strategy<Value = Made> {
    leaf()
        .prop_recursive(4, 24, 3, |inner| derive(inner).boxed())
        .prop_filter("small enough", |(_, map)| map.entries.len() < 3000)
}

/// Room for `count` elements: bytes, and where offset zero is.
fn room(map: &Map, count: u64) -> (Vec<u8>, usize) {
    let stream = map.stream(count);
    let low = stream.iter().min().copied().unwrap_or(0).min(0);
    let high = stream.iter().max().copied().unwrap_or(0).max(0);
    (vec![0; (high - low + 1) as usize], -low as usize)
}

/// Whether a byte belongs to two entries.
fn overlaps(map: &Map, count: u64) -> bool {
    let mut offsets = map.stream(count);
    offsets.sort_unstable();
    offsets.windows(2).any(|pair| pair[0] == pair[1])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bounds_and_sizes_are_the_standards((ty, map) in any_type()) {
        prop_assert_eq!(ty.size(), map.size());
        prop_assert_eq!((ty.lb(), ty.ub()), map.bounds());
        prop_assert_eq!((ty.true_lb(), ty.true_lb() + ty.true_extent()), map.true_bounds());
        prop_assert_eq!(ty.elements(), map.entries.len() as u64);
        let first = map.entries.first().map(|entry| entry.1);
        let uniform = first.filter(|first| map.entries.iter().all(|entry| entry.1 == *first));
        prop_assert_eq!(ty.basic(), uniform);
        let offsets = map.stream(3);
        let one_run = offsets.windows(2).all(|pair| pair[1] == pair[0] + 1);
        prop_assert_eq!(ty.is_contiguous(), one_run);
    }

    #[test]
    fn packing_in_pieces_follows_the_typemap(
        (ty, map) in any_type(),
        count in 0u64..5,
        cuts in prop::collection::vec(1usize..70, 1..20),
        seed in any::<u8>(),
    ) {
        let (mut memory, zero) = room(&map, count);
        for (at, byte) in memory.iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(31).wrapping_add(seed) | 1;
        }
        let offsets = map.stream(count);
        let place = |offset: i64| (zero as i64 + offset) as usize;
        let expected: Vec<u8> = offsets.iter().map(|offset| memory[place(*offset)]).collect();

        // SAFETY: the memory holds every offset of the typemap and outlives the buffer.
        let send = unsafe { SendBuf::new(memory.as_ptr().add(zero), count, ty.clone()) };
        prop_assert_eq!(send.bytes(), expected.len() as u64);
        let mut packed = vec![];
        for cut in cuts.iter().cycle() {
            let mut piece = vec![0; *cut];
            let len = send.pack(packed.len() as u64, &mut piece);
            packed.extend_from_slice(&piece[..len]);
            if len < *cut { break; }
        }
        prop_assert_eq!(&packed, &expected);
        if let Some(run) = send.contiguous() {
            prop_assert_eq!(run, &expected[..]);
        }

        let mut listed = vec![];
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let mut list = vec![];
            let bytes = send.segments(at, *cut, &mut list);
            prop_assert!(list.len() <= *cut);
            for (address, len) in list {
                let start = address - memory.as_ptr() as usize;
                listed.extend_from_slice(&memory[start..start + len]);
            }
            at += bytes;
            if bytes == 0 { break; }
        }
        prop_assert_eq!(&listed, &expected);

        let (mut target, _) = room(&map, count);
        // SAFETY: as above.
        let receive = unsafe { RecvBuf::new(target.as_mut_ptr().add(zero), count, ty) };
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let end = packed.len().min(at + cut);
            prop_assert_eq!(receive.unpack(at as u64, &packed[at..end]), end - at);
            at = end;
            if at == packed.len() { break; }
        }
        let mut wanted = vec![0; memory.len()];
        for offset in offsets {
            wanted[place(offset)] = memory[place(offset)];
        }
        prop_assert_eq!(target, wanted);
    }

    #[test]
    fn elements_count_whole_basic_values((ty, map) in any_type(), bytes in 0u64..600) {
        let mut naive = Some(0);
        let mut left = bytes;
        if map.entries.is_empty() {
            naive = (bytes == 0).then_some(0);
        } else {
            for (_, basic) in map.entries.iter().cycle() {
                if left == 0 { break; }
                if left < basic.size() { naive = None; break; }
                left -= basic.size();
                naive = naive.map(|elements| elements + 1);
            }
        }
        prop_assert_eq!(ty.elements_of(bytes), naive);
        if let Some(elements) = naive {
            prop_assert_eq!(ty.bytes_of_elements(elements), Some(bytes));
        }
        let size = map.size();
        let whole = if size == 0 { (bytes == 0).then_some(0) } else { (bytes % size == 0).then(|| bytes / size) };
        prop_assert_eq!(ty.count_of(bytes), whole);
    }

    #[test]
    fn external32_comes_back((ty, map) in any_type(), count in 0u64..4, seed in any::<u64>()) {
        let (mut memory, zero) = room(&map, count);
        let mut random = seed | 1;
        let mut place = zero as i64;
        for _ in 0..count {
            for (disp, basic) in &map.entries {
                let start = (place + disp) as usize;
                let info = basic.info();
                let bytes = &mut memory[start..start + info.size as usize];
                // The narrower types get values that fit; long doubles, where not every pattern is a number, zero.
                let keep = match info.repr {
                    basic::Repr::F80 | basic::Repr::ComplexF80 => 0,
                    _ => info.external as usize - (info.external < info.size) as usize,
                };
                bytes.fill(0);
                for byte in &mut bytes[..keep] {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    *byte = (random >> 33) as u8;
                }
            }
            place += map.extent();
        }
        // SAFETY: the memory holds every offset of the typemap and outlives the buffer.
        let send = unsafe { SendBuf::new(memory.as_ptr().add(zero), count, ty.clone()) };
        let size = pack_external_size(count as i64, &ty).unwrap();
        let naive: u64 = map.entries.iter().map(|(_, basic)| basic.info().external as u64).sum();
        prop_assert_eq!(size as u64, naive * count);
        let mut packed = vec![0xaa; size as usize + 3];
        let mut position = 3;
        let done = pack_external(&send, &mut packed, &mut position);
        if overlaps(&map, count) {
            // Values written over each other need not be numbers that fit.
            return Ok(());
        }
        done.unwrap();
        prop_assert_eq!(position as i64, size + 3);
        let mut target = vec![0u8; memory.len()];
        // SAFETY: as above.
        let receive = unsafe { RecvBuf::new(target.as_mut_ptr().add(zero), count, ty) };
        position = 3;
        unpack_external(&packed, &mut position, &receive).unwrap();
        prop_assert_eq!(target, memory);
    }

    #[test]
    fn a_distributed_array_has_the_elements_of_its_rank(
        (ty, map) in leaf(),
        dims in prop::collection::vec((1i64..9, 0usize..3, 1i32..4, 0i32..5), 1..3),
        c in any::<bool>(),
        which in any::<prop::sample::Index>(),
    ) {
        let order = if c { ORDER_C } else { ORDER_FORTRAN };
        let (mut gsizes, mut distribs, mut dargs, mut psizes) = (vec![], vec![], vec![], vec![]);
        for (gsize, kind, psize, darg) in dims {
            let distrib = [DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_NONE][kind];
            let psize = if distrib == DISTRIBUTE_NONE { 1 } else { psize };
            let too_small = distrib == DISTRIBUTE_BLOCK && (darg * psize) < gsize as i32;
            gsizes.push(gsize);
            distribs.push(distrib);
            dargs.push(if darg == 0 || too_small { DISTRIBUTE_DFLT_DARG } else { darg });
            psizes.push(psize);
        }
        let size: i32 = psizes.iter().product();
        let rank = which.index(size as usize) as i32;
        let mut coords = vec![0; psizes.len()];
        let mut left = rank;
        for dim in (0..psizes.len()).rev() {
            coords[dim] = left % psizes[dim];
            left /= psizes[dim];
        }
        let inside = |dim: usize, at: i64| {
            let block = match (distribs[dim], dargs[dim]) {
                (DISTRIBUTE_NONE, _) => return true,
                (DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG) => 1,
                (_, DISTRIBUTE_DFLT_DARG) => (gsizes[dim] + psizes[dim] as i64 - 1) / psizes[dim] as i64,
                (_, darg) => darg as i64,
            };
            at / block % psizes[dim] as i64 == coords[dim] as i64
        };
        let wanted = array(&map, &gsizes, order, inside);
        let made = Datatype::darray(size, rank, &gsizes, &distribs, &dargs, &psizes, order, &ty).unwrap();
        prop_assert_eq!(made.size(), wanted.size());
        prop_assert_eq!((made.lb(), made.ub()), wanted.bounds());
        let mut list = vec![];
        // SAFETY: never accessed, only its addresses are listed.
        let buffer = unsafe { SendBuf::new(4096 as *const u8, 1, made) };
        buffer.segments(0, usize::MAX, &mut list);
        let offsets: Vec<i64> =
            list.iter().flat_map(|(address, len)| (0..*len).map(move |byte| (address + byte) as i64 - 4096)).collect();
        prop_assert_eq!(offsets, wanted.stream(1));
    }
}
