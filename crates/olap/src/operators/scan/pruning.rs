//! Pruning by zone maps. Conditions imply ranges in which a column must lie. A chunk need not be read if its bounds lie
//! outside of such a range.

use std::ops::RangeInclusive;

use colstore::TableView;
use plan::catalogue::Named;
use plan::{BoolOp, CmpOp, ColumnId, Expr, Literal, Plan, Type, float_order, text_order};

/// The greatest number of ranges that are tested one by one. With more, a condition is tested on values.
const MOST_RANGES: usize = 4;

/// Ranges of columns that follow from conditions.
#[derive(Debug, Default)]
pub struct Pruning(Vec<Wanted>);

/// A range: a row passes only if the view's column lies in it, and is not null.
#[derive(Debug, PartialEq)]
struct Wanted {
    column: usize,
    low: i128,
    high: i128,
}

impl Pruning {
    /// The ranges that follow from conditions, all of which a row must pass. `columns` are the columns of the view.
    pub fn of(conditions: &[&Expr], columns: &[ColumnId], plan: &Plan, params: &[Option<Literal>]) -> Pruning {
        let reading = Reading { columns, plan, params };
        Pruning(conditions.iter().flat_map(|condition| reading.condition(condition)).collect())
    }

    /// Whether no row of a chunk can pass.
    pub fn excludes(&self, view: &dyn TableView, index: usize) -> bool {
        self.0.iter().any(|wanted| {
            let bounds = view.bounds(index, wanted.column);
            bounds.is_some_and(|(low, high)| low.max(wanted.low) > high.min(wanted.high))
        })
    }
}

/// The ranges in which a column of the view must lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    column: usize,
    pub ranges: Vec<RangeInclusive<i128>>,
}

impl Ranges {
    /// The intersection, if it is one range again.
    pub fn and(&self, other: &Ranges) -> Option<Ranges> {
        match (&self.ranges[..], &other.ranges[..]) {
            ([a], [b]) if self.column == other.column => {
                let both = *a.start().max(b.start())..=*a.end().min(b.end());
                Some(Ranges { column: self.column, ranges: vec![both] })
            }
            _ => None,
        }
    }
}

/// Interprets conditions on the columns of a view.
pub struct Reading<'a> {
    pub columns: &'a [ColumnId],
    pub plan: &'a Plan,
    pub params: &'a [Option<Literal>],
}

impl Reading<'_> {
    /// The ranges of one column for which this holds: the condition is true exactly where the column is not null and
    /// lies in one of the ranges. `None` if there are no such ranges.
    pub fn exactly(&self, condition: &Expr) -> Option<Ranges> {
        match condition {
            Expr::Cmp { op, left, right } => {
                let found = self.compared(*op, left, right).or_else(|| self.compared(op.mirrored(), right, left))?;
                Some(Ranges { column: found.column, ranges: vec![found.low..=found.high] })
            }
            Expr::Bool { op: BoolOp::And, args } => {
                let all = args.iter().map(|arg| self.exactly(arg)).collect::<Option<Vec<_>>>()?;
                all.into_iter().map(Some).reduce(|a, b| a?.and(&b?)).flatten()
            }
            Expr::Bool { op: BoolOp::Or, args } if args.len() <= MOST_RANGES => {
                let all = args.iter().map(|arg| self.exactly(arg)).collect::<Option<Vec<_>>>()?;
                let column = all.first()?.column;
                let is_one = all.iter().all(|other| other.column == column);
                let ranges: Vec<_> = all.into_iter().flat_map(|other| other.ranges).collect();
                (is_one && ranges.len() <= MOST_RANGES).then_some(Ranges { column, ranges })
            }
            _ => None,
        }
    }

    fn condition(&self, condition: &Expr) -> Vec<Wanted> {
        match condition {
            Expr::Bool { op: BoolOp::And, args } => args.iter().flat_map(|arg| self.condition(arg)).collect(),
            Expr::Bool { op: BoolOp::Or, args } => self.either(args).into_iter().collect(),
            Expr::Cmp { op, left, right } => {
                let one_way = |op, left, right| {
                    self.compared(op, left, right)
                        .or_else(|| self.compared_floats(op, left, right))
                        .or_else(|| self.compared_uuids(op, left, right))
                        .or_else(|| self.compared_texts(op, left, right))
                };
                one_way(*op, left, right).or_else(|| one_way(op.mirrored(), right, left)).into_iter().collect()
            }
            Expr::Call { function: Named::Like, args, .. } => self.like(args).into_iter().collect(),
            Expr::Call { function: Named::StartsWith, args, .. } => self.starts_with(args).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The range that contains all alternatives of an OR, if they are on one column.
    fn either(&self, alternatives: &[Expr]) -> Option<Wanted> {
        let one = |alternative: &Expr| {
            let mut found = self.condition(alternative);
            found.pop().filter(|_| found.is_empty())
        };
        let all = alternatives.iter().map(one).collect::<Option<Vec<_>>>()?;
        all.into_iter().map(Some).reduce(|a, b| a?.or(b?)).flatten()
    }

    /// The range of a comparison `column op constant`.
    fn compared(&self, op: CmpOp, column: &Expr, constant: &Expr) -> Option<Wanted> {
        let (value, ty) = self.number(constant)?;
        let (column, (floor, ceiling)) = match self.date_as_timestamp(column) {
            Some(date) if ty == Type::Timestamp => (date, days_of(value)),
            _ => {
                let (column, own) = self.column(column)?;
                if own.kind() != ty.kind() {
                    return None;
                }
                match ty.scale().checked_sub(own.scale()) {
                    Some(finer) => (column, in_units(value, 10_i128.checked_pow(finer.into())?)),
                    None => {
                        let value = value.checked_mul(10_i128.checked_pow((own.scale() - ty.scale()).into())?)?;
                        (column, (value, value))
                    }
                }
            }
        };
        let (low, high) = within(op, floor, ceiling)?;
        Some(Wanted { column, low, high })
    }

    /// The range of `column op constant` for floats, by the ranks of floats.
    fn compared_floats(&self, op: CmpOp, column: &Expr, constant: &Expr) -> Option<Wanted> {
        let column = self.float_column(column)?;
        let rank = i128::from(float_order::rank(self.float(constant)?));
        let (low, high) = within(op, rank, rank)?;
        Some(Wanted { column, low, high })
    }

    /// A column of the view. A column of reals that are cast to doubles counts, too, because the values are the same.
    fn float_column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Cast { to: Type::Float64, arg } => self.float_column(arg),
            column => self.column(column).filter(|(_, ty)| ty.is_float()).map(|(column, _)| column),
        }
    }

    fn float(&self, expr: &Expr) -> Option<f64> {
        match expr {
            Expr::Cast { to: Type::Float64, arg } => self.float(arg),
            constant => match self.constant(constant)? {
                (Literal::Float(value), _) => Some(*value),
                _ => None,
            },
        }
    }

    /// The range of `column op constant` for uuids.
    fn compared_uuids(&self, op: CmpOp, column: &Expr, constant: &Expr) -> Option<Wanted> {
        let (column, _) = self.column(column).filter(|(_, ty)| *ty == Type::Uuid)?;
        let (Literal::Decimal(uuid), Type::Uuid) = self.constant(constant)? else { return None };
        let (low, high) = within(op, *uuid, *uuid)?;
        Some(Wanted { column, low, high })
    }

    /// The range of `column op constant` for texts. The place of a text is an integer that grows in the order of texts.
    /// Several texts may have the same place, so a place itself is never excluded.
    fn compared_texts(&self, op: CmpOp, column: &Expr, constant: &Expr) -> Option<Wanted> {
        let (column, ty) = self.text_column(column)?;
        let (literal, _) = self.constant(constant).filter(|(_, other)| *other == ty)?;
        let bytes = match literal {
            Literal::Text(text) => text.as_bytes(),
            Literal::Bytes(bytes) => bytes,
            _ => return None,
        };
        let place = text_order::place(bytes);
        let (low, high) = match op {
            CmpOp::Lt => within(CmpOp::Le, place, place)?,
            CmpOp::Gt => within(CmpOp::Ge, place, place)?,
            other => within(other, place, place)?,
        };
        Some(Wanted { column, low, high })
    }

    /// The range of `column LIKE pattern`: matching texts begin as the pattern does.
    fn like(&self, args: &[Expr]) -> Option<Wanted> {
        let [column, pattern, ..] = args else { return None };
        let (column, pattern) = (self.searched_column(column)?, self.text(pattern)?);
        let mut start = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' | '_' => return Some(beginning_with(column, &start)),
                '\\' => start.push(characters.next()?),
                other => start.push(other),
            }
        }
        let place = text_order::place(start.as_bytes());
        Some(Wanted { column, low: place, high: place })
    }

    fn starts_with(&self, args: &[Expr]) -> Option<Wanted> {
        let [column, start, ..] = args else { return None };
        Some(beginning_with(self.searched_column(column)?, self.text(start)?))
    }

    /// A column of the view whose bounds are places of texts or bytes, and the type as which its values are compared.
    fn text_column(&self, expr: &Expr) -> Option<(usize, Type)> {
        match expr {
            Expr::Cast { to: Type::Text, arg } => {
                self.column(arg).filter(|(_, ty)| *ty == Type::Name).map(|(column, _)| (column, Type::Text))
            }
            column => self.column(column).filter(|(_, ty)| ty.is_text() || *ty == Type::Bytes),
        }
    }

    /// Like `text_column`, but without columns of padded texts. Padded texts are stored without the blanks at their
    /// end, but are searched with these blanks.
    fn searched_column(&self, expr: &Expr) -> Option<usize> {
        self.text_column(expr).filter(|(_, ty)| *ty == Type::Text).map(|(column, _)| column)
    }

    fn text<'e>(&'e self, constant: &'e Expr) -> Option<&'e str> {
        match self.constant(constant)? {
            (Literal::Text(text), _) => Some(text),
            _ => None,
        }
    }

    /// A constant that is not null, with its type.
    fn constant<'e>(&'e self, expr: &'e Expr) -> Option<(&'e Literal, Type)> {
        match expr {
            Expr::Literal { ty, value } => Some((value.as_ref()?, *ty)),
            Expr::Param { index } => {
                Some((self.params.get(*index as usize)?.as_ref()?, self.plan.params[*index as usize]))
            }
            _ => None,
        }
    }

    /// A column of dates that is compared as timestamps.
    fn date_as_timestamp(&self, expr: &Expr) -> Option<usize> {
        let Expr::Call { function: Named::Comparable, args, .. } = expr else { return None };
        self.column(args.first()?).filter(|(_, ty)| *ty == Type::Date).map(|(column, _)| column)
    }

    /// A column of the view and its type. A cast to a wider integer is ignored.
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

    /// A constant that is a number, with its type. Uuids do not count, because they have their own bounds.
    fn number(&self, expr: &Expr) -> Option<(i128, Type)> {
        if let Expr::Cast { to: Type::Int32 | Type::Int64, arg } = expr {
            return self.number(arg).filter(|(_, ty)| is_integer(*ty));
        }
        match self.constant(expr)? {
            (Literal::Int(value), ty) => Some(((*value).into(), ty)),
            (Literal::Decimal(value), ty) if ty != Type::Uuid => Some((*value, ty)),
            _ => None,
        }
    }
}

impl Wanted {
    /// The range that contains both ranges, if they are on one column.
    fn or(self, other: Wanted) -> Option<Wanted> {
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        (self.column == other.column).then_some(Wanted { low, high, ..self })
    }
}

fn beginning_with(column: usize, start: &str) -> Wanted {
    Wanted { column, low: text_order::place(start.as_bytes()), high: text_order::last_place(start.as_bytes()) }
}

/// The range of integers for which `integer op value` may be true, if the value lies between `floor` and `ceiling`.
fn within(op: CmpOp, floor: i128, ceiling: i128) -> Option<(i128, i128)> {
    match op {
        CmpOp::Eq => Some((ceiling, floor)),
        CmpOp::Lt => Some((i128::MIN, ceiling.checked_sub(1)?)),
        CmpOp::Le => Some((i128::MIN, floor)),
        CmpOp::Gt => Some((floor.checked_add(1)?, i128::MAX)),
        CmpOp::Ge => Some((ceiling, i128::MAX)),
        CmpOp::Ne => None,
    }
}

/// A value in larger units, rounded down and rounded up.
fn in_units(value: i128, unit: i128) -> (i128, i128) {
    let floor = value.div_euclid(unit);
    (floor, floor + i128::from(value.rem_euclid(unit) != 0))
}

/// A timestamp in days, rounded down and rounded up. Infinity becomes the infinity of dates.
fn days_of(timestamp: i128) -> (i128, i128) {
    const DAY: i128 = 86_400_000_000;
    const ENDS: [(i64, i32); 2] = [(i64::MAX, i32::MAX), (i64::MIN, i32::MIN)];
    let infinite = ENDS.iter().find(|(end, _)| timestamp == i128::from(*end));
    infinite.map_or_else(|| in_units(timestamp, DAY), |(_, days)| ((*days).into(), (*days).into()))
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int16 | Type::Int32 | Type::Int64)
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

    /// The first range that a condition implies.
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
            assert_eq!(wanted(&compare(op.mirrored(), small(5), column(0))), expected, "{op:?}, mirrored");
        }
        let wide = Box::new(Expr::Cast { to: Type::Int64, arg: column(0) });
        assert_eq!(wanted(&compare(CmpOp::Gt, wide, constant(Type::Int64, 70_000))), Some((0, 70_001, i128::MAX)));
        let parameter = Box::new(Expr::Param { index: 0 });
        assert_eq!(wanted(&compare(CmpOp::Le, column(1), parameter)), Some((1, i128::MIN, 77)));
    }

    #[test]
    fn some_conditions_say_no_more_than_ranges() {
        let columns: Vec<ColumnId> = (0..4).map(ColumnId).collect();
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[])],
            columns: TYPES.to_vec(),
            params: vec![],
            root: Rel::Row,
            output: vec![],
        };
        let reading = Reading { columns: &columns, plan: &plan, params: &[] };
        let is = |op, value| compare(op, column(0), constant(Type::Int16, value));
        let all = |args| Expr::Bool { op: BoolOp::And, args };
        let any = |args| Expr::Bool { op: BoolOp::Or, args };
        let ranges = |condition: &Expr| reading.exactly(condition).map(|found| found.ranges);
        assert_eq!(ranges(&is(CmpOp::Lt, 5)), Some(vec![i128::MIN..=4]));
        assert_eq!(ranges(&is(CmpOp::Ne, 5)), None);
        assert_eq!(ranges(&all(vec![is(CmpOp::Ge, 3), is(CmpOp::Lt, 9)])), Some(vec![3..=8]));
        assert_eq!(ranges(&any(vec![is(CmpOp::Eq, 3), is(CmpOp::Gt, 9)])), Some(vec![3..=3, 10..=i128::MAX]));
        // These are ranges of several columns, or more ranges than are tested.
        let other = compare(CmpOp::Eq, column(1), constant(Type::Date, 9));
        assert_eq!(ranges(&all(vec![is(CmpOp::Eq, 3), other.clone()])), None);
        assert_eq!(ranges(&any(vec![is(CmpOp::Eq, 3), other])), None);
        assert_eq!(ranges(&any((0..5).map(|value| is(CmpOp::Eq, value)).collect())), None);
        assert_eq!(ranges(&Expr::Not(Box::new(is(CmpOp::Eq, 3)))), None);
        let either = any(vec![is(CmpOp::Eq, 3), is(CmpOp::Eq, 5)]);
        assert_eq!(ranges(&all(vec![either, is(CmpOp::Lt, 4)])), None);
    }

    #[test]
    fn dates_are_compared_with_points_in_time() {
        const DAY: i64 = 86_400_000_000;
        let date = || {
            let args = vec![*column(1)];
            Box::new(Expr::Call { function: Named::Comparable, ty: Type::Timestamp, args })
        };
        let time = |micros| constant(Type::Timestamp, micros);
        for (micros, below, equal) in [
            (5 * DAY, 4, (5, 5)),
            (5 * DAY + 1, 5, (6, 5)),
            (-5 * DAY - 1, -6, (-5, -6)),
            (i64::MAX, i128::from(i32::MAX) - 1, (i32::MAX.into(), i32::MAX.into())),
            (i64::MIN, i128::from(i32::MIN) - 1, (i32::MIN.into(), i32::MIN.into())),
        ] {
            assert_eq!(wanted(&compare(CmpOp::Lt, date(), time(micros))), Some((1, i128::MIN, below)), "{micros}");
            assert_eq!(wanted(&compare(CmpOp::Eq, time(micros), date())), Some((1, equal.0, equal.1)), "{micros}");
        }
        // No other column is a date.
        let other = Expr::Call { function: Named::Comparable, ty: Type::Timestamp, args: vec![*column(0)] };
        assert_eq!(wanted(&compare(CmpOp::Lt, Box::new(other), time(0))), None);
    }

    #[test]
    fn floats_are_compared_by_their_ranks() {
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[])],
            columns: vec![Type::Float64, Type::Float32, Type::Int32],
            params: vec![Type::Float64],
            root: Rel::Row,
            output: vec![],
        };
        let columns: Vec<ColumnId> = (0..3).map(ColumnId).collect();
        let wanted = |condition: &Expr| {
            let pruning = Pruning::of(&[condition], &columns, &plan, &[Some(Literal::Float(-0.0))]);
            pruning.0.first().map(|wanted| (wanted.column, wanted.low, wanted.high))
        };
        let float = |value: f64| Box::new(Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(value)) });
        let rank = |value: f64| i128::from(float_order::rank(value));
        let less = compare(CmpOp::Lt, column(0), float(-1.5));
        assert_eq!(wanted(&less), Some((0, i128::MIN, rank(-1.5) - 1)));
        assert_eq!(wanted(&compare(CmpOp::Ge, float(2.0), column(0))), Some((0, i128::MIN, rank(2.0))));
        // NaN is equal to itself, and greater than all other values.
        assert_eq!(wanted(&compare(CmpOp::Eq, column(0), float(f64::NAN))), Some((0, rank(f64::NAN), rank(f64::NAN))));
        let real = Box::new(Expr::Cast { to: Type::Float64, arg: column(1) });
        let zero = Box::new(Expr::Param { index: 0 });
        assert_eq!(wanted(&compare(CmpOp::Le, real.clone(), zero.clone())), Some((1, i128::MIN, rank(0.0))));
        assert_eq!(wanted(&compare(CmpOp::Ne, real.clone(), zero)), None);
        // The bounds of an integer do not apply to the float to which it is converted.
        let number = Box::new(Expr::Cast { to: Type::Float64, arg: column(2) });
        assert_eq!(wanted(&compare(CmpOp::Eq, number, float(1.0))), None);
        // Ranges of floats cannot be tested by codes.
        let reading = Reading { columns: &columns, plan: &plan, params: &[] };
        assert_eq!(reading.exactly(&less), None);
    }

    #[test]
    fn digits_that_the_column_does_not_have_are_rounded_the_right_way() {
        // 1.005 and -1.005
        let finer = |value| constant(Type::Decimal128 { scale: 3 }, value);
        assert_eq!(wanted(&compare(CmpOp::Lt, column(2), finer(1005))), Some((2, i128::MIN, 100)));
        assert_eq!(wanted(&compare(CmpOp::Ge, column(2), finer(1005))), Some((2, 101, i128::MAX)));
        assert_eq!(wanted(&compare(CmpOp::Gt, column(2), finer(-1005))), Some((2, -100, i128::MAX)));
        assert_eq!(wanted(&compare(CmpOp::Le, column(2), finer(-1005))), Some((2, i128::MIN, -101)));
        // No value of the column is 1.005, and one is 1.01.
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

    #[test]
    fn texts_are_compared_by_how_they_begin() {
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[])],
            columns: vec![Type::Text, Type::Char, Type::Name, Type::Bytes],
            params: vec![Type::Text],
            root: Rel::Row,
            output: vec![],
        };
        let columns: Vec<ColumnId> = (0..4).map(ColumnId).collect();
        let params = [Some(Literal::Text("m".into()))];
        let wanted = |condition: &Expr| {
            let pruning = Pruning::of(&[condition], &columns, &plan, &params);
            pruning.0.first().map(|wanted| (wanted.column, wanted.low, wanted.high))
        };
        let text = |ty, text: &str| Box::new(Expr::Literal { ty, value: Some(Literal::Text(text.into())) });
        let place = |text: &str| text_order::place(text.as_bytes());
        let long = "https://example.com/";
        for (op, expected) in [
            (CmpOp::Eq, Some((0, place(long), place(long)))),
            // Other texts may begin with the same bytes.
            (CmpOp::Lt, Some((0, i128::MIN, place(long)))),
            (CmpOp::Le, Some((0, i128::MIN, place(long)))),
            (CmpOp::Gt, Some((0, place(long), i128::MAX))),
            (CmpOp::Ge, Some((0, place(long), i128::MAX))),
            (CmpOp::Ne, None),
        ] {
            assert_eq!(wanted(&compare(op, column(0), text(Type::Text, long))), expected, "{op:?}");
            assert_eq!(
                wanted(&compare(op.mirrored(), text(Type::Text, long), column(0))),
                expected,
                "{op:?}, mirrored"
            );
        }
        let parameter = Box::new(Expr::Param { index: 0 });
        assert_eq!(wanted(&compare(CmpOp::Eq, column(0), parameter)), Some((0, place("m"), place("m"))));
        let name = Box::new(Expr::Cast { to: Type::Text, arg: column(2) });
        assert_eq!(wanted(&compare(CmpOp::Eq, name, text(Type::Text, "n"))), Some((2, place("n"), place("n"))));
        assert_eq!(wanted(&compare(CmpOp::Eq, column(1), text(Type::Char, "c"))), Some((1, place("c"), place("c"))));
        // Texts with trailing blanks are stored without them.
        assert_eq!(wanted(&compare(CmpOp::Eq, column(1), text(Type::Text, "c "))), None);
        let bytes = Box::new(Expr::Literal { ty: Type::Bytes, value: Some(Literal::Bytes(vec![0xff; 20])) });
        let most = text_order::place(&[0xff; 15]);
        assert_eq!(wanted(&compare(CmpOp::Ge, column(3), bytes)), Some((3, most, i128::MAX)));

        let like = |of: u16, pattern: &str| {
            let args = vec![*column(of), *text(Type::Text, pattern)];
            wanted(&Expr::Call { function: Named::Like, ty: Type::Bool, args })
        };
        let beginning = |start: &str| Some((0, place(start), text_order::last_place(start.as_bytes())));
        assert_eq!(like(0, "abc%d"), beginning("abc"));
        assert_eq!(like(0, "abc_"), beginning("abc"));
        assert_eq!(like(0, "a\\%c%"), beginning("a%c"));
        assert_eq!(like(0, "%abc"), beginning(""));
        assert_eq!(like(0, "abc"), Some((0, place("abc"), place("abc"))));
        assert_eq!(like(0, "ab\\"), None, "an error of the rows that come so far");
        assert_eq!(like(1, "abc%"), None, "blanks count");
        let args = vec![*column(0), *text(Type::Text, "a%")];
        let starts = Expr::Call { function: Named::StartsWith, ty: Type::Bool, args };
        assert_eq!(wanted(&starts), beginning("a%"));
    }

    #[test]
    fn uuids_are_compared_as_numbers() {
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[])],
            columns: vec![Type::Uuid, Type::Decimal128 { scale: 0 }],
            params: vec![],
            root: Rel::Row,
            output: vec![],
        };
        let columns: Vec<ColumnId> = (0..2).map(ColumnId).collect();
        let uuid = |value| Box::new(Expr::Literal { ty: Type::Uuid, value: Some(Literal::Decimal(value)) });
        let wanted = |condition: &Expr| {
            let pruning = Pruning::of(&[condition], &columns, &plan, &[]);
            pruning.0.first().map(|wanted| (wanted.column, wanted.low, wanted.high))
        };
        assert_eq!(wanted(&compare(CmpOp::Eq, column(0), uuid(7 << 90))), Some((0, 7 << 90, 7 << 90)));
        assert_eq!(wanted(&compare(CmpOp::Lt, uuid(7), column(0))), Some((0, 8, i128::MAX)));
        assert_eq!(wanted(&compare(CmpOp::Eq, column(1), uuid(7))), None);
    }
}
