//! NetPIPE's tests with the Portals module of the paper (section 5.2): a descriptor and match entry made once for each round.
//!
//! Every run is exact, so a round has few exchanges, and the first of them, in which the layers get to know each other, is not measured.

use super::machine;
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Topology};
use farpost_portals::net::NetTunables;
use farpost_portals::option::{EVENT_START_DISABLE, MANAGE_REMOTE, OP_GET, OP_PUT};
use farpost_portals::{
    AckReq, EventKind, Handle, Interface, Md, NetworkInterface, Position, ProcessId, Processes, Target,
    Unlink,
};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use farpost_sim::time::Ps;
use std::rc::Rc;

/// Exchanges that are measured, of ping-pong and gets.
pub(super) const EXCHANGES: u32 = 3;
/// Messages of a stream.
pub(super) fn messages(len: usize) -> u32 {
    if len < 100_000 { 60 } else { 10 }
}

const PT: u32 = 4;
const BITS: u64 = 0x4e65_7450;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Half of a round trip of puts.
    PingPong,
    /// A get and its reply.
    Get,
    /// Puts one behind the other, by the receiver's time for each.
    Stream,
    /// Gets, each of which waits for its reply.
    StreamOfGets,
    /// Puts both ways at once: bytes of both count.
    Bidirectional,
}

/// Settings of the network layer: the links check, so no message carries a check of its own.
pub fn tunables() -> NetTunables {
    NetTunables {
        check: 0,
        ..NetTunables::default()
    }
}

/// A process of the test.
struct End {
    ni: Interface<SimFabric>,
    fabric: Rc<SimFabric>,
    eq: Handle,
    /// To send from, and for replies.
    source: Handle,
    to: Target,
    _memory: [Vec<u8>; 2],
}

impl End {
    fn new(fabric: SimFabric, len: usize) -> Self {
        let fabric = Rc::new(fabric);
        let (me, size) = (fabric.me().0, fabric.size());
        let hosts = (0..size).map(|rank| fabric.host_of(farpost_fabric::Peer(rank)));
        let processes = Rc::new(Processes::by_rank(hosts));
        let wait = WaitTunables::default();
        let peer = *processes.identity(1 - me % 2).expect("there are two");
        let ni =
            Interface::new(Rc::clone(&fabric), &tunables(), &wait, processes, None, 0).expect("an interface");
        let mut memory = [vec![me as u8 + 1; len], vec![0; len]];
        let [out, inward] = memory.each_mut().map(|it| it.as_mut_ptr().expose_provenance());
        let eq = ni.eq_alloc(1024, None).expect("a queue");
        let bits = (BITS, 0);
        let me = ni
            .me_attach(PT, ProcessId::ANY, bits, Unlink::Retain, Position::After)
            .expect("an entry");
        let options = OP_PUT | OP_GET | MANAGE_REMOTE | EVENT_START_DISABLE;
        let there = Md::new(inward, len as u64, options, eq);
        let here = Md::new(out, len as u64, EVENT_START_DISABLE, eq);
        // SAFETY: the memory is this structure's, and lives until the interface has been closed.
        let source = unsafe {
            ni.md_attach(me, there, None, Unlink::Retain)
                .expect("a descriptor");
            ni.md_bind(here, None, Unlink::Retain).expect("a descriptor")
        };
        let to = Target {
            id: peer.id,
            pt_index: PT,
            ac_index: 0,
            match_bits: BITS,
            offset: 0,
        };
        Self {
            ni,
            fabric,
            eq,
            source,
            to,
            _memory: memory,
        }
    }

    fn now(&self) -> Ps {
        self.fabric.time()
    }

    fn put(&self) {
        self.ni
            .put(self.source, AckReq::NoAck, &self.to, 0)
            .expect("a put");
    }

    fn wait(&self, kind: EventKind) {
        while self.ni.eq_wait(self.eq).expect("an event").event.kind != kind {}
    }

    fn get(&self) {
        self.ni.get(self.source, &self.to).expect("a get");
        self.wait(EventKind::ReplyEnd);
    }

    fn close(self) {
        self.ni.close(std::time::Duration::from_secs(60));
    }
}

/// The time of a message of `len` bytes: of one exchange, its part.
pub fn time(machine: &Machine, test: Test, len: usize) -> Ps {
    time_on(machine::pair(machine), test, len)
}

/// The same on a machine of two ranks, wherever they are.
pub fn time_on(core: Core, test: Test, len: usize) -> Ps {
    after(core, test, len).0
}

/// And the machine afterwards.
///
/// # Panics
/// When the ranks wait for each other for ever.
pub fn after(core: Core, test: Test, len: usize) -> (Ps, Core) {
    let body = |fabric: SimFabric| {
        let first = fabric.me().0 == 0;
        let end = End::new(fabric, len);
        let time = match test {
            Test::PingPong => ping_pong(&end, first),
            Test::Get | Test::StreamOfGets => gets(&end, first),
            Test::Stream => stream(&end, first, messages(len)),
            Test::Bidirectional => both(&end),
        };
        end.close();
        time
    };
    let (times, core) = ranks::run(core, body).expect("no rank hangs");
    (times[usize::from(test == Test::Stream)], core)
}

fn ping_pong(end: &End, first: bool) -> Ps {
    let mut begun = Ps::ZERO;
    for exchange in 0..=EXCHANGES {
        if exchange == 1 {
            begun = end.now();
        }
        if first {
            end.put();
        }
        end.wait(EventKind::PutEnd);
        if !first {
            end.put();
        }
    }
    Ps((end.now() - begun).0 / u64::from(2 * EXCHANGES))
}

fn gets(end: &End, first: bool) -> Ps {
    let mut begun = Ps::ZERO;
    for exchange in 0..=EXCHANGES {
        if exchange == 1 {
            begun = end.now();
        }
        match first {
            true => end.get(),
            false => end.wait(EventKind::GetEnd),
        }
    }
    Ps((end.now() - begun).0 / u64::from(EXCHANGES))
}

fn stream(end: &End, first: bool, messages: u32) -> Ps {
    // They get to know each other, and the receiver's time begins when the sender's does.
    if first {
        end.wait(EventKind::PutEnd);
        end.put();
    } else {
        end.put();
        end.wait(EventKind::PutEnd);
    }
    let begun = end.now();
    for _ in 0..messages {
        match first {
            true => end.put(),
            false => end.wait(EventKind::PutEnd),
        }
    }
    Ps((end.now() - begun).0 / u64::from(messages))
}

fn both(end: &End) -> Ps {
    let mut begun = Ps::ZERO;
    for exchange in 0..=EXCHANGES {
        if exchange == 1 {
            begun = end.now();
        }
        end.put();
        end.wait(EventKind::PutEnd);
    }
    Ps((end.now() - begun).0 / u64::from(2 * EXCHANGES))
}
