//! Windows over the in-process fabric, which maps no memory: ranks are coroutines of one thread, delays and orders come from a seed, and each
//! carrier carries them (MPI-5.0 sections 12.3, 12.5).

use farpost_fabric::Fabric;
use farpost_fabric::inproc::{self, Config, InProc};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::{World, WorldConfig};
use farpost_rma::{Flavor, LockKind, New, Place, What, Win, Windows};
use std::cell::Cell;

/// In one rank's part of a window: enough for data that travel by messages of their own.
const WORDS: usize = 3000;
const INT64: usize = 0x258;

fn word() -> Datatype {
    Datatype::predefined(INT64).unwrap()
}

fn read(words: &[Cell<i64>]) -> SendBuf {
    // SAFETY: tests keep the memory until the epoch is over.
    unsafe { SendBuf::new(words.as_ptr().cast(), words.len() as u64, word()) }
}

fn fill(words: &[Cell<i64>]) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::new(words.as_ptr().cast_mut().cast(), words.len() as u64, word()) }
}

fn at(ty: &Datatype, rank: usize, disp: usize, count: usize) -> Place<'_> {
    Place {
        rank: rank as i32,
        disp: disp as i64,
        count: count as u64,
        datatype: ty,
    }
}

fn words(len: usize, first: i64) -> Vec<Cell<i64>> {
    (0..len).map(|at| Cell::new(first + at as i64)).collect()
}

/// What everybody does in a round follows from the seed, so each rank knows what its memory has to be.
fn program(end: InProc, device: Device, seed: u64) -> Vec<i64> {
    let config = WorldConfig {
        device: DeviceConfig {
            device,
            ..DeviceConfig::default()
        },
        ..WorldConfig::default()
    };
    let (me, size) = (end.me().0 as usize, end.size() as usize);
    let world = World::new(end, config);
    let windows = Windows::new(&world);
    let memory = words(WORDS * size, 0);
    memory.iter().for_each(|word| word.set(0));
    let new = New {
        flavor: Flavor::Create,
        base: memory.as_ptr() as usize,
        size: (memory.len() * 8) as i64,
        unit: 8,
    };
    let win: std::rc::Rc<Win<InProc>> = windows.make(&world, world.comm_world(), None, new).unwrap();
    let (ty, sum) = (word(), Op::SUM);
    // What all windows have to hold.
    let mut models = vec![vec![0i64; memory.len()]; size];
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..6 {
        // The same draws at all ranks: who does what to whom.
        let draws: Vec<(u32, usize, usize, usize)> = (0..size)
            .map(|_| {
                (
                    random.u32(0..3),
                    random.usize(0..size),
                    random.usize(0..WORDS),
                    random.usize(1..=WORDS),
                )
            })
            .collect();
        win.fence(&world, 0).unwrap();
        let mut kept = Vec::new();
        for (origin, (kind, target, from, len)) in draws.iter().copied().enumerate() {
            // Each origin has a part of every window; sums go to the part of rank 0 by all.
            let (part, len) = (if kind == 1 { 0 } else { origin }, len.min(WORDS - from));
            let place = part * WORDS + from;
            // Writing to the part that is summed to would be a conflict.
            if kind == 0 && part == 0 {
                continue;
            }
            {
                let model = &mut models[target];
                for at in 0..len {
                    let value = origin as i64 * 1000 + at as i64;
                    match kind {
                        0 => model[place + at] = value,
                        1 => model[place + at] += value,
                        _ => {}
                    }
                }
            }
            if origin == me {
                let data = words(len, origin as i64 * 1000);
                let what = match kind {
                    0 => What::Put(read(&data)),
                    1 => What::Accumulate(read(&data), sum.clone()),
                    _ => What::Get(fill(&data)),
                };
                win.operate(&world, what, &at(&ty, target, place, len), false)
                    .unwrap();
                kept.push((kind, target, place, data));
            }
        }
        win.fence(&world, 0).unwrap();
        let now: Vec<i64> = memory.iter().map(Cell::get).collect();
        assert!(now == models[me], "rank {me}, seed {seed}");
        for (kind, target, place, data) in kept {
            // Parts of others than rank 0 are written by nobody else meanwhile.
            if kind == 2 && place >= WORDS {
                let got: Vec<i64> = data.iter().map(Cell::get).collect();
                assert!(
                    got == models[target][place..place + got.len()],
                    "rank {me}, seed {seed}"
                );
            }
        }
        win.fence(&world, 0).unwrap();
    }
    win.fence(&world, 16384).unwrap();
    // A counter at rank 0 by fetch and add under shared locks, and one by get and put under exclusive ones.
    let plan = coll::barrier(&world.site(world.comm_world())).unwrap();
    world.run_collective(world.comm_world(), plan).unwrap();
    let mut drawn = Vec::new();
    for _ in 0..5 {
        let (one, old) = (words(1, 1), words(1, -1));
        win.lock(&world, LockKind::Shared, 0, 0).unwrap();
        let what = What::Fetch(Some(read(&one)), fill(&old), sum.clone());
        win.operate(&world, what, &at(&ty, 0, WORDS * size - 1, 1), false)
            .unwrap();
        win.unlock(&world, 0).unwrap();
        drawn.push(old[0].get());
        let value = words(1, 0);
        win.lock(&world, LockKind::Exclusive, 0, 0).unwrap();
        win.operate(
            &world,
            What::Get(fill(&value)),
            &at(&ty, 0, WORDS * size - 2, 1),
            false,
        )
        .unwrap();
        win.flush(&world, Some(0), false).unwrap();
        value[0].set(value[0].get() + 1);
        win.operate(
            &world,
            What::Put(read(&value)),
            &at(&ty, 0, WORDS * size - 2, 1),
            false,
        )
        .unwrap();
        win.unlock(&world, 0).unwrap();
    }
    windows.free(&world, &win).unwrap();
    if me == 0 {
        let start = models[0][WORDS * size - 2..].to_vec();
        let grown = [
            memory[WORDS * size - 2].get() - start[0],
            memory[WORDS * size - 1].get() - start[1],
        ];
        assert_eq!(grown, [5 * size as i64; 2]);
    }
    world.quiesce().unwrap();
    let plan = coll::barrier(&world.site(world.comm_world())).unwrap();
    world.run_collective(world.comm_world(), plan).unwrap();
    world.drain_to_peers(|_| false).unwrap();
    assert_eq!(world.take_faults(), Vec::<String>::new());
    drawn
}

fn runs(device: Device) {
    for size in [1, 2, 5] {
        for seed in 0..4 {
            let drawn = inproc::run(size, seed, Config::default(), move |end| {
                program(end, device, seed)
            });
            let mut all: Vec<i64> = drawn.into_iter().flatten().collect();
            all.sort_unstable();
            // Nobody draws what another one has drawn.
            let first = all[0];
            let wanted: Vec<i64> = (0..i64::from(5 * size)).map(|at| first + at).collect();
            assert_eq!(all, wanted, "{size} ranks, seed {seed}");
        }
    }
}

#[test]
fn over_postboxes() {
    runs(Device::Postbox);
}

#[test]
fn over_fast_messages() {
    runs(Device::Fm);
}

#[test]
fn over_jam() {
    runs(Device::Jam);
}
