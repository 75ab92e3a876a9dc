//! Rows stored column by column, with the group of each row.

use std::mem::size_of;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::NullBuffer;
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use datafusion_common::error::{DataFusionError, Result};

use crate::base::compact::owned;

/// Rows in the order of their arrival.
#[derive(Default)]
pub struct Rows {
    /// The arrays of each column, in the order of the rows.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    groups: Vec<u32>,
    /// The bytes of the arrays.
    bytes: usize,
}

/// All rows, divided by group.
pub struct Grouped {
    pub columns: Vec<ArrayRef>,
    /// The rows sorted by group, and within a group by arrival.
    rows: Vec<u32>,
    /// For each group, the end of its rows in `rows`.
    ends: Vec<u32>,
}

fn too_many() -> DataFusionError {
    DataFusionError::ResourcesExhausted("too many rows for one list".into())
}

impl Rows {
    /// Adds rows of `arrays`: those that `included` contains, or all of them if it is `None`. `group` returns the group
    /// of a row.
    pub fn add(
        &mut self,
        arrays: &[ArrayRef],
        included: Option<NullBuffer>,
        group: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let count = arrays[0].len();
        u32::try_from(self.groups.len() + count).map_err(|_| too_many())?;
        self.columns.resize_with(arrays.len(), Vec::new);
        let some = included.as_ref().map(|included| BooleanArray::new(included.inner().clone(), None));
        for (kept, array) in self.columns.iter_mut().zip(arrays) {
            let array = owned(match &some {
                Some(some) => filter(array, some)?,
                None => array.clone(),
            });
            self.bytes += array.to_data().get_slice_memory_size()?;
            kept.push(array);
        }
        match &included {
            None => self.groups.extend((0..count).map(|row| group(row) as u32)),
            Some(included) => self.groups.extend(included.valid_indices().map(|row| group(row) as u32)),
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// The memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<u32>()
    }

    /// The rows divided into `groups` groups.
    pub fn by_group(self, groups: usize) -> Result<Grouped> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for arrays in self.columns {
            columns.push(match &arrays[..] {
                [only] => only.clone(),
                arrays => concat(&arrays.iter().map(|array| array as &dyn Array).collect::<Vec<_>>())?,
            });
        }
        // While rows are distributed, `ends` holds the position at which the next row of each group is put.
        let mut ends = vec![0; groups];
        self.groups.iter().for_each(|group| ends[*group as usize] += 1);
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let mut rows = vec![0; self.groups.len()];
        for (row, group) in (0..).zip(&self.groups) {
            let place = &mut ends[*group as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Ok(Grouped { columns, rows, ends })
    }
}

impl Grouped {
    /// Calls `visit` with the rows of each group, one group after the other.
    pub fn each(&mut self, mut visit: impl FnMut(&[ArrayRef], &mut [u32]) -> Result<()>) -> Result<()> {
        let mut rest = &mut self.rows[..];
        let mut start = 0;
        for end in &self.ends {
            let (own, others) = rest.split_at_mut((end - start) as usize);
            visit(&self.columns, own)?;
            (rest, start) = (others, *end);
        }
        Ok(())
    }

    pub fn groups(&self) -> usize {
        self.ends.len()
    }
}
