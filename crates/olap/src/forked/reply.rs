//! The reply of a child, in memory that it shares with its parent.
//!
//! ```text
//!   0 | groups: u64 | rows: u64 | for each group: keys (1 | number, 0 | zero: null), calls (values met: u64 | number)
//!   1, 2, 3: the child gave up
//! ```

use plan::{Literal, Type};
use protocol::request::{Failure, FailureKind, SentRows};

use colstore::{SHORT_TEXT, text_of_number};

use super::groups::Groups;
use super::program::{Output, Program, What};
use super::trouble::{Trouble, failure};
use crate::base::error::internal;

const HEADER: usize = 1 + 2 * size_of::<u64>();
const NUMBER: usize = size_of::<i128>();

pub fn most_bytes(program: &Program) -> usize {
    HEADER + Groups::most(program) * group_bytes(program)
}

fn group_bytes(program: &Program) -> usize {
    program.keys.len() * (1 + NUMBER) + program.calls.len() * (size_of::<u64>() + NUMBER)
}

/// Called in the child: writes the groups. There is room for as many groups as the child can make.
pub fn write(program: &Program, groups: &Groups, rows: u64, reply: &mut [u8]) -> usize {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = reply.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&[0]);
    put(&(groups.len() as u64).to_le_bytes());
    put(&rows.to_le_bytes());
    for group in 0..groups.len() {
        for key in groups.keys(group) {
            put(&[key.is_some().into()]);
            put(&key.unwrap_or(0).to_le_bytes());
        }
        for (count, value) in groups.calls(group, program) {
            put(&count.to_le_bytes());
            put(&value.to_le_bytes());
        }
    }
    at
}

/// Called in the child: says that the child gives up, and why.
pub fn refuse(trouble: Trouble, reply: &mut [u8]) -> usize {
    let told = match trouble {
        Trouble::Raised => 1,
        Trouble::TooManyGroups => 2,
        Trouble::LongText => 3,
    };
    reply[..1].fill(told);
    1
}

/// The groups as rows of these types, and the number of rows from which they were made.
pub fn read(reply: &[u8], program: &Program, types: &[Type]) -> Result<(SentRows, u64), Failure> {
    let forked = |message: String| Err(failure(FailureKind::Forked, message));
    let broken = || internal("a child's reply is not understood");
    let (told, rest) = reply.split_first().ok_or_else(broken)?;
    match told {
        0 => {}
        1 => return forked("a value in the forked process is out of range, or another error".into()),
        2 => return forked(format!("more than {} groups in the forked process", Groups::most(program))),
        3 => return forked(format!("the forked process groups by no text of more than {SHORT_TEXT} bytes")),
        _ => return Err(broken()),
    }
    let (count, rest) = rest.split_first_chunk().ok_or_else(broken)?;
    let (rows, rest) = rest.split_first_chunk().ok_or_else(broken)?;
    let (count, rows) = (u64::from_le_bytes(*count) as usize, u64::from_le_bytes(*rows));
    let size = group_bytes(program);
    if count > Groups::most(program) || rest.len() != count * size {
        return Err(broken());
    }
    let mut columns: Vec<Vec<Option<Literal>>> = types.iter().map(|_| Vec::with_capacity(count)).collect();
    for group in 0..count {
        let group = &rest[group * size..(group + 1) * size];
        let (keys, calls) = group.split_at(program.keys.len() * (1 + NUMBER));
        for ((output, ty), column) in program.output.iter().zip(types).zip(&mut columns) {
            let value = match output {
                Output::Key(at) => {
                    let key = &keys[at * (1 + NUMBER)..];
                    (key[0] != 0).then(|| number(&key[1..]))
                }
                Output::Count(at) => Some(call(calls, *at).0.into()),
                Output::Value(at) => {
                    let (count, value) = call(calls, *at);
                    if program.calls[*at].what == What::Sum && is_too_wide(*ty, value) {
                        return Err(failure(FailureKind::DecimalTooWide, FailureKind::DecimalTooWide.message()));
                    }
                    (count > 0).then_some(value)
                }
            };
            column.push(value.map(|value| literal(*ty, value)).transpose()?);
        }
    }
    Ok((SentRows { rows: count as u32, columns }, rows))
}

fn call(calls: &[u8], at: usize) -> (u64, i128) {
    let call = &calls[at * (size_of::<u64>() + NUMBER)..];
    let (count, value) = call.split_at(size_of::<u64>());
    (number(count) as u64, number(value))
}

/// The number in these bytes, or in the first sixteen of them.
fn number(bytes: &[u8]) -> i128 {
    let mut image = [0; NUMBER];
    let length = bytes.len().min(NUMBER);
    image[..length].copy_from_slice(&bytes[..length]);
    i128::from_le_bytes(image)
}

fn is_too_wide(ty: Type, value: i128) -> bool {
    matches!(ty, Type::Decimal128 { .. }) && value.unsigned_abs() >= 10_u128.pow(38)
}

/// A value as a literal of a type. A sum may be too large for the type.
fn literal(ty: Type, value: i128) -> Result<Literal, Failure> {
    match ty {
        Type::Bool => Ok(Literal::Bool(value != 0)),
        Type::Decimal128 { .. } | Type::Uuid => Ok(Literal::Decimal(value)),
        Type::Text | Type::Name | Type::Char => match text_of_number(value) {
            Some(text) => Ok(Literal::Text(text)),
            None => Err(internal("a child's reply is not understood")),
        },
        _ => match i64::try_from(value) {
            Ok(value) => Ok(Literal::Int(value)),
            Err(_) => Err(failure(FailureKind::BigintOutOfRange, FailureKind::BigintOutOfRange.message())),
        },
    }
}
