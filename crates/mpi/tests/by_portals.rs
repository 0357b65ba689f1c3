//! MPI over Portals, in each process itself and by way of agents: what is matched there keeps MPI's order, memory for what nobody waits
//! for is bounded, and probes and cancellation see what Portals has.

#[path = "common/agents.rs"]
mod agents;

use agents::{Agents, Worlds};
use farpost_mapped::sealed_memory;
use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{DeviceConfig, DeviceTunables};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::WorldConfig;
use farpost_portals::agent::Mode as Place;
use farpost_shm::conformance::{shm_end, shm_ends};
use farpost_shm::{ShmTunables, region_bytes};
use std::cell::Cell;

const ANY_SOURCE: i32 = -1;
const ANY_TAG: i32 = -2;
/// `MPI_BYTE`.
const BYTE: usize = 0x247;

thread_local! {
    /// How the worlds of a test reach each other.
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// A test with Portals in each process, and with two agents.
macro_rules! everywhere {
    ($($name:ident)*) => {$( mod $name {
        #[test]
        fn inline() {
            super::$name();
        }

        #[test]
        fn generic() {
            super::PLACE.set(Some(super::Place::Generic));
            super::$name();
        }

        #[test]
        fn accelerated() {
            super::PLACE.set(Some(super::Place::Accelerated));
            super::$name();
        }
    } )*};
}

everywhere! {
    what_nobody_waits_for_is_bounded_and_keeps_its_order
    receives_match_in_the_order_they_were_posted
    a_cancelled_receive_takes_nothing_and_a_matched_one_is_not_cancelled
    what_is_too_long_is_cut_whether_it_was_waited_for_or_not
    thousands_of_receives_wait_at_once
    announced_messages_are_fetched_when_they_are_wanted
    what_agents_cannot_hold_fails_at_both_ends
    a_cancelled_send_to_oneself_is_cancelled_at_once
    receives_without_a_match_entry_match_as_those_with_one
}

fn worlds(size: u32, unexpected: u64) -> Worlds {
    worlds_with(size, with(unexpected))
}

fn with(unexpected: u64) -> DeviceTunables {
    DeviceTunables {
        portals_unexpected: unexpected,
        ..DeviceTunables::default()
    }
}

fn config(tunables: DeviceTunables) -> WorldConfig {
    WorldConfig {
        device: DeviceConfig {
            tunables,
            ..DeviceConfig::default()
        },
        ..WorldConfig::default()
    }
}

fn worlds_with(size: u32, tunables: DeviceTunables) -> Worlds {
    worlds_by(size, tunables, |_| {})
}

/// With agents, if there are any, that are changed so.
fn worlds_by(size: u32, tunables: DeviceTunables, change: impl Fn(&mut Agents)) -> Worlds {
    let agents = PLACE.get().map(|place| {
        let mut agents = Agents::new(place, 2);
        change(&mut agents);
        agents
    });
    agents::worlds(size, &ShmTunables::default(), &config(tunables), agents.as_ref())
}

fn send(worlds: &Worlds, (from, to): (usize, i32), data: &[u8], tag: i32, mode: Mode) -> usize {
    // SAFETY: the tests finish the operation before the data goes.
    let buf = unsafe {
        SendBuf::new(
            data.as_ptr(),
            data.len() as u64,
            Datatype::predefined(BYTE).unwrap(),
        )
    };
    let world = &worlds[from];
    world.isend(world.comm_world(), &buf, to, tag, mode).unwrap()
}

fn room(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe {
        RecvBuf::new(
            data.as_mut_ptr(),
            data.len() as u64,
            Datatype::predefined(BYTE).unwrap(),
        )
    }
}

fn receive(worlds: &Worlds, at: usize, data: &mut [u8], source: i32, tag: i32) -> usize {
    let world = &worlds[at];
    world.irecv(world.comm_world(), room(data), source, tag).unwrap()
}

fn turn(worlds: &Worlds, times: usize) {
    for _ in 0..times {
        for world in worlds {
            world.progress();
        }
        agents::step();
    }
}

fn finish(worlds: &Worlds, at: usize, handle: usize) -> Status {
    for _ in 0..1_000_000 {
        if worlds[at].is_complete(handle).unwrap() {
            return worlds[at].finish(handle).unwrap().0;
        }
        turn(worlds, 1);
    }
    panic!("a request of {at} never completes");
}

fn what_nobody_waits_for_is_bounded_and_keeps_its_order() {
    let worlds = worlds(2, 64 << 10);
    // A third of the memory is shared by the senders, one of which is the receiver.
    let credit = (64 << 10) / 3 / 2;
    let lengths: Vec<usize> = (0..3000)
        .map(|n| match n % 50 {
            7 => 20_000,
            23 => 40_000,
            n => n * 5,
        })
        .collect();
    let sent: Vec<Vec<u8>> = lengths
        .iter()
        .enumerate()
        .map(|(n, len)| vec![n as u8; *len])
        .collect();
    let sends: Vec<usize> = sent
        .iter()
        .enumerate()
        .map(|(n, data)| {
            let mode = [Mode::Standard, Mode::Synchronous][usize::from(n % 17 == 0)];
            send(&worlds, (0, 1), data, 9, mode)
        })
        .collect();
    turn(&worlds, 20_000);
    let taken: usize = sends
        .iter()
        .zip(&lengths)
        .filter(|(send, _)| worlds[0].is_complete(**send).unwrap())
        .map(|(_, len)| (*len).max(64))
        .sum();
    assert!(
        taken > credit / 2 && taken <= credit,
        "{taken} bytes are held, {credit} were to be had"
    );
    let status = worlds[1]
        .iprobe(worlds[1].comm_world(), 0, ANY_TAG)
        .unwrap()
        .unwrap();
    assert_eq!((status.source, status.tag, status.bytes), (0, 9, 0));
    for (n, data) in sent.iter().enumerate() {
        let mut got = vec![0xee; 40_000];
        let (source, tag) = [(0, 9), (ANY_SOURCE, 9), (0, ANY_TAG), (ANY_SOURCE, ANY_TAG)][n % 4];
        let handle = receive(&worlds, 1, &mut got, source, tag);
        let status = finish(&worlds, 1, handle);
        assert_eq!((status.source, status.tag, status.error), (0, 9, None));
        assert_eq!(status.bytes, data.len() as u64, "message {n} was overtaken");
        assert!(got[..data.len()] == data[..], "message {n}");
    }
    for handle in sends {
        assert_eq!(finish(&worlds, 0, handle).error, None);
    }
}

fn receives_match_in_the_order_they_were_posted() {
    let worlds = worlds(3, 1 << 20);
    for len in [8, 3000, 100_000] {
        let mut room = vec![vec![0; len]; 6];
        let wanted = [
            (ANY_SOURCE, 5),
            (1, ANY_TAG),
            (1, 5),
            (ANY_SOURCE, ANY_TAG),
            (2, 5),
            (1, 6),
        ];
        let posted: Vec<usize> = room
            .iter_mut()
            .zip(wanted)
            .map(|(room, (source, tag))| receive(&worlds, 0, room, source, tag))
            .collect();
        let data: Vec<Vec<u8>> = (1..=6).map(|n| vec![n; len]).collect();
        let mut sends = Vec::new();
        // Each takes the first posted receive that admits it.
        for (n, (from, tag)) in [(1, 5), (1, 6), (1, 6), (1, 6), (1, 5), (2, 5)]
            .into_iter()
            .enumerate()
        {
            sends.push((from, send(&worlds, (from, 0), &data[n], tag, Mode::Standard)));
            turn(&worlds, 200);
        }
        let mut got = Vec::new();
        for handle in posted {
            let status = finish(&worlds, 0, handle);
            assert_eq!((status.error, status.bytes), (None, len as u64));
            got.push((status.source, status.tag));
        }
        assert_eq!(got, [(1, 5), (1, 6), (1, 5), (1, 6), (2, 5), (1, 6)]);
        let first: Vec<u8> = room.iter().map(|room| room[len - 1]).collect();
        assert_eq!(first, [1, 2, 5, 3, 6, 4]);
        for (from, handle) in sends {
            assert_eq!(finish(&worlds, from, handle).error, None);
        }
    }
}

fn a_cancelled_receive_takes_nothing_and_a_matched_one_is_not_cancelled() {
    let worlds = worlds(2, 1 << 20);
    for len in [8, 100_000] {
        let (data, mut first, mut second) = (vec![3; len], vec![0; len], vec![0; len]);
        let cancelled = receive(&worlds, 1, &mut first, 0, 1);
        worlds[1].cancel(cancelled).unwrap();
        assert!(finish(&worlds, 1, cancelled).cancelled);
        let sent = send(&worlds, (0, 1), &data, 1, Mode::Synchronous);
        turn(&worlds, 100);
        assert!(!worlds[0].is_complete(sent).unwrap(), "nobody has matched it");
        let (message, status) = worlds[1]
            .improbe(worlds[1].comm_world(), ANY_SOURCE, 1)
            .unwrap()
            .unwrap();
        assert_eq!(status.bytes, len as u64);
        assert_eq!(
            worlds[1]
                .iprobe(worlds[1].comm_world(), ANY_SOURCE, ANY_TAG)
                .unwrap(),
            None
        );
        let handle = worlds[1].imrecv(message, room(&mut second)).unwrap();
        assert_eq!(finish(&worlds, 1, handle).bytes, len as u64);
        assert_eq!(finish(&worlds, 0, sent).error, None);
        assert!(first.iter().all(|byte| *byte == 0) && second == data);
        // A match that the receiver has not looked at is one.
        let matched = receive(&worlds, 1, &mut first, 0, 2);
        let sent = send(&worlds, (0, 1), &data, 2, Mode::Standard);
        turn(&worlds, 1000);
        worlds[1].cancel(matched).unwrap();
        assert!(!finish(&worlds, 1, matched).cancelled);
        finish(&worlds, 0, sent);
        assert!(first == data);
    }
}

fn what_is_too_long_is_cut_whether_it_was_waited_for_or_not() {
    let worlds = worlds(2, 1 << 20);
    for len in [100, 20_000, 100_000] {
        for waits in [true, false] {
            let (data, mut room) = (vec![7; len], vec![0; len / 2]);
            let mut posted = waits.then(|| receive(&worlds, 1, &mut room, 0, 0));
            let sent = send(&worlds, (0, 1), &data, 0, Mode::Standard);
            turn(&worlds, 100);
            let handle = *posted.get_or_insert_with(|| receive(&worlds, 1, &mut room, 0, 0));
            let status = finish(&worlds, 1, handle);
            assert_eq!(status.error.unwrap().class, ErrorClass::ERR_TRUNCATE);
            assert!(room.iter().all(|byte| *byte == 7));
            assert_eq!(finish(&worlds, 0, sent).error, None);
        }
    }
}

fn thousands_of_receives_wait_at_once() {
    let worlds = worlds(2, 1 << 20);
    let mut buffers = vec![[0u8; 8]; 9000];
    let posted: Vec<usize> = buffers
        .iter_mut()
        .enumerate()
        .map(|(n, room)| receive(&worlds, 1, room, 0, n as i32))
        .collect();
    let data: Vec<[u8; 8]> = (0..9000u64).map(u64::to_le_bytes).collect();
    // The last first, so that each looks through all before it.
    let sends: Vec<usize> = (0..9000)
        .rev()
        .map(|n| {
            turn(&worlds, usize::from(n % 100 == 0));
            send(&worlds, (0, 1), &data[n], n as i32, Mode::Standard)
        })
        .collect();
    for handle in posted {
        assert_eq!(finish(&worlds, 1, handle).error, None);
    }
    for handle in sends {
        finish(&worlds, 0, handle);
    }
    assert!(buffers == data);
}

/// The bytes come while the sender makes calls, and it makes none: nobody may wait for them in the quick way of a blocking receive.
#[test]
fn a_blocking_receive_whose_bytes_come_late_goes_the_long_way() {
    let packets = ShmTunables {
        cma: 0,
        ..ShmTunables::default()
    };
    let file = sealed_memory(c"farpost-test", region_bytes(2)).expect("a region");
    // With a core each: the quick way has many looks.
    let end = |index| shm_end(&file, (index, 2), 2, packets.clone());
    let worlds = agents::on((0..2).map(end).collect(), 2, &config(with(1 << 20)), None);
    for (round, late) in [(1, true), (2, false), (3, true)] {
        let data: Vec<u8> = (0..300_000u32).map(|n| n as u8 ^ round).collect();
        let sent = send(&worlds, (0, 1), &data, 5, Mode::Standard);
        let mut place = vec![0; data.len()];
        let world = &worlds[1];
        let short = world.receive_short(world.comm_world(), 0, 5, 0, &mut place);
        assert_eq!(short, None, "it needs a sender that makes calls");
        if !late {
            // It has come when the long way begins.
            turn(&worlds, 20_000);
        }
        let handle = receive(&worlds, 1, &mut place, 0, 5);
        let status = finish(&worlds, 1, handle);
        assert_eq!((status.error, status.bytes), (None, data.len() as u64));
        assert!(place == data);
        finish(&worlds, 0, sent);
    }
}

/// With few match entries for them, or none, messages that stay with their senders are announced only: whatever lies behind them is
/// found, in whatever order they are received, cut or given up. So are those of which agents cannot hold more than parts, with entries
/// and without.
fn announced_messages_are_fetched_when_they_are_wanted() {
    const ALL: u64 = 32 << 10;
    for (exposed, fetches, memory) in [
        (0, 4 << 10, 8 << 20),
        (1, 1, 8 << 20),
        (3, 2, 8 << 20),
        (0, 1, 8 << 10),
        (3, 2, 70_000),
        (ALL, 4 << 10, 4 << 10),
    ] {
        let tunables = DeviceTunables {
            portals_unexpected: 64 << 10,
            portals_exposed: exposed,
            portals_fetches: fetches,
            ..DeviceTunables::default()
        };
        let worlds = worlds_by(2, tunables, |agents| agents.tunables.memory = memory);
        let lengths = |n: usize| [5000, 0, 1, 3000, 100_000, 64][n % 6] + n;
        let data: Vec<Vec<u8>> = (0..300).map(|n| vec![n as u8; lengths(n)]).collect();
        // A short one that is posted before takes its message without a word.
        let mut early = vec![0; lengths(7)];
        let posted = receive(&worlds, 1, &mut early, 0, 7);
        let sends: Vec<usize> = (0..300)
            .map(|n| {
                send(
                    &worlds,
                    (0, 1),
                    &data[n],
                    n as i32,
                    [Mode::Synchronous, Mode::Standard][n % 2],
                )
            })
            .collect();
        turn(&worlds, 2000);
        assert_eq!(finish(&worlds, 1, posted).error, None);
        assert!(early == data[7]);
        // Cancelled, unless the receiver has it.
        worlds[0].cancel(sends[40]).unwrap();
        assert!(finish(&worlds, 0, sends[40]).cancelled, "{exposed} entries");
        let mut order: Vec<usize> = (0..300).filter(|n| ![7, 40].contains(n)).collect();
        fastrand::Rng::with_seed(exposed).shuffle(&mut order);
        // The last one first.
        order.sort_by_key(|n| *n != 299);
        for (turns, n) in order.into_iter().enumerate() {
            // Some are cut.
            let room = if turns % 5 == 3 {
                lengths(n) / 2
            } else {
                lengths(n)
            };
            let mut place = vec![0; room];
            let handle = receive(&worlds, 1, &mut place, 0, n as i32);
            let error = finish(&worlds, 1, handle).error.map(|error| error.class);
            let cut = (room < lengths(n)).then_some(ErrorClass::ERR_TRUNCATE);
            assert_eq!(error, cut, "message {n} of {} bytes into {room}", lengths(n));
            assert!(place == data[n][..room], "message {n}");
        }
        for (n, handle) in sends.into_iter().enumerate().filter(|(n, _)| *n != 40) {
            assert_eq!(finish(&worlds, 0, handle).error, None, "message {n}");
        }
    }
}

/// A message that could not be moved is an error for its sender and for its receiver, whoever comes first, and for nobody else.
fn what_agents_cannot_hold_fails_at_both_ends() {
    let worlds = worlds_by(2, with(64 << 10), |agents| {
        agents.tunables.memory = 16 << 10;
        agents.told = Some(1 << 30);
    });
    let data: Vec<u8> = (0..100_000).map(|n| (n * 7 + n / 251) as u8).collect();
    for mode in [Mode::Standard, Mode::Synchronous] {
        for late in [false, true] {
            let mut places = [vec![0; data.len()], vec![0; data.len()], vec![0; data.len()]];
            let (mut sends, mut receives) = (vec![], vec![]);
            for (tag, place) in places.iter_mut().enumerate() {
                // A short one before, and one behind.
                let len = if tag == 1 { data.len() } else { 300 };
                let mut post = || receive(&worlds, 1, &mut place[..len], 0, tag as i32);
                if !late {
                    receives.push(post());
                }
                sends.push(send(&worlds, (0, 1), &data[..len], tag as i32, mode));
                if late {
                    turn(&worlds, 500);
                    receives.push(post());
                }
            }
            let lost = PLACE.get().map(|_| ErrorClass::ERR_OTHER);
            for (at, handles) in [(0, sends), (1, receives)] {
                for (tag, handle) in handles.into_iter().enumerate() {
                    let error = finish(&worlds, at, handle).error.map(|error| error.class);
                    assert_eq!(error, lost.filter(|_| tag == 1), "{mode:?} {late} {at} {tag}");
                }
            }
            assert!(places[0][..300] == data[..300] && places[2][..300] == data[..300]);
        }
    }
}

/// What is sent to oneself is cancelled when the call returns: programs look once, and receive it if it was not.
fn a_cancelled_send_to_oneself_is_cancelled_at_once() {
    let worlds = worlds(2, 64 << 10);
    for (round, len) in [0, 8, 100, 5000].into_iter().enumerate() {
        let data = vec![1; len];
        let sent = send(&worlds, (0, 0), &data, round as i32, Mode::Synchronous);
        worlds[0].cancel(sent).unwrap();
        assert!(worlds[0].is_complete(sent).unwrap(), "{len} bytes");
        assert!(worlds[0].finish(sent).unwrap().0.cancelled, "{len} bytes");
    }
}

/// What is sent to a rank that has not opened its interface yet waits for it, by way of its agent as well.
#[test]
fn nothing_is_lost_that_is_sent_to_a_rank_that_comes_late() {
    for mode in [None, Some(Place::Generic), Some(Place::Accelerated)] {
        let agents = mode.map(|mode| Agents::new(mode, 2));
        let ends = shm_ends(if mode.is_some() { 4 } else { 2 }, &ShmTunables::default());
        let (mut ends, config) = agents::begin(ends, 2, &config(with(1 << 20)), agents.as_ref());
        let late = ends.pop().expect("an end");
        let mut worlds = vec![agents::world(ends.remove(0), &config)];
        let data: Vec<Vec<u8>> = [0, 8, 5000, 300_000].map(|len| vec![len as u8; len]).into();
        let mut sends: Vec<usize> = (0..)
            .zip(&data)
            .map(|(tag, data)| send(&worlds, (0, 1), data, tag, Mode::Standard))
            .collect();
        turn(&worlds, 3000);
        worlds.push(agents::world(late, &config));
        for (tag, data) in (0..).zip(&data) {
            let mut got = vec![0xee; data.len()];
            let handle = receive(&worlds, 1, &mut got, 0, tag);
            assert_eq!(finish(&worlds, 1, handle).error, None, "{mode:?}");
            assert!(got == *data);
        }
        for handle in sends.drain(..) {
            finish(&worlds, 0, handle);
        }
    }
}

/// A receive of the model: which one of `room`, what it asks for, its request.
struct Waiting {
    number: usize,
    source: i32,
    tag: i32,
    handle: usize,
}

/// Whatever share of the posted receives has match entries, each message goes to the oldest that takes it, and each receive
/// takes the oldest message; those that are cancelled take none.
fn receives_without_a_match_entry_match_as_those_with_one() {
    for seed in 0..40u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tunables = DeviceTunables {
            portals_unexpected: 64 << 10,
            portals_posted: [0, 1, 2, 7, 60][seed as usize % 5],
            portals_exposed: [0, 2, 1000][seed as usize % 3],
            portals_fetches: [1, 3][seed as usize % 2],
            ..DeviceTunables::default()
        };
        let worlds = worlds_with(3, tunables);
        // A message begins with its number; 0 is none.
        let length = |number: usize| [8, 100, 3000, 60_000][number % 4];
        let data: Vec<Vec<u8>> = (0..400)
            .map(|number| {
                let mut data = vec![number as u8; length(number)];
                data[..8].copy_from_slice(&(number as u64).to_le_bytes());
                data
            })
            .collect();
        let mut buffers = vec![vec![0; 60_000]; 400];
        let mut posted: Vec<Waiting> = Vec::new();
        let mut held: Vec<(i32, i32, usize)> = Vec::new();
        let mut due: Vec<(Waiting, Option<usize>)> = Vec::new();
        let mut sends = Vec::new();
        let admits = |wanted: &Waiting, source: i32, tag: i32| {
            [ANY_SOURCE, source].contains(&wanted.source) && [ANY_TAG, tag].contains(&wanted.tag)
        };
        for number in 0..400 {
            // More receives than sends at first, then more sends.
            let receives = if number < 200 { 6 } else { 3 };
            match rng.u32(0..10) {
                0 if !posted.is_empty() => {
                    let waiting = posted.remove(rng.usize(..posted.len()));
                    worlds[1].cancel(waiting.handle).unwrap();
                    due.push((waiting, None));
                }
                n if n <= receives => {
                    let (source, tag) = (rng.i32(-1..3), [rng.i32(0..4), ANY_TAG][rng.usize(0..2)]);
                    let handle = receive(&worlds, 1, &mut buffers[number], source, tag);
                    let waiting = Waiting {
                        number,
                        source,
                        tag,
                        handle,
                    };
                    let first = held
                        .iter()
                        .position(|(from, tag, _)| admits(&waiting, *from, *tag));
                    match first.map(|at| held.remove(at)) {
                        Some((_, _, message)) => due.push((waiting, Some(message))),
                        None => posted.push(waiting),
                    }
                }
                _ => {
                    let (from, tag) = (rng.usize(0..3), rng.i32(0..4));
                    let mode = [Mode::Standard, Mode::Synchronous][rng.usize(0..2)];
                    sends.push((from, send(&worlds, (from, 1), &data[number], tag, mode)));
                    // So that the order in which messages of several come is known.
                    turn(&worlds, 300);
                    match posted
                        .iter()
                        .position(|waiting| admits(waiting, from as i32, tag))
                    {
                        Some(at) => due.push((posted.remove(at), Some(number))),
                        None => held.push((from as i32, tag, number)),
                    }
                }
            }
            turn(&worlds, rng.usize(0..3));
        }
        for waiting in posted {
            worlds[1].cancel(waiting.handle).unwrap();
            due.push((waiting, None));
        }
        for (from, tag, number) in held {
            let handle = receive(&worlds, 1, &mut buffers[number], from, tag);
            let waiting = Waiting {
                number,
                source: from,
                tag,
                handle,
            };
            due.push((waiting, Some(number)));
        }
        for (waiting, message) in due {
            let status = finish(&worlds, 1, waiting.handle);
            assert_eq!(status.cancelled, message.is_none(), "seed {seed}");
            assert_eq!(status.error, None, "seed {seed}");
            if let Some(message) = message {
                assert_eq!(status.bytes, length(message) as u64, "seed {seed}");
                assert!(
                    buffers[waiting.number][..length(message)] == data[message],
                    "seed {seed}"
                );
            }
        }
        for (from, handle) in sends {
            assert_eq!(finish(&worlds, from, handle).error, None, "seed {seed}");
        }
    }
}
