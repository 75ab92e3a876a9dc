//! Reference implementations of named functions, for one value at a time.

use std::cmp::Ordering;

use anker_olap::c_library;
use plan::{Literal, Named, Type};

use crate::conversions;
use crate::interpreter::{Outcome, Raised, decimal, fit, order, order_in};
use crate::intervals;
use crate::moments;
use crate::numerics;
use crate::table::Value;
use crate::times;

/// The result of a function for these operands. If the function is strict, no operand is null.
pub fn call(function: Named, ty: Type, types: &[Type], args: &[Value]) -> Outcome {
    let present = || args.iter().flatten().cloned();
    Ok(match function {
        Named::Greatest => present().reduce(|a, b| if order(&b, &a).is_gt() { b } else { a }),
        Named::Least => present().reduce(|a, b| if order(&b, &a).is_lt() { b } else { a }),
        Named::GreatestIn | Named::LeastIn => {
            let (locale, texts) = args.split_last().unwrap();
            let Some(Literal::Text(locale)) = locale else { panic!("{locale:?} is no locale") };
            let better = |a: Literal, b: Literal| match (function, order_in(Some(locale), &b, &a)) {
                (Named::GreatestIn, Ordering::Greater) | (Named::LeastIn, Ordering::Less) => b,
                _ => a,
            };
            texts.iter().flatten().cloned().reduce(better)
        }
        _ if conversions::knows(function, types) => conversions::call(function, types, args)?,
        _ if intervals::knows(function, types) => intervals::call(function, args)?,
        _ if moments::knows(function) => moments::call(function, types, args)?,
        _ if numerics::knows(types) => Some(numerics::call(function, args)?),
        Named::MovedDown | Named::MovedUp => match (&args[0], &args[1]) {
            (Some(Literal::Float(a)), Some(Literal::Float(by))) => {
                let lost = if function == Named::MovedUp { f64::INFINITY } else { f64::NEG_INFINITY };
                let opposite = a.is_infinite() && by.is_infinite() && a != by;
                Some(Literal::Float(if opposite { lost } else { a + by }))
            }
            _ => None,
        },
        _ if types.iter().any(|ty| ty.is_text()) => Some(of_text(function, ty, &present().collect::<Vec<_>>())?),
        _ => match (types[0], &args[0]) {
            (from @ (Type::Date | Type::Timestamp | Type::TimestampTz), Some(Literal::Int(value))) => {
                times::call(function, from, *value)?
            }
            (_, Some(Literal::Float(a))) => Some(of_float(function, ty, *a)?),
            (_, Some(Literal::Bool(a))) => Some(Literal::Int(i64::from(*a))),
            (from, Some(a)) => Some(of_number(function, from, ty, decimal(a).unwrap(), args.get(1))?),
            (_, None) => None,
        },
    })
}

fn of_float(function: Named, ty: Type, a: f64) -> Result<Literal, Raised> {
    // The nearest integer. If two integers are equally near, it is the even one.
    let rounded = || {
        let below = a.floor();
        let up = a - below > 0.5 || a - below == 0.5 && below.rem_euclid(2.0) != 0.0;
        (if up { below + 1.0 } else { below }).copysign(a)
    };
    let integer = || match rounded() {
        whole if whole.is_nan() || whole.abs() > 1e19 => Err(Raised),
        whole => fit(ty, whole as i128),
    };
    Ok(Literal::Float(match function {
        Named::Abs => f64::from_bits(a.to_bits() & i64::MAX as u64),
        Named::Sign => [-1.0, 0.0, 1.0][usize::from(a >= 0.0 || a.is_nan()) + usize::from(a > 0.0)],
        Named::Round => rounded(),
        Named::Ceil => a.ceil(),
        Named::Floor => a.floor(),
        Named::Trunc => {
            if a.is_sign_negative() {
                a.ceil()
            } else {
                a.floor()
            }
        }
        Named::Sqrt if a < 0.0 => return Err(Raised),
        Named::Sqrt => a.sqrt(),
        Named::Cbrt | Named::Sin | Named::Cos | Named::Tan | Named::Asin | Named::Acos | Named::Atan => {
            let result = match function {
                Named::Cbrt => c_library::cbrt(a),
                Named::Sin => a.sin(),
                Named::Cos => a.cos(),
                Named::Tan => a.tan(),
                Named::Asin => a.asin(),
                Named::Acos => a.acos(),
                _ => a.atan(),
            };
            let is_zero = result == 0.0 && (a == 0.0 || a == 1.0);
            if a.is_nan() {
                return Ok(Literal::Float(a));
            }
            if !a.is_finite() || !(result.is_normal() || is_zero) {
                return Err(Raised);
            }
            result
        }
        Named::FromEpoch => return from_epoch(a),
        Named::ToInt16 | Named::ToInt32 | Named::ToInt64 => return integer(),
        other => panic!("{other:?} of a float"),
    }))
}

/// The timestamp that is this number of seconds after the beginning of 1970.
fn from_epoch(seconds: f64) -> Result<Literal, Raised> {
    let days_to_2000 = (1970..2000).map(|year| if year % 4 == 0 { 366.0 } else { 365.0 }).sum::<f64>();
    match seconds {
        _ if seconds == f64::INFINITY => Ok(Literal::Int(i64::MAX)),
        _ if seconds == f64::NEG_INFINITY => Ok(Literal::Int(i64::MIN)),
        _ => {
            let micros = ((seconds - days_to_2000 * 86_400.0) * 1e6).round_ties_even();
            // The range of timestamps, from 4714-11-24 BC to 294276-12-31.
            let is_there = (-211_813_488e9..9_223_371_331_200e6).contains(&micros);
            if is_there { Ok(Literal::Int(micros as i64)) } else { Err(Raised) }
        }
    }
}

/// A function of an integer, or of a decimal given as a scaled integer.
fn of_number(function: Named, from: Type, ty: Type, a: i128, second: Option<&Value>) -> Result<Literal, Raised> {
    let b = second.and_then(|value| value.as_ref().and_then(decimal)).unwrap_or_default();
    let scale = if second.is_some() && matches!(function, Named::Round | Named::Trunc) { ty.scale() } else { 0 };
    let one = 10i128.pow((from.scale() - scale).into());
    let floor = a.div_euclid(one);
    let rest = a.rem_euclid(one);
    // The fraction is compared with the distance to the next integer. If both are equal, the value is rounded away from
    // zero.
    let rounded = match rest.cmp(&(one - rest)) {
        Ordering::Greater => floor + 1,
        Ordering::Equal if a > 0 => floor + 1,
        Ordering::Equal | Ordering::Less => floor,
    };
    let bits = from.slot_bytes().unwrap_or_default() as i128 * 8;
    let by = b.rem_euclid(bits.max(32));
    let number = match function {
        Named::Abs => a.checked_abs().ok_or(Raised)?,
        Named::Sign => a.signum(),
        Named::Round | Named::ToInt16 | Named::ToInt32 | Named::ToInt64 => rounded,
        Named::Ceil => floor + i128::from(rest != 0),
        Named::Floor => floor,
        Named::Trunc => a / one,
        Named::BitAnd => a & b,
        Named::BitOr => a | b,
        Named::BitXor => a ^ b,
        Named::BitNot => -a - 1,
        // Bits that are shifted beyond the type's highest bit are lost. The highest bit that remains is the sign.
        Named::ShiftLeft => {
            let kept = (a << by).rem_euclid(1 << bits);
            if kept >= 1 << (bits - 1) { kept - (1 << bits) } else { kept }
        }
        Named::ShiftRight => a.div_euclid(1 << by),
        Named::Average => average(a, from.scale() as usize, b).ok_or(Raised)?,
        Named::ToFloat => return Ok(Literal::Float(format!("{a}e-{}", from.scale()).parse().unwrap())),
        Named::ToBool => return Ok(Literal::Bool(a != 0)),
        Named::ToText => return Ok(Literal::Text(a.to_string())),
        other => panic!("{other:?} of a number"),
    };
    match ty {
        Type::Decimal128 { .. } => Ok(Literal::Decimal(number)),
        _ => fit(ty, number),
    }
}

/// The quotient by long division, digit by digit. It has at least 16 significant digits, counted in groups of four as
/// in PostgreSQL.
fn average(sum: i128, scale: usize, count: i128) -> Option<i128> {
    /// The first group of four digits that is not zero. Its weight is the number of groups between it and the point.
    fn leading(number: &str) -> (i32, u32) {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
        let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
        let groups: Vec<u32> = [whole.as_str(), &fraction]
            .concat()
            .as_bytes()
            .chunks(4)
            .map(|group| std::str::from_utf8(group).unwrap().parse().unwrap())
            .collect();
        match groups.iter().position(|group| *group != 0) {
            None => (0, 0),
            Some(at) => ((whole.len() / 4) as i32 - 1 - at as i32, groups[at]),
        }
    }
    if count <= 0 {
        return None;
    }
    let digits = format!("{:0width$}", sum.unsigned_abs(), width = scale + 1);
    let point = digits.len() - scale;
    let ((weight, first), (by_weight, by_first)) =
        (leading(&format!("{}.{}", &digits[..point], &digits[point..])), leading(&count.to_string()));
    let shown = (16 - 4 * (weight - by_weight - i32::from(first <= by_first))).max(scale as i32);
    let (mut quotient, mut rest) = (0u128, 0u128);
    for at in 0..point as i32 + shown {
        let digit = digits.as_bytes().get(at as usize).map_or(0, |digit| (digit - b'0') as u128);
        rest = rest * 10 + digit;
        quotient = quotient.checked_mul(10)? + rest / count as u128;
        rest %= count as u128;
    }
    if sum == 0 {
        return Some(0);
    }
    quotient += u128::from(2 * rest >= count as u128);
    let missing = u32::try_from(plan::AVERAGE_SCALE as i32 - shown).ok()?;
    let quotient = i128::try_from(quotient.checked_mul(10u128.pow(missing))?).ok()?;
    (quotient < 10i128.pow(38)).then_some(if sum < 0 { -quotient } else { quotient })
}

/// Functions of texts, which are treated as lists of characters.
fn of_text(function: Named, ty: Type, args: &[Literal]) -> Result<Literal, Raised> {
    let text = |i: usize| match args.get(i) {
        Some(Literal::Text(text)) => text.chars().collect::<Vec<char>>(),
        other => panic!("{other:?} is no text"),
    };
    let integer = |i: usize| match args.get(i) {
        Some(Literal::Int(integer)) => *integer,
        other => panic!("{other:?} is no integer"),
    };
    let (t, own) = (text(0), text(0).len() as i64);
    let bytes = |chars: &[char]| chars.iter().map(|c| c.len_utf8()).sum::<usize>() as i64;
    // The characters from position `first` to position `last`, if they exist. Positions count from 1.
    let between = |first: i64, last: i64| -> Vec<char> {
        (1..).zip(&t).filter(|(i, _)| (first..=last).contains(i)).map(|(_, c)| *c).collect()
    };
    let set = |i: usize| if args.len() > i { text(i) } else { vec![' '] };
    let result: Vec<char> = match function {
        Named::Like => return Ok(Literal::Bool(like(&t, &text(1))?)),
        Named::StartsWith => return Ok(Literal::Bool(t.starts_with(&text(1)))),
        Named::Length => return Ok(Literal::Int(own)),
        Named::OctetLength => return Ok(Literal::Int(bytes(&t))),
        Named::Ascii => return Ok(Literal::Int(t.first().map_or(0, |first| i64::from(u32::from(*first))))),
        Named::Position => return Ok(Literal::Int(found(&t, &text(1)).map_or(0, |at| at as i64 + 1))),
        Named::Substring if args.len() == 2 => between(integer(1), i64::MAX),
        Named::Substring if integer(2) < 0 => return Err(Raised),
        Named::Substring => match integer(1) + integer(2) - 1 {
            // If the end exceeds the range of integers, everything up to the end of the text is taken.
            last if last >= i32::MAX as i64 => between(integer(1), i64::MAX),
            last => between(integer(1), last),
        },
        Named::Left if integer(1) < 0 => between(1, own + integer(1)),
        Named::Left => between(1, integer(1)),
        Named::Right if integer(1) < 0 => between(1 - integer(1), own),
        Named::Right => between(own - integer(1) + 1, own),
        Named::Concat => [t, text(1)].concat(),
        Named::Replace => replaced(&t, &text(1), &text(2)),
        Named::Trim => trimmed(trimmed(t, &set(1)), &set(1)),
        Named::TrimLeft => trimmed_left(t, &set(1)),
        Named::TrimRight => reversed(trimmed_left(reversed(t), &set(1))),
        Named::PadLeft | Named::PadRight => {
            let fill = text(2);
            if integer(1) > 1 << 20 && !fill.is_empty() {
                return Err(Raised);
            }
            let missing = if fill.is_empty() { 0 } else { (integer(1) - own).max(0) as usize };
            let fill: Vec<char> = fill.into_iter().cycle().take(missing).collect();
            let kept = between(1, integer(1));
            if function == Named::PadLeft { [fill, kept].concat() } else { [kept, fill].concat() }
        }
        Named::Repeat if integer(1) > 1 << 20 && own > 0 => return Err(Raised),
        Named::Repeat => t.repeat(if own == 0 { 0 } else { integer(1).max(0) as usize }),
        Named::Reverse => reversed(t),
        Named::SplitPart => field(&t, &text(1), integer(2))?,
        Named::Upper => t.into_iter().map(|c| c.to_ascii_uppercase()).collect(),
        Named::Lower => t.into_iter().map(|c| c.to_ascii_lowercase()).collect(),
        Named::CharToText => t,
        other => panic!("{other:?} of text"),
    };
    assert_eq!(ty, Type::Text);
    Ok(Literal::Text(result.into_iter().collect()))
}

fn found(text: &[char], wanted: &[char]) -> Option<usize> {
    (0..=text.len()).find(|at| text[*at..].starts_with(wanted))
}

fn replaced(text: &[char], from: &[char], to: &[char]) -> Vec<char> {
    match found(text, from) {
        Some(at) if !from.is_empty() => [&text[..at], to, &replaced(&text[at + from.len()..], from, to)].concat(),
        _ => text.to_vec(),
    }
}

fn reversed(mut text: Vec<char>) -> Vec<char> {
    text.reverse();
    text
}

fn trimmed_left(text: Vec<char>, set: &[char]) -> Vec<char> {
    text.into_iter().skip_while(|c| set.contains(c)).collect()
}

/// Removes characters from the start of a text, and reverses the result. Two calls trim both ends.
fn trimmed(text: Vec<char>, set: &[char]) -> Vec<char> {
    reversed(trimmed_left(text, set))
}

fn field(text: &[char], delimiter: &[char], number: i64) -> Result<Vec<char>, Raised> {
    if number == 0 {
        return Err(Raised);
    }
    let mut fields = vec![];
    let mut rest = text;
    while let Some(at) = found(rest, delimiter).filter(|_| !delimiter.is_empty()) {
        fields.push(rest[..at].to_vec());
        rest = &rest[at + delimiter.len()..];
    }
    fields.push(rest.to_vec());
    let index = if number > 0 { number - 1 } else { fields.len() as i64 + number };
    Ok(usize::try_from(index).ok().and_then(|index| fields.get(index).cloned()).unwrap_or_default())
}

/// LIKE, by trying everything.
fn like(text: &[char], pattern: &[char]) -> Result<bool, Raised> {
    Ok(match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => {
            for skipped in 0..=text.len() {
                if like(&text[skipped..], rest)? {
                    return Ok(true);
                }
            }
            false
        }
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest)?,
        // It is an error if a pattern ends in an escape character. The generator makes no such pattern.
        ['\\'] => return Err(Raised),
        ['\\', escaped, rest @ ..] => text.first() == Some(escaped) && like(&text[1..], rest)?,
        [literal, rest @ ..] => text.first() == Some(literal) && like(&text[1..], rest)?,
    })
}
