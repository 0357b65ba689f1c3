//! A link between two hosts whose peer has proved itself and sends any frames, and whose connections come and go.
//!
//! The peer never gets memory written outside of what a transfer was given, never has more held for it than its bound, and the
//! link goes on: whatever has happened, an honest frame of the right number is delivered at the end.

use crate::input::{Input, Script};
use farpost_tcp::link::{
    Arrival, Checks, Event, FrameKind, GetRequest, HEADER_BYTES, Header, Link, LinkConfig, LinkError,
    LinkTunables, OFFSET_LIMIT, PIECES_MAX, Piece, RailState, Refusal, TransportReport, ZCOPY, ZCOPY_MAX,
};
use farpost_tcp::trust::HeaderCheck;

/// The peer's headers, and ours.
const KEYS: [[u8; 16]; 2] = [[77; 16], [78; 16]];
const RAILS: usize = 2;
/// Memory that the link may name: addresses are only numbers to it.
const BASE: usize = 1 << 30;
const EXPOSED: u64 = 1 << 20;

struct World {
    link: Link,
    now: u64,
    /// Frames of the peer's that were accepted, so that scripts can count from there.
    seq: u32,
    up: [bool; RAILS],
    /// Gets that were asked for: ticket, place, length.
    gets: Vec<(u32, usize, u64)>,
    landed: Vec<(u32, usize, u32)>,
    served: u64,
}

impl World {
    fn new() -> Self {
        let config = LinkConfig {
            rails: RAILS,
            connect: 10_000_000_000,
            reports: true,
            tunables: LinkTunables {
                log: 256 << 10,
                ..LinkTunables::default()
            },
            spare: Default::default(),
        };
        let mut world = Self {
            link: Link::new(config, 0),
            now: 0,
            seq: 0,
            up: [false; RAILS],
            gets: vec![],
            landed: vec![],
            served: 0,
        };
        world.turn(1000);
        for rail in 0..RAILS {
            world.connect(rail);
        }
        world
    }

    fn connect(&mut self, rail: usize) {
        if !self.up[rail] && !self.link.lost() {
            let checks = Checks {
                send: HeaderCheck::new(&KEYS[1]),
                receive: HeaderCheck::new(&KEYS[0]),
            };
            self.link.on_rail_up(rail, checks, self.now);
            self.up[rail] = true;
        }
    }

    fn down(&mut self, rail: usize) {
        if self.up[rail] {
            self.up[rail] = false;
            self.link.on_rail_down(rail, self.now);
        }
    }

    /// Time passes, and events are done.
    fn turn(&mut self, pass: u64) {
        self.now += pass;
        self.link.poll(self.now);
        let mut events = 0;
        while let Some(event) = self.link.next_event() {
            events += 1;
            assert!(events < 10_000, "events without end");
            match event {
                Event::Ask(rail) => {
                    let report = TransportReport {
                        acknowledged: self.now,
                        in_flight: false,
                    };
                    if self.up[rail] {
                        self.link.on_report(rail, report, self.now);
                    }
                }
                Event::Drop { rail, .. } => self.up[rail] = false,
                Event::Reconnect(_) => (),
                Event::Lost { .. } => assert!(self.link.lost()),
            }
        }
    }

    /// Send at most `most` bytes by a rail.
    fn send(&mut self, rail: usize, most: usize) {
        if !self.up[rail] {
            return;
        }
        let (mut offered, mut pieces) = (0, 0);
        for piece in self.link.next_send(rail, self.now) {
            if let Piece::Memory { address, len } = piece {
                let end = BASE + EXPOSED as usize;
                assert!(
                    address >= BASE && address + len <= end,
                    "{len} bytes at {address:#x} are sent"
                );
            }
            offered += piece.len();
            pieces += 1;
        }
        assert!(pieces <= PIECES_MAX);
        self.link.sent(rail, offered.min(most), self.now);
    }

    /// A frame came. False: the connection is of no use any more.
    fn frame(&mut self, rail: usize, header: &Header, payload: &[u8]) -> bool {
        match self.take(rail, header, payload) {
            Ok(()) => true,
            Err(error) => {
                let _ = error.to_string();
                if matches!(error, LinkError::Payload { .. } | LinkError::Again { .. }) {
                    // It counts as received.
                    self.seq = self.seq.wrapping_add(1);
                }
                self.down(rail);
                false
            }
        }
    }

    fn take(&mut self, rail: usize, header: &Header, payload: &[u8]) -> Result<(), LinkError> {
        let mut head = header.emit();
        Header::seal(&mut head, &HeaderCheck::new(&KEYS[0]), self.link.frames_in(rail));
        let header = self.link.parse(rail, &head)?;
        if header.kind == FrameKind::BulkData {
            return self.bulk(rail, &header);
        }
        match self.link.on_frame(rail, &header, payload, self.now)? {
            Arrival::Deliver => {
                self.apply(&header, payload);
                while let Some((header, payload)) = self.link.next_held()? {
                    self.apply(&header, &payload);
                }
            }
            Arrival::Duplicate | Arrival::Held | Arrival::Signal => (),
        }
        Ok(())
    }

    fn bulk(&mut self, rail: usize, header: &Header) -> Result<(), LinkError> {
        let zcopy = header.flags == ZCOPY;
        if zcopy {
            self.link.on_zcopy_header(rail, header, self.now)?;
        } else {
            self.link.on_bulk_header(rail, header, self.now)?;
        }
        let mut done = 0;
        while done < header.len {
            let part = (header.len - done).min(1 << 20);
            let (at, len) = (header.offset + u64::from(done), u64::from(part));
            let place = if zcopy {
                self.link.place_zcopy(header.object, at, len)
            } else {
                self.link.place(header.object, at, len)
            };
            if let Some(place) = place {
                let within = |base: usize, most: u64| place >= base && (place - base) as u64 + len <= most;
                let known = if zcopy {
                    let mut all = self.landed.iter().filter(|one| one.0 == header.object);
                    all.any(|(_, base, most)| within(*base, u64::from(*most)))
                } else {
                    let mut all = self.gets.iter().filter(|one| one.0 == header.object);
                    all.any(|(_, base, most)| within(*base, *most))
                };
                assert!(known, "{len} bytes would be written at {place:#x}");
            }
            done += part;
        }
        if zcopy {
            self.link.on_zcopy(rail, header, self.now)?;
        } else if let Some(ticket) = self.link.on_bulk(rail, header, self.now)? {
            let before = self.gets.len();
            self.gets.retain(|get| get.0 != ticket);
            assert_eq!(
                before,
                self.gets.len() + 1,
                "a transfer ended that was not under way"
            );
        }
        Ok(())
    }

    /// What a fabric does with a frame.
    fn apply(&mut self, header: &Header, payload: &[u8]) {
        assert_eq!(header.seq, self.seq, "frames in order");
        self.seq = self.seq.wrapping_add(1);
        match header.kind {
            FrameKind::BulkGet => {
                let request = GetRequest::parse(payload).expect("the link has looked");
                if request.key != 1 {
                    self.link.refuse(header.object, Refusal::NoSuchKey);
                } else if request.offset >= EXPOSED || request.len > EXPOSED - request.offset {
                    self.link.refuse(header.object, Refusal::OutOfRange);
                } else {
                    let address = BASE + request.offset as usize;
                    self.link.serve(header.object, 1, address, request.len);
                    self.served += 1;
                }
            }
            FrameKind::BulkRefused => {
                assert!(header.refusal().is_some());
                self.gets.retain(|get| get.0 != header.object);
            }
            _ => (),
        }
    }
}

/// A header of any kind with small numbers close to what would be right.
fn header(input: &mut Input<'_>, world: &World) -> Header {
    let kind = FrameKind::ALL[usize::from(input.u8()) % FrameKind::ALL.len()];
    let flags = input.u8();
    let seq = match input.u8() {
        255 => input.u32(),
        ahead if kind.ordered() => world.seq.wrapping_add(u32::from(ahead)).wrapping_sub(3),
        small => u32::from(small),
    };
    let ack = match input.u8() {
        255 => input.u32(),
        before => world.link.mark().wrapping_sub(u32::from(before)).wrapping_add(3),
    };
    Header {
        kind,
        flags,
        len: (input.number() & 0xff_ffff) as u32,
        seq,
        ack,
        object: input.number() as u32,
        offset: input.number() % OFFSET_LIMIT,
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new();
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 300 {
            break;
        }
        let rail = usize::from(step >> 7);
        match step & 0x0f {
            0 | 1 => {
                let header = header(&mut input, &world);
                if world.up[rail] {
                    let payload = vec![3; header.len as usize % (70 << 10)];
                    // As many as it says, else it is not whole and nobody looks at it.
                    if header.kind == FrameKind::BulkData || payload.len() == header.len as usize {
                        let mut payload = payload;
                        if header.kind == FrameKind::BulkGet && payload.len() == GetRequest::BYTES {
                            for word in payload.chunks_mut(8) {
                                word.copy_from_slice(&input.number().to_le_bytes());
                            }
                        }
                        world.frame(rail, &header, &payload);
                    }
                }
            }
            2 => {
                // Bytes as they are.
                let bytes: [u8; HEADER_BYTES] = input.array();
                let _ = world.link.parse(rail, &bytes).map_err(|error| error.to_string());
                // And with a right code, so that the fields are what is read.
                let (mut bytes, number) = (bytes, input.u64());
                Header::seal(&mut bytes, &HeaderCheck::new(&KEYS[0]), number);
                let _ = Header::parse(&bytes, &HeaderCheck::new(&KEYS[0]), number);
            }
            3 => world.turn(input.number().min(1 << 40)),
            4 => world.turn(u64::from(input.u8()) * 1_000_000),
            5 => world.send(rail, usize::from(input.u16())),
            6 => {
                for _ in 0..20 {
                    world.send(rail, usize::MAX);
                }
            }
            7 => world.connect(rail),
            8 => world.down(rail),
            9 => {
                let len = 1 + input.number() % (8 << 20);
                let base = BASE + (world.gets.len() << 28);
                if let Ok(ticket) = world.link.push_get(9, 0, base, len) {
                    world.gets.push((ticket, base, len));
                }
            }
            10 => {
                let (code, bytes) = (input.u8(), input.counted());
                let _ = world.link.push_control(code, 1, 2, bytes);
                let _ = world.link.push_put(1, 0, &[1; 3000]);
            }
            11 => {
                if world.link.zcopy_ahead() < ZCOPY_MAX {
                    world.link.send_zcopy(BASE, 1 + u32::from(input.u16()));
                }
            }
            12 => world.link.grant_zcopy(input.number() & 0xff_ffff),
            13 => {
                let (number, len) = (input.number() as u32, input.number() as u32);
                if let Ok(true) = world.link.expect_zcopy(number, len) {
                    let base = BASE + (1 << 40) + (world.landed.len() << 32);
                    world.landed.push((number, base, len));
                    world.link.land_zcopy(number, Some(base));
                }
            }
            14 => world.link.withdraw(1, world.now),
            _ => {
                let _ = world.link.push_bye();
            }
        }
        let held = world.link.memory();
        assert!(held < 300 << 20, "{held} bytes are held");
    }
    if world.link.lost() || world.link.bye_heard() {
        return;
    }
    // It still works.
    world.turn(1000);
    world.connect(0);
    if !world.up[0] || world.link.lost() {
        return;
    }
    world.turn(1000);
    let before = world.seq;
    let honest = Header {
        seq: before,
        ack: acknowledged(&world),
        ..Header::new(FrameKind::Ring)
    };
    match world.take(0, &honest, &[]) {
        // What came early and is looked at now may be none.
        Ok(()) | Err(LinkError::Payload { .. } | LinkError::Again { .. }) => (),
        Err(error) => panic!("an honest frame is refused: the peer {error}"),
    }
    assert!(
        world.seq.wrapping_sub(before) >= 1,
        "an honest frame is not delivered"
    );
    assert!(world.link.rail_state(0) == RailState::Up || !world.up[0]);
}

/// The least that may be acknowledged: what was before.
fn acknowledged(world: &World) -> u32 {
    let mark = world.link.mark();
    (0..=mark)
        .rev()
        .take(4096)
        .find(|at| world.link.acknowledged(*at))
        .unwrap_or(0)
}

pub fn seeds() -> Vec<Vec<u8>> {
    // kind, flags, ahead of the next number, behind what was sent, length, object, offset
    let frame =
        |script: Script, kind: FrameKind, flags: u8, ahead: u8, len: u64, object: u64, offset: u64| {
            let kind = FrameKind::ALL.iter().position(|k| *k == kind).expect("a kind") as u8;
            let script = script.u8(0).u8(kind).u8(flags).u8(ahead.wrapping_add(3)).u8(3);
            script.number(len).number(object).number(offset)
        };
    let script = Script::default;
    let get = frame(script(), FrameKind::BulkGet, 0, 0, 24, 5, 0)
        .number(1)
        .number(0)
        .number(1 << 19);
    let asked = script().u8(9).number(5000).u8(6);
    let data = |s: Script| frame(s, FrameKind::BulkData, 0, 253, 2500, 0, 0);
    vec![
        frame(
            frame(
                frame(script(), FrameKind::Put, 0, 0, 100, 1, 64),
                FrameKind::PutLine,
                0,
                0,
                64,
                1,
                64,
            ),
            FrameKind::Ring,
            0,
            0,
            0,
            0,
            0,
        )
        .0,
        frame(
            frame(script(), FrameKind::Packet, 3, 1, 40, 0, 0),
            FrameKind::PutWord,
            0,
            0,
            8,
            2,
            8,
        )
        .0,
        get.clone().u8(6).u8(3).number(5_000_000).u8(0x86).0,
        frame(get.u8(6), FrameKind::BulkAck, 0, 100, 0, 5, 0)
            .u8(8)
            .u8(7)
            .u8(6)
            .0,
        frame(data(asked.clone()), FrameKind::BulkData, 0, 253, 2500, 0, 2500).0,
        frame(data(asked), FrameKind::BulkRefused, 0, 0, 0, 0, 1).0,
        {
            let zcopy = script().u8(12).number(100_000).u8(13).number(0).number(100);
            let zcopy = zcopy
                .u8(0)
                .u8(13)
                .u8(ZCOPY)
                .u8(100)
                .u8(3)
                .number(60)
                .number(0)
                .number(0);
            zcopy
                .u8(0)
                .u8(13)
                .u8(ZCOPY)
                .u8(100)
                .u8(3)
                .number(40)
                .number(0)
                .number(60)
                .0
        },
        frame(
            script().u8(11).u16(3000).u8(6),
            FrameKind::BulkDone,
            ZCOPY,
            0,
            0,
            0,
            0,
        )
        .0,
        script()
            .u8(10)
            .u8(1)
            .counted(b"control")
            .u8(5)
            .u16(30)
            .u8(8)
            .u8(4)
            .u8(50)
            .u8(7)
            .u8(6)
            .u8(4)
            .u8(200)
            .0,
        frame(script().u8(15).u8(6), FrameKind::Bye, 0, 0, 0, 0, 0).0,
        frame(
            frame(script(), FrameKind::Ping, 0, 253, 0, 9, 0).u8(6),
            FrameKind::Position,
            0,
            253,
            0,
            0,
            0,
        )
        .0,
    ]
}
