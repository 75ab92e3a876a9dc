//! Lists of values: `x = 1 OR x = 2 OR …` and `x <> 1 AND x <> 2 AND …` compute x once, and look it up in a set.

use std::any::Any;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion_common::error::Result;
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal, in_list};
use plan::BoolOp;

use crate::expr::computed::is_constant;

type Physical = Arc<dyn PhysicalExpr>;

/// The least number of comparisons for which a list pays. Fewer comparisons are as fast one by one.
const MIN_LIST: usize = 4;

/// Replaces adjacent `args` of `op` that compare the same operand with constants by one lookup in a list. For each row,
/// the same operands are computed in the same order as before.
pub fn with_lists(op: BoolOp, args: Vec<Physical>, schema: &Schema) -> Result<Vec<Physical>> {
    let mut joined = Vec::new();
    let mut rest = &args[..];
    while let Some(first) = rest.first() {
        let run = run_length(op, rest);
        if run < MIN_LIST {
            joined.push(first.clone());
            rest = &rest[1..];
            continue;
        }
        let (list, behind) = rest.split_at(run);
        let constants: Option<Vec<Physical>> =
            list.iter().map(|arg| constant_of(comparison(op, arg)?.right())).collect();
        match (constants, comparison(op, first)) {
            (Some(constants), Some(first)) => {
                joined.push(in_list(first.left().clone(), constants, &(op == BoolOp::And), schema)?);
            }
            // One of the constants raises an error. The comparisons stay, so that the error is raised only for a row
            // for which this comparison is evaluated.
            _ => joined.extend_from_slice(list),
        }
        rest = behind;
    }
    Ok(joined)
}

/// The number of `args`, from the first on, that belong into one list.
fn run_length(op: BoolOp, args: &[Physical]) -> usize {
    let Some(first) = args.first().and_then(|first| comparison(op, first)) else { return 0 };
    args.iter().take_while(|arg| comparison(op, arg).is_some_and(|other| first.left() == other.left())).count()
}

/// An equality with a constant in an OR, or an inequality in an AND. Equal values must have equal bits, so floats must
/// be in canonical form.
fn comparison(op: BoolOp, arg: &Physical) -> Option<&BinaryExpr> {
    let compared = (&**arg as &dyn Any).downcast_ref::<BinaryExpr>()?;
    let wanted = match op {
        BoolOp::Or => Operator::Eq,
        BoolOp::And => Operator::NotEq,
    };
    (*compared.op() == wanted && is_constant(compared.right())).then_some(compared)
}

/// The value of an expression without columns, if it raises no error.
fn constant_of(expr: &Physical) -> Option<Physical> {
    if (&**expr as &dyn Any).is::<Literal>() {
        return Some(expr.clone());
    }
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&nothing) {
        Ok(ColumnarValue::Scalar(value)) => Some(Arc::new(Literal::new(value))),
        _ => None,
    }
}
