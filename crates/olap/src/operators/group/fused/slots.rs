//! The group of each row of a chunk.
//!
//! ```text
//!   codes of the keys -> slot = number of the 1st value + (how many the 1st key has) * number of the 2nd value ...
//!                     -> slots that occur -> groups
//! ```
//!
//! Groups are looked up only for the slots that occur.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take;
use colstore::fastest::{Loop, fastest};
use colstore::{Distinct, TableView};
use datafusion_common::error::Result;
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::GroupValues;

use super::loops::{self, words_of};
use crate::base::pieces::bytes_of_texts;
use crate::operators::group::groups::group_values;
use crate::operators::scan::{Selected, exhausted};

/// The greatest number of slots. With more, it does not pay to visit each slot.
const MOST_CODED: usize = 1024;
/// The greatest number of bytes of texts among the distinct values of a key in a chunk. With more, the ordinary
/// operator groups the rows, because it checks its memory.
const MOST_BYTES: usize = 1 << 20;
/// Up to this number of slots, each slot's rows are counted in a separate pass over all rows.
const FEW: usize = 16;

pub struct Slots {
    /// The view's columns by which rows are grouped.
    keys: Vec<usize>,
    groups: Option<Box<dyn GroupValues>>,
    /// The number of rows of the current chunk that are read.
    rows: usize,
    /// The slot of each row; empty if all rows have the first slot.
    of: Vec<u16>,
    /// The number of rows of each slot, followed by the number of rows that are not wanted.
    pub counts: Vec<u32>,
    /// The slots that wanted rows have, in ascending order.
    pub present: Vec<u16>,
    /// The group of each slot that is present.
    group_of: Vec<u32>,
    places: Vec<u16>,
    numbers: Vec<usize>,
}

impl Slots {
    /// `keys` are the columns of the keys in the view. The first fields of `schema` describe these keys.
    pub fn new(keys: Vec<usize>, schema: &Schema) -> Result<Slots> {
        let of_keys: SchemaRef = Arc::new(schema.project(&(0..keys.len()).collect::<Vec<_>>())?);
        let groups = if keys.is_empty() { None } else { Some(group_values(of_keys)?) };
        let (of, counts, present, group_of, places, numbers) = Default::default();
        Ok(Slots { keys, groups, rows: 0, of, counts, present, group_of, places, numbers })
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups.as_ref().map_or(1, |groups| groups.len())
    }

    pub fn group_of(&self, slot: u16) -> usize {
        self.group_of[usize::from(slot)] as usize
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn of(&self, row: usize) -> u16 {
        self.of.get(row).copied().unwrap_or(0)
    }

    /// The slots of `count` rows from `first` on; empty if all have the first slot.
    pub fn of_rows(&self, first: usize, count: usize) -> &[u16] {
        self.of.get(first..first + count).unwrap_or_default()
    }

    pub fn bytes(&self) -> usize {
        let rows = (self.of.capacity() + self.places.capacity()) * size_of::<u16>();
        let slots = (self.counts.capacity() + self.group_of.capacity()) * size_of::<u32>();
        self.groups.as_ref().map_or(0, |groups| groups.size()) + rows + slots
    }

    /// Takes the keys of all groups, and forgets the groups.
    pub fn take_keys(&mut self) -> Result<Vec<ArrayRef>> {
        match &mut self.groups {
            Some(groups) => groups.emit(EmitTo::All),
            None => Ok(Vec::new()),
        }
    }

    /// The keys of a chunk, if they have codes, and if there are not too many combinations.
    pub fn coded(&self, view: &dyn TableView, index: usize) -> Result<Option<Vec<Distinct>>> {
        let (mut coded, mut slots) = (Vec::with_capacity(self.keys.len()), 1);
        for key in &self.keys {
            let Some(distinct) = view.distinct(index, *key).map_err(exhausted)? else { return Ok(None) };
            slots *= distinct.count();
            if slots > MOST_CODED || bytes_of_texts(std::slice::from_ref(&distinct.values)) > MOST_BYTES {
                return Ok(None);
            }
            coded.push(distinct);
        }
        Ok(Some(coded))
    }

    /// Finds the slot of each row that is read, and the group of each slot.
    pub fn number(&mut self, coded: &[Distinct], selected: &Selected) -> Result<()> {
        self.rows = selected.read();
        self.of.clear();
        if self.keys.is_empty() && !matches!(selected, Selected::Masked(_)) {
            (self.counts, self.present, self.group_of) = (vec![self.rows as u32, 0], vec![0], vec![0]);
            return Ok(());
        }
        self.of.resize(self.rows, 0);
        let mut slots = 1;
        for distinct in coded {
            match slots {
                1 => distinct.places(selected.list(), &mut self.of),
                stride => {
                    self.places.resize(self.of.len(), 0);
                    distinct.places(selected.list(), &mut self.places);
                    fastest(Strides { places: &self.places, stride: stride as u16, into: &mut self.of });
                }
            }
            slots *= distinct.count();
        }
        if let Selected::Masked(mask) = selected {
            loops::replace_others(&mut self.of, &words_of(mask), slots as u16);
        }
        self.count(slots);
        self.group_of.clear();
        self.group_of.resize(slots, 0);
        let Some(groups) = &mut self.groups else { return Ok(()) };
        let (mut keys, mut stride) = (Vec::with_capacity(coded.len()), 1);
        for distinct in coded {
            let place = |slot: &u16| (*slot as usize / stride % distinct.count()) as u32;
            let places: UInt32Array = self.present.iter().map(place).collect::<Vec<_>>().into();
            keys.push(take(&distinct.values, &places, None)?);
            stride *= distinct.count();
        }
        groups.intern(&keys, &mut self.numbers)?;
        for (slot, group) in self.present.iter().zip(&self.numbers) {
            self.group_of[*slot as usize] = *group as u32;
        }
        Ok(())
    }

    /// Counts the rows of each slot.
    fn count(&mut self, slots: usize) {
        self.counts.clear();
        match slots <= FEW {
            true => {
                self.counts.extend((0..slots as u16).map(|slot| fastest(Count { slots: &self.of, slot })));
                let wanted: u32 = self.counts.iter().sum();
                self.counts.push(self.of.len() as u32 - wanted);
            }
            false => {
                self.counts.resize(slots + 1, 0);
                self.of.iter().for_each(|slot| self.counts[*slot as usize] += 1);
            }
        }
        self.present.clear();
        self.present.extend((0..slots as u16).filter(|slot| self.counts[*slot as usize] > 0));
    }

    /// Whether rows are read that are not wanted.
    pub fn has_others(&self) -> bool {
        self.counts.last().is_some_and(|others| *others > 0)
    }
}

struct Strides<'a> {
    places: &'a [u16],
    stride: u16,
    into: &'a mut [u16],
}

impl Loop for Strides<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (into, place) in self.into.iter_mut().zip(self.places) {
            *into = into.wrapping_add(place.wrapping_mul(self.stride));
        }
    }
}

struct Count<'a> {
    slots: &'a [u16],
    slot: u16,
}

impl Loop for Count<'_> {
    type Result = u32;

    #[inline(always)]
    fn run(self) -> u32 {
        // A chunk has too few rows for 16 bits to overflow.
        self.slots.iter().map(|slot| u16::from(*slot == self.slot)).fold(0, u16::wrapping_add).into()
    }
}

const _: () = assert!(colstore::CHUNK_ROWS < u16::MAX as usize);
