//! Join keys as words of 64 bits.
//!
//! ```text
//!   integers whose ranges on the build side fit together into a word
//!
//!        (a - least a) + (b - least b) * span of a + ...      only equal keys have equal words
//!
//!   all other keys: a hash                                   different keys may have equal words: keys are compared
//! ```

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use datafusion_common::hash_utils::{QualityRandomState, create_hashes};

/// The word of a key that is null, or that the build side cannot contain.
pub const NONE: u64 = u64::MAX;

const SEED: u64 = 0x616e_6b65_7201;

/// Known bounds of one key's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    low: i64,
    high: i64,
}

impl Bounds {
    /// The bounds of an empty set of values.
    pub const EMPTY: Bounds = Bounds { low: i64::MAX, high: i64::MIN };

    pub fn with(self, other: Bounds) -> Bounds {
        Bounds { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The bounds of the values that are not null; `None` if they are no integers.
    pub fn of(array: &ArrayRef) -> Option<Bounds> {
        Some(match array.data_type() {
            DataType::Int16 => bounds(array.as_primitive::<Int16Type>()),
            DataType::Int32 => bounds(array.as_primitive::<Int32Type>()),
            DataType::Int64 => bounds(array.as_primitive::<Int64Type>()),
            DataType::Float64 => bounds(array.as_primitive::<Float64Type>()),
            _ => return None,
        })
    }

    /// The difference between the greatest and the least value.
    fn span(self) -> u64 {
        if self.low > self.high { 0 } else { self.high.abs_diff(self.low) }
    }
}

/// Values that become integers without a loss. Floats are canonical in keys, so that equal ones have equal bits.
trait Integer: Copy {
    fn integer(self) -> i64;
}

impl Integer for i16 {
    fn integer(self) -> i64 {
        self.into()
    }
}

impl Integer for i32 {
    fn integer(self) -> i64 {
        self.into()
    }
}

impl Integer for i64 {
    fn integer(self) -> i64 {
        self
    }
}

impl Integer for f64 {
    fn integer(self) -> i64 {
        self.to_bits() as i64
    }
}

fn bounds<T: ArrowPrimitiveType<Native: Integer>>(array: &PrimitiveArray<T>) -> Bounds {
    let wider = |Bounds { low, high }: Bounds, value: T::Native| {
        let value = value.integer();
        Bounds { low: low.min(value), high: high.max(value) }
    };
    match array.nulls() {
        None => array.values().iter().copied().fold(Bounds::EMPTY, wider),
        Some(_) => array.iter().flatten().fold(Bounds::EMPTY, wider),
    }
}

/// The way in which a row's keys become a word of 64 bits.
#[derive(Clone, Debug)]
pub enum Packing {
    Exact(Vec<Digit>),
    Hashed,
}

/// The contribution of one key to a word.
#[derive(Clone, Copy, Debug)]
pub struct Digit {
    low: i64,
    span: u64,
    /// The factor by which the key's value is multiplied.
    times: u64,
}

impl Packing {
    /// The packing for the keys of a build side. `bounds` is `None` if one of the keys is no integer.
    pub fn of(bounds: Option<&[Bounds]>) -> Packing {
        let Some(bounds) = bounds else { return Packing::Hashed };
        let (mut digits, mut times) = (Vec::new(), 1u64);
        for key in bounds {
            let span = key.span();
            digits.push(Digit { low: key.low, span, times });
            // All words must stay below `NONE`.
            match span.checked_add(1).and_then(|values| times.checked_mul(values)) {
                Some(product) => times = product,
                None => return Packing::Hashed,
            }
        }
        Packing::Exact(digits)
    }

    /// A number greater than all words; `None` if words are hashes, which can have any value.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Packing::Exact(digits) => Some(digits.iter().fold(1, |limit, digit| limit * (digit.span + 1))),
            Packing::Hashed => None,
        }
    }

    pub fn is_exact(&self) -> bool {
        matches!(self, Packing::Exact(_))
    }

    /// Computes the word of each row from its keys.
    pub fn words(&self, keys: &[ArrayRef], rows: usize, words: &mut Vec<u64>) -> Result<()> {
        words.clear();
        words.resize(rows, 0);
        match self {
            Packing::Hashed => {
                create_hashes(keys, &QualityRandomState::with_seed(SEED), words)?;
                words.iter_mut().for_each(|word| *word = (*word).min(NONE - 1));
                keys.iter().for_each(|key| without_nulls(key, words));
            }
            Packing::Exact(digits) => {
                for (at, (key, digit)) in keys.iter().zip(digits).enumerate() {
                    match key.data_type() {
                        DataType::Int16 => digit.add(at == 0, key.as_primitive::<Int16Type>(), words),
                        DataType::Int32 => digit.add(at == 0, key.as_primitive::<Int32Type>(), words),
                        DataType::Int64 => digit.add(at == 0, key.as_primitive::<Int64Type>(), words),
                        _ => digit.add(at == 0, key.as_primitive::<Float64Type>(), words),
                    }
                    without_nulls(key, words);
                }
            }
        }
        Ok(())
    }
}

impl Digit {
    fn add<T: ArrowPrimitiveType<Native: Integer>>(self, first: bool, key: &PrimitiveArray<T>, words: &mut [u64]) {
        let Digit { low, span, times } = self;
        let above = |value: T::Native| value.integer().wrapping_sub(low) as u64;
        let values = key.values().iter().map(|value| above(*value));
        match first {
            true => {
                for (word, above) in words.iter_mut().zip(values) {
                    *word = if above <= span { above } else { NONE };
                }
            }
            false => {
                for (word, above) in words.iter_mut().zip(values) {
                    let known = above <= span && *word != NONE;
                    *word = if known { *word + above * times } else { NONE };
                }
            }
        }
    }
}

fn without_nulls(key: &ArrayRef, words: &mut [u64]) {
    let Some(nulls) = key.nulls().filter(|nulls| nulls.null_count() > 0) else { return };
    for (word, known) in words.iter_mut().zip(nulls.iter()) {
        if !known {
            *word = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int16Array, Int32Array, Int64Array, StringViewArray};

    use super::*;

    fn packing(build: &[ArrayRef]) -> Packing {
        let bounds: Option<Vec<Bounds>> = build.iter().map(Bounds::of).collect();
        Packing::of(bounds.as_deref())
    }

    fn words(packing: &Packing, keys: &[ArrayRef]) -> Vec<u64> {
        let mut words = vec![7; 3];
        packing.words(keys, keys[0].len(), &mut words).unwrap();
        words
    }

    #[test]
    fn keys_are_equal_if_their_words_are() {
        let build: [ArrayRef; 3] = [
            Arc::new(Int32Array::from(vec![5, -3, 7, 5])),
            Arc::new(Int64Array::from(vec![Some(1 << 40), None, Some(3), Some(3)])),
            Arc::new(Int16Array::from(vec![0, 1, 2, 3])),
        ];
        let packing = packing(&build);
        assert!(packing.is_exact() && packing.limit() == Some(11 * ((1 << 40) - 2) * 4));
        let own = words(&packing, &build);
        assert_eq!(own[1], NONE);
        assert!([0, 2, 3].iter().all(|at| own[*at] < packing.limit().unwrap()));
        assert!(own[0] != own[2] && own[2] != own[3] && own[0] != own[3]);
        // A value outside the bounds in one key makes the word `NONE`, whatever the other keys are.
        let probe: [ArrayRef; 3] = [
            Arc::new(Int32Array::from(vec![5, 8, -4, i32::MAX, 7])),
            Arc::new(Int64Array::from(vec![3, 3, 3, 3, i64::MIN])),
            Arc::new(Int16Array::from(vec![3, 3, 3, i16::MIN, 2])),
        ];
        assert_eq!(words(&packing, &probe), [own[3], NONE, NONE, NONE, NONE]);
    }

    #[test]
    fn the_whole_range_of_an_integer_has_no_room() {
        let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
        assert!(!packing(&[ends]).is_exact());
        let nearly: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX - 1]));
        let packed = packing(std::slice::from_ref(&nearly));
        assert_eq!(packed.limit(), Some(u64::MAX));
        assert_eq!(words(&packed, std::slice::from_ref(&nearly)), [0, u64::MAX - 1]);
        assert!(!packing(&[nearly.clone(), nearly]).is_exact());
        let nothing: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert_eq!(packing(std::slice::from_ref(&nothing)).limit(), Some(1));
        assert_eq!(words(&packing(std::slice::from_ref(&nothing)), &[nothing]), [NONE, NONE]);
    }

    #[test]
    fn floats_are_taken_by_their_bits_and_texts_hashed() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, f64::NEG_INFINITY, 1.5]));
        let packed = packing(std::slice::from_ref(&floats));
        let own = words(&packed, &[floats]);
        let again: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 0.0]));
        match packed.is_exact() {
            true => assert_eq!(words(&packed, &[again]), [own[3], own[0]]),
            false => assert!(own.iter().all(|word| *word < NONE)),
        }
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a"), Some("b")]));
        assert_eq!(Bounds::of(&texts), None);
        let own = words(&Packing::of(None), &[texts]);
        assert!(own[0] == own[2] && own[0] != own[3] && own[1] == NONE);
    }
}
