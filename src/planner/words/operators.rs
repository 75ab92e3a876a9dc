//! The whitelist: the operators, functions and aggregates whose results in the engine are PostgreSQL's, bit for bit.

use pgrx::prelude::*;
use plan::catalogue::{Aggregate, BitAgg, Extreme, FloatAgg, PairAgg, Spread};
use plan::{ArithOp, CmpOp, Listing, Type};

use crate::pg::tree::Node;
use crate::pg::types::family::{DATETIME, FLOAT, INTEGER, NUMERIC, TEXT};
use crate::pg::{catalog, compat, types};

// Operator families of types that the engine can compare only for equality, because it knows only that equal values
// have equal bytes.
const BIT_FAMILY: u32 = 423;
const CHAR_FAMILY: u32 = 429;
const LSN_FAMILY: u32 = 3253;
const MACADDR_FAMILY: u32 = 1984;
const MACADDR8_FAMILY: u32 = 3371;
const MONEY_FAMILY: u32 = 2099;
const NETWORK_FAMILY: u32 = 1974;
const VARBIT_FAMILY: u32 = 2002;

// pgrx gives the type Oid to every constant with "oid" in its name, and so also to the oid of this function.
const INT8_OID: u32 = pg_sys::F_INT8_OID.to_u32();

/// The operator family and the kind of a comparison; `None` if the operator is no comparison that the engine knows.
pub fn comparison(operator: pg_sys::Oid) -> Option<(u32, CmpOp)> {
    // Users may add operators with any meaning to a family, so only the server's own operators count.
    if operator.to_u32() >= pg_sys::FirstNormalObjectId {
        return None;
    }
    catalog::meanings_of_operator(operator).into_iter().find_map(|(family, strategy)| {
        let op = match strategy {
            pg_sys::BTLessStrategyNumber => CmpOp::Lt,
            pg_sys::BTLessEqualStrategyNumber => CmpOp::Le,
            pg_sys::BTEqualStrategyNumber => CmpOp::Eq,
            pg_sys::BTGreaterEqualStrategyNumber => CmpOp::Ge,
            pg_sys::BTGreaterStrategyNumber => CmpOp::Gt,
            compat::NOT_EQUAL => CmpOp::Ne,
            _ => return None,
        };
        let family = family.to_u32();
        is_known(family).then_some((family, op))
    })
}

fn is_known(family: u32) -> bool {
    types::has_family(family) || has_one_image(family)
}

/// Whether values of a family are equal if and only if their bytes are equal.
fn has_one_image(family: u32) -> bool {
    matches!(
        family,
        BIT_FAMILY
            | CHAR_FAMILY
            | LSN_FAMILY
            | MACADDR_FAMILY
            | MACADDR8_FAMILY
            | MONEY_FAMILY
            | NETWORK_FAMILY
            | VARBIT_FAMILY
    )
}

/// The types to which the two sides of a comparison are converted. Decimals keep their own types, because they are
/// compared by value.
pub fn common_type(family: u32, left: Type, right: Type) -> Option<(Type, Type)> {
    use Type::*;
    let both = |ty| Some((ty, ty));
    match (family, left, right) {
        (INTEGER, Int16 | Int32 | Int64, Int16 | Int32 | Int64) => both(wider(left, right)),
        (NUMERIC, Decimal64 { .. } | Decimal128 { .. }, Decimal64 { .. } | Decimal128 { .. }) => Some((left, right)),
        (FLOAT, Float32, Float32) => both(Float32),
        (FLOAT, Float32 | Float64, Float32 | Float64) => both(Float64),
        (DATETIME, Date, Date) => both(Date),
        (DATETIME, Date | Timestamp, Date | Timestamp) => both(Timestamp),
        (DATETIME, Date | Timestamp | TimestampTz, Date | Timestamp | TimestampTz) => both(TimestampTz),
        (TEXT, Name, Name) => both(Name),
        (TEXT, Text | Name, Text | Name) => both(Text),
        (family, Opaque, Opaque) if has_one_image(family) => both(Opaque),
        (family, left, right) if left == right && types::family_of(left) == Some(family) => both(left),
        _ => None,
    }
}

fn wider(a: Type, b: Type) -> Type {
    if a.slot_bytes() >= b.slot_bytes() { a } else { b }
}

/// The way in which the engine computes the function of an operator or a cast.
#[derive(Clone, Copy, Debug)]
pub enum Called {
    /// Arithmetic. If a type is given, both operands are first converted to it.
    Arith(ArithOp, Option<Type>),
    Negate,
    CastTo(Type),
}

pub fn function(oid: pg_sys::Oid) -> Option<Called> {
    use ArithOp::*;
    use Called::*;
    use Type::*;
    let integer = |op, ty| Arith(op, Some(ty));
    Some(match oid.to_u32() {
        pg_sys::F_INT2PL => integer(Add, Int16),
        pg_sys::F_INT2MI => integer(Sub, Int16),
        pg_sys::F_INT2MUL => integer(Mul, Int16),
        pg_sys::F_INT2DIV => integer(Div, Int16),
        pg_sys::F_INT2MOD | pg_sys::F_MOD_INT2_INT2 => integer(Mod, Int16),
        pg_sys::F_INT4PL | pg_sys::F_INT24PL | pg_sys::F_INT42PL => integer(Add, Int32),
        pg_sys::F_INT4MI | pg_sys::F_INT24MI | pg_sys::F_INT42MI => integer(Sub, Int32),
        pg_sys::F_INT4MUL | pg_sys::F_INT24MUL | pg_sys::F_INT42MUL => integer(Mul, Int32),
        pg_sys::F_INT4DIV | pg_sys::F_INT24DIV | pg_sys::F_INT42DIV => integer(Div, Int32),
        pg_sys::F_INT4MOD | pg_sys::F_MOD_INT4_INT4 => integer(Mod, Int32),
        pg_sys::F_INT8PL | pg_sys::F_INT48PL | pg_sys::F_INT84PL | pg_sys::F_INT28PL | pg_sys::F_INT82PL => {
            integer(Add, Int64)
        }
        pg_sys::F_INT8MI | pg_sys::F_INT48MI | pg_sys::F_INT84MI | pg_sys::F_INT28MI | pg_sys::F_INT82MI => {
            integer(Sub, Int64)
        }
        pg_sys::F_INT8MUL | pg_sys::F_INT48MUL | pg_sys::F_INT84MUL | pg_sys::F_INT28MUL | pg_sys::F_INT82MUL => {
            integer(Mul, Int64)
        }
        pg_sys::F_INT8DIV | pg_sys::F_INT48DIV | pg_sys::F_INT84DIV | pg_sys::F_INT28DIV | pg_sys::F_INT82DIV => {
            integer(Div, Int64)
        }
        pg_sys::F_INT8MOD | pg_sys::F_MOD_INT8_INT8 => integer(Mod, Int64),
        pg_sys::F_NUMERIC_ADD => Arith(Add, None),
        pg_sys::F_NUMERIC_SUB => Arith(Sub, None),
        pg_sys::F_NUMERIC_MUL => Arith(Mul, None),
        pg_sys::F_NUMERIC_DIV => Arith(Div, None),
        pg_sys::F_NUMERIC_MOD | pg_sys::F_MOD_NUMERIC_NUMERIC => Arith(Mod, None),
        pg_sys::F_FLOAT4PL => Arith(Add, Some(Float32)),
        pg_sys::F_FLOAT4MI => Arith(Sub, Some(Float32)),
        pg_sys::F_FLOAT4MUL => Arith(Mul, Some(Float32)),
        pg_sys::F_FLOAT4DIV => Arith(Div, Some(Float32)),
        pg_sys::F_FLOAT8PL | pg_sys::F_FLOAT48PL | pg_sys::F_FLOAT84PL => Arith(Add, Some(Float64)),
        pg_sys::F_FLOAT8MI | pg_sys::F_FLOAT48MI | pg_sys::F_FLOAT84MI => Arith(Sub, Some(Float64)),
        pg_sys::F_FLOAT8MUL | pg_sys::F_FLOAT48MUL | pg_sys::F_FLOAT84MUL => Arith(Mul, Some(Float64)),
        pg_sys::F_FLOAT8DIV | pg_sys::F_FLOAT48DIV | pg_sys::F_FLOAT84DIV => Arith(Div, Some(Float64)),
        pg_sys::F_DATE_PLI => Arith(Add, None),
        pg_sys::F_DATE_MII => Arith(Sub, None),
        pg_sys::F_DATE_MI => Arith(Sub, None),
        pg_sys::F_TIMESTAMP_MI | pg_sys::F_TIMESTAMPTZ_MI | pg_sys::F_TIME_MI_TIME => Arith(Sub, None),
        pg_sys::F_INTERVAL_PL | pg_sys::F_TIME_PL_INTERVAL | pg_sys::F_INTERVAL_PL_TIME => Arith(Add, None),
        pg_sys::F_INTERVAL_MI | pg_sys::F_TIME_MI_INTERVAL => Arith(Sub, None),
        pg_sys::F_INTERVAL_MUL | pg_sys::F_MUL_D_INTERVAL => Arith(Mul, None),
        pg_sys::F_INTERVAL_DIV => Arith(Div, None),
        pg_sys::F_INT2UM
        | pg_sys::F_INT4UM
        | pg_sys::F_INT8UM
        | pg_sys::F_FLOAT4UM
        | pg_sys::F_FLOAT8UM
        | pg_sys::F_INTERVAL_UM
        | pg_sys::F_NUMERIC_UMINUS => Negate,
        pg_sys::F_INT4_INT2 => CastTo(Int32),
        pg_sys::F_INT8_INT2 | pg_sys::F_INT8_INT4 | INT8_OID => CastTo(Int64),
        pg_sys::F_FLOAT4_INT2 | pg_sys::F_FLOAT4_INT4 | pg_sys::F_FLOAT4_INT8 | pg_sys::F_FLOAT4_FLOAT8 => {
            CastTo(Float32)
        }
        pg_sys::F_FLOAT8_INT2 | pg_sys::F_FLOAT8_INT4 | pg_sys::F_FLOAT8_INT8 | pg_sys::F_FLOAT8_FLOAT4 => {
            CastTo(Float64)
        }
        pg_sys::F_TEXT_NAME => CastTo(Text),
        pg_sys::F_NUMERIC_INT2 | pg_sys::F_NUMERIC_INT4 | pg_sys::F_NUMERIC_INT8 => CastTo(Decimal128 { scale: 0 }),
        pg_sys::F_TIMESTAMP_DATE => CastTo(Timestamp),
        _ => return None,
    })
}

pub fn aggregate(oid: pg_sys::Oid) -> Option<Aggregate> {
    Some(match oid.to_u32() {
        pg_sys::F_COUNT_ => Aggregate::CountStar,
        pg_sys::F_COUNT_ANY | pg_sys::F_REGR_COUNT => Aggregate::Count,
        pg_sys::F_SUM_INT2
        | pg_sys::F_SUM_INT4
        | pg_sys::F_SUM_INT8
        | pg_sys::F_SUM_NUMERIC
        | pg_sys::F_SUM_INTERVAL => Aggregate::Sum,
        pg_sys::F_AVG_INT2
        | pg_sys::F_AVG_INT4
        | pg_sys::F_AVG_INT8
        | pg_sys::F_AVG_NUMERIC
        | pg_sys::F_AVG_INTERVAL => Aggregate::Avg,
        pg_sys::F_SUM_FLOAT8 => Aggregate::Float(FloatAgg::Sum),
        pg_sys::F_AVG_FLOAT4 | pg_sys::F_AVG_FLOAT8 => Aggregate::Float(FloatAgg::Avg),
        pg_sys::F_CORR => Aggregate::Pair(PairAgg::Corr),
        pg_sys::F_COVAR_POP => Aggregate::Pair(PairAgg::CovarPop),
        pg_sys::F_COVAR_SAMP => Aggregate::Pair(PairAgg::CovarSamp),
        pg_sys::F_REGR_AVGX => Aggregate::Pair(PairAgg::AvgX),
        pg_sys::F_REGR_AVGY => Aggregate::Pair(PairAgg::AvgY),
        pg_sys::F_REGR_INTERCEPT => Aggregate::Pair(PairAgg::Intercept),
        pg_sys::F_REGR_R2 => Aggregate::Pair(PairAgg::R2),
        pg_sys::F_REGR_SLOPE => Aggregate::Pair(PairAgg::Slope),
        pg_sys::F_REGR_SXX => Aggregate::Pair(PairAgg::Sxx),
        pg_sys::F_REGR_SXY => Aggregate::Pair(PairAgg::Sxy),
        pg_sys::F_REGR_SYY => Aggregate::Pair(PairAgg::Syy),
        pg_sys::F_BOOL_AND | pg_sys::F_EVERY => Aggregate::Bits(BitAgg::BoolAnd),
        pg_sys::F_BOOL_OR => Aggregate::Bits(BitAgg::BoolOr),
        pg_sys::F_BIT_AND_INT2 | pg_sys::F_BIT_AND_INT4 | pg_sys::F_BIT_AND_INT8 => Aggregate::Bits(BitAgg::And),
        pg_sys::F_BIT_OR_INT2 | pg_sys::F_BIT_OR_INT4 | pg_sys::F_BIT_OR_INT8 => Aggregate::Bits(BitAgg::Or),
        pg_sys::F_BIT_XOR_INT2 | pg_sys::F_BIT_XOR_INT4 | pg_sys::F_BIT_XOR_INT8 => Aggregate::Bits(BitAgg::Xor),
        function => {
            if let Some(extreme) = types::extreme(function) {
                return Some(match extreme {
                    Extreme::Min => Aggregate::Min,
                    Extreme::Max => Aggregate::Max,
                });
            }
            let (spread, of_floats) = spread(oid)?;
            if of_floats { Aggregate::Float(FloatAgg::Spread(spread)) } else { Aggregate::Spread }
        }
    })
}

/// The aggregate over an ordered list of values that has this oid.
pub fn listing(oid: pg_sys::Oid) -> Option<Listing> {
    Some(match oid.to_u32() {
        pg_sys::F_STRING_AGG_TEXT_TEXT | pg_sys::F_STRING_AGG_BYTEA_BYTEA => Listing::Joined,
        pg_sys::F_ARRAY_AGG_ANYNONARRAY => Listing::Array,
        pg_sys::F_PERCENTILE_DISC_FLOAT8_ANYELEMENT => Listing::Discrete,
        pg_sys::F_PERCENTILE_CONT_FLOAT8_FLOAT8 | pg_sys::F_PERCENTILE_CONT_FLOAT8_INTERVAL => Listing::Continuous,
        pg_sys::F_MODE => Listing::Mode,
        _ => return None,
    })
}

/// The variance or standard deviation that has this oid, and whether its arguments are floats.
pub fn spread(oid: pg_sys::Oid) -> Option<(Spread, bool)> {
    Some(match oid.to_u32() {
        pg_sys::F_VAR_POP_FLOAT4 | pg_sys::F_VAR_POP_FLOAT8 => (Spread::VarPop, true),
        pg_sys::F_VAR_SAMP_FLOAT4
        | pg_sys::F_VAR_SAMP_FLOAT8
        | pg_sys::F_VARIANCE_FLOAT4
        | pg_sys::F_VARIANCE_FLOAT8 => (Spread::VarSamp, true),
        pg_sys::F_STDDEV_POP_FLOAT4 | pg_sys::F_STDDEV_POP_FLOAT8 => (Spread::StddevPop, true),
        pg_sys::F_STDDEV_SAMP_FLOAT4
        | pg_sys::F_STDDEV_SAMP_FLOAT8
        | pg_sys::F_STDDEV_FLOAT4
        | pg_sys::F_STDDEV_FLOAT8 => (Spread::StddevSamp, true),
        pg_sys::F_VAR_POP_INT2 | pg_sys::F_VAR_POP_INT4 | pg_sys::F_VAR_POP_INT8 | pg_sys::F_VAR_POP_NUMERIC => {
            (Spread::VarPop, false)
        }
        pg_sys::F_VAR_SAMP_INT2
        | pg_sys::F_VAR_SAMP_INT4
        | pg_sys::F_VAR_SAMP_INT8
        | pg_sys::F_VAR_SAMP_NUMERIC
        | pg_sys::F_VARIANCE_INT2
        | pg_sys::F_VARIANCE_INT4
        | pg_sys::F_VARIANCE_INT8
        | pg_sys::F_VARIANCE_NUMERIC => (Spread::VarSamp, false),
        pg_sys::F_STDDEV_POP_INT2
        | pg_sys::F_STDDEV_POP_INT4
        | pg_sys::F_STDDEV_POP_INT8
        | pg_sys::F_STDDEV_POP_NUMERIC => (Spread::StddevPop, false),
        pg_sys::F_STDDEV_SAMP_INT2
        | pg_sys::F_STDDEV_SAMP_INT4
        | pg_sys::F_STDDEV_SAMP_INT8
        | pg_sys::F_STDDEV_SAMP_NUMERIC
        | pg_sys::F_STDDEV_INT2
        | pg_sys::F_STDDEV_INT4
        | pg_sys::F_STDDEV_INT8
        | pg_sys::F_STDDEV_NUMERIC => (Spread::StddevSamp, false),
        _ => return None,
    })
}

/// Whether an aggregate is not on the whitelist because its result depends on the order of rows: a sum of reals is
/// rounded to a real after each value.
pub fn depends_on_row_order(oid: pg_sys::Oid) -> bool {
    oid.to_u32() == pg_sys::F_SUM_FLOAT4
}

/// Whether a node calls a function whose result depends on how a value is stored, and not only on the value.
pub fn looks_at_storage(node: Node<'_>) -> bool {
    let call = node.cast::<pg_sys::FuncExpr>().map(|call| call.funcid.to_u32());
    matches!(call, Some(pg_sys::F_PG_COLUMN_SIZE | pg_sys::F_PG_COLUMN_COMPRESSION))
}
