//! What the functions that are called by their name mean, one value at a time.

use plan::{Literal, Named, Type};

use crate::interpreter::{Outcome, Raised, order};
use crate::table::Value;

/// A call with these values, none of which is null if the function is strict.
pub fn call(function: Named, ty: Type, types: &[Type], args: &[Value]) -> Outcome {
    let present = || args.iter().flatten().cloned();
    Ok(match function {
        Named::Greatest => present().reduce(|a, b| if order(&b, &a).is_gt() { b } else { a }),
        Named::Least => present().reduce(|a, b| if order(&b, &a).is_lt() { b } else { a }),
        _ if types.iter().any(|ty| ty.is_text()) => Some(of_text(function, ty, &present().collect::<Vec<_>>())?),
        other => panic!("{other:?} of {types:?}"),
    })
}

/// Texts are sequences of characters, however they are stored.
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
    // Characters from a position to another, from 1, as far as there are such.
    let between = |first: i64, last: i64| -> Vec<char> {
        (1..).zip(&t).filter(|(i, _)| (first..=last).contains(i)).map(|(_, c)| *c).collect()
    };
    let set = |i: usize| if args.len() > i { text(i) } else { vec![' '] };
    let result: Vec<char> = match function {
        Named::Like => return Ok(Literal::Bool(like(&t, &text(1))?)),
        Named::StartsWith => return Ok(Literal::Bool(t.starts_with(&text(1)))),
        Named::Length => return Ok(Literal::Int(own)),
        Named::OctetLength => return Ok(Literal::Int(bytes(&t))),
        Named::Position => return Ok(Literal::Int(found(&t, &text(1)).map_or(0, |at| at as i64 + 1))),
        Named::Substring if args.len() == 2 => between(integer(1), i64::MAX),
        Named::Substring if integer(2) < 0 => return Err(Raised),
        Named::Substring => match integer(1) + integer(2) - 1 {
            // An end that no integer holds is none.
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

/// At its start, and turned round.
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

/// By trying everything.
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
        // The generator makes no such pattern.
        ['\\'] => return Err(Raised),
        ['\\', escaped, rest @ ..] => text.first() == Some(escaped) && like(&text[1..], rest)?,
        [literal, rest @ ..] => text.first() == Some(literal) && like(&text[1..], rest)?,
    })
}
