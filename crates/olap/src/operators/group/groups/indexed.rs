//! Numbers groups by one integer key. The key itself is the index, as long as the keys are close together.
//!
//! ```text
//!   key -> page, key / 1024 -> entry, key % 1024 -> number of its group
//! ```
//!
//! Pages exist only where there are keys. If pages take far more memory than the keys need, groups are looked up by
//! hash from then on.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;

/// The index for a key of this type, if it is an integer.
pub fn indexed(keys: &SchemaRef) -> Option<Box<dyn GroupValues>> {
    Some(match keys.fields().iter().map(|field| field.data_type()).collect::<Vec<_>>()[..] {
        [DataType::Int16] => Box::new(Indexed::<Int16Type>::new(keys.clone())),
        [DataType::Int32] => Box::new(Indexed::<Int32Type>::new(keys.clone())),
        [DataType::Int64] => Box::new(Indexed::<Int64Type>::new(keys.clone())),
        _ => return None,
    })
}

struct Indexed<T: ArrowPrimitiveType> {
    schema: SchemaRef,
    /// The keys in the order of the groups. The key null has an arbitrary value here.
    keys: Vec<T::Native>,
    null_group: Option<usize>,
    pages: Pages,
    /// The groups by hash, once the keys are too far apart for pages.
    hashed: Option<Box<dyn GroupValues>>,
}

impl<T: ArrowPrimitiveType<Native: Into<i64>>> Indexed<T> {
    fn new(schema: SchemaRef) -> Indexed<T> {
        Indexed { schema, keys: Vec::new(), null_group: None, pages: Pages::default(), hashed: None }
    }

    /// Numbers groups in the order of their first rows. `false` if the keys are too far apart; some rows have no number
    /// then.
    fn number(&mut self, keys: &PrimitiveArray<T>, groups: &mut Vec<usize>) -> bool {
        groups.reserve(keys.len());
        let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, key) in keys.values().iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                groups.push(*self.null_group.get_or_insert_with(|| {
                    self.keys.push(*key);
                    self.keys.len() - 1
                }));
                continue;
            }
            let entry = match self.pages.entry((*key).into()) {
                Some(entry) => entry,
                None => match self.pages.new_entry((*key).into(), self.keys.len()) {
                    Some(entry) => entry,
                    None => return false,
                },
            };
            if *entry == 0 {
                self.keys.push(*key);
                *entry = self.keys.len() as u32;
            }
            groups.push(*entry as usize - 1);
        }
        true
    }

    /// Looks groups up by hash from now on. The groups keep their numbers.
    fn hash(&mut self) -> Result<&mut Box<dyn GroupValues>> {
        let mut hashed = new_group_values(self.schema.clone(), &GroupOrdering::None)?;
        let (count, mut numbers) = (self.keys.len(), Vec::new());
        let keys = self.take(count);
        self.clear();
        hashed.intern(&[keys], &mut numbers)?;
        if !numbers.into_iter().eq(0..count) {
            return Err(DataFusionError::Internal("groups have got other numbers".into()));
        }
        Ok(self.hashed.insert(hashed))
    }

    /// Removes the first keys, and returns them as an array.
    fn take(&mut self, count: usize) -> ArrayRef {
        let rest = self.keys.split_off(count);
        let keys = std::mem::replace(&mut self.keys, rest);
        let null = self.null_group.filter(|null| *null < count);
        let nulls = null.map(|null| NullBuffer::new(BooleanBuffer::collect_bool(count, |group| group != null)));
        self.null_group = self.null_group.and_then(|null| null.checked_sub(count));
        Arc::new(PrimitiveArray::<T>::new(keys.into(), nulls))
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.null_group = None;
        self.pages = Pages::default();
    }
}

impl<T: ArrowPrimitiveType<Native: Into<i64>>> GroupValues for Indexed<T> {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if let Some(hashed) = &mut self.hashed {
            return hashed.intern(columns, groups);
        }
        groups.clear();
        match self.number(columns[0].as_primitive(), groups) {
            true => Ok(()),
            false => self.hash()?.intern(columns, groups),
        }
    }

    fn size(&self) -> usize {
        match &self.hashed {
            Some(hashed) => hashed.size(),
            None => self.keys.capacity() * size_of::<T::Native>() + self.pages.bytes(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.hashed.as_ref().map_or(self.keys.len(), |hashed| hashed.len())
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        if let Some(hashed) = &mut self.hashed {
            return hashed.emit(emit_to);
        }
        let count = match emit_to {
            EmitTo::All => self.keys.len(),
            EmitTo::First(count) => count,
        };
        let emitted = self.take(count);
        // The remaining groups have new numbers now.
        let (rest, null) = (std::mem::take(&mut self.keys), self.null_group);
        self.clear();
        let nulls = null.map(|null| NullBuffer::new(BooleanBuffer::collect_bool(rest.len(), |group| group != null)));
        self.intern(&[Arc::new(PrimitiveArray::<T>::new(rest.into(), nulls))], &mut Vec::new())?;
        Ok(vec![emitted])
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.clear();
        self.keys.shrink_to(rows);
        self.hashed = None;
    }
}

const PAGE_BITS: u32 = 10;
const PAGE: usize = 1 << PAGE_BITS;
/// Pages may always have this many bytes in total.
const FEW_BYTES: usize = 1 << 20;
/// Pages may have at most this many bytes per group. A hash table would take about as many.
const BYTES_A_GROUP: usize = 64;

/// For each integer, its group's number plus one, or 0 if it has no group.
#[derive(Default)]
struct Pages {
    /// The number of the first page in the directory.
    first: i64,
    /// For each page, its position in `entries`, counted in pages from 1; 0 if the page does not exist.
    directory: Vec<u32>,
    /// The entries of all pages, page by page.
    entries: Vec<u32>,
}

impl Pages {
    #[inline]
    fn entry(&mut self, key: i64) -> Option<&mut u32> {
        let page = *self.directory.get(((key >> PAGE_BITS) - self.first) as usize)?;
        self.entries.get_mut((page as usize).checked_sub(1)? * PAGE + key as usize % PAGE)
    }

    /// An entry on a new page. Returns `None` if the page would take too much memory for so few groups.
    #[cold]
    fn new_entry(&mut self, key: i64, groups: usize) -> Option<&mut u32> {
        let most = FEW_BYTES + groups * BYTES_A_GROUP;
        if self.bytes() + size_of::<[u32; PAGE]>() > most || groups > u32::MAX as usize - PAGE {
            return None;
        }
        self.make_room(key >> PAGE_BITS, most - self.bytes())?;
        self.entries.resize(self.entries.len() + PAGE, 0);
        self.directory[((key >> PAGE_BITS) - self.first) as usize] = (self.entries.len() / PAGE) as u32;
        self.entry(key)
    }

    /// Widens the directory up to this page; at least to twice its size, so that this happens rarely.
    fn make_room(&mut self, page: i64, bytes: usize) -> Option<()> {
        let known = self.directory.len();
        if known == 0 {
            self.first = page;
        }
        let (below, above) = match page < self.first {
            true => (page.abs_diff(self.first) as usize, 0),
            false => (0, (page.abs_diff(self.first) as usize + 1).saturating_sub(known)),
        };
        let most = bytes / size_of::<u32>();
        if below + above > most {
            return None;
        }
        let amply = |pages: usize| if pages == 0 { 0 } else { pages.max(known.min(most)) };
        // The directory need not reach below the page of the least integer.
        let below = amply(below).min(self.first.abs_diff(i64::MIN >> PAGE_BITS) as usize);
        self.first -= below as i64;
        self.directory.splice(0..0, std::iter::repeat_n(0, below));
        self.directory.resize(known + below + amply(above), 0);
        Some(())
    }

    fn bytes(&self) -> usize {
        (self.directory.len() + self.entries.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::group::groups::same::Both;
    use arrow_array::{Int16Array, Int32Array, Int64Array};

    fn array(keys: impl IntoIterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(keys))
    }

    fn wild(count: i64) -> impl Iterator<Item = i64> {
        (0..count).map(|key| (key % 1000).wrapping_mul(0x1234_5678_9abc_def1))
    }

    #[test]
    fn groups_are_those_by_hash() {
        let extremes = [i64::MIN, i64::MAX, 0, -1, 1, i64::MIN + 1, i64::MAX - 1, i64::MIN];
        let batches: [Vec<ArrayRef>; 6] = [
            vec![array([]), array(0..5000), array(4000..9000), array((-3000..100).rev())],
            vec![array(extremes), array(extremes)],
            vec![array([i64::MIN]), array([i64::MIN + 5000, i64::MIN]), array(extremes)],
            vec![array([i64::MAX]), array([i64::MAX - 5000, i64::MAX])],
            vec![array(0..9000), array(wild(5000)), array(-9000..0), array(wild(5000))],
            vec![array((0..200_000).map(|key| key * 7 % 60_000)), array((0..100_000).map(|key| key * 100))],
        ];
        for batches in batches {
            let mut both = Both::of(&[DataType::Int64]);
            batches.into_iter().for_each(|keys| both.intern(&[keys]));
            both.emit(EmitTo::All);
            both.intern(&[array(5..10)]);
        }
    }

    #[test]
    fn null_is_a_group_of_its_own() {
        let with = |keys: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(keys)) };
        for others in [vec![array(0..100)], vec![array(wild(5000)), array(0..100)]] {
            let mut both = Both::of(&[DataType::Int64]);
            both.intern(&[with(vec![Some(3), None, Some(0), None])]);
            others.into_iter().for_each(|keys| both.intern(&[keys]));
            both.intern(&[with(vec![None, Some(-1)])]);
            both.emit(EmitTo::All);
            both.intern(&[with(vec![Some(0), None])]);
            both.emit(EmitTo::All);
        }
    }

    #[test]
    fn keys_of_every_width_are_found() {
        let mut both = Both::of(&[DataType::Int16]);
        both.intern(&[Arc::new(Int16Array::from(vec![i16::MIN, 0, i16::MAX, 0]))]);
        both.emit(EmitTo::All);
        let mut both = Both::of(&[DataType::Int32]);
        both.intern(&[Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX), Some(0), Some(i32::MIN)]))]);
        both.emit(EmitTo::All);
    }

    #[test]
    fn the_first_groups_can_be_given_alone() {
        let with_null: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(9), Some(7)]));
        for count in [0, 1, 2, 4] {
            let mut both = Both::of(&[DataType::Int64]);
            both.intern(std::slice::from_ref(&with_null));
            both.emit(EmitTo::First(count));
            both.intern(std::slice::from_ref(&with_null));
            both.intern(&[array([8, 5])]);
            both.emit(EmitTo::All);
        }
    }

    #[test]
    fn pages_are_counted_and_given_back() {
        let mut groups = Both::of(&[DataType::Int64]).ours;
        let empty = groups.size();
        groups.intern(&[array(0..1_000_000)], &mut Vec::new()).unwrap();
        assert!((12_000_000..32_000_000).contains(&groups.size()), "{}", groups.size());
        groups.clear_shrink(0);
        assert!(groups.is_empty() && groups.size() == empty);
        // Pages never take much more memory than a table of hashes.
        groups.intern(&[array((0..10_000).map(|key| key << 20))], &mut Vec::new()).unwrap();
        assert!(groups.size() < FEW_BYTES, "{}", groups.size());
    }
}
