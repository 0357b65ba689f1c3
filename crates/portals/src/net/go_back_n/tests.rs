//! Both sides of a connection over a wire that loses, repeats and reorders.

use super::{ReceiveConnection, SendConnection, Unexpected};
use crate::net::queue::{Chain, MessageQueue};
use crate::net::wire::{FIRST, Op, PacketKind, Word, numbers_of};
use farpost_fabric::Moment;
use std::time::Duration;

/// Messages of one to three packets, each linked to the next.
struct Messages(Vec<u16>);

impl Chain for Messages {
    fn packets(&self, number: u16) -> u32 {
        1 + u32::from(number) % 3
    }

    fn next(&self, number: u16) -> u16 {
        self.0[usize::from(number)]
    }

    fn set_next(&mut self, number: u16, next: u16) {
        self.0[usize::from(number)] = next;
    }
}

/// What travels: a packet with what it carries, or an answer.
#[derive(Clone, Copy)]
enum Travels {
    Packet(Word, (u16, u32)),
    Ack(u16),
    Refusal(Op, Word),
    Sync(u16, u64),
}

const COUNT: u16 = 60;
const WINDOW: u16 = 8;

struct Sender {
    connection: SendConnection,
    queues: [MessageQueue; 2],
    messages: Messages,
    over: Vec<u16>,
}

impl Sender {
    fn acknowledged(&mut self, wanted: u16) {
        let (queue, window) = (&mut self.queues[1], self.connection.window(1));
        let mut done = window.acknowledge(wanted).expect("a number that was sent");
        while let Some(number) = window.take_done(queue, &self.messages, &mut done) {
            self.over.push(number);
        }
        window.catch_up(queue, &self.messages);
        self.connection.acknowledged();
    }

    fn hear(&mut self, what: Travels, turn: u64) {
        match what {
            Travels::Packet(..) => {}
            Travels::Ack(wanted) => self.acknowledged(wanted),
            Travels::Refusal(op, word) => {
                let on = (&mut self.queues, &self.messages);
                self.connection.refused(on, (1, &word), (op == Op::Busy, turn));
            }
            Travels::Sync(tag, argument) => {
                if !self.connection.is_new(tag) {
                    return;
                }
                let (before, wanted, about) = numbers_of(argument);
                if self.connection.was(before) && about >> 4 & 2 != 0 {
                    self.acknowledged(wanted[1]);
                }
                self.connection.begin(tag);
                self.connection.go_back(&mut self.queues, &self.messages);
            }
        }
    }
}

fn word(seq: u16, tag: u16, first: bool) -> Word {
    Word {
        kind: PacketKind::Short,
        flags: if first { FIRST } else { 0 },
        second: 0,
        seq,
        tag,
        ack: 0,
    }
}

#[test]
fn every_packet_is_accepted_once_and_in_order() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let start = Moment::from_nanos(0);
        let first = rng.u16(..);
        let mut sender = Sender {
            connection: SendConnection::new([first; 2], start),
            queues: [MessageQueue::EMPTY; 2],
            messages: Messages((0..COUNT).map(|_| u16::MAX).collect()),
            over: Vec::new(),
        };
        for number in 0..COUNT {
            sender.queues[1].push(&mut sender.messages, number);
        }
        let mut receiver: Option<ReceiveConnection> = None;
        let mut wire: Vec<Travels> = Vec::new();
        let mut accepted = Vec::new();
        let mut turn = 0;
        while sender.over.len() < usize::from(COUNT) {
            turn += 1;
            assert!(turn < 1_000_000, "seed {seed}: nothing moves any more");
            if !sender.connection.pauses(turn) {
                while let Some(packet) = sender.queues[1].waiting()
                    && let Some(title) = sender.connection.may_send(1, WINDOW)
                {
                    wire.push(Travels::Packet(word(title.seq, title.tag, title.first), packet));
                    sender.queues[1].advance(&sender.messages);
                    sender.connection.went(1);
                }
            }
            let now = Moment::from_nanos(turn * 1000);
            if sender.connection.is_overdue(now, Duration::from_micros(50)) {
                sender.connection.go_back(&mut sender.queues, &sender.messages);
            }
            if wire.is_empty() {
                continue;
            }
            // Lost, repeated, or later than what was sent after it.
            let at = if rng.u8(..) < 200 {
                0
            } else {
                rng.usize(..wire.len())
            };
            let what = if rng.u8(..) < 20 {
                wire[at]
            } else {
                wire.remove(at)
            };
            if rng.u8(..) < 20 {
                continue;
            }
            let Travels::Packet(word, packet) = what else {
                sender.hear(what, turn);
                continue;
            };
            let connection = receiver.get_or_insert_with(|| ReceiveConnection::new(7, turn));
            let wanted = connection.expects(1, &word);
            let verdict = if wanted {
                Unexpected::Begins
            } else {
                connection.unexpected(1, &word, true)
            };
            match verdict {
                Unexpected::Begins if rng.u8(..) < 40 => {
                    connection.window(1).refuse(Op::Busy);
                }
                Unexpected::Begins => {
                    connection.accept(1, &word);
                    accepted.push(packet);
                }
                Unexpected::Gap => connection.window(1).refuse(Op::Gap),
                Unexpected::LostTag => wire.push(Travels::Sync(connection.tag(), connection.sync(0))),
                Unexpected::NoTag => connection.begin(connection.tag() + 1, turn),
                Unexpected::Untold | Unexpected::Stale | Unexpected::Duplicate | Unexpected::Nothing => {}
            }
            if let Some((op, argument)) = connection.news(0) {
                assert_eq!(op, Op::Sync, "nobody asked for the place");
                wire.push(Travels::Sync(connection.tag(), argument));
            }
            connection.news_are_told();
            let tag = connection.tag();
            let window = connection.window(1);
            if let Some(op) = window.refusal() {
                window.refusal_is_told();
                wire.push(Travels::Refusal(op, self::word(window.wanted(), tag, false)));
            }
            wire.extend(connection.wanted(1).map(Travels::Ack));
        }
        let messages = 0..COUNT;
        let expected =
            messages.flat_map(|number| (0..1 + u32::from(number) % 3).map(move |packet| (number, packet)));
        assert!(accepted.iter().copied().eq(expected), "seed {seed}: {accepted:?}");
        assert!(sender.over.iter().copied().eq(0..COUNT) && sender.queues[1].is_empty());
    }
}
