//! The LANai and its program: what packets take, what queues hold, what the SBus carries one after the other.

use farpost_fabric::{Fabric, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_sim::adapter::lanai::{Alone, Event};
use farpost_sim::adapter::{Adapter, AdapterEvent, Kernel, Lanai, Local, LocalParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::{AdapterSpec, Machine};
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::ranks;
use farpost_sim::time::{Ps, Rate};
use farpost_sim::topology;

fn machine() -> Machine {
    Machine::open("myrinet-fm").expect("built in")
}

fn core(machine: &Machine, hosts: u32) -> Core {
    let AdapterSpec::Lanai(spec) = &machine.adapter else {
        panic!("another adapter");
    };
    let processes: Vec<HostId> = (0..hosts).map(HostId).collect();
    let mut net = Network::new(hosts, &[Some(1)], 1);
    let topology = topology::build(&machine.topology, hosts, &mut net).expect("ports");
    let kernel = Kernel::new(net, topology, Processes::new(&processes), 1);
    let adapters = Lanai::of_hosts(spec, &machine.host, Rate(80e6), hosts)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let local = Local::new(LocalParams::default(), Costs::default(), hosts);
    Core::new(kernel, adapters, local, Costs::default())
}

fn register(core: &mut Core, host: u32, name: &str) -> u64 {
    let all = core.adapter_of(HostId(host)).0.registers();
    all.into_iter()
        .find(|(register, _)| register == name)
        .expect(name)
        .1
}

/// When the last of so many packets of `bytes` has been received; answers of the other side.
fn alone(machine: &Machine, bytes: u32, packets: u32, answers: u32) -> (Ps, Ps) {
    let mut core = core(machine, 2);
    for (host, packets, answers) in [(0, packets, 0), (1, 0, answers)] {
        let alone = Alone {
            to: HostId(1 - host),
            bytes,
            packets,
            answers,
        };
        let event = AdapterEvent::Lanai(Event::Alone(alone));
        core.kernel.at(Ps::ZERO, HostId(host), event);
    }
    while core.step() {}
    assert_eq!(register(&mut core, 1, "received"), u64::from(packets));
    assert_eq!(register(&mut core, 0, "received"), u64::from(answers));
    let mut at = |host| Ps(register(&mut core, host, "received_at"));
    (at(0), at(1))
}

fn period(machine: &Machine, bytes: u32) -> u64 {
    let (short, long) = (alone(machine, bytes, 20, 0).1, alone(machine, bytes, 120, 0).1);
    (long - short).nanos() / 100
}

#[test]
fn loops_and_features_cost_their_instructions() {
    let plain = machine()
        .with("adapter.lanai.manage_buffers", false)
        .expect("there");
    // 21 instructions of 140 ns, set-up, and 8 more bytes of header.
    assert_eq!(period(&plain, 0), 21 * 140 + 320 + 100);
    assert_eq!(period(&plain, 400), 21 * 140 + 320 + 100 + 5000);
    assert_eq!(period(&machine(), 0), 23 * 140 + 320 + 100);
    let baseline = plain.with("adapter.lanai.program", "baseline").expect("there");
    assert_eq!(period(&baseline, 0), 26 * 140 + 320 + 100);
    // What is interpreted is bound by the receiver.
    let switch = plain.with("adapter.lanai.interpret", true).expect("there");
    assert_eq!(period(&switch, 0), (10_500 + 15_500) * 140 / 1000 + 320 + 100);
}

#[test]
fn a_round_trip_passes_the_switch_twice() {
    let plain = machine()
        .with("adapter.lanai.manage_buffers", false)
        .expect("there");
    let (back, there) = alone(&plain, 0, 1, 1);
    // A send and half of one.
    let way = (21_000 + 10_500) * 140 / 1000 + 2 * 320 + 550 + 100;
    assert_eq!((there.nanos(), back.nanos()), (way, 2 * way));
}

/// What two processes gave, and their machine.
fn pair<T: 'static>(machine: &Machine, body: impl Fn(SimFabric) -> T) -> (Vec<T>, Core) {
    ranks::run(core(machine, 2), body).expect("nobody waits for ever")
}

fn offer(end: &SimFabric, bytes: &[u8]) -> bool {
    end.try_send(Peer(1), Port::Fm, Priority::Low, bytes) == TrySend::Sent
}

#[test]
fn a_packet_of_the_processor_takes_the_sbus_and_the_program_on_both_sides() {
    let (times, mut core) = pair(&machine(), |end| {
        if end.me() == Peer(0) {
            assert!(offer(&end, &[7; 128]));
        } else {
            while !end.poll_priority(Port::Fm, Priority::Low, |from, bytes| {
                assert_eq!((from, bytes), (Peer(0), &[7; 128][..]));
            }) {
                end.wait_for_something(end.time() + Ps::from_nanos(1_000_000));
            }
        }
        end.time()
    });
    // 17 double words of packet, and `hostsent`.
    let stored = Rate(22.2e6).time(18 * 8);
    assert_eq!(times[0], stored);
    // A send, a receive and DMA to the host, half of one each, and the buffers of both.
    let lanais = Ps::from_nanos((23_000 + 12_500 + 10_500) * 140 / 1000 + 3 * 320 + 550 + 1700);
    let host = Rate(54e6).time(136) + Ps::from_nanos(13_300 + 100);
    assert_eq!(times[1], stored + lanais + host);
    assert_eq!(register(&mut core, 0, "send_queue"), 0);
    assert_eq!(
        register(&mut core, 0, "hostsent"),
        u64::from(u32::MAX - 7),
        "counters run free"
    );
}

#[test]
fn all_queues_are_full_behind_a_host_that_does_not_look() {
    let small = machine().with("adapter.lanai.host_queue", 16).expect("there");
    let AdapterSpec::Lanai(spec) = &small.adapter else {
        panic!("another adapter");
    };
    let (send, receive) = (
        spec.slots(spec.send_queue.value),
        spec.slots(spec.receive_queue.value),
    );
    let total = 2000;
    let (counts, mut core) = pair(&small, |end| {
        let mut count = 0u32;
        if end.me() == Peer(0) {
            // As long as somebody takes some.
            let mut refused = 0;
            while refused < 1000 {
                if offer(&end, &count.to_le_bytes()) {
                    (count, refused) = (count + 1, 0);
                } else {
                    refused += 1;
                }
            }
            let held = count;
            while count < total {
                count += u32::from(offer(&end, &count.to_le_bytes()));
            }
            return held;
        }
        end.compute(Ps::from_nanos(20_000_000));
        while count < total {
            let took = end.poll_priority(Port::Fm, Priority::Low, |_, bytes| {
                assert_eq!(bytes, count.to_le_bytes(), "none is lost, and none overtakes");
            });
            count += u32::from(took);
        }
        count
    });
    let network = counts[0] - send - receive - 16;
    assert!((1..=8).contains(&network), "in links and channels: {network}");
    assert_eq!(register(&mut core, 1, "delivered"), u64::from(total));
    assert!(
        register(&mut core, 1, "dmas") < u64::from(total),
        "some came together"
    );
}

#[test]
fn what_is_interpreted_comes_alone() {
    let switch = machine().with("adapter.lanai.interpret", true).expect("there");
    let (_, mut core) = pair(&switch, |end| {
        for _ in 0..40 {
            if end.me() == Peer(0) {
                while !offer(&end, &[1; 16]) {}
            } else {
                while !end.poll_priority(Port::Fm, Priority::Low, |_, _| {}) {}
            }
        }
    });
    assert_eq!(register(&mut core, 1, "dmas"), 40);
}

#[test]
fn a_packet_that_is_lost_is_a_fault_of_its_sender() {
    let mut core = core(&machine(), 2);
    core.kernel.net.set_faults(farpost_sim::net::Faults {
        loss: 1.0,
        damage: 0.0,
    });
    let (faults, _) = ranks::run(core, |end| {
        use farpost_fabric::ErrorStatus;
        if end.me() == Peer(0) {
            assert!(offer(&end, &[1; 16]));
            end.compute(Ps::from_nanos(1_000_000));
            end.with_core(|_| ());
        }
        end.take_faults().0.len()
    })
    .expect("nobody waits");
    assert_eq!(faults, [1, 0]);
}

/// Other ports have the same interface: Fast Messages as MPI's carrier, on all hosts of the switch.
#[test]
fn a_ring_of_mpi_messages_over_fast_messages() {
    use farpost_mpi::buffer::{RecvBuf, SendBuf};
    use farpost_mpi::carrier::{Device, DeviceConfig};
    use farpost_mpi::datatype::Datatype;
    use farpost_mpi::p2p::Mode;
    use farpost_mpi::world::{World, WorldConfig};
    let byte = || Datatype::predefined(0x247).expect("a byte");
    let program = move |end: SimFabric| {
        let config = WorldConfig {
            device: DeviceConfig {
                device: Device::Fm,
                ..DeviceConfig::default()
            },
            ..WorldConfig::default()
        };
        let (me, size) = (end.me().0 as usize, end.size() as usize);
        let world = World::new(end, config);
        let comm = world.comm_world();
        let (next, before) = (((me + 1) % size) as i32, ((me + size - 1) % size) as i32);
        for len in [8, 300, 20_000] {
            let (sent, mut got) = (vec![me as u8; len], vec![0u8; len]);
            // SAFETY: both buffers live until the requests have ended.
            let (send, recv) = unsafe {
                (
                    SendBuf::new(sent.as_ptr().cast(), len as u64, byte()),
                    RecvBuf::new(got.as_mut_ptr().cast(), len as u64, byte()),
                )
            };
            let receiving = world.irecv(comm, recv, before, 7).expect("receive");
            world.send(comm, &send, next, 7, Mode::Standard).expect("send");
            world.wait(receiving).expect("wait");
            assert!(got.iter().all(|byte| *byte == before as u8), "{len} bytes");
        }
        world.quiesce().expect("quiesce");
        world.drain_to_peers(|_| false).expect("drain");
        assert_eq!(world.take_faults(), Vec::<String>::new());
        world.fabric().time()
    };
    let run = || ranks::run(core(&machine(), 8), program).expect("no rank hangs").0;
    let times = run();
    println!("{times:?}");
    assert_eq!(times, run());
}
