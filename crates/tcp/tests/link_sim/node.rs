//! One end of a simulated link: a driver as a fabric would be one, and an application that pushes and checks.

use crate::wire::{MS, Rail};
use farpost_tcp::link::{
    Arrival, Checks, Event, FrameKind, GetRequest, HEADER_BYTES, Header, Link, LinkConfig, PushError,
    Refusal, TransportReport, ZCOPY, ZCOPY_MAX,
};
use farpost_tcp::trust::HeaderCheck;
use fastrand::Rng;
use std::collections::HashMap;

/// What lies at each address of the exposed memory.
fn exposed(address: usize) -> u8 {
    (address.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// What the owner of a transfer's memory writes there once the transfer is complete.
const TAKEN: u8 = 0xee;

pub struct Transfer {
    ticket: u32,
    slot: usize,
    offset: usize,
    len: usize,
}

pub struct Node {
    pub end: usize,
    pub link: Link,
    seed: u64,
    rng: Rng,
    /// The half-read bulk frame of each rail.
    half: Vec<Option<(Header, usize)>>,
    /// Exposed bytes first, then slots for transfers.
    memory: Vec<u8>,
    exposed: usize,
    slot_bytes: usize,
    free_slots: Vec<usize>,
    pub transfers: Vec<Transfer>,
    pub pushed: u64,
    pub delivered: u64,
    pub gets_done: u64,
    /// Eager zero-copy payloads pushed, and by number where those not acknowledged lie; those that come, by number, and where they go.
    pub zcopy_sent: u64,
    zcopy_out: HashMap<u32, usize>,
    zcopy_in: HashMap<u32, Option<usize>>,
    pub zcopy_done: u64,
    /// Where eager zero-copy payloads may lie.
    areas: Vec<usize>,
    pub bulk_bytes: u64,
    pub lost: Option<u64>,
    /// When the last ordered frame was delivered, and the longest time between two.
    pub last_delivery: u64,
    pub longest_gap: u64,
    pub most_memory: usize,
    pub asleep_until: u64,
}

impl Node {
    pub fn new(
        end: usize,
        config: LinkConfig,
        seed: u64,
        (exposed_bytes, slots, slot_bytes): (usize, usize, usize),
    ) -> Self {
        let mut memory: Vec<u8> = (0..exposed_bytes).map(exposed).collect();
        memory.resize(exposed_bytes + slots * slot_bytes, TAKEN);
        let half = vec![None; config.rails];
        let mut link = Link::new(config, 0);
        link.grant_zcopy(1 << 40);
        Self {
            end,
            half,
            link,
            seed,
            rng: Rng::with_seed(seed ^ (end as u64) << 32),
            memory,
            exposed: exposed_bytes,
            slot_bytes,
            free_slots: (0..slots).collect(),
            transfers: Vec::new(),
            pushed: 0,
            delivered: 0,
            gets_done: 0,
            zcopy_sent: 0,
            zcopy_out: HashMap::new(),
            zcopy_in: HashMap::new(),
            zcopy_done: 0,
            areas: Vec::new(),
            bulk_bytes: 0,
            lost: None,
            last_delivery: 0,
            longest_gap: 0,
            most_memory: 0,
            asleep_until: 0,
        }
    }

    /// The frame `number` that `end` pushes: anything, but the same for both who compute it.
    fn frame(&self, end: usize, number: u64) -> (u32, u64, Vec<u8>) {
        let mut rng = Rng::with_seed(self.seed ^ (end as u64 + 1) << 40 ^ number);
        let len = match rng.u32(0..20) {
            0 => rng.usize(1..30_000),
            1..4 => rng.usize(1..3_000),
            _ => rng.usize(1..200),
        };
        let stamp = rng.u8(..);
        let payload = (0..len).map(|i| stamp.wrapping_add(i as u8)).collect();
        (rng.u32(..), rng.u64(0..1 << 40) >> 1, payload)
    }

    /// Push up to `count` frames.
    pub fn push(&mut self, count: u64) {
        for _ in 0..count {
            let (object, offset, payload) = self.frame(self.end, self.pushed);
            match self.link.push_put(object, offset, &payload) {
                Ok(()) => self.pushed += 1,
                Err(PushError::Full) => break,
                Err(PushError::Closed) => break,
            }
        }
        self.most_memory = self.most_memory.max(self.link.memory());
    }

    /// Ask for `len` bytes of the peer's memory, if a slot is free.
    pub fn get(&mut self, len: usize) -> bool {
        let Some(slot) = self.free_slots.pop() else {
            return false;
        };
        let start = self.exposed + slot * self.slot_bytes;
        let slot_memory = &self.memory[start..start + self.slot_bytes];
        assert!(
            slot_memory[0] == TAKEN && slot_memory[1..] == slot_memory[..self.slot_bytes - 1],
            "bytes of a complete transfer were written afterwards"
        );
        let len = len.min(self.slot_bytes);
        let offset = self.rng.usize(0..=self.exposed - len);
        match self.link.push_get(1, offset as u64, start, len as u64) {
            Ok(ticket) => {
                self.transfers.push(Transfer {
                    ticket,
                    slot,
                    offset,
                    len,
                });
                true
            }
            Err(_) => {
                self.free_slots.push(slot);
                false
            }
        }
    }

    /// Where zero-copy payload `number` of `end` is copied from, and its length: anything, but the same for both.
    fn zcopy_of(&self, end: usize, number: u32) -> (usize, usize) {
        let mut rng = Rng::with_seed(self.seed ^ (end as u64 + 5) << 40 ^ u64::from(number));
        let most = self.slot_bytes.min(self.exposed);
        let len = if rng.bool() {
            rng.usize(1..1000)
        } else {
            rng.usize(1..most)
        };
        (rng.usize(0..=self.exposed - len), len)
    }

    fn area(&mut self) -> usize {
        self.areas.pop().unwrap_or_else(|| {
            let start = self.memory.len();
            self.memory.resize(start + self.slot_bytes, TAKEN);
            start
        })
    }

    /// Send an eager zero-copy payload, if as many as may be are not under way.
    pub fn zcopy(&mut self) {
        if self.link.zcopy_ahead() >= ZCOPY_MAX / 2 {
            return;
        }
        let (from, len) = self.zcopy_of(self.end, self.zcopy_sent as u32);
        let mut area = self.area();
        self.memory.copy_within(from..from + len, area);
        let number = self.link.send_zcopy(area, len as u32);
        assert_eq!(u64::from(number), self.zcopy_sent);
        self.zcopy_sent += 1;
        if let Some((&moved, &before)) = self.zcopy_out.iter().next()
            && self.rng.bool()
        {
            // Its user wants the memory back, and writes to it.
            let (_, len) = self.zcopy_of(self.end, moved);
            let new = self.area();
            self.memory.copy_within(before..before + len, new);
            self.link.move_zcopy(moved, new);
            self.memory[before..before + len].fill(TAKEN);
            self.zcopy_out.insert(moved, new);
            self.areas.push(before);
        }
        if self.rng.u8(0..4) == 0 {
            let new = self.area();
            self.memory.copy_within(area..area + len, new);
            self.link.move_zcopy(number, new);
            self.memory[area..area + len].fill(TAKEN);
            self.areas.push(area);
            area = new;
        }
        self.zcopy_out.insert(number, area);
    }

    fn zcopy_header(&mut self, rail: usize, header: &Header, now: u64) {
        self.link
            .on_zcopy_header(rail, header, now)
            .expect("an honest peer");
        let number = header.object;
        if !self.zcopy_in.contains_key(&number)
            && self
                .link
                .expect_zcopy(number, header.seq)
                .expect("an honest peer")
        {
            // Some are not wanted.
            let area = (!number.is_multiple_of(5)).then(|| self.area());
            self.link.land_zcopy(number, area);
            self.zcopy_in.insert(number, area);
        }
    }

    fn zcopy_complete(&mut self, number: u32) {
        let (from, len) = self.zcopy_of(1 - self.end, number);
        if let Some(area) = self
            .zcopy_in
            .remove(&number)
            .expect("a zcopy that completed came")
        {
            assert!(
                self.memory[area..area + len] == self.memory[from..from + len],
                "the bytes of zcopy {number}, {len} of them"
            );
            self.memory[area..area + len].fill(TAKEN);
            self.areas.push(area);
        }
        self.zcopy_done += 1;
    }

    fn finished(&mut self, ticket: u32) {
        let at = self.transfers.iter().position(|t| t.ticket == ticket);
        let t = self
            .transfers
            .swap_remove(at.expect("a ticket that completed was under way"));
        let start = self.exposed + t.slot * self.slot_bytes;
        // Both ends expose the same bytes.
        assert!(
            self.memory[start..start + t.len] == self.memory[t.offset..t.offset + t.len],
            "the bytes of a transfer of {} are not those at {}",
            t.len,
            t.offset
        );
        self.memory[start..start + t.len].fill(TAKEN);
        self.free_slots.push(t.slot);
        self.gets_done += 1;
        self.bulk_bytes += t.len as u64;
    }

    fn apply(&mut self, header: &Header, payload: &[u8], now: u64) {
        match header.kind {
            FrameKind::Put => {
                let (object, offset, expected) = self.frame(1 - self.end, self.delivered);
                assert!(
                    (header.object, header.offset, payload) == (object, offset, &expected[..]),
                    "frame {} is not what was pushed",
                    self.delivered
                );
                self.delivered += 1;
                self.longest_gap = self.longest_gap.max(now - self.last_delivery);
                self.last_delivery = now;
            }
            FrameKind::BulkGet => {
                let r = GetRequest::parse(payload).expect("checked by the link");
                if r.key == 1 && r.offset + r.len <= self.exposed as u64 {
                    self.link.serve(header.object, r.key, r.offset as usize, r.len);
                } else {
                    self.link.refuse(header.object, Refusal::OutOfRange);
                }
            }
            FrameKind::BulkDone if header.flags == ZCOPY => {
                let area = self.zcopy_out.remove(&header.object).expect("acknowledged once");
                let (_, len) = self.zcopy_of(self.end, header.object);
                self.memory[area..area + len].fill(TAKEN);
                self.areas.push(area);
            }
            FrameKind::BulkDone => (),
            other => panic!("{other:?} was delivered"),
        }
    }

    fn receive(&mut self, number: usize, rail: &mut Rail, now: u64) {
        let from = 1 - self.end;
        let wire = &mut rail.wires[from];
        loop {
            let inbox = wire.inbox();
            if inbox.is_empty() {
                return;
            }
            if let Some((header, done)) = self.half[number] {
                // In pieces of any size, as a socket gives them.
                let left = header.len as usize - done;
                let take = left.min(inbox.len()).min(1 + self.rng.usize(0..100_000));
                let at = header.offset + done as u64;
                let place = if header.flags == ZCOPY {
                    self.link.place_zcopy(header.object, at, left as u64)
                } else {
                    self.link.place(header.object, at, left as u64)
                };
                if let Some(address) = place {
                    self.memory[address..address + take].copy_from_slice(&inbox[..take]);
                }
                wire.consume(take);
                self.link.on_bytes(number, now);
                if take == left {
                    self.half[number] = None;
                    if header.flags == ZCOPY {
                        if self.link.on_zcopy(number, &header, now).expect("an honest peer") {
                            self.zcopy_complete(header.object);
                        }
                        continue;
                    }
                    let done = self.link.on_bulk(number, &header, now).expect("an honest peer");
                    if let Some(ticket) = done {
                        self.finished(ticket);
                    }
                    continue;
                }
                self.half[number] = Some((header, done + take));
                continue;
            }
            let Some(head) = inbox.first_chunk::<HEADER_BYTES>() else {
                return;
            };
            let header = self.link.parse(number, head).expect("an undamaged header");
            if header.kind == FrameKind::BulkData {
                wire.consume(HEADER_BYTES);
                if header.flags == ZCOPY {
                    self.zcopy_header(number, &header, now);
                } else {
                    self.link
                        .on_bulk_header(number, &header, now)
                        .expect("an honest peer");
                }
                self.half[number] = Some((header, 0));
                continue;
            }
            if inbox.len() < header.total() {
                return;
            }
            let payload = inbox[HEADER_BYTES..header.total()].to_vec();
            wire.consume(header.total());
            if self
                .link
                .on_frame(number, &header, &payload, now)
                .expect("an honest peer")
                == Arrival::Deliver
            {
                self.apply(&header, &payload, now);
                while let Some((header, payload)) = self.link.next_held().expect("an honest peer") {
                    self.apply(&header, &payload, now);
                }
            }
            self.most_memory = self.most_memory.max(self.link.memory());
        }
    }

    fn send(&mut self, number: usize, rail: &mut Rail, now: u64) {
        loop {
            let mut room = rail.room(self.end);
            if self.rng.u8(..) == 0 {
                // Some writes are cut short.
                room = room.min(self.rng.usize(0..5000));
            }
            let mut out = Vec::new();
            let mut offered = 0;
            for piece in self.link.next_send(number, now) {
                use farpost_tcp::link::Piece;
                offered += piece.len();
                let take = piece.len().min(room - out.len());
                match piece {
                    Piece::Bytes(bytes) => out.extend_from_slice(&bytes[..take]),
                    Piece::Memory { address, .. } => {
                        out.extend_from_slice(&self.memory[address..address + take])
                    }
                }
                if out.len() == room {
                    break;
                }
            }
            self.link.sent(number, out.len(), now);
            rail.write(self.end, &out, now);
            if offered == 0 || out.len() == room {
                return;
            }
        }
    }

    /// Read, look at the clock, write.
    pub fn drive(&mut self, rails: &mut [Rail], now: u64) {
        if self.lost.is_some() {
            return;
        }
        for (number, rail) in rails.iter_mut().enumerate() {
            if rail.connected[self.end] {
                self.receive(number, rail, now);
            }
        }
        self.link.poll(now);
        while let Some(event) = self.link.next_event() {
            match event {
                Event::Ask(number) => {
                    let wire = &rails[number].wires[self.end];
                    let report = TransportReport {
                        acknowledged: wire.acknowledged,
                        in_flight: wire.sent > wire.acknowledged,
                    };
                    self.link.on_report(number, report, now);
                }
                Event::Drop { rail, .. } => self.dropped(rail, &mut rails[rail]),
                Event::Reconnect(number) => {
                    let rail = &mut rails[number];
                    if rail.cut {
                        self.link.on_rail_down(number, now);
                    } else if rail.passes() && rail.dialled.is_none() {
                        rail.dialled = Some(now + 3 * rail.latency + self.rng.u64(0..MS));
                    }
                }
                Event::Lost { .. } => {
                    self.lost = Some(now);
                    return;
                }
            }
        }
        for (number, rail) in rails.iter_mut().enumerate() {
            if rail.connected[self.end] {
                self.send(number, rail, now);
            }
        }
    }

    /// We close our socket.
    fn dropped(&mut self, number: usize, rail: &mut Rail) {
        self.half[number] = None;
        rail.close(self.end);
    }

    pub fn up(&mut self, number: usize, now: u64) {
        self.half[number] = None;
        // Keys of this connection and of each direction.
        let key = |from: usize| {
            let words = [now, (number * 2 + from) as u64].map(u64::to_le_bytes);
            HeaderCheck::new(words.concat().first_chunk().expect("sixteen bytes"))
        };
        let checks = Checks {
            send: key(self.end),
            receive: key(1 - self.end),
        };
        self.link.on_rail_up(number, checks, now);
    }

    pub fn down(&mut self, number: usize, now: u64) {
        self.half[number] = None;
        self.link.on_rail_down(number, now);
    }
}
