//! What is copied and asked is charged, once and to whoever does it: by the exact clock of the in-process fabric, on which nothing else costs as much.

use farpost_fabric::inproc::{Config, Costs, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Peer, Priority, Time};
use farpost_jam::vi::Batch;
use farpost_jam::{Header, Jam, JamTunables};
use std::rc::Rc;

/// Nanoseconds of what is counted.
const UNIT: u64 = 1_000_000_000;

const NOTHING: Costs = Costs {
    byte: 0,
    poll: 0,
    store: 0,
    entry: 0,
    trap: 0,
};

fn jams(costs: Costs) -> (Network, Vec<Jam<InProc>>) {
    let config = Config {
        full_every: 0,
        queue_packets: 64,
        costs,
        ..Config::default()
    };
    let ends = Network::new(2, 5, config);
    let network = ends[0].network().clone();
    let jam = |end| Jam::new(Rc::new(end), &JamTunables::default(), &WaitTunables::default());
    (network, ends.into_iter().map(jam).collect())
}

/// How often UNIT has passed while `work` was done.
fn charged<T>(jam: &Jam<InProc>, work: impl FnOnce() -> T) -> (u64, T) {
    let start = jam.fabric().now();
    let done = work();
    ((jam.fabric().now() - start).as_nanos() as u64 / UNIT, done)
}

fn bytes_copied() -> Costs {
    Costs {
        byte: 1000 * UNIT,
        ..NOTHING
    }
}

#[test]
fn a_message_is_copied_into_its_packet_and_out_of_the_network() {
    let (network, jams) = jams(bytes_copied());
    let words = [7u32; 9];
    let header = Header::new(Peer(1), Priority::Low, 3);
    let (sent, _) = charged(&jams[0], || jams[0].send(&header, &words).unwrap());
    assert_eq!(sent, 36);
    network.settle();
    let (received, message) = charged(&jams[1], || jams[1].receive(Priority::Low));
    assert_eq!((received, message.unwrap().words()), (36, &words[..]));
    assert_eq!(
        charged(&jams[1], || jams[1].receive(Priority::Low).is_none()),
        (0, true)
    );
}

#[test]
fn the_status_word_is_one_poll() {
    let costs = Costs {
        poll: UNIT,
        ..NOTHING
    };
    let (_, jams) = jams(costs);
    assert_eq!(charged(&jams[0], || jams[0].status()).0, 1);
}

#[test]
fn a_batch_is_copied_when_it_is_gathered_and_when_it_is_taken_apart() {
    let (network, jams) = jams(bytes_copied());
    let mut batch = Batch::new(Peer(1));
    let mut doorbell = || {
        if batch.is_empty() {
            for number in 0..4u32 {
                batch.push(number, &[number; 6]).unwrap();
            }
        }
        jams[0].doorbell(&mut batch).unwrap()
    };
    while !doorbell() {
        jams.iter().for_each(|jam| {
            jam.poll();
        });
        network.settle();
    }
    // Once more, with the ring there: four messages of a header of 8 bytes and six words.
    let (sent, rung) = charged(&jams[0], doorbell);
    assert_eq!((sent, rung), (4 * 32, true));
    network.settle();
    let mut seen = 0;
    let (received, count) = charged(&jams[1], || {
        jams[1].receive_batches(8, |_, _, words| seen += words.len())
    });
    // Eight messages; the first word of each is looked at in place.
    assert_eq!((received, count, seen), (8 * 28, 8, 48));
}
