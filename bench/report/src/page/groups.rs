//! A plot with groups of bars. Each name has a group, with one bar for each series. Bars are horizontal, so that there
//! is room for long names.

use super::axis::{Axis, Scale};
use super::plot::Drawing;
use super::style;
use crate::rounded;

pub struct Groups {
    pub scale: Scale,
    /// Names, each with its series' values.
    pub groups: Vec<(String, Vec<(String, f64)>)>,
}

const LEFT: f64 = 110.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;

impl Groups {
    /// The series of all groups, in order of first appearance.
    pub fn series(&self) -> Vec<&str> {
        let mut series: Vec<&str> = Vec::new();
        for (name, _) in self.groups.iter().flat_map(|(_, bars)| bars) {
            if !series.contains(&name.as_str()) {
                series.push(name);
            }
        }
        series
    }

    pub fn height(&self) -> f64 {
        let bars: usize = self.groups.iter().map(|(_, bars)| bars.len()).sum();
        TOP + BAR * bars as f64 + GAP * self.groups.len() as f64 + BOTTOM
    }

    pub(super) fn draw(&self, drawing: &mut Drawing, width: f64) {
        let values = self.groups.iter().flat_map(|(_, bars)| bars).map(|(_, value)| *value);
        let x = Axis::over(self.scale, values, (LEFT, width - RIGHT));
        let (series, bottom) = (self.series(), self.height() - BOTTOM);
        for (at, label) in x.ticks() {
            drawing.add(format!("<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>"));
            drawing.text((at, bottom + 16.0), "middle", "soft", &label);
        }
        let mut y = TOP + GAP / 2.0;
        for (name, bars) in &self.groups {
            drawing.text((LEFT - 8.0, y + BAR * bars.len() as f64 / 2.0 + 4.0), "end", "", name);
            for (of, value) in bars {
                let place = series.iter().position(|series| series == of).unwrap_or(0);
                let (color, end) = (style::color(of, place), x.position(*value));
                drawing.add(format!(
                    "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{color}\"{}/>",
                    (end - LEFT).max(1.0),
                    BAR - 2.0,
                    style::shade(of)
                ));
                drawing.text((end.max(LEFT) + 5.0, y + 10.0), "start", "soft", &rounded(*value));
                y += BAR;
            }
            y += GAP;
        }
    }
}
