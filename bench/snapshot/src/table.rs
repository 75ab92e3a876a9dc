//! A table whose columns use one mechanism. Experiments write to it, snapshot it and read it in the same way, whatever
//! the mechanism is.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use snapmem::{ForkMemory, ForkSnapshot, ForkView, Mechanism, Pages, Pool, Region, Run, Snapshot};

use crate::Result;
use crate::clock::Tick;
use crate::query::{Columns, Query};

/// A mechanism, or one of the two ways of forking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    Region(Mechanism),
    /// A fork of the whole process.
    Fork,
    /// A fork that copies only the wanted columns.
    ForkColumns,
}

impl Subject {
    pub fn all() -> Vec<Subject> {
        let regions = Mechanism::ALL.into_iter().map(Subject::Region);
        [Subject::Fork, Subject::ForkColumns].into_iter().chain(regions).collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Subject::Region(mechanism) => mechanism.name(),
            Subject::Fork => "fork",
            Subject::ForkColumns => "fork_columns",
        }
    }

    pub fn is_fork(self) -> bool {
        !matches!(self, Subject::Region(_))
    }

    /// Tests whether the mechanism works on this machine. If not, the error says why.
    pub fn probe(self) -> Result<()> {
        match self {
            Subject::Region(mechanism) => Ok(mechanism.probe()?),
            Subject::Fork | Subject::ForkColumns => Ok(()),
        }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.name().to_owned()
    }
}

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(name: String) -> std::result::Result<Subject, String> {
        let found = Subject::all().into_iter().find(|subject| subject.name() == name);
        found.ok_or_else(|| format!("no snapshot mechanism is called {name:?}"))
    }
}

pub struct Table {
    memory: Memory,
    pool: Pool,
    subject: Subject,
    run_bytes: usize,
    lengths: Vec<usize>,
}

enum Memory {
    Regions(Vec<Box<dyn Region>>),
    /// `regions` has the number of each column's region. The number changes when the column is created anew.
    Fork {
        memory: ForkMemory,
        regions: Vec<usize>,
    },
}

impl Table {
    /// Columns of these lengths in bytes, every page of which has been written to.
    pub fn new(subject: Subject, pool: &Pool, run_bytes: usize, lengths: &[usize]) -> Result<Table> {
        let memory = match subject {
            Subject::Region(mechanism) => {
                let regions = lengths.iter().map(|_| mechanism.region(pool, run_bytes));
                Memory::Regions(regions.collect::<std::result::Result<_, _>>()?)
            }
            Subject::Fork | Subject::ForkColumns => {
                let mut memory = ForkMemory::new(pool, Pages::Small)?;
                let regions = lengths.iter().map(|_| memory.create()).collect();
                Memory::Fork { memory, regions }
            }
        };
        let lengths = lengths.to_vec();
        let mut table = Table { memory, pool: pool.clone(), subject, run_bytes, lengths };
        (0..table.lengths.len()).try_for_each(|column| table.fill(column))?;
        Ok(table)
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub fn columns(&self) -> usize {
        self.lengths.len()
    }

    pub fn len(&self, column: usize) -> usize {
        self.lengths[column]
    }

    /// Creates the column anew, with its initial values and mappings. Earlier writes may have split a mechanism's
    /// mappings.
    pub fn renew(&mut self, column: usize) -> Result<()> {
        match (&mut self.memory, self.subject) {
            (Memory::Regions(regions), Subject::Region(mechanism)) => {
                // Drops the old region first, because it may use all the mappings that the process may have.
                regions[column] = Mechanism::Frames.region(&self.pool, self.run_bytes)?;
                regions[column] = mechanism.region(&self.pool, self.run_bytes)?;
            }
            (Memory::Fork { memory, regions }, _) => {
                memory.drop_region(regions[column]);
                regions[column] = memory.create();
            }
            (Memory::Regions(_), _) => unreachable!("regions are of a region's mechanism"),
        }
        self.fill(column)
    }

    fn fill(&mut self, column: usize) -> Result<()> {
        let len = self.lengths[column].next_multiple_of(self.run_bytes);
        match &mut self.memory {
            Memory::Regions(regions) => regions[column].grow(len)?,
            Memory::Fork { memory, regions } => memory.grow(regions[column], len)?,
        }
        let mut run = vec![0; self.run_bytes];
        for offset in (0..len).step_by(self.run_bytes) {
            for (i, word) in run.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&initial(offset + 8 * i).to_le_bytes());
            }
            self.write(column, offset, &run)?;
        }
        Ok(())
    }

    #[inline]
    pub fn write(&mut self, column: usize, offset: usize, bytes: &[u8]) -> Result<()> {
        match &mut self.memory {
            Memory::Regions(regions) => regions[column].write(offset, bytes)?,
            Memory::Fork { memory, regions } => memory.write(regions[column], offset, bytes)?,
        }
        Ok(())
    }

    #[inline]
    pub fn read(&self, column: usize, offset: usize, into: &mut [u8]) {
        match &self.memory {
            Memory::Regions(regions) => regions[column].read(offset, into),
            Memory::Fork { memory, regions } => memory.read(regions[column], offset, into),
        }
    }

    pub fn snapshot(&mut self, columns: std::ops::Range<usize>) -> Result<Taken> {
        let taken = match &mut self.memory {
            Memory::Regions(regions) => {
                let mut snapshots = Vec::with_capacity(columns.len());
                for region in &mut regions[columns.clone()] {
                    snapshots.push(region.snapshot()?);
                }
                View::Regions(snapshots)
            }
            Memory::Fork { memory, regions } => View::Fork {
                snapshot: if self.subject == Subject::Fork {
                    memory.snapshot(1)?
                } else {
                    memory.snapshot_of(&regions[columns.clone()], 1)?
                },
                first_region: regions[columns.start],
            },
        };
        Ok(Taken { view: taken, first_column: columns.start, run_bytes: self.run_bytes })
    }
}

/// The initial value at an offset of a column.
pub fn initial(offset: usize) -> i64 {
    (offset / 8) as i64 % 1009
}

/// A snapshot of neighbouring columns, on which any thread can run queries.
pub struct Taken {
    view: View,
    first_column: usize,
    run_bytes: usize,
}

enum View {
    Regions(Vec<Box<dyn Snapshot>>),
    /// A forked child, which reads neighbouring columns. Their regions are neighbours, too.
    Fork {
        snapshot: ForkSnapshot,
        first_region: usize,
    },
}

/// A query's answer, and the times at which the thread or process that ran it began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub value: u64,
    pub began: Tick,
    pub ended: Tick,
}

impl Taken {
    /// Whether queries run in another process.
    pub fn is_fork(&self) -> bool {
        matches!(self.view, View::Fork { .. })
    }

    /// Runs a query on this thread, or has the child run it.
    pub fn ask(&self, query: Query) -> Result<Answer> {
        match &self.view {
            View::Regions(snapshots) => {
                let began = Tick::now();
                let value = query.answer(&SnapshotColumns { snapshots, first: self.first_column })?;
                Ok(Answer { value, began, ended: Tick::now() })
            }
            View::Fork { snapshot, first_region } => {
                let mut times = [0; 16];
                let arguments = [query.code(), self.first_column as u64, *first_region as u64, self.run_bytes as u64];
                let value = snapshot.run(answer_in_child, arguments, &mut times)?;
                let tick = |bytes: &[u8]| Tick::from_raw(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
                Ok(Answer { value, began: tick(&times[..8]), ended: tick(&times[8..]) })
            }
        }
    }
}

struct SnapshotColumns<'a> {
    snapshots: &'a [Box<dyn Snapshot>],
    first: usize,
}

impl Columns for SnapshotColumns<'_> {
    type Error = snapmem::Error;

    fn runs(&self, column: usize) -> usize {
        let snapshot = &self.snapshots[column - self.first];
        snapshot.len() / snapshot.run_bytes()
    }

    #[inline]
    fn run(&self, column: usize, run: usize) -> std::result::Result<impl Deref<Target = [u8]>, snapmem::Error> {
        self.snapshots[column - self.first].run(run).map(|run: Run| run)
    }
}

struct ChildColumns<'a> {
    view: &'a ForkView,
    first_column: usize,
    first_region: usize,
    run_bytes: usize,
}

impl Columns for ChildColumns<'_> {
    type Error = std::convert::Infallible;

    fn runs(&self, column: usize) -> usize {
        let region = self.first_region + (column - self.first_column);
        self.view.region(region).map_or(0, |bytes| bytes.len() / self.run_bytes)
    }

    #[inline]
    fn run(&self, column: usize, run: usize) -> std::result::Result<impl Deref<Target = [u8]>, Self::Error> {
        let region = self.first_region + (column - self.first_column);
        let bytes = self.view.region(region).unwrap_or_default();
        Ok(&bytes[run * self.run_bytes..(run + 1) * self.run_bytes])
    }
}

/// The job of a forked child, in which nothing may be allocated.
fn answer_in_child(view: &ForkView, arguments: [u64; 4], reply: &mut [u8]) -> u64 {
    let [code, first_column, first_region, run_bytes] = arguments.map(|argument| argument as usize);
    let began = Tick::now();
    let columns = ChildColumns { view, first_column, first_region, run_bytes };
    let value = Query::from_code(code as u64).map_or(0, |query| match query.answer(&columns) {
        Ok(value) => value,
        Err(never) => match never {},
    });
    reply[..8].copy_from_slice(&began.raw().to_le_bytes());
    reply[8..16].copy_from_slice(&Tick::now().raw().to_le_bytes());
    value
}
