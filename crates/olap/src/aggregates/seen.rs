//! The values that aggregates with DISTINCT have met, in little memory.
//!
//! When a hash table grows, the old table and one of twice its size exist at the same time. So once a table is nearly
//! full, its reported memory includes the larger table. A query then fails at its memory limit before the larger table
//! is allocated, not afterwards.

use std::hash::BuildHasher;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use colstore::CHUNK_ROWS;
use datafusion_common::error::Result;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use crate::aggregates::sum::Summand;
use crate::base::operand::for_number;
use crate::functions::numbers::floats::canonical;

/// A value of up to 64 bits, as two halves of 32 bits. A pair of a group's number and this value needs no padding; a
/// pair with a `u64` would.
type Short = [u32; 2];
type Long = [u32; 4];

/// Bytes of the smallest and of the largest block of texts.
const BLOCKS: [usize; 2] = [1 << 10, 1 << 20];

/// The values of each group so far.
#[derive(Debug, Default)]
pub struct Seen {
    values: Values,
    /// The greatest memory that was reported.
    bytes: usize,
}

#[derive(Debug, Default)]
enum Values {
    #[default]
    None,
    /// Integers, truth values, and the bits of canonical floats.
    Short(HashSet<Short>),
    ShortOfGroups(HashSet<(u32, Short)>),
    Long(HashSet<Long>),
    LongOfGroups(HashSet<(u32, Long)>),
    Texts(Texts),
}

impl Seen {
    /// Calls `tell` for each row, with whether its value is new to its group. A row for which `rows` is false counts as
    /// not new. Without `groups`, all rows form one group.
    pub fn first(
        &mut self,
        array: &ArrayRef,
        groups: Option<&[usize]>,
        rows: impl Fn(usize) -> bool,
        mut tell: impl FnMut(bool),
    ) -> Result<()> {
        if matches!(self.values, Values::None) {
            self.values = Values::of(array.data_type(), groups.is_some());
        }
        let group = |row: usize| groups.map_or(0, |groups| groups[row] as u32);
        let mut each = |is_new: &mut dyn FnMut(usize) -> bool| {
            (0..array.len()).for_each(|row| tell(rows(row) && is_new(row)));
        };
        match &mut self.values {
            Values::None => {}
            Values::Short(seen) => {
                let values = short(array)?;
                each(&mut |row| seen.insert(values[row]));
            }
            Values::ShortOfGroups(seen) => {
                let values = short(array)?;
                each(&mut |row| seen.insert((group(row), values[row])));
            }
            Values::Long(seen) => {
                let values = array.as_primitive::<Decimal128Type>();
                each(&mut |row| seen.insert(parts(values.value(row))));
            }
            Values::LongOfGroups(seen) => {
                let values = array.as_primitive::<Decimal128Type>();
                each(&mut |row| seen.insert((group(row), parts(values.value(row)))));
            }
            Values::Texts(seen) => match array.as_string_view_opt() {
                Some(texts) => each(&mut |row| seen.insert(group(row), texts.value(row).as_bytes())),
                None => {
                    let values = array.as_binary_view();
                    each(&mut |row| seen.insert(group(row), values.value(row)));
                }
            },
        }
        self.bytes = self.bytes.max(self.values.bytes());
        Ok(())
    }

    /// The memory that the values take, or may take with the next rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Values {
    fn of(ty: &DataType, grouped: bool) -> Values {
        match (ty, grouped) {
            (DataType::Utf8View | DataType::BinaryView, _) => Values::Texts(Texts::default()),
            (DataType::Decimal128(..), false) => Values::Long(HashSet::new()),
            (DataType::Decimal128(..), true) => Values::LongOfGroups(HashSet::new()),
            (_, false) => Values::Short(HashSet::new()),
            (_, true) => Values::ShortOfGroups(HashSet::new()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Values::None => 0,
            Values::Short(seen) => with_the_next(seen.len(), seen.capacity(), seen.allocation_size()),
            Values::ShortOfGroups(seen) => with_the_next(seen.len(), seen.capacity(), seen.allocation_size()),
            Values::Long(seen) => with_the_next(seen.len(), seen.capacity(), seen.allocation_size()),
            Values::LongOfGroups(seen) => with_the_next(seen.len(), seen.capacity(), seen.allocation_size()),
            Values::Texts(texts) => {
                let seen = &texts.seen;
                texts.bytes + with_the_next(seen.len(), seen.capacity(), seen.allocation_size())
            }
        }
    }
}

/// The bytes of a hash table with `values` entries. If one of the next two batches may fill the table, this includes
/// the table of twice the size that would replace it.
fn with_the_next(values: usize, capacity: usize, bytes: usize) -> usize {
    if values + 2 * CHUNK_ROWS > capacity { 3 * bytes } else { bytes }
}

fn short(array: &ArrayRef) -> Result<Vec<Short>> {
    let halves = |bits: u64| [bits as u32, (bits >> 32) as u32];
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(|bit| halves(bit.into())).collect(),
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>().values();
            floats.iter().map(|&float| halves(canonical(float).to_bits())).collect()
        }
        number => for_number!(number, T => {
            let numbers = array.as_primitive::<T>().values();
            Ok(numbers.iter().map(|&number| halves(<T as Summand>::widen(number) as u64)).collect())
        })?,
    })
}

fn parts(number: i128) -> Long {
    [0, 32, 64, 96].map(|shift| (number >> shift) as u32)
}

/// Texts or byte strings, one behind the other in blocks.
#[derive(Debug, Default)]
struct Texts {
    seen: HashTable<Text>,
    blocks: Vec<Vec<u8>>,
    /// The bytes of the blocks.
    bytes: usize,
    hasher: DefaultHashBuilder,
}

/// The place of a group's text in the blocks.
#[derive(Debug)]
struct Text {
    group: u32,
    block: u32,
    start: u32,
    length: u32,
}

impl Texts {
    /// Adds a text, and returns whether it is new to its group.
    fn insert(&mut self, group: u32, text: &[u8]) -> bool {
        let Texts { seen, blocks, bytes, hasher } = self;
        let hash = |group: u32, text: &[u8]| hasher.hash_one((group, text));
        let own = hash(group, text);
        if seen.find(own, |other| other.group == group && other.of(blocks) == text).is_some() {
            return false;
        }
        if blocks.last().is_none_or(|block| block.capacity() - block.len() < text.len()) {
            let next = blocks.last().map_or(0, |block| 2 * block.capacity()).clamp(BLOCKS[0], BLOCKS[1]);
            let block = Vec::with_capacity(next.max(text.len()));
            *bytes += block.capacity();
            blocks.push(block);
        }
        let at = blocks.len() - 1;
        let start = blocks[at].len() as u32;
        blocks[at].extend_from_slice(text);
        let new = Text { group, block: at as u32, start, length: text.len() as u32 };
        seen.insert_unique(own, new, |other| hash(other.group, other.of(blocks)));
        true
    }
}

impl Text {
    fn of<'a>(&self, blocks: &'a [Vec<u8>]) -> &'a [u8] {
        &blocks[self.block as usize][self.start as usize..][..self.length as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Int64Array, StringViewArray};

    use super::*;

    /// Numbered batches of values, some of which occur several times.
    fn batches(make: fn(i64) -> ArrayRef) -> impl Iterator<Item = (i64, ArrayRef)> {
        (0..60).map(move |at| (at, make(at)))
    }

    fn values(at: i64) -> impl Iterator<Item = i64> {
        (0..4000).map(move |row| (at * 4000 + row) * 7 % 90_001 - 45_000)
    }

    fn text(value: i64) -> String {
        format!("{value}{}", "é".repeat(value.unsigned_abs() as usize % 30))
    }

    #[test]
    fn each_value_of_a_group_is_new_once() {
        let kinds: [fn(i64) -> ArrayRef; 3] = [
            |at| Arc::new(Int64Array::from_iter_values(values(at))),
            |at| Arc::new(Decimal128Array::from_iter_values(values(at).map(|value| i128::from(value) << 50))),
            |at| Arc::new(StringViewArray::from_iter_values(values(at).map(text))),
        ];
        for (kind, grouped) in (0..kinds.len()).flat_map(|kind| [(kind, false), (kind, true)]) {
            let (mut seen, mut expected) = (Seen::default(), HashSet::new());
            for (at, array) in batches(kinds[kind]) {
                let groups: Vec<usize> = (0..4000).map(|row| if grouped { row % 3 } else { 0 }).collect();
                let mut told = Vec::new();
                let groups_of_rows = grouped.then_some(&groups[..]);
                seen.first(&array, groups_of_rows, |row| row % 11 != 0, |new| told.push(new)).unwrap();
                let is_new = |(row, value)| row % 11 != 0 && expected.insert((groups[row], value));
                let new: Vec<bool> = values(at).enumerate().map(is_new).collect();
                assert!(told == new, "{kind} {grouped} {at}");
            }
        }
    }

    /// The memory that is reported after a batch suffices even if the table grows with the next batch.
    #[test]
    fn memory_is_told_of_before_it_is_taken() {
        let (mut seen, mut told, mut larger) = (Seen::default(), usize::MAX, 0);
        for at in 0..200 {
            let array: ArrayRef = Arc::new(Int64Array::from_iter_values(at * 8000..(at + 1) * 8000));
            let bytes = |seen: &Seen| match &seen.values {
                Values::Short(seen) => seen.allocation_size(),
                _ => 0,
            };
            let before = bytes(&seen);
            seen.first(&array, None, |_| true, |_| ()).unwrap();
            if at > 0 && bytes(&seen) > before {
                larger += 1;
                assert!(told >= before + bytes(&seen), "{at}: {told} told, {before} and {}", bytes(&seen));
            }
            told = seen.bytes();
        }
        assert!(larger > 3);
        // Each value has eight bytes. The table may take five times as many.
        assert!(told < 200 * 8000 * 40, "{told}");
    }
}
