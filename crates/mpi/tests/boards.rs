//! What a rank shows on its board is input from another process.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;

use common::{ShmWorld, barrier, run};
use farpost_fabric::{ErrorStatus, LocalMemory, Peer, RemoteMemory};
use farpost_mpi::world::WorldConfig;
use farpost_mpi::world::board::WORDS;

const RANKS: u32 = 3;
/// Who damages its own lines.
const VANDAL: u32 = 2;
/// Bytes from a line to the next.
const LINE: usize = 64;

/// One step of MPI_COMM_WORLD: what everybody showed.
fn step(world: &ShmWorld, number: u64) -> farpost_mpi::Result<Vec<u64>> {
    let mut mine = [0; WORDS];
    mine[0] = number * 10 + u64::from(world.pid());
    let mut seen = Vec::new();
    let comm = world.comm_world();
    let there = world.show_all(comm, &mine, 1, |rank, words| {
        assert_eq!(rank, seen.len());
        seen.push(words[0]);
        Ok(())
    })?;
    assert!(there, "MPI_COMM_WORLD has a board");
    Ok(seen)
}

fn good_step(world: &ShmWorld, number: &mut u64) {
    *number += 1;
    let wanted: Vec<u64> = (0..u64::from(RANKS)).map(|rank| *number * 10 + rank).collect();
    assert_eq!(step(world, *number).unwrap(), wanted);
}

#[test]
fn a_line_that_goes_back_is_an_error_and_not_waited_for() {
    // Step 5 comes next, and its line shows step 3. What the vandal makes of it:
    let damage: [fn(u64) -> u64; 9] = [
        |_| 0,
        |step| step - 4,
        |step| step - 3,
        |step| step - 1,
        |step| step + 1,
        |step| step + 2,
        |step| (step - 2) | 1 << 32,
        |step| step | 1 << 63,
        |_| u64::MAX,
    ];
    run(RANKS, WorldConfig::default(), |world| {
        let mut number = 0;
        for _ in 0..4 {
            good_step(world, &mut number);
        }
        for damage in damage {
            number += 1;
            if world.pid() == VANDAL {
                let mine = world.fabric().common(Peer(VANDAL)).unwrap();
                mine.store((number & 1) as usize * LINE, damage(number));
                // The others have seen it.
                barrier(world);
                // It shows its line after all.
                assert_eq!(step(world, number).unwrap().len(), RANKS as usize);
            } else {
                let error = step(world, number).unwrap_err().to_string();
                assert!(error.contains("rank 2") && error.contains("step"), "{error}");
                let faults = world.take_faults();
                assert_eq!(faults.len(), 1, "{faults:?}");
                assert!(faults[0].contains("the step of a collective"), "{faults:?}");
                barrier(world);
            }
            // What the vandal shows later is right again, and so is everything.
            for _ in 0..3 {
                good_step(world, &mut number);
            }
            assert_eq!(world.fabric().take_faults().0, vec![]);
        }
    });
}

#[test]
fn an_empty_line_is_no_error_before_anything_was_shown() {
    run(RANKS, WorldConfig::default(), |world| {
        let mut number = 0;
        for late in [0, 1, 2, 1] {
            if world.pid() == late {
                // The others wait for us by now, or will.
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            good_step(world, &mut number);
        }
    });
}
