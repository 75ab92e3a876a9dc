//! List aggregates: aggregates over the values of a group in an order.

use plan::{Listed, Listing, Literal, Type};

use crate::interpreter::Raised;
use crate::intervals;
use crate::ordered::compare;
use crate::table::{Row, Value};

/// The result of a list aggregate. Each row of `columns` has the values of one argument.
pub fn listed(listed: &Listed, distinct: bool, ty: Type, columns: &[Row]) -> Result<Value, Raised> {
    let own = listed.of.arguments();
    let order = listed.sort_keys();
    // For each row: the value, the second argument, and the values of the sort keys.
    let mut rows: Vec<(Value, Value, Row)> = (0..columns[0].len())
        .map(|row| {
            let second = if own == 2 { columns[1][row].clone() } else { None };
            (columns[0][row].clone(), second, columns[own..].iter().map(|column| column[row].clone()).collect())
        })
        .filter(|(value, second, _)| match listed.of {
            Listing::Array => *second == Some(Literal::Bool(true)),
            _ => value.is_some(),
        })
        .collect();
    rows.sort_by(|a, b| compare(&order, &a.2, &b.2));
    if distinct {
        rows.dedup_by(|a, b| compare(&order, &a.2, &b.2).is_eq());
    }
    let Some((_, second, _)) = rows.first() else { return Ok(None) };
    Ok(match (listed.of, second) {
        (Listing::Joined, _) => Some(joined(&rows, ty)),
        (Listing::Array, _) => Some(Literal::Bytes(array(&rows, ty))),
        (Listing::Mode, _) => {
            let runs: Vec<&[_]> = rows.chunk_by(|a, b| compare(&order, &a.2, &b.2).is_eq()).collect();
            let longest = runs.iter().map(|run| run.len()).max();
            runs.iter().find(|run| Some(run.len()) == longest).and_then(|run| run[0].0.clone())
        }
        (Listing::Discrete, Some(Literal::Float(share))) => {
            let number = (share * rows.len() as f64).ceil() as usize;
            rows[number.max(1) - 1].0.clone()
        }
        (Listing::Continuous, Some(Literal::Float(share))) => {
            let place = share * (rows.len() - 1) as f64;
            let [low, next] = [place.floor(), place.ceil()].map(|at| &rows[at as usize].0);
            let part = place - place.floor();
            match (low, next) {
                (low, _) if part == 0.0 => low.clone(),
                (Some(Literal::Float(low)), Some(Literal::Float(next))) => {
                    Some(Literal::Float(low + part * (next - low)))
                }
                (low, next) => Some(intervals::between(low.as_ref().unwrap(), next.as_ref().unwrap(), part)?),
            }
        }
        _ => None,
    })
}

fn joined(rows: &[(Value, Value, Row)], ty: Type) -> Literal {
    let bytes = |value: &Value| match value {
        Some(Literal::Text(text)) => text.clone().into_bytes(),
        Some(Literal::Bytes(bytes)) => bytes.clone(),
        _ => vec![],
    };
    let mut out = Vec::new();
    for (at, (value, delimiter, _)) in rows.iter().enumerate() {
        out.extend(if at > 0 { bytes(delimiter) } else { vec![] });
        out.extend(bytes(value));
    }
    if ty.is_text() { Literal::Text(String::from_utf8(out).unwrap()) } else { Literal::Bytes(out) }
}

/// PostgreSQL's stored form of an array of integers or texts, on a little-endian machine.
fn array(rows: &[(Value, Value, Row)], ty: Type) -> Vec<u8> {
    let any_null = rows.iter().any(|(value, ..)| value.is_none());
    let mut nulls = vec![0u8; if any_null { rows.len().div_ceil(8) } else { 0 }];
    let mut data: Vec<u8> = Vec::new();
    for (at, (value, ..)) in rows.iter().enumerate() {
        match value {
            None => continue,
            Some(Literal::Int(number)) => data.extend((*number as i32).to_le_bytes()),
            Some(Literal::Text(text)) => {
                data.extend((((text.len() + 4) << 2) as u32).to_le_bytes());
                data.extend(text.as_bytes());
                data.resize(data.len().div_ceil(4) * 4, 0);
            }
            other => panic!("an array of {ty:?} with {other:?}"),
        }
        if any_null {
            nulls[at / 8] |= 1 << (at % 8);
        }
    }
    let start = (24 + nulls.len()).div_ceil(8) * 8;
    let header = [1, if any_null { start as i32 } else { 0 }, ELEMENT as i32, rows.len() as i32, 1];
    let mut out: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
    out.extend(nulls);
    out.resize(start - 4, 0);
    out.extend(data);
    out
}

/// The oid of the elements' type in the tests' arrays.
pub const ELEMENT: u32 = 4711;
