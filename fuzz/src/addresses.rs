//! Where a process is reached, as it publishes it, and the ways between two.

use farpost_net::interfaces::{Card, Class, End, Listed, Subnet, plan};

pub fn run(data: &[u8]) {
    let Ok((card, used)) = Card::decode(data) else {
        return;
    };
    assert!(used <= data.len());
    let (same, _) = Card::decode(&card.encode(usize::MAX)).expect("what was read");
    assert_eq!(same, card);
    for room in [0, 20, 100] {
        Card::decode(&card.encode(room)).expect("a shorter card");
    }
    let own = own();
    let ends = |rank, card| End { rank, card };
    for (low, high) in [(&own, &card), (&card, &own), (&card, &card)] {
        let there = plan(ends(0, low), ends(1, high), &|_| Err("no route".into()));
        let back = plan(ends(1, high), ends(0, low), &|_| Err("no route".into()));
        let rails = |plan: &farpost_net::interfaces::Plan| {
            plan.rails.iter().filter(|rail| rail.mine.is_some()).count()
        };
        assert_eq!(rails(&there), rails(&back), "both sides count the same rails");
        assert!(there.rails.iter().all(|rail| !rail.candidates.is_empty()));
        let _ = (there.lines(0, 1), back.lines(1, 0));
    }
}

fn own() -> Card {
    let interface = |name: &str, class, addresses: &[&str]| Listed {
        name: name.into(),
        class,
        speed: 10_000,
        port: 4000,
        addresses: addresses
            .iter()
            .map(|text| Subnet::parse(text).expect("an address"))
            .collect(),
    };
    Card {
        namespace: 5,
        interfaces: vec![
            interface("eth0", Class::Network, &["10.0.0.1/24", "fd00::1/64"]),
            interface("eth1", Class::Network, &["10.0.1.1/24"]),
            interface("br0", Class::Virtual, &["172.17.0.1/16"]),
            interface("lo", Class::Loopback, &["127.0.0.1/8"]),
        ],
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let whole = own();
    let mut other = whole.clone();
    other.namespace = 6;
    other.interfaces.truncate(1);
    vec![whole.encode(700), other.encode(700), whole.encode(40)]
}
