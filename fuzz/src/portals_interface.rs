//! A Portals interface, library and network layer, at process 0. Process 2 sends headers and bodies of its own making by an honest
//! network layer, and answers what process 0 asks of it in its own way; process 0 has objects of all kinds; process 1 is honest.
//! No byte changes outside of the memory that descriptors name, none that only process 1 may write is written by process 2, and
//! process 1 goes on.

use crate::common::{Memory, PT, bind, interface, pattern, target};
use crate::input::{Input, Script};
use crate::processes::{Process, Taking};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{ErrorStatus, Peer};
use farpost_portals::net::{Channel, NetTunables};
use farpost_portals::*;
use std::rc::Rc;

const SETTINGS: NetTunables = NetTunables {
    sources: 4,
    tx_pendings: 8,
    rx_pendings: 8,
    window: 8,
    staged: 4096,
    staging: 4,
    chunk: 8192,
    shared: 32 << 10,
    resend: 0,
    transmit: 0,
    check: 0,
};
/// Memory is in regions with gaps between them.
const REGION: usize = 1000;
const STRIDE: usize = 1500;
const REGIONS: usize = 8;
/// The one that only process 1 may use.
const PRIVATE: usize = 7;
const EMPTY: u8 = 0x5a;

struct World {
    victim: Interface<InProc>,
    honest: Interface<InProc>,
    peer: Process<InProc>,
    memory: Memory,
    eq: Handle,
    entries: Vec<Handle>,
    descriptors: Vec<Handle>,
}

impl World {
    fn new(bulk: bool) -> Self {
        let config = Config {
            queue_packets: 64,
            bulk,
            ..Config::default()
        };
        let mut ends = Network::new(3, 3, config).into_iter().map(Rc::new);
        let processes = Rc::new(Processes::on_one_host(3, 1000, 1));
        let mut next = || ends.next().expect("an end");
        let victim = interface(next(), &SETTINGS, &processes);
        let honest = interface(next(), &SETTINGS, &processes);
        let peer = Process::new(next(), &SETTINGS, Taking::AtOnce);
        let eq = victim.eq_alloc(8, None).expect("a queue");
        let mut world = Self {
            victim,
            honest,
            peer,
            memory: Memory::new(&[EMPTY; STRIDE * REGIONS]),
            eq,
            entries: vec![],
            descriptors: vec![],
        };
        let one = ProcessId::new(0, 1);
        let me = world
            .victim
            .me_attach(PT, one, (77, 0), Unlink::Retain, Position::After)
            .expect("an entry");
        let md = world.md(
            PRIVATE,
            REGION,
            option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE,
        );
        // SAFETY: the memory lives as long as the interface.
        unsafe { world.victim.md_attach(me, md, None, Unlink::Retain) }.expect("a descriptor");
        world
    }

    fn md(&mut self, region: usize, len: usize, options: u32) -> Md {
        Md {
            start: self.memory.address() + region * STRIDE,
            length: len.min(REGION) as u64,
            threshold: THRESHOLD_INFINITE,
            max_size: 0,
            options,
            user_ptr: 0,
            eq_handle: Handle::EQ_NONE,
        }
    }

    fn turn(&mut self) {
        self.victim.progress();
        self.honest.progress();
        self.peer.turn();
    }

    /// Process 0 makes an entry with a descriptor.
    fn post(&mut self, input: &mut Input<'_>) {
        let (bits, ignored) = (input.number(), input.number());
        let how = input.u8();
        // What process 1 puts goes past all of these.
        let from = [ProcessId::new(0, 2), ProcessId::new(ANY, 2)][usize::from(how & 1)];
        let unlink = if how & 4 == 0 {
            Unlink::Retain
        } else {
            Unlink::Unlink
        };
        let position = if how & 8 == 0 {
            Position::After
        } else {
            Position::Before
        };
        let entry = match self.entries.last() {
            Some(before) if how & 16 != 0 => {
                self.victim
                    .me_insert(*before, from, (bits, ignored), unlink, position)
            }
            _ => self.victim.me_attach(PT, from, (bits, ignored), unlink, position),
        };
        let Ok(entry) = entry else { return };
        self.entries.push(entry);
        let (options, threshold, max_size) = (input.u8(), input.u8(), input.number());
        let region = usize::from(how >> 5);
        let region = if region == PRIVATE { 0 } else { region };
        let len = input.number() as usize;
        let mut md = self.md(region, len, u32::from(options));
        md.threshold = i32::from(threshold as i8);
        md.max_size = max_size.min(REGION as u64);
        if options & 1 != 0 {
            md.eq_handle = self.eq;
        }
        // SAFETY: the memory lives as long as the interface.
        if let Ok(md) = unsafe { self.victim.md_attach(entry, md, None, unlink) } {
            self.descriptors.push(md);
        }
    }

    /// Process 0 starts something with process 2.
    fn start(&mut self, input: &mut Input<'_>) {
        let how = input.u8();
        let len = input.number() as usize;
        let mut md = self.md(usize::from(how >> 4) % PRIVATE, len, 0);
        md.eq_handle = self.eq;
        if how & 8 != 0 {
            md.threshold = 2;
        }
        let md = bind(&self.victim, md);
        self.descriptors.push(md);
        let to = target(2, input.number());
        let _ = match how & 7 {
            0 | 1 => self.victim.put(md, AckReq::Ack, &to, 1),
            2 => self.victim.put(md, AckReq::NoAck, &to, 1),
            3..=5 => self.victim.get(md, &to),
            _ => {
                let md2 = self.md(usize::from(how >> 5) % PRIVATE, len, 0);
                let md2 = bind(&self.victim, md2);
                self.victim.get_put(md, md2, &to, 1)
            }
        };
    }

    /// Guards are as they were.
    fn look(&self) {
        for (number, stride) in self.memory.bytes().chunks(STRIDE).enumerate() {
            assert!(
                stride[REGION..].iter().all(|byte| *byte == EMPTY),
                "memory behind region {number} was written"
            );
        }
    }
}

fn field_header(input: &mut Input<'_>) -> Vec<u8> {
    let mut header = vec![input.u8() % 7, input.u8(), input.u8(), input.u8()];
    for _ in 0..4 {
        header.extend(input.number().to_le_bytes());
    }
    header
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new(input.u8() & 1 == 0);
    let network = world.victim.fabric().network().clone();
    let private = |world: &World| world.memory.bytes()[PRIVATE * STRIDE..][..REGION].to_vec();
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 150 {
            break;
        }
        let channel = if step & 0x80 == 0 {
            Channel::Request
        } else {
            Channel::Answer
        };
        match step & 15 {
            0 | 1 => {
                let header = field_header(&mut input);
                let body = vec![0xbb; input.number() as usize % 12_000];
                world.peer.send(0, channel, &header, &body);
            }
            2 => {
                let header = input.counted();
                let header = &header[..header.len().min(48)];
                world.peer.send(0, channel, header, &[0xbb; 20]);
            }
            3 | 4 => {
                // An answer to what process 0 asked, with what the script changes.
                let came = &world.peer.upper.came;
                let which = usize::from(input.u8());
                let operation = match came.len() {
                    0 => [0; 8],
                    count => {
                        let header = &came[count - 1 - which % count].header;
                        header
                            .get(4..12)
                            .and_then(|bytes| bytes.try_into().ok())
                            .unwrap_or([0; 8])
                    }
                };
                let kind = [0, 3, 5, 1][usize::from(input.u8()) % 4];
                let mut header = vec![kind, 0, 0, input.u8()];
                let changed = u64::from_le_bytes(operation) ^ input.number();
                for word in [changed, 0, input.number(), input.number()] {
                    header.extend(word.to_le_bytes());
                }
                let body = vec![0xbb; input.number() as usize % 12_000];
                world.peer.send(0, channel, &header, &body);
            }
            5 => world.post(&mut input),
            6 | 7 => world.start(&mut input),
            8 => {
                let at = usize::from(input.u8());
                if let Some(entry) = world.entries.get(at) {
                    let _ = world.victim.me_unlink(*entry);
                }
            }
            9 => {
                let at = usize::from(input.u8());
                if let Some(md) = world.descriptors.get(at) {
                    let _ = world.victim.md_unlink(*md);
                }
            }
            10 => while world.victim.eq_get(world.eq).is_ok() {},
            11 => {
                let index = u32::from(input.u8());
                let entry = AccessEntry {
                    id: ProcessId::new(0, 2),
                    uid: ANY,
                    jid: ANY,
                    pt_index: u32::from(input.u8()),
                };
                // The first is everybody's.
                let _ = world.victim.ac_entry(index.max(1), entry);
            }
            12 => {
                for _ in 0..step >> 4 {
                    network.step();
                }
                world.turn();
            }
            _ => {
                for _ in 0..40 {
                    world.turn();
                }
            }
        }
    }
    world.look();
    assert!(
        private(&world).iter().all(|byte| *byte == EMPTY),
        "process 2 wrote where only process 1 may"
    );
    network.kill(Peer(2));
    let memory = Memory::new(&pattern(5, REGION));
    let md = bind(&world.honest, memory.md(0, Handle::EQ_NONE));
    let to = target(0, 77);
    world.honest.put(md, AckReq::NoAck, &to, 0).expect("a put");
    for round in 0..60_000 {
        world.victim.progress();
        world.honest.progress();
        if round % 16 == 0 && private(&world) == memory.bytes() && world.victim.is_idle() {
            break;
        }
        let state = world.victim.net().figures();
        assert!(
            round < 59_999,
            "process 1 is not heard any more: {state:?}, {:?}",
            world.victim.drops()
        );
    }
    world.look();
    let faults = world.victim.fabric().take_faults().0;
    assert!(faults.iter().all(|fault| fault.peer == Peer(2)), "{faults:?}");
    assert_eq!(world.honest.fabric().take_faults().0, vec![]);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = || Script::default().u8(0);
    // bits, ignored, how, options, threshold, largest, length
    let post = |script: Script, how: u8, options: u8, threshold: i8| {
        let script = script.u8(5).number(9).number(0).u8(how).u8(options);
        script.u8(threshold as u8).number(10).number(600)
    };
    let header = |script: Script, kind: u8, operation: u64, offset: u64, data: u64, len: u64| {
        let script = script.u8(0).u8(kind).u8(PT as u8).u8(0).u8(0);
        let script = script.number(operation).number(9).number(offset).number(data);
        script.number(len).u8(13)
    };
    // which, kind, interface, change, offset, data, body
    let answer = |script: Script, kind: u8, data: u64, len: u64| {
        let script = script.u8(13).u8(0x83).u8(0).u8(kind).u8(0).number(0);
        script.number(0).number(data).number(len).u8(13)
    };
    let put = 1;
    let all = 0x0f | 0x10;
    vec![
        header(post(script(), 0, all, -1), put, u64::MAX, 0, 5, 100).0,
        header(post(script(), 0x24, all, 1), put, 3, 100, 5, 2000)
            .u8(10)
            .0,
        header(post(script(), 0x41, all, -1), 2, 8, 50, 200, 0).0,
        header(post(script(), 0x42, all, -1), 4, 8, 50, 7, 100).0,
        header(
            post(post(script(), 0, all, 2), 16, all, 0),
            put,
            u64::MAX,
            5000,
            5,
            100,
        )
        .u8(8)
        .u8(0)
        .u8(9)
        .u8(1)
        .0,
        answer(script().u8(6).u8(0).number(100).number(1), 0, 100, 0).0,
        answer(script().u8(6).u8(3).number(250).number(1), 1, 0, 250).0,
        answer(script().u8(6).u8(6).number(200).number(1), 1, 0, 200).0,
        answer(script().u8(6).u8(0).number(100).number(1), 2, 0, 0).0,
        script().u8(2).counted(&[1; 36]).u8(11).u8(2).u8(3).u8(13).0,
    ]
}
