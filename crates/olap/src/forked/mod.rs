//! Scans with groups in a forked child of this process, as in HyPer's first versions.
//!
//! ```text
//!   parent   plan -> Program (+ the remaining plan)       Reply -> input of the remaining plan -> DataFusion
//!                |  chunks of a view, memory to work in      ^
//!   fork --------|-------------------------------------------|---
//!   child        Work: registers of a chunk, groups ---------+
//! ```
//!
//! A child of a process with many threads may neither allocate nor lock, so it cannot run the engine's operators.
//! Instead, it runs a program that reads one mirrored table chunk by chunk, keeps the rows that pass the conditions,
//! and groups them. If a plan needs more than a program can do, or if an error may have to be raised, the query runs on
//! the heap.

mod evaluate;
mod groups;
mod program;
mod reply;
mod trouble;

use colstore::{CHUNK_ROWS, Coded, Errand, OutOfMemory, TableView};
use plan::{ColumnId, Literal, Meaning, Plan, Rel, Relation, Source, words};
use protocol::request::{Failure, Refusal, SentRows};
use protocol::tree::{Actual, EnginePlan, Operator, Step};

use evaluate::{Chunk, Registers};
use groups::Groups;
use program::Program;

/// A plan whose first part a child can run.
pub struct Forking {
    program: Program,
    /// The part of the plan that the child runs, and the meanings of all columns, for EXPLAIN.
    groups: Rel,
    columns: Vec<(ColumnId, Meaning)>,
    /// The remaining plan. Its only relation is the child's groups, which it reads like rows that PostgreSQL has sent
    /// along.
    rest: Plan,
}

/// Decides whether a child can run the first part of a plan. If not, the error says why.
impl Forking {
    pub fn of(plan: &Plan, params: &[Option<Literal>]) -> Result<Forking, String> {
        plan.check().map_err(|e| e.to_string())?;
        let [relation] = &plan.relations[..] else { return Err("it reads several tables".into()) };
        match &relation.source {
            Source::Tables { tables, .. } if tables.len() == 1 => {}
            Source::Tables { .. } => return Err("its table has partitions".into()),
            Source::Sent => return Err("it reads rows that are sent along".into()),
        }
        let mut rest = plan.clone();
        let groups = lowest_groups(&mut rest.root)?;
        let program = Program::of(groups, plan, params)?;
        let whole = groups.clone();
        let columns = groups.columns();
        let types = columns.iter().map(|column| plan.columns[column.0 as usize]).collect();
        *groups = Rel::Scan { relation: 0, columns };
        rest.relations = vec![Relation::new(Source::Sent, types)];
        Ok(Forking { program, groups: whole, columns: words::meanings(&plan.root), rest })
    }

    /// The memory that a child needs for its work and its reply, in bytes.
    pub fn bytes(&self) -> usize {
        Registers::bytes(&self.program) + Groups::bytes(&self.program) + self.reply_bytes()
    }

    pub fn reply_bytes(&self) -> usize {
        reply::most_bytes(&self.program)
    }

    /// Prepares the work of one child. Called before the fork, so that nothing waits for this work during the fork.
    pub fn work(&self) -> Work {
        let program = self.program.clone();
        Work { registers: Registers::new(&program), groups: Groups::new(&program), chunks: Vec::new(), program }
    }

    /// The remaining plan and its input, from a child's reply.
    pub fn rest(&self, reply: &[u8]) -> Result<Rest, Failure> {
        let types = &self.rest.relations[0].columns;
        let (groups, passed) = reply::read(reply, &self.program, types)?;
        Ok(Rest { plan: self.rest.clone(), groups, passed })
    }

    /// The plan for EXPLAIN: the remaining plan as it ran, with the child's operators below it. The numbers are the
    /// rows that these operators returned: the groups, the rows that passed the conditions, and the scanned rows.
    pub fn told(&self, mut rest: EnginePlan, groups: u64, passed: u64, scanned: u64) -> EnginePlan {
        let operator = |step, rows, inputs| {
            let actual = Some(Actual { rows, ..Actual::default() });
            Operator { step, expected_rows: None, actual, inputs }
        };
        let (mut below, mut conditions, mut scan) = (&self.groups, Vec::new(), &[][..]);
        while let [input] = below.inputs()[..] {
            if let Rel::Filter { conditions: these, .. } = input {
                conditions.splice(0..0, these.iter().cloned());
            }
            below = input;
        }
        if let Rel::Scan { columns, .. } = below {
            scan = columns;
        }
        let step = Step::Scan { relation: 0, first: scan.first().copied(), read: (0..scan.len() as u16).collect() };
        let mut made = operator(step, scanned, vec![]);
        if !conditions.is_empty() {
            made = operator(Step::Filter { conditions }, passed, vec![made]);
        }
        if let Rel::Aggregate { keys, aggregates, .. } = &self.groups {
            let step = Step::Aggregate { keys: keys.clone(), aggregates: aggregates.clone() };
            made = operator(step, groups, vec![made]);
        }
        let mut place = &mut rest.root;
        while !matches!(place.step, Step::Scan { .. }) && !place.inputs.is_empty() {
            place = &mut place.inputs[0];
        }
        if matches!(place.step, Step::Scan { .. }) {
            *place = made;
        }
        EnginePlan { columns: self.columns.clone(), ..rest }
    }
}

/// The part of a query that remains after a child has answered.
pub struct Rest {
    pub plan: Plan,
    /// The child's groups, as rows of the only relation of `plan`.
    pub groups: SentRows,
    /// The number of rows that passed the conditions.
    pub passed: u64,
}

/// The lowest groups of the plan, if they are groups of a scan. If not, the error says why a child cannot run the plan.
fn lowest_groups(rel: &mut Rel) -> Result<&mut Rel, String> {
    match rel {
        Rel::Aggregate { input, .. } if is_scan(input) => Ok(rel),
        Rel::GroupingSets { input, .. } if is_scan(input) => Err("grouping sets".into()),
        Rel::Aggregate { input, .. }
        | Rel::GroupingSets { input, .. }
        | Rel::Filter { input, .. }
        | Rel::Map { input, .. }
        | Rel::Top { input, .. }
        | Rel::Unfold { input, .. }
        | Rel::Window { input, .. } => lowest_groups(input),
        Rel::Scan { .. } | Rel::Row => Err("its rows are not grouped".into()),
        Rel::Join { .. } | Rel::Apply { .. } => Err("it joins".into()),
        Rel::Union { .. } => Err("it unites rows".into()),
    }
}

/// Whether the rows come from a scan, perhaps filtered and with computed columns.
fn is_scan(rel: &Rel) -> bool {
    match rel {
        Rel::Scan { .. } => true,
        Rel::Filter { input, .. } | Rel::Map { input, .. } => is_scan(input),
        _ => false,
    }
}

/// The work of a child: the chunks that it reads, and the memory in which it works.
pub struct Work {
    program: Program,
    chunks: Vec<Chunk>,
    registers: Registers,
    groups: Groups,
}

impl Work {
    /// Notes where the table's columns lie in memory. The child reads them there after the fork.
    pub fn read(&mut self, view: &dyn TableView) -> Result<(), Refusal> {
        let out_of_memory = |error: OutOfMemory| Refusal::OutOfMemory { what: error.to_string() };
        for index in 0..view.chunk_count() {
            let rows = view.rows(index).map_err(out_of_memory)?;
            let coded = self.program.columns.iter().map(|column| match view.coded(index, *column) {
                Ok(Some(coded)) => Ok(coded),
                Ok(None) => Err(Refusal::NotForked { what: "a column that has no numbers".into() }),
                Err(error) => Err(out_of_memory(error)),
            });
            let columns: Vec<Coded> = coded.collect::<Result<_, _>>()?;
            self.chunks.push(Chunk { rows: rows.count.min(CHUNK_ROWS), live: rows.live, columns });
        }
        Ok(())
    }
}

impl Errand for Work {
    fn run(&mut self, reply: &mut [u8]) -> usize {
        let mut passed = 0;
        for chunk in &self.chunks {
            let done = self.registers.compute(&self.program, chunk).and_then(|rows| {
                passed += rows as u64;
                self.groups.add(&self.program, &self.registers, rows)
            });
            if let Err(trouble) = done {
                return reply::refuse(trouble, reply);
            }
        }
        reply::write(&self.program, &self.groups, passed, reply)
    }
}
