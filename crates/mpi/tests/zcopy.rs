//! Messages between hosts whose bytes follow their line: wanted, not yet wanted, too long, many, mixed with others, and cut off.

#[path = "common/hosts.rs"]
mod hosts;

use farpost_fabric::Fabric;
use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::World;
use farpost_tcp::TcpSettings;
use hosts::{run, run_with};

const ANY_SOURCE: i32 = -1;
const ANY_TAG: i32 = -2;
const HOSTS: [u32; 2] = [0, 1];

/// Around the places where a message of a host to another changes its way, and beyond.
const SIZES: [usize; 9] = [
    4096,
    4097,
    16 << 10,
    (32 << 10) + 1,
    64 << 10,
    (64 << 10) + 13,
    300_000,
    1 << 20,
    (1 << 20) + 1,
];

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + (i >> 8)) as u8).collect()
}

fn send_buf(data: &[u8]) -> SendBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, Datatype::byte()) }
}

fn recv_buf(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) }
}

fn send<F: Fabric>(world: &World<F>, to: i32, tag: i32, data: &[u8]) {
    let comm = world.comm_world();
    world
        .send(comm, &send_buf(data), to, tag, Mode::Standard)
        .unwrap();
}

/// Receive `len` bytes and check them.
fn expect<F: Fabric>(world: &World<F>, from: i32, tag: i32, seed: usize, len: usize) {
    let mut got = vec![0xee; len];
    let status = world
        .recv(world.comm_world(), recv_buf(&mut got), from, tag)
        .unwrap();
    assert_eq!((status.error, status.bytes), (None, len as u64), "seed {seed}");
    assert!(got == pattern(seed, len), "{len} bytes, seed {seed}");
}

fn barrier<F: Fabric>(world: &World<F>) {
    let other = 1 - world.pid() as i32;
    let token = [1];
    let mut got = [0];
    let comm = world.comm_world();
    let request = world.irecv(comm, recv_buf(&mut got), other, 99).unwrap();
    send(world, other, 99, &token);
    world.wait(request).unwrap();
}

#[test]
fn back_and_forth() {
    run(&HOSTS, |world| {
        let me = world.pid() as usize;
        let other = 1 - me as i32;
        for (round, len) in SIZES.into_iter().cycle().take(90).enumerate() {
            if me == 0 {
                send(world, other, 1, &pattern(round, len));
            }
            expect(world, other, 1, round, len);
            if me == 1 {
                send(world, other, 1, &pattern(round, len));
            }
            // What was sent may be written to at once.
        }
    });
}

/// The sender fills all that the receiver lets it, and more, before any receive is posted; short messages between keep
/// their order.
#[test]
fn unexpected_and_in_order() {
    const COUNT: usize = 60;
    run(&HOSTS, |world| {
        let size = |i: usize| {
            if i.is_multiple_of(3) {
                i % 40
            } else {
                SIZES[i % SIZES.len()]
            }
        };
        if world.pid() == 0 {
            let data: Vec<_> = (0..COUNT).map(|i| pattern(i, size(i))).collect();
            let requests: Vec<_> = data
                .iter()
                .map(|data| {
                    world
                        .isend(world.comm_world(), &send_buf(data), 1, 1, Mode::Standard)
                        .unwrap()
                })
                .collect();
            send(world, 1, 2, &[]);
            for request in requests {
                assert_eq!(world.wait(request).unwrap().error, None);
            }
        } else {
            expect(world, 0, 2, 0, 0);
            for i in 0..COUNT {
                let probed = world.probe(world.comm_world(), 0, 1).unwrap();
                assert_eq!(probed.bytes, size(i) as u64);
                let from = if i % 2 == 0 { ANY_SOURCE } else { 0 };
                expect(world, from, 1, i, size(i));
            }
        }
        barrier(world);
    });
}

#[test]
fn many_posted_before_by_tag_and_by_anybody() {
    const COUNT: usize = 24;
    run(&[0, 1, 2], |world| {
        let comm = world.comm_world();
        let me = world.pid() as usize;
        if me == 0 {
            let mut got: Vec<Vec<u8>> = (0..2 * COUNT)
                .map(|i| vec![0; SIZES[i / 2 % SIZES.len()]])
                .collect();
            let requests: Vec<_> = got
                .iter_mut()
                .enumerate()
                .map(|(i, got)| {
                    world
                        .irecv(comm, recv_buf(got), ANY_SOURCE, i as i32 / 2)
                        .unwrap()
                })
                .collect();
            for other in 1..3 {
                send(world, other, 77, &[]);
            }
            let mut seen = [0; 2 * COUNT];
            for (i, request) in requests.into_iter().enumerate() {
                let status = world.wait(request).unwrap();
                assert_eq!(status.error, None);
                let (source, tag) = (status.source as usize, status.tag as usize);
                assert_eq!(tag, i / 2);
                assert!(got[i] == pattern(source * 100 + tag, SIZES[tag % SIZES.len()]));
                seen[2 * tag + source - 1] += 1;
            }
            assert!(seen.iter().all(|count| *count == 1));
        } else {
            expect(world, 0, 77, 0, 0);
            for tag in (0..COUNT).rev() {
                send(
                    world,
                    0,
                    tag as i32,
                    &pattern(me * 100 + tag, SIZES[tag % SIZES.len()]),
                );
            }
        }
        // Nobody leaves before.
        if me == 0 {
            for other in 1..3 {
                send(world, other, 78, &[]);
            }
        } else {
            expect(world, 0, 78, 0, 0);
        }
    });
}

/// Longer than the buffer, which may be empty, or into a buffer with gaps; posted before and after.
#[test]
fn too_long_and_with_gaps() {
    const LEN: usize = 90_000;
    run(&HOSTS, |world| {
        let comm = world.comm_world();
        for early in [true, false] {
            if world.pid() == 0 {
                barrier(world);
                for tag in 0..4 {
                    send(world, 1, tag, &pattern(tag as usize, LEN));
                }
                barrier(world);
                continue;
            }
            let mut short = vec![0xee; LEN];
            let mut gaps = vec![0xeeu8; 2 * LEN];
            let every_other = Datatype::vector(LEN as i64, 1, 2, &Datatype::byte()).unwrap();
            if !early {
                barrier(world);
                world.probe(comm, 0, 3).unwrap();
            }
            // SAFETY: the buffer is alive until the receive is over, and as long as the type says.
            let spread = unsafe { RecvBuf::new(gaps.as_mut_ptr(), 1, every_other) };
            let requests = [
                world.irecv(comm, recv_buf(&mut short[..1000]), 0, 0).unwrap(),
                world.irecv(comm, recv_buf(&mut []), 0, 1).unwrap(),
                world.irecv(comm, spread, 0, 2).unwrap(),
            ];
            if early {
                barrier(world);
            }
            let [truncated, nothing, spread] = requests.map(|request| world.wait(request).unwrap());
            let class = |error: &Option<Box<farpost_mpi::Error>>| error.as_ref().map(|error| error.class);
            assert_eq!(class(&truncated.error), Some(ErrorClass::ERR_TRUNCATE));
            assert_eq!(truncated.bytes, 1000);
            assert!(short[..1000] == pattern(0, LEN)[..1000]);
            assert!(short[1000..].iter().all(|byte| *byte == 0xee));
            assert_eq!(class(&nothing.error), Some(ErrorClass::ERR_TRUNCATE));
            assert_eq!(spread.error, None);
            let (even, odd): (Vec<_>, Vec<_>) = gaps.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
            assert!(even == pattern(2, LEN) && odd.iter().all(|byte| *byte == 0xee));
            // The way is clear for what comes after.
            expect(world, 0, 3, 3, LEN);
            barrier(world);
        }
    });
}

/// Sealed, over two rails, or with hardly any memory for what nobody wants yet.
#[test]
fn by_other_ways() {
    let mut sealed = TcpSettings::default();
    sealed.trust.encrypt = 1;
    let mut poor = TcpSettings::default();
    poor.tcp.zcopy = 100_000;
    poor.tcp.buffer = 64 << 10;
    let mut none = TcpSettings::default();
    none.tcp.zcopy = 0;
    for settings in [sealed, poor, none] {
        run_with(&settings, &HOSTS, |world| {
            let other = 1 - world.pid() as i32;
            let data: Vec<_> = (0..20).map(|i| pattern(i, SIZES[i % SIZES.len()])).collect();
            let comm = world.comm_world();
            let requests: Vec<_> = data
                .iter()
                .map(|data| {
                    world
                        .isend(comm, &send_buf(data), other, 4, Mode::Standard)
                        .unwrap()
                })
                .collect();
            for i in 0..20 {
                expect(
                    world,
                    if i % 4 == 0 { ANY_SOURCE } else { other },
                    ANY_TAG,
                    i,
                    SIZES[i % SIZES.len()],
                );
            }
            for request in requests {
                assert_eq!(world.wait(request).unwrap().error, None);
            }
            barrier(world);
        });
    }
}
