//! Wrong arguments, failing messages, cancelling.

use super::data::{Layout, Mem, value};
use super::{Comm, Net, Placing, Port};
use crate::ErrorClass;
use crate::coll::*;
use crate::op::Op;

#[test]
fn a_root_out_of_range_is_refused() {
    let (tuning, pool) = (Tuning::default(), Pool::new(0));
    let site = Comm::intra(3, 0).site(0, 1, &tuning, &pool);
    for root in [Root::Rank(3), Root::Me, Root::Idle] {
        let error = bcast(&site, Block::none(), root).err().expect("refused");
        assert_eq!(error.class, ErrorClass::ERR_ROOT);
        assert!(error.message.contains("0 to 2"), "{error}");
    }
    assert_eq!(Root::from_abi(-4), Ok(Root::Me));
    assert_eq!(Root::from_abi(-3), Ok(Root::Idle));
    assert_eq!(Root::from_abi(2), Ok(Root::Rank(2)));
    assert_eq!(Root::from_abi(-1).unwrap_err().class, ErrorClass::ERR_ROOT);
}

#[test]
fn in_place_is_refused_where_the_standard_has_none() {
    let (tuning, pool) = (Tuning::default(), Pool::new(0));
    let inter = Comm {
        sizes: [2, 2],
        seed: 0,
        placing: Placing::Together,
    };
    let site = inter.site(0, 0, &tuning, &pool);
    let refused = [
        allreduce(&site, None, Block::none(), &Op::SUM).err(),
        allgather(&site, None, Block::none()).err(),
        alltoall(&site, None, Block::none()).err(),
        reduce(&site, None, Block::none(), &Op::SUM, Root::Rank(0)).err(),
        gather(
            &Comm::intra(2, 0).site(0, 1, &tuning, &pool),
            None,
            Block::none(),
            Root::Rank(0),
        )
        .err(),
    ];
    for error in refused {
        assert_eq!(error.expect("refused").class, ErrorClass::ERR_BUFFER);
    }
    let error = scan(&site, None, Block::none(), &Op::SUM).err().expect("refused");
    assert_eq!(error.class, ErrorClass::ERR_COMM);
}

#[test]
fn a_rank_with_too_little_room_gets_the_error_and_the_others_their_data() {
    let comm = Comm::intra(5, 3);
    let (tuning, pool) = (Tuning::default(), Pool::new(0));
    let mut mems: Vec<Mem> = (0..5).map(|_| Mem::new(Layout::Gaps, 8)).collect();
    mems[0].fill(|i| value(0, 0, i));
    let mut schedules: Vec<_> = (0..5)
        .map(|r| {
            // Rank 3 is a leaf of the tree.
            let buf = mems[r].block(0, if r == 3 { 4 } else { 8 });
            Schedule::new(
                bcast(&comm.site(0, r, &tuning, &pool), buf, Root::Rank(0)).unwrap(),
                1,
            )
        })
        .collect();
    let net = Net::new(comm.sizes, 3);
    let ports: Vec<_> = (0..5).map(|r| Port::new(&net, 0, r)).collect();
    for (r, result) in net.outcome(&mut schedules, &ports).into_iter().enumerate() {
        match result {
            Err(error) => assert_eq!((r, error.class), (3, ErrorClass::ERR_TRUNCATE)),
            Ok(()) => {
                assert_ne!(r, 3);
                assert_eq!(mems[r].get(7), value(0, 0, 7), "rank {r}");
            }
        }
    }
}

#[test]
fn cancelling_leaves_nothing_under_way() {
    let comm = Comm::intra(4, 9);
    let (tuning, pool) = (Tuning::default(), Pool::new(1 << 20));
    let mut mems: Vec<Mem> = (0..8).map(|_| Mem::new(Layout::Plain, 100)).collect();
    let net = Net::new(comm.sizes, 9);
    let mut schedules: Vec<_> = (0..4)
        .map(|r| {
            let (send, recv) = (mems[r].all(), mems[r + 4].all());
            let plan = allreduce(&comm.site(0, r, &tuning, &pool), Some(send), recv, &Op::SUM).unwrap();
            Schedule::new(plan, 1)
        })
        .collect();
    let ports: Vec<_> = (0..4).map(|r| Port::new(&net, 0, r)).collect();
    for (schedule, port) in schedules.iter_mut().zip(&ports).take(3) {
        assert_eq!(schedule.advance(port), Ok(false));
        net.step();
    }
    for (schedule, port) in schedules.iter_mut().zip(&ports) {
        schedule.cancel(port);
        assert!(schedule.is_complete());
    }
    assert_eq!(net.waiting_receives(), 0);
    drop(schedules);
    assert!(pool.kept() > 0, "temporaries go back to the pool");
}
