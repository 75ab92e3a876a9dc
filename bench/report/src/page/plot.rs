//! Plots as SVG: lines and points, bars, and heat maps of times.

use std::fmt::Write;

use super::axis::{Axis, Scale};
use super::groups::Groups;
use super::{escaped, style};

pub struct Plot {
    title: String,
    x_label: String,
    kind: Kind,
    width: f64,
    height: f64,
    /// The name under which a document may show it.
    pub name: Option<String>,
}

enum Kind {
    Lines { x: Scale, y: Scale, series: Vec<Series> },
    Bars(Vec<(String, f64)>),
    Groups(Groups),
    Heat(Heat),
}

pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    joined: bool,
}

/// A heat map of transactions by time and latency.
pub struct Heat {
    /// The subject whose colour the cells get.
    pub color_of: String,
    /// For each cell: time, lower end of the bucket of latencies (each bucket is twice as wide as the previous one),
    /// and number of transactions.
    pub cells: Vec<(f64, f64, f64)>,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
const BAR: f64 = 22.0;
const LEGEND_LINE: f64 = 18.0;

impl Series {
    pub fn new(name: &str, mut points: Vec<(f64, f64)>) -> Series {
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.to_owned(), points, joined: true }
    }

    /// A series of points that are not connected by a line.
    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { joined: false, ..Series::new(name, points) }
    }
}

impl Plot {
    fn new(title: &str, x_label: &str, kind: Kind) -> Plot {
        Plot { title: title.to_owned(), x_label: x_label.to_owned(), kind, width: 760.0, height: 380.0, name: None }
    }

    pub fn lines(title: &str, x_label: &str, x: Scale, y: Scale) -> Plot {
        Plot::new(title, x_label, Kind::Lines { x, y, series: Vec::new() })
    }

    /// Bars on a logarithmic scale.
    pub fn bars(title: &str, bars: Vec<(String, f64)>) -> Plot {
        let height = TOP + BAR * bars.len() as f64 + BOTTOM;
        Plot { height, ..Plot::new(title, "", Kind::Bars(bars)) }
    }

    pub fn groups(title: &str, x_label: &str, groups: Groups) -> Plot {
        let height = groups.height();
        Plot { height, ..Plot::new(title, x_label, Kind::Groups(groups)) }
    }

    pub fn heat(title: &str, x_label: &str, heat: Heat) -> Plot {
        Plot::new(title, x_label, Kind::Heat(heat))
    }

    /// Makes the plot so small that three of them fit beside each other.
    pub fn small(mut self) -> Plot {
        (self.width, self.height) = (370.0, 280.0);
        self
    }

    pub fn named(mut self, name: &str) -> Plot {
        self.name = Some(name.to_owned());
        self
    }

    /// Adds a series, unless it has no points.
    pub fn add(&mut self, series: Series) {
        if let Kind::Lines { series: all, .. } = &mut self.kind
            && !series.points.is_empty()
        {
            all.push(series);
        }
    }

    pub fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Lines { series, .. } => series.is_empty(),
            Kind::Bars(bars) => bars.is_empty(),
            Kind::Groups(groups) => groups.series().is_empty(),
            Kind::Heat(heat) => heat.cells.is_empty(),
        }
    }

    /// The plot as SVG, for a page that contains the style sheet.
    pub fn svg(&self) -> String {
        let (drawing, height) = self.drawn();
        framed(self.width, height, &drawing)
    }

    /// The plot's drawing, and its height.
    fn drawn(&self) -> (String, f64) {
        let mut drawing = Drawing { svg: String::new() };
        drawing.text((14.0, 18.0), "start", "title", &self.title);
        let legend = match &self.kind {
            Kind::Lines { x, y, series } => self.draw_lines(&mut drawing, *x, *y, series),
            Kind::Bars(bars) => self.draw_bars(&mut drawing, bars),
            Kind::Groups(groups) => {
                groups.draw(&mut drawing, self.width);
                drawing.text((self.width - RIGHT, self.height - 8.0), "end", "soft", &self.x_label);
                self.legend(&mut drawing, &groups.series())
            }
            Kind::Heat(heat) => self.draw_heat(&mut drawing, heat),
        };
        (drawing.svg, self.height + legend)
    }

    /// The plot as SVG, for a file of its own.
    pub fn standalone_svg(&self) -> String {
        stacked(&[self])
    }

    fn draw_lines(&self, drawing: &mut Drawing, x: Scale, y: Scale, series: &[Series]) -> f64 {
        let points = || series.iter().flat_map(|series| &series.points);
        let x = Axis::over(x, points().map(|point| point.0), (LEFT, self.width - RIGHT));
        let y = Axis::over(y, points().map(|point| point.1), (self.height - BOTTOM, TOP));
        self.axes(drawing, &x, &y);
        for (place, series) in series.iter().enumerate() {
            let color = style::color(&series.name, place);
            let at: Vec<_> = series.points.iter().map(|point| (x.position(point.0), y.position(point.1))).collect();
            if series.joined {
                let path = at.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect::<Vec<_>>().join("L");
                let dash = style::dash(&series.name);
                drawing
                    .add(format!("<path d=\"M{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\"{dash}/>"));
            }
            if at.len() <= 12 || !series.joined {
                let dots =
                    at.iter().map(|(x, y)| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{color}\"/>"));
                drawing.add(dots.collect());
            }
        }
        self.legend(drawing, &series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>())
    }

    /// Draws the legend below the plot; returns its height.
    fn legend(&self, drawing: &mut Drawing, series: &[&str]) -> f64 {
        let (mut x, mut y) = (LEFT, self.height + 6.0);
        for (place, name) in series.iter().enumerate() {
            let width = 34.0 + 7.0 * name.chars().count() as f64;
            if x + width > self.width {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            let (color, dash) = (style::color(name, place), style::dash(name));
            drawing.add(format!("<path d=\"M{x} {}h18\" stroke=\"{color}\" stroke-width=\"3\"{dash}/>", y - 4.0));
            drawing.text((x + 23.0, y), "start", "", name);
            x += width;
        }
        y + 10.0 - self.height
    }

    fn draw_bars(&self, drawing: &mut Drawing, bars: &[(String, f64)]) -> f64 {
        let left = 110.0;
        let x = Axis::over(Scale::Log, bars.iter().map(|(_, value)| *value), (left, self.width - 70.0));
        let bottom = self.height - BOTTOM;
        for (at, label) in x.ticks() {
            drawing.add(format!("<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>"));
            drawing.text((at, bottom + 16.0), "middle", "soft", &label);
        }
        for (place, (name, value)) in bars.iter().enumerate() {
            let (y, end) = (TOP + BAR * place as f64, x.position(*value));
            let (color, width) = (style::color(name, place), (end - left).max(1.0));
            drawing.text((left - 8.0, y + 15.0), "end", "", name);
            drawing.add(format!(
                "<rect x=\"{left}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{color}\"/>",
                y + 3.0,
                BAR - 6.0
            ));
            drawing.text((end.max(left) + 6.0, y + 15.0), "start", "", &crate::rounded(*value));
        }
        0.0
    }

    fn draw_heat(&self, drawing: &mut Drawing, heat: &Heat) -> f64 {
        let ends = heat.cells.iter().flat_map(|cell| [cell.1, cell.1 * 2.0]);
        let x = Axis::over(Scale::Linear, heat.cells.iter().map(|cell| cell.0), (LEFT, self.width - RIGHT));
        let y = Axis::over(Scale::Log, ends, (self.height - BOTTOM, TOP));
        self.axes(drawing, &x, &y);
        let most = heat.cells.iter().map(|cell| cell.2).fold(1.0, f64::max);
        let mut times: Vec<_> = heat.cells.iter().map(|cell| cell.0).collect();
        times.dedup();
        let color = style::color(&heat.color_of, 0);
        for (time, latency, count) in &heat.cells {
            let next = times.iter().copied().find(|next| next > time).unwrap_or(*time);
            let (from, to) = (x.position(*time), x.position(next).max(x.position(*time) + 1.5));
            let (top, bottom) = (y.position(latency * 2.0), y.position(*latency));
            let opacity = 0.12 + 0.88 * count.ln_1p() / f64::ln_1p(most);
            drawing.add(format!(
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\" opacity=\"{opacity:.2}\"/>",
                to - from,
                bottom - top
            ));
        }
        0.0
    }

    fn axes(&self, drawing: &mut Drawing, x: &Axis, y: &Axis) {
        let (right, bottom) = (self.width - RIGHT, self.height - BOTTOM);
        for (at, label) in y.ticks() {
            drawing.add(format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>"));
            drawing.text((LEFT - 6.0, at + 4.0), "end", "soft", &label);
        }
        for (at, label) in x.ticks() {
            drawing.add(format!("<path class=\"grid\" d=\"M{at:.1} {bottom}v5\"/>"));
            drawing.text((at, bottom + 18.0), "middle", "soft", &label);
        }
        drawing.text((right, bottom + 34.0), "end", "soft", &self.x_label);
    }
}

/// An SVG file with its own style sheet, and with several plots, one below the other.
pub fn stacked(plots: &[&Plot]) -> String {
    let style = style::COLORS.to_owned() + style::PLOT;
    let mut all = format!("<style>{style}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    let (mut width, mut top) = (0.0, 0.0);
    for plot in plots {
        let (drawing, height) = plot.drawn();
        let _ = writeln!(all, "<g transform=\"translate(0 {top})\">\n{drawing}</g>");
        (width, top) = (f64::max(width, plot.width), top + height);
    }
    framed(width, top, &all)
}

fn framed(width: f64, height: f64, drawing: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n{drawing}</svg>\n"
    )
}

pub(super) struct Drawing {
    svg: String,
}

impl Drawing {
    pub fn add(&mut self, element: String) {
        self.svg += &element;
        self.svg.push('\n');
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: &str, class: &str, words: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        // Writing to a string does not fail.
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{}</text>",
            escaped(words)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_stands_alone() {
        let mut plot = Plot::lines("a & b", "x", Scale::Linear, Scale::Log);
        plot.add(Series::new("frames", vec![(2.0, 100.0), (1.0, 1.0)]));
        plot.add(Series::new("nothing", vec![]));
        let svg = plot.standalone_svg();
        assert!(
            svg.starts_with("<svg ")
                && svg.contains("<style>")
                && svg.contains("a &amp; b")
                && svg.ends_with("</svg>\n")
        );
        assert!(svg.contains("frames") && !svg.contains("nothing"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn groups_have_a_legend_of_their_series() {
        let bars = |values: [f64; 2]| vec![("heap".to_owned(), values[0]), ("mirror".to_owned(), values[1])];
        let groups = vec![("Q1".to_owned(), bars([10.0, 1.0])), ("Q2".to_owned(), bars([20.0, 2.0]))];
        let plot = Plot::groups("t", "ms", Groups { scale: Scale::Log, groups });
        assert_eq!(plot.svg().matches("<rect").count(), 4);
        assert_eq!(plot.svg().matches(">mirror<").count(), 1);
        assert!(Plot::groups("t", "", Groups { scale: Scale::Log, groups: vec![] }).is_empty());
    }

    #[test]
    fn points_alone_have_no_line() {
        let mut plot = Plot::lines("t", "x", Scale::Linear, Scale::Linear);
        plot.add(Series::dots("seen", vec![(0.0, 1.0), (1.0, 0.0)]));
        let svg = plot.svg();
        assert_eq!((svg.matches("<circle").count(), svg.matches("fill=\"none\"").count()), (2, 0));
    }

    #[test]
    fn a_longer_time_is_a_longer_bar() {
        let svg = Plot::bars("t", vec![("a".into(), 1.0), ("b".into(), 1000.0)]).svg();
        let widths: Vec<f64> = svg
            .lines()
            .filter(|l| l.starts_with("<rect"))
            .map(|l| l.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(widths[1] > 2.0 * widths[0], "{widths:?}");
    }
}
