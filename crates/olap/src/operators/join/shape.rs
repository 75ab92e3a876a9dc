//! The shape of a join: its kind, keys, other conditions, and its output columns.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_common::JoinType;
use datafusion_common::cast::as_boolean_array;
use datafusion_common::error::Result;
use datafusion_physical_expr::PhysicalExpr;

use super::layout::Layout;

/// A key or a limit: the expressions of the build side and of the probe side.
pub type Key = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// The shape of a join. `kind` takes the build side for the left side.
#[derive(Debug)]
pub struct Shape {
    pub kind: JoinType,
    pub build: Layout,
    pub probe: Layout,
    /// Limits of partners' values by their ranks. `residual` contains the limits' conditions, too.
    pub bounds: Vec<Inequality>,
    /// Present if only the first partners of each row are needed.
    pub first: Option<First>,
    pub residual: Option<Residual>,
    pub output: Vec<Given>,
    pub schema: SchemaRef,
}

/// The relation of a build side's value to the probe side's value, which is its lower or upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inequality {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Inequality {
    /// Whether the probe side's value is a lower bound of the build side's value.
    pub fn is_lower(self) -> bool {
        matches!(self, Inequality::AtLeast | Inequality::MoreThan)
    }

    pub fn operator(self) -> &'static str {
        match self {
            Inequality::AtLeast => ">=",
            Inequality::MoreThan => ">",
            Inequality::AtMost => "<=",
            Inequality::LessThan => "<",
        }
    }
}

/// The first partners of a row of the probe side, in the order of the value that a limit compares. Partners that tie
/// with the last of them are included. Further partners may be output, too.
#[derive(Clone, Copy, Debug)]
pub struct First {
    pub limit: usize,
    pub descending: bool,
    pub count: usize,
}

/// The source of a column: a position in the layout of a side, or the mark that says whether the row has a partner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    Build(usize),
    Probe(usize),
    Mark,
}

/// Conditions other than equal keys.
pub struct Residual {
    pub predicate: Arc<dyn PhysicalExpr>,
    pub columns: Vec<Given>,
    pub schema: SchemaRef,
}

impl fmt::Debug for Residual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.predicate)
    }
}

impl Residual {
    /// Whether each pair passes.
    pub fn passed(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let passed = self.predicate.evaluate(&batch)?.into_array(rows)?;
        Ok(as_boolean_array(&passed)?.clone())
    }
}

impl Shape {
    pub fn name(&self) -> &'static str {
        match (self.is_keyless(), self.bounds.is_empty()) {
            (false, _) => "HashJoin",
            (true, false) => "RangeJoin",
            (true, true) => "PairsJoin",
        }
    }

    /// Whether the join has no keys.
    pub fn is_keyless(&self) -> bool {
        self.build.key_places().is_empty()
    }

    /// Whether the join outputs pairs of partners.
    pub fn gives_pairs(&self) -> bool {
        matches!(self.kind, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
    }

    /// Whether it matters which rows of the build side have a partner.
    pub fn marks_build(&self) -> bool {
        matches!(
            self.kind,
            JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
        )
    }

    /// Whether it matters which rows of the probe side have a partner.
    pub fn marks_probe(&self) -> bool {
        matches!(
            self.kind,
            JoinType::Right | JoinType::Full | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
        )
    }

    /// Whether rows of the build side with a null among their keys may be output.
    pub fn keeps_nulls_of_build(&self) -> bool {
        self.marks_build() && self.kind != JoinType::LeftSemi
    }

    pub fn keeps_nulls_of_probe(&self) -> bool {
        self.marks_probe() && self.kind != JoinType::RightSemi
    }

    /// Whether there is no output if the build side has no rows.
    pub fn is_empty_without_build(&self) -> bool {
        !self.keeps_nulls_of_probe()
    }
}
