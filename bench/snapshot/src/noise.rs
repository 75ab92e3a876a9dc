//! Measures how quiet the machine is, because figures from a busy machine are doubtful.

use crate::clock::Tick;
use crate::proc;

const PIECES: usize = 400;

/// Runs the same piece of arithmetic many times. Returns the time that only the slowest hundredth of the runs exceed,
/// divided by the shortest time.
pub fn spread() -> f64 {
    let times: Vec<f64> = (0..PIECES)
        .map(|_| {
            let start = Tick::now();
            std::hint::black_box((0..100_000u64).fold(1, |sum: u64, i| std::hint::black_box(sum ^ i)));
            start.elapsed()
        })
        .collect();
    let ratio = anker_report::percentile(&times, 0.99) / anker_report::percentile(&times, 0.0);
    (ratio * 100.0).round() / 100.0
}

/// Counts the CPU time that other processes take.
pub struct Watch {
    busy: u64,
    all: u64,
    own: u64,
}

impl Watch {
    pub fn start() -> Watch {
        let (busy, all) = proc::cpu_ticks();
        Watch { busy, all, own: proc::own_cpu_ticks() }
    }

    /// The share of all CPU time since the start that other processes and other machines on the same host used.
    pub fn others_share(&self) -> f64 {
        let (busy, all) = proc::cpu_ticks();
        let others = (busy - self.busy).saturating_sub(proc::own_cpu_ticks() - self.own);
        (others as f64 / (all - self.all).max(1) as f64 * 1000.0).round() / 1000.0
    }
}
