//! The interpreter's reading of what depends on an order.

use std::cmp::Ordering;

use plan::{Expr, Literal, Range, SortKey};

use crate::interpreter::{Interpreter, Raised, Rows, Tuple, order, same_row};
use crate::table::{Row, Value};

impl Interpreter<'_> {
    /// The first rows of each group. Which of several that are equal in the order are the first is left open by who made
    /// the plan only where it makes no difference.
    pub fn top(&self, input: Rows, keys: &[Expr], by: &[SortKey], range: &Range) -> Rows {
        let (offset, count) = (self.number(&range.offset).unwrap_or(0), self.number(&range.count));
        let columns = input.columns;
        if self.is_negative(range) {
            return Rows { tuples: vec![Tuple { values: vec![Ok(None); columns.len()], doubtful: true }], columns };
        }
        match (offset, count) {
            (_, Some(0)) => return Rows { tuples: vec![], columns },
            (0, None) => return Rows { tuples: input.tuples, columns },
            _ => {}
        }
        let mut groups: Vec<(Row, Vec<(Row, Tuple)>)> = Vec::new();
        let mut doubtful = false;
        for tuple in input.tuples {
            let values = |exprs: &mut dyn Iterator<Item = &Expr>| -> Result<Row, Raised> {
                exprs.map(|e| self.eval(e, &columns, &tuple.values)).collect()
            };
            let group = values(&mut keys.iter());
            let (Ok(group), Ok(place)) = (group, values(&mut by.iter().map(|key| &key.expr))) else {
                doubtful = true;
                continue;
            };
            doubtful |= tuple.doubtful && !by.is_empty();
            match groups.iter_mut().find(|(other, _)| same_row(other, &group)) {
                Some((_, members)) => members.push((place, tuple)),
                None => groups.push((group, vec![(place, tuple)])),
            }
        }
        let mut tuples = Vec::new();
        for (_, mut members) in groups {
            members.sort_by(|(a, x), (b, y)| compare(by, a, b).then(x.doubtful.cmp(&y.doubtful)));
            let end = count.map_or(usize::MAX, |count| offset.saturating_add(count) as usize);
            let last = members.get(end.wrapping_sub(1)).map(|(place, _)| place.clone());
            for (at, (place, tuple)) in members.into_iter().enumerate().skip(offset as usize) {
                let is_tie = last.as_ref().is_some_and(|last| compare(by, last, &place).is_eq());
                if at < end || range.ties && is_tie {
                    tuples.push(Tuple { doubtful: tuple.doubtful || doubtful, ..tuple });
                }
            }
        }
        Rows { columns, tuples }
    }

    /// Whether the range is an error.
    pub fn is_negative(&self, range: &Range) -> bool {
        [&range.offset, &range.count].iter().any(|number| self.number(number).is_some_and(|number| number < 0))
    }

    fn number(&self, expr: &Option<Expr>) -> Option<i64> {
        match expr.as_ref().map(|e| self.eval(e, &[], &[])) {
            Some(Ok(Some(Literal::Int(number)))) => Some(number),
            _ => None,
        }
    }
}

/// The order of two rows, of which these are the values that decide it.
pub fn compare(by: &[SortKey], a: &Row, b: &Row) -> Ordering {
    let one = |(key, (a, b)): (&SortKey, (&Value, &Value))| match (a, b) {
        (Some(a), Some(b)) if key.descending => order(b, a),
        (Some(a), Some(b)) => order(a, b),
        (None, None) => Ordering::Equal,
        (None, _) if key.nulls_first => Ordering::Less,
        (_, None) if !key.nulls_first => Ordering::Less,
        _ => Ordering::Greater,
    };
    by.iter().zip(a.iter().zip(b)).map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
