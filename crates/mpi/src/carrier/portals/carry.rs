//! MPI over Portals as a carrier.

use super::{Portals, refused};
use crate::carrier::{Chosen, Engine};
use crate::engine::Carrier;
use crate::engine::carrier::Direct;
use crate::engine::envelope::Envelope;
use crate::engine::request::{Mode, Payload, SendState};
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Line, Peer};
use farpost_portals::NetworkInterface;
use std::cell::Cell;

/// Turns in which a process has answered its own question, by itself and by way of an agent.
const OWN_TURNS: [u32; 2] = [64, 4096];

/// The carrier.
pub(crate) struct ByPortals;

impl<F: Fabric> Carrier<F, Chosen<F>> for ByPortals {
    #[inline]
    fn send_at_once(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if engine.is_busy.get(peer) || !engine.lost.is_empty() {
            return false;
        }
        portals!(engine, false).quick(peer, envelope, data)
    }

    fn send(
        engine: &mut Engine<F>,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        engine.isend_by_portals(peer, envelope, payload, mode)
    }

    #[inline]
    fn receive_at_once(
        engine: &mut Engine<F>,
        wanted: &Direct,
        to: &mut [u8],
        looks: u32,
    ) -> Option<(Rank, i32, usize)> {
        engine.receive_by_portals(wanted, to, looks)
    }

    fn receive(engine: &mut Engine<F>, handle: usize) -> Result<()> {
        let Some(recv) = engine.requests.recv(handle) else {
            return Ok(());
        };
        let (context, source, tag) = (recv.context, recv.source, recv.tag);
        if tag >= 0 {
            engine.check_tag(engine.contexts[context].id, tag)?;
        }
        engine
            .post_by_portals(handle)
            .map_err(|error| refused("a receive", error))?;
        if !engine.lost.is_empty() {
            engine.refuse_lost(handle, context, source);
        }
        Ok(())
    }

    fn take_held(
        engine: &mut Engine<F>,
        peer: Peer,
        envelope: &Envelope,
        number: u32,
        handle: Option<usize>,
    ) {
        match handle {
            Some(handle) => engine.deliver_by_portals(handle, peer, envelope, number),
            None => portals!(engine).drop_message(number),
        }
    }

    fn ask_back(engine: &mut Engine<F>, handle: usize) {
        let Some(send) = engine.requests.send(handle) else {
            return;
        };
        let SendState::Carried { number } = send.state else {
            return;
        };
        let peer = send.peer;
        portals!(engine).ask_back(number);
        // A process asks itself without the network: programs look right after the cancellation, and receive the message
        // if it was not cancelled.
        let by_agent = portals!(engine).ni.rings();
        let turns = OWN_TURNS[usize::from(by_agent)];
        for _ in 0..if peer == engine.me { turns } else { 0 } {
            if by_agent && !engine.progress_portals() {
                portals!(engine).ni.give_way();
            }
            engine.progress_portals();
            if engine.requests.is_over(handle) {
                break;
            }
        }
    }

    fn give_up(engine: &mut Engine<F>, handle: usize) -> bool {
        engine.give_up_by_portals(handle)
    }

    /// Portals has answers of its own.
    fn answer(_: &mut Engine<F>, _: Peer, _: Line) {}

    fn push(_: &mut Engine<F>, _: Peer) -> bool {
        false
    }

    /// Senders are bounded by credits.
    fn hold_back(_: &mut Engine<F>, _: Peer, _: bool) {}

    #[inline]
    fn progress(engine: &mut Engine<F>) -> bool {
        engine.progress_portals()
            || (engine.fabric.faulted() && engine.look_for_lost())
            || engine.lose_behind_agents()
    }

    fn catch_up(engine: &mut Engine<F>) {
        while engine.progress_portals() {}
    }

    fn close_peer(_: &mut Engine<F>, _: Peer) {}

    #[inline]
    fn is_ready(engine: &Engine<F>) -> Option<bool> {
        let portals = engine.carrier.portals()?;
        Some(portals.needs_progress || portals.ni.is_ready())
    }

    fn has_duties(engine: &Engine<F>) -> bool {
        engine.carrier.portals().is_some_and(Portals::has_duties)
    }

    fn has_untaken(engine: &Engine<F>, rings: &Cell<u64>) -> bool {
        rings.replace(engine.fabric.rings()) != engine.fabric.rings()
    }

    fn rest(engine: &mut Engine<F>) -> bool {
        portals!(engine, false).rest()
    }

    fn is_drained(engine: &mut Engine<F>, gone: &dyn Fn(Peer) -> bool) -> bool {
        let portals = portals!(engine, true);
        portals.rest();
        let waits = !portals.ni.is_idle();
        let (me, size) = (engine.me, engine.fabric.size());
        !waits || (0..size).map(Peer).all(|peer| peer == me || gone(peer))
    }
}
