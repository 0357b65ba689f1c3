use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

fn nowhere(_: SocketAddr) -> Result<IpAddr, String> {
    Err("network is unreachable".to_owned())
}

fn between(a: &Card, b: &Card, route: Route<'_>) -> (Plan, Plan) {
    let (x, y) = (End { rank: 3, card: a }, End { rank: 8, card: b });
    (plan(x, y, route), plan(y, x, route))
}

fn tos(rail: &Rail) -> Vec<String> {
    rail.candidates.iter().map(|c| c.to.to_string()).collect()
}

#[test]
fn interfaces_in_one_network_are_a_rail_each() {
    let a = card_of(
        1,
        "",
        &host(&[("eth0", 1000, &["10.0.0.1/24"]), ("eth1", 1000, &["10.0.1.1/24"])]),
    );
    let b = card_of(
        2,
        "",
        &host(&[
            ("eth0", 1000, &["10.0.1.2/24"]),
            ("eth1", 10_000, &["10.0.0.2/24"]),
        ]),
    );
    let (p, q) = between(&a, &b, &nowhere);
    assert_eq!(p.rails.len(), 2);
    assert_eq!(tos(&p.rails[0]), ["10.0.0.2:4002"]);
    assert_eq!(tos(&p.rails[1]), ["10.0.1.2:4002"]);
    // The other side numbers them alike, though it would rather begin with its faster card.
    assert_eq!(tos(&q.rails[0]), ["10.0.0.1:4001"]);
    assert_eq!(tos(&q.rails[1]), ["10.0.1.1:4001"]);
    assert_eq!((q.rails[0].speed, q.rails[1].speed), (1000, 1000));
    assert_eq!(
        p.lines(3, 8),
        [
            "3 to 8, rail 0, via eth0 (10.0.0.1 to 10.0.0.2 port 4002) because both are in 10.0.0.0/24, 1 Gbit/s",
            "3 to 8, rail 1, via eth1 (10.0.1.1 to 10.0.1.2 port 4002) because both are in 10.0.1.0/24, 1 Gbit/s",
        ]
    );
}

#[test]
fn two_cards_in_one_network_need_two_cards_on_the_other_side() {
    let two = host(&[("eth0", 0, &["10.0.0.1/24"]), ("eth1", 0, &["10.0.0.2/24"])]);
    let one = host(&[("eth0", 0, &["10.0.0.3/24", "10.0.0.4/24"])]);
    let more = host(&[("eth0", 0, &["10.0.0.5/24"]), ("eth1", 0, &["10.0.0.6/24"])]);
    let (a, b, c) = (card_of(1, "", &two), card_of(2, "", &one), card_of(3, "", &more));
    let (p, q) = between(&a, &b, &nowhere);
    assert_eq!((p.rails.len(), q.rails.len()), (1, 1));
    assert_eq!(tos(&p.rails[0]), ["10.0.0.3:4002", "10.0.0.4:4002"]);
    let (p, q) = between(&a, &c, &nowhere);
    assert_eq!((p.rails.len(), q.rails.len()), (2, 2));
}

#[test]
fn both_families_are_addresses_of_one_rail() {
    let a = card_of(1, "", &host(&[("eth0", 0, &["fd00::1/64", "10.0.0.1/24"])]));
    let b = card_of(2, "", &host(&[("eth0", 0, &["fd00::2/64", "10.0.0.2/24"])]));
    let (p, _) = between(&a, &b, &nowhere);
    assert_eq!(p.rails.len(), 1);
    assert_eq!(tos(&p.rails[0]), ["10.0.0.2:4002", "[fd00::2]:4002"]);
}

#[test]
fn a_bridge_that_both_hosts_have_is_never_taken() {
    let docker: (&str, u32, &[&str]) = ("docker0", 10_000, &["172.17.0.1/16"]);
    let a = card_of(1, "", &host(&[docker, ("eth0", 0, &["10.0.0.1/24"])]));
    let b = card_of(2, "", &host(&[docker, ("eth0", 0, &["10.0.0.2/24"])]));
    let (p, q) = between(&a, &b, &nowhere);
    for plan in [&p, &q] {
        assert_eq!(plan.rails.len(), 1);
        assert_eq!(plan.rails[0].candidates[0].interface, "eth0");
        assert!(plan.fallback.iter().all(|c| c.interface != "docker0"));
        let why = "docker0 to docker0: skipped, both have the address 172.17.0.1, so it is a network inside each host";
        assert!(plan.notes.iter().any(|n| n == why), "{:?}", plan.notes);
    }
}

#[test]
fn other_networks_are_reached_as_the_routing_table_says() {
    let a = card_of(1, "", &host(&[("eth0", 0, &["10.0.0.1/24"])]));
    let b = card_of(
        2,
        "",
        &host(&[("eth0", 0, &["10.5.0.1/24"]), ("docker0", 0, &["172.17.0.1/16"])]),
    );
    let route = |to: SocketAddr| match to.ip().to_string().as_str() {
        "10.5.0.1" => Ok("10.0.0.1".parse().unwrap()),
        other => Err(format!("no route to {other}")),
    };
    let (p, _) = between(&a, &b, &route);
    assert_eq!(p.rails.len(), 1);
    let c = &p.rails[0].candidates[0];
    assert_eq!((c.from, c.interface.as_str()), (None, "eth0"));
    assert_eq!(
        p.lines(3, 8),
        ["3 to 8 via eth0 (10.5.0.1 port 4002) because the routing table leads to 10.5.0.1 from 10.0.0.1"]
    );
    assert!(
        p.notes
            .iter()
            .any(|n| n.contains("172.17.0.1:4002: skipped, no route"))
    );
}

#[test]
fn a_route_that_leads_back_to_this_host_is_no_route() {
    let a = card_of(
        1,
        "",
        &host(&[
            ("eth0", 0, &["10.0.0.1/24"]),
            ("virbr0", 0, &["192.168.122.1/24"]),
        ]),
    );
    let b = card_of(2, "", &host(&[("eth0", 0, &["192.168.122.1/24"])]));
    let back = |to: SocketAddr| Ok(to.ip());
    let (p, _) = between(&a, &b, &back);
    assert!(p.rails.is_empty(), "{p:?}");
    assert!(
        p.why_none().contains("it is an address of this host as well"),
        "{}",
        p.why_none()
    );
}

#[test]
fn loopback_is_for_one_network_namespace() {
    let lonely = host(&[]);
    let (p, _) = between(&card_of(1, "", &lonely), &card_of(2, "", &lonely), &nowhere);
    assert!(p.rails.is_empty());
    assert!(
        p.lines(3, 8)[0].contains("no interface but loopback"),
        "{:?}",
        p.lines(3, 8)
    );

    let (p, _) = between(&card_of(1, "", &lonely), &card_of(1, "", &lonely), &nowhere);
    assert_eq!(tos(&p.rails[0])[0], "127.0.0.1:4001");
    // A system that does not tell its namespace.
    let (p, _) = between(&card_of(0, "", &lonely), &card_of(0, "", &lonely), &nowhere);
    assert_eq!(tos(&p.rails[0])[0], "127.0.0.1:4000");

    // On one host with cards, loopback is still the shortest way, and the only rail.
    let two = host(&[("eth0", 0, &["10.0.0.1/24"]), ("eth1", 0, &["10.0.1.1/24"])]);
    let (p, _) = between(&card_of(7, "", &two), &card_of(7, "", &two), &nowhere);
    assert_eq!(p.rails.len(), 1);
    assert_eq!(p.rails[0].candidates[0].interface, "lo");
    // Unless cards were asked for.
    let (p, q) = between(&card_of(7, "eth*", &two), &card_of(7, "eth*", &two), &nowhere);
    assert_eq!((p.rails.len(), q.rails.len()), (2, 2));
    assert_eq!(tos(&p.rails[1]), ["10.0.1.1:4007"]);
}

#[test]
fn equal_numbers_on_separate_wires_leave_another_way() {
    // Both sides use the same private range for something of their own, and a routed network joins them.
    let a = card_of(
        1,
        "",
        &host(&[("eth0", 0, &["192.168.1.10/24"]), ("eth1", 0, &["10.0.0.1/24"])]),
    );
    let b = card_of(
        2,
        "",
        &host(&[("eth0", 0, &["192.168.1.20/24"]), ("eth1", 0, &["10.5.0.1/24"])]),
    );
    let route = |_| Ok("10.0.0.1".parse().unwrap());
    let (p, _) = between(&a, &b, &route);
    assert_eq!(tos(&p.rails[0]), ["192.168.1.20:4002"]);
    assert!(p.fallback.iter().any(|c| c.to.to_string() == "10.5.0.1:4002"));
    assert!(p.fallback.iter().all(|c| c.to.to_string() != "192.168.1.20:4002"));
}

#[test]
fn the_kernel_is_asked_without_a_packet() {
    // Loopback may be down in a test's namespace: either answer will do, but it is an answer.
    match kernel_route("127.0.0.1:9".parse().unwrap()) {
        Ok(from) => assert!(from.is_loopback()),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Kind, speed, and network, host and prefix of each address.
type Drawn = (u8, u32, Vec<(u8, u8, u8)>);

prop_compose! {
    fn any_card()(
        namespace in 0u64..3,
        interfaces in proptest::collection::vec(
            (0u8..3, 0u32..3, proptest::collection::vec((0u8..3, 0u8..4, prop_oneof![Just(24u8), Just(16), Just(32)]), 1..3)),
            0..5,
        ),
    ) -> Card {
        let listed = |(n, (class, speed, addresses)): (usize, Drawn)| Listed {
            name: format!("if{n}"),
            class: [Class::Network, Class::Network, Class::Virtual][usize::from(class)],
            speed,
            port: 4000,
            addresses: addresses
                .into_iter()
                .map(|(net, host, prefix)| Subnet { ip: IpAddr::from([10, 0, net, host + 1]), prefix })
                .collect(),
        };
        Card { namespace, interfaces: interfaces.into_iter().enumerate().map(listed).collect() }
    }
}

proptest! {
    /// Whatever the two cards: both sides see the same rails, no interface is in two, and every address is the peer's.
    #[test]
    fn both_sides_agree(a in any_card(), b in any_card(), routed in any::<bool>()) {
        let route = |_| if routed { Ok(IpAddr::from([10, 9, 9, 9])) } else { Err("no".to_owned()) };
        let (p, q) = between(&a, &b, &route);
        if p.rails.iter().all(|r| r.mine.is_some()) && q.rails.iter().all(|r| r.mine.is_some()) {
            prop_assert_eq!(p.rails.len(), q.rails.len());
        }
        for (x, y) in p.rails.iter().zip(&q.rails) {
            prop_assert_eq!(x.mine.is_some(), y.mine.is_some());
            if let (Some(m), Some(n)) = (x.mine, y.mine) {
                prop_assert_eq!(x.speed, y.speed);
                let of = |card: &Card, i: usize, c: &Candidate| {
                    card.interfaces[i].addresses.iter().any(|s| s.ip == c.to.ip())
                };
                prop_assert!(x.candidates.iter().all(|c| of(&b, n, c)));
                prop_assert!(y.candidates.iter().all(|c| of(&a, m, c)));
            }
        }
        for plan in [&p, &q] {
            for (n, rail) in plan.rails.iter().enumerate() {
                prop_assert!(!rail.candidates.is_empty());
                let again = plan.rails[..n].iter().any(|r| r.mine == rail.mine);
                prop_assert!(!again);
            }
            prop_assert!(!plan.rails.is_empty() || !plan.why_none().is_empty());
        }
    }
}
