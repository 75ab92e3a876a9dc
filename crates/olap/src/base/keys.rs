//! Sort keys: the values by which rows are ordered, in a form that is fast to compare.
//!
//! A key is the bytes of Arrow's row format, whose order is the order of the values. A text in a locale's order has no
//! such form (`crates/locale` says why). It stands unchanged between the bytes of the values around it:
//!
//! ```text
//!  columns a, b, text in a locale, c   ->   [length] a b [length] text 0, c
//! ```
//!
//! Such keys are compared piece by piece. Equal keys always have equal bytes, since texts are equal by their bytes.

use std::cmp::Ordering;
use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use datafusion_common::arrow::row::{OwnedRow, Row, RowConverter, Rows, SortField};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_physical_expr::PhysicalExpr;
use locale::Locale;

use crate::base::pieces::are_shared_too_often;

/// A column by which rows are ordered.
#[derive(Clone, Debug)]
pub struct SortColumn {
    /// The values. Equal values must have equal bits.
    pub expr: Arc<dyn PhysicalExpr>,
    /// The locale that orders texts; `None` if they are ordered by their bytes.
    pub locale: Option<&'static Locale>,
    pub options: SortOptions,
}

impl SortColumn {
    /// A column in any order, for uses in which only the equality of values counts. Texts are compared by their bytes.
    pub fn any(expr: Arc<dyn PhysicalExpr>) -> SortColumn {
        SortColumn { expr, locale: None, options: SortOptions::default() }
    }
}

/// Makes keys of rows.
pub struct Keys {
    columns: Arc<[SortColumn]>,
    form: Form,
}

impl Keys {
    pub fn new(columns: Arc<[SortColumn]>, input: &SchemaRef) -> Result<Keys> {
        let part = |column: &SortColumn| Ok((column.expr.data_type(input)?, column.locale, column.options));
        let parts = columns.iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(Keys { form: Form::of(&parts)?, columns })
    }

    pub fn of(&self, batch: &RecordBatch) -> Result<KeyRows> {
        let evaluate = |column: &SortColumn| column.expr.evaluate(batch)?.into_array(batch.num_rows());
        let arrays = self.columns.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        self.form.keys(&arrays, batch.num_rows())
    }

    /// Keys of values in ascending order. Equal values have equal bits; texts are in a locale's order if one is named.
    pub fn of_values(values: &ArrayRef, locale: Option<&'static Locale>) -> Result<KeyRows> {
        let form = Form::of(&[(values.data_type().clone(), locale, SortOptions::default())])?;
        form.keys(std::slice::from_ref(values), values.len())
    }

    /// Keys of several columns, in which equal values have equal bits.
    pub fn of_arrays(arrays: &[ArrayRef], order: &[(Option<&'static Locale>, SortOptions)]) -> Result<KeyRows> {
        let part = |(array, (locale, options)): (&ArrayRef, &_)| (array.data_type().clone(), *locale, *options);
        let parts: Vec<_> = arrays.iter().zip(order).map(part).collect();
        Form::of(&parts)?.keys(arrays, arrays.first().map_or(0, Array::len))
    }

    pub fn gathered<'a>(&self, keys: impl ExactSizeIterator<Item = Key<'a>>) -> KeyRows {
        let mut rows = self.form.converter.empty_rows(keys.len(), 0);
        keys.for_each(|key| rows.push(key.row));
        KeyRows { rows, texts: self.form.texts() }
    }
}

/// The layout of keys.
struct Form {
    /// Converts the columns to Arrow's row format. If there are `pieces`, the bytes of keys are assembled in this
    /// module, and the converter only makes rows of them.
    converter: RowConverter,
    pieces: Option<Pieces>,
}

/// The layout of keys that contain texts in a locale's order.
struct Pieces {
    /// Converters for the pieces before the first text, between texts, and after the last text. Each comes with its
    /// number of columns.
    around: Vec<(usize, RowConverter)>,
    texts: Arc<[TextOrder]>,
}

impl Form {
    fn of(parts: &[(DataType, Option<&'static Locale>, SortOptions)]) -> Result<Form> {
        let field = |(ty, _, options): &(DataType, _, SortOptions)| SortField::new_with_options(ty.clone(), *options);
        let converter = |parts: &[_]| RowConverter::new(parts.iter().map(field).collect());
        let order = |(_, locale, options): &(DataType, Option<&'static Locale>, SortOptions)| {
            locale.map(|locale| TextOrder { locale, options: *options })
        };
        let texts: Arc<[TextOrder]> = parts.iter().filter_map(order).collect();
        if texts.is_empty() {
            return Ok(Form { converter: converter(parts)?, pieces: None });
        }
        let around = parts.split(|(_, locale, _)| locale.is_some());
        let around = around.map(|parts| Ok((parts.len(), converter(parts)?))).collect::<Result<_>>()?;
        Ok(Form { converter: converter(&[])?, pieces: Some(Pieces { around, texts }) })
    }

    fn texts(&self) -> Option<Arc<[TextOrder]>> {
        self.pieces.as_ref().map(|pieces| pieces.texts.clone())
    }

    fn keys(&self, arrays: &[ArrayRef], rows: usize) -> Result<KeyRows> {
        if rows > 1 && are_shared_too_often(arrays) {
            return Err(DataFusionError::ResourcesExhausted("keys of texts that many rows share".into()));
        }
        let rows = match &self.pieces {
            None => self.plain(arrays, rows)?,
            Some(pieces) => self.pieced(pieces, arrays, rows)?,
        };
        Ok(KeyRows { rows, texts: self.texts() })
    }

    fn plain(&self, arrays: &[ArrayRef], rows: usize) -> Result<Rows> {
        match arrays.is_empty() {
            // Without columns, all keys are equal.
            true => Ok(self.made(rows, |_, _| {})),
            false => Ok(self.converter.convert_columns(arrays)?),
        }
    }

    fn pieced(&self, pieces: &Pieces, mut arrays: &[ArrayRef], rows: usize) -> Result<Rows> {
        let (mut around, mut texts): (Vec<Option<Rows>>, Vec<&StringViewArray>) = (Vec::new(), Vec::new());
        for (columns, converter) in &pieces.around {
            let (before, rest) = arrays.split_at(*columns);
            around.push(if before.is_empty() { None } else { Some(converter.convert_columns(before)?) });
            if let Some((text, rest)) = rest.split_first() {
                texts.push(text.as_string_view());
                arrays = rest;
            }
        }
        Ok(self.made(rows, |row, key| {
            let bytes = |at: usize| around[at].as_ref().map(|rows| rows.row(row));
            for (at, text) in texts.iter().enumerate() {
                put(bytes(at).as_ref().map_or(&[][..], |row| row.as_ref()), key);
                put_text(text.is_valid(row).then(|| text.value(row)), key);
            }
            key.extend_from_slice(bytes(texts.len()).as_ref().map_or(&[][..], |row| row.as_ref()));
        }))
    }

    /// Makes the keys of `rows` rows. `write` appends the bytes of one row's key.
    fn made(&self, rows: usize, write: impl Fn(usize, &mut Vec<u8>)) -> Rows {
        let parser = self.converter.parser();
        let mut all = self.converter.empty_rows(rows, 0);
        let mut key = Vec::new();
        for row in 0..rows {
            key.clear();
            write(row, &mut key);
            all.push(parser.parse(&key));
        }
        all
    }
}

/// The keys of several rows.
pub struct KeyRows {
    rows: Rows,
    texts: Option<Arc<[TextOrder]>>,
}

impl KeyRows {
    #[inline]
    pub fn row(&self, row: usize) -> Key<'_> {
        Key { row: self.rows.row(row), texts: self.texts.as_ref() }
    }

    /// The bytes of a row's key. Equal keys have equal bytes.
    pub fn bytes(&self, row: usize) -> &[u8] {
        self.rows.row(row).data()
    }

    pub fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        self.rows.size()
    }
}

/// The key of a row. Keys made by one [`Keys`] have the order of their rows.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    row: Row<'a>,
    /// The orders of the key's texts that are compared in a locale's order.
    texts: Option<&'a Arc<[TextOrder]>>,
}

impl Key<'_> {
    pub fn owned(&self) -> OwnedKey {
        OwnedKey { row: self.row.owned(), texts: self.texts.cloned() }
    }
}

impl PartialEq for Key<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.row == other.row
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match self.texts {
            None => self.row.cmp(&other.row),
            Some(texts) => compare(texts, self.row.as_ref(), other.row.as_ref()),
        }
    }
}

/// A key that outlives its rows.
pub struct OwnedKey {
    row: OwnedRow,
    texts: Option<Arc<[TextOrder]>>,
}

impl OwnedKey {
    pub fn key(&self) -> Key<'_> {
        Key { row: self.row.row(), texts: self.texts.as_ref() }
    }
}

/// The order of one text within a key.
#[derive(Debug)]
struct TextOrder {
    locale: &'static Locale,
    options: SortOptions,
}

impl TextOrder {
    fn compare(&self, left: Option<&CStr>, right: Option<&CStr>) -> Ordering {
        let SortOptions { descending, nulls_first } = self.options;
        match (left, right) {
            (Some(left), Some(right)) if descending => self.locale.compare_terminated(right, left),
            (Some(left), Some(right)) => self.locale.compare_terminated(left, right),
            (None, None) => Ordering::Equal,
            (None, Some(_)) if nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
        }
    }
}

/// Compares keys that contain texts in locales' orders.
#[inline(never)]
fn compare(texts: &[TextOrder], mut left: &[u8], mut right: &[u8]) -> Ordering {
    for order in texts {
        let (l, r) = (take(&mut left), take(&mut right));
        match l.cmp(r).then_with(|| order.compare(take_text(&mut left), take_text(&mut right))) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    left.cmp(right)
}

const LENGTH: usize = size_of::<u32>();

/// Appends bytes after their length.
fn put(bytes: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    key.extend_from_slice(bytes);
}

fn take<'a>(key: &mut &'a [u8]) -> &'a [u8] {
    let (length, rest) = key.split_at(LENGTH);
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (bytes, rest) = rest.split_at(length);
    *key = rest;
    bytes
}

/// Appends the length of a text and the text as a C string. A null is an empty string without the final zero.
fn put_text(text: Option<&str>, key: &mut Vec<u8>) {
    let Some(text) = text else { return put(&[], key) };
    key.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
    key.push(0);
}

fn take_text<'a>(key: &mut &'a [u8]) -> Option<&'a CStr> {
    CStr::from_bytes_until_nul(take(key)).ok()
}
