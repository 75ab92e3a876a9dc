//! The whitelist of functions that the plan calls by name, with the functions behind some operators.

use std::cmp::Ordering;

use pgrx::prelude::*;
use plan::catalogue::{self, Call};
use plan::{ArithOp, Expr, Field, Literal, Named, Type, numeric_modifier};

use super::compare::{letters_of, named_locale, require_deterministic};
use crate::pg::compat;
use crate::pg::tree::Node;
use crate::planner::translate::{Translator, Typed, boolean, cast, exact};
use crate::planner::words::reason::{Attempt, Reason, Why};

/// The oid of `reverse`. pgrx's constant is not used, because its name contains the argument's type from PostgreSQL 18
/// on.
const REVERSE: u32 = 3062;

/// The way in which the engine computes a function of PostgreSQL. Most functions become a call of an engine's function
/// with the same arguments.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Call(Named),
    /// A comparison of parts of texts by their bytes. The collation must be deterministic, because PostgreSQL raises an
    /// error otherwise.
    ByBytes(Named),
    NotLike,
    /// LIKE on a char(n), which is matched with its blanks.
    PaddedLike {
        negated: bool,
    },
    /// ILIKE, which ignores the case of letters.
    AnyCaseLike {
        negated: bool,
    },
    Regular {
        negated: bool,
        any_case: bool,
    },
    /// The part of a text that matches a regular expression.
    MatchedPart,
    Replaced,
    /// A function that depends on the upper and lower case of letters in the collation.
    Letters(Named),
    /// Rounds or cuts a numeric to a given number of digits.
    ToDigits(Named),
    /// A function of numerics.
    Numeric(Named),
    /// A cast to numeric(precision, scale).
    ToPrecision,
    /// `concat`: joins the texts of all arguments that are not null.
    Together,
    /// `concat_ws`: like `concat`, with the first argument as a delimiter between the texts.
    TogetherBy,
    /// A cast to varchar(n), which cuts longer texts.
    Cut,
    /// `to_date`: a date that is parsed by a pattern.
    DateBy,
    /// `width_bucket`: the number of the part of a range in which a numeric lies.
    Bucket,
    /// A function whose first argument names a field of its second argument.
    OfField(fn(Field) -> Named),
}

fn meaning(function: pg_sys::Oid) -> Option<Meaning> {
    use Meaning::*;
    Some(match function.to_u32() {
        pg_sys::F_TEXTLIKE | pg_sys::F_LIKE_TEXT_TEXT => ByBytes(Named::Like),
        pg_sys::F_TEXTNLIKE | pg_sys::F_NOTLIKE_TEXT_TEXT => NotLike,
        pg_sys::F_BPCHARLIKE => PaddedLike { negated: false },
        pg_sys::F_BPCHARNLIKE => PaddedLike { negated: true },
        pg_sys::F_TEXTICLIKE => AnyCaseLike { negated: false },
        pg_sys::F_TEXTICNLIKE => AnyCaseLike { negated: true },
        pg_sys::F_BPCHARICLIKE => AnyCaseLike { negated: false },
        pg_sys::F_BPCHARICNLIKE => AnyCaseLike { negated: true },
        pg_sys::F_TEXTREGEXEQ | pg_sys::F_BPCHARREGEXEQ | pg_sys::F_REGEXP_LIKE_TEXT_TEXT => {
            Regular { negated: false, any_case: false }
        }
        pg_sys::F_TEXTREGEXNE | pg_sys::F_BPCHARREGEXNE => Regular { negated: true, any_case: false },
        pg_sys::F_SUBSTRING_TEXT_TEXT => MatchedPart,
        pg_sys::F_REGEXP_REPLACE_TEXT_TEXT_TEXT | pg_sys::F_REGEXP_REPLACE_TEXT_TEXT_TEXT_TEXT => Replaced,
        pg_sys::F_TEXTICREGEXEQ | pg_sys::F_BPCHARICREGEXEQ => Regular { negated: false, any_case: true },
        pg_sys::F_TEXTICREGEXNE | pg_sys::F_BPCHARICREGEXNE => Regular { negated: true, any_case: true },
        pg_sys::F_STARTS_WITH => ByBytes(Named::StartsWith),
        pg_sys::F_LENGTH_TEXT
        | pg_sys::F_CHAR_LENGTH_TEXT
        | pg_sys::F_CHARACTER_LENGTH_TEXT
        | pg_sys::F_LENGTH_BPCHAR
        | pg_sys::F_CHAR_LENGTH_BPCHAR
        | pg_sys::F_CHARACTER_LENGTH_BPCHAR => Call(Named::Length),
        pg_sys::F_OCTET_LENGTH_TEXT => Call(Named::OctetLength),
        pg_sys::F_ASCII => Call(Named::Ascii),
        pg_sys::F_SUBSTRING_TEXT_INT4
        | pg_sys::F_SUBSTR_TEXT_INT4
        | pg_sys::F_SUBSTRING_TEXT_INT4_INT4
        | pg_sys::F_SUBSTR_TEXT_INT4_INT4 => Call(Named::Substring),
        pg_sys::F_LEFT => Call(Named::Left),
        pg_sys::F_RIGHT => Call(Named::Right),
        pg_sys::F_POSITION_TEXT_TEXT | pg_sys::F_STRPOS => ByBytes(Named::Position),
        pg_sys::F_TEXTCAT => Call(Named::Concat),
        pg_sys::F_CONCAT => Together,
        pg_sys::F_CONCAT_WS => TogetherBy,
        pg_sys::F_VARCHAR_VARCHAR_INT4_BOOL => Cut,
        pg_sys::F_ARRAY_LENGTH => Call(Named::DimensionOf),
        pg_sys::F_CARDINALITY => Call(Named::Cardinality),
        pg_sys::F_TRANSLATE => Call(Named::Translate),
        pg_sys::F_CHR => Call(Named::Chr),
        pg_sys::F_MD5_TEXT => Call(Named::Md5),
        pg_sys::F_INITCAP => Letters(Named::Initcap),
        pg_sys::F_TO_DATE => DateBy,
        pg_sys::F_REPLACE => ByBytes(Named::Replace),
        pg_sys::F_BTRIM_TEXT | pg_sys::F_BTRIM_TEXT_TEXT => Call(Named::Trim),
        pg_sys::F_LTRIM_TEXT | pg_sys::F_LTRIM_TEXT_TEXT => Call(Named::TrimLeft),
        pg_sys::F_RTRIM_TEXT | pg_sys::F_RTRIM_TEXT_TEXT => Call(Named::TrimRight),
        pg_sys::F_LPAD_TEXT_INT4_TEXT => Call(Named::PadLeft),
        pg_sys::F_RPAD_TEXT_INT4_TEXT => Call(Named::PadRight),
        pg_sys::F_REPEAT => Call(Named::Repeat),
        REVERSE => Call(Named::Reverse),
        pg_sys::F_SPLIT_PART => ByBytes(Named::SplitPart),
        pg_sys::F_UPPER_TEXT => Letters(Named::Upper),
        pg_sys::F_LOWER_TEXT => Letters(Named::Lower),
        pg_sys::F_TEXT_BPCHAR => Call(Named::CharToText),
        pg_sys::F_ABS_INT2
        | pg_sys::F_ABS_INT4
        | pg_sys::F_ABS_INT8
        | pg_sys::F_ABS_FLOAT4
        | pg_sys::F_ABS_FLOAT8
        | pg_sys::F_ABS_NUMERIC
        | pg_sys::F_INT2ABS
        | pg_sys::F_INT4ABS
        | pg_sys::F_INT8ABS
        | pg_sys::F_FLOAT4ABS
        | pg_sys::F_FLOAT8ABS
        | pg_sys::F_NUMERIC_ABS => Call(Named::Abs),
        pg_sys::F_SIGN_FLOAT8 | pg_sys::F_SIGN_NUMERIC => Call(Named::Sign),
        pg_sys::F_ROUND_FLOAT8 | pg_sys::F_DROUND => Call(Named::Round),
        pg_sys::F_CEIL_FLOAT8 | pg_sys::F_CEILING_FLOAT8 | pg_sys::F_CEIL_NUMERIC | pg_sys::F_CEILING_NUMERIC => {
            Call(Named::Ceil)
        }
        pg_sys::F_FLOOR_FLOAT8 | pg_sys::F_FLOOR_NUMERIC => Call(Named::Floor),
        pg_sys::F_TRUNC_FLOAT8 | pg_sys::F_DTRUNC => Call(Named::Trunc),
        pg_sys::F_SQRT_FLOAT8 | pg_sys::F_DSQRT => Call(Named::Sqrt),
        pg_sys::F_EXP_FLOAT8 | pg_sys::F_DEXP => Call(Named::Exp),
        pg_sys::F_LN_FLOAT8 | pg_sys::F_DLOG1 => Call(Named::Ln),
        pg_sys::F_LOG_FLOAT8 | pg_sys::F_LOG10_FLOAT8 | pg_sys::F_DLOG10 => Call(Named::Log),
        pg_sys::F_CBRT | pg_sys::F_DCBRT => Call(Named::Cbrt),
        pg_sys::F_SIN => Call(Named::Sin),
        pg_sys::F_COS => Call(Named::Cos),
        pg_sys::F_TAN => Call(Named::Tan),
        pg_sys::F_ASIN => Call(Named::Asin),
        pg_sys::F_ACOS => Call(Named::Acos),
        pg_sys::F_ATAN => Call(Named::Atan),
        pg_sys::F_ATAN2 => Call(Named::Atan2),
        pg_sys::F_RADIANS => Call(Named::Radians),
        pg_sys::F_DEGREES => Call(Named::Degrees),
        pg_sys::F_POW_FLOAT8_FLOAT8 | pg_sys::F_POWER_FLOAT8_FLOAT8 | pg_sys::F_DPOW => Call(Named::Power),
        pg_sys::F_SQRT_NUMERIC | pg_sys::F_NUMERIC_SQRT => Numeric(Named::Sqrt),
        pg_sys::F_EXP_NUMERIC | pg_sys::F_NUMERIC_EXP => Numeric(Named::Exp),
        pg_sys::F_LN_NUMERIC | pg_sys::F_NUMERIC_LN => Numeric(Named::Ln),
        pg_sys::F_LOG_NUMERIC_NUMERIC | pg_sys::F_NUMERIC_LOG => Numeric(Named::Log),
        pg_sys::F_POW_NUMERIC_NUMERIC | pg_sys::F_POWER_NUMERIC_NUMERIC | pg_sys::F_NUMERIC_POWER => {
            Numeric(compat::POWER_OF_NUMERICS)
        }
        pg_sys::F_ROUND_NUMERIC_INT4 => ToDigits(Named::Round),
        pg_sys::F_TRUNC_NUMERIC_INT4 => ToDigits(Named::Trunc),
        pg_sys::F_DIV => Numeric(Named::WholeQuotient),
        pg_sys::F_TRIM_SCALE => Numeric(Named::Trimmed),
        pg_sys::F_NUMERIC_NUMERIC_INT4 => ToPrecision,
        pg_sys::F_INT2AND | pg_sys::F_INT4AND | pg_sys::F_INT8AND => Call(Named::BitAnd),
        pg_sys::F_INT2OR | pg_sys::F_INT4OR | pg_sys::F_INT8OR => Call(Named::BitOr),
        pg_sys::F_INT2XOR | pg_sys::F_INT4XOR | pg_sys::F_INT8XOR => Call(Named::BitXor),
        pg_sys::F_INT2NOT | pg_sys::F_INT4NOT | pg_sys::F_INT8NOT => Call(Named::BitNot),
        pg_sys::F_INT2SHL | pg_sys::F_INT4SHL | pg_sys::F_INT8SHL => Call(Named::ShiftLeft),
        pg_sys::F_INT2SHR | pg_sys::F_INT4SHR | pg_sys::F_INT8SHR => Call(Named::ShiftRight),
        pg_sys::F_INT2_INT4
        | pg_sys::F_INT2_INT8
        | pg_sys::F_INT2_FLOAT4
        | pg_sys::F_INT2_FLOAT8
        | pg_sys::F_INT2_NUMERIC => Call(Named::ToInt16),
        pg_sys::F_INT4_INT8
        | pg_sys::F_INT4_FLOAT4
        | pg_sys::F_INT4_FLOAT8
        | pg_sys::F_INT4_NUMERIC
        | pg_sys::F_INT4_BOOL => Call(Named::ToInt32),
        pg_sys::F_INT8_FLOAT4 | pg_sys::F_INT8_FLOAT8 | pg_sys::F_INT8_NUMERIC => Call(Named::ToInt64),
        pg_sys::F_FLOAT8_NUMERIC => Call(Named::ToFloat),
        pg_sys::F_NUMERIC_FLOAT4 | pg_sys::F_NUMERIC_FLOAT8 => Call(Named::ToNumeric),
        pg_sys::F_TEXT_BOOL => Call(Named::ToText),
        pg_sys::F_BOOL_INT4 => Call(Named::ToBool),
        pg_sys::F_EXTRACT_TEXT_DATE | pg_sys::F_EXTRACT_TEXT_TIMESTAMP => OfField(Named::Extract),
        pg_sys::F_DATE_PART_TEXT_TIMESTAMP => OfField(Named::DatePart),
        pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMP => OfField(Named::DateTrunc),
        pg_sys::F_DATE_TIMESTAMP => Call(Named::TimestampToDate),
        pg_sys::F_TIME_TIMESTAMP => Call(Named::TimestampToTime),
        pg_sys::F_TO_TIMESTAMP_FLOAT8 => Call(Named::FromEpoch),
        pg_sys::F_WIDTH_BUCKET_NUMERIC_NUMERIC_NUMERIC_INT4 => Bucket,
        _ => return None,
    })
}

impl<'a> Translator<'a> {
    /// Translates a call; `None` if the function is not on the whitelist.
    pub fn named(
        &mut self,
        function: pg_sys::Oid,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Option<Attempt<Typed>> {
        let meaning = meaning(function)?;
        Some(self.call_named(meaning, collation, arguments, reason))
    }

    fn call_named(
        &mut self,
        meaning: Meaning,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        let mut args = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let arg = self.expression(*argument)?;
            args.push(self.shown(arg)?);
        }
        match meaning {
            // PostgreSQL's minor versions differ in what `right` does with the smallest integer.
            Meaning::Call(Named::Right) if !is_usual_number(args.get(1)) => {
                Err(Why::Function.of(format!("{} of a number of characters that is not constant", reason())))
            }
            Meaning::Call(function) => apply(function, args).ok_or_else(reason),
            Meaning::Together => self.together(arguments, args, None).ok_or_else(reason),
            Meaning::TogetherBy => {
                let delimiter = args.remove(0);
                self.together(&arguments[1..], args, Some(delimiter)).ok_or_else(reason)
            }
            Meaning::Cut => {
                let number = |at: usize| match &args[at].expr {
                    Expr::Literal { value: Some(Literal::Int(number)), .. } => Some(*number),
                    Expr::Literal { value: Some(Literal::Bool(truth)), .. } => Some(i64::from(*truth)),
                    _ => None,
                };
                // An implicit cast raises an error instead of cutting a longer text, so only explicit casts are
                // translated.
                let length = number(1).zip(number(2)).filter(|(_, explicit)| *explicit == 1).map(|(length, _)| length);
                let length = length.map(|length| length - pg_sys::VARHDRSZ as i64).filter(|length| *length > 0);
                let length = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(length.ok_or_else(&reason)?)) };
                args.truncate(1);
                args.push(exact(length, Type::Int32));
                apply(Named::Left, args).ok_or_else(reason)
            }
            Meaning::DateBy => {
                let pattern = args.pop().map(|pattern| pattern.expr);
                let Some(Expr::Literal { value: Some(Literal::Text(pattern)), .. }) = pattern else {
                    return Err(reason());
                };
                // The engine knows only this pattern.
                match pattern.eq_ignore_ascii_case("YYYY-MM-DD") {
                    true => apply(Named::ReadDate, args).ok_or_else(reason),
                    false => Err(reason().and(format!(" with pattern \"{pattern}\""))),
                }
            }
            Meaning::Bucket => self.bucket(args, reason),
            Meaning::ToDigits(function) => {
                if let Some(decimal) = to_digits(function, &args) {
                    return Ok(decimal);
                }
                let is_whole = matches!(args[1].expr, Expr::Literal { value: Some(Literal::Int(0)), .. });
                if is_whole && args[0].ty != Type::Numeric {
                    args.truncate(1);
                } else {
                    args[0] = self.numeric(args[0].clone())?;
                }
                apply(function, args).ok_or_else(reason)
            }
            Meaning::Numeric(function) => {
                let args = args.into_iter().map(|arg| self.numeric(arg)).collect::<Attempt<_>>()?;
                apply(function, args).ok_or_else(reason)
            }
            Meaning::ToPrecision => {
                let modifier = match args[1].expr {
                    Expr::Literal { value: Some(Literal::Int(modifier)), .. } => numeric_modifier(modifier as i32),
                    _ => return Err(reason()),
                };
                args[0] = self.numeric(args[0].clone())?;
                let fitted = apply(Named::Fitted, args).ok_or_else(&reason)?;
                Ok(match modifier {
                    Some((1..=38, scale @ 0..=38)) => {
                        let ty = Type::Decimal128 { scale: scale as u8 };
                        exact(cast(fitted, ty), ty)
                    }
                    _ => fitted,
                })
            }
            Meaning::OfField(function) => {
                let name = args.drain(..args.len().min(1)).next().map(|name| name.expr);
                let Some(Expr::Literal { value: Some(Literal::Text(name)), .. }) = name else {
                    return Err(reason());
                };
                let field = field(&name).ok_or_else(|| reason().and(format!(" of \"{name}\"")))?;
                apply(function(field), args).ok_or_else(|| reason().and(format!(" of \"{name}\"")))
            }
            Meaning::ByBytes(function) => {
                require_deterministic(collation)?;
                apply(function, args).ok_or_else(reason)
            }
            Meaning::NotLike => {
                require_deterministic(collation)?;
                apply(Named::Like, args).map(negation).ok_or_else(reason)
            }
            Meaning::PaddedLike { negated } => {
                require_deterministic(collation)?;
                self.pad_first(arguments, &mut args)?;
                let like = apply(Named::Like, args).ok_or_else(reason)?;
                Ok(if negated { negation(like) } else { like })
            }
            Meaning::AnyCaseLike { negated } => {
                let like = self.like_in_any_case(collation, arguments, args, reason)?;
                Ok(if negated { negation(like) } else { like })
            }
            Meaning::Regular { negated, any_case } => {
                let matches = self.regular(any_case, collation, arguments, args, reason)?;
                Ok(if negated { negation(matches) } else { matches })
            }
            Meaning::MatchedPart => self.matched_part(collation, args, reason),
            Meaning::Replaced => self.replaced(collation, args, reason),
            Meaning::Letters(function) => {
                let Some(locale) = letters_of(collation)? else { return apply(function, args).ok_or_else(reason) };
                let in_locale = match function {
                    Named::Upper => Named::UpperIn,
                    Named::Initcap => Named::InitcapIn,
                    _ => Named::LowerIn,
                };
                args.push(exact(named_locale(&locale), Type::Text));
                apply(in_locale, args).ok_or_else(reason)
            }
        }
    }

    /// Joins the texts of all arguments that are not null, with `delimiter` between them. `None` if the engine cannot
    /// print one of the arguments.
    fn together(&mut self, nodes: &[Node<'a>], args: Vec<Typed>, delimiter: Option<Typed>) -> Option<Typed> {
        let empty = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(String::new())) };
        let mut all = exact(empty.clone(), Type::Text);
        for (node, arg) in nodes.iter().zip(args) {
            let text = match arg.ty {
                Type::Text => arg,
                Type::Char => self.padded(*node, arg)?,
                // `concat` writes a boolean as `t` or `f`, unlike a cast to text.
                Type::Bool => return None,
                _ => self.as_text(arg, node.sql_type())?,
            };
            let text = match &delimiter {
                None => text,
                Some(delimiter) => apply(Named::Concat, vec![delimiter.clone(), text])?,
            };
            let present = exact(Expr::Coalesce(vec![text.expr, empty.clone()]), Type::Text);
            all = apply(Named::Concat, vec![all, present])?;
        }
        let Some(delimiter) = delimiter else { return Some(all) };
        // Each text has a delimiter in front of it, so the first delimiter is cut off.
        let length = apply(Named::Length, vec![delimiter])?;
        let one = Box::new(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(1)) });
        let behind = Expr::Arith { op: ArithOp::Add, ty: Type::Int32, left: Box::new(length.expr), right: one };
        apply(Named::Substring, vec![all, exact(behind, Type::Int32)])
    }

    /// A char(n) as a text with its blanks.
    pub fn padded(&self, node: Node<'a>, arg: Typed) -> Option<Typed> {
        let length = self.char_length(node)?;
        let integer = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(length.into())) };
        let blank = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(" ".into())) };
        let text = apply(Named::CharToText, vec![arg])?;
        apply(Named::PadRight, vec![text, exact(integer, Type::Int32), exact(blank, Type::Text)])
    }
}

/// The field with this name, in the parser's spelling. PostgreSQL knows more names.
pub fn field(name: &str) -> Option<Field> {
    Some(match name {
        "millennium" => Field::Millennium,
        "century" => Field::Century,
        "decade" => Field::Decade,
        "year" => Field::Year,
        "isoyear" => Field::IsoYear,
        "quarter" => Field::Quarter,
        "month" => Field::Month,
        "week" => Field::Week,
        "day" => Field::Day,
        "doy" => Field::DayOfYear,
        "dow" => Field::DayOfWeek,
        "isodow" => Field::IsoDayOfWeek,
        "hour" => Field::Hour,
        "minute" => Field::Minute,
        "second" => Field::Second,
        "milliseconds" => Field::Milliseconds,
        "microseconds" => Field::Microseconds,
        "epoch" => Field::Epoch,
        "julian" => Field::Julian,
        _ => return None,
    })
}

/// A call of the engine's function; `None` if the function does not take these arguments.
pub fn apply(function: Named, args: Vec<Typed>) -> Option<Typed> {
    if args.iter().any(|arg| !arg.has_exact_scale()) {
        return None;
    }
    let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
    let ty = catalogue::result_type(Call::Named(function), &types)?;
    let args = args.into_iter().map(|arg| arg.expr).collect();
    Some(exact(Expr::Call { function, ty, args }, ty))
}

/// The decimal that results from rounding or cutting a decimal to a constant number of digits. `None` if the result may
/// not fit a decimal, or if the argument is no decimal.
fn to_digits(function: Named, args: &[Typed]) -> Option<Typed> {
    let [value, Typed { expr: Expr::Literal { value: Some(Literal::Int(digits)), .. }, .. }] = args else {
        return None;
    };
    let digits = u8::try_from(*digits).ok().filter(|digits| *digits > 0)?;
    let (ty, zero) = match value.ty {
        Type::Decimal64 { .. } => (Type::Decimal64 { scale: digits }, Literal::Int(0)),
        Type::Decimal128 { .. } => (Type::Decimal128 { scale: digits }, Literal::Decimal(0)),
        _ => return None,
    };
    match digits.cmp(&value.ty.scale()) {
        Ordering::Less => {
            let shown_like = exact(Expr::Literal { ty, value: Some(zero) }, ty);
            apply(function, vec![value.clone(), shown_like])
        }
        Ordering::Equal => value.has_exact_scale().then(|| value.clone()),
        Ordering::Greater => None,
    }
}

pub fn negation(condition: Typed) -> Typed {
    boolean(Expr::Not(Box::new(condition.expr)))
}

/// Whether the argument is a constant greater than the smallest integer.
fn is_usual_number(argument: Option<&Typed>) -> bool {
    let constant = argument.map(|argument| &argument.expr);
    matches!(constant, Some(Expr::Literal { value: Some(Literal::Int(n)), .. }) if *n > i32::MIN.into())
}
