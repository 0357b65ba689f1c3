//! The harness of the conformance suites: an endpoint per thread.

use crate::{Listening, Tcp, TcpSettings};
use farpost_fabric::Peer;
use farpost_fabric::conformance::{BoardRef, End, Harness, block_on};
use farpost_net::NetConfig;
use farpost_net::conformance::{Namespaces, SharedBook, settle_sockets};
use farpost_net::interfaces::{Class, Subnet, Usable};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::AsyncFn;
use std::sync::Barrier;

/// The TCP fabric, an endpoint per thread, each as on a host of its own: over loopback, or between network namespaces.
#[derive(Clone)]
pub struct TcpThreads {
    /// Settings of the endpoints.
    pub settings: TcpSettings,
    /// Rails between any two; between namespaces, what their interfaces make.
    pub rails: u8,
    /// Hosts that they are told to be on, an endpoint each, and on the last one all others.
    pub hosts: u32,
    /// Where the endpoints live, in turns; none: over loopback, where they are.
    pub namespaces: Namespaces,
}

impl Default for TcpThreads {
    fn default() -> Self {
        Self {
            settings: TcpSettings::default(),
            rails: 1,
            hosts: u32::MAX,
            namespaces: Namespaces::default(),
        }
    }
}

impl TcpThreads {
    /// Endpoint `index` of `size`, which finds and is found through `book`.
    pub fn endpoint(&self, (index, size): (u32, u32), book: &SharedBook) -> Tcp {
        let net = NetConfig {
            me: Peer(index),
            size,
            host_of: (0..size).map(|of| of.min(self.hosts - 1)).collect(),
            cores: 1,
            processes: 1,
            secret: [7; 32],
            book: Box::new(book.clone()),
        };
        // Each rail a network of its own, in what belongs to loopback.
        let interface = |rail: u8| Usable {
            name: format!("rail{rail}"),
            class: Class::Network,
            speed: 0,
            addresses: vec![Subnet {
                ip: IpAddr::V4(Ipv4Addr::new(127, 77, rail, 1 + index as u8)),
                prefix: 24,
            }],
        };
        let on: Vec<Usable> = (0..self.rails).map(interface).collect();
        let listening = if self.namespaces.is_empty() {
            Listening::open_on(self.settings.clone(), &on).expect("listen on loopback")
        } else {
            Listening::open(self.settings.clone()).expect("listen in the namespace")
        };
        book.publish(Peer(index), listening.card().to_vec());
        listening.start(net).expect("an endpoint")
    }
}

impl Harness for TcpThreads {
    type Fabric = Tcp;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Tcp>) + Sync) -> bool {
        let board = BoardRef::shared();
        let book = SharedBook::default();
        let all_listen = Barrier::new(size as usize);
        std::thread::scope(|scope| {
            for index in 0..size {
                let (board, role, book, all_listen) = (board.clone(), &role, &book, &all_listen);
                scope.spawn(move || {
                    self.namespaces.enter(index);
                    let tcp = self.endpoint((index, size), book);
                    all_listen.wait();
                    block_on(&End::new(tcp, board, settle_sockets), role);
                });
            }
        });
        board.is_skipped()
    }
}
