//! AND and OR that skip their later operands for rows whose result an earlier operand has decided.
//!
//! PostgreSQL evaluates from left to right and stops early, so that `b <> 0 AND a / b > 1` never divides by zero.
//! DataFusion's own operator evaluates both sides on all rows if it finds that cheaper. [`guarded`] replaces it where a
//! later operand could raise an error.

use std::fmt;
use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, or_kleene};
use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use plan::BoolOp;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Guarded {
    op: BoolOp,
    args: Vec<Arc<dyn PhysicalExpr>>,
}

/// AND or OR of `args`, at least one, evaluated from left to right until the result is certain.
pub fn guarded(op: BoolOp, args: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Guarded { op, args })
}

impl Guarded {
    /// The rows whose result depends on further operands.
    fn undecided(&self, so_far: &BooleanArray) -> BooleanArray {
        let decided = match self.op {
            BoolOp::And => !so_far.values(),
            BoolOp::Or => so_far.values().clone(),
        };
        let decided = match so_far.nulls() {
            Some(nulls) => &decided & nulls.inner(),
            None => decided,
        };
        BooleanArray::new(!&decided, None)
    }
}

impl PhysicalExpr for Guarded {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let mut result = self.args[0].evaluate(batch)?.into_array(rows)?.as_boolean().clone();
        for arg in &self.args[1..] {
            let undecided = self.undecided(&result);
            if !undecided.has_true() {
                break;
            }
            // Decided rows get null or false for `arg`. Their result stays the same: in an AND they are false already,
            // in an OR true.
            let value = arg.evaluate_selection(batch, &undecided)?.into_array(rows)?;
            result = match self.op {
                BoolOp::And => and_kleene(&result, value.as_boolean())?,
                BoolOp::Or => or_kleene(&result, value.as_boolean())?,
            };
        }
        Ok(ColumnarValue::Array(Arc::new(result)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(guarded(self.op, children))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            let op = if self.op == BoolOp::And { "AND" } else { "OR" };
            if i > 0 { write!(f, " {op} ({arg})")? } else { write!(f, "({arg})")? }
        }
        Ok(())
    }
}
