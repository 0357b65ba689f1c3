//! Every constructor against the standard's definitions, expanded entry by entry.
#![allow(unsafe_code)]

use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use proptest::prelude::*;

/// A typemap, written out, with the markers of explicit bounds.
#[derive(Clone, Debug, Default)]
struct Map {
    entries: Vec<(i64, Basic)>,
    marks: Vec<(i64, i64)>,
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
        Map {
            entries,
            marks: vec![],
        }
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
        let (lb, ub) = self.true_bounds();
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
    fn external32_comes_back((ty, map) in any_type(), count in 0u64..4) {
        let (mut memory, zero) = room(&map, count);
        // Small positive values fit the narrower types, and are no NaN in any format.
        for offset in map.stream(count) {
            memory[(zero as i64 + offset) as usize] = 0;
        }
        // SAFETY: the memory holds every offset of the typemap and outlives the buffer.
        let send = unsafe { SendBuf::new(memory.as_ptr().add(zero), count, ty.clone()) };
        let size = pack_external_size(count as i64, &ty).unwrap();
        let naive: u64 = map.entries.iter().map(|(_, basic)| basic.info().external as u64).sum();
        prop_assert_eq!(size as u64, naive * count);
        let mut packed = vec![0xaa; size as usize + 3];
        let mut position = 3;
        pack_external(&send, &mut packed, &mut position).unwrap();
        prop_assert_eq!(position as i64, size + 3);
        prop_assert!(packed[3..].iter().all(|byte| *byte == 0));
        let mut target = vec![1u8; memory.len()];
        // SAFETY: as above.
        let receive = unsafe { RecvBuf::new(target.as_mut_ptr().add(zero), count, ty) };
        position = 3;
        unpack_external(&packed, &mut position, &receive).unwrap();
        for offset in map.stream(count) {
            prop_assert_eq!(target[(zero as i64 + offset) as usize], 0);
        }
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

fn int() -> Datatype {
    Datatype::from_basic(Basic::INT)
}

#[test]
fn predefined_types_have_the_sizes_of_c() {
    assert_eq!(Basic::all().count(), 72 - 2);
    for (abi, size, extent) in [
        (0x228, 8, 8),
        (0x229, 12, 16),
        (0x22a, 12, 16),
        (0x22c, 6, 8),
        (0x22d, 20, 32),
        (0x220, 16, 16),
        (0x23c, 4, 4),
        (0x201, 8, 8),
    ] {
        let ty = Datatype::predefined(abi).unwrap();
        assert_eq!(
            (ty.size(), ty.extent(), ty.handle()),
            (size, extent, abi),
            "{ty:?}"
        );
        assert!(ty.is_committed() && ty.is_predefined());
    }
    assert!(Datatype::predefined(DATATYPE_NULL).is_none());
    assert!(Datatype::predefined(0x211).is_none());
    assert!(Datatype::predefined(usize::MAX).is_none());
}

#[test]
fn regular_types_compile_to_one_loop() {
    use layout::Kind;
    let column = Datatype::vector(100, 1, 50, &int()).unwrap();
    assert!(matches!(
        column.layout().kind,
        Kind::Strided {
            block: 4,
            stride: 200
        }
    ));
    let rows = Datatype::contiguous(10, &Datatype::contiguous(50, &int()).unwrap()).unwrap();
    assert!(rows.layout().is_run() && rows.is_contiguous());
    let even = Datatype::indexed_block(2, &[0, 4, 8, 12], &int()).unwrap();
    assert!(matches!(
        even.layout().kind,
        Kind::Strided { block: 8, stride: 16 }
    ));
    let every_other = Datatype::resized(&int(), 0, 8).unwrap();
    let long = Datatype::contiguous(5, &Datatype::contiguous(7, &every_other).unwrap()).unwrap();
    assert!(matches!(
        long.layout().kind,
        Kind::Strided { block: 4, stride: 8 }
    ));
    assert_eq!(long.layout().size, 35 * 4);
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let refused = |made: Result<Datatype>, class: ErrorClass, text: &str| {
        let error = made.unwrap_err();
        assert_eq!(error.class, class, "{error}");
        assert!(error.message.contains(text), "{error}");
    };
    refused(
        Datatype::contiguous(-1, &int()),
        ErrorClass::ERR_COUNT,
        "count=-1",
    );
    refused(
        Datatype::vector(1, -2, 1, &int()),
        ErrorClass::ERR_ARG,
        "blocklength=-2",
    );
    refused(
        Datatype::indexed(&[1, -3], &[0, 1], &int()),
        ErrorClass::ERR_ARG,
        "array_of_blocklengths[1]=-3",
    );
    refused(
        Datatype::indexed(&[1], &[0, 1], &int()),
        ErrorClass::ERR_ARG,
        "array_of_displacements",
    );
    refused(
        Datatype::contiguous(i64::MAX, &int()),
        ErrorClass::ERR_VALUE_TOO_LARGE,
        "size",
    );
    refused(
        Datatype::vector(2, 1, i64::MAX, &int()),
        ErrorClass::ERR_VALUE_TOO_LARGE,
        "stride",
    );
    refused(
        Datatype::hvector(3, 1, i64::MAX, &int()),
        ErrorClass::ERR_VALUE_TOO_LARGE,
        "bound",
    );
    refused(
        Datatype::subarray(&[4], &[5], &[0], ORDER_C, &int()),
        ErrorClass::ERR_ARG,
        "1 to 4",
    );
    refused(
        Datatype::subarray(&[4], &[2], &[3], ORDER_C, &int()),
        ErrorClass::ERR_ARG,
        "0 to 2",
    );
    refused(
        Datatype::subarray(&[4], &[2], &[1], 3, &int()),
        ErrorClass::ERR_ARG,
        "order=3",
    );
    let dist = [DISTRIBUTE_BLOCK];
    let dflt = [DISTRIBUTE_DFLT_DARG];
    refused(
        Datatype::darray(3, 0, &[8], &dist, &dflt, &[2], ORDER_C, &int()),
        ErrorClass::ERR_ARG,
        "size=3",
    );
    refused(
        Datatype::darray(2, 2, &[8], &dist, &dflt, &[2], ORDER_C, &int()),
        ErrorClass::ERR_ARG,
        "rank=2",
    );
    refused(
        Datatype::darray(2, 0, &[8], &dist, &[3], &[2], ORDER_C, &int()),
        ErrorClass::ERR_ARG,
        "cover",
    );
    let huge = Datatype::contiguous(i64::MAX / 4, &int()).unwrap();
    refused(
        Datatype::contiguous(1 << 40, &huge),
        ErrorClass::ERR_VALUE_TOO_LARGE,
        "size",
    );
    let many = vec![huge.clone(); 200];
    refused(
        Datatype::structure(&vec![i64::MAX; 200], &vec![0; 200], &many),
        ErrorClass::ERR_VALUE_TOO_LARGE,
        "",
    );
}

#[test]
fn explicit_bounds_win_over_data() {
    let short = Datatype::resized(&int(), 0, 2).unwrap();
    let double = Datatype::from_basic(Basic::DOUBLE);
    let mixed = Datatype::structure(&[1, 1], &[0, 8], &[short, double]).unwrap();
    assert_eq!((mixed.lb(), mixed.ub()), (0, 2));
    assert_eq!(mixed.true_extent(), 16);
    let padded = Datatype::structure(
        &[1, 1],
        &[0, 8],
        &[Datatype::from_basic(Basic::DOUBLE), Datatype::byte()],
    );
    assert_eq!(padded.unwrap().extent(), 16);
}

#[test]
fn contents_are_the_arguments() {
    let ints = |ty: &Datatype, getter| {
        let contents = ty.contents(getter).unwrap();
        (
            contents.integers,
            contents.addresses,
            contents.large_counts,
            contents.datatypes.len(),
        )
    };
    let hvector = Datatype::hvector(3, 2, 40, &int()).unwrap();
    assert_eq!(ints(&hvector, Getter::Int), (vec![3, 2], vec![40], vec![], 1));
    assert_eq!(ints(&hvector, Getter::Large), (vec![3, 2], vec![40], vec![], 1));
    let large = Datatype::hvector(3, 2, 40, &int()).unwrap().via_large_count();
    assert_eq!(ints(&large, Getter::Large), (vec![], vec![], vec![3, 2, 40], 1));
    assert_eq!(ints(&large, Getter::Int), (vec![3, 2], vec![40], vec![], 1));
    let huge = Datatype::contiguous(1 << 40, &int()).unwrap().via_large_count();
    assert_eq!(
        huge.envelope(Getter::Int).unwrap_err().class,
        ErrorClass::ERR_VALUE_TOO_LARGE
    );
    assert_eq!(huge.envelope(Getter::Large).unwrap().large_counts, 1);
    let sub = Datatype::subarray(&[4, 5], &[2, 3], &[1, 0], ORDER_C, &int()).unwrap();
    assert_eq!(
        ints(&sub, Getter::Int),
        (vec![2, 4, 5, 2, 3, 1, 0, ORDER_C], vec![], vec![], 1)
    );
    let sub = sub.via_large_count();
    assert_eq!(
        ints(&sub, Getter::Large),
        (vec![2, ORDER_C], vec![], vec![4, 5, 2, 3, 1, 0], 1)
    );
    let args = ([8, 9], [17, 18], [19, 2], [2, 2]);
    let array = Datatype::darray(4, 1, &args.0, &args.1, &args.2, &args.3, ORDER_FORTRAN, &int()).unwrap();
    let flat = vec![4, 1, 2, 8, 9, 17, 18, 19, 2, 2, 2, ORDER_FORTRAN];
    assert_eq!(ints(&array, Getter::Int), (flat, vec![], vec![], 1));
    let array = array.via_large_count();
    let flat = vec![4, 1, 2, 17, 18, 19, 2, 2, 2, ORDER_FORTRAN];
    assert_eq!(ints(&array, Getter::Large), (flat, vec![], vec![8, 9], 1));
    assert_eq!(int().envelope(Getter::Int).unwrap().combiner, Combiner::NAMED);
    assert_eq!(
        int().contents(Getter::Int).unwrap_err().class,
        ErrorClass::ERR_TYPE
    );
}

#[test]
fn handles_of_types_live_until_freed() {
    let mut types = Types::new();
    let int = types.get(0x209).unwrap().clone();
    let handle = types.insert(Datatype::contiguous(3, &int).unwrap()).unwrap();
    assert_eq!(types.get(handle).unwrap().handle(), handle);
    assert_eq!(types.from_int(handle as i32), Some(handle));
    assert_eq!(types.from_int(0x209), Some(0x209));
    assert_eq!(types.from_int(0x200), Some(0x200));
    assert_eq!(types.from_int(0x2ff), None);
    let outer = Datatype::contiguous(2, types.get(handle).unwrap()).unwrap();
    types.free(handle).unwrap();
    assert_eq!(types.free(handle).unwrap_err().class, ErrorClass::ERR_TYPE);
    let inner = &outer.contents(Getter::Int).unwrap().datatypes[0];
    let again = types.reopen(inner).unwrap();
    assert_ne!(again, handle);
    assert_eq!(types.get(again).unwrap().combiner(), Combiner::CONTIGUOUS);
    assert_eq!(types.reopen(&int).unwrap(), 0x209);
    assert!(types.free(0x209).unwrap_err().message.contains("MPI_INT"));
    assert!(
        types
            .lookup(0x200)
            .unwrap_err()
            .message
            .contains("MPI_DATATYPE_NULL")
    );
}

#[test]
fn fortran_types_by_precision() {
    let mut types = Types::new();
    let real = types.f90_real(15, 300).unwrap();
    assert_eq!(types.f90_real(15, 300).unwrap(), real);
    assert_ne!(types.f90_real(15, UNDEFINED).unwrap(), real);
    let ty = types.get(real).unwrap();
    assert_eq!((ty.size(), ty.combiner()), (8, Combiner::F90_REAL));
    assert_eq!(ty.contents(Getter::Int).unwrap().integers, [15, 300]);
    assert!(types.free(real).is_err());
    let single = types.f90_real(6, 30).unwrap();
    assert_eq!(types.get(single).unwrap().size(), 4);
    let complex = types.f90_complex(33, 4931).unwrap();
    assert_eq!(types.get(complex).unwrap().size(), 32);
    let integer = types.f90_integer(19).unwrap();
    assert_eq!(types.get(integer).unwrap().size(), 16);
    assert!(types.f90_integer(39).is_err());
    assert!(types.f90_real(UNDEFINED, UNDEFINED).is_err());
    assert!(types.f90_real(34, 1).is_err());
    assert_eq!(match_size(TYPECLASS_REAL, 8).unwrap().abi(), 0x2da);
    assert!(match_size(TYPECLASS_COMPLEX, 2).is_err());
    assert!(match_size(7, 4).is_err());
}

#[test]
fn pairs_by_value_and_index() {
    let mut types = Types::new();
    assert_eq!(types.value_index(0x214, 0x209).unwrap(), Some(0x229));
    assert_eq!(types.value_index(0x214, 0x210).unwrap(), None);
    assert!(types.value_index(0x200, 0x209).is_err());
    let pair = types.value_index(0x210, 0x258).unwrap().unwrap();
    let ty = types.get(pair).unwrap();
    assert_eq!(
        (ty.size(), ty.extent(), ty.combiner()),
        (12, 16, Combiner::VALUE_INDEX)
    );
}

#[test]
fn pack_and_unpack_move_the_position() {
    let column = Datatype::vector(3, 1, 2, &int()).unwrap();
    let data = [1i32, 2, 3, 4, 5, 6];
    // SAFETY: five of the six ints are described.
    let send = unsafe { SendBuf::new(data.as_ptr().cast(), 1, column.clone()) };
    let mut packed = [0u8; 20];
    let mut position = 4;
    pack(&send, &mut packed, &mut position).unwrap();
    assert_eq!(position, 16);
    assert_eq!(packed[4..16], [1, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(
        pack(&send, &mut packed, &mut position).unwrap_err().class,
        ErrorClass::ERR_TRUNCATE
    );
    assert_eq!(position, 16);
    position = 21;
    assert_eq!(
        pack(&send, &mut packed, &mut position).unwrap_err().class,
        ErrorClass::ERR_ARG
    );
    let mut back = [0i32; 6];
    // SAFETY: five of the six ints are described.
    let receive = unsafe { RecvBuf::new(back.as_mut_ptr().cast(), 1, column) };
    position = 4;
    unpack(&packed, &mut position, &receive).unwrap();
    assert_eq!(back, [1, 0, 3, 0, 5, 0]);
    position = 12;
    assert_eq!(
        unpack(&packed, &mut position, &receive).unwrap_err().class,
        ErrorClass::ERR_TRUNCATE
    );
}

#[test]
fn external32_is_big_endian_and_narrow() {
    let long = Datatype::predefined(0x20a).unwrap();
    let values = [-2i64, 3];
    // SAFETY: two longs.
    let send = unsafe { SendBuf::new(values.as_ptr().cast(), 2, long.clone()) };
    let mut packed = [0u8; 8];
    let mut position = 0;
    pack_external(&send, &mut packed, &mut position).unwrap();
    assert_eq!(packed, [0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 3]);
    let mut back = [0i64; 2];
    // SAFETY: two longs.
    let receive = unsafe { RecvBuf::new(back.as_mut_ptr().cast(), 2, long.clone()) };
    position = 0;
    unpack_external(&packed, &mut position, &receive).unwrap();
    assert_eq!(back, values);
    let big = [1i64 << 31];
    // SAFETY: one long.
    let send = unsafe { SendBuf::new(big.as_ptr().cast(), 1, long) };
    position = 0;
    let error = pack_external(&send, &mut packed, &mut position).unwrap_err();
    assert_eq!(error.class, ErrorClass::ERR_CONVERSION);
    assert!(error.message.contains("MPI_LONG"));
    assert!(check_datarep("external32").is_ok());
    assert!(check_datarep("native").is_err());

    let double = Datatype::from_basic(Basic::DOUBLE);
    let value = [1.0f64];
    // SAFETY: one double.
    let send = unsafe { SendBuf::new(value.as_ptr().cast(), 1, double) };
    position = 0;
    pack_external(&send, &mut packed, &mut position).unwrap();
    assert_eq!(packed, [0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
}
