//! The interpreter's operators that depend on an order.

use std::cmp::Ordering;

use plan::{
    Agg, Bound, ColumnId, Exclude, Expr, Frame, Literal, Named, Over, Range, SortKey, Type, Unit, WindowCall,
    WindowFunction,
};

use crate::interpreter::{Interpreter, Raised, Rows, Tuple, order, order_in, same_row};
use crate::table::{Row, Value};

/// A row, preceded by the values of its sort keys, and by those of the keys that break ties.
type Member = (Row, Row, Tuple);

impl Interpreter<'_> {
    /// The first rows of each group. It does not matter which of two tied rows comes first, because the generator makes
    /// only equal rows tie.
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

    /// Whether the offset or the count is negative, which is an error.
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

/// Compares two rows by the values of their keys.
pub fn compare(by: &[SortKey], a: &Row, b: &Row) -> Ordering {
    let one = |(key, (a, b)): (&SortKey, (&Value, &Value))| match (a, b) {
        (Some(a), Some(b)) if key.descending => order_in(key.locale.as_deref(), b, a),
        (Some(a), Some(b)) => order_in(key.locale.as_deref(), a, b),
        (None, None) => Ordering::Equal,
        (None, _) if key.nulls_first => Ordering::Less,
        (_, None) if !key.nulls_first => Ordering::Less,
        _ => Ordering::Greater,
    };
    by.iter().zip(a.iter().zip(b)).map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Interpreter<'_> {
    /// Adds the values of window functions to the rows. They are computed row by row, as documented.
    pub fn window(&self, input: Rows, over: &Over, calls: &[WindowCall]) -> Rows {
        let Over { partition, order: by, ties } = over;
        let Rows { mut columns, tuples } = input;
        let mut tainted = false;
        let mut partitions: Vec<(Row, Vec<Member>)> = Vec::new();
        for tuple in tuples {
            let values = |exprs: &mut dyn Iterator<Item = &Expr>| -> Result<Row, Raised> {
                exprs.map(|e| self.eval(e, &columns, &tuple.values)).collect()
            };
            let key = values(&mut partition.iter());
            let place = values(&mut by.iter().map(|key| &key.expr));
            let tie = values(&mut ties.iter().map(|key| &key.expr));
            tainted |= tuple.doubtful;
            // If a key is an error, the results of the window functions are undefined, so they must not be needed.
            let (Ok(key), Ok(place), Ok(tie)) = (key, place, tie) else {
                tainted = true;
                partitions.push((vec![], vec![(vec![], vec![], tuple)]));
                continue;
            };
            match partitions.iter_mut().find(|(other, _)| same_row(other, &key)) {
                Some((_, members)) => members.push((place, tie, tuple)),
                None => partitions.push((key, vec![(place, tie, tuple)])),
            }
        }
        let mut result = Vec::new();
        if tainted {
            let width: usize = calls.iter().map(|call| call.columns.len()).sum();
            for (_, members) in std::mem::take(&mut partitions) {
                result.extend(members.into_iter().map(|(.., mut tuple)| {
                    tuple.values.extend(vec![Err(Raised); width]);
                    tuple
                }));
            }
        }
        for (_, mut members) in partitions {
            members.sort_by(|(a, x, _), (b, y, _)| compare(by, a, b).then_with(|| compare(ties, x, y)));
            let rows: Vec<&Tuple> = members.iter().map(|(.., tuple)| tuple).collect();
            // For each row, the number of the group of peers to which it belongs, from 0.
            let mut peers = vec![0; rows.len()];
            for at in 1..rows.len() {
                peers[at] = peers[at - 1] + usize::from(compare(by, &members[at - 1].0, &members[at].0).is_ne());
            }
            let reached: Vec<_> = calls.iter().map(|call| self.reached(call, by, &rows, &columns)).collect();
            for at in 0..rows.len() {
                let mut values = rows[at].values.clone();
                for (call, reached) in calls.iter().zip(&reached) {
                    let value = reached.as_ref().map_err(|raised| *raised);
                    let value = value.and_then(|reached| {
                        let frame = |row: &usize| in_frame(&call.frame, &peers, reached, at, *row);
                        let frame: Vec<usize> = (0..rows.len()).filter(frame).collect();
                        self.window_value(call, &rows, &peers, at, &frame, &columns)
                    });
                    match value {
                        Ok(row) => values.extend(row.into_iter().map(Ok)),
                        Err(Raised) => values.extend(vec![Err(Raised); call.columns.len()]),
                    }
                }
                result.push(Tuple { values, doubtful: false });
            }
        }
        columns.extend(calls.iter().flat_map(|call| &call.columns));
        Rows { columns, tuples: result }
    }

    fn window_value(
        &self,
        call: &WindowCall,
        rows: &[&Tuple],
        peers: &[usize],
        at: usize,
        frame: &[usize],
        columns: &[ColumnId],
    ) -> Result<Row, Raised> {
        let value = |expr: &Expr, at: usize| self.eval(expr, columns, &rows[at].values);
        let int = |number: usize| Ok(vec![Some(Literal::Int(number as i64))]);
        let float = |number: f64| Ok(vec![Some(Literal::Float(number))]);
        let first_peer = peers.iter().position(|other| *other == peers[at]).unwrap();
        let behind_peers = peers.iter().filter(|other| **other <= peers[at]).count();
        let one = |at: Option<&usize>, expr: &Expr| Ok(vec![at.map_or(Ok(None), |at| value(expr, *at))?]);
        match &call.function {
            WindowFunction::RowNumber => int(at + 1),
            WindowFunction::Rank => int(first_peer + 1),
            WindowFunction::DenseRank => int(peers[at] + 1),
            WindowFunction::PercentRank if rows.len() == 1 => float(0.0),
            WindowFunction::PercentRank => float(first_peer as f64 / (rows.len() - 1) as f64),
            WindowFunction::CumeDist => float(behind_peers as f64 / rows.len() as f64),
            WindowFunction::Ntile(buckets) => {
                let Some(Literal::Int(buckets)) = value(buckets, at)? else { return Ok(vec![None]) };
                let buckets = buckets as usize;
                let size = |bucket: usize| rows.len() / buckets + usize::from(bucket < rows.len() % buckets);
                let mut end = 0;
                int((0..buckets)
                    .take_while(|bucket| {
                        end += size(*bucket);
                        end <= at
                    })
                    .count()
                    + 1)
            }
            WindowFunction::Shifted { value: expr, by, back, otherwise } => {
                let Some(Literal::Int(by)) = value(by, at)? else { return Ok(vec![None]) };
                let there = at as i128 + i128::from(if *back { -by } else { by });
                match usize::try_from(there).ok().filter(|there| *there < rows.len()) {
                    Some(there) => Ok(vec![value(expr, there)?]),
                    None => Ok(vec![otherwise.as_ref().map_or(Ok(None), |expr| value(expr, at))?]),
                }
            }
            WindowFunction::First(expr) => one(frame.first(), expr),
            WindowFunction::Last(expr) => one(frame.last(), expr),
            WindowFunction::Nth(expr, number) => match value(number, at)? {
                Some(Literal::Int(number)) => one(frame.get(number as usize - 1), expr),
                _ => Ok(vec![None]),
            },
            WindowFunction::SumOfReals(expr) => {
                let mut sum: Option<f32> = None;
                for row in frame {
                    if let Some(Literal::Float(addend)) = value(expr, *row)? {
                        let more = sum.map_or(addend as f32, |sum| sum + addend as f32);
                        let was_finite = addend.is_finite() && sum.is_none_or(f32::is_finite);
                        if was_finite && more.is_infinite() {
                            return Err(Raised);
                        }
                        sum = Some(more);
                    }
                }
                Ok(vec![sum.map(|sum| Literal::Float(sum.into()))])
            }
            WindowFunction::Aggregate(agg @ (Agg::Min(arg) | Agg::Max(arg))) => {
                let image = image(arg, self.plan.type_of(arg));
                let mut best: Option<(Literal, Value)> = None;
                for row in frame {
                    let Some(key) = value(&image, *row)? else { continue };
                    // Among equal values, the value of the last row is taken.
                    let is_better = best.as_ref().is_none_or(|(best, _)| match agg {
                        Agg::Min(_) => order(&key, best).is_le(),
                        _ => order(&key, best).is_ge(),
                    });
                    if is_better {
                        best = Some((key, value(arg, *row)?));
                    }
                }
                Ok(vec![best.and_then(|(_, value)| value)])
            }
            WindowFunction::Aggregate(agg) => {
                let members: Vec<&Tuple> = frame.iter().map(|row| rows[*row]).collect();
                let mut out = Row::new();
                self.aggregate(agg, false, &members, columns, &mut out)?;
                Ok(out)
            }
        }
    }
}

impl Interpreter<'_> {
    /// For a frame of values, the start and the end of each row's frame in one partition.
    fn reached(
        &self,
        call: &WindowCall,
        by: &[SortKey],
        rows: &[&Tuple],
        columns: &[ColumnId],
    ) -> Result<[Vec<usize>; 2], Raised> {
        let Some(reach) = &call.reach else { return Ok([vec![], vec![]]) };
        let all = |expr: &Expr| -> Result<Row, Raised> {
            rows.iter().map(|row| self.eval(expr, columns, &row.values)).collect()
        };
        let values = all(&reach.value)?;
        let key = SortKey { locale: None, ..by[0].clone() };
        let places = |edges: Row, within: bool| {
            let mut place = 0;
            let mut passed = |edge: Value| {
                while place < values.len() {
                    match compare(std::slice::from_ref(&key), &vec![values[place].clone()], &vec![edge.clone()]) {
                        Ordering::Greater => break,
                        Ordering::Equal if !within => break,
                        _ => place += 1,
                    }
                }
                place
            };
            edges.into_iter().map(&mut passed).collect::<Vec<usize>>()
        };
        let side = |edge: &Option<Expr>, within| match edge {
            Some(edge) => Ok(places(all(edge)?, within)),
            None => Ok(vec![]),
        };
        Ok([side(&reach.start, false)?, side(&reach.end, true)?])
    }
}

/// Whether `row` belongs to the frame of row `at`. `peers` has, for each row, the number of its group of peers.
fn in_frame(frame: &Frame, peers: &[usize], [starts, ends]: &[Vec<usize>; 2], at: usize, row: usize) -> bool {
    let distance = match frame.unit {
        Unit::Rows => row as i128 - at as i128,
        Unit::Groups | Unit::Values => peers[row] as i128 - peers[at] as i128,
    };
    let starts = match frame.start {
        Bound::Unbounded => true,
        Bound::Preceding(n) => distance >= -i128::from(n),
        Bound::Current => distance >= 0,
        Bound::Following(n) => distance >= i128::from(n),
        Bound::Edge => row >= starts[at],
    };
    let ends = match frame.end {
        Bound::Unbounded => true,
        Bound::Preceding(n) => distance <= -i128::from(n),
        Bound::Current => distance <= 0,
        Bound::Following(n) => distance <= i128::from(n),
        Bound::Edge => row < ends[at],
    };
    let left_out = match frame.exclude {
        Exclude::Nothing => false,
        Exclude::Current => row == at,
        Exclude::Group => peers[row] == peers[at],
        Exclude::Ties => peers[row] == peers[at] && row != at,
    };
    starts && ends && !left_out
}

/// The expression by which PostgreSQL compares values. Equal values of `value` may look different (1.0 and 1.00); equal
/// values of the returned expression look the same.
fn image(value: &Expr, ty: Type) -> Expr {
    let (function, ty) = match ty {
        Type::Numeric => (Named::Trimmed, ty),
        Type::Interval => (Named::Span, Type::Decimal128 { scale: 6 }),
        _ => return value.clone(),
    };
    Expr::Call { function, ty, args: vec![value.clone()] }
}
