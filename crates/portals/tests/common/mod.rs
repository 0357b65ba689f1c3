//! Interfaces and memory for tests.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]
#![allow(dead_code, reason = "each test uses a part")]

use farpost_fabric::Fabric;
use farpost_fabric::wait::WaitTunables;
use farpost_portals::net::NetTunables;
use farpost_portals::*;
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;
use std::time::Instant;

/// Small pools, and no time: each empty turn counts as long.
pub const SMALL: NetTunables = NetTunables {
    sources: 8,
    tx_pendings: 16,
    rx_pendings: 16,
    window: 8,
    staged: 4096,
    staging: 4,
    chunk: 8192,
    shared: 32 << 10,
    resend: 0,
    transmit: 0,
    check: 1,
};

pub const PT: u32 = 3;
pub const NO_BITS: u64 = u64::MAX;

/// Memory for descriptors: touched through its address only.
pub struct Memory {
    address: *mut u8,
    len: usize,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Self {
        let address = Box::into_raw(bytes.to_vec().into_boxed_slice()).cast();
        Self {
            address,
            len: bytes.len(),
        }
    }

    pub fn zeros(len: usize) -> Self {
        Self::new(&vec![0; len])
    }

    pub fn address(&self) -> usize {
        self.address.expose_provenance()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: memory of that many bytes; nobody writes it while the test looks.
        unsafe { std::ptr::copy_nonoverlapping(self.address, bytes.as_mut_ptr(), self.len) };
        bytes
    }

    pub fn md(&self, options: u32, eq: Handle) -> Md {
        Md::new(self.address(), self.len as u64, options, eq)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `new` of a slice of that length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.address, self.len)) });
    }
}

/// All ends of shared memory, in one thread.
pub fn shm(size: u32, tunables: &ShmTunables) -> Vec<Rc<Shm>> {
    shm_ends(size, tunables).into_iter().map(Rc::new).collect()
}

pub fn interface<F: Fabric>(fabric: Rc<F>, config: &NetTunables, processes: &Rc<Processes>) -> Interface<F> {
    Interface::new(
        fabric,
        config,
        &WaitTunables::default(),
        Rc::clone(processes),
        None,
        0,
    )
    .expect("an interface")
}

pub fn interfaces<F: Fabric>(fabrics: Vec<F>, config: &NetTunables) -> Vec<Interface<F>> {
    let processes = Rc::new(Processes::on_one_host(fabrics.len() as u32, 1000, 1));
    fabrics
        .into_iter()
        .map(|fabric| interface(Rc::new(fabric), config, &processes))
        .collect()
}

pub fn target(to: u32, match_bits: u64) -> Target {
    Target {
        id: ProcessId::new(0, to),
        pt_index: PT,
        ac_index: 0,
        match_bits,
        offset: 0,
    }
}

pub fn bind<F: Fabric>(ni: &Interface<F>, md: Md) -> Handle {
    // SAFETY: tests keep memory until their interfaces are idle.
    unsafe { ni.md_bind(md, None, Unlink::Retain) }.expect("a descriptor")
}

pub fn post<F: Fabric>(ni: &Interface<F>, bits: (u64, u64), md: Md, iovec: Iovec) -> (Handle, Handle) {
    let me = ni
        .me_attach(PT, ProcessId::ANY, bits, Unlink::Retain, Position::After)
        .expect("an entry");
    // SAFETY: as for `bind`.
    let md = unsafe { ni.md_attach(me, md, iovec, Unlink::Retain) }.expect("a descriptor");
    (me, md)
}

/// Let everybody make progress until `done` says so.
pub fn until<F: Fabric>(ends: &[Interface<F>], mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        for end in ends {
            end.progress();
        }
        if done() {
            return;
        }
        assert!(
            start.elapsed().as_secs() < 60,
            "nothing moves any more: {:?}",
            ends[0].net().figures()
        );
    }
}

/// Let everything come to rest.
pub fn settle<F: Fabric>(ends: &[Interface<F>]) {
    until(ends, || ends.iter().all(Interface::is_idle));
}

pub fn events<F: Fabric>(ni: &Interface<F>, eq: Handle) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(taken) = ni.eq_get(eq) {
        assert!(!taken.dropped, "events were lost");
        events.push(taken.event);
    }
    events
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}
