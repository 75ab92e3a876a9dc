//! Queries on snapshots. They may run in a forked child, so they must not allocate memory.

use std::ops::Deref;

/// Columns of 64-bit values. A column is read run by run.
pub trait Columns {
    type Error;
    fn runs(&self, column: usize) -> usize;
    fn run(&self, column: usize, run: usize) -> Result<impl Deref<Target = [u8]>, Self::Error>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// An empty query, to measure the time that passing a query takes.
    Nothing,
    /// The sum of a column.
    Sum { column: u32 },
    /// TPC-H's pricing summary over a lineitem of seven columns, reduced to one number.
    PricingSummary,
}

/// The columns of [`Query::PricingSummary`], in the order of the table.
pub mod lineitem {
    pub const QUANTITY: usize = 0;
    pub const EXTENDED_PRICE: usize = 1;
    pub const DISCOUNT: usize = 2;
    pub const TAX: usize = 3;
    pub const RETURN_FLAG: usize = 4;
    pub const LINE_STATUS: usize = 5;
    pub const SHIP_DATE: usize = 6;
}

/// The number of possible values of a column by which the pricing summary groups.
pub const RETURN_FLAGS: u64 = 3;
pub const LINE_STATUSES: u64 = 2;
/// The number of ship dates, in days. The pricing summary reads the items that were shipped up to `LAST_SHIP_DATE`.
pub const SHIP_DATES: u64 = 2526;
const LAST_SHIP_DATE: i64 = 2436;

impl Query {
    pub fn code(self) -> u64 {
        match self {
            Query::Nothing => 0,
            Query::PricingSummary => 1,
            Query::Sum { column } => 2 + column as u64,
        }
    }

    pub fn from_code(code: u64) -> Option<Query> {
        Some(match code {
            0 => Query::Nothing,
            1 => Query::PricingSummary,
            _ => Query::Sum { column: u32::try_from(code - 2).ok()? },
        })
    }

    pub fn answer<C: Columns>(self, columns: &C) -> Result<u64, C::Error> {
        match self {
            Query::Nothing => Ok(0),
            Query::Sum { column } => {
                let column = column as usize;
                let add = |total: u64, run| Ok(total.wrapping_add(sum(&columns.run(column, run)?)));
                (0..columns.runs(column)).try_fold(0, add)
            }
            Query::PricingSummary => pricing_summary(columns),
        }
    }
}

/// The wrapping sum of 64-bit values.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

#[derive(Default)]
struct Group {
    count: i64,
    quantity: i64,
    price: i64,
    discounted: i64,
    charged: i64,
}

type Groups = [Group; (RETURN_FLAGS * LINE_STATUSES) as usize];

fn add(groups: &mut Groups, row: [i64; 7]) {
    use lineitem::*;
    if row[SHIP_DATE] > LAST_SHIP_DATE {
        return;
    }
    // The remainder puts even a wrong value into some group, because a forked child must not panic.
    let (flag, status) = (row[RETURN_FLAG] as u64 % RETURN_FLAGS, row[LINE_STATUS] as u64 % LINE_STATUSES);
    let group = &mut groups[(flag * LINE_STATUSES + status) as usize];
    // Values are in hundredths, as decimals are; the charge is in millionths.
    let discounted = row[EXTENDED_PRICE].wrapping_mul(100 - row[DISCOUNT]);
    group.count += 1;
    group.quantity = group.quantity.wrapping_add(row[QUANTITY]);
    group.price = group.price.wrapping_add(row[EXTENDED_PRICE]);
    group.discounted = group.discounted.wrapping_add(discounted);
    group.charged = group.charged.wrapping_add(discounted.wrapping_mul(100 + row[TAX]));
}

fn pricing_summary<C: Columns>(columns: &C) -> Result<u64, C::Error> {
    use lineitem::*;
    let mut groups = Groups::default();
    for run in 0..columns.runs(QUANTITY) {
        let quantity = columns.run(QUANTITY, run)?;
        let price = columns.run(EXTENDED_PRICE, run)?;
        let discount = columns.run(DISCOUNT, run)?;
        let tax = columns.run(TAX, run)?;
        let flag = columns.run(RETURN_FLAG, run)?;
        let status = columns.run(LINE_STATUS, run)?;
        let shipped = columns.run(SHIP_DATE, run)?;
        let columns: [&[[u8; 8]]; 7] =
            [&quantity, &price, &discount, &tax, &flag, &status, &shipped].map(|run| run.as_chunks().0);
        let rows = columns.map(|column| column.len()).into_iter().min().unwrap_or(0);
        (0..rows).for_each(|row| add(&mut groups, columns.map(|column| i64::from_le_bytes(column[row]))));
    }
    let mix = |sum: u64, value: i64| sum.rotate_left(7) ^ value as u64;
    Ok(groups.iter().fold(0, |sum, group| {
        [group.count, group.quantity, group.price, group.discounted, group.charged].into_iter().fold(sum, mix)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain(Vec<Vec<u8>>);

    impl Columns for Plain {
        type Error = std::convert::Infallible;

        fn runs(&self, column: usize) -> usize {
            self.0[column].len() / 16
        }

        fn run(&self, column: usize, run: usize) -> Result<impl Deref<Target = [u8]>, Self::Error> {
            Ok(&self.0[column][run * 16..(run + 1) * 16])
        }
    }

    fn column(values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn a_sum_is_over_all_runs() {
        let plain = Plain(vec![column(&[1, 2, 3, -4])]);
        assert_eq!(Query::Sum { column: 0 }.answer(&plain), Ok(2));
    }

    #[test]
    fn the_pricing_summary_sees_each_column_and_leaves_late_rows_out() {
        let with = |change: usize, to: i64| {
            let mut columns: Vec<_> = [5, 1000, 4, 3, 1, 1, 7].map(|value| vec![value, value]).into();
            columns[change][1] = to;
            Query::PricingSummary.answer(&Plain(columns.iter().map(|values| column(values)).collect()))
        };
        let unchanged = with(0, 5);
        for (at, to) in [(0, 6), (1, 1001), (2, 5), (3, 4), (4, 2), (5, 0), (6, LAST_SHIP_DATE + 1)] {
            assert_ne!(with(at, to), unchanged, "column {at}");
        }
        assert_eq!(with(6, LAST_SHIP_DATE), unchanged);
    }

    #[test]
    fn queries_survive_being_sent() {
        for query in [Query::Nothing, Query::PricingSummary, Query::Sum { column: 0 }, Query::Sum { column: 7 }] {
            assert_eq!(Query::from_code(query.code()), Some(query));
        }
    }
}
