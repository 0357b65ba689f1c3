//! What is copied and asked is charged, once and to whoever does it: by the exact clock of the in-process fabric, on which nothing else costs as much.

use farpost_fabric::inproc::{Config, Costs, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Peer, Priority};
use farpost_jam::vi::Batch;
use farpost_jam::{Header, Jam, JamTunables};
use std::rc::Rc;

fn jams(costs: Costs) -> (Network, Vec<Jam<InProc>>) {
    let ends = Network::new(2, 5, Config::counting(costs));
    let network = ends[0].network().clone();
    let jam = |end| Jam::new(Rc::new(end), &JamTunables::default(), &WaitTunables::default());
    (network, ends.into_iter().map(jam).collect())
}

/// What is charged while `work` is done, and what it gives.
fn charged<T>(jam: &Jam<InProc>, work: impl FnOnce() -> T) -> (u64, T) {
    jam.fabric().network().charged(work)
}

#[test]
fn a_message_is_copied_into_its_packet_and_out_of_the_network() {
    let (network, jams) = jams(Costs::COPIES);
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
        poll: Costs::UNIT,
        ..Costs::NOTHING
    };
    let (_, jams) = jams(costs);
    assert_eq!(charged(&jams[0], || jams[0].status()).0, 1);
}

#[test]
fn a_batch_is_copied_when_it_is_gathered_and_when_it_is_taken_apart() {
    let (network, jams) = jams(Costs::COPIES);
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

/// Work is charged once for each call, where it is made and where it runs.
#[test]
fn a_remote_procedure_is_charged_to_its_caller_and_to_who_runs_it() {
    let costs = Costs {
        work: Costs::UNIT,
        ..Costs::NOTHING
    };
    let (network, jams) = jams(costs);
    jams[1].register(3, Rc::new(|_, _, _| ())).unwrap();
    let (called, ()) = charged(&jams[0], || jams[0].rpc(Peer(1), 3, b"argument").unwrap());
    network.settle();
    let (ran, count) = charged(&jams[1], || jams[1].poll());
    assert_eq!((called, ran, count), (1, 1, 1));
}
