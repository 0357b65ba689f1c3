// interface: rust
//! Work stealing over JAM's remote procedures: Fibonacci numbers, the n queens problem and an adaptive quadrature, each
//! on all processes of the job.
//!
//! `cargo build -p farpost-node --example jam_cilk && mpiexec -n 4 target/debug/examples/jam_cilk`
//!
//! With an argument also that Fibonacci number. Under `mpiexec --on-failure continue` processes other than 0 may be killed
//! meanwhile: what they had taken is done again.

use std::rc::Rc;

use farpost_jam::Jam;
use farpost_jam::cilk::{Cilk, CilkError};
use farpost_node::{Node, NodeFabric};

type Computation = Cilk<NodeFabric>;
type Outcome = Result<Vec<u8>, CilkError>;

const FIB: u16 = 0;
const QUEENS: u16 = 1;
const QUADRATURE: u16 = 2;

fn words<const N: usize>(bytes: &[u8]) -> Result<[u64; N], CilkError> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; N] = words
        .try_into()
        .ok()
        .filter(|_| rest.is_empty())
        .ok_or_else(|| CilkError::Work(format!("an argument of {} bytes", bytes.len())))?;
    Ok(words.map(u64::from_le_bytes))
}

fn bytes<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.map(u64::to_le_bytes).concat()
}

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

/// Small numbers are not worth a spawn.
fn parallel_fib(cilk: &Computation, argument: &[u8]) -> Outcome {
    let [n] = words(argument)?;
    if n < 12 {
        return Ok(bytes([fib(n)]));
    }
    let child = cilk.spawn(FIB, &bytes([n - 1]));
    let [second] = words(&parallel_fib(cilk, &bytes([n - 2]))?)?;
    let [first] = words(&cilk.sync(child)?)?;
    Ok(bytes([first + second]))
}

/// Ways to place the queens of the rows that are left, with these columns and diagonals taken.
fn queens(columns: u64, left: u64, right: u64, all: u64) -> u64 {
    if columns == all {
        return 1;
    }
    let mut free = all & !(columns | left | right);
    let mut ways = 0;
    while free != 0 {
        let place = free & free.wrapping_neg();
        free ^= place;
        ways += queens(columns | place, (left | place) << 1, (right | place) >> 1, all);
    }
    ways
}

fn parallel_queens(cilk: &Computation, argument: &[u8]) -> Outcome {
    let [columns, left, right, all] = words(argument)?;
    if columns.count_ones() >= 3 {
        return Ok(bytes([queens(columns, left, right, all)]));
    }
    let mut children = Vec::new();
    let mut free = all & !(columns | left | right);
    while free != 0 {
        let place = free & free.wrapping_neg();
        free ^= place;
        let next = [columns | place, (left | place) << 1, (right | place) >> 1, all];
        children.push(cilk.spawn(QUEENS, &bytes(next)));
    }
    let mut ways = 0;
    while let Some(child) = children.pop() {
        let [more] = words(&cilk.sync(child)?)?;
        ways += more;
    }
    Ok(bytes([ways]))
}

/// Steep near 0: the quadrature has to look closely there.
fn curve(x: f64) -> f64 {
    1.0 / (x + 1e-3)
}

fn simpson(from: f64, to: f64) -> f64 {
    (to - from) / 6.0 * (curve(from) + 4.0 * curve((from + to) / 2.0) + curve(to))
}

fn quadrature(cilk: &Computation, argument: &[u8]) -> Outcome {
    let [from, to, tolerance] = words(argument)?.map(f64::from_bits);
    let middle = (from + to) / 2.0;
    let (whole, halves) = (simpson(from, to), simpson(from, middle) + simpson(middle, to));
    if (whole - halves).abs() <= 15.0 * tolerance {
        return Ok(bytes([(halves + (halves - whole) / 15.0).to_bits()]));
    }
    let child = cilk.spawn(
        QUADRATURE,
        &bytes([middle, to, tolerance / 2.0].map(f64::to_bits)),
    );
    let left = quadrature(cilk, &bytes([from, middle, tolerance / 2.0].map(f64::to_bits)))?;
    let [left] = words(&left)?.map(f64::from_bits);
    let [right] = words(&cilk.sync(child)?)?.map(f64::from_bits);
    Ok(bytes([(left + right).to_bits()]))
}

fn main() -> Result<(), String> {
    let node = Node::join()?;
    let wait = &node.settings.wait;
    let jam = Rc::new(Jam::new(Rc::clone(&node.fabric), &node.settings.jam, wait));
    let cilk = Cilk::new(jam).map_err(|e| e.to_string())?;
    cilk.register(FIB, Rc::new(parallel_fib));
    cilk.register(QUEENS, Rc::new(parallel_queens));
    cilk.register(QUADRATURE, Rc::new(quadrature));
    let run = |work, argument: &[u8]| cilk.run(work, argument).map_err(|e| e.to_string());

    if let Some(result) = run(FIB, &bytes([27]))? {
        let [n] = words(&result).map_err(|e| e.to_string())?;
        println!("fib(27) = {n}");
        assert_eq!(n, 196_418);
    }
    if let Some(result) = run(QUEENS, &bytes([0, 0, 0, (1 << 9) - 1]))? {
        let [n] = words(&result).map_err(|e| e.to_string())?;
        println!("9 queens: {n} ways");
        assert_eq!(n, 352);
    }
    if let Some(result) = run(QUADRATURE, &bytes([0.0, 1.0, 1e-9].map(f64::to_bits)))? {
        let [area] = words(&result).map_err(|e| e.to_string())?.map(f64::from_bits);
        let exact = (1.001f64 / 0.001).ln();
        println!("area = {area:.9}, exactly {exact:.9}");
        assert!((area - exact).abs() < 1e-6);
    }
    if let Some(n) = std::env::args().nth(1) {
        let n: u64 = n.parse().map_err(|e| format!("{n}: {e}"))?;
        if n > 90 {
            return Err(format!(
                "{n}: the number must fit into 64 bits, so at most the 90th"
            ));
        }
        if let Some(result) = run(FIB, &bytes([n]))? {
            let [found] = words(&result).map_err(|e| e.to_string())?;
            println!("fib({n}) = {found}");
            assert_eq!(found, (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0);
        }
    }
    let tally = cilk.counters();
    println!(
        "process {}: {} pieces spawned, {} of others' done, {} done again, {} requests found nothing",
        node.job.rank(),
        tally.spawned,
        tally.stolen,
        tally.again,
        tally.refused
    );
    Ok(())
}
