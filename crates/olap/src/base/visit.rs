//! Visits the expressions of an operator.

use std::sync::Arc;

use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_physical_expr::PhysicalExpr;

/// Applies `f` to one expression after the other, until `f` returns that it needs no more.
pub fn visit_each<'a>(
    expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    let visit = |so_far: TreeNodeRecursion, expr| so_far.visit_sibling(|| f(expr));
    expressions.into_iter().try_fold(TreeNodeRecursion::Continue, visit)
}
