//! A tree that finds the least or the greatest value in any range of rows, in logarithmic time.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use plan::catalogue::Extreme;

use crate::base::keys::KeyRows;

pub struct Tree<'a> {
    keys: &'a KeyRows,
    which: Extreme,
    /// The leaves are the rows, after the inner nodes. The children of node n are 2 n and 2 n + 1.
    nodes: Vec<Option<u32>>,
}

impl<'a> Tree<'a> {
    pub fn new(keys: &'a KeyRows, values: &ArrayRef, which: Extreme) -> Tree<'a> {
        let rows = values.len();
        let mut tree = Tree { keys, which, nodes: vec![None; 2 * rows] };
        for row in 0..rows {
            tree.nodes[rows + row] = values.is_valid(row).then_some(row as u32);
        }
        for node in (1..rows).rev() {
            tree.nodes[node] = tree.better(tree.nodes[2 * node], tree.nodes[2 * node + 1]);
        }
        tree
    }

    fn better(&self, a: Option<u32>, b: Option<u32>) -> Option<u32> {
        let (Some(x), Some(y)) = (a, b) else { return a.or(b) };
        let (x, y) = (self.keys.row(x as usize), self.keys.row(y as usize));
        let in_order = match self.which {
            Extreme::Min => y.cmp(&x),
            Extreme::Max => x.cmp(&y),
        };
        match in_order.then(a.cmp(&b)) {
            Ordering::Less => b,
            _ => a,
        }
    }

    /// The row of the best value; of several equal values, the last one, as in PostgreSQL.
    pub fn best(&self, frame: [Range<usize>; 3]) -> Option<usize> {
        let rows = self.nodes.len() / 2;
        let mut best = None;
        for range in frame {
            let (mut from, mut to) = (range.start + rows, range.end + rows);
            while from < to {
                if from % 2 == 1 {
                    best = self.better(best, self.nodes[from]);
                    from += 1;
                }
                if to % 2 == 1 {
                    to -= 1;
                    best = self.better(best, self.nodes[to]);
                }
                (from, to) = (from / 2, to / 2);
            }
        }
        best.map(|row| row as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int32Array;

    use super::*;
    use crate::base::keys::Keys;

    fn best(keys: &[Option<i32>], which: Extreme, frame: [Range<usize>; 3]) -> Option<usize> {
        let values: ArrayRef = Arc::new(Int32Array::from(keys.to_vec()));
        let keys = Keys::of_values(&values, None).unwrap();
        Tree::new(&keys, &values, which).best(frame)
    }

    #[test]
    fn of_any_range_it_finds_the_last_of_the_best() {
        let values = [Some(2), None, Some(1), Some(2), Some(1), None, Some(1)];
        for (from, to) in (0..=7).flat_map(|to| (0..=to).map(move |from| (from, to))) {
            let rows = || (from..to).filter(|row| values[*row].is_some());
            let frame = [from..to, to..to, to..to];
            assert_eq!(best(&values, Extreme::Max, frame.clone()), rows().max_by_key(|row| (values[*row], *row)));
            let least = rows().min_by_key(|row| (values[*row], usize::MAX - row));
            assert_eq!(best(&values, Extreme::Min, frame), least);
        }
        assert_eq!(best(&values, Extreme::Min, [0..1, 3..4, 5..7]), Some(6));
        assert_eq!(best(&values, Extreme::Max, [0..1, 3..4, 5..7]), Some(3));
        assert_eq!(best(&[], Extreme::Max, [0..0, 0..0, 0..0]), None);
    }
}
