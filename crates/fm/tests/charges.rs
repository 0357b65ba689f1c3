//! What is copied and asked is charged, once and to whoever does it: by the exact clock of the in-process fabric, on which nothing else costs as much.
#![cfg(not(loom))]

mod support;

use farpost_fabric::inproc::{Config, Costs, Network};
use farpost_fm::FmTunables;
use farpost_fm::wire::{FRAME_PAYLOAD, HEADER_BYTES};
use support::*;

fn counting(costs: Costs) -> (Network, Vec<Node>) {
    nodes(2, 5, Config::counting(costs), &FmTunables::default())
}

/// What is charged while `work` is done.
fn charged(nodes: &[Node], work: impl FnOnce()) -> u64 {
    nodes[0].fm.fabric().network().charged(work).0
}

#[test]
fn a_message_is_copied_into_its_frame_and_out_of_the_network() {
    let (network, nodes) = counting(Costs::COPIES);
    let bytes = message(0, 1, 7, 100);
    let len = bytes.len() as u64;
    assert_eq!(
        charged(&nodes, || nodes[0].fm.send(1, MESSAGE, &bytes).unwrap()),
        len
    );
    network.settle();
    // Its handler looks at it where it is.
    let frame = HEADER_BYTES as u64 + len;
    assert_eq!(
        charged(&nodes, || assert!(nodes[1].fm.extract(usize::MAX) > 0)),
        frame
    );
    assert_eq!(
        charged(&nodes, || assert_eq!(nodes[1].fm.extract(usize::MAX), 0)),
        0
    );
}

#[test]
fn a_message_extracted_in_part_goes_through_the_host_receive_queue() {
    let (network, nodes) = counting(Costs::COPIES);
    let bytes = message(0, 1, 7, 100);
    nodes[0].fm.send(1, MESSAGE, &bytes).unwrap();
    network.settle();
    let frame = (HEADER_BYTES + bytes.len()) as u64;
    // Out of the network, into the queue, and out of it.
    assert_eq!(
        charged(&nodes, || assert!(nodes[1].fm.extract(bytes.len()) > 0)),
        3 * frame
    );
}

#[test]
fn a_stream_is_gathered_and_received() {
    let (network, nodes) = counting(Costs::COPIES);
    let bytes = message(0, 1, 7, 600);
    let len = bytes.len() as u64;
    let send = || {
        let mut sending = nodes[0]
            .fm
            .begin_message(1, bytes.len(), STREAM)
            .unwrap()
            .unwrap();
        bytes.chunks(50).for_each(|piece| sending.piece(piece).unwrap());
        sending.end().unwrap();
    };
    // Pieces are gathered, and what is gathered becomes frames.
    assert_eq!(charged(&nodes, send), 2 * len);
    network.settle();
    let frames = len.div_ceil(FRAME_PAYLOAD as u64);
    let received = charged(&nodes, || while nodes[1].fm.extract(usize::MAX) > 0 {});
    assert_eq!(received, frames * HEADER_BYTES as u64 + len + len);
}

#[test]
fn the_host_receive_queue_is_polled_when_it_is_extracted_from() {
    let polls = Costs {
        poll: Costs::UNIT,
        ..Costs::NOTHING
    };
    let (_, nodes) = counting(polls);
    let straight = charged(&nodes, || assert_eq!(nodes[0].fm.extract(usize::MAX), 0));
    let in_part = charged(&nodes, || assert_eq!(nodes[0].fm.extract(100), 0));
    assert_eq!(in_part, straight + 1, "the network as before, and the queue");
}
