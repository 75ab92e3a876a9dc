//! Harness for private PostgreSQL clusters with pg_anker installed, TPC-C as a workload, and the benchmarks.
//!
//! Everything here is a client: it knows the server's binaries, SQL and `/proc`, but nothing inside the extension.
//!
//! | file | holds |
//! |---|---|
//! | `server` | a private, relocated copy of PostgreSQL with the freshly built extension in it |
//! | `cluster` | one running server: initdb, start, stop, crash, log |
//! | `databases` | databases that are created in a server and dropped, also in an existing server |
//! | `anker` | the extension's SQL surface, as far as tests and benchmarks need it |
//! | `tpcc` | schema, loader and clients of TPC-C |
//! | `queries` | AnKer's eight queries, and the comparison of their answers |
//! | `wire` | a client that returns the server's messages unchanged |
//! | `stage` | a loaded database, of which every run gets a copy |
//! | `streams` | sessions that run queries beside transactions |
//! | `trial` | one run of transactions and queries, and its cost |
//! | `sets` | queries and data that others have defined: AnKer, TPC-H, CH-benCHmark, SSB |
//! | `arguments` | the arguments of a command |
//! | `rows` | random values, and COPY |
//! | `report` | the benchmarks' findings |
//! | `demo`, `experiments` | the commands themselves |

pub mod anker;
pub mod arguments;
pub mod cluster;
pub mod databases;
pub mod demo;
pub mod experiments;
pub mod os;
pub mod queries;
pub mod report;
pub mod rows;
pub mod server;
pub mod sets;
pub mod stage;
pub mod streams;
pub mod tpcc;
pub mod trial;
pub mod wire;

pub use arguments::Output;

/// The error of everything that can go wrong in a harness. It is reported to a person and ends the run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// The text of an error, with everything that the server has sent. The driver's own text is often only "db error".
pub fn describe(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<postgres::Error>().and_then(|e| e.as_db_error()) {
        Some(db) => {
            let more = [db.detail(), db.hint(), db.where_()].into_iter().flatten().collect::<Vec<_>>().join("; ");
            format!("{db} [{}] {more}", db.code().code())
        }
        None => {
            let mut told = error.to_string();
            for cause in std::iter::successors(error.source(), |cause| cause.source()) {
                let cause = cause.to_string();
                // The text of some errors already contains the text of their cause.
                if !told.contains(&cause) {
                    told += &format!(": {cause}");
                }
            }
            told
        }
    }
}
