//! Postboxes of remote shared memory: somebody writes anything into the area between process 0 and process 1, into the
//! acknowledgements, and sends control packets. Nobody but these two blames or is blamed, and a third process's messages arrive.

use crate::input::{Input, Script};
use crate::postboxes::{SMALL, Talk};
use farpost_channel::Layout;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{
    ErrorStatus, LINE_BYTES, LocalMemory, PACKET_BYTES, PacketQueue, Peer, Port, Priority, SegmentId,
};
use std::rc::Rc;

const SENDER: Peer = Peer(0);
const RECEIVER: Peer = Peer(1);
const BYSTANDER: Peer = Peer(2);
/// The segments of the protocol on a fabric without mapping.
const ACKS: SegmentId = SegmentId(0x40_0001);
const AREA: SegmentId = SegmentId(0x41_0000);

struct World {
    ends: Vec<Rc<InProc>>,
    talks: Vec<Talk<InProc>>,
}

impl World {
    fn turn(&mut self) {
        for talk in &mut self.talks {
            talk.progress();
        }
        self.ends[0].network().settle();
    }

    fn delivers(&mut self, from: Peer, bytes: &[u8]) -> bool {
        self.talks[from.index()].send(RECEIVER, bytes.to_vec());
        for _ in 0..200 {
            self.turn();
            if let Some(got) = self.talks[RECEIVER.index()].received[from.index()].pop_front() {
                return got == bytes;
            }
        }
        false
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let ends = Network::new(3, 1, Config::default());
    let ends: Vec<_> = ends.into_iter().map(Rc::new).collect();
    let talks = ends.iter().map(|end| Talk::new(end, &SMALL)).collect();
    let mut world = World { ends, talks };
    assert!(world.delivers(SENDER, b"hello"));
    let network = world.ends[0].network().clone();
    let layout = Layout::new(&SMALL, 1);
    let area = network.segment(RECEIVER, AREA).expect("an area");
    let acks = network.segment(SENDER, ACKS).expect("acknowledgements");
    let (queue, lines) = (layout.queue(0), 16);
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 200 {
            break;
        }
        match step & 7 {
            0 => world.talks[0].send(RECEIVER, vec![3; usize::from(input.u16()) % 4000]),
            1 => world.turn(),
            2 => {
                // A postbox, complete if its number is the one expected, with the words of a message.
                let line = usize::from(step >> 3) % lines;
                let mut words = [0; 8];
                words[0] = input.number();
                for word in words.iter_mut().skip(1).take(4) {
                    *word = input.number();
                }
                area.store_line(queue + line * LINE_BYTES, &words);
            }
            3 => {
                let (at, word) = (usize::from(input.u16()), input.number());
                area.store(at % (layout.bytes() / 8) * 8, word);
            }
            4 if step & 8 == 0 => acks.store(RECEIVER.index() * LINE_BYTES, input.number()),
            4 => {
                // That the queue rests, or that this was seen.
                let word = 1 + usize::from(step >> 4 & 1);
                area.store(layout.ack(0) + 8 * word, input.number());
            }
            5 => {
                let bytes = input.counted();
                let bytes = &bytes[..bytes.len().min(PACKET_BYTES)];
                let _ = world.ends[0].try_send(RECEIVER, Port::Postbox, Priority::High, bytes);
                network.settle();
            }
            6 => {
                let sizes = [0; 4].map(|_: u32| input.number() as u32);
                let mut packet = vec![step >> 3 & 3, 1, 0, 0];
                packet.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
                let _ = world.ends[0].try_send(RECEIVER, Port::Postbox, Priority::High, &packet);
                network.settle();
            }
            _ => world.talks[2].send(RECEIVER, vec![4; usize::from(input.u16()) % 3000]),
        }
    }
    for _ in 0..60 {
        world.turn();
    }
    for (who, other) in [(RECEIVER, SENDER), (SENDER, RECEIVER)] {
        for fault in world.ends[who.index()].take_faults().0 {
            assert_eq!(fault.peer, other, "{fault:?}");
        }
    }
    assert_eq!(world.ends[BYSTANDER.index()].take_faults().0, vec![]);
    for got in world.talks[RECEIVER.index()].received[BYSTANDER.index()].drain(..) {
        assert!(got.iter().all(|byte| *byte == 4));
    }
    assert!(world.delivers(BYSTANDER, b"unharmed"));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let script = Script::default;
    let line = |script: Script, at: u8, words: [u64; 5]| {
        words
            .iter()
            .fold(script.u8(2 | at << 3), |script, word| script.number(*word))
    };
    vec![
        script()
            .u8(0)
            .u16(20)
            .u8(1)
            .u8(0)
            .u16(3000)
            .u8(1)
            .u8(1)
            .u8(7)
            .u16(100)
            .u8(1)
            .0,
        line(script(), 1, [2, 20, u64::MAX, 1, 2]).u8(1).0,
        line(line(script(), 2, [3, 0, 0, 0, 0]), 1, [2, 60, u64::MAX, 1, 2])
            .u8(1)
            .0,
        line(script(), 1, [2, 2000, 3, 1024, 0]).u8(1).0,
        line(script(), 1, [17, 2000, 9, 1024, 0]).u8(1).0,
        script()
            .u8(0)
            .u16(1)
            .u8(4)
            .number(2)
            .u8(1)
            .u8(4)
            .number(900)
            .u8(1)
            .0,
        script()
            .u8(0)
            .u16(50)
            .u8(1)
            .u8(4 | 1 << 3)
            .number(1 << 32 | 2)
            .u8(4 | 3 << 3)
            .number(1 << 32 | 2)
            .u8(1)
            .u8(0)
            .u16(50)
            .u8(1)
            .0,
        script()
            .u8(6 | 1 << 3)
            .number(1)
            .number(16)
            .number(250)
            .number(8)
            .u8(1)
            .0,
        script()
            .u8(5)
            .counted(&[1, 1, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 4, 0, 0, 8, 0, 0, 0])
            .u8(1)
            .0,
    ]
}
