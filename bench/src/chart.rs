//! The queries' picture: pairs of bars on a logarithmic scale, as SVG that stands alone.

use std::fmt::Write;

use crate::queries::ANKER;
use crate::report::{Report, rounded};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 56.0;
const GROUP: f64 = 40.0;
const BAR: f64 = 14.0;
const HEAP: &str = "#9aa5b1";
const MIRROR: &str = "#1f78b4";
/// Decades shown, in ms.
const FROM: f64 = 0.01;
const DECADES: f64 = 5.0;

pub fn heap_against_mirror(report: &Report) -> String {
    let height = TOP + GROUP * ANKER.len() as f64 + 40.0;
    let bottom = height - 34.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(
        &mut svg,
        LEFT,
        20.0,
        "start",
        "bold",
        "AnKer's eight queries: time to the last row at the client, ms (log scale)",
    );
    for (x, color, name) in [(LEFT, HEAP, "heap"), (LEFT + 70.0, MIRROR, "mirror")] {
        bar(&mut svg, x, 32.0, 12.0, 12.0, color);
        text(&mut svg, x + 17.0, 42.0, "start", "normal", name);
    }
    for decade in 0..=DECADES as i32 {
        let value = FROM * 10f64.powi(decade);
        let x = position(value);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#dddddd\"/>");
        text(&mut svg, x, bottom + 18.0, "middle", "normal", &value.to_string());
    }
    for (i, query) in ANKER.iter().enumerate() {
        let y = TOP + 6.0 + GROUP * i as f64;
        text(&mut svg, LEFT - 8.0, y + BAR + 4.0, "end", "bold", query.name);
        let value = |figure| report.value(figure, query.name).unwrap_or(FROM);
        let heap = value("heap_ms").min(value("heap_serial_ms"));
        for (value, y, color) in [(heap, y, HEAP), (value("mirror_ms"), y + BAR, MIRROR)] {
            bar(&mut svg, LEFT, y, position(value) - LEFT, BAR - 1.0, color);
            text(&mut svg, position(value) + 5.0, y + 11.0, "start", "normal", &rounded(value));
        }
        let times = format!("× {}", rounded(value("speedup_vs_heap")));
        text(&mut svg, WIDTH - 20.0, y + BAR + 4.0, "end", "bold", &times);
    }
    svg + "</svg>\n"
}

fn position(value: f64) -> f64 {
    LEFT + (value.max(FROM) / FROM).log10() / DECADES * (WIDTH - LEFT - RIGHT)
}

fn bar(svg: &mut String, x: f64, y: f64, width: f64, height: f64, color: &str) {
    // Writing to a string does not fail.
    let _ =
        writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, weight: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ten_times_as_long_in_ms_is_a_decade_longer() {
        let decade = (WIDTH - LEFT - RIGHT) / DECADES;
        assert!((position(50.0) - position(5.0) - decade).abs() < 1e-9);
        assert_eq!(position(0.0), LEFT);
    }
}
