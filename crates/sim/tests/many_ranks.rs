//! Many ranks in one process, on large machines.

#[path = "support/machines.rs"]
mod machines;
#[path = "support/many.rs"]
mod many;

use farpost_sim::ranks;
use many::{On, Pattern};

/// All of them get what they should, and the same run comes again.
fn runs(on: &str, pattern: &str, size: u32) {
    let pattern = Pattern::parse(pattern).expect("a pattern");
    let on = On(on.into());
    let run = || {
        let (core, device) = on.core(size, 1).expect("so many hosts");
        let (results, core) = ranks::run(core, |end| pattern.run(end, device)).expect("no rank hangs");
        for (rank, got) in (0..).zip(results) {
            assert_eq!(got, pattern.expected(rank, size), "rank {rank}");
        }
        (core.kernel.now, core.kernel.queue.made())
    };
    let first = run();
    println!("{pattern:?} of {size} ranks: {first:?}");
    assert_eq!(first, run());
}

/// More ranks than have places in tables (1024), on a tree with one level more than the machine's.
#[test]
fn an_allreduce_on_a_tree() {
    runs("tree", "allreduce", 1100);
}

#[test]
fn a_ring_on_a_torus() {
    runs("torus", "ring", 1100);
}

#[test]
fn an_allreduce_by_portals_on_the_xt3() {
    runs("xt3", "allreduce", 40);
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = On("xt3".into()).core(20_000, 1).err().expect("too many");
    assert!(
        error.contains("20000 ranks") && error.contains("10368"),
        "{error}"
    );
}
