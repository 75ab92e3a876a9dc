//! Joins by comparisons other than equality. Examples: a value lies between two others, a value comes before another,
//! two periods overlap.
//!
//! The build side is sorted by one of the compared values, so that the partners of a row are adjacent, or nearly so
//! ([`crate::operators::join`]). The join then evaluates all conditions for the rows that it has found.

use plan::catalogue::Kind;
use plan::{BoolOp, CmpOp, ColumnId, Expr, Physical, Type};
use protocol::request::Failure;

use super::builder::Builder;
use super::inner_join::{comparison, sides};
use super::stage::Stage;
use crate::expr::Lowering;
use crate::functions::numbers::decimals;
use crate::operators::join::{Inequality, Limit, Ranked, Ranking};

/// A condition by which partners can be looked up.
struct Candidate<'a> {
    condition: &'a Expr,
    bound: Inequality,
    build: &'a Expr,
    probe: &'a Expr,
    /// How values become ranks, which are integers in the order of the values: on the build side, and on the probe
    /// side.
    rankings: [Ranking; 2],
}

impl Builder<'_> {
    /// The limits by which partners can be looked up, and the conditions from which the limits are derived.
    pub fn limits<'a>(
        &self,
        conditions: &[&'a Expr],
        build: &Stage,
        probe: &Stage,
    ) -> Result<(Vec<Limit>, Vec<&'a Expr>), Failure> {
        let candidates = self.candidates(conditions, &build.columns, &probe.columns);
        let [of_build, of_probe] = [build, probe].map(|stage| self.lowering(&stage.columns));
        let mut before = [Vec::new(), Vec::new()];
        let mut limits = Vec::new();
        for Candidate { bound, build, probe, rankings, .. } in &candidates {
            // A row whose value raises an error gets a rank that excludes no partner, so that the conditions raise the
            // error.
            let (high, low) = if bound.is_lower() { (i64::MAX, i64::MIN) } else { (i64::MIN, i64::MAX) };
            let mut ranked = |at: usize, lowering: &Lowering<'_>, expr: &Expr, otherwise: i64| {
                let arg = lowering.lower(expr)?;
                let args = before[at].iter().cloned().chain([arg.clone()]).collect();
                if expr.can_raise() {
                    before[at].push(arg);
                }
                Ok(Ranked { args, ranking: rankings[at], otherwise })
            };
            let build = ranked(0, &of_build, build, high)?;
            let probe = ranked(1, &of_probe, probe, low)?;
            limits.push(Limit { bound: *bound, build, probe });
        }
        Ok((limits, candidates.iter().map(|candidate| candidate.condition).collect()))
    }

    /// The expressions of the build side that a condition compares with the probe side.
    pub fn limited<'a>(&self, conditions: &[&'a Expr], build: &[ColumnId], probe: &[ColumnId]) -> Vec<&'a Expr> {
        self.candidates(conditions, build, probe).into_iter().map(|candidate| candidate.build).collect()
    }

    fn candidates<'a>(&self, conditions: &[&'a Expr], build: &[ColumnId], probe: &[ColumnId]) -> Vec<Candidate<'a>> {
        let mut candidates = Vec::new();
        // Conditions that can raise an error are evaluated last.
        let mut conditions = conditions.to_vec();
        conditions.sort_by_key(|condition| condition.can_raise());
        for condition in conditions {
            let candidate = self.candidate(condition, build, probe);
            // A condition must not remove a row for which an earlier one has to raise an error. A candidate cannot do
            // so: if its own value or an earlier candidate's value raises an error, the row gets a rank that removes no
            // row.
            if candidate.is_none() && condition.can_raise() {
                break;
            }
            candidates.extend(candidate);
        }
        candidates
    }

    fn candidate<'a>(&self, condition: &'a Expr, build: &[ColumnId], probe: &[ColumnId]) -> Option<Candidate<'a>> {
        let (op, (build, probe)) = match of_rows(condition) {
            Some((op, left, right)) => sides(op, left, right, build, probe)?,
            None => comparison(condition, build, probe)?,
        };
        let (rankings, tells_apart) = rankings(self.plan.type_of(build), self.plan.type_of(probe))?;
        // The rank for an error may also be the rank of a value, so a strict bound could remove the row with the error.
        let is_strict = tells_apart && !condition.can_raise();
        let bound = match op {
            CmpOp::Gt if is_strict => Inequality::MoreThan,
            CmpOp::Lt if is_strict => Inequality::LessThan,
            CmpOp::Gt | CmpOp::Ge => Inequality::AtLeast,
            CmpOp::Lt | CmpOp::Le => Inequality::AtMost,
            CmpOp::Eq | CmpOp::Ne => return None,
        };
        Some(Candidate { condition, bound, build, probe, rankings })
    }
}

/// The comparison of the first values in a row comparison: `x <= y` in `x < y OR x = y AND …`. Where `x <= y` is false,
/// the row comparison is never true. `x <= y` is null only if a value is null, and raises only the errors of the
/// values.
fn of_rows(condition: &Expr) -> Option<(CmpOp, &Expr, &Expr)> {
    let Expr::Bool { op: BoolOp::Or, args } = condition else { return None };
    let [Expr::Cmp { op, left, right }, others @ ..] = &args[..] else { return None };
    let op = match op {
        CmpOp::Lt | CmpOp::Le => CmpOp::Le,
        CmpOp::Gt | CmpOp::Ge => CmpOp::Ge,
        CmpOp::Eq | CmpOp::Ne => return None,
    };
    let at_bound = |other: &Expr| {
        let (first, behind) = match other {
            Expr::Bool { op: BoolOp::And, args } => args.split_first()?,
            _ => (other, &[][..]),
        };
        let is_equal = matches!(first, Expr::Cmp { op: CmpOp::Eq, left: l, right: r } if (l, r) == (left, right));
        (is_equal && !behind.iter().any(Expr::can_raise)).then_some(())
    };
    others.iter().all(|other| at_bound(other).is_some()).then_some((op, &**left, &**right))
}

/// Rankings for values of two types that are compared with each other, and whether different values always have
/// different ranks.
fn rankings(build: Type, probe: Type) -> Option<([Ranking; 2], bool)> {
    if build == probe {
        let tells_apart = match build.physical() {
            Physical::Bit => return None,
            Physical::Int16 | Physical::Int32 | Physical::Int64 | Physical::Float64 => true,
            Physical::Int128 | Physical::Text | Physical::Bytes => false,
        };
        return Some(([Ranking::Own; 2], tells_apart));
    }
    if build.kind() != Kind::Decimal || probe.kind() != Kind::Decimal {
        return None;
    }
    let scale = build.scale().max(probe.scale());
    let scaled = |ty: Type| Some(Ranking::Scaled(decimals::power(scale - ty.scale())?));
    Some(([scaled(build)?, scaled(probe)?], false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_by_their_first_values() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|id| Expr::column(ColumnId(id)));
        let compared = |op, left: &Expr, right: &Expr| Expr::Cmp {
            op,
            left: Box::new(left.clone()),
            right: Box::new(right.clone()),
        };
        let both = |op, args| Expr::Bool { op, args };
        let behind = |first| both(BoolOp::And, vec![first, compared(CmpOp::Le, &c, &d)]);
        let rows = both(BoolOp::Or, vec![compared(CmpOp::Gt, &a, &b), behind(compared(CmpOp::Eq, &a, &b))]);
        assert_eq!(of_rows(&rows), Some((CmpOp::Ge, &a, &b)));
        let others = both(BoolOp::Or, vec![compared(CmpOp::Gt, &a, &b), behind(compared(CmpOp::Eq, &a, &d))]);
        assert_eq!(of_rows(&others), None);
        let all_but_equal = both(BoolOp::Or, vec![compared(CmpOp::Gt, &a, &b), behind(compared(CmpOp::Lt, &a, &b))]);
        assert_eq!(of_rows(&all_but_equal), None);
        assert_eq!(of_rows(&compared(CmpOp::Lt, &a, &b)), None);
    }

    #[test]
    fn ranks_are_of_one_kind_on_both_sides() {
        let cents = Type::Decimal64 { scale: 2 };
        assert_eq!(rankings(cents, cents), Some(([Ranking::Own; 2], true)));
        let wide = Type::Decimal128 { scale: 4 };
        assert_eq!(rankings(cents, wide), Some(([Ranking::Scaled(100), Ranking::Scaled(1)], false)));
        assert_eq!(rankings(wide, wide), Some(([Ranking::Own; 2], false)));
        assert_eq!(rankings(Type::Text, Type::Text), Some(([Ranking::Own; 2], false)));
        assert_eq!(rankings(Type::Bool, Type::Bool), None);
        assert_eq!(rankings(Type::Float64, cents), None);
    }
}
