//! A sorted build side. Rows with values in a range are adjacent in it.
//!
//! ```text
//!   rows of one key, by the rank of a limit's value   1   3   4   7   9
//!   of a limit "at least", the greatest so far   2   5   5   8   9    lesser ones than the probe's, in front: none
//!   of a limit "at most", the least from here    1   3   4   7   9    greater ones, at the end: none
//! ```
//!
//! Both extremes grow with the rows, so each limit takes one binary search, and the rows between the limits are
//! candidates. If a value lies between two columns, as in periods that do not overlap, there is exactly one candidate,
//! though the rows are sorted by only one of the columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array};

use super::shape::Inequality;
use super::table::Table;
use super::words::Packing;

/// Groups of rows with the same word. Each group is sorted.
#[derive(Debug)]
pub struct Ordered {
    pub packing: Packing,
    /// The number of each word's group.
    pub groups: Table,
    /// The start of each group, and the end of the last one.
    pub starts: Vec<u32>,
    /// For each limit, the running extreme that grows with the rows of a group.
    pub limits: Vec<(Inequality, Vec<i64>)>,
}

impl Ordered {
    /// Finds the first and the last candidate of each row of the probe side, counted from 1, by the row's word and
    /// ranks.
    pub fn find(&self, words: &[u64], ranks: &[ArrayRef], first: &mut Vec<u32>, last: &mut Vec<u32>) {
        self.groups.find(words, first);
        last.clear();
        // The start of each row's range, and its end.
        for from in first.iter_mut() {
            let (start, end) = match *from as usize {
                0 => (0, 0),
                group => (self.starts[group - 1], self.starts[group]),
            };
            *from = start;
            last.push(end);
        }
        for ((bound, grown), ranks) in self.limits.iter().zip(ranks) {
            let ranks: &Int64Array = ranks.as_primitive();
            for (at, (from, to)) in first.iter_mut().zip(last.iter_mut()).enumerate() {
                if from >= to {
                    continue;
                }
                if !ranks.is_valid(at) {
                    *to = *from;
                    continue;
                }
                let rank = ranks.value(at);
                let less = grown[*from as usize..*to as usize].partition_point(|grown| match bound {
                    Inequality::AtLeast | Inequality::LessThan => *grown < rank,
                    Inequality::MoreThan | Inequality::AtMost => *grown <= rank,
                });
                match bound.is_lower() {
                    true => *from += less as u32,
                    false => *to = *from + less as u32,
                }
            }
        }
        for (from, to) in first.iter_mut().zip(last) {
            *from = if *from < *to { *from + 1 } else { 0 };
        }
    }

    /// The ranks by which rows are sorted.
    pub fn ranks(&self, limit: usize) -> &[i64] {
        &self.limits[limit].1
    }

    pub fn bytes(&self) -> usize {
        let grown: usize = self.limits.iter().map(|(_, grown)| size_of_val(&grown[..])).sum();
        grown + size_of_val(&self.starts[..]) + Table::bytes(self.starts.len() - 1, self.packing.limit())
    }
}
