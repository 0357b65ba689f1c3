//! Signals between the ends of a connection, and the tables that say who may send them.
//!
//! Events are counted, by segment. A receiver takes them from those only that its own table has: an exporter from the
//! importers that have connected, an importer from the exporter it is connected to. Who a packet is from is the fabric's
//! word. A signal finds its way in order behind the word that its sender is connected, and does not overtake what the
//! sender has put and fenced.
//!
//! Cost class: *queued path*.

use crate::cesr::Cause;
use crate::error::{Code, Result, RsmError};
use crate::names::Perm;
use crate::state::{CONNECTIONS_MAX, Export, ExportState, Import, ImportState, Importer, Inner, Watcher};
use crate::wire::{Packet, PacketKind};
use farpost_fabric::wait::Look;
use farpost_fabric::{Fabric, FabricError, Peer, Port, Priority, Remote, TrySend};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// What to do with a signal while another is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// Count it.
    Yes,
    /// Discard it (`RSM_SIGPOST_NO_ACCUMULATE`).
    No,
}

/// How long a post tries to find room before it leaves the packet to later calls.
const POST_TRIES: usize = 1000;
/// Longest sleep before looking whether the other side lives.
const SLEEP: Duration = Duration::from_millis(50);

impl<F: Fabric> Inner<F> {
    pub(crate) fn progress(&self) -> bool {
        let mut any = self.fabric.progress();
        if !self.outbox.borrow().is_empty() {
            self.flush();
        }
        loop {
            let mut got = None;
            let polled = self.fabric.poll_packet(Port::Rsm, |from, _, bytes| {
                let start = bytes.iter().take(8).rev().fold(0, |w, b| w << 8 | u64::from(*b));
                got = Some((from, Packet::decode(bytes), start));
            });
            if !polled {
                return any;
            }
            any = true;
            match got {
                Some((from, Some(packet), _)) => self.arrived(from, packet),
                Some((from, None, value)) => self.corrupt(from, "a packet of RSMAPI", value),
                None => {}
            }
        }
    }

    /// A packet that no library of ours sends.
    #[cold]
    fn corrupt(&self, peer: Peer, what: &'static str, value: u64) {
        self.refuse(|refused| &mut refused.malformed);
        self.fault(peer, FabricError::corrupt(peer, what, value));
    }

    fn flush(&self) {
        self.outbox.borrow_mut().retain(|peer, waiting| {
            while let Some(packet) = waiting.front() {
                if !self.offer(*peer, *packet) {
                    return true;
                }
                waiting.pop_front();
            }
            false
        });
    }

    fn offer(&self, peer: Peer, packet: Packet) -> bool {
        match self
            .fabric
            .try_send(peer, Port::Rsm, Priority::High, &packet.encode())
        {
            TrySend::Sent => {
                self.fabric.wake(peer);
                true
            }
            TrySend::Full => false,
        }
    }

    /// Send, now or with a later call.
    pub(crate) fn send(&self, peer: Peer, packet: Packet) {
        let mut outbox = self.outbox.borrow_mut();
        let Some(waiting) = outbox.get_mut(&peer) else {
            if !self.offer(peer, packet) {
                outbox.insert(peer, VecDeque::from([packet]));
            }
            return;
        };
        // Signals that wait for room go in one packet.
        if let Some(last) = waiting.back_mut()
            && matches!(
                packet.kind,
                PacketKind::SignalExporter | PacketKind::SignalImporter
            )
            && (last.kind, last.single, last.slot) == (packet.kind, packet.single, packet.slot)
            && (last.generation, last.connection) == (packet.generation, packet.connection)
        {
            last.count = last.count.saturating_add(packet.count);
            return;
        }
        waiting.push_back(packet);
    }

    /// Send, and try for a while to have it out of this process.
    pub(crate) fn deliver(&self, peer: Peer, packet: Packet) {
        self.send(peer, packet);
        self.push_out(peer);
    }

    /// Tell an importer that its segment is gone.
    pub(crate) fn abort(&self, importer: Importer, slot: usize, generation: u64) {
        let packet = Packet {
            kind: PacketKind::Abort,
            single: false,
            slot: slot as u32,
            generation,
            connection: importer.connection,
            count: 0,
        };
        self.send(importer.peer, packet);
    }

    fn arrived(&self, from: Peer, packet: Packet) {
        match packet.kind {
            PacketKind::Connect => self.on_connect(from, packet),
            PacketKind::Disconnect => {
                if let Some(export) = self.exported(&packet) {
                    export.importers.borrow_mut().remove(from, packet.connection);
                }
            }
            PacketKind::SignalExporter => self.on_signal(from, packet),
            PacketKind::SignalImporter | PacketKind::Abort => {
                let import = self
                    .connections
                    .borrow()
                    .get(&packet.connection)
                    .and_then(Weak::upgrade)
                    .filter(|import| import.peer == from && import.generation == packet.generation);
                match import {
                    Some(import) if packet.kind == PacketKind::Abort => import.abort("it was withdrawn"),
                    Some(import) => import.signals.add(&packet),
                    // Disconnected meanwhile; numbers that were never given out are nobody's.
                    None if packet.connection < self.next_connection.get() => {
                        if packet.kind == PacketKind::SignalImporter {
                            self.refuse(|refused| &mut refused.late);
                        }
                    }
                    None => self.stranger(
                        from,
                        "a signal for a connection of this process",
                        packet.connection,
                    ),
                }
            }
        }
    }

    /// What is published in the packet's slot, if it is what the packet means.
    fn exported(&self, packet: &Packet) -> Option<Rc<ExportState<F>>> {
        let published = self.published.borrow();
        let export = published.get(packet.slot as usize)?.as_ref()?.upgrade()?;
        let same = export
            .published
            .borrow()
            .as_ref()
            .is_some_and(|p| p.generation == packet.generation);
        same.then_some(export)
    }

    /// Somebody who is not in the table for what the packet is about.
    #[cold]
    fn stranger(&self, peer: Peer, what: &'static str, value: impl Into<u64>) {
        self.refuse(|refused| &mut refused.strangers);
        let value = value.into();
        self.fault(peer, FabricError::corrupt(peer, what, value));
    }

    fn on_connect(&self, from: Peer, packet: Packet) {
        let importer = Importer {
            peer: from,
            connection: packet.connection,
            perm: Perm(packet.count),
        };
        let Some(export) = self.exported(&packet) else {
            if packet.generation == 0 || packet.generation > self.last_generation.get() {
                return self.stranger(from, "a connection to something published", packet.generation);
            }
            // Withdrawn while the word was on its way.
            return self.abort(importer, packet.slot as usize, packet.generation);
        };
        let offered = match &export.published.borrow().as_ref().expect("found published").list {
            None => Some(export.mask),
            Some(list) => list.iter().find(|(peer, _)| *peer == from).map(|(_, perm)| *perm),
        };
        let permitted = offered.is_some();
        // What it says it has been given counts as far as it may have it.
        let granted = offered.map_or(Perm::NONE, |offered| export.granted(from, offered));
        let mut importers = export.importers.borrow_mut();
        let known = importers.has(from, packet.connection);
        let many = importers.count(from) >= CONNECTIONS_MAX;
        if !permitted {
            let id = export.published.borrow().as_ref().map_or(0, |p| p.id);
            return self.stranger(from, "a connection to a segment that it may use", id);
        }
        if known || many || !Perm::RDWR.allows(importer.perm) {
            return self.corrupt(from, "a connection that can be", u64::from(packet.count));
        }
        importers.add(Importer {
            perm: Perm(importer.perm.0 & granted.0),
            ..importer
        });
    }

    fn on_signal(&self, from: Peer, packet: Packet) {
        match self.exported(&packet) {
            Some(export) => {
                if export.importers.borrow().has(from, packet.connection) {
                    export.signals.add(&packet);
                } else {
                    let id = export.published.borrow().as_ref().map_or(0, |p| p.id);
                    self.stranger(from, "a signal for a segment that it is connected to", id);
                }
            }
            None if (1..=self.last_generation.get()).contains(&packet.generation) => {
                // Withdrawn while it was on its way.
                self.refuse(|refused| &mut refused.late);
            }
            None => self.stranger(from, "a signal for something published", packet.slot),
        }
    }

    /// Try for a while to send what waits for `peer`.
    pub(crate) fn push_out(&self, peer: Peer) {
        for _ in 0..POST_TRIES {
            if !self.outbox.borrow().contains_key(&peer) {
                return;
            }
            if !self.progress() {
                self.policy.give_way();
            }
        }
    }

    /// Wait until `ready` answers.
    ///
    /// # Errors
    /// `TIMEOUT`; `INTERRUPTED`: a handler of the program's has run while this process slept.
    pub(crate) fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let started = self.policy.now();
        let mut answer = None;
        let longest = timeout.map_or(SLEEP, |timeout| timeout.min(SLEEP));
        let look = || {
            let moved = self.progress();
            answer = ready();
            if answer.is_some() || timeout.is_some_and(|timeout| self.policy.now() - started >= timeout) {
                Look::Done
            } else if moved {
                Look::Moved
            } else {
                Look::Nothing
            }
        };
        let whole = self
            .policy
            .wait_uninterrupted(&*self.fabric, longest, self.relax.get(), look);
        answer.ok_or_else(|| RsmError::of(if whole { Code::TIMEOUT } else { Code::INTERRUPTED }))
    }
}

impl<F: Fabric> Export<F> {
    /// Signal every importer that is connected (`rsm_intr_signal_post`).
    ///
    /// # Errors
    /// None today: importers that are gone are forgotten.
    pub fn post(&self, accumulate: Accumulate) -> Result<()> {
        let state = &*self.state;
        state.inner.progress();
        let Some((slot, generation)) = state.published.borrow().as_ref().map(|p| (p.slot, p.generation))
        else {
            return Ok(());
        };
        let importers: Vec<Importer> = state.importers.borrow().iter().collect();
        for importer in importers {
            let packet = Packet {
                kind: PacketKind::SignalImporter,
                single: accumulate == Accumulate::No,
                slot: slot as u32,
                generation,
                connection: importer.connection,
                count: 1,
            };
            state.inner.deliver(importer.peer, packet);
        }
        Ok(())
    }

    /// Consume a signal, if there is one.
    ///
    /// # Errors
    /// None.
    pub fn try_wait(&self) -> Result<bool> {
        self.state.inner.progress();
        Ok(self.state.signals.take())
    }

    /// Consume a signal, waiting for it (`rsm_intr_signal_wait`); without `timeout`, for ever.
    ///
    /// # Errors
    /// `TIMEOUT`; `INTERRUPTED`: a handler of the program's has run while this process slept.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let inner = &self.state.inner;
        inner.wait(timeout, || self.state.signals.take().then_some(()))
    }

    /// Have `watcher` told whether a wait for signals would end at once, now and each time that changes, as far as progress has
    /// taken it in. None: nobody any more.
    pub fn watch(&self, watcher: Option<Watcher>) {
        self.state.signals.watch(watcher);
    }

    /// Hold the segment for somebody who polls: it cannot be destroyed until as many [`release`](Self::release_poll)s.
    pub fn hold_poll(&self) {
        self.state.signals.hold();
    }

    /// The end of one [`hold_poll`](Self::hold_poll). False: there was none.
    pub fn release_poll(&self) -> bool {
        self.state.signals.release()
    }
}

impl<F: Fabric> ImportState<F> {
    /// Consume a signal; an error where none can come any more.
    fn take_signal(&self) -> Option<Result<()>> {
        if self.signals.take() {
            return Some(Ok(()));
        }
        if self.is_aborted() {
            return Some(self.check_connected());
        }
        None
    }
}

impl<F: Fabric> Import<F> {
    /// Signal the exporter (`rsm_intr_signal_post`). What was put before is there when the signal is.
    ///
    /// # Errors
    /// `BAD_SEG_HNDL`: disconnected; `CONN_ABORTED`.
    pub fn post(&self, accumulate: Accumulate) -> Result<()> {
        let state = &*self.state;
        state.check_handle()?;
        state.inner.progress();
        if let Some(memory) = &state.memory
            && let Err(error) = memory.order()
        {
            state.failed(&error, true);
        }
        state.check_connected().inspect_err(|error| {
            let about = (state.peer.0, state.id);
            state
                .inner
                .record_error(Cause::InterruptBusy, about, error.message.clone());
        })?;
        let packet = Packet {
            single: accumulate == Accumulate::No,
            ..state.packet(PacketKind::SignalExporter, 1)
        };
        state.inner.deliver(state.peer, packet);
        Ok(())
    }

    /// Consume a signal, if there is one.
    ///
    /// # Errors
    /// `CONN_ABORTED`, when there is none.
    pub fn try_wait(&self) -> Result<bool> {
        self.state.inner.progress();
        self.state.take_signal().transpose().map(|taken| taken.is_some())
    }

    /// Consume a signal, waiting for it (`rsm_intr_signal_wait`); without `timeout`, for ever.
    ///
    /// # Errors
    /// `TIMEOUT`, `CONN_ABORTED`; `INTERRUPTED`: a handler of the program's has run while this process slept.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let inner = &self.state.inner;
        let mut last = inner.policy.now();
        let taken = inner.wait(timeout, || {
            if let Some(taken) = self.state.take_signal() {
                return Some(taken);
            }
            // The owner may end without a word.
            let now = inner.policy.now();
            if now - last >= SLEEP {
                last = now;
                return self.state.check_connected().err().map(Err);
            }
            None
        });
        taken?
    }

    /// As [`Export::watch`]; the end of the segment is something to look at, too.
    pub fn watch(&self, watcher: Option<Watcher>) {
        self.state.signals.watch(watcher);
    }

    /// As [`Export::hold_poll`].
    pub fn hold_poll(&self) {
        self.state.signals.hold();
    }

    /// As [`Export::release_poll`].
    pub fn release_poll(&self) -> bool {
        self.state.signals.release()
    }
}
