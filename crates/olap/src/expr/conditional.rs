//! CASE and COALESCE. If computing a value could raise an error, the value is computed only for the rows that need it.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema};
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use crate::base::operand::select;

/// An expression, and whether it must be evaluated only for rows that need it.
pub struct Part {
    pub expr: Arc<dyn PhysicalExpr>,
    pub can_raise: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Choice {
    /// Condition, value, condition, value, …, and a last value; there is at least one condition.
    Case,
    /// The first value that is not null.
    Coalesce,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conditional {
    choice: Choice,
    parts: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether each part can raise an error.
    can_raise: Vec<bool>,
    ty: DataType,
}

/// A CASE. `branches` are conditions with their values, at least one; the result has type `ty`.
pub fn case(branches: Vec<(Part, Part)>, otherwise: Part, ty: DataType) -> Arc<dyn PhysicalExpr> {
    let branches = branches.into_iter().flat_map(|(when, then)| [when, then]);
    conditional(Choice::Case, branches.chain([otherwise]), ty)
}

/// A COALESCE of `args`, at least one, all of type `ty`.
pub fn coalesce(args: Vec<Part>, ty: DataType) -> Arc<dyn PhysicalExpr> {
    conditional(Choice::Coalesce, args.into_iter(), ty)
}

fn conditional(choice: Choice, parts: impl Iterator<Item = Part>, ty: DataType) -> Arc<dyn PhysicalExpr> {
    let (parts, can_raise) = parts.map(|part| (part.expr, part.can_raise)).unzip();
    Arc::new(Conditional { choice, parts, can_raise, ty })
}

impl Conditional {
    /// The values of one part. Only the values in the selected `rows` are meaningful.
    fn part(&self, index: usize, batch: &RecordBatch, rows: &BooleanBuffer) -> Result<ColumnarValue> {
        if self.can_raise[index] && rows.count_set_bits() < batch.num_rows() {
            self.parts[index].evaluate_selection(batch, &BooleanArray::new(rows.clone(), None))
        } else {
            self.parts[index].evaluate(batch)
        }
    }

    fn case(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let otherwise = self.parts.len() - 1;
        let mut open = BooleanBuffer::new_set(rows);
        let mut chosen = Vec::new();
        for when in (0..otherwise).step_by(2) {
            if open.count_set_bits() == 0 {
                break;
            }
            let truth = self.part(when, batch, &open)?.into_array(rows)?;
            let taken = &true_slots(truth.as_boolean()) & &open;
            if taken.count_set_bits() > 0 {
                open = &open & &!&taken;
                chosen.push((self.part(when + 1, batch, &taken)?, taken));
            }
        }
        // If every row has met a condition, the values chosen last are the base of the result. The values chosen before
        // are put over them, so the base needs no mask.
        let last = if open.count_set_bits() > 0 { None } else { chosen.pop() };
        let mut result = match last {
            Some((value, _)) => value,
            None => self.part(otherwise, batch, &open)?,
        };
        for (value, taken) in chosen.iter().rev() {
            result = ColumnarValue::Array(select(taken, value, &result, rows)?);
        }
        result.into_array(rows)
    }

    fn coalesce(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let mut result = self.parts[0].evaluate(batch)?.into_array(rows)?;
        for index in 1..self.parts.len() {
            let Some(nulls) = result.nulls().filter(|nulls| nulls.null_count() > 0) else { break };
            let present = nulls.inner().clone();
            let value = self.part(index, batch, &!&present)?;
            result = select(&present, &ColumnarValue::Array(result), &value, rows)?;
        }
        Ok(result)
    }
}

fn true_slots(truth: &BooleanArray) -> BooleanBuffer {
    match truth.nulls() {
        Some(nulls) => truth.values() & nulls.inner(),
        None => truth.values().clone(),
    }
}

impl PhysicalExpr for Conditional {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(match self.choice {
            Choice::Case => self.case(batch)?,
            Choice::Coalesce => self.coalesce(batch)?,
        }))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.parts.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let (choice, can_raise, ty) = (self.choice.clone(), self.can_raise.clone(), self.ty.clone());
        Ok(Arc::new(Conditional { choice, parts: children, can_raise, ty }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Conditional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(", self.choice)?;
        for (i, part) in self.parts.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, part)?;
        }
        f.write_str(")")
    }
}
