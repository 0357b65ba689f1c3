//! Bursts of short messages against a model of matching: receives that name their source or nobody, that want a tag
//! or any, that have room or not, that are posted before or after their message, that are cancelled.

use farpost_channel::ChannelTunables;
use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvRun, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::SENT;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};

const ANY_SOURCE: i32 = -1;
const ANY_TAG: i32 = -2;
/// `MPI_INT16_T`: types of one byte match every other.
const INT16: usize = 0x248;
/// `MPI_DOUBLE`, which does not.
const DOUBLE: usize = 0x214;

/// Take in all there is; connections are looked at in some rounds only.
fn settle(world: &World<Shm>) {
    for _ in 0..16 {
        while world.progress() {}
    }
}

/// A message as sent: its bytes are its number.
struct Sent {
    from: usize,
    tag: i32,
    data: Vec<u8>,
    double: bool,
    taken: bool,
}

/// A receive as started.
struct Started {
    handle: usize,
    source: i32,
    tag: i32,
    room: Box<[u8]>,
    /// Which message it must get.
    gets: Option<usize>,
    cancelled: bool,
}

fn take(sent: &[Sent], source: i32, tag: i32, among: impl Iterator<Item = usize>) -> Option<usize> {
    among
        .filter(|at| !sent[*at].taken)
        .find(|at| fits(&sent[*at], source, tag))
}

fn fits(message: &Sent, source: i32, tag: i32) -> bool {
    (source == ANY_SOURCE || source as usize == message.from) && (tag == ANY_TAG || tag == message.tag)
}

fn send(world: &World<Shm>, message: &Sent) {
    let (ty, size) = if message.double { (DOUBLE, 8) } else { (INT16, 2) };
    let count = message.data.len() as u64 / size;
    // SAFETY: messages live as long as the test.
    let buf = unsafe { SendBuf::new(message.data.as_ptr(), count, Datatype::predefined(ty).unwrap()) };
    let comm = world.comm_world();
    let handle = world.isend(comm, &buf, 0, message.tag, Mode::Standard).unwrap();
    assert_eq!(handle, SENT, "there is room for all messages of a test");
}

fn start(world: &World<Shm>, ty: &Datatype, receive: &mut Started) {
    let len = receive.room.len();
    let at = receive.room.as_mut_ptr();
    let (source, tag) = (receive.source, receive.tag);
    // SAFETY: receives live as long as the test; numbers are without gaps.
    let room = || unsafe { RecvRun::new(at, len as u64 / 2, ty, len) };
    let comm = world.comm_world();
    receive.handle = match world.irecv_run(comm, room, source, tag) {
        Some(handle) => handle,
        None => world.irecv(comm, room().keep(), source, tag).unwrap(),
    };
}

fn check(world: &World<Shm>, receive: &Started, sent: &[Sent]) {
    let (status, gone) = world.finish(receive.handle).unwrap();
    assert!(gone);
    let Some(at) = receive.gets else {
        assert!(status.cancelled && receive.cancelled);
        return;
    };
    let message = &sent[at];
    assert!(!status.cancelled);
    assert_eq!((status.source, status.tag), (message.from as i32, message.tag));
    let (len, room) = (message.data.len(), receive.room.len());
    let class = status.error.as_ref().map(|error| error.class);
    if message.double && len > 0 {
        assert_eq!(class, Some(ErrorClass::ERR_TYPE), "message {at}");
    } else {
        let cut = (len > room).then_some(ErrorClass::ERR_TRUNCATE);
        assert_eq!(class, cut, "message {at}: {len} bytes into {room}");
        let n = len.min(room);
        assert_eq!(status.bytes, n as u64);
        assert_eq!(receive.room[..n], message.data[..n], "message {at}");
        assert!(
            receive.room[n..].iter().all(|byte| *byte == 0),
            "written behind the end"
        );
    }
}

fn one_history(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Small queues come round often, and large ones hold several bursts.
    let rsm = ChannelTunables {
        slots: if rng.bool() { 128 } else { 1024 },
        ..ChannelTunables::default()
    };
    let ends = shm_ends(3, &ShmTunables::default());
    let config = || WorldConfig {
        rsm: rsm.clone(),
        ..WorldConfig::default()
    };
    let worlds: Vec<_> = ends.into_iter().map(|end| World::new(end, config())).collect();
    let ty = Datatype::predefined(INT16).unwrap();
    let (mut sent, mut received): (Vec<Sent>, Vec<Started>) = (vec![], vec![]);
    // Messages of each source that the receiver has not taken in when it looks; in order of arrival otherwise
    // unknown, so wildcards are used while one source alone has sent.
    let lonely = rng.bool();
    for _ in 0..rng.usize(1..12) {
        for _ in 0..rng.usize(0..40) {
            let mut receive = Started {
                handle: 0,
                source: match rng.u32(0..8) {
                    0 if lonely => ANY_SOURCE,
                    n if n % 2 == 0 || lonely => 1,
                    _ => 2,
                },
                tag: [1, 1, 1, 2, ANY_TAG][rng.usize(0..5)],
                room: vec![0; [8, 8, 8, 0, 4, 40, 42, 60][rng.usize(0..8)]].into_boxed_slice(),
                gets: None,
                cancelled: false,
            };
            let all = 0..sent.len();
            receive.gets = take(&sent, receive.source, receive.tag, all);
            if let Some(at) = receive.gets {
                sent[at].taken = true;
            }
            start(&worlds[0], &ty, &mut receive);
            received.push(receive);
        }
        if rng.bool() {
            worlds[0].progress();
        }
        for _ in 0..rng.usize(0..40) {
            let number = sent.len() as u8;
            let double = rng.u32(0..20) == 0;
            let len = if double {
                8
            } else {
                [8, 8, 8, 8, 0, 6, 16, 40, 50][rng.usize(0..9)]
            };
            let mut message = Sent {
                from: if lonely || rng.bool() { 1 } else { 2 },
                tag: rng.i32(1..=2),
                data: vec![number; len],
                double,
                taken: false,
            };
            let at = sent.len();
            let open = received.iter_mut().find(|receive| {
                receive.gets.is_none() && !receive.cancelled && fits(&message, receive.source, receive.tag)
            });
            if let Some(receive) = open {
                receive.gets = Some(at);
                message.taken = true;
            }
            send(&worlds[message.from], &message);
            sent.push(message);
            // The queue has room for some only; the receiver takes them in in bursts.
            if at % 50 == 49 {
                settle(&worlds[0]);
            }
        }
        settle(&worlds[0]);
        for receive in received.iter_mut().filter(|receive| receive.gets.is_none()) {
            if rng.u32(0..8) == 0 && !receive.cancelled {
                worlds[0].cancel(receive.handle).unwrap();
                receive.cancelled = true;
            }
        }
    }
    for receive in received.iter_mut().filter(|receive| receive.gets.is_none()) {
        worlds[0].cancel(receive.handle).unwrap();
        receive.cancelled = true;
    }
    for receive in &received {
        assert!(
            worlds[0].is_complete(receive.handle).unwrap(),
            "seed {seed}: message {:?} has not come",
            receive.gets
        );
        check(&worlds[0], receive, &sent);
    }
    for world in &worlds {
        assert_eq!(world.take_faults(), Vec::<String>::new());
    }
}

#[test]
fn bursts_match_as_the_model_says() {
    for seed in 0..150 {
        one_history(seed);
    }
}

#[test]
fn requests_go_from_the_front_while_they_are_complete() {
    let ends = shm_ends(2, &ShmTunables::default());
    let worlds: Vec<_> = ends
        .into_iter()
        .map(|end| World::new(end, WorldConfig::default()))
        .collect();
    let ty = Datatype::predefined(INT16).unwrap();
    let mut receives: Vec<_> = (0..5)
        .map(|number| Started {
            handle: 0,
            source: 1,
            tag: number,
            room: vec![0; 8].into_boxed_slice(),
            gets: None,
            cancelled: false,
        })
        .collect();
    for receive in &mut receives {
        start(&worlds[0], &ty, receive);
    }
    let message = |tag, len| Sent {
        from: 1,
        tag,
        data: vec![7; len],
        double: false,
        taken: true,
    };
    let messages = [message(0, 8), message(1, 8), message(3, 8), message(4, 10)];
    for message in &messages {
        send(&worlds[1], message);
    }
    settle(&worlds[0]);
    const NULL: usize = 0x180;
    let mut handles: Vec<_> = receives.iter().map(|receive| receive.handle).collect();
    handles.splice(0..0, [NULL, SENT]);
    let [open, cut] = [handles[4], handles[6]];
    assert_eq!(worlds[0].discard_complete(&mut handles, NULL), 4);
    assert_eq!(handles[..5], [NULL, NULL, NULL, NULL, open]);
    assert_eq!(
        worlds[0].discard_complete(&mut handles[5..], NULL),
        1,
        "an error is not passed over"
    );
    assert_eq!(handles[5..], [NULL, cut]);
    let (status, _) = worlds[0].finish(cut).unwrap();
    assert_eq!(status.error.unwrap().class, ErrorClass::ERR_TRUNCATE);
    worlds[0].cancel(open).unwrap();
    assert_eq!(worlds[0].discard_complete(&mut handles[4..5], NULL), 1);
    assert!(!worlds[0].is_request(open));
}
