//! Memory of a rank for its peers, all to all in one process: bounded after messages of 8 bytes and 1 KiB, and again small after a rest.

#[path = "../examples/peers_in_process/measure.rs"]
mod measure;

use measure::{CountingAllocator, Exchange, Step, measure};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn memory_for_peers_is_bounded_by_use_and_goes_back() {
    const RANKS: u32 = 24;
    let exchange = Exchange {
        ranks: RANKS,
        rounds: 20,
        ..Exchange::default()
    };
    let steps = measure(exchange.clone());
    let of_a_peer = |name: &str| {
        let step: &Step = steps.iter().find(|step| step.name == name).expect("measured");
        let peers = f64::from(RANKS - 1);
        ((step.bytes / peers) as u64, (step.areas / peers) as u64)
    };
    let (met, _) = of_a_peer("met");
    assert!(met < 4 << 10, "{met} bytes for a peer that one message went to");
    // The postboxes that a queue begins with, and parts of blocks for two messages; the acknowledgements of all peers lie in a piece
    // or two.
    for (name, most) in [("8", 2 << 10), ("1024", 4 << 10)] {
        let (all, areas) = of_a_peer(name);
        assert!(areas <= most + 256, "{name}: {areas} bytes of areas");
        assert!(all < areas + (4 << 10), "{name}: {all} bytes, {areas} in areas");
    }
    let (rest, areas) = of_a_peer("rest");
    assert!(areas < 256, "{areas} bytes of areas after a rest");
    assert!(rest < met, "{rest} bytes after a rest");
    // What was given back is taken again, and no more.
    let (first, again) = (of_a_peer("1024").0, of_a_peer("again").0);
    assert!(
        again < first + first / 4,
        "{again} bytes, {first} before the rest"
    );
    let same = measure(exchange);
    assert!(
        steps.iter().zip(&same).all(|(a, b)| a.areas == b.areas),
        "a seed replays: {steps:?}, {same:?}"
    );
}
