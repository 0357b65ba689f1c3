//! The network as a picture (SVG): hosts, switches and links where they are, coloured by the share of the time in which they were busy.
//!
//! Each direction of a link is a line of its own, on the right as seen along its way. What is too large for lines is summarised: nodes of a grid as squares, levels of a tree and
//! cables of a switch as strips, whose cells have the busiest of their links. Beside it are the scale and the busiest links by name.

mod layout;
mod svg;

use super::tables::share;
use crate::core::Core;
use crate::net::{Resource, ResourceId};
use std::collections::BTreeSet;
use std::io::{self, Write};
use svg::{Anchor, Svg};

/// Between the drawing, the texts and the edges.
const MARGIN: f64 = 24.0;
/// Of the texts beside the drawing.
const PANEL: f64 = 330.0;
const TITLE: f64 = 70.0;
/// Links that are named.
const NAMED: usize = 10;
/// Links that have their number on the drawing.
const NUMBERED: usize = 5;
/// Resources that are no links and named.
const OTHERS: usize = 4;
/// Of a text of 11 pixels, about.
const CHARACTER: f64 = 6.1;

const INK: &str = "#1f2933";
const FAINT: &str = "#6b7785";
const IDLE: &str = "#d5dbe1";

/// From little load to much.
const COLOURS: [(u8, u8, u8); 5] = [
    (146, 197, 222),
    (84, 160, 180),
    (253, 200, 90),
    (240, 115, 55),
    (165, 15, 38),
];

/// What is drawn.
struct Drawing {
    size: (f64, f64),
    lines: Vec<Line>,
    cells: Vec<Cell>,
    nodes: Vec<NodeMark>,
    texts: Vec<Text>,
    /// How it is to be read.
    notes: Vec<String>,
}

/// A direction of a link.
struct Line {
    from: (f64, f64),
    to: (f64, f64),
    width: f64,
    resource: ResourceId,
}

/// A part of a summary.
struct Cell {
    at: (f64, f64),
    size: (f64, f64),
    load: f64,
    title: String,
}

struct NodeMark {
    at: (f64, f64),
    radius: f64,
    is_host: bool,
    label: String,
}

struct Text {
    at: (f64, f64),
    anchor: Anchor,
    text: String,
}

/// Loads, and the colours that they have.
struct Scale<'a> {
    core: &'a Core,
    /// What has the last colour, in percent.
    most: f64,
}

impl<'a> Scale<'a> {
    fn new(core: &'a Core, links: impl Iterator<Item = ResourceId>) -> Self {
        let load = |id| share(core, core.kernel.net.resource(id));
        let most = links.map(load).fold(0.0, f64::max);
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
        let most = steps.into_iter().find(|step| most <= *step).unwrap_or(100.0);
        Self { core, most }
    }

    fn resource(&self, id: ResourceId) -> &'a Resource {
        self.core.kernel.net.resource(id)
    }

    fn load(&self, id: ResourceId) -> f64 {
        share(self.core, self.resource(id))
    }

    /// Of a load in percent.
    fn colour(&self, load: f64) -> String {
        if load <= 0.0 {
            return IDLE.into();
        }
        let at = (load / self.most).min(1.0) * (COLOURS.len() - 1) as f64;
        let step = (at as usize).min(COLOURS.len() - 2);
        let part = at - step as f64;
        let (low, high) = (COLOURS[step], COLOURS[step + 1]);
        let mix =
            |low: u8, high: u8| (f64::from(low) + (f64::from(high) - f64::from(low)) * part).round() as u8;
        format!(
            "#{:02x}{:02x}{:02x}",
            mix(low.0, high.0),
            mix(low.1, high.1),
            mix(low.2, high.2)
        )
    }

    /// What one sees of a link when one points at it.
    fn title(&self, id: ResourceId) -> String {
        let resource = self.resource(id);
        format!(
            "{}: {:.1} % busy, {} packet{}, {} bytes",
            resource.spec.name,
            self.load(id),
            resource.usage.packets,
            if resource.usage.packets == 1 { "" } else { "s" },
            resource.usage.bytes
        )
    }
}

/// Draw the network of a machine with the load on its links.
///
/// # Errors
/// It cannot be written.
pub fn network(core: &Core, out: &mut impl Write) -> io::Result<()> {
    let links = core.kernel.topology().links();
    let scale = Scale::new(core, links.iter().map(|link| link.resource));
    let drawing = layout::of(core, &links, &scale);
    let of_links: BTreeSet<ResourceId> = links.iter().map(|link| link.resource).collect();
    let busiest = |is_link: bool, most: usize| {
        let resources = core.kernel.net.resources();
        let of_kind = resources.filter(|(id, it)| of_links.contains(id) == is_link && it.usage.packets > 0);
        let mut all: Vec<ResourceId> = of_kind.map(|(id, _)| id).collect();
        all.sort_by_key(|id| (std::cmp::Reverse(scale.resource(*id).usage.busy), *id));
        all.truncate(most);
        all
    };
    let named = busiest(true, NAMED);
    let others = busiest(false, OTHERS);
    let rows = named.len() + others.len() + drawing.notes.len();
    let panel = 150.0 + 18.0 * rows as f64;
    let height = TITLE + drawing.size.1.max(panel) + MARGIN;
    let width = MARGIN + drawing.size.0 + MARGIN + PANEL;
    let mut svg = Svg::new(out, width, height)?;
    svg.text((MARGIN, 28.0), Anchor::Start, 17.0, INK, "Load on links")?;
    let under = format!(
        "the share of {} of virtual time in which they were busy",
        core.elapsed()
    );
    svg.text((MARGIN, 47.0), Anchor::Start, 12.0, FAINT, &under)?;
    draw(&mut svg, &drawing, &scale, &named)?;
    let left = MARGIN + drawing.size.0 + MARGIN;
    beside(&mut svg, left, &drawing, &scale, (&named, &others))?;
    svg.end()
}

fn draw<W: Write>(
    svg: &mut Svg<'_, W>,
    drawing: &Drawing,
    scale: &Scale<'_>,
    named: &[ResourceId],
) -> io::Result<()> {
    svg.begin_group((MARGIN, TITLE))?;
    for cell in &drawing.cells {
        svg.rectangle(cell.at, cell.size, &scale.colour(cell.load), Some(&cell.title))?;
    }
    let mut lines: Vec<&Line> = drawing.lines.iter().collect();
    // The busiest on top.
    lines.sort_by_key(|line| (scale.resource(line.resource).usage.busy, line.resource));
    for line in &lines {
        let load = scale.load(line.resource);
        let width = if load > 0.0 { line.width } else { line.width * 0.6 };
        let title = scale.title(line.resource);
        svg.line((line.from, line.to), width, &scale.colour(load), Some(&title))?;
    }
    for node in &drawing.nodes {
        if node.is_host {
            svg.circle(node.at, node.radius, "#ffffff", INK)?;
        } else {
            let side = node.radius * 2.0;
            let at = (node.at.0 - node.radius * 1.4, node.at.1 - node.radius);
            svg.box_with_edge(at, (side * 1.4, side), "#eef1f4", INK)?;
        }
        if !node.label.is_empty() {
            let at = (node.at.0, node.at.1 + 3.2);
            svg.text(at, Anchor::Middle, 9.0, INK, &node.label)?;
        }
    }
    for text in &drawing.texts {
        svg.text(text.at, text.anchor, 11.0, FAINT, &text.text)?;
    }
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (number, id) in (1..).zip(named.iter().take(NUMBERED)) {
        let Some(line) = lines.iter().find(|line| line.resource == *id) else {
            continue;
        };
        // Nearer to where it begins, so that it is not on the other direction's.
        let part = |from: f64, to: f64| from + (to - from) * 0.36;
        let at = (part(line.from.0, line.to.0), part(line.from.1, line.to.1));
        let near = |it: &(f64, f64)| (it.0 - at.0).abs() < 14.0 && (it.1 - at.1).abs() < 14.0;
        if !taken.iter().any(near) {
            taken.push(at);
            badge(svg, at, number)?;
        }
    }
    svg.end_group()
}

fn badge<W: Write>(svg: &mut Svg<'_, W>, at: (f64, f64), number: u32) -> io::Result<()> {
    svg.circle(at, 6.5, INK, "#ffffff")?;
    svg.text(
        (at.0, at.1 + 3.2),
        Anchor::Middle,
        9.0,
        "#ffffff",
        &number.to_string(),
    )
}

/// At most so many characters.
fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() <= most {
        true => name.into(),
        false => name.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// The scale, the busiest by name, and how to read the drawing.
fn beside<W: Write>(
    svg: &mut Svg<'_, W>,
    left: f64,
    drawing: &Drawing,
    scale: &Scale<'_>,
    (named, others): (&[ResourceId], &[ResourceId]),
) -> io::Result<()> {
    const STEPS: usize = 50;
    let width = PANEL - MARGIN;
    let mut y = TITLE + 4.0;
    svg.text((left, y + 8.0), Anchor::Start, 12.0, INK, "Busy")?;
    y += 18.0;
    let each = width / STEPS as f64;
    for step in 0..STEPS {
        let load = scale.most * (step as f64 + 0.5) / STEPS as f64;
        let at = (left + each * step as f64, y);
        svg.rectangle(at, (each + 0.5, 12.0), &scale.colour(load), None)?;
    }
    y += 26.0;
    let ends = [(0.0, Anchor::Start), (0.5, Anchor::Middle), (1.0, Anchor::End)];
    for (part, anchor) in ends {
        let text = format!("{} %", scale.most * part);
        svg.text((left + width * part, y), anchor, 11.0, FAINT, &text)?;
    }
    y += 16.0;
    svg.rectangle((left, y - 8.0), (18.0, 8.0), IDLE, None)?;
    svg.text((left + 24.0, y), Anchor::Start, 11.0, FAINT, "nothing passed")?;
    for note in &drawing.notes {
        y += 18.0;
        svg.text((left, y), Anchor::Start, 11.0, FAINT, note)?;
    }
    for (title, list, numbers) in [
        ("Busiest links", named, true),
        ("Beside the links", others, false),
    ] {
        if list.is_empty() {
            continue;
        }
        y += 30.0;
        svg.text((left, y), Anchor::Start, 12.0, INK, title)?;
        for (number, id) in (1..).zip(list) {
            y += 18.0;
            if numbers && number as usize <= NUMBERED && !drawing.lines.is_empty() {
                badge(svg, (left + 7.0, y - 4.0), number)?;
            }
            let room = ((width - 22.0 - 50.0) / CHARACTER) as usize;
            let name = shortened(&scale.resource(*id).spec.name, room);
            svg.text((left + 22.0, y), Anchor::Start, 11.0, INK, &name)?;
            let load = format!("{:.1} %", scale.load(*id));
            svg.text((left + width, y), Anchor::End, 11.0, INK, &load)?;
        }
    }
    if named.is_empty() {
        y += 30.0;
        svg.text((left, y), Anchor::Start, 12.0, INK, "No packet passed a link.")?;
    }
    Ok(())
}
