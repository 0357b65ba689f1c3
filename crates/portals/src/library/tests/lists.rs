//! Match lists: order, however entries are inserted.

use super::*;

/// Insertions between the same two entries use the labels up: they are spread, and order stays.
#[test]
fn insertions_at_one_place() {
    let mut w = world(1);
    let end = &mut w.ends[0];
    let all = (0, NO_BITS);
    let first = end
        .me_attach(3, ProcessId::ANY, all, Unlink::Retain, Position::After)
        .unwrap();
    let last = end
        .me_attach(3, ProcessId::ANY, all, Unlink::Retain, Position::After)
        .unwrap();
    let mut between = Vec::new();
    for n in 0..500 {
        let (base, position) = if n % 2 == 0 {
            (first, Position::After)
        } else {
            (last, Position::Before)
        };
        let me = end
            .me_insert(base, ProcessId::ANY, all, Unlink::Retain, position)
            .unwrap();
        between.insert(between.len().div_ceil(2).min(n / 2 + n % 2), (n, me));
    }
    // After `first` come the even ones, latest first; before `last` the odd ones, latest last.
    let mut order: Vec<u16> = vec![first.index()];
    let of = |n: usize| between.iter().find(|b| b.0 == n).unwrap().1.index();
    order.extend((0..500).rev().filter(|n| n % 2 == 0).map(of));
    order.extend((0..500).filter(|n| n % 2 == 1).map(of));
    order.push(last.index());
    assert!(end.portals[3].entries().eq(order));
    for (_, me) in between {
        end.me_unlink(me).unwrap();
    }
    assert!(end.portals[3].entries().eq([first.index(), last.index()]));
}
