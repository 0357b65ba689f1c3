//! Elements of an SVG file.

use std::io::{self, Write};

/// What of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A file that is being written.
pub(super) struct Svg<'a, W: Write> {
    out: &'a mut W,
}

impl<'a, W: Write> Svg<'a, W> {
    pub fn new(out: &'a mut W, width: f64, height: f64) -> io::Result<Self> {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">"
        )?;
        writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>")?;
        Ok(Self { out })
    }

    pub fn begin_group(&mut self, (x, y): (f64, f64)) -> io::Result<()> {
        writeln!(self.out, "<g transform=\"translate({x:.1} {y:.1})\">")
    }

    pub fn end_group(&mut self) -> io::Result<()> {
        writeln!(self.out, "</g>")
    }

    pub fn end(self) -> io::Result<()> {
        writeln!(self.out, "</svg>")
    }

    fn close(&mut self, element: &str, title: Option<&str>) -> io::Result<()> {
        match title {
            None => writeln!(self.out, "/>"),
            Some(title) => writeln!(self.out, "><title>{}</title></{element}>", escaped(title)),
        }
    }

    pub fn line(
        &mut self,
        (from, to): ((f64, f64), (f64, f64)),
        width: f64,
        colour: &str,
        title: Option<&str>,
    ) -> io::Result<()> {
        write!(
            self.out,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"",
            from.0, from.1, to.0, to.1
        )?;
        self.close("line", title)
    }

    pub fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: &str,
        title: Option<&str>,
    ) -> io::Result<()> {
        write!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\""
        )?;
        self.close("rect", title)
    }

    pub fn box_with_edge(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: &str,
        edge: &str,
    ) -> io::Result<()> {
        writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{colour}\" stroke=\"{edge}\"/>"
        )
    }

    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, colour: &str, edge: &str) -> io::Result<()> {
        writeln!(
            self.out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" stroke=\"{edge}\"/>"
        )
    }

    pub fn text(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        size: f64,
        colour: &str,
        text: &str,
    ) -> io::Result<()> {
        writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{}\" fill=\"{colour}\">{}</text>",
            anchor.word(),
            escaped(text)
        )
    }
}
