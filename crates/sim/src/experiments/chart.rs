//! Line charts as SVG.

use plotters::prelude::*;

/// A chart.
pub struct Chart {
    /// Name of its file, without extension.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is on the x axis.
    pub x: &'static str,
    /// What is on the y axis.
    pub y: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a chart.
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Okabe and Ito's colours, which colour-blind people can distinguish.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// Draws a chart.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let mut text = String::new();
    draw(chart, &mut text).expect("a chart of finite points is drawn into memory");
    // The backend writes no final newline.
    text.push('\n');
    text
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(chart: &Chart, text: &'a mut String) -> Drawn<'a> {
    let points = || chart.lines.iter().flat_map(|line| line.points.iter());
    let right = points().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let top = points().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.08;
    let root = SVGBackend::with_string(text, (640, 360)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut drawn = ChartBuilder::on(&root)
        .caption(chart.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    drawn.configure_mesh().x_desc(chart.x).y_desc(chart.y).light_line_style(TRANSPARENT).draw()?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(1);
        drawn
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    drawn
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    root.present()
}
