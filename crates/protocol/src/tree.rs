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
    /// The rows that the optimizer counts on, where it has an idea of them.
    pub expected_rows: Option<f64>,
    /// If it was run.
    pub actual: Option<Actual>,
    /// The inputs; a join's probe side comes first.
    pub inputs: Vec<Operator>,
}

/// Measured figures of an operator, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    pub rows: u64,
    /// Spent in this operator alone; `None`: its time is part of the one's above.
    pub nanoseconds: Option<u64>,
    /// At most.
    pub memory_bytes: u64,
    /// At most.
    pub disk_bytes: u64,
    /// The chunks of a scan.
    pub chunks: Option<Chunks>,
    /// Rows that a scan left out since a join above has no partner for them.
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
    /// The scan of a relation of the plan. `first` is its first column, if any, and tells scans of one relation
    /// apart; `read` lists the columns that it reads.
    Scan {
        relation: u16,
        first: Option<ColumnId>,
        read: Vec<u16>,
    },
    /// One row without columns.
    Row,
    /// Rows that the query spells out.
    Values {
        rows: u64,
    },
    Filter {
        conditions: Vec<Expr>,
    },
    Join(Join),
    /// Puts the rows of a join's second side into a hash table.
    Hash,
    Union,
    /// Rows that are computed once, below the first such step of this number, and read several times.
    Shared {
        number: u16,
        is_first: bool,
    },
    Aggregate {
        keys: Vec<Computed>,
        aggregates: Vec<Aggregation>,
    },
    /// The rows of its inputs, each of which groups by a set of keys.
    GroupingSets,
    /// The first rows in an order, or in any; with keys, of each group.
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
    /// The rows that are kept, where it is those of one side, are those of the second one.
    pub keeps_second: bool,
    /// Expressions of the first side and of the second.
    pub keys: Vec<(Expr, Expr)>,
    /// The conditions by which partners are looked for among sorted rows.
    pub limits: Vec<Expr>,
    pub conditions: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Hash,
    /// The rows of one side, in an order, among which partners follow each other.
    Range,
    /// Every row of one side with every row of the other.
    NestedLoop,
}
