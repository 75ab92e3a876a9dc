//! Operators on single values.

use locale::{Locale, Scratch};

use super::*;

pub(super) fn arith(
    op: ArithOp,
    ty: Type,
    types: [Type; 2],
    left: &Literal,
    right: &Literal,
) -> Result<Literal, Raised> {
    let infinite = |d: i64| d == i32::MIN as i64 || d == i32::MAX as i64;
    let shifted = |date: i64, days: i64| match date + days {
        _ if infinite(date) => Ok(Literal::Int(date)),
        // The range of dates, from 4713-01-01 BC to 5874897-12-31.
        shifted @ -2_451_545..=2_145_031_948 => Ok(Literal::Int(shifted)),
        _ => Err(Raised),
    };
    match (catalogue::function(Call::Arith(op), &types).unwrap().function, left, right) {
        (Function::Numeric(op), a, b) => numerics::arithmetic(op, a, b),
        (Function::Named(function), a, b) => intervals::operator(function, &[a, b]),
        (Function::Float(op), Literal::Float(a), Literal::Float(b)) => float(op, *a, *b).map(Literal::Float),
        (Function::Real(op), Literal::Float(a), Literal::Float(b)) => {
            real(op, *a as f32, *b as f32).map(|real| Literal::Float(real.into()))
        }
        (Function::DatePlusDays, Literal::Int(a), Literal::Int(b)) => shifted(*a, *b),
        (Function::DateMinusDays, Literal::Int(a), Literal::Int(b)) => shifted(*a, -b),
        (Function::DateMinusDate, Literal::Int(a), Literal::Int(b)) => {
            if infinite(*a) || infinite(*b) {
                Err(Raised)
            } else {
                fit(Type::Int32, (a - b) as i128)
            }
        }
        (Function::Decimal(op), a, b) => {
            let (a, b) = (decimal(a).unwrap(), decimal(b).unwrap());
            let up = |v: i128, from: Type| power(ty.scale() - from.scale()).and_then(|p| v.checked_mul(p));
            let result = match op {
                ArithOp::Add => up(a, types[0]).zip(up(b, types[1])).and_then(|(a, b)| a.checked_add(b)),
                ArithOp::Sub => up(a, types[0]).zip(up(b, types[1])).and_then(|(a, b)| a.checked_sub(b)),
                ArithOp::Mul => a.checked_mul(b),
                other => panic!("{other:?} of decimals"),
            };
            result.filter(|r| *r > -LIMIT && *r < LIMIT).map(Literal::Decimal).ok_or(Raised)
        }
        (Function::Integer(op), Literal::Int(a), Literal::Int(b)) => {
            let (a, b) = (*a as i128, *b as i128);
            let result = match op {
                ArithOp::Add => a + b,
                ArithOp::Sub => a - b,
                ArithOp::Mul => a * b,
                ArithOp::Div => a.checked_div(b).ok_or(Raised)?,
                ArithOp::Mod => a.checked_rem(b).ok_or(Raised)?,
            };
            fit(ty, result)
        }
        other => panic!("{op:?}: {other:?}"),
    }
}

pub(super) fn float(op: ArithOp, a: f64, b: f64) -> Result<f64, Raised> {
    let result = match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div if b == 0.0 && !a.is_nan() => return Err(Raised),
        ArithOp::Div => a / b,
        ArithOp::Mod => panic!("remainder of floats"),
    };
    let infinite_input = match op {
        ArithOp::Div => a.is_infinite(),
        _ => a.is_infinite() || b.is_infinite(),
    };
    let vanished = match op {
        ArithOp::Mul => result == 0.0 && a != 0.0 && b != 0.0,
        ArithOp::Div => result == 0.0 && a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if (result.is_infinite() && !infinite_input) || vanished { Err(Raised) } else { Ok(result) }
}

fn real(op: ArithOp, a: f32, b: f32) -> Result<f32, Raised> {
    let (result, infinite_input) = match op {
        ArithOp::Add => (a + b, a.is_infinite() || b.is_infinite()),
        ArithOp::Sub => (a - b, a.is_infinite() || b.is_infinite()),
        ArithOp::Mul => (a * b, a.is_infinite() || b.is_infinite()),
        ArithOp::Div if b == 0.0 && !a.is_nan() => return Err(Raised),
        ArithOp::Div => (a / b, a.is_infinite()),
        ArithOp::Mod => panic!("remainder of reals"),
    };
    let vanished = match op {
        ArithOp::Mul => result == 0.0 && a != 0.0 && b != 0.0,
        ArithOp::Div => result == 0.0 && a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if (result.is_infinite() && !infinite_input) || vanished { Err(Raised) } else { Ok(result) }
}

pub(super) fn cast(from: Type, to: Type, value: Literal) -> Result<Literal, Raised> {
    let Some(row) = catalogue::cast(from, to) else { return Ok(value) };
    match (row.function, &value) {
        (Function::ToNumeric, value) => Ok(numerics::from_number(value, from)),
        (Function::NumericToDecimal, value) => numerics::to_decimal(value, to),
        (Function::IntegerToInteger, Literal::Int(i)) => fit(to, *i as i128),
        (Function::IntegerToFloat, Literal::Int(i)) => Ok(Literal::Float(*i as f64)),
        (Function::IntegerToReal, Literal::Int(i)) => Ok(Literal::Float((*i as f32).into())),
        (Function::FloatToReal, Literal::Float(a)) => {
            let real = *a as f32;
            let leaves = real.is_infinite() && !a.is_infinite() || real == 0.0 && *a != 0.0;
            if leaves { Err(Raised) } else { Ok(Literal::Float(real.into())) }
        }
        (Function::RealToFloat | Function::OidToInteger | Function::NameToText, _) => Ok(value),
        (Function::DateToTimestamp, Literal::Int(d)) => match *d as i32 {
            i32::MIN => Ok(Literal::Int(i64::MIN)),
            i32::MAX => Ok(Literal::Int(i64::MAX)),
            d if (-2_451_545..106_751_983).contains(&d) => Ok(Literal::Int(d as i64 * 86_400_000_000)),
            _ => Err(Raised),
        },
        (Function::ToDecimal, v) => {
            let raw = power(to.scale() - from.scale()).and_then(|p| decimal(v).unwrap().checked_mul(p));
            match to {
                Type::Decimal64 { .. } => raw.and_then(|r| i64::try_from(r).ok()).map(Literal::Int).ok_or(Raised),
                _ => raw.filter(|r| *r > -LIMIT && *r < LIMIT).map(Literal::Decimal).ok_or(Raised),
            }
        }
        other => panic!("cast {other:?}"),
    }
}

pub(super) fn has_groups(rel: &Rel) -> bool {
    let mut found = false;
    rel.visit(&mut |rel| {
        let made =
            matches!(rel, Rel::Aggregate { .. } | Rel::Window { .. } | Rel::GroupingSets { .. } | Rel::Unfold { .. });
        found |= made;
    });
    found
}

pub(super) fn power(digits: u8) -> Option<i128> {
    10i128.checked_pow(digits as u32)
}

/// The integer by which a literal represents an integer, a decimal, or another value that is a number inside.
pub fn decimal(value: &Literal) -> Option<i128> {
    match value {
        Literal::Int(i) => Some(*i as i128),
        Literal::Decimal(d) => Some(*d),
        _ => None,
    }
}

pub(super) fn magnitude(value: Outcome) -> f64 {
    value.ok().flatten().as_ref().and_then(decimal).map_or(0.0, |d| (d as f64).abs())
}

/// Compares two decimals: first their integer parts, then their fractions.
pub(super) fn decimal_order((a, scale_a): (i128, u8), (b, scale_b): (i128, u8)) -> Ordering {
    let scale = scale_a.max(scale_b);
    let split = |v: i128, s: u8| {
        let p = power(s).unwrap();
        (v.div_euclid(p), v.rem_euclid(p) * power(scale - s).unwrap())
    };
    split(a, scale_a).cmp(&split(b, scale_b))
}

pub fn fit(ty: Type, value: i128) -> Result<Literal, Raised> {
    let fits = match ty {
        Type::Int16 => i16::try_from(value).is_ok(),
        Type::Int32 => i32::try_from(value).is_ok(),
        _ => i64::try_from(value).is_ok(),
    };
    if fits { Ok(Literal::Int(value as i64)) } else { Err(Raised) }
}

pub(super) fn exact_sum(values: &[Literal]) -> Result<Option<i128>, Raised> {
    if values.is_empty() {
        return Ok(None);
    }
    let (mut high, mut low) = (0i128, 0i128);
    for value in values {
        let raw = decimal(value).unwrap();
        high += raw >> 64;
        low += raw & u64::MAX as i128;
    }
    high += low >> 64;
    let high = i64::try_from(high).map_err(|_| Raised)?;
    Ok(Some(((high as i128) << 64) | (low & u64::MAX as i128)))
}

/// The number of values, times the sum of their squares, minus the square of their sum.
pub(super) fn spread(values: &[Literal], scale: u8) -> Result<Option<Literal>, Raised> {
    let numbers: Vec<i256> = values.iter().map(|value| i256::from_i128(decimal(value).unwrap())).collect();
    let (mut sum, mut squares) = (i256::ZERO, i256::ZERO);
    for number in &numbers {
        sum = sum.checked_add(*number).ok_or(Raised)?;
        squares = number.checked_mul(*number).and_then(|square| squares.checked_add(square)).ok_or(Raised)?;
    }
    let count = i256::from_i128(numbers.len() as i128);
    let difference = count.checked_mul(squares).zip(sum.checked_mul(sum)).and_then(|(a, b)| a.checked_sub(b));
    let digits = difference.ok_or(Raised)?.to_string();
    let shown: numeric::Numeric = format!("{digits}e-{}", 2 * scale).parse().unwrap();
    Ok((!values.is_empty()).then(|| numerics::literal(&shown.round((2 * scale).into()))))
}

pub(super) fn combined(bits: BitAgg, a: Literal, b: Literal) -> Literal {
    match (bits, a, b) {
        (BitAgg::BoolAnd, Literal::Bool(a), Literal::Bool(b)) => Literal::Bool(a && b),
        (BitAgg::BoolOr, Literal::Bool(a), Literal::Bool(b)) => Literal::Bool(a || b),
        (BitAgg::And, Literal::Int(a), Literal::Int(b)) => Literal::Int(a & b),
        (BitAgg::Or, Literal::Int(a), Literal::Int(b)) => Literal::Int(a | b),
        (BitAgg::Xor, Literal::Int(a), Literal::Int(b)) => Literal::Int(a ^ b),
        other => panic!("{other:?}"),
    }
}

/// PostgreSQL's order of two values of the same type (and scale).
pub fn order(a: &Literal, b: &Literal) -> Ordering {
    match (a, b) {
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
        (Literal::Decimal(a), Literal::Decimal(b)) => a.cmp(b),
        (Literal::Text(a), Literal::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Literal::Bytes(a), Literal::Bytes(b)) => a.cmp(b),
        (Literal::Float(a), Literal::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        other => panic!("order of {other:?}"),
    }
}

/// Like [`order`], but compares texts in the order of a locale, if one is named.
pub fn order_in(locale: Option<&str>, a: &Literal, b: &Literal) -> Ordering {
    match (locale, a, b) {
        (Some(name), Literal::Text(a), Literal::Text(b)) => {
            Locale::named(name).unwrap().compare(a, b, &mut Scratch::default())
        }
        _ => order(a, b),
    }
}

pub fn same_row(a: &Row, b: &Row) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => order(a, b).is_eq(),
        _ => false,
    })
}
