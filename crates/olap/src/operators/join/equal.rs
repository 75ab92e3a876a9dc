//! Compares the keys of rows with equal words. This is needed if words are only hashes of keys.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteViewType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, PrimitiveArray};
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};

use super::pairs::Pairs;

/// Keeps the pairs with equal keys. A null is not equal to anything.
pub fn retain_equal(pairs: &mut Pairs, build: &[ArrayRef], probe: &[ArrayRef]) -> Result<()> {
    for (build, probe) in build.iter().zip(probe) {
        match build.data_type() {
            DataType::Int16 => numbers::<Int16Type>(pairs, build.as_primitive(), probe.as_primitive()),
            DataType::Int32 => numbers::<Int32Type>(pairs, build.as_primitive(), probe.as_primitive()),
            DataType::Int64 => numbers::<Int64Type>(pairs, build.as_primitive(), probe.as_primitive()),
            DataType::Decimal128(..) => numbers::<Decimal128Type>(pairs, build.as_primitive(), probe.as_primitive()),
            DataType::Float64 => {
                let (build, probe) = (build.as_primitive::<Float64Type>(), probe.as_primitive::<Float64Type>());
                let bits = |array: &PrimitiveArray<Float64Type>, row| array.value(row).to_bits();
                pairs.retain(|b, p| bits(build, b) == bits(probe, p));
            }
            DataType::Boolean => {
                let (build, probe): (&BooleanArray, &BooleanArray) = (build.as_boolean(), probe.as_boolean());
                pairs.retain(|b, p| build.value(b) == probe.value(p));
            }
            DataType::Utf8View => views(pairs, build.as_string_view(), probe.as_string_view()),
            DataType::BinaryView => views(pairs, build.as_binary_view(), probe.as_binary_view()),
            other => return Err(DataFusionError::Internal(format!("{other} is no key"))),
        }
    }
    Ok(())
}

fn numbers<T: ArrowPrimitiveType>(pairs: &mut Pairs, build: &PrimitiveArray<T>, probe: &PrimitiveArray<T>)
where
    T::Native: PartialEq,
{
    let (build, probe) = (build.values(), probe.values());
    pairs.retain(|b, p| build[b] == probe[p]);
}

/// Compares texts or bytes by their views first. A view contains the length, and all bytes of a short value or the
/// first four of a long one.
fn views<T: ByteViewType + ?Sized>(
    pairs: &mut Pairs,
    build: &GenericByteViewArray<T>,
    probe: &GenericByteViewArray<T>,
) {
    const INLINE: u32 = 12;
    let (build_views, probe_views) = (build.views(), probe.views());
    pairs.retain(|b, p| {
        let (view, other) = (build_views[b], probe_views[p]);
        match view as u32 {
            0..=INLINE => view == other,
            _ => {
                view as u64 == other as u64 && {
                    let (value, other): (&[u8], &[u8]) = (build.value(b).as_ref(), probe.value(p).as_ref());
                    value == other
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BinaryViewArray, Decimal128Array, Float64Array, Int16Array, StringViewArray};

    use super::*;

    /// The pairs that are equal.
    fn equal(build: Vec<ArrayRef>, probe: Vec<ArrayRef>) -> Vec<(u32, u32)> {
        let mut pairs = Pairs::default();
        for b in 0..build[0].len() as u32 {
            (0..probe[0].len() as u32).for_each(|p| pairs.push(b, p));
        }
        retain_equal(&mut pairs, &build, &probe).unwrap();
        pairs.build.into_iter().zip(pairs.probe).collect()
    }

    #[test]
    fn values_of_each_type_are_compared() {
        let long = "a text that does not fit into its view";
        let texts = ["", "a", "b", "twelve bytes", "twelve bytess", long, &long.replace('v', "w")];
        let kinds: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(BinaryViewArray::from(texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>())),
            Arc::new(Int16Array::from(vec![0, 1, -1, i16::MIN, i16::MAX])),
            Arc::new(Decimal128Array::from(vec![0, 1, -1, i128::MIN, i128::MAX])),
            Arc::new(Float64Array::from(vec![0.0, 1.0, -1.0, f64::NAN, f64::INFINITY])),
            Arc::new(BooleanArray::from(vec![true, false])),
        ];
        for array in kinds {
            let all = 0..array.len() as u32;
            let told = equal(vec![array.clone()], vec![array.clone()]);
            assert_eq!(told, all.map(|i| (i, i)).collect::<Vec<_>>(), "{array:?}");
        }
        let strange: [ArrayRef; 1] = [Arc::new(arrow_array::UInt8Array::from(vec![1]))];
        assert!(retain_equal(&mut Pairs::default(), &strange, &strange).is_err());
    }

    #[test]
    fn all_keys_must_be_equal() {
        let first: ArrayRef = Arc::new(Int16Array::from(vec![1, 1, 2]));
        let second: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "y", "x"]));
        let told = equal(vec![first.clone(), second.clone()], vec![first, second]);
        assert_eq!(told, [(0, 0), (1, 1), (2, 2)]);
    }
}
