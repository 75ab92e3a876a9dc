//! The live view of the demonstration: a block of lines in the terminal, which is redrawn every second. If the output
//! is not a terminal, a line for each phase is printed instead.

use std::io::{IsTerminal, Write};

use anker_report::{median, rounded};

use crate::{Result, os};

pub struct View {
    live: bool,
    /// Duration of all phases together.
    seconds: u32,
    phases: Vec<Phase>,
    /// The mirror's last known state.
    mirror: String,
    /// The number of lines that the block on the screen has now.
    lines: usize,
}

struct Phase {
    name: &'static str,
    /// Orders in each second.
    orders: Vec<f64>,
    queries: Vec<f64>,
    /// Latency of each of the eight queries, in milliseconds, when the phase is over.
    latencies: Vec<f64>,
}

/// The greatest length of a line. Lines are also kept shorter than the terminal is wide, so that they do not wrap.
const WIDTH: usize = 79;
/// Width of a series, in columns.
const SERIES: usize = 45;

impl View {
    pub fn new(seconds: u32) -> View {
        View { live: std::io::stdout().is_terminal(), seconds, phases: Vec::new(), mirror: String::new(), lines: 0 }
    }

    pub fn begin(&mut self, name: &'static str) {
        self.phases.push(Phase { name, orders: Vec::new(), queries: Vec::new(), latencies: Vec::new() });
    }

    pub fn second(&mut self, orders: f64, queries: f64, mirror: String) -> Result<()> {
        if let Some(phase) = self.phases.last_mut() {
            phase.orders.push(orders);
            phase.queries.push(queries);
        }
        self.mirror = mirror;
        self.draw()
    }

    /// Shows the totals of a phase.
    pub fn end(&mut self, orders: f64, queries: usize) -> Result<()> {
        if let (false, Some(phase)) = (self.live, self.phases.last()) {
            println!("{}: {orders:.0} new orders/min, {queries} queries", told(phase.name));
        }
        Ok(())
    }

    pub fn answered(&mut self, name: &str, latencies: Vec<f64>) -> Result<()> {
        if let Some(phase) = self.phases.iter_mut().find(|phase| phase.name == name) {
            phase.latencies = latencies;
        }
        self.draw()
    }

    /// Draws the block once more, if there is a terminal.
    fn draw(&mut self) -> Result<()> {
        if !self.live {
            return Ok(());
        }
        let lines = self.block();
        let width = os::terminal_width().map_or(WIDTH, |columns| WIDTH.min(columns - 1));
        let mut text = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
        for line in &lines {
            text += &line.chars().take(width).collect::<String>();
            text += "\x1b[K\n";
        }
        self.lines = lines.len();
        print!("{text}");
        Ok(std::io::stdout().flush()?)
    }

    fn block(&self) -> Vec<String> {
        let done: usize = self.phases.iter().map(|phase| phase.orders.len()).sum();
        let now = |of: fn(&Phase) -> &Vec<f64>| self.phases.last().and_then(|phase| of(phase).last().copied());
        let series = |of: fn(&Phase) -> &Vec<f64>| sparklines(&self.phases.iter().map(of).collect::<Vec<_>>());
        let pad = |text: String| format!("{text}{}", " ".repeat(SERIES.saturating_sub(text.chars().count())));
        let mut lines = vec![
            format!("{}, second {done} of {}", self.phases.last().map_or("", |phase| told(phase.name)), self.seconds),
            format!("  new orders/min  {} {:>8.0}", pad(series(|p| &p.orders)), now(|p| &p.orders).unwrap_or(0.0)),
            format!("  queries/s       {} {:>8.0}", pad(series(|p| &p.queries)), now(|p| &p.queries).unwrap_or(0.0)),
            format!("  mirror          {}", self.mirror),
        ];
        let typical = self.phases.iter().filter(|phase| !phase.latencies.is_empty());
        let typical: Vec<_> =
            typical.map(|phase| format!("on the {} {} ms", phase.name, rounded(median(&phase.latencies)))).collect();
        if !typical.is_empty() {
            lines.push(format!("  median query    {}", typical.join(", ")));
        }
        lines
    }
}

fn told(phase: &str) -> &'static str {
    match phase {
        "heap" => "queries on the heap",
        "mirror" => "queries on the mirror",
        _ => "transactions alone",
    }
}

/// Draws several series beside each other, on a common scale and with a stroke in between, in at most `SERIES` columns.
fn sparklines(series: &[&Vec<f64>]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = series.iter().flat_map(|values| values.iter()).copied().fold(0.0, f64::max);
    let all: usize = series.iter().map(|values| values.len()).sum();
    let together = all.div_ceil(SERIES - series.len()).max(1);
    let block = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let share = if most > 0.0 { mean / most } else { 0.0 };
        BLOCKS[(share * 7.99) as usize % BLOCKS.len()]
    };
    let line = |values: &&Vec<f64>| values.chunks(together).map(block).collect::<String>();
    series.iter().map(line).collect::<Vec<_>>().join("│")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_as_high_as_its_values_and_never_too_long() {
        assert_eq!(sparklines(&[&vec![0.0, 50.0, 100.0], &vec![100.0]]), "▁▄█│█");
        assert_eq!(sparklines(&[&vec![], &vec![0.0]]), "│▁");
        let long = sparklines(&[&vec![1.0; 1000], &vec![2.0; 1001]]);
        assert!(long.chars().count() <= SERIES, "{long}");
    }

    #[test]
    fn the_block_fits_its_width() {
        let mut view = View { live: false, seconds: 45, phases: Vec::new(), mirror: String::new(), lines: 0 };
        for name in ["no queries", "heap", "mirror"] {
            view.begin(name);
            let mirror = "12 kB of WAL behind, 130 MB, 123456 transactions applied";
            (0..200).for_each(|_| view.second(123_456.0, 99.0, mirror.into()).unwrap());
            // The phase "no queries" has no latencies of queries.
            view.answered(name, if name == "no queries" { vec![] } else { vec![1234.5, 2000.0] }).unwrap();
        }
        let lines = view.block();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("queries on the mirror, second 600 of 45"), "{}", lines[0]);
    }
}
