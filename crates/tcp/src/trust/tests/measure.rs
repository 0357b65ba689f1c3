//! What trust costs. Not a test:
//! `cargo test --profile quick -p farpost-fabric --lib trust::tests::measure -- --ignored --nocapture`.

use super::*;
use std::time::Instant;

/// Median time of one call in nanoseconds, of 15 rounds of `n` calls.
fn median(n: u32, mut f: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..15)
        .map(|_| {
            let start = Instant::now();
            (0..n).for_each(|_| f());
            start.elapsed().as_nanos() as f64 / f64::from(n)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[7]
}

#[test]
#[ignore = "a measurement"]
fn costs() {
    let both = median(100, || {
        sessions(false);
    });
    println!("handshake, both sides          {:8.1} us", both / 1e3);

    let wrong = Secret::new(&[1; 32]);
    let hello = step(&mut Handshake::initiator(&wrong, caller()), &[]).0;
    let key = secret();
    let stranger = median(1000, || {
        step(&mut Handshake::responder(&key, listener()), &hello);
    });
    println!("a hello with a wrong secret    {:8.2} us", stranger / 1e3);

    let (a, b) = sessions(true);
    let check = a.send_check;
    let header = [7u8; 24];
    let mut n = 0u64;
    let one = median(100_000, || {
        n = n.wrapping_add(std::hint::black_box(&check).of(n, std::hint::black_box(&header)) | 1);
    });
    println!("header check, 24 bytes         {one:8.2} ns");

    let (mut s, mut o) = (a.records.unwrap().0, b.records.unwrap().1);
    for plain in [64, 1 << 10, 4 << 10, 8 << 10, RECORD_PLAIN_MAX] {
        let mut record = vec![1u8; plain + RECORD_OVERHEAD];
        let both = median(2000, || {
            s.seal_in_place(&mut record);
            o.open(&mut record).unwrap();
        });
        let seal = median(2000, || s.seal_in_place(&mut record));
        let rate = |ns: f64| plain as f64 / ns;
        println!(
            "record of {plain:5} bytes: seal {:7.1} ns, {:5.2} GB/s; open {:7.1} ns, {:5.2} GB/s",
            seal,
            rate(seal),
            both - seal,
            rate(both - seal)
        );
        // The opener has to catch up with what was sealed for the clock alone.
        (s, o) = {
            let (a, b) = sessions(true);
            (a.records.unwrap().0, b.records.unwrap().1)
        };
    }
}
