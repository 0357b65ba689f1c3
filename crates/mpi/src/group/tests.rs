//! Groups against plain vectors.
//!
//! Requirements of MPI-5.0 sections 7.3.1, 7.3.2.

use super::*;
use crate::ErrorClass;
use proptest::prelude::*;

fn pids() -> impl Strategy<Value = Vec<u32>> {
    let shuffled = proptest::collection::hash_set(0u32..24, 0..16)
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle();
    let far = proptest::collection::hash_set(any::<u32>(), 0..16).prop_map(|set| set.into_iter().collect());
    let run = (0u32..40, -3i32..4, 0u32..10).prop_map(|(first, stride, n)| {
        let stride = if stride == 0 { 1 } else { stride };
        (0..n as i64)
            .map(|i| i64::from(first) + i * i64::from(stride))
            .take_while(|pid| *pid >= 0)
            .map(|pid| pid as u32)
            .collect()
    });
    prop_oneof![shuffled, far, run]
}

fn class<T: core::fmt::Debug>(result: crate::Result<T>) -> ErrorClass {
    result.expect_err("an error was due").class
}

proptest! {
    #[test]
    fn lookup_both_ways(a in pids()) {
        let group = Group::from_pids(&a);
        prop_assert_eq!(group.size() as usize, a.len());
        prop_assert_eq!(group.to_pids(), a.clone());
        for (rank, pid) in a.iter().enumerate() {
            prop_assert_eq!(group.pid(rank as i32), Some(*pid));
            prop_assert_eq!(group.rank_of(*pid), Some(rank as i32));
        }
        for pid in (0..50).chain([u32::MAX, u32::MAX / 2]) {
            let model = a.iter().position(|p| *p == pid).map(|r| r as i32);
            prop_assert_eq!(group.rank_of(pid), model);
        }
        for rank in [-1, i32::MIN, a.len() as i32, i32::MAX] {
            prop_assert_eq!(group.pid(rank), None);
        }
        let identity = a.iter().enumerate().all(|(rank, pid)| rank as u32 == *pid);
        prop_assert_eq!(group.is_identity(), identity);
    }

    #[test]
    fn set_algebra(a in pids(), b in pids()) {
        let (ga, gb) = (Group::from_pids(&a), Group::from_pids(&b));
        let both: Vec<u32> = a.iter().copied().filter(|p| b.contains(p)).collect();
        let only: Vec<u32> = a.iter().copied().filter(|p| !b.contains(p)).collect();
        let mut either = a.clone();
        either.extend(b.iter().filter(|p| !a.contains(p)));
        prop_assert_eq!(ga.intersection(&gb).to_pids(), both.clone());
        prop_assert_eq!(ga.difference(&gb).to_pids(), only);
        prop_assert_eq!(ga.union(&gb).to_pids(), either);
        let model = if a == b {
            Comparison::Ident
        } else if a.len() == b.len() && both.len() == a.len() {
            Comparison::Similar
        } else {
            Comparison::Unequal
        };
        prop_assert_eq!(ga.compare(&gb), model);
        prop_assert_eq!(ga == gb, a == b);
        let ranks: Vec<i32> = (0..a.len() as i32).chain([PROC_NULL]).collect();
        let mut out = vec![0; ranks.len()];
        ga.translate_ranks(&ranks, &gb, &mut out).unwrap();
        let mut model: Vec<i32> = a
            .iter()
            .map(|p| b.iter().position(|q| q == p).map_or(UNDEFINED, |r| r as i32))
            .collect();
        model.push(PROC_NULL);
        prop_assert_eq!(out, model);
    }

    #[test]
    fn reordered_is_similar(mut a in pids()) {
        let forward = Group::from_pids(&a);
        a.reverse();
        let expected = if a.len() < 2 { Comparison::Ident } else { Comparison::Similar };
        prop_assert_eq!(forward.compare(&Group::from_pids(&a)), expected);
    }

    #[test]
    fn incl_and_excl(a in pids(), ranks in proptest::collection::vec(-2i32..18, 0..10)) {
        let group = Group::from_pids(&a);
        let in_range = ranks.iter().all(|r| (0..a.len() as i32).contains(r));
        let distinct = (1..ranks.len()).all(|i| !ranks[..i].contains(&ranks[i]));
        if in_range && distinct {
            let picked: Vec<u32> = ranks.iter().map(|r| a[*r as usize]).collect();
            prop_assert_eq!(group.incl(&ranks).unwrap().to_pids(), picked.clone());
            let rest: Vec<u32> = a.iter().copied().filter(|p| !picked.contains(p)).collect();
            prop_assert_eq!(group.excl(&ranks).unwrap().to_pids(), rest);
        } else {
            prop_assert_eq!(class(group.incl(&ranks)), ErrorClass::ERR_RANK);
            prop_assert_eq!(class(group.excl(&ranks)), ErrorClass::ERR_RANK);
        }
    }

    /// The range forms are those of the expanded list, as the standard defines them.
    #[test]
    fn ranges_expand(
        a in pids(),
        ranges in proptest::collection::vec((-1i32..16, -1i32..20, -5i32..6), 0..3),
    ) {
        let group = Group::from_pids(&a);
        let ranges: Vec<[i32; 3]> = ranges.into_iter().map(|(f, l, s)| [f, l, s]).collect();
        let mut expanded = Vec::new();
        let mut legal = true;
        for [first, last, stride] in &ranges {
            legal &= *stride != 0 && (last - first) * stride.signum() >= 0;
            let mut rank = *first;
            while legal && if *stride > 0 { rank <= *last } else { rank >= *last } {
                expanded.push(rank);
                rank += stride;
            }
        }
        if legal {
            prop_assert_eq!(group.range_incl(&ranges).ok(), group.incl(&expanded).ok());
            prop_assert_eq!(group.range_excl(&ranges).ok(), group.excl(&expanded).ok());
        } else {
            prop_assert!(group.range_incl(&ranges).is_err());
            prop_assert!(group.range_excl(&ranges).is_err());
        }
    }
}

#[test]
fn progressions_take_no_memory() {
    for group in [
        Group::all(1_000_000),
        Group::from_pids(&[9, 7, 5, 3]),
        Group::all(1 << 20).range_incl(&[[1, (1 << 20) - 1, 2]]).unwrap(),
    ] {
        assert!(matches!(group.0, Repr::Run { .. }), "{group:?}");
    }
}

#[test]
fn messages_name_argument_and_range() {
    let group = Group::all(2);
    let text = |result: crate::Result<Group>| result.unwrap_err().message;
    assert_eq!(
        text(group.incl(&[0, 7])),
        "ranks[1]=7: the group has ranks 0 to 1"
    );
    assert_eq!(
        text(group.excl(&[0, 0])),
        "ranks[1]=0: that rank is named twice, and ranks must be distinct"
    );
    assert_eq!(
        text(group.range_incl(&[[0, 1, 0]])),
        "ranges[0]=(0, 1, 0): the stride must not be 0"
    );
    assert_eq!(class(group.range_incl(&[[0, 1, 0]])), ErrorClass::ERR_ARG);
    assert_eq!(class(group.range_incl(&[[0, 1, -1]])), ErrorClass::ERR_ARG);
    assert_eq!(class(group.range_excl(&[[0, i32::MAX, 1]])), ErrorClass::ERR_RANK);
    assert_eq!(
        class(group.range_incl(&[[0, 1, 1], [1, 1, 1]])),
        ErrorClass::ERR_RANK
    );
    let error = group.translate_ranks(&[2], &group, &mut [0]).unwrap_err();
    assert_eq!(error.message, "ranks1[0]=2: group1 has ranks 0 to 1");
    // `last` itself need not be a rank when the stride jumps over it.
    assert_eq!(
        group.range_incl(&[[0, 3, 2]]).map_err(|e| e.class),
        Err(ErrorClass::ERR_RANK)
    );
    assert_eq!(Group::all(3).range_incl(&[[0, 3, 2]]).unwrap().to_pids(), [0, 2]);
}
