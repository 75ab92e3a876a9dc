//! Partitions, peers and frames of sorted rows.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use datafusion_common::error::Result;
use plan::{Bound, Exclude, Frame, Unit};

use crate::base::keys::{KeyRows, Keys, OwnedKey};

/// For each row, the first row of its frame and the row after the frame's end, as far as a range of values determines
/// these edges.
#[derive(Default)]
pub struct Edges {
    pub starts: Vec<usize>,
    pub ends: Vec<usize>,
}

/// The rows of a batch of sorted rows that begin a partition, or a group of peers.
#[derive(Clone)]
pub struct Starts {
    pub partitions: BooleanBuffer,
    pub groups: BooleanBuffer,
}

impl Starts {
    pub fn slice(&self, start: usize, rows: usize) -> Starts {
        Starts { partitions: self.partitions.slice(start, rows), groups: self.groups.slice(start, rows) }
    }
}

/// Finds [`Starts`] batch by batch, so that the keys of only one batch are in memory.
pub struct Borders {
    partition: Keys,
    order: Keys,
    /// The partition key and the order key of the last row.
    last: Option<(OwnedKey, OwnedKey)>,
}

impl Borders {
    pub fn new(partition: Keys, order: Keys) -> Borders {
        Borders { partition, order, last: None }
    }

    /// Finds the starts in the next batch.
    pub fn of(&mut self, batch: &RecordBatch) -> Result<Starts> {
        let (keys, places) = (self.partition.of(batch)?, self.order.of(batch)?);
        let differ = |keys: &KeyRows, at: usize, last: Option<&OwnedKey>| match (at.checked_sub(1), last) {
            (Some(before), _) => keys.row(at) != keys.row(before),
            (None, Some(last)) => keys.row(at) != last.key(),
            (None, None) => true,
        };
        let rows = batch.num_rows();
        let last = self.last.as_ref();
        let partitions = BooleanBuffer::collect_bool(rows, |at| differ(&keys, at, last.map(|(key, _)| key)));
        let is_first = |at: usize| partitions.value(at) || differ(&places, at, last.map(|(_, place)| place));
        let groups = BooleanBuffer::collect_bool(rows, is_first);
        if let Some(end) = rows.checked_sub(1) {
            self.last = Some((keys.row(end).owned(), places.row(end).owned()));
        }
        Ok(Starts { partitions, groups })
    }
}

/// The partitions and groups of peers of some rows. All partitions are complete.
pub struct Layout {
    /// The first rows of partitions, followed by the number of all rows. `groups` is the same for groups of peers.
    partitions: Vec<usize>,
    groups: Vec<usize>,
    /// The number of each row's partition. `group` is the same for groups of peers.
    partition: Vec<u32>,
    group: Vec<u32>,
}

impl Layout {
    /// The layout of the rows that `starts` describes. The first row begins a partition.
    pub fn new(starts: &[Starts]) -> Layout {
        let count = |of: fn(&Starts) -> &BooleanBuffer| starts.iter().map(|some| of(some).count_set_bits()).sum();
        let rows = starts.iter().map(|some| some.groups.len()).sum();
        let [partitions, groups]: [usize; 2] = [count(|some| &some.partitions), count(|some| &some.groups)];
        let mut layout = Layout {
            partitions: Vec::with_capacity(partitions + 1),
            groups: Vec::with_capacity(groups + 1),
            partition: Vec::with_capacity(rows),
            group: Vec::with_capacity(rows),
        };
        for some in starts {
            for (partition, group) in some.partitions.iter().zip(&some.groups) {
                if partition {
                    layout.partitions.push(layout.rows());
                }
                if group {
                    layout.groups.push(layout.rows());
                }
                layout.partition.push(layout.partitions.len() as u32 - 1);
                layout.group.push(layout.groups.len() as u32 - 1);
            }
        }
        layout.partitions.push(rows);
        layout.groups.push(rows);
        layout
    }

    /// The greatest memory of a layout of this many rows, in bytes.
    pub fn bytes(rows: usize) -> usize {
        2 * (rows + 1) * (size_of::<usize>() + size_of::<u32>())
    }

    pub fn rows(&self) -> usize {
        self.partition.len()
    }

    /// The rows of a row's partition.
    pub fn partition(&self, row: usize) -> Range<usize> {
        let at = self.partition[row] as usize;
        self.partitions[at]..self.partitions[at + 1]
    }

    pub fn peers(&self, row: usize) -> Range<usize> {
        self.group(self.group[row] as usize)
    }

    /// The number of a row's group of peers within its partition, from 0.
    pub fn group_in_partition(&self, row: usize) -> usize {
        (self.group[row] - self.group[self.partition(row).start]) as usize
    }

    fn group(&self, number: usize) -> Range<usize> {
        self.groups[number]..self.groups[number + 1]
    }

    pub fn partitions(&self) -> impl Iterator<Item = Range<usize>> {
        self.partitions.windows(2).map(|ends| ends[0]..ends[1])
    }

    /// The rows of a row's frame: up to three ranges, some of which may be empty. `edges` holds the edges of frames
    /// over a range of values.
    pub fn frame(&self, frame: &Frame, edges: &Edges, row: usize) -> [Range<usize>; 3] {
        let whole = self.partition(row);
        let (start, end) = match frame.unit {
            Unit::Rows => {
                let back = |n: u64| row.saturating_sub(size(n)).max(whole.start);
                let forth = |n: u64| row.saturating_add(size(n)).min(whole.end);
                let start = match frame.start {
                    Bound::Unbounded | Bound::Edge => whole.start,
                    Bound::Preceding(n) => back(n),
                    Bound::Current => row,
                    Bound::Following(n) => forth(n),
                };
                let end = match frame.end {
                    Bound::Unbounded | Bound::Edge => whole.end,
                    Bound::Preceding(n) if size(n) > row - whole.start => whole.start,
                    Bound::Preceding(n) => row - size(n) + 1,
                    Bound::Current => row + 1,
                    Bound::Following(n) => forth(n.saturating_add(1)),
                };
                (start, end)
            }
            Unit::Groups => {
                let own = self.group[row] as usize;
                let (first, last) = (self.group[whole.start] as usize, self.group[whole.end - 1] as usize);
                let start = match frame.start {
                    Bound::Unbounded | Bound::Edge => whole.start,
                    Bound::Preceding(n) => self.group(own.saturating_sub(size(n)).max(first)).start,
                    Bound::Current => self.group(own).start,
                    Bound::Following(n) if size(n) > last - own => whole.end,
                    Bound::Following(n) => self.group(own + size(n)).start,
                };
                let end = match frame.end {
                    Bound::Unbounded | Bound::Edge => whole.end,
                    Bound::Preceding(n) if size(n) > own - first => whole.start,
                    Bound::Preceding(n) => self.group(own - size(n)).end,
                    Bound::Current => self.group(own).end,
                    Bound::Following(n) => self.group(own.saturating_add(size(n)).min(last)).end,
                };
                (start, end)
            }
            Unit::Values => {
                let start = match frame.start {
                    Bound::Edge => edges.starts[row],
                    Bound::Current => self.peers(row).start,
                    Bound::Unbounded | Bound::Preceding(_) | Bound::Following(_) => whole.start,
                };
                let end = match frame.end {
                    Bound::Edge => edges.ends[row],
                    Bound::Current => self.peers(row).end,
                    Bound::Unbounded | Bound::Preceding(_) | Bound::Following(_) => whole.end,
                };
                (start, end)
            }
        };
        let end = end.max(start);
        let peers = self.peers(row);
        let without = |left_out: Range<usize>, middle: Range<usize>| {
            let before = start..left_out.start.clamp(start, end);
            let behind = left_out.end.clamp(start, end)..end;
            [before, middle.start.clamp(start, end)..middle.end.clamp(start, end), behind]
        };
        match frame.exclude {
            Exclude::Nothing => [start..end, end..end, end..end],
            Exclude::Current => without(row..row + 1, row..row),
            Exclude::Group => without(peers, row..row),
            Exclude::Ties => without(peers, row..row + 1),
        }
    }
}

fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
