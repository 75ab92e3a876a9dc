//! Axes of plots: convert values to positions, and choose the values that get a label.

use crate::rounded;

#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    Linear,
    Log,
}

pub struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// The positions in the drawing of the least and the greatest value.
    places: (f64, f64),
}

/// The greatest number of ticks on an axis.
const TICKS: f64 = 8.0;

impl Axis {
    /// An axis with room for all the values. A logarithmic axis ignores values that are not above 0.
    pub fn over(scale: Scale, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Axis {
        let usable = values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let (least, most) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (from, to) = match scale {
            _ if least > most => (1.0, 10.0),
            Scale::Linear if least == most => (least.min(0.0), most.max(0.0) + 1.0),
            Scale::Linear => (if least < 0.0 { least } else { 0.0 }, most),
            Scale::Log => {
                let (from, to) = (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil()));
                (from, if to > from { to } else { 10.0 * from })
            }
        };
        Axis { scale, from, to, places }
    }

    pub fn position(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
        };
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// The positions of ticks on the axis, with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = nice((self.to - self.from) / TICKS);
                let first = (self.from / step).ceil() as i64;
                (first..).map(|i| i as f64 * step).take_while(|value| *value <= self.to).collect()
            }
            Scale::Log => {
                let (first, last) = (self.from.log10().round() as i32, self.to.log10().round() as i32);
                let step = ((last - first) as f64 / TICKS).ceil().max(1.0) as usize;
                (first..=last).step_by(step).map(|decade| 10f64.powi(decade)).collect()
            }
        };
        values.into_iter().map(|value| (self.position(value), label(value))).collect()
    }
}

/// The least number of the sequence 1, 2, 5, 10, 20, 50, … that is not less than `step`.
fn nice(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * decade).find(|nice| *nice >= step).unwrap_or(10.0 * decade)
}

fn label(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{} G", rounded(value / 1e9)),
        v if v >= 1e6 => format!("{} M", rounded(value / 1e6)),
        v if v >= 1e4 => format!("{} k", rounded(value / 1e3)),
        v if v >= 1.0 && value.fract() == 0.0 => format!("{value:.0}"),
        // Ticks are round numbers, so insignificant digits are cut off.
        _ => format!("{:.9}", value).trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_is_as_long_everywhere() {
        let axis = Axis::over(Scale::Log, [0.5, 2000.0].into_iter(), (0.0, 500.0));
        assert!((axis.position(100.0) - axis.position(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(
            axis.ticks().iter().map(|t| t.1.as_str()).collect::<Vec<_>>(),
            ["0.1", "1", "10", "100", "1000", "10 k"]
        );
    }

    #[test]
    fn ticks_are_round_and_lie_within() {
        let axis = Axis::over(Scale::Linear, [3.0, 51_200.0].into_iter(), (100.0, 0.0));
        assert_eq!(axis.ticks().first().map(|t| t.1.as_str()), Some("0"));
        assert!(axis.ticks().len() <= 9 && axis.ticks().iter().all(|tick| (0.0..=100.0).contains(&tick.0)));
    }

    #[test]
    fn nothing_at_all_has_an_axis_too() {
        assert!(Axis::over(Scale::Log, std::iter::empty(), (0.0, 1.0)).ticks().len() > 1);
    }
}
