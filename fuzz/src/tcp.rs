//! What a TCP link delivers and what is done with it: peer 1 has proved itself and writes any frames, with the right codes, while this
//! process puts, gets, lends and withdraws memory, sends and takes packets and eager zero-copy payloads.
//!
//! Only memory that was lent to peer 1 for that is written, nothing that was not is sent to it, nobody else is blamed, and peer 2's
//! frames arrive.

use crate::input::{Input, Script};
use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, ErrorStatus, LINE_BYTES, LocalMemory,
    PACKET_BYTES, PacketQueue, Peer, Permission, Port, Priority, RemoteMemory, SegmentId, Ticket, ZeroCopy,
};
use farpost_tcp::fuzzing::{ControlCode, World};
use farpost_tcp::link::{FrameKind, Header, OFFSET_LIMIT, ZCOPY};
use farpost_tcp::{TcpSettings, TcpTunables};

const PEER: Peer = Peer(1);
const OTHER: Peer = Peer(2);
/// Segments, in the order of their handles: for the peer to write, to read, for the other one, and one to be withdrawn.
const SEGMENTS: [(u32, Peer, Permission); 4] = [
    (10, PEER, Permission::ReadWrite),
    (11, PEER, Permission::Read),
    (12, OTHER, Permission::ReadWrite),
    (13, PEER, Permission::ReadWrite),
];
const PAGE: usize = 4096;
/// What no peer may be sent.
const SECRET: u8 = 0x5c;
/// What must not be overwritten, around every buffer.
const GUARD: u8 = 0xa5;
const AROUND: usize = 64;

/// A buffer that a transfer may use.
struct Lent {
    bytes: Box<[u8]>,
    len: usize,
    /// What it must hold from now on.
    fixed: Option<Vec<u8>>,
}

impl Lent {
    fn new(len: usize, value: u8) -> Self {
        let mut bytes = vec![GUARD; len + 2 * AROUND].into_boxed_slice();
        bytes[AROUND..AROUND + len].fill(value);
        Self {
            bytes,
            len,
            fixed: None,
        }
    }

    fn address(&mut self) -> usize {
        self.bytes[AROUND..].as_mut_ptr().expose_provenance()
    }

    fn inside(&self) -> &[u8] {
        &self.bytes[AROUND..AROUND + self.len]
    }

    /// Nobody may write it any more.
    fn fix(&mut self) {
        self.fixed = Some(self.inside().to_vec());
    }

    fn check(&self) {
        let (before, after) = (&self.bytes[..AROUND], &self.bytes[AROUND + self.len..]);
        assert!(
            before.iter().chain(after).all(|byte| *byte == GUARD),
            "written beside a buffer"
        );
        if let Some(fixed) = &self.fixed {
            assert!(self.inside() == fixed, "a buffer was written that was not lent");
        }
    }
}

/// What a buffer is used for.
enum Use {
    Transfer(Ticket),
    Exposed(u64),
    /// An eager zero-copy payload that is sent, or that lands here.
    Sent(u32),
    Lands(u32),
    Nothing,
}

struct Play {
    world: World,
    lent: Vec<(Lent, Use)>,
}

fn settings() -> TcpSettings {
    TcpSettings::from(TcpTunables {
        packets: 4,
        zcopy: 16 << 10,
        ..TcpTunables::default()
    })
}

impl Play {
    fn lend(&mut self, len: usize, value: u8) -> (usize, usize) {
        let mut lent = Lent::new(len, value);
        let address = lent.address();
        self.lent.push((lent, Use::Nothing));
        (self.lent.len() - 1, address)
    }

    /// Bytes for a segment of the peer's, or from it.
    fn transfer(&mut self, direction: Direction, key: u64, remote: u64, len: usize) {
        let value = if matches!(direction, Direction::Put) { 1 } else { 0 };
        let (at, local) = self.lend(len, value);
        if matches!(direction, Direction::Put) {
            self.lent[at].0.fix();
        }
        let descriptor = Descriptor {
            peer: PEER,
            direction,
            local,
            remote: remote as usize,
            key,
            len,
        };
        // SAFETY: the buffer lives as long as the world, and is looked at when the transfer is over.
        match unsafe { self.world.tcp.submit(&descriptor) } {
            Ok(Completion::Pending(ticket)) => self.lent[at].1 = Use::Transfer(ticket),
            _ => self.lent[at].0.fix(),
        }
    }

    /// End what buffer `at` is used for, or see whether it is over.
    fn end(&mut self, at: usize, cancel: bool) {
        let Some((lent, what)) = self.lent.get_mut(at) else {
            return;
        };
        let tcp = &self.world.tcp;
        let over = match *what {
            Use::Transfer(ticket) if cancel => {
                tcp.cancel_transfer(ticket);
                true
            }
            Use::Transfer(ticket) => !matches!(tcp.poll_transfer(ticket), Ok(false)),
            Use::Exposed(key) => {
                tcp.withdraw(key);
                true
            }
            Use::Sent(number) if cancel => {
                tcp.release_zcopy(PEER, number);
                true
            }
            Use::Sent(number) => !matches!(tcp.zcopy_sent(PEER, number), Ok(false)),
            Use::Lands(number) => !matches!(tcp.zcopy_landed(PEER, number), Ok(false)),
            Use::Nothing => false,
        };
        if over {
            *what = Use::Nothing;
            lent.fix();
        }
    }

    fn check(&mut self) {
        for (lent, _) in &self.lent {
            lent.check();
        }
        let sent = self.world.drain(PEER);
        let secret = sent
            .windows(16)
            .any(|some| some.iter().all(|byte| *byte == SECRET));
        assert!(!secret, "what is not the peer's to read was sent to it");
    }

    /// What this process does meanwhile.
    fn act(&mut self, input: &mut Input<'_>) {
        let tcp = &self.world.tcp;
        let (what, len) = (input.u8(), 1 + usize::from(input.u16()) % (64 << 10));
        match what % 13 {
            0 => self.transfer(Direction::Get, input.number(), input.number() >> 1, len),
            1 => self.transfer(Direction::Put, input.number(), input.number() >> 1, len),
            2 => {
                let (to, writable) = ([PEER, OTHER][usize::from(what >> 7)], input.u8() & 1 == 0);
                let (at, address) = self.lend(len, if to == PEER { 0 } else { SECRET });
                if !writable || to == OTHER {
                    self.lent[at].0.fix();
                }
                // SAFETY: the buffer lives as long as the world.
                let key = unsafe { self.world.tcp.expose(to, address, len, writable) };
                self.lent[at].1 = key.map_or(Use::Nothing, Use::Exposed);
            }
            3 => self.end(usize::from(input.u8()), false),
            4 => self.end(usize::from(input.u8()), true),
            5 => {
                let bytes = vec![2; len % PACKET_BYTES];
                let _ = tcp.try_send(PEER, Port::Fm, Priority::Low, &bytes);
            }
            6 => {
                let lane = usize::from(input.u8());
                let (port, priority) = ([Port::Fm, Port::Job][lane >> 1 & 1], Priority::ALL[lane & 1]);
                tcp.poll_priority(port, priority, |from, bytes| {
                    assert!(from != OTHER && bytes.len() <= PACKET_BYTES);
                });
            }
            7 => self.world.withdraw_segment(SegmentId(13)),
            8 => self.world.ask(PEER, SegmentId(u32::from(what >> 4))),
            9 => self
                .world
                .put(PEER, input.number() as u32, input.u16().into(), &vec![3; len]),
            10 => {
                if tcp.zcopy_room(PEER) >= len {
                    let (at, address) = self.lend(len, 4);
                    self.lent[at].0.fix();
                    // SAFETY: the buffer lives as long as the world.
                    let sent = unsafe { self.world.tcp.send_zcopy(PEER, address, len) };
                    self.lent[at].1 = sent.map_or(Use::Nothing, Use::Sent);
                }
            }
            11 => {
                let number = input.number() as u32;
                let (at, address) = self.lend(len, 0);
                // SAFETY: the buffer lives as long as the world.
                let lands = unsafe { self.world.tcp.land_zcopy(PEER, number, address, len) };
                match lands {
                    Ok(()) => self.lent[at].1 = Use::Lands(number),
                    Err(_) => self.lent[at].0.fix(),
                }
            }
            _ => {
                let number = input.number() as u32;
                if what >> 7 == 0 {
                    let _ = tcp.take_zcopy(PEER, number, len, &mut |bytes| assert_eq!(bytes.len(), len));
                } else if !self
                    .lent
                    .iter()
                    .any(|(_, of)| matches!(of, Use::Lands(n) if *n == number))
                {
                    tcp.drop_zcopy(PEER, number, len);
                }
            }
        }
    }

    /// The peer writes a frame.
    fn frame(&mut self, input: &mut Input<'_>) {
        let kind = FrameKind::ALL[usize::from(input.u8()) % FrameKind::ALL.len()];
        let (flags, ahead, behind) = (input.u8(), input.u8(), input.u8());
        let seq = match ahead {
            255 => input.u32(),
            ahead if kind.ordered() => self.world.seq(PEER).wrapping_add(u32::from(ahead)),
            small => u32::from(small) << (small >> 6),
        };
        let mark = self.world.mark(PEER);
        let (object, offset) = (input.number() as u32, input.number() % OFFSET_LIMIT);
        let (least, most) = kind.lengths();
        let len = (input.number() as usize).clamp(least, most.min(70 << 10));
        // Words of the script, and what follows is all the same.
        let words = usize::from(input.u8()).min(len / 8);
        let mut payload: Vec<u8> = (0..words).flat_map(|_| input.number().to_le_bytes()).collect();
        payload.resize(len, 9);
        let header = Header {
            kind,
            flags,
            len: len as u32,
            seq,
            ack: if behind == 255 {
                input.u32()
            } else {
                mark.wrapping_sub(u32::from(behind))
            },
            object,
            offset,
        };
        self.world.write(PEER, &header, &payload);
        self.world.turn();
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let world = World::new(settings()).expect("a process");
    let mut memory = Vec::new();
    for (id, peer, permission) in SEGMENTS {
        let access = Access::Only(vec![(peer, permission)]);
        let one = world
            .tcp
            .export_with(SegmentId(id), PAGE, access, |memory| {
                if peer == OTHER {
                    memory.write(0, &[SECRET; PAGE]);
                }
            })
            .expect("memory");
        memory.push(one);
    }
    let mut play = Play {
        world,
        lent: Vec::new(),
    };
    for peer in [PEER, OTHER] {
        play.world.connect(peer).expect("sockets");
    }
    let told = |handle: u64| [handle | 3 << 32, 4096, 0].map(u64::to_le_bytes).concat();
    let announce = Header {
        flags: ControlCode::Segment as u8,
        object: 50,
        len: 24,
        ..Header::new(FrameKind::Control)
    };
    play.world.write(OTHER, &announce, &told(9));
    play.world.turn();
    play.world.turn();
    let mut withdrawn = None;
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 120 {
            break;
        }
        match step & 7 {
            0..=2 => play.frame(&mut input),
            3..=5 => play.act(&mut input),
            6 if step >> 3 == 31 => {
                play.world.cut(PEER);
                play.world.turn();
                play.world.connect(PEER).expect("sockets");
            }
            6 => play.check(),
            _ => play.world.turn(),
        }
        if withdrawn.is_none() && !play.world.publishes(SegmentId(13)) {
            let mut bytes = vec![0; PAGE];
            memory[3].read(0, &mut bytes);
            withdrawn = Some(bytes);
        }
    }
    for _ in 0..4 {
        play.check();
        play.world.turn();
    }
    let content = |at: usize| {
        let mut bytes = vec![0; PAGE];
        memory[at].read(0, &mut bytes);
        bytes
    };
    assert!(content(1) == [0; PAGE] && content(2) == [SECRET; PAGE]);
    if let Some(before) = withdrawn {
        assert!(content(3) == before, "a segment was written that was withdrawn");
    }
    // The other peer is where it was, and its frames arrive.
    assert!(play.world.is_active(OTHER) && play.world.is_connected(OTHER));
    assert_eq!(play.world.told(OTHER, SegmentId(50)), Some((9, 4096, true)));
    let line = Header {
        seq: play.world.seq(OTHER),
        ack: play.world.mark(OTHER),
        object: 2,
        len: LINE_BYTES as u32,
        ..Header::new(FrameKind::PutLine)
    };
    play.world.drain(OTHER);
    play.world.write(OTHER, &line, &[6; LINE_BYTES]);
    for _ in 0..8 {
        play.world.turn();
    }
    assert_eq!(content(2)[..LINE_BYTES], [6; LINE_BYTES]);
    let (faults, _) = play.world.tcp.take_faults();
    assert!(faults.iter().all(|fault| fault.peer == PEER), "{faults:?}");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let kind = |of: FrameKind| {
        FrameKind::ALL
            .iter()
            .position(|kind| *kind == of)
            .expect("a kind") as u8
    };
    // Kind, flags, object, offset, bytes, words. In the place of its number a frame of an eager zero-copy payload has the length of all.
    let frame = |script: Script, of: FrameKind, flags: u8, [object, offset, len]: [u64; 3], words: &[u64]| {
        let ahead = if flags == ZCOPY && of == FrameKind::BulkData {
            len as u8
        } else {
            0
        };
        let script = script.u8(0).u8(kind(of)).u8(flags).u8(ahead).u8(0);
        let script = script
            .number(object)
            .number(offset)
            .number(len)
            .u8(words.len() as u8);
        words.iter().fold(script, |script, word| script.number(*word))
    };
    let control = |script: Script, code: ControlCode, object: u64, words: &[u64]| {
        frame(
            script,
            FrameKind::Control,
            code as u8,
            [object, 0, 8 * words.len() as u64],
            words,
        )
    };
    let act = |script: Script, what: u8, len: u16| script.u8(3).u8(what).u16(len - 1);
    let new = Script::default;
    let mut seeds = Vec::new();
    for handle in 0..5 {
        let lines = frame(new(), FrameKind::PutLine, 0, [handle, 64, 64], &[1; 8]);
        let puts = frame(
            frame(lines, FrameKind::Put, 0, [handle, 4000, 96], &[]),
            FrameKind::PutWord,
            0,
            [handle, 8, 8],
            &[5],
        );
        let get = frame(
            puts,
            FrameKind::BulkGet,
            0,
            [handle, 0, 24],
            &[1 << 63 | handle, 0, 4096],
        );
        seeds.push(get.u8(6).u8(7).u8(6).0);
    }
    // A get of ours and what it brings, asked for, refused, given up; a put of ours; puts of the peer's.
    let get = || act(new(), 0, 3000).number(7).number(0).u8(7);
    let data = |script: Script, at: u64| frame(script, FrameKind::BulkData, 0, [0, at, 1500], &[]);
    seeds.push(data(data(get(), 0), 1500).u8(3).u8(3).u16(0).u8(0).0);
    seeds.push(frame(get(), FrameKind::BulkRefused, 0, [0, 1, 0], &[]).0);
    seeds.push(data(get().u8(3).u8(4).u16(0).u8(0), 0).0);
    let put = act(new(), 1, 3000).number(7).number(0).u8(7);
    seeds.push(
        control(
            frame(put, FrameKind::BulkGet, 0, [3, 0, 24], &[1 << 32, 0, 3000]),
            ControlCode::PutDone,
            0,
            &[1, 0],
        )
        .0,
    );
    let exposed = act(new(), 2, 2000).u8(0);
    let asks = control(exposed, ControlCode::PutAsk, 0, &[5, 1 << 32, 0, 2000, 77]).u8(7);
    seeds.push(frame(asks, FrameKind::BulkData, 0, [0, 0, 2000], &[]).u8(6).0);
    // Control frames, zero-copy payloads, packets, the end.
    let find = control(
        control(new(), ControlCode::Find, 11, &[3]),
        ControlCode::Fence,
        0,
        &[1],
    );
    seeds.push(
        control(
            control(find, ControlCode::Forget, 9, &[]),
            ControlCode::Forgotten,
            3,
            &[],
        )
        .0,
    );
    let asked = control(
        act(new(), 8, 1).u8(7),
        ControlCode::Segment,
        0,
        &[3 << 32 | 4, 4096, 1],
    );
    seeds.push(control(asked, ControlCode::Refused, 4, &[2]).0);
    let fenced = act(new(), 9, 100).number(4).u16(0).u8(7);
    seeds.push(control(fenced, ControlCode::Fenced, 0, &[1]).0);
    let zcopy = |script: Script| frame(script, FrameKind::BulkData, ZCOPY, [0, 0, 60], &[]);
    seeds.push(zcopy(act(new(), 11, 60).number(0)).u8(3).u8(3).u16(0).u8(0).0);
    seeds.push(act(zcopy(new()).u8(7).u8(7), 12, 60).number(0).0);
    let sends = act(control(new(), ControlCode::ZcopyGrant, 0, &[9000]), 10, 800)
        .u8(7)
        .u8(6);
    seeds.push(frame(sends, FrameKind::BulkDone, ZCOPY, [0, 0, 0], &[]).0);
    let packets = (0..5).fold(new(), |script, _| {
        frame(script, FrameKind::Packet, 1, [0, 0, 40], &[])
    });
    let packets = act(act(packets, 6, 1).u8(0), 5, 50).u8(7);
    seeds.push(control(packets, ControlCode::Credit, 0, &[1]).0);
    seeds.push(
        frame(act(new(), 7, 1), FrameKind::Put, 0, [3, 0, 10], &[])
            .u8(0xfe)
            .0,
    );
    seeds.push(frame(new(), FrameKind::Bye, 0, [0; 3], &[]).0);
    seeds.push(frame(new(), FrameKind::Fault, 0, [1, 0, 30], &[]).0);
    seeds
}
