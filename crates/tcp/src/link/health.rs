//! Health of rails: up, suspected, down, reconnected; and everything that depends on the clock.

use super::RailNumber;
use super::bulk::shrink;
use super::link::{Event, HostRoute, Link};
use super::log::NOWHERE;
use super::rail::{Checks, PartialFrame, Rail, RailState, TransportReport};

const MS: u64 = 1_000_000;

/// Nothing sent for so long, nanoseconds, and at most twice as long: memory is given back.
const REST: u64 = 500 * MS;

impl Link {
    /// A rail has a connection, authenticated and empty. An older connection of it counts as closed.
    pub fn on_rail_up(&mut self, rail: RailNumber, checks: Checks, now: u64) {
        if self.rails[rail].state != RailState::Down {
            self.take_down(rail, now);
        }
        // What may have got lost is sent again once the peer has told what it has.
        let ready = self.high == self.log.first()
            && self
                .serves
                .iter()
                .all(|s| s.flying.is_empty() && s.again.total() == 0);
        self.connections = self.connections.wrapping_add(1).max(1);
        self.rails[rail].connected((self.connections, checks), ready, now);
        self.ever_up = true;
        self.last_alive = now;
        self.settle();
        self.wake_at(now);
    }

    /// A rail's connection is gone, or an attempt to make one failed.
    pub fn on_rail_down(&mut self, rail: RailNumber, now: u64) {
        if self.rails[rail].state != RailState::Down {
            if self.rails[rail].state == RailState::Up {
                // A reset is an answer, too.
                self.last_alive = now;
            }
            self.take_down(rail, now);
            self.settle();
        }
        self.wake_at(now);
    }

    /// An attempt to connect came to nothing; `everywhere`: the last attempt at every address was refused by a host that lives. A process
    /// listens before it can be found, so it has ended: the bound counts from then on, not the time allowed for connecting.
    pub fn on_refused(&mut self, everywhere: bool, now: u64) {
        self.refused_since = everywhere.then(|| self.refused_since.unwrap_or(now));
    }

    /// The peer's host answers on this rail although the rail is not up yet (its transport is connected, the peer's
    /// process has not answered): the link is not lost while this goes on. To be called from time to time.
    pub fn on_rail_alive(&mut self, _rail: RailNumber, now: u64) {
        self.last_alive = now;
    }

    /// The answer to [`Event::Ask`].
    pub fn on_report(&mut self, rail: RailNumber, report: TransportReport, now: u64) {
        let limit = self.limit(rail);
        let bound = self.bound();
        let idle = self.config.tunables.idle * MS;
        let r = &mut self.rails[rail];
        if r.state == RailState::Down {
            return;
        }
        let before = r.acknowledged.replace(report.acknowledged);
        let reported_at = std::mem::replace(&mut r.reported_at, now);
        // What was acknowledged since an old report may have been long ago.
        let before = before.filter(|_| now.saturating_sub(reported_at) <= 2 * limit);
        let moved = before.is_some_and(|b| report.acknowledged > b);
        if !report.in_flight || moved {
            // The host was there after what it has was sent.
            let alive = if moved { reported_at } else { r.written_at };
            self.last_alive = self.last_alive.max(alive);
            r.excuses += 1;
            r.quiet_since = now;
            // The host has it; whether the process looks is its own affair. Ask less and less often.
            r.ask_at = now + (limit << r.excuses.min(8)).min(bound / 4);
            if idle > 0 && !report.in_flight {
                // With nothing in flight the next report could not tell a dead host from a silent one.
                let asked = r.pinged_at.max(r.probed);
                if now >= asked + idle {
                    r.ping_due = true;
                } else {
                    r.ask_at = r.ask_at.min(asked + idle);
                }
            }
            if r.state == RailState::Suspect {
                r.state = RailState::Up;
                self.settle();
            }
        } else if before.is_none() {
            r.ask_at = now + limit / 2;
        } else {
            r.excuses = 0;
            r.ask_at = now + limit;
            if r.state == RailState::Up {
                self.suspect(rail, now);
            }
        }
        self.deadline = 0;
    }
    /// What this link knows of a rail's route. None: there is no such rail, or it has no connection.
    pub fn route(&self, rail: RailNumber) -> Option<HostRoute> {
        let r = self.rails.get(rail)?;
        let up = r.state == RailState::Up;
        let asked = if r.ping_due { self.last_poll } else { r.pinged_at };
        (r.state != RailState::Down).then(|| HostRoute {
            probed: if up { r.heard.max(asked) } else { 0 },
            alive: if up { self.last_alive } else { 0 },
            suspected: !up,
        })
    }
    /// What other links between the same hosts know of this rail's route. As long as one of them receives by it or pings, this link need not ping; when one suspects it, this link asks at once, so that all of them find a dead host in
    /// the time that one takes.
    pub fn on_route(&mut self, rail: RailNumber, route: &HostRoute, now: u64) {
        let limit = self.limit(rail);
        let Some(r) = self.rails.get_mut(rail).filter(|r| r.state == RailState::Up) else {
            return;
        };
        if !route.suspected {
            r.probed = route.probed.min(now);
            self.last_alive = self.last_alive.max(route.alive.min(now));
            return;
        }
        r.probed = 0;
        if !r.ping_due && now >= r.heard.max(r.pinged_at) + limit {
            if !r.waiting() {
                r.quiet_since = now;
            }
            r.ping_due = true;
            self.wake_at(now);
        }
    }

    /// Memory that was used for sending is given back when nothing was sent for a while.
    fn rest(&mut self, now: u64) {
        self.rest_at = now + REST;
        let mark = std::mem::replace(&mut self.rest_mark, self.log.end());
        let idle = |r: &Rail| r.offer.is_empty() && r.rest.is_none();
        self.rested = mark == self.rest_mark && self.log.len() == 0 && self.rails.iter().all(idle);
        if self.rested {
            let queues = shrink(&mut self.serves) + shrink(&mut self.bulk_acks) + shrink(&mut self.events);
            let freed = self.log.shrink() + self.zcopy.shrink() + queues;
            *self.freed.get_or_insert(0) += freed;
            for r in &mut self.rails {
                r.saved = Vec::new();
            }
        }
    }

    pub(super) fn bound(&self) -> u64 {
        self.config.tunables.bound * MS
    }

    /// Silence after which a rail is looked at.
    pub(super) fn limit(&self, rail: RailNumber) -> u64 {
        let rtt = self.rails[rail].rtt;
        (self.config.tunables.suspect * MS)
            .max(8 * rtt)
            .min(self.bound() / 4)
    }

    fn suspect(&mut self, rail: RailNumber, now: u64) {
        let r = &mut self.rails[rail];
        r.state = RailState::Suspect;
        r.ping_due = r.ping.is_none();
        r.ask_at = now + 1;
        self.counters.suspicions += 1;
        self.settle();
    }

    /// An acknowledgement of something sent on this rail came in.
    #[inline]
    pub(super) fn progressed(&mut self, rail: RailNumber, now: u64) {
        let r = &mut self.rails[rail];
        r.quiet_since = now;
        r.excuses = 0;
        if r.state == RailState::Suspect {
            r.state = RailState::Up;
            self.settle();
        }
    }

    pub(super) fn drop_rail(&mut self, rail: RailNumber, why: &'static str, now: u64) {
        self.take_down(rail, now);
        self.events.push_back(Event::Drop { rail, why });
        self.settle();
    }

    fn take_down(&mut self, rail: RailNumber, now: u64) {
        self.counters.downs += 1;
        if self.lead == Some(rail) {
            self.lead = None;
        }
        let ordered = self.rails[rail].ordered_out > 0
            || matches!(self.rails[rail].rest, Some(PartialFrame::Log { .. }));
        if ordered {
            self.rewind();
        }
        let bulk = self.requeue(rail);
        self.counters.reroutes += u64::from(ordered || bulk);
        let r = &mut self.rails[rail];
        r.before.reroutes += u64::from(ordered || bulk);
        r.state = RailState::Down;
        r.ready = false;
        r.rest = None;
        r.ping = None;
        r.timed = None;
        r.pong_due = None;
        r.offer.clear();
        r.connect_at = now;
        r.attempts = 0;
        self.down_since = now;
        self.deadline = 0;
    }

    /// Send every frame that is not acknowledged again.
    fn rewind(&mut self) {
        for entry in self.log.entries() {
            if entry.rail != NOWHERE {
                self.rails[entry.rail as usize].ordered_out -= u64::from(entry.len);
                entry.rail = NOWHERE;
            }
        }
        self.cursor = self.log.first();
        for rail in &mut self.rails {
            rail.timed = None;
            rail.offer.clear();
        }
    }

    /// The chunks that fly on this rail are to be sent again. Whether there were any.
    fn requeue(&mut self, rail: RailNumber) -> bool {
        let before = self.counters.bulk_again;
        for serve in &mut self.serves {
            let again = &mut serve.again;
            let counters = &mut self.counters;
            serve.flying.retain(|chunk| {
                let stays = usize::from(chunk.rail) != rail;
                if !stays {
                    again.add(chunk.offset, chunk.offset + u64::from(chunk.len));
                    counters.bulk_again += u64::from(chunk.len);
                }
                stays
            });
        }
        self.rails[rail].bulk_out = 0;
        self.counters.bulk_again != before
    }

    /// Choose the rail of ordered frames anew, and move what lies on suspected rails.
    pub(super) fn settle(&mut self) {
        let cost = |r: &Rail| if r.least == 0 { u64::MAX } else { r.least };
        let best = (0..self.rails.len())
            .filter(|&i| self.rails[i].is_usable())
            .min_by_key(|&i| (cost(&self.rails[i]), i));
        self.lead = match (self.lead, best) {
            (Some(old), Some(new)) if self.rails[old].is_usable() => {
                // Every change lets frames overtake each other: not for little.
                let better = cost(&self.rails[new]) < cost(&self.rails[old]) / 5 * 4;
                let known = self.rails[old].least != 0;
                Some(if better && known { new } else { old })
            }
            (_, Some(new)) => Some(new),
            (Some(old), None) => Some(old),
            (None, None) => (0..self.rails.len())
                .find(|&i| self.rails[i].state == RailState::Suspect && self.rails[i].ready),
        };
        if best.is_none() {
            return;
        }
        for rail in 0..self.rails.len() {
            if self.rails[rail].state == RailState::Suspect {
                let ordered = self.rails[rail].ordered_out > 0;
                if ordered {
                    self.rewind();
                }
                let bulk = self.requeue(rail);
                self.counters.reroutes += u64::from(ordered || bulk);
                self.rails[rail].before.reroutes += u64::from(ordered || bulk);
            }
        }
    }

    /// Look at the clock: acknowledgements that are due, rails that are silent. Cheap before
    /// [`Link::next_deadline`]. Read what has arrived before calling it, and take the events after.
    #[inline]
    pub fn poll(&mut self, now: u64) {
        let away = now.saturating_sub(self.last_poll);
        self.last_poll = now;
        if now >= self.deadline {
            self.look(now, away);
        }
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Link::poll`] has something to do at the latest.
    pub fn next_deadline(&self) -> u64 {
        self.deadline
    }

    #[inline]
    pub(super) fn wake_at(&mut self, at: u64) {
        self.deadline = self.deadline.min(at);
    }

    #[cold]
    fn look(&mut self, now: u64, away: u64) {
        let bound = self.bound();
        if away > 3 * bound / 16 {
            // Longer than between two attempts to connect: they get another chance before the peer is given up.
            self.looking_since = now;
        }
        if away > bound / 2 {
            // This process did not look for long: silence in that time is its own.
            self.last_alive = self.last_alive.saturating_add(away).min(now);
            for rail in &mut self.rails {
                rail.quiet_since = rail.quiet_since.saturating_add(away).min(now);
                rail.heard = rail.heard.saturating_add(away).min(now);
            }
        }
        if now >= self.ack_at {
            self.ack_due = true;
            self.ack_at = u64::MAX;
        }
        if now >= self.bulk_ack_at {
            self.bulk_ack_at = u64::MAX;
            self.acknowledge_gets();
        }
        if now >= self.rest_at {
            self.rest(now);
        }
        let rested =
            self.rested && self.rest_mark == self.log.end() && self.memory() + self.zcopy.kept() == 0;
        let rest = if rested { u64::MAX } else { self.rest_at };
        let mut next = self.ack_at.min(self.bulk_ack_at).min(rest);
        let ending = self.bye_heard || self.lost;
        for rail in 0..self.rails.len() {
            let at = match self.rails[rail].state {
                RailState::Down if ending => u64::MAX,
                RailState::Down => self.look_down(rail, now),
                _ => self.look_up(rail, now),
            };
            next = next.min(at);
        }
        let none = self.rails.iter().all(|r| r.state == RailState::Down);
        if none && !ending {
            let allowed = if self.ever_up { bound } else { self.config.connect };
            let refused = self.refused_since.map_or(u64::MAX, |since| since + bound);
            let waited = now.saturating_sub(self.last_alive);
            // Time for a few attempts to connect there must be.
            let chance = self.down_since.max(self.looking_since) + allowed.min(bound) / 4;
            let until = (self.last_alive + allowed).min(refused).max(chance);
            if now >= until {
                self.lost = true;
                self.events.push_back(Event::Lost {
                    rails: self.rails.len(),
                    waited_ns: waited,
                });
            } else {
                next = next.min(until);
            }
        }
        self.deadline = next.max(now + 1);
    }

    /// A rail without a connection: ask for one, less and less often.
    fn look_down(&mut self, rail: RailNumber, now: u64) -> u64 {
        let bound = self.bound();
        let alone = self.rails.iter().all(|r| r.state == RailState::Down);
        let most = if alone { bound / 8 } else { bound };
        let r = &mut self.rails[rail];
        r.connect_at = r.connect_at.min(now + most);
        if now >= r.connect_at {
            r.connect_at = now + ((20 * MS) << r.attempts.min(10)).min(most).max(MS);
            r.attempts += 1;
            self.events.push_back(Event::Reconnect(rail));
        }
        self.rails[rail].connect_at
    }

    fn look_up(&mut self, rail: RailNumber, now: u64) -> u64 {
        let limit = self.limit(rail);
        let idle = self.config.tunables.idle * MS;
        let dead = self.bound() / 2;
        let reports = self.config.reports;
        let r = &mut self.rails[rail];
        if !r.waiting() {
            if idle == 0 {
                return u64::MAX;
            }
            let heard = r.heard.max(r.probed);
            if now < heard + idle {
                return heard + idle;
            }
            r.ping_due = true;
            r.quiet_since = now;
        }
        let quiet = now.saturating_sub(r.quiet_since);
        if r.state == RailState::Suspect && quiet >= dead && (!reports || r.acknowledged.is_some()) {
            self.drop_rail(rail, "the peer's host did not answer on it", now);
            return self.look_down(rail, now);
        }
        let look = (r.quiet_since + limit).max(r.ask_at);
        if now < look {
            return look.min(if r.state == RailState::Suspect {
                r.quiet_since + dead
            } else {
                u64::MAX
            });
        }
        r.ask_at = now + limit;
        if reports {
            self.events.push_back(Event::Ask(rail));
        } else if r.state == RailState::Up {
            self.suspect(rail, now);
        }
        now + limit
    }

    /// A token that no ping under way has.
    pub(super) fn token(&mut self) -> u32 {
        self.ping_token = self.ping_token.wrapping_add(1);
        self.ping_token
    }
}
