//! A cache for the numbers of groups with a few short keys, so that most rows need no search.
//!
//! ```text
//!   keys of a row -> 16 bytes each -> two entries -> the same keys? -> number of their group
//!                                                         no        -> the general way
//! ```
//!
//! The view of a short text contains its bytes, so equal views are equal texts. If too few rows are found in the cache,
//! the cache is given up.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::{DataType, Schema};
use arrow_select::take::take;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::GroupValues;

/// The number of places. Each has two entries, so that two groups with many rows do not displace each other.
const PLACES: usize = 256;
/// The number of rows after which it is decided whether the cache pays.
const TRIAL_ROWS: usize = 1 << 16;

/// `general` with a cache, if keys of these types can be cached.
pub fn remembered(general: Box<dyn GroupValues>, keys: &Schema) -> Box<dyn GroupValues> {
    let is_short =
        |ty: &DataType| matches!(ty, DataType::Utf8View | DataType::Int16 | DataType::Int32 | DataType::Int64);
    match (keys.fields().iter().all(|field| is_short(field.data_type())), keys.fields().len()) {
        (true, 1) => Box::new(Remembered::<1>::new(general)),
        (true, 2) => Box::new(Remembered::<2>::new(general)),
        (true, 3) => Box::new(Remembered::<3>::new(general)),
        (true, 4) => Box::new(Remembered::<4>::new(general)),
        _ => general,
    }
}

struct Remembered<const KEYS: usize> {
    general: Box<dyn GroupValues>,
    /// The entries; empty once the cache was given up.
    entries: Vec<[Entry<KEYS>; 2]>,
    seen: usize,
    missed: usize,
    /// The rows of a batch that were not found. `found` holds their groups.
    misses: Vec<u32>,
    found: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Entry<const KEYS: usize> {
    images: [Image; KEYS],
    group: usize,
}

/// The image of a key: the view of a text, or a number. The image of a number never equals the view of a long text.
type Image = u128;

const NULL: Image = Image::MAX;
/// An image that no value has.
const NONE: Image = Image::MAX - 1;
const LONGEST_IN_PLACE: u32 = 12;

/// Whether the image is the view of a long text, whose bytes lie outside of the view.
fn is_long(image: Image) -> bool {
    image as u32 > LONGEST_IN_PLACE && image != NULL
}

impl<const KEYS: usize> Remembered<KEYS> {
    fn new(general: Box<dyn GroupValues>) -> Remembered<KEYS> {
        let entries = Self::nothing();
        Remembered { general, entries, seen: 0, missed: 0, misses: Vec::new(), found: Vec::new() }
    }

    fn nothing() -> Vec<[Entry<KEYS>; 2]> {
        vec![[Entry { images: [NONE; KEYS], group: 0 }; 2]; PLACES]
    }

    fn forget(&mut self) {
        if !self.entries.is_empty() {
            self.entries = Self::nothing();
        }
    }

    /// Whether the cache still saves more than it costs.
    fn is_worth_it(&mut self) -> bool {
        if self.seen >= TRIAL_ROWS {
            if self.missed > self.seen / 8 {
                self.entries = Vec::new();
            }
            (self.seen, self.missed) = (0, 0);
        }
        !self.entries.is_empty()
    }
}

fn place<const KEYS: usize>(images: &[Image; KEYS]) -> usize {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, image: &Image| {
        let half = |image: u128| u128::from(image as u64);
        let product = (half(u128::from(hash) ^ image) ^ (half(image >> 64) << 17)) * ODD;
        product as u64 ^ (product >> 64) as u64
    };
    (images.iter().fold(0, mix) >> 32) as usize % PLACES
}

impl<const KEYS: usize> GroupValues for Remembered<KEYS> {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if !self.is_worth_it() {
            return self.general.intern(columns, groups);
        }
        let images = columns.iter().map(images).collect::<Result<Vec<_>>>()?;
        let Ok(images) = <[Cow<'_, [Image]>; KEYS]>::try_from(images) else {
            return Err(DataFusionError::Internal("not as many keys".into()));
        };
        let images = |row: usize| -> [Image; KEYS] { std::array::from_fn(|key| images[key][row]) };
        let rows = columns[0].len();
        groups.clear();
        self.misses.clear();
        for row in 0..rows {
            let images = images(row);
            let [latest, other] = &self.entries[place(&images)];
            let entry = if latest.images == images { latest } else { other };
            if entry.images != images || images.into_iter().any(is_long) {
                self.misses.push(row as u32);
            }
            groups.push(entry.group);
        }
        (self.seen, self.missed) = (self.seen + rows, self.missed + self.misses.len());
        if self.misses.is_empty() {
            return Ok(());
        }
        let missed = UInt32Array::from(self.misses.clone());
        let missed = columns.iter().map(|column| take(column, &missed, None)).collect::<Result<Vec<_>, _>>()?;
        self.general.intern(&missed, &mut self.found)?;
        for (row, group) in self.misses.iter().zip(&self.found) {
            let (row, images) = (*row as usize, images(*row as usize));
            groups[row] = *group;
            let [latest, other] = &mut self.entries[place(&images)];
            if latest.images != images {
                *other = std::mem::replace(latest, Entry { images, group: *group });
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let own = self.misses.capacity() * size_of::<u32>() + self.found.capacity() * size_of::<usize>();
        self.general.size() + self.entries.len() * size_of::<[Entry<KEYS>; 2]>() + own
    }

    fn is_empty(&self) -> bool {
        self.general.is_empty()
    }

    fn len(&self) -> usize {
        self.general.len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.forget();
        self.general.emit(emit_to)
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.forget();
        self.general.clear_shrink(rows);
    }
}

fn images(column: &ArrayRef) -> Result<Cow<'_, [Image]>> {
    let number = |number: i64| Image::from(number as u64) << u32::BITS;
    let mut images: Cow<'_, [Image]> = match column.data_type() {
        DataType::Utf8View => Cow::Borrowed(column.as_string_view().views()),
        DataType::Int16 => column.as_primitive::<Int16Type>().values().iter().map(|v| number((*v).into())).collect(),
        DataType::Int32 => column.as_primitive::<Int32Type>().values().iter().map(|v| number((*v).into())).collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().values().iter().map(|v| number(*v)).collect(),
        other => return Err(DataFusionError::Internal(format!("{other} is no short key"))),
    };
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        let images = images.to_mut();
        (!nulls.inner()).set_indices().for_each(|row| images[row] = NULL);
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::operators::group::groups::same::Both;
    use arrow_array::{Int16Array, Int32Array, Int64Array, StringViewArray};

    fn texts(rows: usize, text: impl Fn(usize) -> Option<String>) -> ArrayRef {
        Arc::new((0..rows).map(text).collect::<StringViewArray>())
    }

    #[test]
    fn groups_are_those_of_the_general_way() {
        let short = |row: usize| Some(["", "A", "R", "12 bytes, ok", "N\0", "N"][row * 7 % 6].to_string());
        let mixed = |row: usize| (row % 5 != 3).then(|| "x".repeat(row * 11 % 17));
        let long = |row: usize| Some(format!("longer than a view {}", row % 9));
        let many = |row: usize| Some(format!("{}", row * row));
        for text in [&short as &dyn Fn(usize) -> Option<String>, &mixed, &long, &many] {
            let mut one = Both::of(&[DataType::Utf8View]);
            let mut two = Both::of(&[DataType::Utf8View, DataType::Utf8View]);
            let mut four = Both::of(&[DataType::Int64, DataType::Utf8View, DataType::Int16, DataType::Int32]);
            for batch in 0..12 {
                let rows = [8192, 1, 0, 5000][batch % 4];
                let first = texts(rows, |row| text(row + batch * 3));
                let second = texts(rows, |row| short(row / 2));
                let number = |row: usize| (row % 4 != 1).then_some(row as i64 % 3 - 1);
                let wide: ArrayRef =
                    Arc::new((0..rows).map(|row| number(row).map(|n| n << 40)).collect::<Int64Array>());
                let small: ArrayRef = Arc::new(Int16Array::from_iter_values((0..rows).map(|row| row as i16 % 2)));
                let middle: ArrayRef =
                    Arc::new((0..rows).map(|row| number(row).map(|n| n as i32)).collect::<Int32Array>());
                one.intern(std::slice::from_ref(&first));
                two.intern(&[first.clone(), second]);
                four.intern(&[wide, first, small, middle]);
                if batch == 7 {
                    one.emit(EmitTo::First(one.ours.len() / 2));
                    two.emit(EmitTo::All);
                }
            }
            for mut both in [one, two, four] {
                both.emit(EmitTo::All);
            }
        }
    }

    #[test]
    fn short_texts_have_places_of_their_own() {
        let view = |text: char| 1 | Image::from(u32::from(text)) << u32::BITS;
        let letters = || ('A'..='Z').map(view);
        let pairs = letters().flat_map(|first| letters().map(move |second| place(&[first, second])));
        let mut counts = [0; PLACES];
        pairs.for_each(|place| counts[place] += 1);
        let (most, taken) = (counts.iter().max().unwrap(), counts.iter().filter(|count| **count > 0).count());
        assert!(*most < 15 && taken > PLACES * 3 / 4, "{counts:?}");
    }

    #[test]
    fn what_is_hardly_ever_found_is_not_remembered() {
        let mut few = Both::of(&[DataType::Utf8View]);
        let mut many = Both::of(&[DataType::Utf8View]);
        for batch in 0..20 {
            few.intern(&[texts(8192, |row| Some(format!("{}", row % 30)))]);
            many.intern(&[texts(8192, |row| Some(format!("{batch}-{row}")))]);
        }
        // Only the cache makes the sizes differ.
        let entries = PLACES * size_of::<[Entry<1>; 2]>();
        assert!(few.ours.size() > entries);
        many.ours.emit(EmitTo::All).unwrap();
        many.ours.clear_shrink(0);
        assert!(many.ours.size() < few.ours.size(), "{} and {}", many.ours.size(), few.ours.size());
    }
}
