//! Single cases: arguments, contents, handles, formats.
//!
//! Requirements of MPI-5.0 sections 3.3.1, 5.1.2, 5.1.6, 5.1.9, 5.1.10, 5.1.13, 5.2, 5.3, 14.5.2, 19.1.9.
#![allow(unsafe_code)]

use super::super::*;
use crate::ErrorClass;
use crate::buffer::{RecvBuf, SendBuf};
use crate::pack::{check_datarep, pack, pack_external, unpack, unpack_external};

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
    use layout::LayoutKind;
    let column = Datatype::vector(100, 1, 50, &int()).unwrap();
    assert!(matches!(
        column.layout().kind,
        LayoutKind::Strided {
            block: 4,
            stride: 200
        }
    ));
    let rows = Datatype::contiguous(10, &Datatype::contiguous(50, &int()).unwrap()).unwrap();
    assert!(rows.layout().is_run() && rows.is_contiguous());
    let even = Datatype::indexed_block(2, &[0, 4, 8, 12], &int()).unwrap();
    assert!(matches!(
        even.layout().kind,
        LayoutKind::Strided { block: 8, stride: 16 }
    ));
    let every_other = Datatype::resized(&int(), 0, 8).unwrap();
    let long = Datatype::contiguous(5, &Datatype::contiguous(7, &every_other).unwrap()).unwrap();
    assert!(matches!(
        long.layout().kind,
        LayoutKind::Strided { block: 4, stride: 8 }
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
    let types = Types::new();
    assert_eq!(types.value_index(0x214, 0x209).unwrap(), Some(0x229));
    assert_eq!(types.value_index(0x214, 0x210).unwrap(), None);
    assert!(types.value_index(0x200, 0x209).is_err());
    assert_eq!(types.value_index(0x210, 0x258).unwrap(), None);
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

#[test]
fn long_chains_are_dropped_without_recursion() {
    let mut chain = int();
    for _ in 0..200_000 {
        chain = chain.dup().unwrap();
    }
    drop(chain);
    let mut chain = int();
    for _ in 0..100_000 {
        chain = Datatype::structure(&[1], &[0], &[chain]).unwrap();
    }
    assert_eq!(chain.size(), 4);
}

#[test]
fn signatures_tell_kinds_and_sizes_apart() {
    let sig = |abi| Datatype::predefined(abi).unwrap().sig();
    // int is INTEGER is unsigned; long is int64_t is MPI_Aint.
    assert!(sig(0x209) == sig(0x219) && sig(0x209) == sig(0x20d) && sig(0x209) != 0);
    assert!(sig(0x20a) == sig(0x258) && sig(0x20a) == sig(0x201) && sig(0x20a) != sig(0x209));
    assert!(sig(0x210) != sig(0x209) && sig(0x214) != sig(0x20a) && sig(0x214) != sig(0x212));
    assert!(sig(0x210) == sig(0x21a) && sig(0x220) != sig(0x2e2));
    for raw in [0x207, 0x243, 0x245, 0x247, 0x21e, 0x240, 0x229] {
        assert_eq!(sig(raw), 0, "{raw:#x}");
    }
    let column = Datatype::vector(3, 1, 2, &int()).unwrap();
    assert_eq!(column.sig(), sig(0x209));
}

#[test]
fn padding_of_parts_counts_in_the_whole() {
    let int = Datatype::predefined(0x209).unwrap();
    // Three blocks of 16 bytes every 25: 66 bytes of data, 68 with padding to the next int.
    let inner = Datatype::hvector(3, 4, 25, &int).unwrap();
    assert_eq!((inner.true_extent(), inner.extent()), (66, 68));
    // The last of the outer blocks ends with the padding of its last part, at 273 + 3 * 68.
    let outer = Datatype::hvector(2, 3, 273, &inner).unwrap();
    assert_eq!((outer.true_extent(), outer.extent()), (475, 480));
}
