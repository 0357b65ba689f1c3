//! Fat trees: routers in levels with `k` links down and `k` up each (`k = radix / 2`), so `k^levels` hosts (k-ary n-trees; Arctic: k = 2).
//!
//! A router is a level, counted from the hosts, and a number of `levels - 1` digits to the base `k`. Up link `u` of router `w` on level `l` leads to the router above whose
//! digit `l` is `u` and whose others are `w`'s; down link `d` of a router on level `l` to the one below whose digit `l - 1` is `d`, or to a host.
//! Two hosts whose numbers differ in digit `m` last meet at level `m`: a path goes up `m` times, and whichever of the `k^m` routers there it chooses, one way down is left.
//! `time = 2 latency + 2 m hop + bytes / rate`.
//!
//! [`Route::Fixed`] `n` chooses by the digits of `n`, each added to the destination's: paths to different hosts are spread, those from one host to another always the same.
//! [`Route::Random`] chooses by the digits of the random number. Where a link of the choice is broken, the next choice is taken.

use super::link::{Cable, direction, lane_of};
use super::{By, Link, Node, Port, Shape, Topology, whole};
use crate::machine::FatTreeSpec;
use crate::net::{Hop, HostId, Network, ResourceId};
use farpost_fabric::Route;

pub(super) struct FatTree {
    arity: u32,
    /// Of a level.
    routers: u32,
    priorities: u8,
    /// By host: `a` is the host, `b` its router.
    cables: Vec<Cable>,
    /// By level, router and link; the top has none.
    up: Vec<ResourceId>,
    /// By level less one, router and link; the lowest has hosts.
    down: Vec<ResourceId>,
}

impl FatTree {
    pub fn new<L>(spec: &FatTreeSpec, hosts: u32, net: &mut Network<L>) -> Self {
        let (arity, levels, link) = (spec.arity(), spec.levels.0, &spec.link);
        let routers = arity.pow(levels - 1);
        let latency = link.latency.value;
        let cables = (0..hosts)
            .map(|host| {
                let ends = (
                    &format!("host {host}")[..],
                    &format!("router {} of level 0", host / arity)[..],
                );
                Cable::new(net, link, ends, (latency, latency))
            })
            .collect();
        let mut between = |way: &str, first: u32| -> Vec<ResourceId> {
            let levels = first..first + levels - 1;
            let all = levels.flat_map(|level| {
                (0..routers).flat_map(move |router| (0..arity).map(move |nr| (level, router, nr)))
            });
            let name = |(level, router, nr)| format!("{way} link {nr} of router {router} of level {level}");
            all.map(|which| direction(net, link, name(which), spec.hop.value, 1))
                .collect()
        };
        Self {
            arity,
            routers,
            priorities: link.priorities(),
            cables,
            up: between("up", 0),
            down: between("down", 1),
        }
    }

    fn digit(&self, number: u32, place: u32) -> u32 {
        number / self.arity.pow(place) % self.arity
    }

    fn with_digit(&self, number: u32, place: u32, digit: u32) -> u32 {
        number + digit * self.arity.pow(place) - self.digit(number, place) * self.arity.pow(place)
    }

    fn link(&self, links: &[ResourceId], level: u32, router: u32, nr: u32) -> ResourceId {
        links[((level * self.routers + router) * self.arity + nr) as usize]
    }

    /// Between the hosts' own links, with the choice's digits as the up links.
    fn push(&self, (from, to): (u32, u32), turn: u32, choice: u32, lane: u8, path: &mut Vec<Hop>) {
        let mut router = from / self.arity;
        for level in 0..turn {
            let up = self.digit(choice, level);
            let resource = self.link(&self.up, level, router, up);
            path.push(Hop { resource, lane });
            router = self.with_digit(router, level, up);
        }
        for level in (0..turn).rev() {
            let down = self.digit(to, level + 1);
            let resource = self.link(&self.down, level, router, down);
            path.push(Hop { resource, lane });
            router = self.with_digit(router, level, down);
        }
    }
}

impl Topology for FatTree {
    fn rails(&self) -> u32 {
        1
    }

    fn shape(&self) -> Shape {
        let levels = 1 + self.up.len() as u32 / (self.routers * self.arity);
        Shape::Tree {
            levels,
            routers: self.routers,
            arity: self.arity,
        }
    }

    fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (host, cable) in (0..).zip(&self.cables) {
            let router = Node::Switch {
                level: 0,
                number: host / self.arity,
            };
            links.extend(cable.links(Node::Host(HostId(host)), router, 0));
        }
        let switch = |level, number| Node::Switch { level, number };
        let each = self.routers * self.arity;
        for (at, resource) in (0..).zip(&self.up) {
            let (level, router, nr) = (at / each, at % each / self.arity, at % self.arity);
            links.push(Link {
                resource: *resource,
                from: switch(level, router),
                to: switch(level + 1, self.with_digit(router, level, nr)),
                rail: 0,
            });
        }
        for (at, resource) in (0..).zip(&self.down) {
            let (level, router, nr) = (at / each + 1, at % each / self.arity, at % self.arity);
            links.push(Link {
                resource: *resource,
                from: switch(level, router),
                to: switch(level - 1, self.with_digit(router, level - 1, nr)),
                rail: 0,
            });
        }
        links
    }

    fn path(
        &self,
        (from, to): (Port, Port),
        lane: u8,
        by: By,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool {
        if from.host == to.host {
            return true;
        }
        if from.rail != 0 || to.rail != 0 {
            return false;
        }
        let (from, to) = (from.host.0, to.host.0);
        let mut turn = 0;
        while from / self.arity.pow(turn + 1) != to / self.arity.pow(turn + 1) {
            turn += 1;
        }
        let choices = self.arity.pow(turn);
        let first = match by.route {
            Route::Random => by.number % choices,
            Route::Fixed(number) => (0..turn).fold(0, |choice, level| {
                let digit = self.digit(u32::from(number), level) + self.digit(to, level);
                self.with_digit(choice, level, digit % self.arity)
            }),
        };
        let before = path.len();
        (0..choices).any(|next| {
            self.cables[from as usize].push_to_b(lane, path);
            let between = (from, to);
            let inner = lane_of(self.priorities, lane);
            self.push(between, turn, (first + next) % choices, inner, path);
            self.cables[to as usize].push_to_a(lane, path);
            whole(path, before, broken)
        })
    }
}
