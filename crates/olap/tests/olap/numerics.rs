//! Reference functions that convert numerics. The arithmetic is not tested here, because `anker_numeric` has its own
//! tests against PostgreSQL's results.

use numeric::{Numeric, Total};
use plan::{ArithOp, Literal, Named, Type};

use crate::interpreter::{Raised, decimal};
use crate::table::Value;

pub fn literal(value: &Numeric) -> Literal {
    let mut key = Vec::new();
    value.write_key(&mut key);
    Literal::Bytes(key)
}

fn of(value: &Literal) -> Numeric {
    match value {
        Literal::Bytes(key) => Numeric::from_key(key).unwrap(),
        other => panic!("{other:?} is no numeric"),
    }
}

fn checked(result: Result<Numeric, numeric::Error>) -> Result<Literal, Raised> {
    result.map(|value| literal(&value)).map_err(|_| Raised)
}

pub fn arithmetic(op: ArithOp, left: &Literal, right: &Literal) -> Result<Literal, Raised> {
    let (left, right) = (of(left), of(right));
    checked(match op {
        ArithOp::Add => left.add(&right),
        ArithOp::Sub => left.sub(&right),
        ArithOp::Mul => left.mul(&right),
        ArithOp::Div => left.div(&right),
        ArithOp::Mod => left.rem(&right),
    })
}

pub fn negated(value: &Literal) -> Literal {
    literal(&of(value).neg())
}

/// The numeric with the value of an integer or decimal.
pub fn from_number(value: &Literal, from: Type) -> Literal {
    literal(&Numeric::from_decimal(decimal(value).unwrap(), from.scale()))
}

pub fn to_decimal(value: &Literal, to: Type) -> Result<Literal, Raised> {
    of(value).to_decimal(to.scale()).map(Literal::Decimal).ok_or(Raised)
}

pub fn knows(types: &[Type]) -> bool {
    types[0] == Type::Numeric
}

pub fn call(function: Named, args: &[Value]) -> Result<Literal, Raised> {
    let value = of(args[0].as_ref().unwrap());
    let digits = || match args[1] {
        Some(Literal::Int(digits)) => digits as i32,
        _ => panic!("{function:?} of {args:?}"),
    };
    let integer = |min: i64, max: i64| {
        let integer = value.to_i64().filter(|integer| (min..=max).contains(integer));
        integer.map(Literal::Int).ok_or(Raised)
    };
    match function {
        Named::Abs => Ok(literal(&value.abs())),
        Named::Sign => Ok(literal(&value.sign())),
        Named::Ceil => checked(value.ceil().checked()),
        Named::Floor => checked(value.floor().checked()),
        Named::Trimmed => Ok(literal(&value.trimmed())),
        Named::Round => checked(value.round(digits()).checked()),
        Named::Trunc => Ok(literal(&value.trunc(digits()))),
        Named::WholeQuotient => checked(value.div_trunc(&of(args[1].as_ref().unwrap()))),
        Named::Sqrt => checked(value.sqrt()),
        Named::Ln => checked(value.ln()),
        Named::ToText => Ok(Literal::Text(value.to_string())),
        Named::ToInt16 => integer(i16::MIN.into(), i16::MAX.into()),
        Named::ToInt32 => integer(i32::MIN.into(), i32::MAX.into()),
        Named::ToInt64 => integer(i64::MIN, i64::MAX),
        Named::ToFloat => value.to_f64().map(Literal::Float).ok_or(Raised),
        other => panic!("{other:?} of a numeric"),
    }
}

/// The sum; null if there are no values.
pub fn sum(values: &[Literal]) -> Result<Value, Raised> {
    let mut total = Total::default();
    values.iter().for_each(|value| total.add(&of(value)));
    total.sum().map(checked).transpose()
}
