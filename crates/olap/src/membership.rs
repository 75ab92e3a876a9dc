//! Lists of values: `x = 1 OR x = 2 OR …` and `x <> 1 AND x <> 2 AND …` compute x once and look it up in a set.

use std::any::Any;
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion_common::error::Result;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Literal, in_list};
use plan::BoolOp;

type Physical = Arc<dyn PhysicalExpr>;

/// Fewer comparisons are as fast one by one.
const MIN_LIST: usize = 4;

/// `args` of `op`, of which those that compare the same operand with constants, one behind the other, have become one:
/// what is computed of a row, and in which order, stays as it was.
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
        let constants = list.iter().filter_map(|arg| comparison(op, arg)).map(|(_, constant)| constant.clone());
        if let Some((operand, _)) = comparison(op, first) {
            joined.push(in_list(operand.clone(), constants.collect(), &(op == BoolOp::And), schema)?);
        }
        rest = behind;
    }
    Ok(joined)
}

/// How many of the first of `args` belong into one list.
fn run_length(op: BoolOp, args: &[Physical]) -> usize {
    let Some((operand, _)) = args.first().and_then(|first| comparison(op, first)) else { return 0 };
    args.iter().take_while(|arg| comparison(op, arg).is_some_and(|(other, _)| operand == other)).count()
}

/// The operand and the constant of an equality in a list of OR, of an inequality in one of AND.
fn comparison(op: BoolOp, arg: &Physical) -> Option<(&Physical, &Physical)> {
    let compared = (&**arg as &dyn Any).downcast_ref::<BinaryExpr>()?;
    let wanted = match op {
        BoolOp::Or => Operator::Eq,
        BoolOp::And => Operator::NotEq,
    };
    let constant = (&**compared.right() as &dyn Any).downcast_ref::<Literal>()?;
    // Floats are equal by other rules than their bits are.
    let is_exact = !matches!(constant.value().data_type(), DataType::Float64);
    (*compared.op() == wanted && is_exact).then_some((compared.left(), compared.right()))
}
