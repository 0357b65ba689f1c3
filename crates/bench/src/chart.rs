//! Charts as SVG and PNG, both from one drawing. No font of the system is needed: DejaVu Sans is compiled in.

use crate::abi::{BenchError, Result};
use crate::sizes::human;
use crate::stats::Summary;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;

/// One chart: panels below one another that share the horizontal axis.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The large line at the top.
    pub title: String,
    /// What was measured where.
    pub subtitle: String,
    /// What the horizontal axis shows.
    pub x_label: String,
    /// Whether horizontal ticks are sizes in bytes.
    pub x_is_bytes: bool,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One pair of axes, both logarithmic.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What the vertical axis shows.
    pub y_label: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend; empty: none.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<Dot>,
}

/// A measured point with its range; all positive.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

impl Chart {
    /// Of panels over anything but sizes in bytes.
    pub fn over(
        x_label: &str,
        title: impl Into<String>,
        subtitle: impl Into<String>,
        panels: impl IntoIterator<Item = Panel>,
    ) -> Self {
        Self {
            title: title.into(),
            subtitle: subtitle.into(),
            x_label: x_label.into(),
            x_is_bytes: false,
            panels: panels.into_iter().collect(),
        }
    }

    /// Of panels over sizes of messages.
    pub fn by_size(
        title: impl Into<String>,
        subtitle: impl Into<String>,
        panels: impl IntoIterator<Item = Panel>,
    ) -> Self {
        Self {
            x_is_bytes: true,
            ..Self::over("message size (bytes)", title, subtitle, panels)
        }
    }
}

impl Panel {
    pub fn new(y_label: impl Into<String>, series: impl IntoIterator<Item = Series>) -> Self {
        let (y_label, series) = (y_label.into(), series.into_iter().collect());
        Self { y_label, series }
    }
}

impl Series {
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = Dot>) -> Self {
        let (name, points) = (name.into(), points.into_iter().collect());
        Self { name, points }
    }
}

impl Dot {
    /// A value without a range.
    pub fn exact(x: f64, y: f64) -> Self {
        let (low, high) = (y, y);
        Self { x, y, low, high }
    }

    /// What `value` makes of times and their range.
    pub fn of(x: f64, times: &Summary, value: impl Fn(f64) -> f64) -> Self {
        let (a, b) = (value(times.min), value(times.max));
        let (y, low, high) = (value(times.median), a.min(b), a.max(b));
        Self { x, y, low, high }
    }
}

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 380;
const HEADER: u32 = 76;
/// Width of the column of names, where curves have names.
const LEGEND: u32 = 176;
/// PNG pixels per unit, and samples per pixel and direction for smooth edges.
const PNG_SCALE: u32 = 2;
const SAMPLES: u32 = 2;

const INK: RGBColor = RGBColor(33, 37, 41);
const MUTED: RGBColor = RGBColor(108, 117, 125);
const GRID: RGBColor = RGBColor(228, 231, 235);
/// Distinguishable by most colour-blind readers.
const COLOURS: [RGBColor; 13] = [
    RGBColor(0, 95, 160),
    RGBColor(213, 94, 0),
    RGBColor(0, 145, 110),
    RGBColor(178, 60, 130),
    RGBColor(120, 90, 40),
    RGBColor(86, 150, 210),
    RGBColor(220, 160, 0),
    RGBColor(80, 80, 80),
    RGBColor(150, 120, 220),
    RGBColor(150, 190, 60),
    RGBColor(200, 30, 40),
    RGBColor(0, 180, 200),
    RGBColor(240, 150, 170),
];

/// Write `chart` to `file`, whose name ends in `.svg` or `.png`.
pub fn write(chart: &Chart, file: &Path) -> Result<()> {
    let failed = |cause: String| BenchError::Plot {
        file: file.display().to_string(),
        cause,
    };
    // Registering twice is harmless; the bytes are part of the executable.
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| failed("bad font".into()))?;
    let bytes = match file.extension().and_then(|e| e.to_str()) {
        Some("svg") => svg(chart).map(String::into_bytes),
        Some("png") => png(chart),
        _ => return Err(wrong_name(file)),
    };
    let bytes = bytes.map_err(failed)?;
    crate::report::make_parent(file)
        .and_then(|()| std::fs::write(file, bytes))
        .map_err(BenchError::io(format!("writing {}", file.display())))
}

/// Whether [`write`] will know what to do with the name.
pub fn check_name(file: &Path) -> Result<()> {
    match file.extension().and_then(|e| e.to_str()) {
        Some("svg" | "png") => Ok(()),
        _ => Err(wrong_name(file)),
    }
}

fn wrong_name(file: &Path) -> BenchError {
    usage!(
        "--plot {}: allowed are files ending in .svg or .png",
        file.display()
    )
}

fn height(chart: &Chart) -> u32 {
    HEADER + PANEL_HEIGHT * chart.panels.len() as u32
}

fn svg(chart: &Chart) -> std::result::Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height(chart))).into_drawing_area();
        draw(chart, &area, 1).map_err(|e| e.to_string())?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

fn png(chart: &Chart) -> std::result::Result<Vec<u8>, String> {
    let scale = PNG_SCALE * SAMPLES;
    let (width, height) = (WIDTH * scale, height(chart) * scale);
    let mut pixels = vec![0u8; (width * height * 3) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        draw(chart, &area, scale).map_err(|e| e.to_string())?;
        area.present().map_err(|e| e.to_string())?;
    }
    let (small, pixels) = shrink(&pixels, width, height);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, small.0, small.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|e| e.to_string())?;
    writer.write_image_data(&pixels).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Average squares of `SAMPLES` by `SAMPLES` pixels.
fn shrink(pixels: &[u8], width: u32, height: u32) -> ((u32, u32), Vec<u8>) {
    let small = (width / SAMPLES, height / SAMPLES);
    let mut out = Vec::with_capacity((small.0 * small.1 * 3) as usize);
    for y in 0..small.1 {
        for x in 0..small.0 {
            for channel in 0..3 {
                let mut sum = 0u32;
                for dy in 0..SAMPLES {
                    for dx in 0..SAMPLES {
                        let at = ((y * SAMPLES + dy) * width + x * SAMPLES + dx) * 3 + channel;
                        sum += u32::from(pixels[at as usize]);
                    }
                }
                out.push((sum / (SAMPLES * SAMPLES)) as u8);
            }
        }
    }
    (small, out)
}

type Drawn<'a, D> = std::result::Result<(), DrawingAreaErrorKind<<D as DrawingBackend>::ErrorType>>;

fn font(size: u32, colour: &RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(colour)
}

/// Draw at `k` device units per unit of the layout.
fn draw<D: DrawingBackend>(chart: &Chart, area: &DrawingArea<D, Shift>, k: u32) -> Drawn<'static, D> {
    area.fill(&WHITE)?;
    let (header, body) = area.split_vertically(HEADER * k);
    let at = |x: u32, y: u32| ((x * k) as i32, (y * k) as i32);
    header.draw(&Text::new(chart.title.clone(), at(24, 18), font(22 * k, &INK)))?;
    header.draw(&Text::new(
        chart.subtitle.clone(),
        at(24, 48),
        font(13 * k, &MUTED),
    ))?;
    let panels = body.split_evenly((chart.panels.len().max(1), 1));
    let xs = bounds(
        chart
            .panels
            .iter()
            .flat_map(|p| &p.series)
            .flat_map(|s| &s.points)
            .map(|d| d.x),
    );
    for (i, (panel, area)) in chart.panels.iter().zip(&panels).enumerate() {
        let last = i + 1 == chart.panels.len();
        draw_panel(
            chart,
            panel,
            (xs, if last { &chart.x_label } else { "" }),
            area,
            k,
        )?;
    }
    Ok(())
}

/// The smallest and largest value, a little apart even if they are one.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    if low.is_finite() && low > 0.0 {
        (low * 0.85, high * 1.18)
    } else {
        (0.5, 2.0)
    }
}

fn draw_panel<D: DrawingBackend>(
    chart: &Chart,
    panel: &Panel,
    (xs, x_label): ((f64, f64), &str),
    area: &DrawingArea<D, Shift>,
    k: u32,
) -> Drawn<'static, D> {
    let named = panel.series.iter().any(|s| !s.name.is_empty());
    let (area, legend) = area.split_horizontally((if named { WIDTH - LEGEND } else { WIDTH }) * k);
    if named {
        draw_legend(panel, &legend, k)?;
    }
    let ys = bounds(
        panel
            .series
            .iter()
            .flat_map(|s| &s.points)
            .flat_map(|d| [d.y, d.low, d.high]),
    );
    let mut context = ChartBuilder::on(&area)
        .margin_left(16 * k)
        .margin_right(28 * k)
        .margin_top(8 * k)
        .margin_bottom(10 * k)
        .x_label_area_size((if x_label.is_empty() { 28 } else { 52 }) * k)
        .y_label_area_size(76 * k)
        .build_cartesian_2d(
            (xs.0..xs.1)
                .log_scale()
                .with_key_points(ticks(xs, chart.x_is_bytes)),
            (ys.0..ys.1).log_scale().with_key_points(ticks(ys, false)),
        )?;
    let x_is_bytes = chart.x_is_bytes;
    context
        .configure_mesh()
        .bold_line_style(GRID.stroke_width(k))
        .light_line_style(TRANSPARENT)
        .axis_style(MUTED.stroke_width(k))
        .x_desc(x_label)
        .y_desc(panel.y_label.clone())
        .axis_desc_style(font(14 * k, &INK))
        .label_style(font(12 * k, &INK))
        .x_labels(24)
        .y_labels(16)
        .set_all_tick_mark_size(4 * k)
        .x_label_formatter(&move |x| {
            if x_is_bytes {
                human(x.round() as usize)
            } else {
                plain(*x)
            }
        })
        .y_label_formatter(&|y| plain(*y))
        .draw()?;
    for (i, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let upper = series.points.iter().map(|d| (d.x, d.high));
        let lower = series.points.iter().rev().map(|d| (d.x, d.low));
        context.draw_series([Polygon::new(
            upper.chain(lower).collect::<Vec<_>>(),
            colour.mix(0.14),
        )])?;
        let line = series.points.iter().map(|d| (d.x, d.y));
        context.draw_series(LineSeries::new(line, colour.stroke_width(2 * k)))?;
        if series.points.len() <= 40 {
            let dots = series
                .points
                .iter()
                .map(|d| Circle::new((d.x, d.y), 3 * k, colour.filled()));
            context.draw_series(dots)?;
        }
    }
    Ok(())
}

/// Names beside the curves' colours, from top to bottom.
fn draw_legend<D: DrawingBackend>(panel: &Panel, area: &DrawingArea<D, Shift>, k: u32) -> Drawn<'static, D> {
    let k_signed = k as i32;
    for (i, series) in panel.series.iter().enumerate() {
        let y = (14 + 22 * i as i32) * k_signed;
        let sample = [(0, y + 5 * k_signed), (18 * k_signed, y + 7 * k_signed)];
        area.draw(&Rectangle::new(sample, COLOURS[i % COLOURS.len()].filled()))?;
        area.draw(&Text::new(
            series.name.clone(),
            (26 * k_signed, y),
            font(12 * k, &INK),
        ))?;
    }
    Ok(())
}

/// Tick positions: every (second, fourth, ...) power of two for bytes; 1, 2, 5 times powers of ten otherwise.
fn ticks((low, high): (f64, f64), bytes: bool) -> Vec<f64> {
    let inside = |v: &f64| (low..=high).contains(v);
    if bytes {
        let all: Vec<f64> = (0..31).map(|bit| f64::from(1u32 << bit)).filter(inside).collect();
        let step = all.len().div_ceil(13).max(1);
        return all.into_iter().step_by(step).collect();
    }
    let decades = || (-12..13).map(|e| 10f64.powi(e));
    let fine: Vec<f64> = decades()
        .flat_map(|d| [d, 2.0 * d, 5.0 * d])
        .filter(inside)
        .collect();
    if fine.len() <= 12 {
        fine
    } else {
        decades().filter(inside).collect()
    }
}

/// A number without a tail of zeros: 0.2, 5, 20 000, 10 M.
fn plain(value: f64) -> String {
    for (limit, unit) in [(1e9, " G"), (1e6, " M")] {
        if value >= limit * 0.999 {
            return format!("{}{unit}", (value / limit * 1000.0).round() / 1000.0);
        }
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.len() {
        5 | 6 if !text.contains('.') => format!("{} {}", &text[..text.len() - 3], &text[text.len() - 3..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let points = (0..20).map(|i| {
            let x = f64::from(1 << i);
            Dot {
                x,
                y: x / (0.1 + x / 1e4),
                low: x / (0.2 + x / 1e4),
                high: x / (0.05 + x / 1e4),
            }
        });
        let series = vec![Series {
            name: "one < two & three".into(),
            points: points.collect(),
        }];
        let panel = Panel {
            y_label: "MB/s".into(),
            series,
        };
        let (title, subtitle) = ("A test".to_owned(), "of charts".to_owned());
        Chart {
            title,
            subtitle,
            x_label: "bytes".into(),
            x_is_bytes: true,
            panels: vec![panel],
        }
    }

    #[test]
    fn both_formats_are_written_and_others_refused() {
        let dir = std::env::temp_dir().join(format!("farpost-chart-{}", std::process::id()));
        for name in ["a.svg", "b.png"] {
            write(&chart(), &dir.join(name)).unwrap();
        }
        let svg = std::fs::read_to_string(dir.join("a.svg")).unwrap();
        assert!(svg.contains("</svg>") && svg.contains("one &lt; two &amp; three") && svg.contains("64 KiB"));
        let png = std::fs::read(dir.join("b.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000);
        let err = write(&chart(), &dir.join("c.gif")).unwrap_err().to_string();
        assert!(err.contains(".svg or .png"), "{err}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn ticks_are_few_and_inside() {
        assert_eq!(ticks((0.9, 12.0), false), [1.0, 2.0, 5.0, 10.0]);
        assert!(ticks((0.9, 9e8), false).len() <= 12);
        assert!(ticks((1.0, 1e9), true).len() <= 15);
        assert_eq!(
            (plain(0.05), plain(20000.0), plain(1e7)),
            ("0.05".into(), "20 000".into(), "10 M".into())
        );
    }
}
