//! Making connections: half-duplex, at the first message, by packets.
//!
//! Where the fabric maps memory the sender exports its area and says *hello*; it may post at once, since
//! the receiver finds the postboxes when it has imported the area. Elsewhere the receiver answers a hello
//! by exporting an area for the sender and saying *welcome*.

use crate::area::Layout;
use crate::control::{Control, GROW, HELLO, Lack, PendingConnection, WELCOME, decode, encode};
use crate::pool::Pool;
use crate::postbox::{AckLine, Outlet, Postboxes, Rx, Tx};
use std::time::Duration;

use farpost_fabric::{Access, Fabric, FabricError, Fault, LINE_BYTES, Peer, Permission, TrySend};

/// Bytes of the largest area that a receiver makes for one sender, where the fabric does not map memory.
const RECEIVER_AREA_MAX: usize = 64 << 20;

/// Longest time that connecting is tried again when something lacks.
const HOPE: Duration = Duration::from_secs(1);

/// What the system refuses now it may grant later.
fn passes(error: &FabricError) -> bool {
    /// EMFILE, ENFILE, ENOMEM.
    const LACKS: [i32; 3] = [24, 23, 12];
    matches!(error, FabricError::Os { errno, .. } if LACKS.contains(errno))
}

impl<F: Fabric> Postboxes<F> {
    /// Start to connect to `peer`, once.
    pub(crate) fn connect(&mut self, peer: Peer) {
        if self
            .connecting
            .iter()
            .any(|p| p.peer == peer && matches!(p.kind, HELLO | 0))
        {
            return;
        }
        let mut layout = self.layout;
        if self.fabric.maps(peer) {
            self.ensure_own_area();
            let Some(area) = self.own_area.clone() else { return };
            let index = peer.0;
            let ack = (area.clone(), self.layout.ack(index));
            let queue = self.layout.queue(index);
            let bell = self.fabric.bell(peer);
            let home = self.fabric.me().index();
            let tx = Tx::new(bell, Outlet::Own(area), self.layout, queue, ack, home);
            self.connected(peer, tx);
        } else {
            layout.queues = 1;
            if self.own_acks.is_none() {
                let bytes = self.service.processes as usize * LINE_BYTES;
                match self.fabric.export(self.service.acks(), bytes, self.access(false)) {
                    Ok(acks) => self.own_acks = Some(acks),
                    Err(error) => return self.own_fault(error),
                }
            }
        }
        self.connecting.push(PendingConnection {
            peer,
            kind: HELLO,
            count: 0,
            layout,
        });
        self.send_pending();
    }

    /// Who may write to a segment of mine: everybody who maps it, or everybody who does not.
    fn access(&self, mapping: bool) -> Access {
        let those = |peer: &Peer| self.fabric.maps(*peer) == mapping;
        let everybody: Vec<Peer> = (0..self.service.processes).map(Peer).collect();
        if everybody.iter().all(those) {
            return Access::Everyone(Permission::ReadWrite);
        }
        let some = everybody.into_iter().filter(those);
        Access::Only(some.map(|peer| (peer, Permission::ReadWrite)).collect())
    }

    /// Export my area, for the peers that map it.
    pub(crate) fn ensure_own_area(&mut self) {
        if self.own_area.is_some() {
            return;
        }
        let access = self.access(true);
        match self
            .fabric
            .export(self.service.area(), self.layout.bytes(), access)
        {
            Ok(area) => {
                self.own_area = Some(area);
                self.lacks.retain(|lack| lack.hello.is_some());
                self.pools[self.fabric.me().index()] = Some(Box::new(Pool::new(self.layout.blocks, true)));
            }
            Err(error) if passes(&error) => {
                if self.lacks.iter().all(|lack| lack.hello.is_some()) {
                    self.lack(None, error);
                }
            }
            Err(error) => self.own_fault(error),
        }
    }

    #[cold]
    fn own_fault(&self, error: FabricError) {
        let peer = self.fabric.me();
        self.fabric.record_fault(Fault { peer, error });
    }

    /// My area, once it was exported.
    pub fn own_area(&self) -> Option<&F::Export> {
        self.own_area.as_ref()
    }

    pub(crate) fn send_pending(&mut self) {
        let mut index = 0;
        while index < self.connecting.len() {
            let PendingConnection {
                peer,
                kind,
                count,
                layout,
            } = &self.connecting[index];
            if *kind == 0 {
                index += 1; // said hello, awaiting welcome
                continue;
            }
            let packet = encode(*kind, *count, layout);
            let (port, priority) = self.service.control;
            match (self.fabric).try_send(*peer, port, priority, &packet) {
                TrySend::Full => {
                    index += 1;
                    continue;
                }
                TrySend::Sent => self.fabric.wake(*peer),
            }
            if *kind == HELLO && !self.fabric.maps(*peer) {
                self.connecting[index].kind = 0;
                index += 1;
            } else {
                self.connecting.swap_remove(index);
            }
        }
    }

    /// Whether control packets wait to be sent.
    pub fn control_pending(&self) -> bool {
        self.connecting.iter().any(|p| p.kind != 0) || !self.lacks.is_empty()
    }

    /// Try again what there were no descriptors or no memory for.
    #[cold]
    fn listen_again(&mut self) {
        for mut lack in std::mem::take(&mut self.lacks) {
            let Some((from, layout)) = lack.hello else {
                self.lacks.push(lack);
                continue;
            };
            match self.on_hello(from, layout) {
                Ok(()) => {}
                Err(error) if passes(&error) => {
                    lack.error = error;
                    self.lacks.push(lack);
                }
                Err(error) => self.fabric.record_fault(Fault { peer: from, error }),
            }
        }
    }

    /// A connection for which descriptors or memory have been lacking for so long that it is given up: with a sender, or, none
    /// being named, with whoever this process wants to send to.
    pub fn hopeless(&mut self) -> Option<(Option<Peer>, FabricError)> {
        let now = self.fabric.now();
        let at = self.lacks.iter().position(|lack| now - lack.since > HOPE)?;
        let lack = self.lacks.swap_remove(at);
        Some((lack.hello.map(|(peer, _)| peer), lack.error))
    }

    /// Take in control packets: new senders, answers. True if there were any.
    pub fn poll_control(&mut self) -> bool {
        if !self.connecting.is_empty() {
            self.send_pending();
        }
        if !self.lacks.is_empty() {
            self.listen_again();
        }
        if !self.resting.is_empty() {
            self.look_at_resting();
        }
        let mut any = false;
        loop {
            let mut got: Option<Control> = None;
            let fabric = std::rc::Rc::clone(&self.fabric);
            let (port, priority) = self.service.control;
            let polled = fabric.poll_priority(port, priority, |from, packet| {
                let start = packet
                    .iter()
                    .take(8)
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte));
                got = Some((from, decode(packet), start));
            });
            if !polled {
                return any;
            }
            any = true;
            let Some((from, packet, start)) = got else {
                continue;
            };
            let result = match packet {
                Some((HELLO, _, layout)) => match self.on_hello(from, layout) {
                    Err(error) if passes(&error) => {
                        self.lack(Some((from, layout)), error);
                        Ok(())
                    }
                    done => done,
                },
                Some((GROW, count, _)) => self.on_grow(from, count),
                Some((WELCOME, _, layout)) => self.on_welcome(from, layout),
                _ => Err(FabricError::corrupt(from, "a control packet", start)),
            };
            if let Err(error) = result {
                self.fabric.record_fault(Fault { peer: from, error });
            }
        }
    }

    fn lack(&mut self, hello: Option<(Peer, Layout)>, error: FabricError) {
        let since = self.fabric.now();
        self.lacks.push(Lack { hello, since, error });
    }

    fn on_hello(&mut self, from: Peer, layout: Layout) -> Result<(), FabricError> {
        if self.rx[from.index()].is_some() {
            return Err(FabricError::corrupt(from, "a first hello", HELLO));
        }
        let me = self.fabric.me().0;
        let rx = if self.fabric.maps(from) {
            if layout.queues != self.service.processes {
                return Err(FabricError::corrupt(from, "the number of queues", layout.queues));
            }
            let area =
                self.fabric
                    .import(from, self.service.area(), layout.bytes(), Permission::ReadWrite)?;
            let memory = F::mapped(&area).expect("the fabric maps").clone();
            Rx::new(memory, layout, layout.queue(me), AckLine::Mapped(layout.ack(me)))
        } else {
            // Here the memory is ours, so how much of it a peer may ask for is ours to say.
            let one = Layout { queues: 1, ..layout };
            if one.bytes() > RECEIVER_AREA_MAX {
                return Err(FabricError::corrupt(
                    from,
                    "the size of the area it asks for",
                    one.bytes() as u64,
                ));
            }
            let id = self.service.area_for(from);
            let only = Access::Only(vec![(from, Permission::ReadWrite)]);
            let memory = self.fabric.export(id, one.bytes(), only)?;
            let bytes = self.service.processes as usize * LINE_BYTES;
            let acks = self
                .fabric
                .import(from, self.service.acks(), bytes, Permission::ReadWrite)?;
            self.connecting.push(PendingConnection {
                peer: from,
                kind: WELCOME,
                count: 0,
                layout: one,
            });
            self.send_pending();
            Rx::new(
                memory,
                one,
                one.first_queue().0,
                AckLine::Far(acks, me as usize * LINE_BYTES),
            )
        };
        self.rx[from.index()] = Some(Box::new(rx));
        self.senders.push(from);
        // Later a rest takes no memory.
        self.resting.reserve(self.senders.len());
        Ok(())
    }

    fn on_welcome(&mut self, from: Peer, layout: Layout) -> Result<(), FabricError> {
        let asked = self.connecting.iter().position(|p| p.peer == from && p.kind == 0);
        let (Some(asked), false, Some(acks)) = (asked, self.fabric.maps(from), self.own_acks.clone()) else {
            return Err(FabricError::corrupt(from, "no unasked welcome", WELCOME));
        };
        let wanted = Layout {
            queues: 1,
            ..self.layout
        };
        if layout != wanted {
            return Err(FabricError::corrupt(from, "the layout asked for", layout.slots));
        }
        self.connecting.swap_remove(asked);
        let id = self.service.area_for(self.fabric.me());
        let area = self
            .fabric
            .import(from, id, layout.bytes(), Permission::ReadWrite)?;
        let home = from.index();
        self.pools[home] = Some(Box::new(Pool::new(layout.blocks, false)));
        let ack = (acks, home * LINE_BYTES);
        let tx = Tx::new(
            self.fabric.bell(from),
            Outlet::Far(area),
            layout,
            layout.first_queue().0,
            ack,
            home,
        );
        self.connected(from, tx);
        Ok(())
    }
}
