use super::*;
use crate::time::Rate;

/// A network whose loads are numbers, with what has arrived and when.
struct Trial {
    net: Network<u32>,
    queue: EventQueue<NetEvent>,
    /// Load, nanoseconds.
    arrived: Vec<(u32, u64)>,
    lost: Vec<u32>,
}

impl Trial {
    fn new(room: Option<u32>) -> Self {
        Self {
            net: Network::new(4, &[room, room], 1),
            queue: EventQueue::default(),
            arrived: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// 1 byte a nanosecond.
    fn link(&mut self, latency: u64, change: impl FnOnce(&mut ResourceSpec)) -> ResourceId {
        let mut spec = ResourceSpec {
            link: true,
            ..ResourceSpec::new("link", Rate(1e9), Ps::from_nanos(latency))
        };
        change(&mut spec);
        self.net.add(spec)
    }

    fn send(&mut self, at: u64, load: u32, bytes: u32, lane: u8, path: &[(ResourceId, u8)]) {
        let path: Path = path
            .iter()
            .map(|&(resource, lane)| Hop { resource, lane })
            .collect();
        let now = Ps::from_nanos(at);
        let packet = Packet::new((HostId(0), HostId(1)), bytes, lane, path, (now, now), load);
        self.net.send(&mut self.queue, now, packet);
    }

    fn run(&mut self) {
        while let Some((now, event)) = self.queue.pop() {
            if let Some((packet, fate)) = self.net.handle(&mut self.queue, now, event) {
                match fate {
                    Fate::Arrived => self.arrived.push((packet.load, now.nanos())),
                    Fate::Lost(_) => self.lost.push(packet.load),
                }
            }
        }
    }
}

#[test]
fn a_packet_cuts_through() {
    let mut it = Trial::new(None);
    let links = [it.link(10, |_| ()), it.link(20, |_| ())];
    it.send(0, 1, 100, 0, &[(links[0], 0), (links[1], 0)]);
    it.run();
    assert_eq!(it.arrived, [(1, 130)], "both latencies, and the bytes once");
}

#[test]
fn what_stores_and_forwards_waits_for_the_tail() {
    let mut it = Trial::new(None);
    let links = [it.link(10, |_| ()), it.link(20, |spec| spec.whole = true)];
    it.send(0, 1, 100, 0, &[(links[0], 0), (links[1], 0)]);
    it.run();
    assert_eq!(it.arrived, [(1, 230)]);
}

#[test]
fn the_slowest_resource_on_the_way_counts() {
    let mut it = Trial::new(None);
    let links = [
        it.link(0, |spec| spec.rate = Rate(1e8)),
        it.link(0, |_| ()),
        it.link(0, |spec| spec.rate = Rate(5e8)),
    ];
    it.send(0, 1, 100, 0, &links.map(|link| (link, 0)));
    it.run();
    assert_eq!(it.arrived, [(1, 1000)]);
    assert_eq!(it.net.resource(links[2]).usage.busy, Ps::from_nanos(1000));
}

#[test]
fn packets_of_two_senders_share_a_link_in_the_order_of_their_age() {
    let mut it = Trial::new(None);
    let (a, b, shared) = (it.link(0, |_| ()), it.link(0, |_| ()), it.link(0, |_| ()));
    for n in 0..3 {
        it.send(n, n as u32, 100, 0, &[(a, 0), (shared, 0)]);
        it.send(n, 10 + n as u32, 100, 0, &[(b, 0), (shared, 0)]);
    }
    it.run();
    let order: Vec<u32> = it.arrived.iter().map(|(load, _)| *load).collect();
    assert_eq!(order, [0, 10, 1, 11, 2, 12]);
    assert_eq!(
        it.arrived.last(),
        Some(&(12, 600)),
        "none of the link's time is lost"
    );
    assert_eq!(it.net.resource(shared).usage.packets, 6);
}

#[test]
fn the_high_priority_passes_the_low_one() {
    let mut it = Trial::new(None);
    let link = it.link(0, |spec| (spec.lanes, spec.priorities) = (2, true));
    it.send(0, 1, 100, 1, &[(link, 1)]);
    it.send(1, 2, 100, 1, &[(link, 1)]);
    it.send(2, 3, 100, 0, &[(link, 0)]);
    it.run();
    let order: Vec<u32> = it.arrived.iter().map(|(load, _)| *load).collect();
    assert_eq!(order, [1, 3, 2]);
}

#[test]
fn among_lanes_of_one_priority_the_age_decides() {
    let mut it = Trial::new(None);
    let link = it.link(0, |spec| {
        (spec.lanes, spec.priorities, spec.per_priority) = (4, true, 2)
    });
    it.send(0, 1, 100, 1, &[(link, 3)]);
    it.send(1, 2, 100, 1, &[(link, 3)]);
    it.send(2, 3, 100, 1, &[(link, 2)]);
    it.send(3, 4, 100, 0, &[(link, 1)]);
    it.run();
    let order: Vec<u32> = it.arrived.iter().map(|(load, _)| *load).collect();
    assert_eq!(order, [1, 4, 2, 3]);
}

/// A destination without room holds up what is behind, link by link, until it gives a place back.
#[test]
fn a_full_destination_holds_up_the_way() {
    let mut it = Trial::new(Some(1));
    let links = [it.link(0, |_| ()), it.link(0, |spec| spec.room = Some(1))];
    for n in 0..4 {
        it.send(0, n, 100, 0, &links.map(|link| (link, 0)));
    }
    it.run();
    assert_eq!(it.arrived, [(0, 100)]);
    assert_eq!(it.net.under_way(), 3);
    it.net.release(&mut it.queue, Ps::from_nanos(1000), HostId(1), 0);
    it.run();
    assert_eq!(it.arrived, [(0, 100), (1, 1100)]);
}

#[test]
fn what_meets_a_broken_link_is_lost_and_holds_nothing_up() {
    let mut it = Trial::new(None);
    let links = [it.link(0, |_| ()), it.link(0, |spec| spec.room = Some(1))];
    it.net.set_broken(links[1], true);
    for n in 0..3 {
        it.send(0, n, 100, 0, &links.map(|link| (link, 0)));
    }
    it.run();
    assert_eq!((&it.lost[..], it.net.under_way()), (&[0, 1, 2][..], 0));
    it.net.set_broken(links[1], false);
    it.send(1000, 3, 100, 0, &links.map(|link| (link, 0)));
    it.run();
    assert_eq!(it.arrived, [(3, 1100)]);
}

/// What is in a link when it fails, and before it, is lost; what has passed it is not.
#[test]
fn a_link_that_fails_loses_what_is_in_it_and_before_it() {
    // Nobody takes what arrives: as many as that.
    let mut it = Trial::new(Some(5));
    let links = [it.link(0, |_| ()), it.link(50, |spec| spec.room = Some(3))];
    for n in 0..5 {
        it.send(0, n, 100, 0, &links.map(|link| (link, 0)));
    }
    // The second has left the second link, the third is in it, the others are before it or on the first one.
    let until = Ps::from_nanos(210);
    while it.queue.next_time().is_some_and(|time| time <= until) {
        let (now, event) = it.queue.pop().expect("there is one");
        if let Some((packet, _)) = it.net.handle(&mut it.queue, now, event) {
            it.arrived.push((packet.load, now.nanos()));
        }
    }
    it.net.cut(&mut it.queue, until, links[1]);
    it.run();
    assert_eq!(it.arrived, [(0, 150), (1, 250)]);
    it.lost.sort_unstable();
    assert_eq!((&it.lost[..], it.net.under_way()), (&[2, 3, 4][..], 0));
    assert_eq!(it.net.harm().lost, 3);
    it.net.set_broken(links[1], false);
    for n in 5..8 {
        it.send(1000, n, 100, 0, &links.map(|link| (link, 0)));
    }
    it.run();
    assert_eq!(it.arrived.len(), 5, "all places were given back");
}

#[test]
fn chance_loses_and_damages_on_links_alone_and_the_same_with_the_same_seed() {
    let run = |faults: Faults, is_link: bool| {
        let mut it = Trial::new(None);
        let link = it.link(10, |spec| spec.link = is_link);
        it.net.set_faults(faults);
        for n in 0..1000 {
            it.send(0, n, 100, 0, &[(link, 0)]);
        }
        it.run();
        (it.lost, it.net.harm())
    };
    let loss = Faults {
        loss: 0.1,
        damage: 0.05,
    };
    let (lost, harm) = run(loss, true);
    assert!((50..150).contains(&lost.len()), "{}", lost.len());
    assert!((20..100).contains(&harm.damaged), "{harm:?}");
    assert_eq!((lost, harm), run(loss, true));
    assert_eq!(
        run(loss, false),
        (Vec::new(), Harm::default()),
        "a bus loses nothing"
    );
}

#[test]
fn a_link_with_retries_takes_longer_and_loses_nothing() {
    let run = |faults: Faults| {
        let mut it = Trial::new(None);
        let link = it.link(10, |_| ());
        it.net.set_link_retries();
        it.net.set_faults(faults);
        for n in 0..100 {
            it.send(0, n, 100, 0, &[(link, 0)]);
        }
        it.run();
        (it.arrived, it.lost.len() as u64, it.net.harm())
    };
    let (arrived, lost, harm) = run(Faults {
        loss: 0.1,
        damage: 0.1,
    });
    let order: Vec<u32> = arrived.iter().map(|(load, _)| *load).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>(), "in order");
    assert!(harm.again > 0);
    // Each time the answer's way and the packet's, and its bytes.
    assert_eq!(arrived[99].1, 100 * 100 + 10 + harm.again * (100 + 2 * 10));
    assert_eq!((lost, harm.lost, harm.damaged), (0, 0, 0));
    let (arrived, lost, _) = run(Faults {
        loss: 1.0,
        damage: 0.0,
    });
    assert_eq!((arrived.len(), lost), (0, 100), "it gives up");
}
