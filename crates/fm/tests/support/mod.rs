//! Nodes on the in-process fabric, which write down what their handlers see.
#![allow(dead_code, reason = "each test file uses some of it")]

use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{ErrorStatus, Peer};
use farpost_fm::{Flow, Fm, FmTunables};
use std::cell::RefCell;
use std::rc::Rc;

/// The handlers' numbers.
pub const MESSAGE: u32 = 1;
pub const STREAM: u32 = 2;

/// As small as it gets, so that everything runs full.
pub const SMALL: FmTunables = FmTunables {
    slots: 8,
    receive: 4,
    streams: 2,
    stack: 64 << 10,
    depth: 2,
    patience: 5,
};

/// What a node's handlers have seen, in order, per sender.
pub type Log = Rc<RefCell<Vec<Vec<Vec<u8>>>>>;

pub struct Node {
    pub fm: Fm<InProc>,
    pub messages: Log,
    pub streams: Log,
}

/// Nodes whose handlers write down what arrives; those of streams receive in parts whose sizes come from the message.
pub fn nodes(size: u32, seed: u64, config: Config, tunables: &FmTunables) -> (Network, Vec<Node>) {
    let ends = Network::new(size, seed, config);
    let network = ends[0].network().clone();
    let nodes = ends.into_iter().map(|end| node(end, size, tunables)).collect();
    (network, nodes)
}

fn node(end: InProc, size: u32, tunables: &FmTunables) -> Node {
    let fm = Fm::new(Rc::new(end), tunables, &Default::default(), 16);
    let log = || Rc::new(RefCell::new(vec![Vec::new(); size as usize]));
    let (messages, streams): (Log, Log) = (log(), log());
    let seen = Rc::clone(&messages);
    fm.register_message_handler(MESSAGE, move |_, from, bytes| {
        seen.borrow_mut()[from.index()].push(bytes.to_vec());
    })
    .unwrap();
    let seen = Rc::clone(&streams);
    fm.register_handler(STREAM, move |_, receive, from| {
        let mut head = [0; 8];
        receive.receive(&mut head).unwrap();
        let len = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
        let mut whole = head.to_vec();
        let mut rng = fastrand::Rng::with_seed(len as u64);
        while whole.len() < len {
            let mut part = vec![0; rng.usize(1..=300).min(len - whole.len())];
            receive.receive(&mut part).unwrap();
            whole.extend(part);
        }
        assert!(receive.at_end().unwrap());
        seen.borrow_mut()[from.index()].push(whole);
        Flow::Continue
    })
    .unwrap();
    Node {
        fm,
        messages,
        streams,
    }
}

/// Message number `number` of a pair: at least 8 bytes, the number and the length first.
pub fn message(from: u32, to: u32, number: u32, longest: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(number) << 16 | u64::from(from) << 8 | u64::from(to));
    let mut bytes = vec![0; rng.usize(8..=longest)];
    rng.fill(&mut bytes);
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// The number in a message.
pub fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Every message of `from` to `to` has been seen once, whatever the order.
pub fn assert_once(node: &Node, from: u32, sent: u32, longest: usize) {
    let to = node.fm.node();
    let mut seen = node.messages.borrow()[from as usize].clone();
    seen.sort_by_key(|bytes| number(bytes));
    let wanted: Vec<_> = (0..sent).map(|n| message(from, to, n, longest)).collect();
    assert_eq!(seen, wanted, "messages from {from} to {to}");
}

/// Every stream of `from` to `to` has been seen once, in order.
pub fn assert_ordered(node: &Node, from: u32, sent: u32, longest: usize) {
    let to = node.fm.node();
    let wanted: Vec<_> = (0..sent).map(|n| message(from, to, n, longest)).collect();
    assert_eq!(
        node.streams.borrow()[from as usize],
        wanted,
        "streams from {from} to {to}"
    );
}

/// Extract everywhere until nothing is outstanding.
pub fn finish(network: &Network, nodes: &[Node]) {
    for turn in 0.. {
        assert!(turn < 100_000, "something is outstanding for ever");
        for node in nodes {
            node.fm.extract(usize::MAX);
        }
        network.step();
        if nodes.iter().all(|node| node.fm.is_settled()) {
            break;
        }
    }
    for node in nodes {
        assert_eq!(node.fm.take_faults(), (vec![], 0));
        assert_eq!(node.fm.fabric().take_faults(), (vec![], 0));
    }
}

/// Send all of a stream's bytes that go now, and its end: whether that was all.
pub struct Stream {
    pub sending: Option<farpost_fm::Sending<InProc>>,
    pub bytes: Vec<u8>,
    pub done: usize,
}

impl Stream {
    pub fn new(fm: &Fm<InProc>, to: u32, bytes: Vec<u8>) -> Option<Self> {
        let sending = fm.begin_message(to, bytes.len(), STREAM).unwrap()?;
        Some(Self {
            sending: Some(sending),
            bytes,
            done: 0,
        })
    }

    /// In pieces of `most` bytes at most.
    pub fn push(&mut self, most: usize) -> bool {
        let Some(sending) = &mut self.sending else {
            return true;
        };
        while self.done < self.bytes.len() {
            let end = (self.done + most).min(self.bytes.len());
            match sending.try_piece(&self.bytes[self.done..end]).unwrap() {
                0 => return false,
                taken => self.done += taken,
            }
        }
        if sending.try_end().unwrap() {
            self.sending = None;
            return true;
        }
        false
    }
}

pub fn peer(node: u32) -> Peer {
    Peer(node)
}
