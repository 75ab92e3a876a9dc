//! The experiments. Each measures in worker processes, adds rows to the report, and makes a section of the page from
//! these rows.

mod column;
mod columns;
pub mod common;
mod copy_rate;
mod cycle;
mod fork_size;
mod oltp;
mod sequence;
mod thesis;
mod tpch;
pub mod turns;
mod ycsb;

use anker_report::Report;
use serde_json::json;

use crate::Result;
use crate::session::Session;
use crate::worker::{self, Job, Work};
use anker_report::page::Section;

pub struct Experiment {
    pub name: &'static str,
    run: fn(&mut Session),
}

/// All experiments in the order in which they run. The longest one is the last, so that a time limit cuts only this
/// one.
pub const ALL: [Experiment; 11] = [
    Experiment { name: columns::TABLE1, run: columns::run },
    Experiment { name: turns::NAME, run: turns::run },
    Experiment { name: column::FIRST_WRITE, run: column::run_first_write },
    Experiment { name: column::READ, run: column::run_read },
    Experiment { name: column::MEMORY, run: column::run_memory },
    Experiment { name: sequence::NAME, run: sequence::run },
    Experiment { name: copy_rate::NAME, run: copy_rate::run },
    Experiment { name: fork_size::NAME, run: fork_size::run },
    Experiment { name: ycsb::NAME, run: ycsb::run },
    Experiment { name: tpch::NAME, run: tpch::run },
    Experiment { name: cycle::NAME, run: cycle::run },
];

type Draw = fn(&Report) -> Section;

const SECTIONS: [(&str, Draw); 11] = [
    (columns::TABLE1, columns::section),
    (columns::WRITES, columns::writes_section),
    (sequence::NAME, sequence::section),
    (copy_rate::NAME, copy_rate::section),
    (fork_size::NAME, fork_size::section),
    (column::FIRST_WRITE, column::first_write_section),
    (column::READ, column::read_section),
    (column::MEMORY, column::memory_section),
    (cycle::NAME, cycle::section),
    (ycsb::NAME, ycsb::section),
    (tpch::NAME, tpch::section),
];

impl Experiment {
    pub fn run(&self, session: &mut Session) {
        if session.or_skip(self.name, "all", json!({}), session.time_left()).is_some() {
            session.note_noise(self.name);
            (self.run)(session);
        }
    }
}

/// The sections of all experiments that have rows in the report.
pub fn sections(report: &Report) -> Vec<Section> {
    let has_rows = |name: &str| report.rows().iter().any(|row| row.experiment == name);
    SECTIONS.into_iter().filter(|(name, _)| has_rows(name)).map(|(_, section)| section(report)).collect()
}

/// Whether the report has rows of all experiments.
pub fn complete(report: &Report) -> bool {
    sections(report).len() == SECTIONS.len()
}

/// Runs this process as a worker of an experiment, until there are no more requests.
pub fn serve(name: &str, job: &Job) -> Result<()> {
    match name {
        columns::Columns::NAME => worker::serve::<columns::Columns>(job),
        sequence::Sequence::NAME => worker::serve::<sequence::Sequence>(job),
        copy_rate::CopyRate::NAME => worker::serve::<copy_rate::CopyRate>(job),
        fork_size::ForkSize::NAME => worker::serve::<fork_size::ForkSize>(job),
        column::Column::NAME => worker::serve::<column::Column>(job),
        cycle::Cycle::NAME => worker::serve::<cycle::Cycle>(job),
        ycsb::Ycsb::NAME => worker::serve::<ycsb::Ycsb>(job),
        tpch::Tpch::NAME => worker::serve::<tpch::Tpch>(job),
        _ => Err(format!("no worker is called {name}").into()),
    }
}
