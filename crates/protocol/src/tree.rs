//! The engine's plan for a query, as EXPLAIN shows it: the plan that is executed, after optimization.

use plan::{Aggregation, ColumnId, Computed, Expr, JoinKind, Meaning, Over, Range, SortKey, Unfold, WindowFunction};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnginePlan {
    pub root: Operator,
    /// The meanings of the columns that the operators mention.
    pub columns: Vec<(ColumnId, Meaning)>,
}

/// An operator, together with all operators below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    pub step: Step,
    /// The number of rows that the optimizer expects, if it has an estimate.
    pub expected_rows: Option<f64>,
    /// The measured figures, if the query was run.
    pub actual: Option<Actual>,
    /// The inputs; for a join, the probe side comes first.
    pub inputs: Vec<Operator>,
}

/// Measured figures of an operator, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    pub rows: u64,
    /// The time spent in this operator alone; `None` if it is included in the time of the operator above.
    pub nanoseconds: Option<u64>,
    /// The peak of the operator's memory.
    pub memory_bytes: u64,
    /// The peak of the operator's data on disk.
    pub disk_bytes: u64,
    /// The number of chunks that a scan has read, and the number of all its chunks. Other operators have none.
    pub chunks: Option<Chunks>,
    /// The number of rows that a scan skipped because they have no partner in a join above it.
    pub without_partner: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    pub read: u64,
    pub of: u64,
}

/// The kind of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// The scan of a relation. `first` is its first column, if it has any; it distinguishes several scans of the same
    /// relation. `read` lists those of the relation's columns that are read.
    Scan {
        relation: u16,
        first: Option<ColumnId>,
        read: Vec<u16>,
    },
    /// One row without columns.
    Row,
    /// Rows that stand in the query itself (VALUES).
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
    /// Rows that are computed once and read several times. The plan shows their computation only once, below the first
    /// operator with this number.
    Shared {
        number: u16,
        is_first: bool,
    },
    Aggregate {
        keys: Vec<Computed>,
        aggregates: Vec<Aggregation>,
    },
    /// The rows of all inputs. Each input groups by one set of keys.
    GroupingSets,
    /// The first rows in an order; without an order, any rows. With keys, the first rows among each set of rows with
    /// equal keys.
    Top {
        keys: Vec<Expr>,
        order: Vec<SortKey>,
        range: Box<Range>,
    },
    /// Each row, repeated for each element of the row's list.
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
    /// Whether it is the second side whose rows are returned even without a partner.
    pub keeps_second: bool,
    /// Pairs of expressions that must be equal. Each pair has an expression of the first side and one of the second
    /// side.
    pub keys: Vec<(Expr, Expr)>,
    /// The comparisons by which partners are looked up among sorted rows.
    pub limits: Vec<Expr>,
    pub conditions: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Hash,
    /// Looks up partners in the sorted rows of one side, where they are adjacent.
    Range,
    /// Compares each row of one side with each row of the other side.
    NestedLoop,
}
