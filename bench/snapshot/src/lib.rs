//! The papers' snapshot experiments, at the level of memory: AnKer's Table 1 and Figure 4, DaMoN'12, and the thesis'
//! chapter 5, each for every mechanism of snapmem beside fork.
//!
//! | file | holds |
//! |---|---|
//! | `options`, `session` | the options of a run; one run and its results |
//! | `worker` | the processes that measure, one for each mechanism |
//! | `table`, `query` | columns under one mechanism, and queries on their snapshots |
//! | `distribution`, `clock`, `proc`, `noise` | the places of updates; time; figures of the system; how quiet it is |
//! | `experiments` | the experiments, a file for each |
//! | `bars`, `kernel_calls`, `characteristics` | required results; the thesis' six characteristics |
//! | `about`, `document` | the machine of a report; tables and plots of a document |

pub mod about;
pub mod bars;
pub mod characteristics;
pub mod clock;
pub mod distribution;
pub mod document;
pub mod experiments;
pub mod kernel_calls;
pub mod noise;
pub mod options;
pub mod proc;
pub mod query;
pub mod session;
pub mod table;
pub mod worker;

/// The error of everything that can go wrong here. It is reported to a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;
