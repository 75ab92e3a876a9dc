//! Makes ordinary and extreme values of every type, and tables of them.

use super::*;

pub(super) fn any_type(rng: &mut StdRng) -> Type {
    let scale = *[0, 0, 2, 2, 3, 5, 6].choose(rng).unwrap();
    let wide = *[0, 2, 5, 20].choose(rng).unwrap();
    if rng.random_bool(0.25) {
        use Type::*;
        return *[Numeric, Numeric, Interval, Interval, Float32, Time, Oid, Enum, Uuid, Name, Bytes, Opaque]
            .choose(rng)
            .unwrap();
    }
    *[
        Type::Bool,
        Type::Int16,
        Type::Int32,
        Type::Int64,
        Type::Float64,
        Type::Decimal64 { scale },
        Type::Decimal64 { scale },
        Type::Decimal128 { scale: wide },
        Type::Date,
        Type::Timestamp,
        Type::TimestampTz,
        Type::TimeTz,
        Type::Text,
        Type::Char,
    ]
    .choose(rng)
    .unwrap()
}

/// A table in chunks of random size. In some chunks, rows are deleted.
pub(super) fn table(rng: &mut StdRng, mood: Mood, types: &[Type], rows: usize) -> (Vec<Row>, Arc<dyn TableView>) {
    let nulls = *[0.0, 0.1, 0.5].choose(rng).unwrap();
    let (mut all, mut chunks) = (Vec::new(), Vec::new());
    while all.len() < rows {
        let masked = rng.random_bool(0.4);
        let slots = rng.random_range(1..=4);
        let mut slot = |ty: &Type| if rng.random_bool(nulls) { None } else { Some(value(rng, mood, *ty)) };
        let slots: Vec<Row> = (0..slots).map(|_| types.iter().map(&mut slot).collect()).collect();
        let live: Vec<bool> = slots.iter().map(|_| !masked || rng.random_bool(0.6)).collect();
        chunks.push(chunk(types, &slots, masked.then(|| live.clone())));
        let wall = all.len();
        all.extend(slots.into_iter().zip(live).filter(|(_, live)| *live).map(|(row, _)| row));
        if all.len() == wall && rng.random_bool(0.2) {
            break;
        }
    }
    (all, TestView::of_chunks(types.to_vec(), chunks))
}

pub(super) fn value(rng: &mut StdRng, mood: Mood, ty: Type) -> Literal {
    let extreme = mood == Mood::Wild && rng.random_bool(0.25);
    let small = rng.random_range(-3..=3i64);
    let int = |rng: &mut StdRng, min: i64, max: i64| {
        Literal::Int(if extreme { *[min, max, min + 1, max - 1, max / 2].choose(rng).unwrap() } else { small })
    };
    match ty {
        Type::Bool => Literal::Bool(rng.random()),
        Type::Int16 => int(rng, i16::MIN as i64, i16::MAX as i64),
        Type::Int32 => int(rng, i32::MIN as i64, i32::MAX as i64),
        Type::Date if extreme => Literal::Int(
            *[i32::MIN as i64, i32::MAX as i64, -2_451_545, 2_145_031_948, 106_751_983].choose(rng).unwrap(),
        ),
        Type::Date => Literal::Int(small),
        Type::Timestamp | Type::TimestampTz if extreme => Literal::Int(
            *[i64::MIN, i64::MAX, -211_813_488_000_000_000, 9_223_371_331_199_999_999, -1, 762_435_123_456_789]
                .choose(rng)
                .unwrap(),
        ),
        // A time near one of the clock changes of the generated zones.
        Type::Timestamp | Type::TimestampTz if rng.random_bool(0.3) => {
            Literal::Int(rng.random_range(-60..60) * 3_600_000_000 + small)
        }
        Type::Int64 | Type::Timestamp | Type::TimestampTz | Type::TimeTz => int(rng, i64::MIN, i64::MAX),
        Type::Decimal64 { scale } => match int(rng, i64::MIN, i64::MAX) {
            Literal::Int(i) if !extreme && rng.random_bool(0.7) => Literal::Int(i * 10i64.pow(scale as u32)),
            other => other,
        },
        Type::Decimal128 { scale } => {
            let limit = 10i128.pow(38) - 1;
            let raw = small as i128;
            Literal::Decimal(if extreme {
                *[i128::MIN, i128::MAX, limit, -limit, limit / 10, i64::MAX as i128 + 1].choose(rng).unwrap()
            } else if rng.random_bool(0.7) {
                raw * 10i128.pow(scale as u32)
            } else {
                raw
            })
        }
        Type::Time => Literal::Int(if extreme { 86_400_000_000 } else { small + 3 }),
        Type::Interval => intervals::literal(intervals::any(rng, extreme)),
        Type::Oid => Literal::Int(if extreme { u32::MAX as i64 } else { small + 3 }),
        Type::Enum => int(rng, i32::MIN as i64, i32::MAX as i64),
        Type::Uuid => {
            Literal::Decimal(if extreme { *[i128::MIN, i128::MAX].choose(rng).unwrap() } else { small as i128 })
        }
        Type::Float32 if rng.random_bool(if mood == Mood::Wild { 0.5 } else { 0.1 }) => {
            let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45, 0.1];
            Literal::Float((*special.choose(rng).unwrap()).into())
        }
        Type::Float32 => Literal::Float(small as f64 / 2.0),
        Type::Float64 if rng.random_bool(if mood == Mood::Wild { 0.5 } else { 0.1 }) => {
            let negative_nan = f64::from_bits(0xfff8_0000_0000_0001);
            let special = [0.0, -0.0, f64::NAN, negative_nan, f64::INFINITY, f64::NEG_INFINITY];
            let finite = [f64::MAX, f64::MIN, 5e-324, 1e-200, 1e200];
            Literal::Float(*[special.as_slice(), &finite].concat().choose(rng).unwrap())
        }
        Type::Float64 => Literal::Float(small as f64 / 2.0),
        Type::Numeric => {
            let odd = [
                "NaN",
                "Infinity",
                "-Infinity",
                "1e40",
                "-1e-30",
                "0.00",
                "99999999999999999999.999999999999999999999",
            ];
            let plain = ["0", "1", "1.0", "1.00", "-2.5", "-2.50", "3", "0.001", "10000", "-0.3333"];
            let text = if extreme { odd.choose(rng) } else { plain.choose(rng) };
            numerics::literal(&text.unwrap().parse::<numeric::Numeric>().unwrap())
        }
        Type::Bytes | Type::Opaque => Literal::Bytes(
            [
                &b""[..],
                b"a",
                b"\0",
                b"\xff",
                b"a\0",
                b"bytes that are longer than a view",
                b"bytes that are longer, too\xe9",
            ]
            .choose(rng)
            .unwrap()
            .to_vec(),
        ),
        Type::Text | Type::Name | Type::Char => Literal::Text(
            [
                "",
                "a",
                "b",
                "B",
                "ä",
                "aa",
                " a  ",
                "a%b_\\",
                "日本",
                "ch",
                "$É",
                "$>é",
                "a string that is longer than a view",
                "a string that is longer too",
            ]
            .choose(rng)
            .unwrap()
            .to_string(),
        ),
    }
}
