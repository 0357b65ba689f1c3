//! For the fuzz targets: a process whose connections to its peers are pairs of sockets of this process, so that what comes by them is
//! whatever somebody writes.

use super::*;
use crate::connections::ConnectionStage;
use crate::link::{Checks, Header, Link, LinkConfig};
use crate::peer::Rail;
use crate::trust::HeaderCheck;
use crate::{TcpSettings, socket};
use farpost_net::interfaces::Card;
use farpost_net::{AddressBook, NetConfig, poll};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

pub use crate::control::ControlCode;

const SIZE: u32 = 3;
/// Of the headers that peers write, and that this process writes.
const KEYS: [[u8; 16]; 2] = [[77; 16], [78; 16]];

struct NoBook;

impl AddressBook for NoBook {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        Err(format!("{peer} has no card"))
    }
}

/// The far end of a connection.
struct End {
    socket: OwnedFd,
    /// Frames written to it.
    frames: u64,
    /// Bytes that found no room in the socket.
    rest: Vec<u8>,
}

/// Process 0 of three, connected to the others by one rail each.
pub struct World {
    pub tcp: Tcp,
    ends: [Option<End>; SIZE as usize],
}

impl World {
    /// A process without peers yet.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(settings: TcpSettings) -> Result<Self> {
        let net = NetConfig {
            me: Peer(0),
            size: SIZE,
            host_of: Rc::new([0, 1, 2]),
            cores: 1,
            processes: 1,
            secret: [7; 32],
            book: Box::new(NoBook),
        };
        let card = Card {
            namespace: 0,
            interfaces: Vec::new(),
        };
        let host_of = Rc::clone(&net.host_of);
        let state = TcpState::new(net, settings, Vec::new(), card)?;
        let clock = Rc::clone(&state.clock);
        let tcp = Tcp {
            clock,
            core: Rc::new(Core {
                state: RefCell::new(state),
            }),
            me: Peer(0),
            size: SIZE,
            host_of,
        };
        Ok(Self {
            tcp,
            ends: Default::default(),
        })
    }

    /// Connect to `peer`, which is met if it was not before. Nothing happens where there is a connection, or the peer is gone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn connect(&mut self, peer: Peer) -> std::io::Result<()> {
        let state = &mut *self.tcp.core.state.borrow_mut();
        if state.peers.get(peer).is_none() {
            let rail = Rail::new(Vec::new());
            let config = LinkConfig {
                rails: 1,
                connect: 10_000_000_000,
                reports: true,
                tunables: state.settings.link.clone(),
                spare: Default::default(),
            };
            let mut remote = PeerState::new(Link::new(config, state.now()), vec![rail]);
            state.segments.announce_all(peer, &mut remote);
            state.peers.insert(peer, remote);
            state.open_zcopy(peer);
        }
        let now = state.now();
        let remote = state.peers.get(peer).expect("met");
        if remote.is_connected() || matches!(remote.status, crate::peer::PeerStatus::Lost(_)) {
            return Ok(());
        }
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let near = OwnedFd::from(near);
        let fd = near.as_raw_fd();
        let slot = state.admit(near, ConnectionStage::Open { peer, rail: 0 }, poll::IN)?;
        let remote = state.peers.at(peer).expect("met");
        (remote.rails[0].slot, remote.rails[0].fd) = (slot, fd);
        let checks = Checks {
            send: HeaderCheck::new(&KEYS[1]),
            receive: HeaderCheck::new(&KEYS[0]),
        };
        remote.link.on_rail_up(0, checks, now);
        state.conns.open += 1;
        state.deadline = 0;
        state.schedule_send(peer);
        self.ends[peer.index()] = Some(End {
            socket: far.into(),
            frames: 0,
            rest: Vec::new(),
        });
        Ok(())
    }

    /// The peer ends its connection.
    pub fn cut(&mut self, peer: Peer) {
        if let Some(end) = &mut self.ends[peer.index()] {
            socket::finish(end.socket.as_raw_fd());
            end.rest.clear();
        }
    }

    /// The number that the peer's next ordered frame has.
    pub fn seq(&self, peer: Peer) -> u32 {
        let state = self.tcp.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.map_or(0, |remote| remote.link.expected())
    }

    /// A number that the peer may acknowledge.
    pub fn mark(&self, peer: Peer) -> u32 {
        let state = self.tcp.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.map_or(0, |remote| remote.link.mark())
    }

    /// The peer writes a frame; its code is right.
    pub fn write(&mut self, peer: Peer, header: &Header, payload: &[u8]) {
        let Some(end) = &mut self.ends[peer.index()] else {
            return;
        };
        let mut head = header.emit();
        Header::seal(&mut head, &HeaderCheck::new(&KEYS[0]), end.frames);
        end.frames += 1;
        end.rest.extend_from_slice(&head);
        end.rest.extend_from_slice(payload);
        end.push();
    }

    /// What has come to the peer, which it takes.
    pub fn drain(&mut self, peer: Peer) -> Vec<u8> {
        let mut all = Vec::new();
        let Some(end) = &mut self.ends[peer.index()] else {
            return all;
        };
        let mut some = [0; 4096];
        loop {
            let parts = [socket::part(some.as_mut_ptr(), some.len())];
            // SAFETY: the array is writable, and nobody else uses it.
            match unsafe { socket::receive(end.socket.as_raw_fd(), &parts) } {
                Ok(0) | Err(_) => break,
                Ok(came) => all.extend_from_slice(&some[..came]),
            }
        }
        end.push();
        all
    }

    /// Let time pass.
    pub fn turn(&self) {
        self.tcp.core.state.borrow_mut().turn(0);
    }

    /// As `unpublish`, without waiting for peers to say that they know.
    pub fn withdraw_segment(&self, id: SegmentId) {
        let _ = self.tcp.core.state.borrow_mut().retract(id);
    }

    /// As `import`, without waiting for the answer.
    pub fn ask(&self, peer: Peer, id: SegmentId) {
        let _ = self.tcp.core.state.borrow_mut().ask(peer, id);
    }

    /// Put to a peer's segment, and begin a fence.
    pub fn put(&self, peer: Peer, handle: u32, offset: usize, bytes: &[u8]) {
        let state = &mut *self.tcp.core.state.borrow_mut();
        if state.put(peer, handle, offset, bytes).is_ok()
            && let Ok(remote) = state.peer_state(peer)
        {
            remote.unfenced = false;
            remote.fences += 1;
            let number = remote.fences;
            remote.control(ControlCode::Fence, 0, &[number]);
            state.schedule_send(peer);
        }
    }

    /// What a peer has told of a segment of its own: handle, length, and whether it may be written.
    pub fn told(&self, peer: Peer, id: SegmentId) -> Option<(u32, u64, bool)> {
        let state = self.tcp.core.state.borrow();
        let theirs = state.segments.theirs.get(&(peer, id))?;
        Some((
            theirs.handle,
            theirs.len,
            theirs.permission == Permission::ReadWrite,
        ))
    }

    /// Whether a segment of this process is published.
    pub fn publishes(&self, id: SegmentId) -> bool {
        self.tcp.core.state.borrow().segments.find(id).is_some()
    }

    /// Whether the peer is neither gone nor given up.
    pub fn is_active(&self, peer: Peer) -> bool {
        let state = self.tcp.core.state.borrow();
        state.peers.get(peer).is_some_and(|remote| remote.is_active())
    }

    /// Whether there is a connection to it.
    pub fn is_connected(&self, peer: Peer) -> bool {
        let state = self.tcp.core.state.borrow();
        let remote = state.peers.get(peer);
        remote.is_some_and(|remote| remote.is_connected())
    }
}

impl End {
    fn push(&mut self) {
        if let Ok(sent) = socket::send(self.socket.as_raw_fd(), &self.rest) {
            self.rest.drain(..sent);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Nobody is left to be seen off.
        self.tcp.core.state.borrow_mut().closing = true;
    }
}
