//! The thesis' experiments on YCSB: Figures 5.2, 5.3, 5.4 and 5.7.

use anker_report::Report;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::oltp::{self, Course};
use super::thesis;
use crate::Result;
use crate::distribution::Keys;
use crate::query::Query;
use crate::session::Session;
use crate::table::Table;
use crate::worker::{Job, Work, Worker};
use anker_report::page::Section;

pub const NAME: &str = "ycsb";

/// The length of a record. Its ten fields of 100 bytes each are stored in 1 KiB.
const RECORD: usize = 1024;
const FIELDS: usize = 10;
const FIELD: usize = 100;
/// Probabilities of a read, in tenths.
const READS: [u32; 6] = [0, 2, 4, 6, 8, 10];

pub struct Ycsb {
    table: Table,
    keys: Keys,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    reads: f64,
    transactions: usize,
}

impl Work for Ycsb {
    const NAME: &'static str = NAME;
    type Request = Request;
    type Answer = Course;

    fn begin(job: &Job) -> Result<Ycsb> {
        let table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        Ok(Ycsb { table, keys: Keys::new((job.columns[0] / RECORD) as u64) })
    }

    fn answer(&mut self, Request { reads, transactions }: Request) -> Result<Course> {
        let mut random = StdRng::seed_from_u64(5);
        // The transactions are drawn in advance, because drawing one takes longer than running it.
        let plan: Vec<_> = (0..transactions)
            .map(|_| {
                let record = self.keys.next(&mut random) as usize * RECORD;
                let field = record + FIELD * random.random_range(0..FIELDS);
                if random.random::<f64>() < reads { Transaction::Read(record) } else { Transaction::Update(field) }
            })
            .collect();
        let mut buffer = [0; FIELDS * FIELD];
        oltp::course(&mut self.table, Query::Sum { column: 0 }, transactions, |table, i| match plan[i] {
            Transaction::Read(record) => {
                table.read(0, record, &mut buffer);
                std::hint::black_box(&mut buffer);
                Ok(())
            }
            Transaction::Update(field) => table.write(0, field, &[i as u8; FIELD]),
        })
    }
}

/// A transaction on the record at an offset.
enum Transaction {
    Read(usize),
    Update(usize),
}

pub fn run(session: &mut Session) {
    let sizes: &[usize] = session.options.effort.choose(&[16, 64], &[128, 1024], &[100, 1024, 2048, 4096]);
    let transactions = session.options.effort.choose(100_000, 300_000, 1_000_000);
    for &mb in sizes {
        for subject in session.subjects() {
            session.progress(&format!("{NAME}: {}, {mb} MB", subject.name()));
            let job = session.job(subject, vec![mb << 20], mb << 20);
            let params = json!({ "size_mb": mb, "run_kb": session.options.run_kb, "transactions": transactions });
            let worker = job.and_then(|job| Worker::<Ycsb>::start(&job));
            let Some(mut worker) = session.or_skip(NAME, subject.name(), params.clone(), worker) else { continue };
            for tenths in READS {
                let reads = tenths as f64 / 10.0;
                let mut params = params.clone();
                params["reads"] = reads.into();
                let course = worker.ask(Request { reads, transactions });
                if let Some(course) = session.or_skip(NAME, subject.name(), params.clone(), course) {
                    thesis::rows(
                        session,
                        NAME,
                        subject.name(),
                        &params,
                        &course,
                        reads == thesis::MIXED && sizes.last() == Some(&mb),
                    );
                }
            }
        }
    }
}

pub fn section(report: &Report) -> Section {
    let mut section = thesis::section(report, NAME, "reads");
    section.title = "The thesis, Figures 5.2, 5.3, 5.4 and 5.7: YCSB".into();
    section.claim =
        "The thesis: latencies spike after the snapshot and fall back as pages have been copied; scoot is the \
                     fastest to create and the slowest to fall back (220 % above fork), mremap 23 % below fork; \
                     throughput follows."
            .into();
    section.notes.push(
        "An analogue: one region of records of 1 KiB, without ScooterDB's index and transactions. A read copies a record, \
         an update overwrites one of its ten fields of 100 bytes; keys are YCSB's scattered Zipf. The analytic query sums \
         the whole region. The thesis' 14 GB are beyond this machine."
            .into(),
    );
    section
}
