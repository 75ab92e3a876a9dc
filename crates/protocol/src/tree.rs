//! The engine's plan for a query, as EXPLAIN shows it: the plan that runs, after optimization.

use plan::{Aggregation, ColumnId, Computed, Expr, JoinKind, Meaning, Over, Range, SortKey, Unfold, WindowFunction};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnginePlan {
    pub root: Operator,
    /// The meaning of each column that the steps mention.
    pub columns: Vec<(ColumnId, Meaning)>,
}

/// An operator with all that is below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    pub step: Step,
    /// The rows that the optimizer expects, if it has an estimate.
    pub expected_rows: Option<f64>,
    /// The measured figures, if the query was run.
    pub actual: Option<Actual>,
    /// The inputs; a join's probe side comes first.
    pub inputs: Vec<Operator>,
}

/// Measured figures of an operator, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    pub rows: u64,
    /// The time spent in this operator alone; `None` if it is part of the time of the operator above.
    pub nanoseconds: Option<u64>,
    /// The greatest memory at one time.
    pub memory_bytes: u64,
    /// The greatest size on disk at one time.
    pub disk_bytes: u64,
    /// The chunks of a scan.
    pub chunks: Option<Chunks>,
    /// The number of rows that a scan left out because a join above has no partner for them.
    pub without_partner: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    pub read: u64,
    pub of: u64,
}

/// The work that an operator does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// The scan of a relation. `first` is its first column, if any, which distinguishes the scans of one relation;
    /// `read` lists the columns that it reads.
    Scan {
        relation: u16,
        first: Option<ColumnId>,
        read: Vec<u16>,
    },
    /// One row without columns.
    Row,
    /// Rows that are written in the query.
    Values {
        rows: u64,
    },
    Filter {
        conditions: Vec<Expr>,
    },
    Join(Join),
    /// The build side of a hash join.
    Hash,
    Union,
    /// Rows that are computed once and read several times. They are computed below the first such step with this
    /// number.
    Shared {
        number: u16,
        is_first: bool,
    },
    Aggregate {
        keys: Vec<Computed>,
        aggregates: Vec<Aggregation>,
    },
    /// The rows of its inputs, each of which groups by one set of keys.
    GroupingSets,
    /// The first rows in an order, or any rows; with keys, of each group.
    Top {
        keys: Vec<Expr>,
        order: Vec<SortKey>,
        range: Box<Range>,
    },
    /// Each row once for each element of its list.
    Unfold {
        list: Box<Unfold>,
    },
    Window {
        over: Box<Over>,
        functions: Vec<WindowFunction>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Join {
    pub method: Method,
    pub kind: JoinKind,
    /// Whether the kept side of the join is the second one.
    pub keeps_second: bool,
    /// The equal expressions of the first side and of the second.
    pub keys: Vec<(Expr, Expr)>,
    /// The conditions by which partners are looked up among sorted rows.
    pub limits: Vec<Expr>,
    pub conditions: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Hash,
    /// The sorted rows of one side, in which partners are adjacent.
    Range,
    /// A comparison of every row of one side with every row of the other.
    NestedLoop,
}
