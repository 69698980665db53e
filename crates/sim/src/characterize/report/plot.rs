//! Line charts as SVG.

use plotters::prelude::*;

/// A chart.
pub(super) struct Plot {
    /// Name of its file, without extension.
    pub name: &'static str,
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
    /// Whether the first axis doubles from mark to mark.
    pub doubling: bool,
    pub lines: Vec<Line>,
}

/// A line of a chart.
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const SIZE: (u32, u32) = (640, 360);

/// Okabe and Ito's colours, which colour-blind people tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// Draws a chart.
pub(super) fn svg(plot: &Plot) -> String {
    let mut text = String::new();
    draw(plot, &mut text).expect("a chart of finite points is drawn into memory");
    // The backend writes no final newline.
    text.push('\n');
    text
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(plot: &Plot, text: &'a mut String) -> Drawn<'a> {
    let place = |x: f64| if plot.doubling { x.max(1e-9).log2() } else { x };
    let points = || plot.lines.iter().flat_map(|line| line.points.iter());
    let (mut left, mut right, mut top) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
    for (x, y) in points() {
        (left, right, top) = (left.min(place(*x)), right.max(place(*x)), top.max(*y));
    }
    if left >= right {
        (left, right) = (left.min(0.0), left.min(0.0) + 1.0);
    }
    let top = if top > 0.0 { top * 1.08 } else { 1.0 };
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(&plot.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(left..right, 0.0..top)?;
    let doubled = |x: &f64| if x.fract().abs() < 1e-6 { label(x.exp2()) } else { String::new() };
    let plain = |x: &f64| label(*x);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(plot.x).y_desc(plot.y).y_label_formatter(&plain).light_line_style(TRANSPARENT);
    if plot.doubling {
        mesh.x_labels(marks(right - left)).x_label_formatter(&doubled);
    } else {
        mesh.x_label_formatter(&plain);
    }
    mesh.draw()?;
    for (line, colour) in plot.lines.iter().zip(COLOURS.iter().cycle()) {
        let placed: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (place(*x), *y)).collect();
        // Marks for every point, unless they would touch.
        if placed.len() <= 30 {
            let dots = placed.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots)?;
        }
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(placed, style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    if plot.lines.len() > 1 {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(200, 200, 200))
            .draw()?;
    }
    root.present()
}

/// Marks of an axis with so many doublings: one each, and room for the ends.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few doublings, not negative"
)]
fn marks(doublings: f64) -> usize {
    doublings.max(1.0).ceil() as usize + 2
}

/// As many digits as it takes.
fn label(value: f64) -> String {
    let digits = if value.abs() >= 10.0 || value.fract().abs() < 1e-9 { 0 } else { 2 };
    format!("{value:.digits$}")
}
