//! Faults of a run, on the machines that come with Farpost: what software is told of them, and that nobody waits for ever.

use farpost_fabric::{ErrorStatus, Fabric, PacketQueue, Peer, Port, Priority, Time, TrySend};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::time::Ps;
use farpost_sim::{assemble, placement, ranks};

const MACHINES: [&str; 5] = ["sun-fire-link", "myrinet-fm", "startx", "xt3", "cluster-100g"];
/// Those whose links do not send again what was harmed.
const WITHOUT_RETRY: [&str; 3] = ["sun-fire-link", "myrinet-fm", "startx"];

fn machine(name: &str, faults: &[&str]) -> Machine {
    let machine = Machine::open(name).expect("built in");
    let add =
        |machine: Machine, fault: &&str| machine.with_fault(fault).unwrap_or_else(|why| panic!("{why}"));
    faults.iter().fold(machine, add)
}

/// A rank on each of so many hosts.
fn core(name: &str, hosts: u32, faults: &[&str], seed: u64) -> Core {
    let machine = machine(name, faults);
    assemble(&machine, hosts, &placement(hosts, 1), seed).unwrap_or_else(|why| panic!("{why}"))
}

fn register(core: &Core, name: &str) -> u64 {
    let all = core.adapters().flat_map(|(_, adapter)| adapter.registers());
    all.filter(|(of, _)| of == name).map(|(_, value)| value).sum()
}

/// How a rank ended: after so many rounds, well or with words, and when.
#[derive(Clone, Debug, PartialEq)]
struct End {
    rounds: u32,
    words: Option<String>,
    time: Ps,
}

/// So many rounds of a ring of MPI messages, up to the first error; then the job is over, as where errors are fatal.
fn ring(fabric: SimFabric, device: Device, most: u32) -> End {
    let byte = || Datatype::predefined(0x247).expect("a byte");
    let config = WorldConfig {
        device: DeviceConfig {
            device,
            ..DeviceConfig::default()
        },
        ..WorldConfig::default()
    };
    let (me, size) = (fabric.me().0 as usize, fabric.size() as usize);
    let world = World::new(fabric, config);
    let comm = world.comm_world();
    let (next, before) = (((me + 1) % size) as i32, ((me + size - 1) % size) as i32);
    let mut rounds = 0;
    let round = |len: usize| -> Result<(), String> {
        // They stay when a request does.
        let (sent, got) = (vec![me as u8; len].leak(), vec![0u8; len].leak());
        // SAFETY: both buffers live for ever.
        let (send, recv) = unsafe {
            (
                SendBuf::new(sent.as_ptr().cast(), len as u64, byte()),
                RecvBuf::new(got.as_mut_ptr().cast(), len as u64, byte()),
            )
        };
        let said = |error: farpost_mpi::Error| error.to_string();
        let receiving = world.irecv(comm, recv, before, 7).map_err(said)?;
        world.send(comm, &send, next, 7, Mode::Standard).map_err(said)?;
        let status = world.wait(receiving).map_err(said)?;
        if let Some(error) = status.error {
            return Err(error.to_string());
        }
        assert!(got.iter().all(|byte| *byte == before as u8), "wrong bytes");
        Ok(())
    };
    let mut words = None;
    while rounds < most && words.is_none() {
        words = round([8, 300, 5000][rounds as usize % 3]).err();
        rounds += 1;
    }
    if words.is_none() {
        words = world
            .drain_to_peers(|_| false)
            .err()
            .map(|error| error.to_string());
    }
    let time = world.fabric().time();
    if let Some(words) = &words {
        world.fabric().with_core(|core| {
            core.kill(Peer(me as u32), words);
            (0..size as u32).for_each(|peer| core.kernel.procs.touch(Peer(peer), time));
        });
    }
    End { rounds, words, time }
}

/// A ring on a machine, twice: the same, and nobody hangs.
fn rings(name: &str, hosts: u32, faults: &[&str], most: u32) -> (Vec<Option<End>>, Core) {
    let device = match farpost_sim::device(&machine(name, faults)) {
        "fm" => Device::Fm,
        "jam" => Device::Jam,
        "portals" => Device::Portals,
        _ => Device::Postbox,
    };
    let run = || {
        let core = core(name, hosts, faults, 3);
        ranks::run_with_deaths(core, |end| ring(end, device, most))
            .unwrap_or_else(|why| panic!("{name} with {faults:?}: {why}"))
    };
    let (first, _) = run();
    let (second, core) = run();
    assert_eq!(first, second, "{name} with {faults:?}");
    println!("{name} with {faults:?}: {:?}", first[0]);
    (first, core)
}

/// When all of a ring was over, which ended well.
fn well(ends: &[Option<End>]) -> Ps {
    let end = |end: &Option<End>| {
        let end = end.as_ref().expect("no host died");
        assert_eq!(end.words, None);
        end.time
    };
    ends.iter().map(end).max().expect("ranks")
}

/// What was said by ranks that did not come to the end.
fn words(ends: &[Option<End>]) -> Vec<String> {
    ends.iter()
        .flatten()
        .filter_map(|end| end.words.clone())
        .collect()
}

#[test]
fn what_is_lost_without_retry_is_told() {
    for name in WITHOUT_RETRY {
        let (ends, core) = rings(name, 4, &["loss 0.002"], 100_000);
        let said = words(&ends);
        assert!(!said.is_empty(), "{name}: {ends:?}");
        assert!(core.kernel.net.harm().lost > 0);
    }
}

#[test]
fn what_is_damaged_without_retry_is_dropped_and_told() {
    for name in WITHOUT_RETRY {
        let (ends, core) = rings(name, 4, &["damage 0.002"], 100_000);
        assert!(!words(&ends).is_empty(), "{name}");
        assert!(core.kernel.net.harm().damaged > 0);
        let errors = if name == "sun-fire-link" {
            "errors"
        } else {
            "check_errors"
        };
        assert!(register(&core, errors) > 0, "{name}");
    }
}

#[test]
fn links_with_retry_lose_time_and_nothing_else() {
    for name in ["xt3", "cluster-100g"] {
        for fault in ["loss 0.2", "damage 0.2"] {
            let (clean, _) = rings(name, 4, &[], 60);
            let (ends, core) = rings(name, 4, &[fault], 60);
            assert!(core.kernel.net.harm().again > 0);
            assert!(well(&ends) > well(&clean), "{name}");
        }
    }
}

/// A packet before a link is cut, one meanwhile, one after it has come back: which of them arrived, and faults of the sender.
#[test]
fn a_link_is_cut_and_returns() {
    for name in MACHINES {
        let run = || {
            let core = core(name, 2, &["cut h1 at 1ms for 1ms"], 1);
            ranks::run(core, |end| {
                let (mut got, mut faults) = (Vec::new(), 0);
                for at in [0, 1_500_000, 3_000_000] {
                    let until = Ps::from_nanos(at);
                    end.compute(until - end.time());
                    end.with_core(|_| ());
                    if end.me() == Peer(0) {
                        while end.try_send(Peer(1), Port::Fm, Priority::Low, &[at as u8; 8]) == TrySend::Full
                        {
                            end.spin();
                        }
                        end.compute(Ps::from_nanos(200_000));
                        end.with_core(|_| ());
                        faults = faults * 10 + end.take_faults().0.len();
                    } else {
                        end.compute(Ps::from_nanos(300_000));
                        end.with_core(|_| ());
                        while end.poll_priority(Port::Fm, Priority::Low, |_, bytes| got.push(bytes[0])) {}
                    }
                }
                (got, faults, end.time())
            })
            .unwrap_or_else(|why| panic!("{name}: {why}"))
            .0
        };
        let ends = run();
        assert_eq!(ends[0].1, 10, "{name}: one fault, meanwhile");
        assert_eq!(ends[1].0, [0, 3_000_000u32 as u8], "{name}");
        assert_eq!(ends, run(), "{name}");
    }
}

#[test]
fn a_cut_for_ever_is_told_and_another_way_is_taken_where_there_is_one() {
    for name in ["myrinet-fm", "startx", "xt3", "cluster-100g"] {
        let (ends, _) = rings(name, 4, &["cut h2 at 100us"], 100_000);
        assert!(!words(&ends).is_empty(), "{name}");
    }
    // Another rail, before anything is on the way.
    let (ends, core) = rings("sun-fire-link", 3, &["cut h0.rail1"], 30);
    well(&ends);
    assert!(register(&core, "stripes_rerouted") > 0);
    // Another way up the tree.
    let (ends, _) = rings("startx", 4, &["cut s0.0-s1.0"], 30);
    well(&ends);
}

#[test]
fn a_slow_receiver_holds_up_what_waits_for_it() {
    for name in ["sun-fire-link", "myrinet-fm", "startx", "xt3"] {
        let time = |faults: &[&str]| well(&rings(name, 3, faults, 30).0).secs();
        let (clean, slow) = (time(&[]), time(&["slow h1 x4"]));
        assert!(slow > 1.2 * clean && slow < 4.5 * clean, "{name}: {clean} {slow}");
    }
}

#[test]
fn a_dead_host_ends_the_job_of_the_others_with_words() {
    for name in MACHINES {
        let (ends, _) = rings(name, 4, &["dead h2 at 300us"], 100_000);
        assert_eq!(ends[2], None, "{name}: its rank does nothing any more");
        let said = words(&ends);
        assert_eq!(said.len(), 3, "{name}: {ends:?}");
        let over = ends.iter().flatten().map(|end| end.time).min().expect("ranks");
        assert!(over >= Ps::from_nanos(300_000), "{name}");
    }
}

/// Names of links that a fault has broken.
fn broken(seed: u64, faults: &[&str]) -> Vec<String> {
    let (_, core) = ranks::run(core("cluster-100g", 40, faults, seed), |end| {
        end.compute(Ps::from_nanos(3_000_000));
        end.with_core(|_| ());
    })
    .expect("nobody waits");
    let all = core.kernel.net.resources().filter(|(_, it)| it.broken);
    all.map(|(_, it)| it.spec.name.clone()).collect()
}

#[test]
fn the_seed_decides_what_is_not_said() {
    let of = |seed| broken(seed, &["cut any at 1ms..2ms"]);
    for seed in 1..4 {
        assert_eq!(of(seed).len(), 2, "both directions");
        assert_eq!(of(seed), of(seed));
    }
    assert!(of(1) != of(2) || of(2) != of(3));
    // Two cuts of one link: it works again when both are over.
    assert_eq!(
        broken(1, &["cut h3 for 1ms", "cut h3 for 2ms"]),
        Vec::<String>::new()
    );
    assert_eq!(broken(1, &["cut h3 for 1ms", "cut h3 for 9ms"]).len(), 2);
}

#[test]
fn a_place_that_is_not_there_is_one_line() {
    for (fault, why) in [
        ("cut h9", "there is no host 9 in this run, allowed are 0 to 3"),
        ("cut h1.rail7", "no link is there"),
        ("cut h0-h1", "no link is there"),
        ("cut s5.0", "no link is there"),
        ("slow h4 x2", "there is no host 4"),
        ("dead h4", "there is no host 4"),
    ] {
        let machine = machine("sun-fire-link", &[fault]);
        let refused = assemble(&machine, 4, &placement(4, 1), 1)
            .err()
            .expect(fault)
            .to_string();
        assert!(refused.contains(fault) && refused.contains(why), "{refused}");
        assert!(!refused.contains('\n'));
    }
}
