use farpost_paper::xt3::netpipe::{Test, time};
use farpost_sim::machine::Machine;
fn main() {
    let m = Machine::open("xt3").unwrap();
    for (name, m) in [
        ("generic", m.clone()),
        ("accelerated", farpost_paper::xt3::machine::accelerated(&m)),
    ] {
        for test in [Test::PingPong, Test::Get, Test::Stream, Test::Bidirectional] {
            for len in [
                1usize,
                12,
                13,
                100,
                200,
                1024,
                2048,
                3072,
                4096,
                5120,
                7168,
                65536,
                1 << 20,
            ] {
                let s = std::time::Instant::now();
                let t = time(&m, test, len);
                println!(
                    "{name} {test:?} {len}: {:.3} us  {:.2} MB/s   ({:?})",
                    t.micros(),
                    len as f64 / t.secs() / 1e6,
                    s.elapsed()
                );
            }
        }
    }
}
