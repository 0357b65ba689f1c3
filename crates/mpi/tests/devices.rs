//! MPI over Fast Messages and over JAM: messages of every length about a piece arrive whatever the buffers look like; a receive takes
//! over a message that is arriving; and what a piece says is not believed: each wrong one is refused with a sentence that names the peer, nothing
//! is written, and other peers' messages arrive.

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_fm::{Fm, FmTunables, Label};
use farpost_jam::Header;
use farpost_jam::pio::Pio;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;

/// `MPI_BYTE`.
const BYTE: usize = 0x247;
const DEVICES: [Device; 2] = [Device::Fm, Device::Jam];

// Kinds of pieces.
const RUN: u8 = 2;
const MORE: u8 = 3;
const RTS: u8 = 6;
const CTS: u8 = 7;
const DATA: u8 = 8;
const DONE: u8 = 9;
const CANCELLED: u8 = 12;
const CREDIT: u8 = 13;
const BROKEN: u8 = 14;

struct Job {
    ends: Vec<Rc<Shm>>,
    worlds: Vec<World<Shm>>,
}

fn job(device: Device, size: u32, cma: u64) -> Job {
    let config = WorldConfig {
        device: DeviceConfig {
            device,
            tunables: DeviceTunables {
                jam_local: 0,
                ..DeviceTunables::default()
            },
            ..DeviceConfig::default()
        },
        engine: EngineTunables {
            eager_far: 2000,
            ..EngineTunables::default()
        },
        ..WorldConfig::default()
    };
    let tunables = ShmTunables {
        cma,
        ..ShmTunables::default()
    };
    let ends: Vec<_> = shm_ends(size, &tunables).into_iter().map(Rc::new).collect();
    let worlds = ends.iter().map(|end| World::on(Rc::clone(end), config.clone()));
    Job {
        worlds: worlds.collect(),
        ends,
    }
}

fn word() -> Datatype {
    Datatype::predefined(BYTE).unwrap()
}

impl Job {
    fn turn(&self, times: usize) {
        for _ in 0..times {
            self.worlds.iter().for_each(|world| _ = world.progress());
        }
    }

    fn send(&self, (from, to): (usize, i32), data: &[u8], ty: Datatype, count: usize, mode: Mode) -> usize {
        // SAFETY: tests finish the operation before the data goes.
        let buf = unsafe { SendBuf::new(data.as_ptr(), count as u64, ty) };
        let world = &self.worlds[from];
        world.isend(world.comm_world(), &buf, to, 7, mode).unwrap()
    }

    fn receive(&self, at: usize, from: i32, data: &mut [u8], ty: Datatype, count: usize) -> usize {
        // SAFETY: as above.
        let buf = unsafe { RecvBuf::new(data.as_mut_ptr(), count as u64, ty) };
        let world = &self.worlds[at];
        world.irecv(world.comm_world(), buf, from, 7).unwrap()
    }

    fn finish(&self, at: usize, handle: usize) -> Status {
        for _ in 0..100_000 {
            if self.worlds[at].is_complete(handle).unwrap() {
                return self.worlds[at].finish(handle).unwrap().0;
            }
            self.turn(1);
        }
        panic!("a request of {at} never completes");
    }

    fn faults(&self, at: usize) -> Vec<String> {
        self.worlds[at].take_faults()
    }
}

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + (at >> 8) + 1) as u8).collect()
}

/// About one piece and several of either layer, the longest message that is sent unasked, and one part of a long one.
const SIZES: [usize; 22] = [
    0, 1, 8, 24, 59, 60, 61, 67, 68, 69, 103, 104, 105, 111, 112, 113, 240, 1024, 2000, 2001, 16_385, 70_001,
];

#[test]
fn messages_of_every_length_arrive() {
    for device in DEVICES {
        for cma in [0, 1] {
            let job = job(device, 2, cma);
            let gaps = || Datatype::vector(3, 1, 2, &word()).unwrap();
            for len in SIZES {
                for mode in [Mode::Standard, Mode::Synchronous] {
                    for (posted, strided) in [(true, false), (false, false), (true, true), (false, true)] {
                        let what =
                            format!("{device:?}, cma {cma}, {len} bytes, {mode:?}, {posted}, {strided}");
                        let (ty, count, span) = if strided {
                            (gaps(), len / 3, (len / 3) * 5)
                        } else {
                            (word(), len, len)
                        };
                        let data = message(span);
                        let mut got = vec![0xee; span];
                        let mut receive = None;
                        if posted {
                            receive = Some(job.receive(1, 0, &mut got, ty.clone(), count));
                        }
                        let send = job.send((0, 1), &data, ty.clone(), count, mode);
                        if !posted {
                            job.turn(3);
                            receive = Some(job.receive(1, -1, &mut got, ty, count));
                        }
                        let status = job.finish(1, receive.unwrap());
                        assert_eq!(status.error, None, "{what}");
                        assert_eq!(
                            status.bytes,
                            if strided { 3 * count as u64 } else { len as u64 },
                            "{what}"
                        );
                        assert_eq!(job.finish(0, send).error, None, "{what}");
                        let whole = |at: usize| strided && at % 5 % 2 == 1;
                        assert!(
                            (0..span).all(|at| got[at] == if whole(at) { 0xee } else { data[at] }),
                            "{what}"
                        );
                    }
                }
            }
            assert!(job.faults(0).is_empty() && job.faults(1).is_empty());
        }
    }
}

#[test]
fn a_receive_takes_a_message_that_is_arriving() {
    for device in DEVICES {
        let job = job(device, 2, 1);
        let data = message(900);
        let send = job.send((0, 1), &data[..10], word(), 10, Mode::Standard);
        let raw = Raw::new(device, &job, 0);
        assert_eq!(job.finish(0, send).error, None);
        raw.piece(RUN, 400, &[7, 0], &data[..40]);
        job.turn(3);
        let mut ten = [0; 10];
        let early = job.receive(1, 0, &mut ten, word(), 10);
        assert_eq!(job.finish(1, early).bytes, 10);
        let mut got = vec![0; 300];
        let late = job.receive(1, 0, &mut got, word(), 300);
        job.turn(3);
        assert!(!job.worlds[1].is_complete(late).unwrap());
        for part in data[40..400].chunks(60) {
            raw.piece(MORE, 0, &[], part);
        }
        let status = job.finish(1, late);
        assert_eq!(status.bytes, 300, "it was longer than its receive");
        assert!(status.error.is_some());
        assert!(got == data[..300]);
        // And what its sender gives up is an error of the receive.
        raw.piece(RUN, 400, &[7, 0], &data[..40]);
        let mut never = vec![0; 400];
        let broken = job.receive(1, 0, &mut never, word(), 400);
        job.turn(3);
        raw.piece(BROKEN, 0, &[0, 0, 0], &[]);
        let error = job.finish(1, broken).error.unwrap();
        assert!(
            error.to_string().contains("process 0 has given the message up"),
            "{error}"
        );
        assert!(job.faults(1).is_empty());
    }
}

/// Sends pieces of its own making in the name of a process of a job.
enum Raw {
    Fm(Fm<Shm>),
    Jam(Pio<Shm>),
}

impl Raw {
    fn new(device: Device, job: &Job, from: usize) -> Self {
        let end = Rc::clone(&job.ends[from]);
        match device {
            Device::Fm => Raw::Fm(Fm::on_port(end, &FmTunables::default(), Port::Device)),
            _ => Raw::Jam(Pio::new(end, Port::Device)),
        }
    }

    fn piece(&self, kind: u8, number: u32, words: &[u64], bytes: &[u8]) {
        let sent = match self {
            Raw::Fm(fm) => {
                let kind = u16::from(kind);
                fm.try_frame(1, Label { kind, number }, words, bytes)
            }
            Raw::Jam(pio) => {
                let unused = bytes.len().wrapping_neg() as u32 & 3;
                let header = Header::new(Peer(1), Priority::Low, u32::from(kind) | unused << 8);
                pio.try_bytes(&header, (words, bytes), number).unwrap()
            }
        };
        assert!(sent);
    }
}

#[test]
fn what_a_piece_says_is_checked() {
    let envelope = [7, 0];
    let far = [7 | 2 << 32, 0];
    type Piece<'a> = (u8, u32, &'a [u64], &'a [u8], &'a str);
    let cases: [Piece<'_>; 20] = [
        (RUN, 4, &[7], &[1; 4], "the length of a message"),
        (RUN, 3, &envelope, &[1; 4], "the length of a message"),
        (RUN, 2 << 20, &envelope, &[1; 4], "the length of a message"),
        (RUN, 4, &[7, 1 << 56], &[1; 4], "the length of a message"),
        (RUN, 4, &far, &[1; 4], "the sender's rank"),
        (MORE, 0, &[], &[1; 4], "the length of a piece"),
        (DATA, 4, &[], &[1; 4], "a part of a message"),
        (DATA, 3, &[1], &[1; 4], "a part of a message"),
        (DATA, 0, &[1], &[], "a part of a message"),
        (
            RTS,
            0,
            &[7, 0, 1 << 61, 0, 1, 0, 0],
            &[],
            "the length of a long message",
        ),
        (
            RTS,
            0,
            &[7, 0, 99, 0, 1, 5, 0],
            &[],
            "the place of a long message",
        ),
        (RTS, 0, &far[..1], &[], "the length of an answer"),
        (RTS, 0, &[far[0], 0, 5000, 0, 1, 0, 0], &[], "the sender's rank"),
        (CTS, 0, &[12, 13, 14], &[], "the request of a send"),
        (DONE, 0, &[12, 0, 0], &[], "the request of a send"),
        (DONE, 0, &[12, 0], &[], "the length of an answer"),
        (CANCELLED, 0, &[12, 0, 0], &[], "the request of a cancelled send"),
        (CREDIT, 0, &[5, 0, 0], &[], "the messages that it has taken"),
        (99, 0, &[0, 0, 0], &[], "the kind of a postbox"),
        (0, 0, &[0, 0, 0], &[], "the kind of a postbox"),
    ];
    for device in DEVICES {
        for (kind, number, words, bytes, says) in cases {
            let what = format!("{device:?}, kind {kind}: {says}");
            let job = job(device, 3, 1);
            let mut kept = [0xee; 8];
            let waits = job.receive(1, 0, &mut kept, word(), 8);
            Raw::new(device, &job, 0).piece(kind, number, words, bytes);
            job.turn(3);
            let faults = job.faults(1);
            assert_eq!(faults.len(), 1, "{what}: {faults:?}");
            assert!(
                faults[0].contains(says) && faults[0].contains("process 0"),
                "{what}: {faults:?}"
            );
            // What waits for it fails, and nothing was written.
            assert!(job.finish(1, waits).error.is_some(), "{what}");
            assert_eq!(kept, [0xee; 8], "{what}");
            // Others go on.
            for len in [5, 500, 5000] {
                let (data, mut got) = (message(len), vec![0; len]);
                let receive = job.receive(1, 2, &mut got, word(), len);
                let send = job.send((2, 1), &data, word(), len, Mode::Standard);
                assert_eq!(job.finish(1, receive).error, None, "{what}");
                assert_eq!(job.finish(2, send).error, None, "{what}");
                assert!(got == data, "{what}");
            }
        }
    }
}

#[test]
fn garbage_is_refused_by_the_layer() {
    for device in DEVICES {
        let job = job(device, 3, 1);
        for garbage in [&[0u8; 0][..], &[1; 7], &[0xff; 16], &[3; 176]] {
            let sent = job.ends[0].try_send(Peer(1), Port::Device, Priority::Low, garbage);
            assert_eq!(sent, TrySend::Sent);
            job.turn(3);
            let faults = job.faults(1);
            assert_eq!(faults.len(), 1, "{device:?} {garbage:?}: {faults:?}");
            assert!(faults[0].contains("process 0"), "{faults:?}");
        }
        let (data, mut got) = (message(300), vec![0; 300]);
        let receive = job.receive(1, 0, &mut got, word(), 300);
        let send = job.send((0, 1), &data, word(), 300, Mode::Standard);
        assert_eq!(job.finish(1, receive).error, None);
        assert_eq!(job.finish(0, send).error, None);
        assert!(got == data, "{device:?}");
        assert_eq!(job.ends[0].me(), Peer(0));
    }
}
