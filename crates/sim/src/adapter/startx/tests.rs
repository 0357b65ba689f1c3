use super::*;
use crate::adapter::{Get, Local, LocalParams};
use crate::core::Core;
use crate::costs::Costs;
use crate::machine::{AdapterSpec, Machine};
use crate::net::{Faults, Network};
use crate::process::Processes;
use crate::topology;
use farpost_fabric::lane;
use farpost_fabric::segment::Segment;

const A: Peer = Peer(0);
const B: Peer = Peer(1);
const TO_B: Pair = Pair { from: A, to: B };

/// Two hosts of the machine, a process on each, and a third.
fn core() -> Core {
    let machine = Machine::open("startx").expect("it comes with Farpost");
    let AdapterSpec::StarTX(spec) = &machine.adapter else {
        panic!("StarT-X");
    };
    let params = StarTxParams::of(&machine, spec);
    let mut net = Network::new(4, &[Some(params.queue); 2], 1);
    let topology = topology::build(&machine.topology, 4, &mut net).expect("four hosts");
    let hosts = [0, 2, 3].map(HostId);
    let mut kernel = Kernel::new(net, topology, Processes::new(&hosts), 1);
    let adapters = StarTx::of_hosts(&params, &mut kernel, 4);
    let adapters = adapters
        .into_iter()
        .map(|it| Box::new(it) as Box<dyn Adapter>)
        .collect();
    Core::new(
        kernel,
        adapters,
        Local::new(LocalParams::default(), Costs::default(), 4),
        Costs::default(),
    )
}

fn with<T>(core: &mut Core, of: Peer, act: impl FnOnce(&mut StarTx, &mut Kernel) -> T) -> T {
    let host = core.kernel.procs.host_of(of);
    let (adapter, kernel) = core.adapter_of(host);
    act(adapter.as_any().downcast_mut().expect("StarT-X"), kernel)
}

fn send(core: &mut Core, pair: Pair, priority: Priority, bytes: &[u8]) -> (Ps, TrySend) {
    let packet = Outgoing {
        pair,
        lane: lane(Port::Jam, priority),
        route: Route::Fixed(0),
        bytes,
    };
    let sent = with(core, pair.from, |adapter, kernel| {
        adapter.try_send(kernel, packet)
    });
    core.kernel.now += sent.0;
    sent
}

fn poll(core: &mut Core, me: Peer, priority: Priority) -> Option<Vec<u8>> {
    let lane = lane(Port::Jam, priority);
    let (time, found) = with(core, me, |adapter, kernel| adapter.poll(kernel, me, lane));
    core.kernel.now += time;
    found.map(|it| it.bytes)
}

/// Until nothing more happens before then.
fn pass(core: &mut Core, micros: u64) {
    let end = core.kernel.now + Ps::from_nanos(1000 * micros);
    while core.next_event().is_some_and(|next| next <= end) {
        let late = core.kernel.now;
        core.kernel.now = Ps::ZERO;
        core.step();
        core.kernel.now = core.kernel.now.max(late.min(end));
    }
    core.kernel.now = end;
}

fn register(core: &mut Core, of: Peer, name: &str) -> u64 {
    with(core, of, |adapter, _| adapter.registers())
        .into_iter()
        .find_map(|(found, value)| (found == name).then_some(value))
        .expect("a register")
}

#[test]
fn queues_have_their_places_and_the_status_word_counts_exactly() {
    let mut core = core();
    let mut sent = 0u8;
    while send(&mut core, TO_B, Priority::High, &[sent; 34]).1 == TrySend::Sent {
        sent += 1;
        assert!(sent < 100, "nobody takes them");
        pass(&mut core, 2);
    }
    // Twenty at each end, and what the routers hold.
    assert!((41..60).contains(&sent), "{sent}");
    let at = |core: &mut Core, of| with(core, of, |adapter, kernel| adapter.counts(kernel));
    assert_eq!(at(&mut core, A), ([0, 0], [0, 20]));
    assert_eq!(at(&mut core, B), ([16, 0], [20, 20]), "receive counts end at 16");
    for expected in 0..sent {
        let mut got = None;
        while got.is_none() {
            got = poll(&mut core, B, Priority::High);
            pass(&mut core, 2);
        }
        assert_eq!(got.expect("there")[0], expected, "in order");
    }
    assert_eq!(at(&mut core, A), ([0, 0], [20, 20]));
}

#[test]
fn one_status_read_is_good_for_twenty_sends_and_sixteen_receives() {
    let mut core = core();
    let first = send(&mut core, TO_B, Priority::Low, &[1; 34]).0;
    let second = send(&mut core, TO_B, Priority::Low, &[1; 34]).0;
    assert_eq!(first - second, Ps::from_nanos(1030));
    for _ in 2..20 {
        assert_eq!(send(&mut core, TO_B, Priority::Low, &[1; 34]).1, TrySend::Sent);
    }
    assert_eq!(register(&mut core, A, "status_reads"), 1);
    pass(&mut core, 100);
    let before = register(&mut core, B, "status_reads");
    for _ in 0..16 {
        assert!(poll(&mut core, B, Priority::Low).is_some());
    }
    assert_eq!(register(&mut core, B, "status_reads") - before, 1);
}

#[test]
fn a_block_keeps_high_priority_away_and_low_goes_on() {
    let mut core = core();
    with(&mut core, A, |adapter, kernel| {
        adapter.send_block(kernel, TO_B, 100_000)
    });
    pass(&mut core, 100);
    let from_c = Pair { from: Peer(2), to: B };
    assert_eq!(send(&mut core, from_c, Priority::High, &[1; 34]).1, TrySend::Full);
    assert_eq!(send(&mut core, from_c, Priority::Low, &[2; 34]).1, TrySend::Sent);
    pass(&mut core, 100);
    assert_eq!(poll(&mut core, B, Priority::Low), Some(vec![2; 34]));
    assert!(!core.kernel.procs.take_rung(B), "100 kB take 1.7 ms");
    pass(&mut core, 2000);
    assert!(core.kernel.procs.take_rung(B));
    assert_eq!(send(&mut core, from_c, Priority::High, &[1; 34]).1, TrySend::Sent);
}

#[test]
fn a_receiver_belongs_to_one_block_at_a_time_and_waits_for_what_came_before() {
    let mut core = core();
    // Nobody polls for this one: it is taken to memory.
    assert_eq!(send(&mut core, TO_B, Priority::High, &[3; 34]).1, TrySend::Sent);
    pass(&mut core, 20);
    let from_c = Pair { from: Peer(2), to: B };
    with(&mut core, A, |adapter, kernel| {
        adapter.send_block(kernel, TO_B, 60_000)
    });
    with(&mut core, Peer(2), |adapter, kernel| {
        adapter.send_block(kernel, from_c, 60_000)
    });
    pass(&mut core, 1100);
    assert!(core.kernel.procs.take_rung(B), "60 kB take 1 ms");
    pass(&mut core, 700);
    assert!(!core.kernel.procs.take_rung(B), "the other one waited");
    pass(&mut core, 500);
    assert!(core.kernel.procs.take_rung(B));
    assert_eq!(poll(&mut core, B, Priority::High), Some(vec![3; 34]));
}

#[test]
fn a_wrong_check_is_reported_and_the_message_dropped() {
    let mut core = core();
    core.kernel.net.set_faults(Faults {
        damage: 1.0,
        ..Faults::default()
    });
    assert_eq!(send(&mut core, TO_B, Priority::Low, &[1; 34]).1, TrySend::Sent);
    pass(&mut core, 100);
    assert_eq!(register(&mut core, B, "check_errors"), 1);
    assert_eq!(poll(&mut core, B, Priority::Low), None);
    let (faults, _) = core.kernel.procs.take_faults(B);
    assert!(
        matches!(
            &faults[..],
            [Fault {
                peer: A,
                error: FabricError::Corrupt { .. }
            }]
        ),
        "{faults:?}"
    );
    core.kernel.net.set_faults(Faults::default());
    assert_eq!(send(&mut core, TO_B, Priority::Low, &[1; 34]).1, TrySend::Sent);
    pass(&mut core, 100);
    poll(&mut core, B, Priority::Low).expect("places were given back");
}

#[test]
fn a_packet_longer_than_a_message_travels_as_several() {
    let mut core = core();
    let bytes: Vec<u8> = (0..600u32).map(|it| it as u8).collect();
    assert_eq!(send(&mut core, TO_B, Priority::Low, &bytes).1, TrySend::Sent);
    pass(&mut core, 100);
    assert_eq!(register(&mut core, A, "messages_sent"), 7);
    assert_eq!(poll(&mut core, B, Priority::Low), Some(bytes));
}

#[test]
fn bursts_move_whole_messages_for_less_than_single_beats() {
    let mut core = core();
    let lane = lane(Port::Jam, Priority::Low);
    let mut burst = || {
        with(&mut core, A, |adapter, kernel| {
            adapter.send_burst(kernel, TO_B, lane, &[5; 64]).0
        })
    };
    let (first, second) = (burst(), burst());
    assert!(second < first && second < Ps::from_nanos(400), "{second}");
    pass(&mut core, 100);
    let (_, found) = with(&mut core, B, |adapter, kernel| {
        adapter.receive_burst(kernel, B, lane)
    });
    assert_eq!(found.map(|it| it.bytes), Some(vec![5; 64]));
}

#[test]
fn an_interrupt_takes_its_time_and_reads_of_memory_are_refused() {
    let mut core = core();
    with(&mut core, A, |adapter, kernel| adapter.ring(kernel, TO_B));
    pass(&mut core, 10);
    assert!(!core.kernel.procs.take_rung(B));
    pass(&mut core, 30);
    assert!(core.kernel.procs.take_rung(B));
    assert_eq!(register(&mut core, B, "interrupts"), 1);
    let segment = Segment::new(64);
    let get = Get {
        pair: TO_B,
        segment: &crate::memory::Memory::from(&segment),
        offset: 0,
        len: 8,
    };
    let refused = with(&mut core, A, |adapter, kernel| adapter.get(kernel, get).err());
    assert!(
        matches!(refused, Some(FabricError::Unsupported { .. })),
        "{refused:?}"
    );
}
