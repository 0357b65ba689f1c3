//! Two links and nothing between them: what goes out comes in, with every byte accounted for.

use super::*;
use crate::trust::HeaderCheck;

const MS: u64 = 1_000_000;

/// Two ends and, per direction and rail, the bytes under way.
struct Pair {
    ends: [Link; 2],
    wires: Vec<[Vec<u8>; 2]>,
    now: u64,
    connections: u8,
    delivered: [Vec<(Header, Vec<u8>)>; 2],
    completed: [Vec<u32>; 2],
    /// Which frames that came to each end said more than that the peer lives.
    news: [Vec<(FrameKind, bool)>; 2],
    memory: [Vec<u8>; 2],
}

fn pair(rails: usize, reports: bool) -> Pair {
    let config = || LinkConfig {
        rails,
        connect: 30_000 * MS,
        reports,
        tunables: LinkTunables::default(),
        spare: Default::default(),
    };
    let mut pair = Pair {
        ends: [Link::new(config(), 0), Link::new(config(), 0)],
        wires: vec![Default::default(); rails],
        now: 0,
        connections: 0,
        delivered: Default::default(),
        completed: Default::default(),
        news: Default::default(),
        memory: [
            vec![0; 1 << 20],
            (0..1 << 20).map(|i| ((i * 31) >> 3) as u8).collect(),
        ],
    };
    for rail in 0..rails {
        pair.up(rail);
    }
    pair
}

impl Pair {
    fn up(&mut self, rail: usize) {
        self.wires[rail] = Default::default();
        // Each connection has keys of its own.
        self.connections += 1;
        let key =
            |direction| HeaderCheck::new(&[self.connections, direction, 0, 0].repeat(4).try_into().unwrap());
        for (end, (send, receive)) in self.ends.iter_mut().zip([(1, 2), (2, 1)]) {
            let checks = Checks {
                send: key(send),
                receive: key(receive),
            };
            end.on_rail_up(rail, checks, self.now);
        }
    }

    /// Let `end` write at most `limit` bytes to `rail`; how many it wrote.
    fn write(&mut self, end: usize, rail: usize, limit: usize) -> usize {
        let mut out = Vec::new();
        for piece in self.ends[end].next_send(rail, self.now) {
            assert!(!piece.is_empty());
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Memory { address, len } => {
                    out.extend_from_slice(&self.memory[end][address..address + len])
                }
            }
        }
        out.truncate(limit);
        self.ends[end].sent(rail, out.len(), self.now);
        self.wires[rail][end].extend_from_slice(&out);
        out.len()
    }

    /// Let the other end read whole frames from `rail`.
    fn read(&mut self, from: usize, rail: usize) {
        let to = 1 - from;
        loop {
            let wire = &self.wires[rail][from];
            let Some(head) = wire.first_chunk::<HEADER_BYTES>() else {
                return;
            };
            let link = &mut self.ends[to];
            let header = link.parse(rail, head).expect("an undamaged header");
            if wire.len() < header.total() {
                return;
            }
            self.news[to].push((header.kind, link.is_news(&header)));
            let payload = wire[HEADER_BYTES..header.total()].to_vec();
            self.wires[rail][from].drain(..header.total());
            if header.kind == FrameKind::BulkData {
                link.on_bulk_header(rail, &header, self.now).unwrap();
                if let Some(at) = link.place(header.object, header.offset, header.len.into()) {
                    self.memory[to][at..at + payload.len()].copy_from_slice(&payload);
                }
                self.completed[to].extend(link.on_bulk(rail, &header, self.now).unwrap());
                continue;
            }
            if link.on_frame(rail, &header, &payload, self.now).unwrap() == Arrival::Deliver {
                let mut next = Some((header, payload));
                while let Some((header, payload)) = next {
                    if header.kind == FrameKind::BulkGet {
                        let r = GetRequest::parse(&payload).unwrap();
                        link.serve(header.object, r.key, r.offset as usize, r.len);
                    }
                    self.delivered[to].push((header, payload));
                    next = link.next_held().unwrap();
                }
            }
        }
    }

    /// Everything that can move without time passing.
    fn settle(&mut self) {
        loop {
            let mut moved = 0;
            for rail in 0..self.wires.len() {
                for end in 0..2 {
                    moved += self.write(end, rail, usize::MAX);
                    self.read(end, rail);
                }
            }
            if moved == 0 {
                return;
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms * MS;
        for end in &mut self.ends {
            end.poll(self.now);
        }
    }
}

#[test]
fn what_is_pushed_arrives_as_it_is() {
    let mut p = pair(1, true);
    let a = &mut p.ends[0];
    a.push_put(7, 4096, b"hello").unwrap();
    a.push_line(7, 128, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    a.push_word(9, 8, 77).unwrap();
    a.push_packet(5, b"packet").unwrap();
    a.push_ring().unwrap();
    a.push_control(200, 3, 5, b"control").unwrap();
    a.push_fault(4, "a fault").unwrap();
    a.push_put(1, 0, &vec![3; ORDERED_MAX + 1]).unwrap();
    let mark = a.mark();
    assert!(!a.drained() && !a.acknowledged(mark));
    a.push_bye().unwrap();
    assert_eq!(a.push_ring(), Err(PushError::Closed));
    p.settle();
    let kinds: Vec<FrameKind> = p.delivered[1].iter().map(|(h, _)| h.kind).collect();
    use FrameKind::*;
    assert_eq!(
        kinds,
        [Put, PutLine, PutWord, Packet, Ring, Control, Fault, Put, Put, Bye]
    );
    let (h, payload) = &p.delivered[1][0];
    assert_eq!((h.object, h.offset, &payload[..]), (7, 4096, &b"hello"[..]));
    let (h, payload) = &p.delivered[1][1];
    assert_eq!(
        (h.offset, payload[0..9].to_vec()),
        (128, vec![1, 0, 0, 0, 0, 0, 0, 0, 2])
    );
    assert_eq!(p.delivered[1][3].0.flags, 5);
    assert_eq!((p.delivered[1][5].0.flags, p.delivered[1][5].0.offset), (200, 5));
    assert_eq!(p.delivered[1][8].0.offset, ORDERED_MAX as u64);
    assert!(p.ends[1].bye_heard());
    p.pass(10);
    p.settle();
    assert!(p.ends[0].drained() && p.ends[0].acknowledged(mark));
}

#[test]
fn a_byte_at_a_time_is_as_good() {
    let mut p = pair(2, true);
    for i in 0..20u32 {
        p.ends[0]
            .push_put(i, 0, &vec![i as u8; 50 * i as usize + 1])
            .unwrap();
        p.ends[1].push_word(i, 0, i.into()).unwrap();
        // Acknowledged while the next one is half written.
        for _ in 0..300 {
            for rail in 0..2 {
                p.write(0, rail, 1);
                p.write(1, rail, 3);
                p.read(0, rail);
                p.read(1, rail);
            }
        }
        p.pass(6);
    }
    p.settle();
    for end in 0..2 {
        let seen: Vec<u32> = p.delivered[end].iter().map(|(h, _)| h.object).collect();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn bulk_data_come_from_memory_to_memory() {
    for rails in 1..4 {
        let mut p = pair(rails, true);
        let ticket = p.ends[0].push_get(5, 1000, 0, 900_000).unwrap();
        p.settle();
        assert_eq!(p.completed[0], [ticket]);
        assert!(p.memory[0][..900_000] == p.memory[1][1000..901_000]);
        assert_eq!(p.ends[0].place(ticket, 0, 1), None);
        p.pass(10);
        p.settle();
        assert!(p.ends[1].drained() && p.ends[0].drained());
    }
}

#[test]
fn a_refusal_comes_back_with_its_reason() {
    let mut p = pair(1, true);
    let ticket = p.ends[0].push_get(5, 0, 0, 10).unwrap();
    p.ends[1].refuse(ticket, Refusal::NoSuchKey);
    p.write(1, 0, usize::MAX);
    p.read(1, 0);
    let (header, _) = &p.delivered[0][0];
    assert_eq!(
        (header.object, header.refusal()),
        (ticket, Some(Refusal::NoSuchKey))
    );
    assert_eq!(p.ends[0].place(ticket, 0, 1), None);
}

#[test]
fn withdrawn_memory_is_not_read_and_what_replaces_it_not_believed() {
    let mut p = pair(1, true);
    let ticket = p.ends[0].push_get(5, 0, 0, 900_000).unwrap();
    p.write(0, 0, usize::MAX);
    p.read(0, 0);
    p.write(1, 0, 100_000);
    p.ends[1].withdraw(5, p.now);
    let drops = |e: &Event| matches!(e, Event::Drop { rail: 0, .. });
    assert!(p.ends[1].next_event().as_ref().is_some_and(drops));
    assert!(p.ends[1].next_send(0, p.now).is_empty());
    p.up(0);
    p.settle();
    assert_eq!(p.completed[0], []);
    let (header, _) = p.delivered[0].last().unwrap();
    assert_eq!(
        (header.object, header.refusal()),
        (ticket, Some(Refusal::Withdrawn))
    );
}

#[test]
fn a_rail_that_breaks_loses_doubles_and_reorders_nothing() {
    let mut p = pair(1, true);
    let (mut pushed, mut ticket) = (0u64, 0);
    for round in 0..50 {
        if round % 10 == 3 {
            ticket = p.ends[0].push_get(1, round, 0, 300_000).unwrap();
        }
        for _ in 0..5 {
            p.ends[0].push_word(0, 0, pushed).unwrap();
            p.ends[1].push_word(0, 0, pushed).unwrap();
            pushed += 1;
        }
        p.write(0, 0, 61 * round as usize);
        p.read(0, 0);
        p.write(1, 0, 997 * round as usize);
        p.read(1, 0);
        if round % 3 == 0 {
            p.up(0);
        }
    }
    p.settle();
    for end in 0..2 {
        let words: Vec<u64> = p.delivered[end]
            .iter()
            .filter(|(h, _)| h.kind == FrameKind::PutWord)
            .map(|(_, w)| u64::from_ne_bytes(w[..].try_into().unwrap()))
            .collect();
        assert_eq!(words, (0..pushed).collect::<Vec<_>>());
    }
    assert_eq!(p.completed[0].len(), 5);
    assert_eq!(*p.completed[0].last().unwrap(), ticket);
    assert!(p.memory[0][..300_000] == p.memory[1][43..300_043]);
    assert!(p.ends[0].counters().frames_again > 0);
}

#[test]
fn a_full_log_says_so_and_recovers() {
    let mut p = pair(1, true);
    let block = vec![1; 32 << 10];
    let mut pushed = 0;
    while p.ends[0].push_put(0, 0, &block) == Ok(()) {
        pushed += 1;
    }
    assert!(pushed > 100);
    assert!(p.ends[0].memory() <= LinkTunables::default().log as usize);
    assert_eq!(p.ends[0].push_put(0, 0, &vec![0; 200_000]), Err(PushError::Full));
    p.settle();
    p.pass(10);
    p.settle();
    p.ends[0].push_put(0, 0, &vec![0; 200_000]).unwrap();
    p.settle();
    assert_eq!(p.delivered[1].len(), pushed + 4);
}

#[test]
fn malformed_frames_are_refused() {
    let mut p = pair(1, true);
    let now = p.now;
    let link = &mut p.ends[0];
    let ack = Header {
        ack: 5,
        ..Header::new(FrameKind::Ack)
    };
    assert!(matches!(
        link.on_frame(0, &ack, &[], now),
        Err(LinkError::Ack { ack: 5, .. })
    ));
    let data = Header {
        object: 9,
        len: 4,
        ..Header::new(FrameKind::BulkData)
    };
    assert!(matches!(
        link.on_bulk_header(0, &data, now),
        Err(LinkError::Ticket { ticket: 9 })
    ));
    let ticket = link.push_get(1, 0, 0, 100).unwrap();
    let data = Header {
        object: ticket,
        len: 4,
        offset: 97,
        ..Header::new(FrameKind::BulkData)
    };
    assert!(matches!(
        link.on_bulk_header(0, &data, now),
        Err(LinkError::Range { end: 101, .. })
    ));
    assert_eq!(link.place(ticket, 97, 4), None);
    assert_eq!(link.place(ticket, u64::MAX, 4), None);
    link.serve(3, 1, 0, 50);
    let acked = Header {
        object: 3,
        offset: 40,
        seq: 11,
        ..Header::new(FrameKind::BulkAck)
    };
    assert!(matches!(
        link.on_frame(0, &acked, &[], now),
        Err(LinkError::Range { end: 51, len: 50, .. })
    ));
    let get = Header {
        len: 24,
        ..Header::new(FrameKind::BulkGet)
    };
    assert!(matches!(
        link.on_frame(0, &get, &[0; 24], now),
        Err(LinkError::Payload { .. })
    ));
}

/// A peer that asks twice under one ticket, for different lengths, is sent nothing of what lies behind the memory that it may read.
#[test]
fn a_ticket_that_is_under_way_is_not_served_again() {
    let mut pair = pair(1, true);
    let ask = |pair: &mut Pair, seq: u32, len: u64| {
        let request = GetRequest {
            key: 1,
            offset: 0,
            len,
        };
        let header = Header {
            seq,
            object: 7,
            len: GetRequest::BYTES as u32,
            ..Header::new(FrameKind::BulkGet)
        };
        let link = &mut pair.ends[1];
        let arrival = link.on_frame(0, &header, &request.emit(), pair.now);
        if let Ok(Arrival::Deliver) = arrival {
            link.serve(7, 1, 0, len);
        }
        arrival
    };
    let seq = pair.ends[0].mark();
    assert_eq!(ask(&mut pair, seq, 50), Ok(Arrival::Deliver));
    let again = ask(&mut pair, seq.wrapping_add(1), 300_000);
    assert_eq!(again, Err(LinkError::Again { ticket: 7 }));
    let sent: usize = (0..5).map(|_| pair.write(1, 0, usize::MAX)).sum();
    assert!(sent < 500, "{sent} bytes");
}

#[test]
fn connections_are_asked_for_and_given_up() {
    let config = LinkConfig {
        rails: 2,
        connect: 30_000 * MS,
        reports: true,
        tunables: LinkTunables::default(),
        spare: Default::default(),
    };
    let mut link = Link::new(config, 0);
    let mut asked = [0; 2];
    let mut lost = None;
    for ms in 0..100_000 {
        link.poll(ms * MS);
        while let Some(event) = link.next_event() {
            match event {
                Event::Reconnect(rail) => asked[rail] += 1,
                Event::Lost { rails: 2, waited_ns } => lost = Some((ms, waited_ns / MS)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(lost, Some((30_000, 30_000)));
    assert!(asked[0] > 10 && asked[0] < 500 && asked[0] == asked[1]);
    assert_eq!(link.push_ring(), Err(PushError::Closed));
}

#[test]
fn ordered_frames_go_by_the_rail_with_the_shortest_round_trip() {
    let mut p = pair(2, true);
    assert_eq!(p.ends[0].lead(), Some(0));
    // The pings of both rails go out together; the second rail's answer is back first.
    for rail in 0..2 {
        p.write(0, rail, usize::MAX);
    }
    for (rail, us) in [(1, 50), (0, 80)] {
        p.now = us * 1000;
        p.read(0, rail);
        p.write(1, rail, usize::MAX);
        p.read(1, rail);
    }
    assert_eq!(p.ends[0].lead(), Some(1));
    p.settle();
    p.ends[0].push_ring().unwrap();
    assert_eq!(p.write(0, 0, usize::MAX), 0);
    assert_eq!(p.write(0, 1, usize::MAX), HEADER_BYTES);
}

/// Half a header is in the transport of a rail that then falls silent; the frame goes by the other rail, is
/// acknowledged and forgotten; the first rail returns, and the other half must follow.
#[test]
fn what_is_half_sent_outlives_its_place_in_the_log() {
    let mut p = pair(2, true);
    p.settle();
    let silent = p.ends[0].lead().unwrap();
    p.ends[0].push_put(1, 0, &[1; 500]).unwrap();
    assert_eq!(p.write(0, silent, 10), 10);
    for _ in 0..10 {
        p.pass(10);
        while let Some(event) = p.ends[0].next_event() {
            let Event::Ask(rail) = event else {
                panic!("{event:?}");
            };
            let report = TransportReport {
                acknowledged: 500,
                in_flight: rail == silent,
            };
            p.ends[0].on_report(rail, report, p.now);
        }
        let other = 1 - silent;
        for end in 0..2 {
            p.write(end, other, usize::MAX);
            p.read(end, other);
        }
    }
    assert_eq!(p.ends[0].rail_state(silent), RailState::Suspect);
    assert_eq!((p.delivered[1].len(), p.ends[0].drained()), (1, true));
    for i in 0..20 {
        p.ends[0].push_put(2, 0, &vec![2; 300 + i]).unwrap();
    }
    p.settle();
    assert_eq!(p.delivered[1].len(), 21);
    assert_eq!(p.ends[1].counters().duplicates, 1);
}

#[test]
fn memory_that_a_burst_took_is_given_back_at_rest() {
    let mut p = pair(1, true);
    let large = vec![7; ORDERED_MAX];
    for _ in 0..40 {
        p.ends[0].push_put(1, 0, &large).unwrap();
    }
    let before = p.ends[0].memory();
    assert!(before > 512 << 10, "{before}");
    p.settle();
    p.pass(10);
    p.settle();
    assert!(p.ends[0].drained());
    // While frames go now and then, it stays.
    for _ in 0..20 {
        p.ends[0].push_word(1, 0, 1).unwrap();
        p.settle();
        p.pass(100);
        p.settle();
    }
    assert_eq!(p.ends[0].memory(), before);
    for _ in 0..20 {
        p.pass(100);
        p.settle();
    }
    assert!(p.ends[0].memory() <= 64 << 10, "{}", p.ends[0].memory());
    p.ends[0].push_put(1, 0, &large).unwrap();
    p.settle();
    assert_eq!(p.delivered[1].last().map(|(_, payload)| payload), Some(&large));
}

#[test]
fn an_idle_link_asks_only_if_no_other_does() {
    let mut p = pair(1, true);
    p.settle();
    p.pass(10);
    p.settle();
    let pings = |p: &Pair| p.ends[0].counters().pings;
    let before = pings(&p);
    let alone = |p: &mut Pair, route: Option<HostRoute>| {
        for _ in 0..100 {
            if let Some(route) = route {
                let probed = p.now;
                p.ends[0].on_route(
                    0,
                    &HostRoute {
                        probed,
                        alive: probed,
                        ..route
                    },
                    p.now,
                );
            }
            p.pass(20);
            // The other end computes, its host answers.
            p.write(0, 0, usize::MAX);
            let report = TransportReport {
                acknowledged: p.now,
                in_flight: false,
            };
            while let Some(event) = p.ends[0].next_event() {
                assert_eq!(event, Event::Ask(0));
                p.ends[0].on_report(0, report, p.now);
            }
        }
    };
    alone(&mut p, Some(HostRoute::default()));
    assert_eq!(pings(&p), before);
    alone(&mut p, None);
    let now = pings(&p);
    assert!((before + 6..=before + 9).contains(&now), "{now}");
    // Trouble is looked into at once.
    let suspected = HostRoute {
        suspected: true,
        ..HostRoute::default()
    };
    p.pass(100);
    p.ends[0].on_route(0, &suspected, p.now);
    p.write(0, 0, usize::MAX);
    assert_eq!(pings(&p), now + 1);
    p.ends[0].on_route(0, &suspected, p.now);
    p.write(0, 0, usize::MAX);
    assert_eq!(
        pings(&p),
        now + 1,
        "but not again before it can have been answered"
    );
}

#[test]
fn a_ping_is_news_only_if_it_acknowledges_something() {
    let mut p = pair(1, false);
    p.settle();
    let look = |p: &mut Pair| {
        p.news = Default::default();
        for _ in 0..200 {
            p.pass(20);
            p.settle();
        }
        let pings = |seen: &[(FrameKind, bool)]| {
            let ping = |kind: &FrameKind| matches!(kind, FrameKind::Ping | FrameKind::Pong);
            seen.iter()
                .filter(|(kind, _)| ping(kind))
                .map(|(_, news)| *news)
                .collect::<Vec<_>>()
        };
        (pings(&p.news[0]), pings(&p.news[1]))
    };
    look(&mut p);
    // Each asks and answers, and says nothing new.
    let (first, second) = look(&mut p);
    assert!(!first.is_empty() && !second.is_empty());
    assert!(
        !first.contains(&true) && !second.contains(&true),
        "{first:?} {second:?}"
    );
    // Puts that are acknowledged by nothing but a ping or a pong: that makes room, once.
    p.ends[0].push_put(1, 0, &[7; 16]).unwrap();
    let (first, second) = look(&mut p);
    assert_eq!(first.iter().filter(|news| **news).count(), 1, "{first:?}");
    assert!(!second.contains(&true), "{second:?}");
    assert!(
        p.news[1]
            .iter()
            .any(|(kind, news)| *kind == FrameKind::Put && *news)
    );
}
