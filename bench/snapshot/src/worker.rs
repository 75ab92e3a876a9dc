//! Worker processes, one for each mechanism, which exchange lines of JSON with the main process. They are separate, so
//! that the mappings that one mechanism creates do not slow down the fork of another.

use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snapmem::Pool;

use crate::table::Subject;
use crate::{Result, clock};

/// The arguments that a worker is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub subject: Subject,
    /// Lengths of the columns, in bytes.
    pub columns: Vec<usize>,
    pub run_bytes: usize,
    /// The pool's limit, in bytes.
    pub memory: u64,
}

impl Job {
    pub fn pool(&self) -> Pool {
        Pool::new(self.memory)
    }
}

/// The part of an experiment that runs in a worker.
pub trait Work: Sized {
    const NAME: &'static str;
    type Request: Serialize + DeserializeOwned;
    type Answer: Serialize + DeserializeOwned;

    fn begin(job: &Job) -> Result<Self>;
    fn answer(&mut self, request: Self::Request) -> Result<Self::Answer>;
}

/// The first argument of a worker's process.
pub const ARGUMENT: &str = "worker";

/// Answers requests until the main process closes the input.
pub fn serve<W: Work>(job: &Job) -> Result<()> {
    // If memory runs out, the kernel should kill this process first, because then only one figure is lost.
    std::fs::write("/proc/self/oom_score_adj", "1000")?;
    // Measures the length of a tick now, because that takes 20 ms, which must not be part of a measured time.
    clock::overhead();
    let mut work = W::begin(job);
    let reply = |result: std::result::Result<W::Answer, String>| -> Result<()> {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &result)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    };
    for line in std::io::stdin().lines() {
        let answer = match &mut work {
            Ok(work) => serde_json::from_str(&line?).map_err(Into::into).and_then(|request| work.answer(request)),
            Err(error) => Err(error.to_string().into()),
        };
        reply(answer.map_err(|error| error.to_string()))?;
    }
    Ok(())
}

/// The main process's handle of a worker process.
pub struct Worker<W> {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    work: PhantomData<W>,
}

impl<W: Work> Worker<W> {
    pub fn start(job: &Job) -> Result<Worker<W>> {
        let mut process = Command::new("/proc/self/exe")
            .args([ARGUMENT, W::NAME, &serde_json::to_string(job)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().ok_or("a worker without output")?);
        Ok(Worker { process, requests, answers, work: PhantomData })
    }

    pub fn ask(&mut self, request: W::Request) -> Result<W::Answer> {
        self.send(&request).or_else(|_| self.died())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            self.died()?;
        }
        serde_json::from_str::<std::result::Result<W::Answer, String>>(&line)?.map_err(Into::into)
    }

    fn send(&mut self, request: &W::Request) -> Result<()> {
        let requests = self.requests.as_mut().ok_or("no longer asked")?;
        Ok(requests.write_all((serde_json::to_string(request)? + "\n").as_bytes())?)
    }

    fn died(&mut self) -> Result<()> {
        Err(format!("the measuring process ended: {}", self.process.wait()?).into())
    }
}

impl<W> Drop for Worker<W> {
    fn drop(&mut self) {
        // Closes the worker's input, so that the worker ends, and waits for it. The worker's memory must be free before
        // the next worker measures.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}
