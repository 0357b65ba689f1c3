//! Work stealing between real processes, on shared memory and as between hosts: results are found once, whoever is slow
//! and whoever is killed.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]

use farpost_fabric::conformance::{child, kill, reap};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Peer};
use farpost_jam::cilk::{Cilk, CilkCounters, CilkError};
use farpost_jam::{Jam, JamTunables};
use farpost_mapped::sealed_memory;
use farpost_net::conformance::SharedBook;
use farpost_ofi::conformance::OfiThreads;
use farpost_shm::conformance::shm_end;
use farpost_shm::{ShmTunables, region_bytes};
use farpost_tcp::conformance::TcpThreads;
use std::rc::Rc;
use std::time::Duration;

const FIB: u16 = 1;
const QUEENS: u16 = 2;
const SLOW: u16 = 3;
const WRONG: u16 = 4;

/// Longest time that taking leave takes.
const FAREWELL: Duration = Duration::from_secs(10);

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn fib<F: Fabric>(cilk: &Cilk<F>, argument: &[u8]) -> Result<Vec<u8>, CilkError> {
    let n = number(argument);
    if n < 2 {
        return Ok(argument.to_vec());
    }
    let child = cilk.spawn(FIB, &(n - 1).to_le_bytes());
    let other = number(&fib(cilk, &(n - 2).to_le_bytes())?);
    Ok((number(&cilk.sync(child)?) + other).to_le_bytes().to_vec())
}

fn fib_of(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Ways to place queens on the rows that are left: columns and diagonals taken, row, size of the board.
fn queens<F: Fabric>(cilk: &Cilk<F>, argument: &[u8]) -> Result<Vec<u8>, CilkError> {
    let word = |i: usize| u32::from_le_bytes(argument[4 * i..4 * i + 4].try_into().expect("a word"));
    let (columns, left, right, row, size) = (word(0), word(1), word(2), word(3), word(4));
    if row == size {
        return Ok(1u64.to_le_bytes().to_vec());
    }
    let mut children = Vec::new();
    let mut free = !(columns | left | right) & ((1 << size) - 1);
    while free != 0 {
        let place = free & free.wrapping_neg();
        free ^= place;
        let next = [
            columns | place,
            (left | place) << 1,
            (right | place) >> 1,
            row + 1,
            size,
        ];
        children.push(cilk.spawn(QUEENS, &next.map(u32::to_le_bytes).concat()));
    }
    let mut sum = 0;
    for child in children.into_iter().rev() {
        sum += number(&cilk.sync(child)?);
    }
    Ok(sum.to_le_bytes().to_vec())
}

/// A hundred pieces, each slow, so that everybody gets some; the sum of their numbers.
fn slow<F: Fabric>(cilk: &Cilk<F>, argument: &[u8]) -> Result<Vec<u8>, CilkError> {
    let n = number(argument);
    if n > 0 {
        std::thread::sleep(Duration::from_millis(2));
        return Ok(n.to_le_bytes().to_vec());
    }
    let children: Vec<_> = (1..=100u64).map(|n| cilk.spawn(SLOW, &n.to_le_bytes())).collect();
    let mut sum = 0;
    for child in children.into_iter().rev() {
        sum += number(&cilk.sync(child)?);
    }
    Ok(sum.to_le_bytes().to_vec())
}

fn wrong<F: Fabric>(_: &Cilk<F>, _: &[u8]) -> Result<Vec<u8>, CilkError> {
    Err(CilkError::Work("this work cannot be done".into()))
}

fn open<F: Fabric + 'static>(fabric: Rc<F>) -> Cilk<F> {
    let jam = Jam::new(fabric, &JamTunables::default(), &WaitTunables::default());
    let cilk = Cilk::new(Rc::new(jam)).expect("work stealing");
    cilk.register(FIB, Rc::new(fib));
    cilk.register(QUEENS, Rc::new(queens));
    cilk.register(SLOW, Rc::new(slow));
    cilk.register(WRONG, Rc::new(wrong));
    cilk
}

type Found = (Result<u64, CilkError>, CilkCounters);

/// Run `work` on `size` processes, this one the root, each at its end of what `end` makes; those in `victims` are killed after that
/// many milliseconds.
fn job<F: Fabric + 'static>(
    size: u32,
    end: impl Fn(u32) -> Rc<F>,
    (work, argument): (u16, &[u8]),
    victims: &[(u32, u64)],
) -> Found {
    let children: Vec<libc::pid_t> = (1..size)
        .map(|index| {
            child(|| {
                let fabric = end(index);
                let ended = open(Rc::clone(&fabric)).run(work, argument);
                fabric.close(FAREWELL);
                assert_eq!(ended, Ok(None), "process {index}");
            })
        })
        .collect();
    let fabric = end(0);
    let killers: Vec<libc::pid_t> = victims
        .iter()
        .map(|(index, after)| {
            child(|| {
                std::thread::sleep(Duration::from_millis(*after));
                kill(children[*index as usize - 1]);
            })
        })
        .collect();
    let cilk = open(Rc::clone(&fabric));
    let result = cilk
        .run(work, argument)
        .map(|bytes| number(&bytes.expect("the root has the result")));
    fabric.close(FAREWELL);
    for pid in killers.into_iter().chain(children) {
        let status = reap(pid);
        let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        assert!(
            status == 0 || (killed && !victims.is_empty()),
            "a process ended with {status:#x}"
        );
    }
    (result, cilk.counters())
}

fn on_one_host(size: u32, work: (u16, &[u8]), victims: &[(u32, u64)]) -> Found {
    let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
    let end = |index| Rc::new(shm_end(&file, (index, size), 2, ShmTunables::default()));
    job(size, end, work, victims)
}

/// Each process as on a host of its own, its end made by `make`.
fn between_hosts<F: Fabric + 'static>(
    size: u32,
    make: impl Fn(u32, &SharedBook) -> F,
    work: (u16, &[u8]),
    victims: &[(u32, u64)],
) -> Found {
    let cards = tempfile::tempdir().expect("a directory");
    let end = |index| {
        let book = SharedBook::default();
        let end = make(index, &book);
        book.meet(cards.path(), Peer(index), size);
        Rc::new(end)
    };
    job(size, end, work, victims)
}

fn by_tcp(size: u32, work: (u16, &[u8]), victims: &[(u32, u64)]) -> Found {
    let make = |index, book: &SharedBook| TcpThreads::default().endpoint((index, size), book);
    between_hosts(size, make, work, victims)
}

/// Whether `what` is well in a process of its own: where libfabric has been, nobody can fork.
fn apart(what: impl FnOnce() -> bool) -> bool {
    reap(child(|| assert!(what(), "as said"))) == 0
}

fn by_libfabric(work: (u16, &[u8])) {
    let libfabric = OfiThreads::over_loopback("tcp", None);
    if !apart(|| libfabric.endpoint((0, 1), &SharedBook::default()).is_ok()) {
        return farpost_testing::skipped("nothing was tested over libfabric: install libfabric1");
    }
    let make = |index, book: &SharedBook| libfabric.endpoint((index, 4), book).expect("it was there");
    for victims in [&[][..], &[(1, 12)], &[(1, 20), (3, 30)]] {
        assert!(
            apart(|| between_hosts(4, make, work, victims).0 == Ok(5050)),
            "over libfabric, with {victims:?} killed"
        );
    }
}

fn main() {
    // A zombie still has a number: let killed children go at once.
    for size in [1, 2, 3, 8] {
        let (result, tally) = on_one_host(size, (FIB, &20u64.to_le_bytes()), &[]);
        assert_eq!(result, Ok(fib_of(20)), "fib on {size}");
        assert!(tally.spawned > 0);
    }
    let board = [0u32, 0, 0, 0, 8].map(u32::to_le_bytes).concat();
    let all_slow = (SLOW, &0u64.to_le_bytes()[..]);
    for run in [on_one_host, by_tcp] {
        assert_eq!(run(4, (QUEENS, &board), &[]).0, Ok(92));
        let (result, tally) = run(4, all_slow, &[]);
        assert_eq!(result, Ok(5050));
        assert_eq!((tally.again, tally.dropped), (0, 0));
        let (result, _) = run(3, (WRONG, &[]), &[]);
        assert_eq!(result, Err(CilkError::Work("this work cannot be done".into())));
        let mut again = 0;
        // Five times, and more often where none of those that were killed had work just then.
        for round in 0..40 {
            if round >= 5 && again > 0 {
                break;
            }
            let victims = [(1, 5 + 7 * (round % 5)), (3, 20 + 5 * (round % 5))];
            let (result, tally) = run(4, all_slow, &victims);
            assert_eq!(result, Ok(5050), "with processes 1 and 3 killed");
            again += tally.again;
        }
        assert!(again > 0, "processes are killed while they have work");
        println!(
            "work stealing: every result once; {again} pieces done again for processes that were killed"
        );
    }
    by_libfabric(all_slow);
}
