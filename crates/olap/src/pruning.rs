//! Which chunks a scan need not read: those where the bounds of a column say that no row passes a condition.

use colstore::TableView;
use plan::{BoolOp, CmpOp, ColumnId, Expr, Literal, Plan, Type};

/// What conditions say of columns alone.
#[derive(Debug, Default)]
pub struct Pruning(Vec<Wanted>);

/// A row passes only if the view's column lies between, and is not null.
#[derive(Debug, PartialEq)]
struct Wanted {
    column: usize,
    low: i128,
    high: i128,
}

impl Pruning {
    /// Of conditions all of which a row must pass. `columns`: those of the view.
    pub fn of(conditions: &[&Expr], columns: &[ColumnId], plan: &Plan, params: &[Option<Literal>]) -> Pruning {
        let reading = Reading { columns, plan, params };
        Pruning(conditions.iter().flat_map(|condition| reading.condition(condition)).collect())
    }

    /// Whether no row of a chunk passes.
    pub fn excludes(&self, view: &dyn TableView, index: usize) -> bool {
        self.0.iter().any(|wanted| {
            let bounds = view.bounds(index, wanted.column);
            bounds.is_some_and(|(low, high)| low.max(wanted.low) > high.min(wanted.high))
        })
    }
}

struct Reading<'a> {
    columns: &'a [ColumnId],
    plan: &'a Plan,
    params: &'a [Option<Literal>],
}

impl Reading<'_> {
    fn condition(&self, condition: &Expr) -> Vec<Wanted> {
        match condition {
            Expr::Bool { op: BoolOp::And, args } => args.iter().flat_map(|arg| self.condition(arg)).collect(),
            Expr::Bool { op: BoolOp::Or, args } => self.either(args).into_iter().collect(),
            Expr::Cmp { op, left, right } => {
                let found = self.compared(*op, left, right).or_else(|| self.compared(mirrored(*op), right, left));
                found.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Of alternatives that are all about one column.
    fn either(&self, alternatives: &[Expr]) -> Option<Wanted> {
        let one = |alternative: &Expr| {
            let mut found = self.condition(alternative);
            found.pop().filter(|_| found.is_empty())
        };
        let all = alternatives.iter().map(one).collect::<Option<Vec<_>>>()?;
        all.into_iter().map(Some).reduce(|a, b| a?.or(b?)).flatten()
    }

    /// column op constant
    fn compared(&self, op: CmpOp, column: &Expr, constant: &Expr) -> Option<Wanted> {
        let (column, own) = self.column(column)?;
        let (value, ty) = self.number(constant)?;
        if own.kind() != ty.kind() {
            return None;
        }
        // In the column's units, of which the constant may have a part only.
        let (floor, ceiling) = match ty.scale().checked_sub(own.scale()) {
            Some(finer) => {
                let unit = 10_i128.checked_pow(finer.into())?;
                let floor = value.div_euclid(unit);
                (floor, floor + i128::from(value.rem_euclid(unit) != 0))
            }
            None => {
                let value = value.checked_mul(10_i128.checked_pow((own.scale() - ty.scale()).into())?)?;
                (value, value)
            }
        };
        let (low, high) = match op {
            CmpOp::Eq => (ceiling, floor),
            CmpOp::Lt => (i128::MIN, ceiling.checked_sub(1)?),
            CmpOp::Le => (i128::MIN, floor),
            CmpOp::Gt => (floor.checked_add(1)?, i128::MAX),
            CmpOp::Ge => (ceiling, i128::MAX),
            CmpOp::Ne => return None,
        };
        Some(Wanted { column, low, high })
    }

    /// A column of the view, also as a wider integer, and its type.
    fn column(&self, expr: &Expr) -> Option<(usize, Type)> {
        match expr {
            Expr::Column { id } => {
                let at = self.columns.iter().position(|column| column == id)?;
                Some((at, self.plan.columns[id.0 as usize]))
            }
            Expr::Cast { to: Type::Int32 | Type::Int64, arg } => self.column(arg).filter(|(_, ty)| is_integer(*ty)),
            _ => None,
        }
    }

    /// A constant that is a number of the kind that bounds are, with its type.
    fn number(&self, expr: &Expr) -> Option<(i128, Type)> {
        let (value, ty) = match expr {
            Expr::Literal { ty, value } => (value.as_ref()?, *ty),
            Expr::Param { index } => (self.params.get(*index as usize)?.as_ref()?, self.plan.params[*index as usize]),
            Expr::Cast { to: Type::Int32 | Type::Int64, arg } => {
                return self.number(arg).filter(|(_, ty)| is_integer(*ty));
            }
            _ => return None,
        };
        match value {
            Literal::Int(value) => Some(((*value).into(), ty)),
            Literal::Decimal(value) if ty != Type::Uuid => Some((*value, ty)),
            _ => None,
        }
    }
}

impl Wanted {
    /// Values that one of the two lets pass.
    fn or(self, other: Wanted) -> Option<Wanted> {
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        (self.column == other.column).then_some(Wanted { low, high, ..self })
    }
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int16 | Type::Int32 | Type::Int64)
}

/// With the sides exchanged.
fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::Eq | CmpOp::Ne => op,
    }
}

#[cfg(test)]
mod tests {
    use plan::{Rel, Relation};

    use super::*;

    const TYPES: [Type; 4] = [Type::Int16, Type::Date, Type::Decimal64 { scale: 2 }, Type::Text];

    fn column(id: u16) -> Box<Expr> {
        Box::new(Expr::column(ColumnId(id)))
    }

    fn constant(ty: Type, value: i64) -> Box<Expr> {
        let value = match ty {
            Type::Decimal128 { .. } => Literal::Decimal(value.into()),
            _ => Literal::Int(value),
        };
        Box::new(Expr::Literal { ty, value: Some(value) })
    }

    fn compare(op: CmpOp, left: Box<Expr>, right: Box<Expr>) -> Expr {
        Expr::Cmp { op, left, right }
    }

    /// What a condition says of the first column that it says anything of.
    fn wanted(condition: &Expr) -> Option<(usize, i128, i128)> {
        let columns: Vec<ColumnId> = (0..4).map(ColumnId).collect();
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[])],
            columns: TYPES.to_vec(),
            params: vec![Type::Date],
            root: Rel::Row,
            output: vec![],
        };
        let pruning = Pruning::of(&[condition], &columns, &plan, &[Some(Literal::Int(77))]);
        pruning.0.first().map(|wanted| (wanted.column, wanted.low, wanted.high))
    }

    #[test]
    fn comparisons_say_where_the_column_lies() {
        let small = |value| constant(Type::Int16, value);
        let cases = [
            (CmpOp::Eq, Some((0, 5, 5))),
            (CmpOp::Lt, Some((0, i128::MIN, 4))),
            (CmpOp::Le, Some((0, i128::MIN, 5))),
            (CmpOp::Gt, Some((0, 6, i128::MAX))),
            (CmpOp::Ge, Some((0, 5, i128::MAX))),
            (CmpOp::Ne, None),
        ];
        for (op, expected) in cases {
            assert_eq!(wanted(&compare(op, column(0), small(5))), expected, "{op:?}");
            assert_eq!(wanted(&compare(mirrored(op), small(5), column(0))), expected, "{op:?}, mirrored");
        }
        let wide = Box::new(Expr::Cast { to: Type::Int64, arg: column(0) });
        assert_eq!(wanted(&compare(CmpOp::Gt, wide, constant(Type::Int64, 70_000))), Some((0, 70_001, i128::MAX)));
        let parameter = Box::new(Expr::Param { index: 0 });
        assert_eq!(wanted(&compare(CmpOp::Le, column(1), parameter)), Some((1, i128::MIN, 77)));
    }

    #[test]
    fn digits_that_the_column_does_not_have_are_rounded_the_right_way() {
        // 1.005 and -1.005
        let finer = |value| constant(Type::Decimal128 { scale: 3 }, value);
        assert_eq!(wanted(&compare(CmpOp::Lt, column(2), finer(1005))), Some((2, i128::MIN, 100)));
        assert_eq!(wanted(&compare(CmpOp::Ge, column(2), finer(1005))), Some((2, 101, i128::MAX)));
        assert_eq!(wanted(&compare(CmpOp::Gt, column(2), finer(-1005))), Some((2, -100, i128::MAX)));
        assert_eq!(wanted(&compare(CmpOp::Le, column(2), finer(-1005))), Some((2, i128::MIN, -101)));
        // No value of the column is 1.005, one is 1.01.
        assert_eq!(wanted(&compare(CmpOp::Eq, column(2), finer(1005))), Some((2, 101, 100)));
        assert_eq!(wanted(&compare(CmpOp::Eq, column(2), finer(1010))), Some((2, 101, 101)));
        let coarser = constant(Type::Decimal128 { scale: 0 }, 7);
        assert_eq!(wanted(&compare(CmpOp::Eq, column(2), coarser)), Some((2, 700, 700)));
        let huge =
            Box::new(Expr::Literal { ty: Type::Decimal128 { scale: 0 }, value: Some(Literal::Decimal(i128::MAX)) });
        assert_eq!(wanted(&compare(CmpOp::Lt, column(2), huge)), None);
    }

    #[test]
    fn alternatives_count_together_and_what_is_not_known_not_at_all() {
        let is = |value| compare(CmpOp::Eq, column(0), constant(Type::Int16, value));
        let or = |args| Expr::Bool { op: BoolOp::Or, args };
        let and = |args| Expr::Bool { op: BoolOp::And, args };
        assert_eq!(wanted(&or(vec![is(9), is(-3), is(4)])), Some((0, -3, 9)));
        let text = compare(CmpOp::Eq, column(3), column(3));
        assert_eq!(wanted(&or(vec![is(9), text.clone()])), None);
        assert_eq!(wanted(&or(vec![is(9), compare(CmpOp::Eq, column(1), constant(Type::Date, 9))])), None);
        assert_eq!(wanted(&or(vec![and(vec![is(1), is(2)]), is(3)])), None);
        assert_eq!(wanted(&and(vec![text, is(9)])), Some((0, 9, 9)));
        assert_eq!(wanted(&Expr::Not(Box::new(is(9)))), None);
        let nothing = Box::new(Expr::Literal { ty: Type::Int16, value: None });
        assert_eq!(wanted(&compare(CmpOp::Eq, column(0), nothing)), None);
    }
}
