//! PostgreSQL's order of values: -0 = 0, NaN is the greatest float, and text is ordered by its bytes or by a locale.

use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use locale::{Locale, Scratch};
use plan::catalogue::Extreme;

use crate::functions::numbers::floats::canonical;

/// Whether a new value replaces the least or greatest value so far.
pub fn replaces<V: Ordered + ?Sized>(which: Extreme, new: &V, old: &V) -> bool {
    match which {
        Extreme::Min => new.before(old),
        Extreme::Max => old.before(new),
    }
}

/// The order of texts: by their bytes, or by a locale.
#[derive(Debug, Default)]
pub struct TextOrder {
    locale: Option<&'static Locale>,
    scratch: Scratch,
}

impl TextOrder {
    pub fn of(locale: Option<&'static Locale>) -> TextOrder {
        TextOrder { locale, ..TextOrder::default() }
    }

    pub fn replaces<T: Texts>(&mut self, which: Extreme, new: &T::Native, old: &T::Native) -> bool {
        let Some(locale) = self.locale else { return replaces(which, new, old) };
        let (new, old) = (T::text(new), T::text(old));
        match which {
            Extreme::Min => locale.compare(new, old, &mut self.scratch).is_lt(),
            Extreme::Max => locale.compare(new, old, &mut self.scratch).is_gt(),
        }
    }
}

/// Values in PostgreSQL's order.
pub trait Ordered {
    fn before(&self, other: &Self) -> bool;
}

macro_rules! naturally_ordered {
    ($($ty:ty),*) => {
        $(impl Ordered for $ty {
            fn before(&self, other: &Self) -> bool {
                self < other
            }
        })*
    };
}
naturally_ordered!(i16, i32, i64, i128, str, [u8]);

impl Ordered for f64 {
    fn before(&self, other: &Self) -> bool {
        canonical(*self).total_cmp(&canonical(*other)).is_lt()
    }
}

/// Texts, or byte strings.
pub trait Texts: ByteViewType<Native: Ordered + ToOwned<Owned = <Self as ByteViewType>::Owned>> {
    fn bytes(owned: &Self::Owned) -> usize;
    /// The text that a locale orders; empty if the value is no text.
    fn text(value: &Self::Native) -> &str;
}

impl Texts for StringViewType {
    fn text(value: &str) -> &str {
        value
    }

    fn bytes(owned: &String) -> usize {
        owned.len()
    }
}

impl Texts for BinaryViewType {
    fn text(_: &[u8]) -> &str {
        ""
    }

    fn bytes(owned: &Vec<u8>) -> usize {
        owned.len()
    }
}
