//! One loss of the mirror. A session looks at the views of pg_anker all the time until all tables are live again. So
//! the time is divided into parts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use postgres::Client;

use super::{Data, LIMIT};
use crate::cluster::Stop;
use crate::tpcc::Clients;
use crate::{Result, anker, os};

/// The pause between two looks at the views.
const PAUSE: Duration = Duration::from_millis(10);

/// The ways in which the mirror is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server is stopped and started.
    Restart,
    Engine,
    /// The server is stopped as by a power failure.
    Crash,
}

impl Loss {
    pub fn name(self) -> &'static str {
        match self {
            Loss::Restart => "clean restart",
            Loss::Engine => "engine killed",
            Loss::Crash => "crash",
        }
    }
}

/// The steps until the tables are live again, in their order. Each is a figure of the report.
pub const STEPS: [&str; 5] = ["worker", "engine", "stream", "first load", "loads"];
/// The phases of a load in `anker.loads`.
pub const PHASES: [&str; 4] = ["initializing", "comparing with checkpoint", "scanning heap", "finishing"];

/// The return of the mirror. Times are in seconds.
pub struct Returned {
    /// The time until the server accepts connections, if it was stopped.
    pub start: Option<f64>,
    /// The time from the loss, or from the moment that the server accepts connections.
    pub live: f64,
    steps: [f64; STEPS.len()],
    /// The time of all loaders together in each phase.
    phases: [f64; PHASES.len()],
    /// CPU time of the new engine.
    engine_cpu: f64,
    /// CPU time of all loaders.
    loaders_cpu: f64,
    pub checkpoint_rows: f64,
    blocks: f64,
    changed_blocks: f64,
}

impl Returned {
    pub fn figures(&self, mut row: impl FnMut(&str, f64, &str)) {
        row("live", self.live, "s");
        self.start.into_iter().for_each(|start| row("start", start, "s"));
        STEPS.iter().zip(self.steps).for_each(|(step, seconds)| row(step, seconds, "s"));
        PHASES.iter().zip(self.phases).for_each(|(phase, seconds)| row(phase, seconds, "s of all loaders"));
        row("engine's CPU", self.engine_cpu, "s");
        row("loaders' CPU", self.loaders_cpu, "s");
        row("CPU", self.engine_cpu + self.loaders_cpu, "s, engine and loaders");
        if self.checkpoint_rows > 0.0 {
            row("changed", self.changed_blocks / self.blocks, "of the heap's blocks");
        }
    }
}

/// Loses the mirror, and waits until all tables are live again. If the server stops, the clients end after it.
pub fn lose(data: &Data, loss: Loss, client: &mut Client, clients: &mut Option<Clients>) -> Result<Returned> {
    let (worker, engine) = anker::processes(client)?.ok_or("no engine is running")?;
    let mut start = None;
    if loss == Loss::Engine {
        os::kill(engine, os::SIGKILL)?;
    } else {
        data.cluster.stop(if loss == Loss::Crash { Stop::Immediate } else { Stop::Fast })?;
        clients.iter_mut().for_each(Clients::halt);
        let started = Instant::now();
        data.cluster.resume()?;
        start = Some(started.elapsed().as_secs_f64());
    }
    let lost = Instant::now();
    if loss != Loss::Engine {
        *client = data.cluster.connect()?;
    }
    let mut watch = Watch::new((worker, engine));
    let mut looked = lost;
    while watch.reached[STEPS.len() - 1].is_none() {
        if lost.elapsed() > LIMIT {
            return Err("the tables do not become live again".into());
        }
        let since = std::mem::replace(&mut looked, Instant::now());
        watch.look(client, data.tables.len(), looked.duration_since(since), lost)?;
        std::thread::sleep(PAUSE);
    }
    let new = anker::engine_pid(client)?;
    let engine_cpu = os::precise_cpu_time(new).unwrap_or_default().as_secs_f64();
    let loaders_cpu = watch.loaders.values().sum();
    let sums = "SELECT coalesce(sum(checkpoint_rows), 0)::float8, coalesce(sum(heap_blks_total), 0)::float8,
            coalesce(sum(heap_blks_changed), 0)::float8 FROM anker.tables";
    let row = client.query_one(sums, &[])?;
    let live = watch.reached[STEPS.len() - 1].unwrap_or_default();
    Ok(Returned {
        start,
        live,
        steps: watch.steps(),
        phases: watch.phases,
        engine_cpu,
        loaders_cpu,
        checkpoint_rows: row.get(0),
        blocks: row.get(1),
        changed_blocks: row.get(2),
    })
}

/// The steps that were seen so far.
struct Watch {
    /// The worker and the engine before the loss.
    old: (u32, u32),
    /// For each step, the seconds from the loss to its end.
    reached: [Option<f64>; STEPS.len()],
    phases: [f64; PHASES.len()],
    /// The loaders' process ids, each with its CPU time in seconds.
    loaders: HashMap<i32, f64>,
}

impl Watch {
    fn new(old: (u32, u32)) -> Watch {
        Watch { old, reached: [None; STEPS.len()], phases: [0.0; PHASES.len()], loaders: HashMap::new() }
    }

    /// Looks once. `passed` is the time since the look before.
    fn look(&mut self, client: &mut Client, tables: usize, passed: Duration, lost: Instant) -> Result<()> {
        let row = client.query_one(
            "SELECT coalesce(worker_pid, 0), coalesce(engine_pid, 0), state,
                (SELECT coalesce(array_agg(phase), '{}') FROM anker.loads),
                (SELECT coalesce(array_agg(pid), '{}') FROM anker.loads),
                (SELECT count(*) FROM anker.tables AS t WHERE t.state = 'live')
             FROM anker.engine",
            &[],
        )?;
        let [worker, engine]: [i32; 2] = std::array::from_fn(|column| row.get(column));
        let (state, loads, live): (&str, Vec<&str>, i64) = (row.get(2), row.get(3), row.get(5));
        for pid in row.get::<_, Vec<i32>>(4) {
            if let Some(cpu) = os::precise_cpu_time(pid as u32) {
                self.loaders.insert(pid, cpu.as_secs_f64());
            }
        }
        for (seconds, phase) in self.phases.iter_mut().zip(PHASES) {
            *seconds += passed.as_secs_f64() * loads.iter().filter(|load| **load == phase).count() as f64;
        }
        let has_worker = worker != 0 && worker as u32 != self.old.0;
        let has_engine = has_worker && engine != 0 && engine as u32 != self.old.1;
        let has_stream = has_engine && state == "running";
        let is_live = has_stream && live == tables as i64;
        // Loads of small tables may be over between two looks.
        let has_load = has_stream && (!loads.is_empty() || live > 0);
        let now = lost.elapsed().as_secs_f64();
        for (reached, holds) in self.reached.iter_mut().zip([has_worker, has_engine, has_stream, has_load, is_live]) {
            if holds {
                reached.get_or_insert(now);
            }
        }
        Ok(())
    }

    /// The time of each step.
    fn steps(&self) -> [f64; STEPS.len()] {
        let mut before = 0.0;
        self.reached.map(|reached| {
            let reached = reached.unwrap_or(before);
            reached - std::mem::replace(&mut before, reached)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_to_the_whole_time() {
        let reached = [Some(1.0), Some(1.25), None, Some(1.5), Some(4.0)];
        let watch = Watch { reached, ..Watch::new((0, 0)) };
        assert_eq!(watch.steps(), [1.0, 0.25, 0.0, 0.25, 2.5]);
    }
}
