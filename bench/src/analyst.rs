//! A session that asks AnKer's eight queries in turn, on the heap or on the mirror, and remembers how long they took.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::{Result, queries};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Heap,
    Mirror,
}

impl Side {
    pub fn sql(self, query: &queries::Query) -> String {
        match self {
            Side::Heap => query.heap(),
            Side::Mirror => query.flagged(),
        }
    }
}

/// Milliseconds of every run, for each of the eight queries.
pub type Latencies = [Vec<f64>; 8];

pub struct Analyst {
    stop: Arc<AtomicBool>,
    latencies: Arc<Mutex<Latencies>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Analyst {
    pub fn start(cluster: &Cluster, side: Side, pause: Duration) -> Result<Analyst> {
        let mut client = cluster.config().application_name("analyst").connect(postgres::NoTls)?;
        let stop = Arc::new(AtomicBool::new(false));
        let latencies = Arc::new(Mutex::new(Latencies::default()));
        let (stopped, recorded) = (stop.clone(), latencies.clone());
        let work = move || -> Result<()> {
            for turn in (0..queries::ANKER.len()).cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (elapsed, _) = queries::timed(&mut client, &side.sql(&queries::ANKER[turn]))?;
                recorded.lock().expect("nobody panics with the lock")[turn].push(elapsed.as_secs_f64() * 1e3);
                std::thread::sleep(pause);
            }
            Ok(())
        };
        Ok(Analyst { stop, latencies, thread: Some(std::thread::spawn(work)) })
    }

    pub fn latencies(&self) -> Latencies {
        self.latencies.lock().expect("nobody panics with the lock").clone()
    }

    pub fn finish(mut self) -> Result<Latencies> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| "the analyst panicked")??;
        }
        Ok(self.latencies())
    }
}

impl Drop for Analyst {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
