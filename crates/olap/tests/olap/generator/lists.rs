//! Makes comparisons of one value with many constants.

use super::*;

impl Generator<'_> {
    /// `x = 1 OR x = 2 OR …` or `x <> 1 AND x <> 2 AND …`. Sometimes another condition stands between these
    /// comparisons.
    pub(super) fn list(&mut self, depth: u32) -> Expr {
        let ty = any_type(self.rng);
        let operand = self.expr(ty, depth);
        let (op, comparison) = *[(BoolOp::Or, CmpOp::Eq), (BoolOp::And, CmpOp::Ne)].choose(self.rng).unwrap();
        let mut args = Vec::new();
        for _ in 0..self.rng.random_range(3..9) {
            let constant = (!self.chance(0.05)).then(|| value(self.rng, self.mood, ty));
            let right = Box::new(Expr::Literal { ty, value: constant });
            args.push(Expr::Cmp { op: comparison, left: Box::new(operand.clone()), right });
        }
        if self.chance(0.3) {
            let at = self.rng.random_range(0..=args.len());
            args.insert(at, self.expr(Type::Bool, depth));
        }
        Expr::Bool { op, args }
    }
}
