//! A sorted build side. Rows with values in a range are adjacent in it.
//!
//! ```text
//!   rows of one key, sorted by the ranks of one limit   1   3   4   7   9
//!   limit "at least": greatest rank up to here          2   5   5   8   9    less than the probe row's: no partner
//!   limit "at most": least rank from here on            1   3   4   7   9    more than the probe row's: no partner
//! ```
//!
//! In each line ranks grow from row to row. So one binary search for each limit finds where the candidates begin or
//! end. If a value is looked up in periods that do not overlap, there is at most one candidate, although the rows are
//! sorted by only one end of the periods.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array};

use super::shape::Inequality;
use super::table::Table;
use super::words::Packing;

/// Groups of rows whose keys have the same word. Within each group, rows are sorted by rank.
#[derive(Debug)]
pub struct Ordered {
    pub packing: Packing,
    /// Finds the number of the group for a word.
    pub groups: Table,
    /// The start of each group, and the end of the last one.
    pub starts: Vec<u32>,
    /// For each limit and row, the extreme rank that grows with the rows of a group: the greatest rank so far, or the
    /// least rank from the row on.
    pub limits: Vec<(Inequality, Vec<i64>)>,
}

impl Ordered {
    /// Finds the first and the last candidate of each row of the probe side, by the row's word and ranks. Candidates
    /// are counted from 1; 0 stands for none.
    pub fn find(&self, words: &[u64], ranks: &[ArrayRef], first: &mut Vec<u32>, last: &mut Vec<u32>) {
        self.groups.find(words, first);
        last.clear();
        // For now, `first` and `last` are the start of each row's range and its end, counted from 0.
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

    /// The ranks of the limit by which rows are sorted, row by row.
    pub fn ranks(&self, limit: usize) -> &[i64] {
        &self.limits[limit].1
    }

    pub fn bytes(&self) -> usize {
        let grown: usize = self.limits.iter().map(|(_, grown)| size_of_val(&grown[..])).sum();
        grown + size_of_val(&self.starts[..]) + Table::bytes(self.starts.len() - 1, self.packing.limit())
    }
}
