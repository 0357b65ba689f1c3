//! Where hosts, switches and links are on the drawing.

use super::{Anchor, Cell, Drawing, Line, NodeMark, Scale, Text};
use crate::core::Core;
use crate::net::{HostId, ResourceId};
use crate::topology::{Link, Node, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// From the middle of a link to each of its directions.
const APART: f64 = 2.6;
const WIDTH: f64 = 3.6;
/// Hosts of a switch or a tree that are drawn each.
const MOST_HOSTS: u32 = 32;
/// Routers of a level that are drawn each.
const MOST_ROUTERS: u32 = 32;
/// Nodes of a row of a grid that are drawn each.
const MOST_NODES: u32 = 10;
/// And of the grid.
const MOST_OF_GRID: usize = 512;
/// Cells of a strip.
const MOST_CELLS: usize = 96;

pub(super) fn of(core: &Core, links: &[Link], scale: &Scale<'_>) -> Drawing {
    let hosts = core.adapters().count() as u32;
    match core.kernel.topology().shape() {
        Shape::Cables => cables(hosts, links),
        Shape::Switches if hosts <= MOST_HOSTS => switches(hosts, links),
        Shape::Switches => strips(&by_kind(links), scale),
        Shape::Tree {
            levels,
            routers,
            arity,
        } if hosts <= MOST_HOSTS && routers <= MOST_ROUTERS => tree(hosts, (levels, routers, arity), links),
        Shape::Tree { .. } => strips(&by_kind(links), scale),
        Shape::Grid { size, rings } => grid(hosts, (size, rings), links, scale),
        Shape::Unknown => {
            let all = core.kernel.net.resources().filter(|(_, it)| it.usage.packets > 0);
            strips(
                &[("all resources".into(), all.map(|(id, _)| id).collect())],
                scale,
            )
        }
    }
}

impl Drawing {
    fn new(size: (f64, f64), notes: &[&str]) -> Self {
        Self {
            size,
            lines: Vec::new(),
            cells: Vec::new(),
            nodes: Vec::new(),
            texts: Vec::new(),
            notes: notes.iter().map(|note| (*note).into()).collect(),
        }
    }

    /// A direction of the `nr`th of so many links side by side between two points.
    fn link(
        &mut self,
        (from, to): ((f64, f64), (f64, f64)),
        (nr, count): (usize, usize),
        resource: ResourceId,
    ) {
        let (x, y) = (to.0 - from.0, to.1 - from.1);
        let length = x.hypot(y).max(1.0);
        // On the right as seen along the way, and the links beside each other as seen from the lower end.
        let upward = if (from.0, from.1) < (to.0, to.1) {
            1.0
        } else {
            -1.0
        };
        let beside = (nr as f64 - (count as f64 - 1.0) / 2.0) * 5.5 * APART * upward + APART;
        let shift = (-y / length * beside, x / length * beside);
        let moved = |at: (f64, f64)| (at.0 + shift.0, at.1 + shift.1);
        self.lines.push(Line {
            from: moved(from),
            to: moved(to),
            width: WIDTH,
            resource,
        });
    }

    /// All links between points, those between the same two side by side.
    fn links(&mut self, links: &[Link], at: &BTreeMap<Node, (f64, f64)>) {
        let mut between: BTreeMap<(Node, Node), Vec<ResourceId>> = BTreeMap::new();
        for link in links {
            between
                .entry((link.from, link.to))
                .or_default()
                .push(link.resource);
        }
        for ((from, to), resources) in between {
            for (nr, resource) in resources.iter().enumerate() {
                self.link((at[&from], at[&to]), (nr, resources.len()), *resource);
            }
        }
    }

    fn host(&mut self, host: u32, at: (f64, f64), radius: f64) {
        self.nodes.push(NodeMark {
            at,
            radius,
            is_host: true,
            label: host.to_string(),
        });
    }

    fn switch(&mut self, at: (f64, f64), radius: f64, label: String) {
        self.nodes.push(NodeMark {
            at,
            radius,
            is_host: false,
            label,
        });
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: impl Into<String>) {
        let text = text.into();
        self.texts.push(Text { at, anchor, text });
    }
}

const RIGHT: &str = "Each direction is on the right of its way.";

fn host(number: u32) -> Node {
    Node::Host(HostId(number))
}

fn cables(hosts: u32, links: &[Link]) -> Drawing {
    let mut it = Drawing::new(
        (480.0, if hosts > 2 { 360.0 } else { 180.0 }),
        &[RIGHT, "Circles: hosts."],
    );
    let places: &[(f64, f64)] = match hosts {
        0..=2 => &[(60.0, 90.0), (420.0, 90.0)],
        _ => &[(60.0, 310.0), (420.0, 310.0), (240.0, 40.0)],
    };
    let at: BTreeMap<Node, (f64, f64)> = (0..hosts).map(|nr| (host(nr), places[nr as usize])).collect();
    it.links(links, &at);
    for nr in 0..hosts {
        it.host(nr, places[nr as usize], 16.0);
    }
    it
}

fn switches(hosts: u32, links: &[Link]) -> Drawing {
    let numbers: BTreeSet<Node> = links
        .iter()
        .flat_map(|link| [link.from, link.to])
        .filter(|it| !matches!(it, Node::Host(_)))
        .collect();
    let space: f64 = if hosts > 16 { 34.0 } else { 52.0 };
    let width = (f64::from(hosts) * space).max(420.0);
    let height = 300.0 + 30.0 * numbers.len().saturating_sub(1) as f64;
    let notes = [RIGHT, "Circles: hosts. Boxes: switches."];
    let mut it = Drawing::new((width, height), &notes);
    let x = |nr: usize, of: usize| width * (nr as f64 + 0.5) / of as f64;
    let (top, bottom) = (30.0, height - 30.0);
    let mut at: BTreeMap<Node, (f64, f64)> = BTreeMap::new();
    for (nr, switch) in numbers.iter().enumerate() {
        at.insert(*switch, (x(nr, numbers.len()), top));
    }
    for nr in 0..hosts {
        at.insert(host(nr), (x(nr as usize, hosts as usize), bottom));
    }
    it.links(links, &at);
    for (node, place) in &at {
        match node {
            Node::Host(HostId(nr)) => it.host(*nr, *place, 11.0),
            Node::Switch { number, .. } => it.switch(*place, 13.0, number.to_string()),
        }
    }
    it
}

fn tree(hosts: u32, (levels, routers, arity): (u32, u32, u32), links: &[Link]) -> Drawing {
    const LEVEL: f64 = 110.0;
    const LABELS: f64 = 62.0;
    let width = (f64::from(routers * arity) * 30.0).clamp(420.0, 1000.0);
    let height = LEVEL * f64::from(levels) + 40.0;
    let notes = [RIGHT, "Circles: hosts. Boxes: routers."];
    let mut it = Drawing::new((LABELS + width, height), &notes);
    let bottom = height - 20.0;
    let y = |level: u32| bottom - LEVEL * f64::from(level + 1);
    let mut at: BTreeMap<Node, (f64, f64)> = BTreeMap::new();
    for nr in 0..hosts {
        let x = LABELS + width * (f64::from(nr) + 0.5) / f64::from(routers * arity);
        at.insert(host(nr), (x, bottom));
    }
    for level in 0..levels {
        it.text((0.0, y(level) + 4.0), Anchor::Start, format!("level {level}"));
        for number in 0..routers {
            let x = LABELS + width * (f64::from(number) + 0.5) / f64::from(routers);
            at.insert(Node::Switch { level, number }, (x, y(level)));
        }
    }
    it.text((0.0, bottom + 4.0), Anchor::Start, "hosts");
    it.links(links, &at);
    for (node, place) in &at {
        match node {
            Node::Host(HostId(nr)) => it.host(*nr, *place, 10.0),
            Node::Switch { number, .. } => it.switch(*place, 9.0, number.to_string()),
        }
    }
    it
}

/// Links of the same kind together, such as those up from a level.
fn by_kind(links: &[Link]) -> Vec<(String, Vec<ResourceId>)> {
    let mut kinds: BTreeMap<(u32, u32, String), Vec<ResourceId>> = BTreeMap::new();
    for link in links {
        let key = match (link.from, link.to) {
            (Node::Host(_), Node::Host(_)) => (0, 0, "between hosts".to_owned()),
            (Node::Host(_), Node::Switch { level, .. }) => (0, 0, format!("hosts to level {level}")),
            (Node::Switch { level, .. }, Node::Switch { level: to, .. }) if to > level => {
                (0, level + 1, format!("level {level} to level {to}"))
            }
            (Node::Switch { level, .. }, Node::Switch { level: to, .. }) => {
                (1, u32::MAX - level, format!("level {level} to level {to}"))
            }
            (Node::Switch { level, .. }, Node::Host(_)) => (2, 0, format!("level {level} to hosts")),
        };
        kinds.entry(key).or_default().push(link.resource);
    }
    kinds.into_iter().map(|((_, _, name), all)| (name, all)).collect()
}

/// A row for each kind, whose cells have the busiest of some links.
fn strips(kinds: &[(String, Vec<ResourceId>)], scale: &Scale<'_>) -> Drawing {
    const LABELS: f64 = 130.0;
    const CELL: f64 = 7.0;
    const ROW: f64 = 62.0;
    const TALL: f64 = 26.0;
    let cells = kinds
        .iter()
        .map(|(_, all)| all.len().min(MOST_CELLS))
        .max()
        .unwrap_or(1);
    let width = (LABELS + CELL * cells as f64).max(420.0);
    let notes = ["A cell has the busiest of its links."];
    let mut it = Drawing::new((width, ROW * kinds.len().max(1) as f64), &notes);
    for (row, (name, all)) in kinds.iter().enumerate() {
        let top = ROW * row as f64;
        it.text((0.0, top + 17.0), Anchor::Start, name.as_str());
        let each = all.len().div_ceil(MOST_CELLS).max(1);
        let loads: Vec<f64> = all.iter().map(|id| scale.load(*id)).collect();
        for (nr, some) in all.chunks(each).enumerate() {
            let busiest = some
                .iter()
                .max_by(|a, b| scale.load(**a).total_cmp(&scale.load(**b)));
            let Some(busiest) = busiest else { continue };
            it.cells.push(Cell {
                at: (LABELS + CELL * nr as f64, top),
                size: (CELL - 1.0, TALL),
                load: scale.load(*busiest),
                title: format!("the busiest of {}: {}", some.len(), scale.title(*busiest)),
            });
        }
        let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
        let most = loads.iter().copied().fold(0.0, f64::max);
        let under = format!(
            "{} links, {each} in a cell; {mean:.1} % on average, {most:.1} % at most",
            all.len()
        );
        it.text((LABELS, top + TALL + 15.0), Anchor::Start, under);
    }
    it
}

/// The planes of a torus or mesh, side by side.
fn grid(hosts: u32, (size, rings): ([u32; 3], [bool; 3]), links: &[Link], scale: &Scale<'_>) -> Drawing {
    let place = |node: u32| [node % size[0], node / size[0] % size[1], node / size[0] / size[1]];
    let ends = links.iter().flat_map(|link| [link.from, link.to]);
    let linked = ends.filter_map(|node| match node {
        Node::Host(HostId(number)) => Some(number),
        Node::Switch { .. } => None,
    });
    let nodes: BTreeSet<u32> = linked.chain(0..hosts).collect();
    let most = |dimension: usize| {
        nodes
            .iter()
            .map(|node| place(*node)[dimension] + 1)
            .max()
            .unwrap_or(1)
    };
    let used = [most(0), most(1), most(2)];
    let large = used[0].max(used[1]) > MOST_NODES || nodes.len() > MOST_OF_GRID;
    let step = match (large, nodes.len()) {
        (true, _) => 7.0,
        (false, 0..100) => 66.0,
        (false, _) => 40.0,
    };
    let plane = (f64::from(used[0]) * step, f64::from(used[1]) * step + 24.0);
    // Somewhat wider than high, and no wider than a screen; rows are of the same length.
    let (wide, high) = (plane.0 + 26.0, plane.1 + 18.0);
    let fits = ((1000.0 / wide) as u32).clamp(1, used[2].max(1));
    let across = ((f64::from(used[2]) * 1.3 * high / wide).sqrt().round() as u32).clamp(1, fits);
    let down = used[2].div_ceil(across);
    let across = used[2].div_ceil(down).max(1);
    let total = (
        (f64::from(across) * (plane.0 + 26.0) - 26.0).max(300.0),
        f64::from(down) * (plane.1 + 18.0),
    );
    let mut it = Drawing::new(total, &[]);
    let corner = |z: u32| {
        let (column, row) = (z % across, z / across);
        (
            f64::from(column) * (plane.0 + 26.0),
            f64::from(row) * (plane.1 + 18.0),
        )
    };
    let at = |node: u32| {
        let [x, y, z] = place(node);
        let (left, top) = corner(z);
        // y goes up.
        let row = used[1] - 1 - y;
        (
            left + (f64::from(x) + 0.5) * step,
            top + 24.0 + (f64::from(row) + 0.5) * step,
        )
    };
    if used[2] > 1 {
        for z in 0..used[2] {
            let (left, top) = corner(z);
            it.text((left, top + 12.0), Anchor::Start, format!("z = {z}"));
        }
    }
    if large {
        squares(&mut it, &nodes, links, scale, (step, &at, &place));
        return it;
    }
    it.notes = vec!["x to the right, y up.".into(), RIGHT.into()];
    if used[2] > 1 {
        it.notes
            .push("Slanting: z+ to the upper right, z- to the lower left.".into());
    }
    if (0..2).any(|dimension| rings[dimension] && used[dimension] > 1) {
        it.notes
            .push("At the edges: the links that close the rings.".into());
    }
    for link in links {
        let (Node::Host(HostId(from)), Node::Host(HostId(to))) = (link.from, link.to) else {
            continue;
        };
        let (a, b) = (place(from), place(to));
        let dimension = (0..3)
            .find(|dimension| a[*dimension] != b[*dimension])
            .unwrap_or(0);
        let begin = at(from);
        let is_up = (a[dimension] + 1) % size[dimension] == b[dimension]
            && !(size[dimension] == 2 && a[dimension] == 1);
        let up = if is_up { 1.0 } else { -1.0 };
        let next = a[dimension].abs_diff(b[dimension]) == 1;
        match dimension {
            2 => {
                let end = (begin.0 + up * step * 0.36, begin.1 - up * step * 0.36);
                it.lines.push(Line {
                    from: begin,
                    to: end,
                    width: WIDTH,
                    resource: link.resource,
                });
            }
            _ if next && !closes(links, link, (size[dimension], rings[dimension])) => {
                it.link((begin, at(to)), (0, 1), link.resource);
            }
            _ => {
                // What closes a ring is half a link at the edge.
                let out = if a[dimension] == 0 { -1.0 } else { 1.0 };
                let half = step * 0.46 * out;
                let end = if dimension == 0 {
                    (begin.0 + half, begin.1)
                } else {
                    (begin.0, begin.1 - half)
                };
                it.link((begin, end), (0, 1), link.resource);
            }
        }
    }
    for node in &nodes {
        it.host(*node, at(*node), if step > 50.0 { 10.0 } else { 8.5 });
    }
    it
}

/// In a ring of two the second link between the same nodes closes it.
fn closes(links: &[Link], link: &Link, (size, ring): (u32, bool)) -> bool {
    let twin = |it: &&Link| it.from == link.from && it.to == link.to;
    ring && size == 2
        && links
            .iter()
            .find(twin)
            .is_some_and(|first| first.resource != link.resource)
}

type Places<'a> = (f64, &'a dyn Fn(u32) -> (f64, f64), &'a dyn Fn(u32) -> [u32; 3]);

/// A square for each node, of the busiest of the links that begin there.
fn squares(
    it: &mut Drawing,
    nodes: &BTreeSet<u32>,
    links: &[Link],
    scale: &Scale<'_>,
    (step, at, place): Places<'_>,
) {
    it.notes = vec![
        "x to the right, y up.".into(),
        "A square has the busiest link that begins there.".into(),
    ];
    let mut busiest: BTreeMap<u32, ResourceId> = BTreeMap::new();
    for link in links {
        if let Node::Host(HostId(from)) = link.from {
            let known = busiest.entry(from).or_insert(link.resource);
            if scale.load(link.resource) > scale.load(*known) {
                *known = link.resource;
            }
        }
    }
    for node in nodes {
        let ((x, y), [a, b, c]) = (at(*node), place(*node));
        let link = busiest.get(node);
        it.cells.push(Cell {
            at: (x - step / 2.0, y - step / 2.0),
            size: (step - 1.0, step - 1.0),
            load: link.map_or(0.0, |link| scale.load(*link)),
            title: link.map_or(format!("node ({a},{b},{c})"), |link| scale.title(*link)),
        });
    }
}
