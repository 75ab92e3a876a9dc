//! The program of a child. Each step fills a register with a value for each row of a chunk.

use std::collections::HashMap;

use colstore::{LONG_TEXT, SHORT_TEXT, number_of_text};
use plan::catalogue::Kind;
use plan::{Agg, Aggregation, ArithOp, BoolOp, CmpOp, ColumnId, Expr, Literal, Physical, Plan, Rel, Type};

/// A register, by the position in [`Program::steps`] of the step that fills it.
pub type Register = usize;

/// The greatest number of registers, which limits the memory of a child.
const MOST_REGISTERS: usize = 64;

/// The range of all numbers.
const ANY: (i128, i128) = (i128::MIN, i128::MAX);
const DIGITS: &str = "a number of too many digits";

#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The table's columns, in the order in which steps refer to them.
    pub columns: Vec<usize>,
    pub steps: Vec<Step>,
    /// The conditions, which must all be true.
    pub conditions: Vec<Register>,
    pub keys: Vec<Key>,
    pub calls: Vec<Call>,
    /// The columns of the groups that the child returns.
    pub output: Vec<Output>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A column, by its position in [`Program::columns`].
    Column(usize),
    Constant(Option<i128>),
    /// A multiplication by a power of ten; a result outside of the range is an error.
    Scaled {
        of: Register,
        factor: i128,
        low: i128,
        high: i128,
    },
    /// Arithmetic; a result outside of the range is an error.
    Arith {
        op: ArithOp,
        left: Register,
        right: Register,
        low: i128,
        high: i128,
    },
    Compare {
        op: CmpOp,
        left: Register,
        right: Register,
    },
    Bool {
        op: BoolOp,
        args: Vec<Register>,
    },
    Not(Register),
    IsNull {
        of: Register,
        negated: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Key {
    pub register: Register,
    pub is_text: bool,
}

/// A simple aggregate that the child computes for each group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// The argument; `None` if all rows count.
    pub of: Option<Register>,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    Count,
    Sum,
    Min,
    Max,
}

/// A column of the groups.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    Key(usize),
    /// The number of values that a call has met.
    Count(usize),
    /// The result of a call; null if there were no values.
    Value(usize),
}

impl Program {
    /// The program of an aggregate over filters and maps of a scan. `params` are the values of the plan's parameters.
    pub fn of(groups: &Rel, plan: &Plan, params: &[Option<Literal>]) -> Result<Program, String> {
        let Rel::Aggregate { input, keys, aggregates } = groups else { return Err("its rows are not grouped".into()) };
        let mut compiler = Compiler {
            plan,
            params,
            scanned: &[],
            computed: HashMap::new(),
            known: HashMap::new(),
            program: Program::default(),
        };
        let mut conditions = Vec::new();
        let mut rel = &**input;
        loop {
            match rel {
                Rel::Scan { columns, .. } => {
                    compiler.scanned = columns;
                    break;
                }
                Rel::Filter { input, conditions: these } => {
                    // A lower filter is evaluated before the filters above it, so its conditions come first.
                    conditions.splice(0..0, these);
                    rel = input;
                }
                Rel::Map { input, computed } => {
                    compiler.computed.extend(computed.iter().map(|computed| (computed.column, &computed.expr)));
                    rel = input;
                }
                _ => return Err("it is more than a scan".into()),
            }
        }
        for condition in conditions {
            let register = compiler.register(condition)?;
            compiler.program.conditions.push(register);
        }
        for key in keys {
            let register = compiler.register(&key.expr)?;
            let is_text = plan.type_of(&key.expr).is_text();
            compiler.program.output.push(Output::Key(compiler.program.keys.len()));
            compiler.program.keys.push(Key { register, is_text });
        }
        for aggregation in aggregates {
            compiler.aggregate(aggregation)?;
        }
        Ok(compiler.program)
    }
}

struct Compiler<'a> {
    plan: &'a Plan,
    params: &'a [Option<Literal>],
    scanned: &'a [ColumnId],
    computed: HashMap<ColumnId, &'a Expr>,
    /// The registers that hold computed columns.
    known: HashMap<ColumnId, Register>,
    program: Program,
}

impl Compiler<'_> {
    fn aggregate(&mut self, Aggregation { agg, distinct, .. }: &Aggregation) -> Result<(), String> {
        if *distinct {
            return Err("an aggregate of distinct values".into());
        }
        let summed = [Kind::Integer, Kind::Decimal];
        let ordered =
            [Kind::Integer, Kind::Decimal, Kind::Date, Kind::Timestamp, Kind::TimestampTz, Kind::Time, Kind::Oid];
        match agg {
            Agg::CountStar => {
                let call = self.call(None, What::Count);
                self.program.output.push(Output::Count(call));
            }
            Agg::Count(of) => {
                let call = self.call_of(of, What::Count, None)?;
                self.program.output.push(Output::Count(call));
            }
            Agg::Sum(of) => {
                let call = self.call_of(of, What::Sum, Some(&summed))?;
                self.program.output.push(Output::Value(call));
            }
            Agg::Avg(of) => {
                let call = self.call_of(of, What::Sum, Some(&summed))?;
                self.program.output.extend([Output::Value(call), Output::Count(call)]);
            }
            Agg::Min(of) => {
                let call = self.call_of(of, What::Min, Some(&ordered))?;
                self.program.output.push(Output::Value(call));
            }
            Agg::Max(of) => {
                let call = self.call_of(of, What::Max, Some(&ordered))?;
                self.program.output.push(Output::Value(call));
            }
            _ => return Err("an aggregate that is not count, sum, avg, min or max of numbers and dates".into()),
        }
        Ok(())
    }

    fn call_of(&mut self, of: &Expr, what: What, kinds: Option<&[Kind]>) -> Result<usize, String> {
        if kinds.is_some_and(|kinds| !kinds.contains(&self.plan.type_of(of).kind())) {
            return Err("an aggregate that is not count, sum, avg, min or max of numbers and dates".into());
        }
        let register = self.register(of)?;
        Ok(self.call(Some(register), what))
    }

    fn call(&mut self, of: Option<Register>, what: What) -> usize {
        place_of(&mut self.program.calls, Call { of, what })
    }

    fn step(&mut self, step: Step) -> Result<Register, String> {
        let register = place_of(&mut self.program.steps, step);
        if register < MOST_REGISTERS { Ok(register) } else { Err("it computes more than a child shall".into()) }
    }

    /// The register that holds an expression's values.
    fn register(&mut self, expr: &Expr) -> Result<Register, String> {
        let ty = self.plan.type_of(expr);
        let step = match expr {
            Expr::Column { id } => match (self.known.get(id), self.computed.get(id)) {
                (Some(register), _) => return Ok(*register),
                (None, Some(expr)) => {
                    let register = self.register(expr)?;
                    self.known.insert(*id, register);
                    return Ok(register);
                }
                (None, None) => self.column(*id, ty)?,
            },
            Expr::Literal { ty, value } => constant(*ty, value.as_ref())?,
            Expr::Param { index } => constant(ty, self.params[*index as usize].as_ref())?,
            Expr::Cmp { op, left, right } => return self.compare(*op, left, right),
            Expr::Arith { op, ty, left, right } => return self.arith(*op, *ty, left, right),
            Expr::Neg(of) => {
                let (low, high) = range(ty)?;
                let (left, right) = (self.step(Step::Constant(Some(0)))?, self.register(of)?);
                Step::Arith { op: ArithOp::Sub, left, right, low, high }
            }
            Expr::Cast { to, arg } => return self.cast(*to, arg),
            Expr::Bool { op, args } => {
                Step::Bool { op: *op, args: args.iter().map(|arg| self.register(arg)).collect::<Result<_, _>>()? }
            }
            Expr::Not(of) => Step::Not(self.register(of)?),
            Expr::IsNull { arg, negated } => Step::IsNull { of: self.register(arg)?, negated: *negated },
            Expr::Call { .. } => return Err("a function".into()),
            Expr::Case { .. } | Expr::Coalesce(_) => return Err("a conditional expression".into()),
        };
        self.step(step)
    }

    fn column(&mut self, id: ColumnId, ty: Type) -> Result<Step, String> {
        if !is_number(ty) {
            return Err(
                "a column that is neither a number of fixed digits, a date or time, a truth value nor text".into()
            );
        }
        let at = self.scanned.iter().position(|scanned| *scanned == id).ok_or("a column of nowhere")?;
        Ok(Step::Column(place_of(&mut self.program.columns, at)))
    }

    fn compare(&mut self, op: CmpOp, left: &Expr, right: &Expr) -> Result<Register, String> {
        let types = [left, right].map(|side| self.plan.type_of(side));
        let scale = types.map(Type::scale).into_iter().max().unwrap_or(0);
        let mut sides = [self.register(left)?, self.register(right)?];
        match types[0].kind() {
            Kind::Text => {
                // A child compares texts by the numbers that represent them. All long texts have the same number, which
                // no short text has, so two long texts cannot be told apart. One side must therefore be a constant,
                // which is always short.
                let is_short = |side: &Register| matches!(self.program.steps[*side], Step::Constant(_));
                if !matches!(op, CmpOp::Eq | CmpOp::Ne) || !sides.iter().any(is_short) {
                    return Err("a comparison of texts that is not = or <> with a constant".into());
                }
            }
            Kind::Decimal => {
                for (side, ty) in sides.iter_mut().zip(types) {
                    *side = self.scaled(*side, scale - ty.scale(), ANY)?;
                }
            }
            _ => {}
        }
        let [left, right] = sides;
        self.step(Step::Compare { op, left, right })
    }

    fn arith(&mut self, op: ArithOp, ty: Type, left: &Expr, right: &Expr) -> Result<Register, String> {
        let (low, high) = range(ty)?;
        let is_number = |side| matches!(self.plan.type_of(side).kind(), Kind::Integer | Kind::Decimal);
        if ![left, right].into_iter().all(is_number) {
            return Err("arithmetic of others than integers and decimals".into());
        }
        let mut sides = [self.register(left)?, self.register(right)?];
        match op {
            ArithOp::Add | ArithOp::Sub => {
                for (side, expr) in sides.iter_mut().zip([left, right]) {
                    let scale = self.plan.type_of(expr).scale();
                    *side = self.scaled(*side, ty.scale().checked_sub(scale).ok_or(DIGITS)?, ANY)?;
                }
            }
            ArithOp::Mul => {}
            ArithOp::Div | ArithOp::Mod => return Err("a division".into()),
        }
        let [left, right] = sides;
        self.step(Step::Arith { op, left, right, low, high })
    }

    fn cast(&mut self, to: Type, arg: &Expr) -> Result<Register, String> {
        let from = self.plan.type_of(arg);
        let of = self.register(arg)?;
        match (from.kind(), to.kind()) {
            (Kind::Integer, Kind::Integer) | (Kind::Oid, Kind::Integer) | (Kind::Text, Kind::Text) => Ok(of),
            (Kind::Integer | Kind::Decimal, Kind::Decimal) => {
                self.scaled(of, to.scale().checked_sub(from.scale()).ok_or(DIGITS)?, range(to)?)
            }
            _ => Err("a cast".into()),
        }
    }

    fn scaled(&mut self, of: Register, digits: u8, range: (i128, i128)) -> Result<Register, String> {
        if digits == 0 && range == ANY {
            return Ok(of);
        }
        let factor = 10_i128.checked_pow(digits.into()).ok_or(DIGITS)?;
        let (low, high) = range;
        self.step(Step::Scaled { of, factor, low, high })
    }
}

/// The position of an element in a list. The element is appended if it is missing.
fn place_of<T: PartialEq>(list: &mut Vec<T>, what: T) -> usize {
    list.iter().position(|other| *other == what).unwrap_or_else(|| {
        list.push(what);
        list.len() - 1
    })
}

/// Whether a child represents values of the type by numbers.
fn is_number(ty: Type) -> bool {
    match ty.physical() {
        Physical::Float64 | Physical::Bytes => false,
        // Equal intervals, such as 1 month and 30 days, may differ in their 128-bit representation, so comparing that
        // is not enough.
        Physical::Int128 => ty != Type::Interval,
        Physical::Bit | Physical::Int16 | Physical::Int32 | Physical::Int64 | Physical::Text => true,
    }
}

fn constant(ty: Type, value: Option<&Literal>) -> Result<Step, String> {
    if !is_number(ty) {
        return Err(
            "a constant that is neither a number of fixed digits, a date or time, a truth value nor text".into()
        );
    }
    Ok(Step::Constant(match value {
        None => None,
        Some(Literal::Bool(value)) => Some(i128::from(*value)),
        Some(Literal::Int(value)) => Some(i128::from(*value)),
        Some(Literal::Decimal(value)) => Some(*value),
        Some(Literal::Text(text)) => {
            let number = number_of_text(text.as_bytes());
            if number == LONG_TEXT {
                return Err(format!("a text of more than {SHORT_TEXT} bytes"));
            }
            Some(number)
        }
        Some(Literal::Float(_) | Literal::Bytes(_)) => return Err("a constant of another type".into()),
    }))
}

/// The range of results that arithmetic in a type may have.
fn range(ty: Type) -> Result<(i128, i128), String> {
    let digits = |digits| 10_i128.pow(digits) - 1;
    Ok(match ty {
        Type::Int16 => (i16::MIN.into(), i16::MAX.into()),
        Type::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Type::Int64 => (i64::MIN.into(), i64::MAX.into()),
        Type::Decimal64 { .. } => (i64::MIN.into(), i64::MAX.into()),
        Type::Decimal128 { .. } => (-digits(38), digits(38)),
        _ => return Err("arithmetic of others than integers and decimals".into()),
    })
}
