//! Whose message leaves next.
//!
//! *Fair* is a queue for each target: who takes nothing holds up nobody but itself, and the others take turns, each in a turn as much as its window
//! allows. *One FIFO* is what the paper's firmware has (section 4.3): "all transmits, regardless of destination or process type, are
//! serialized through a single TX FIFO". A message leaves when all of it is on its way, or has been fetched; only then the next one begins,
//! whoever it is for. So whoever takes nothing holds up everybody's (head-of-line blocking). Answers and requests have a FIFO each, where
//! the paper has one for both: an answer that waited for a request could make processes wait for each other in a circle.
//!
//! Cost class: queued path.

use super::*;
use crate::net::table::NONE;

/// How messages to several processes take turns (`FARPOST_PORTALS_TRANSMIT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::FromRepr)]
#[repr(u64)]
pub enum TransmitPolicy {
    /// Each process has a queue of its own, and they take turns.
    #[default]
    Fair = 0,
    /// One FIFO for all processes, in the order of the calls, as on the SeaStar.
    OneFifo = 1,
}

/// The FIFOs of both channels: what waits in the queues of the targets, in the order of tickets.
#[derive(Default)]
pub struct Fifo {
    drawn: u64,
    /// By channel, a message whose body is being fetched: its target and its ticket.
    leaving: [Option<(u16, u64)>; 2],
}

impl Fifo {
    /// The ticket of one more message. The first has 1.
    pub fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }
}

impl<F: Fabric> Transmit<F> {
    /// Of what waits the oldest of a channel: its target, its number and its ticket.
    fn oldest(&mut self, index: usize) -> Option<(u16, u16, u64)> {
        let (targets, pendings) = (&mut self.targets, &mut self.pendings);
        let waiting = self.active.iter().filter_map(|&at| {
            let (number, _) = targets.at(at).queues[index].waiting()?;
            Some((at, number, pendings.at(number).ticket))
        });
        waiting.min_by_key(|(_, _, ticket)| *ticket)
    }

    /// Whether the body of the message that left last is still being fetched. One that was refused waits again, and does not count.
    fn is_leaving(&mut self, index: usize) -> bool {
        let Some((at, ticket)) = self.fifo.as_ref().and_then(|fifo| fifo.leaving[index]) else {
            return false;
        };
        let pendings = &mut self.pendings;
        let there = self.targets.get(at).is_some_and(|target| {
            let queue = &target.queues[index];
            let mut is_ours = |number: u16| number != NONE && pendings.at(number).ticket <= ticket;
            is_ours(queue.head()) && !queue.waiting().is_some_and(|(number, _)| is_ours(number))
        });
        if !there && let Some(fifo) = &mut self.fifo {
            fifo.leaving[index] = None;
        }
        there
    }

    /// Send what a channel may send now, in the order of tickets. `turn` is the progress call; without it pauses are not over. True: something went.
    #[inline(never)]
    pub(super) fn go_in_order(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        figures: &mut Figures,
        index: usize,
        turn: Option<u64>,
    ) -> bool {
        let mut moved = false;
        while !self.is_leaving(index)
            && let Some((at, number, ticket)) = self.oldest(index)
        {
            let target = self.targets.at(at);
            let pauses = match turn {
                Some(turn) => target.pauses(turn),
                None => target.is_waiting(),
            };
            if pauses {
                break;
            }
            let kind = self.pendings.at(number).kind;
            moved |= self.go::<true>(fabric, (rx, lines), figures, at, index);
            let left = self.targets.at(at).queues[index].waiting();
            if left.is_some_and(|(left, _)| left == number) {
                break;
            }
            if matches!(kind, PacketKind::Pull | PacketKind::Gather)
                && let Some(fifo) = &mut self.fifo
            {
                fifo.leaving[index] = Some((at, ticket));
            }
        }
        moved
    }

    /// As [`pump`](Self::pump), in the order of tickets. Whoever has something that waits stays active, blocked or not.
    #[inline(never)]
    pub(super) fn pump_in_order(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
        figures: &mut Figures,
        turn: u64,
    ) -> bool {
        let mut moved = false;
        for index in 0..2 {
            moved |= self.go_in_order(fabric, (rx, lines), figures, index, Some(turn));
        }
        let targets = &mut self.targets;
        self.active.retain(|&at| {
            let target = targets.at(at);
            target.active = target.has_waiting();
            target.active
        });
        moved
    }
}
