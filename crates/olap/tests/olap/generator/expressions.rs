//! Makes random expressions of a type, over the visible columns.

use super::*;

impl Generator<'_> {
    /// An equality between a column of the left side and one of the right side, if there are two of the same type.
    pub(super) fn equality(&mut self, left: &[ColumnId], right: &[ColumnId]) -> Option<Expr> {
        let mut pairs = Vec::new();
        for &a in left {
            for &b in right {
                let (ty, other) = (self.type_of(a), self.type_of(b));
                let decimals = is_decimal(ty) && is_decimal(other);
                if ty == other || decimals || (INTEGERS.contains(&ty) && INTEGERS.contains(&other)) {
                    pairs.push((a, b));
                }
            }
        }
        let (a, b) = *pairs.choose(self.rng)?;
        let cast_too = self.type_of(a) != self.type_of(b) && !is_decimal(self.type_of(a));
        let side = |id| if cast_too { cast(Type::Int64, Expr::column(id)) } else { Expr::column(id) };
        let (left, right) = (side(a), side(b));
        Some(if self.chance(0.5) { Expr::equal(left, right) } else { Expr::equal(right, left) })
    }

    pub(super) fn aggregate(&mut self) -> Agg {
        if self.is_last && self.chance(0.3) {
            if self.chance(0.3) {
                use PairAgg::*;
                let pair = *[Corr, CovarPop, CovarSamp, AvgX, AvgY, Intercept, R2, Slope, Sxx, Sxy, Syy]
                    .choose(self.rng)
                    .unwrap();
                let (y, x) = (self.summed_float(), self.summed_float());
                return Agg::Pair(pair, Box::new([y, x]));
            }
            use Spread::{StddevPop, StddevSamp, VarPop, VarSamp};
            let spread = FloatAgg::Spread(*[VarPop, VarSamp, StddevPop, StddevSamp].choose(self.rng).unwrap());
            let float = *[FloatAgg::Sum, FloatAgg::Avg, spread].choose(self.rng).unwrap();
            return Agg::Float(float, self.summed_float());
        }
        match self.rng.random_range(0..11) {
            9 | 10 => self.listed(),
            6 => {
                let bits = *[BitAgg::BoolAnd, BitAgg::BoolOr].choose(self.rng).unwrap();
                Agg::Bits(bits, self.expr(Type::Bool, 2))
            }
            7 => {
                let bits = *[BitAgg::And, BitAgg::Or, BitAgg::Xor].choose(self.rng).unwrap();
                let ty = *INTEGERS.choose(self.rng).unwrap();
                Agg::Bits(bits, self.expr(ty, 2))
            }
            8 => Agg::Spread(self.number()),
            0 => Agg::CountStar,
            1 => Agg::Count(self.any_expr()),
            2 => Agg::Sum(self.summand()),
            3 => Agg::Avg(self.summand()),
            n => {
                let ty = loop {
                    match any_type(self.rng) {
                        Type::Bool => {}
                        other => break other,
                    }
                };
                let arg = self.expr(ty, 2);
                if ty.is_text() && self.chance(0.5) {
                    let extreme = *[Extreme::Min, Extreme::Max].choose(self.rng).unwrap();
                    return Agg::InLocale(extreme, Box::new([arg, self.named_locale()]));
                }
                if n == 4 { Agg::Min(arg) } else { Agg::Max(arg) }
            }
        }
    }

    /// A list aggregate. Values that are equal in its order cannot be told apart otherwise.
    fn listed(&mut self) -> Agg {
        let of = *[Listing::Joined, Listing::Array, Listing::Discrete, Listing::Continuous, Listing::Mode]
            .choose(self.rng)
            .unwrap();
        let ty = match of {
            Listing::Joined => *[Type::Text, Type::Bytes].choose(self.rng).unwrap(),
            Listing::Array => *[Type::Int32, Type::Text].choose(self.rng).unwrap(),
            Listing::Continuous => *[Type::Float64, Type::Interval].choose(self.rng).unwrap(),
            Listing::Discrete | Listing::Mode => any_type(self.rng),
        };
        let mut arguments = vec![self.expr(ty, 2)];
        let mut order = Vec::new();
        match of {
            Listing::Joined if self.chance(0.5) => arguments.push(self.expr(ty, 1)),
            Listing::Joined => {
                let comma = if ty.is_text() { Literal::Text(", ".into()) } else { Literal::Bytes(vec![0, 255]) };
                arguments.push(Expr::Literal { ty, value: self.chance(0.9).then_some(comma) });
            }
            Listing::Array if self.chance(0.5) => arguments.push(self.expr(Type::Bool, 2)),
            Listing::Array => arguments.push(Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) }),
            Listing::Discrete | Listing::Continuous => {
                let share = [Some(0.0), Some(0.25), Some(0.5), Some(0.9), Some(1.0), None].choose(self.rng).unwrap();
                arguments.push(Expr::Literal { ty: Type::Float64, value: share.map(Literal::Float) });
            }
            Listing::Mode => {}
        }
        if matches!(of, Listing::Joined | Listing::Array) {
            order.extend((0..self.rng.random_range(0..3)).map(|_| self.any_expr()));
        }
        let both = if of == Listing::Joined { 2 } else { 1 };
        order.extend(arguments[..both].iter().cloned());
        let order = order.into_iter().map(|expr| self.sort_key(expr)).collect();
        let element = Element { oid: crate::interpreter::ELEMENT, align: 4, length: None, padded: 0 };
        let element = (of == Listing::Array).then_some(element);
        Agg::Listed(Box::new(Listed::new(of, arguments, order, element)))
    }

    /// A random float, which seldom exceeds the limit for sums.
    pub(super) fn summed_float(&mut self) -> Expr {
        let float = self.expr(Type::Float64, 2);
        if self.chance(0.1) {
            return float;
        }
        let bound = Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(1e100)) };
        let size = call(Named::Abs, Type::Float64, vec![float.clone()]);
        let is_small = Expr::Cmp { op: CmpOp::Lt, left: size.into(), right: bound.into() };
        let special = *[0.25, 0.25, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].choose(self.rng).unwrap();
        let otherwise = Box::new(Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(special)) });
        Expr::Case { branches: vec![(is_small, float)], otherwise }
    }

    /// A random integer or decimal.
    pub(super) fn number(&mut self) -> Expr {
        let ty = loop {
            let ty = any_type(self.rng);
            if is_decimal(ty) || INTEGERS.contains(&ty) {
                break ty;
            }
        };
        self.expr(ty, 2)
    }

    /// A random number, of a type whose sums are exact.
    fn summand(&mut self) -> Expr {
        if self.chance(0.2) { self.expr(Type::Numeric, 2) } else { self.number() }
    }

    pub(super) fn any_expr(&mut self) -> Expr {
        let ty = any_type(self.rng);
        self.expr(ty, 2)
    }

    pub(super) fn leaf(&mut self, ty: Type) -> Expr {
        let readable = self.visible.iter().chain(&self.around).copied();
        let columns: Vec<ColumnId> = readable.filter(|id| self.type_of(*id) == ty).collect();
        if let Some(id) = columns.choose(self.rng).filter(|_| self.rng.random_bool(0.85)) {
            return Expr::column(*id);
        }
        let constant = (!self.chance(0.1)).then(|| value(self.rng, self.mood, ty));
        if self.chance(0.5) {
            return Expr::Literal { ty, value: constant };
        }
        self.case.plan.params.push(ty);
        self.case.params.push(constant);
        Expr::Param { index: self.case.params.len() as u16 - 1 }
    }

    pub(super) fn expr(&mut self, ty: Type, depth: u32) -> Expr {
        if depth == 0 || self.chance(0.35) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if self.chance(0.2) {
            return self.choice(ty, d);
        }
        if self.chance(0.06)
            && let Some(expr) = self.converted(ty, d)
        {
            return expr;
        }
        if self.chance(0.2)
            && let Some(expr) = self.of_one(ty, d)
        {
            return expr;
        }
        let arith = |op, ty, left: Expr, right: Expr| Expr::Arith { op, ty, left: left.into(), right: right.into() };
        let sign = if self.chance(0.5) { ArithOp::Add } else { ArithOp::Sub };
        match ty {
            Type::Bool => self.condition(d),
            Type::Int32 if self.chance(0.1) => {
                let (l, r) = (self.expr(Type::Date, d), self.expr(Type::Date, d));
                arith(ArithOp::Sub, ty, l, r)
            }
            Type::Int32 if self.chance(0.2) => cast(ty, self.expr(Type::Int16, d)),
            Type::Int32 if self.chance(0.2) => match self.rng.random_range(0..4) {
                0 => call(Named::Length, ty, vec![self.any_text(d)]),
                1 => call(Named::OctetLength, ty, vec![self.expr(Type::Text, d)]),
                2 => call(Named::Ascii, ty, vec![self.expr(Type::Text, d)]),
                _ => call(Named::Position, ty, vec![self.expr(Type::Text, d), self.expr(Type::Text, d)]),
            },
            Type::Int64 if self.chance(0.2) => {
                let from = *[Type::Int16, Type::Int32].choose(self.rng).unwrap();
                cast(ty, self.expr(from, d))
            }
            Type::Int64 if self.chance(0.05) => cast(ty, self.expr(Type::Oid, d)),
            Type::Int16 | Type::Int32 | Type::Int64 => {
                if self.chance(0.1) {
                    return Expr::Neg(self.expr(ty, d).into());
                }
                let ops = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div, ArithOp::Mod];
                let op = *ops.choose(self.rng).unwrap();
                let (l, r) = (self.expr(ty, d), self.expr(ty, d));
                arith(op, ty, l, r)
            }
            Type::Float64 if self.chance(0.3) => {
                let from = *INTEGERS.choose(self.rng).unwrap();
                cast(ty, self.expr(from, d))
            }
            Type::Float64 if self.chance(0.1) => cast(ty, self.expr(Type::Float32, d)),
            Type::Float64 if self.chance(0.1) => {
                let moved = *[Named::MovedDown, Named::MovedUp].choose(self.rng).unwrap();
                let args = vec![self.expr(ty, d), self.expr(ty, d)];
                call(moved, ty, args)
            }
            Type::Float64 if self.chance(0.1) => Expr::Neg(self.expr(ty, d).into()),
            Type::Float64 => {
                let op = *[ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div].choose(self.rng).unwrap();
                let (l, r) = (self.expr(ty, d), self.expr(ty, d));
                arith(op, ty, l, r)
            }
            Type::Decimal64 { .. } => {
                let from = *INTEGERS.choose(self.rng).unwrap();
                cast(ty, self.expr(from, d))
            }
            Type::Decimal128 { .. } if self.chance(0.1) => cast(ty, self.expr(Type::Numeric, d)),
            Type::Decimal128 { scale } => self.decimal(scale, d),
            Type::Numeric if self.chance(0.3) => {
                let from = loop {
                    match any_type(self.rng) {
                        from if is_decimal(from) || INTEGERS.contains(&from) => break from,
                        _ => {}
                    }
                };
                cast(ty, self.expr(from, d))
            }
            Type::Numeric if self.chance(0.1) => Expr::Neg(self.expr(ty, d).into()),
            Type::Numeric => {
                let ops = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div, ArithOp::Mod];
                let op = *ops.choose(self.rng).unwrap();
                let (l, r) = (self.expr(ty, d), self.expr(ty, d));
                arith(op, ty, l, r)
            }
            Type::Date => {
                let (l, r) = (self.expr(Type::Date, d), self.expr(Type::Int32, d));
                arith(sign, ty, l, r)
            }
            Type::Timestamp => cast(ty, self.expr(Type::Date, d)),
            Type::Text if self.chance(0.1) => cast(ty, self.expr(Type::Name, d)),
            Type::Text if self.chance(0.1) => self.of_one(ty, d).unwrap_or_else(|| self.leaf(ty)),
            Type::Text => self.text(d),
            Type::Float32 if self.chance(0.4) => {
                let from = *[Type::Int32, Type::Int64, Type::Float64].choose(self.rng).unwrap();
                cast(ty, self.expr(from, d))
            }
            Type::Float32 if self.chance(0.2) => Expr::Neg(self.expr(ty, d).into()),
            Type::Float32 => {
                let op = *[ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div].choose(self.rng).unwrap();
                let (l, r) = (self.expr(ty, d), self.expr(ty, d));
                arith(op, ty, l, r)
            }
            Type::TimestampTz if self.chance(0.6) => self.of_one(ty, d).unwrap_or_else(|| self.leaf(ty)),
            Type::Interval => self.interval(d),
            Type::Time if self.chance(0.5) => {
                let (l, r) = (self.expr(ty, d), self.expr(Type::Interval, d));
                match sign {
                    ArithOp::Add if self.chance(0.5) => arith(sign, ty, r, l),
                    _ => arith(sign, ty, l, r),
                }
            }
            Type::Time => self.of_one(ty, d).unwrap_or_else(|| self.leaf(ty)),
            Type::TimestampTz | Type::TimeTz | Type::Oid | Type::Enum | Type::Uuid => self.leaf(ty),
            Type::Name | Type::Char | Type::Bytes | Type::Opaque => self.leaf(ty),
        }
    }

    /// A function of one number or time, or of two, with a result of this type.
    pub(super) fn of_one(&mut self, ty: Type, depth: u32) -> Option<Expr> {
        use Named::*;
        let scale = *[0, 2, 5].choose(self.rng).unwrap();
        let decimal = if self.chance(0.5) { Type::Decimal64 { scale } } else { Type::Decimal128 { scale } };
        let float = if self.chance(0.3) { Type::Float32 } else { Type::Float64 };
        let time = if self.chance(0.5) { Type::Date } else { Type::Timestamp };
        let fields = [
            Field::Millennium,
            Field::Century,
            Field::Decade,
            Field::Year,
            Field::IsoYear,
            Field::Quarter,
            Field::Month,
            Field::Week,
            Field::Day,
            Field::DayOfYear,
            Field::DayOfWeek,
            Field::IsoDayOfWeek,
            Field::Hour,
            Field::Minute,
            Field::Second,
            Field::Milliseconds,
            Field::Microseconds,
            Field::Epoch,
            Field::Julian,
        ];
        let field = *fields.choose(self.rng).unwrap();
        let candidates: Vec<(Named, Vec<Type>)> = match ty {
            Type::Bool => vec![(ToBool, vec![Type::Int32])],
            Type::Int16 => vec![(ToInt16, vec![Type::Int32]), (ToInt16, vec![float]), (ToInt16, vec![decimal])],
            Type::Int32 => vec![
                (ToInt32, vec![Type::Int64]),
                (ToInt32, vec![float]),
                (ToInt32, vec![decimal]),
                (ToInt32, vec![Type::Numeric]),
                (ToInt32, vec![Type::Bool]),
            ],
            Type::Int64 => [float, decimal, Type::Numeric].map(|operand| (ToInt64, vec![operand])).into(),
            Type::Float64 => [Abs, Sign, Round, Ceil, Floor, Trunc, Sqrt, Cbrt, Sin, Cos, Tan, Asin, Acos, Atan]
                .map(|function| (function, vec![ty]))
                .into_iter()
                .chain([
                    (ToFloat, vec![decimal]),
                    (ToFloat, vec![Type::Numeric]),
                    (DatePart(field), vec![Type::Timestamp]),
                ])
                .collect(),
            Type::Decimal64 { .. } => {
                vec![(Extract(field), vec![time]), (Sign, vec![decimal]), (Round, vec![decimal, ty])]
            }
            Type::Decimal128 { scale: 0 } => {
                [Round, Ceil, Floor, Trunc].map(|function| (function, vec![decimal])).into()
            }
            Type::Decimal128 { scale } if scale <= 18 => {
                let to_scale = [Round, Trunc].map(|function| (function, vec![decimal, ty]));
                to_scale.into_iter().chain([(Abs, vec![ty]), (Abs, vec![Type::Decimal64 { scale }])]).collect()
            }
            Type::Decimal128 { scale: plan::AVERAGE_SCALE } => vec![(Average, vec![decimal, Type::Int64])],
            Type::Decimal128 { .. } => vec![(Abs, vec![ty])],
            Type::Numeric => {
                let with_digits = [Round, Trunc].map(|function| (function, vec![ty, Type::Int32]));
                let of_one = [Abs, Sign, Ceil, Floor, Trimmed, Sqrt, Ln].map(|function| (function, vec![ty]));
                with_digits.into_iter().chain(of_one).chain([(WholeQuotient, vec![ty, ty])]).collect()
            }
            Type::Date => vec![(TimestampToDate, vec![Type::Timestamp]), (MakeDate, vec![Type::Int32; 3])],
            Type::Timestamp => vec![(DateTrunc(field), vec![ty])],
            Type::Float32 => vec![(Abs, vec![ty])],
            Type::Text => {
                let shown = [Type::Int16, Type::Int32, Type::Int64, Type::Numeric].map(|from| (ToText, vec![from]));
                shown.into_iter().chain([(ToChar, vec![Type::Timestamp, ty])]).collect()
            }
            Type::Interval => [JustifyHours, JustifyDays, JustifyInterval].map(|function| (function, vec![ty])).into(),
            Type::TimestampTz => vec![(FromEpoch, vec![Type::Float64])],
            Type::Time => vec![(TimestampToTime, vec![Type::Timestamp])],
            Type::TimeTz | Type::Oid | Type::Enum | Type::Uuid => vec![],
            Type::Name | Type::Char | Type::Bytes | Type::Opaque => vec![],
        };
        let moments = self.moments(ty, field);
        let bits = match ty {
            Type::Int16 | Type::Int32 | Type::Int64 => vec![
                (Abs, vec![ty]),
                (BitNot, vec![ty]),
                (BitAnd, vec![ty, ty]),
                (BitOr, vec![ty, ty]),
                (BitXor, vec![ty, ty]),
                (ShiftLeft, vec![ty, Type::Int32]),
                (ShiftRight, vec![ty, Type::Int32]),
            ],
            _ => vec![],
        };
        let (function, operands) = [candidates, bits, moments].concat().choose(self.rng)?.clone();
        let fits = catalogue::result_type(catalogue::Call::Named(function), &operands) == Some(ty);
        let last = operands.len() - 1;
        let args = operands.into_iter().enumerate().map(|(i, operand)| match function {
            ToChar if i == last => self.time_pattern(),
            Round | Trunc if i > 0 && is_decimal(ty) => shown_like(ty),
            _ if i == last && function.takes_zone() => self.zone(),
            _ => self.expr(operand, depth),
        });
        let args: Vec<Expr> = args.collect();
        fits.then(|| call(function, ty, args))
    }

    fn interval(&mut self, d: u32) -> Expr {
        let ty = Type::Interval;
        let of = |op, left: Expr, right: Expr| Expr::Arith { op, ty, left: left.into(), right: right.into() };
        let point = *[Type::Timestamp, Type::TimestampTz, Type::Time].choose(self.rng).unwrap();
        match self.rng.random_range(0..8) {
            0 => Expr::Neg(self.expr(ty, d).into()),
            1 => of(ArithOp::Sub, self.expr(point, d), self.expr(point, d)),
            2 => of(ArithOp::Mul, self.expr(ty, d), self.expr(Type::Float64, d)),
            3 => of(ArithOp::Mul, self.expr(Type::Float64, d), self.expr(ty, d)),
            4 => of(ArithOp::Div, self.expr(ty, d), self.expr(Type::Float64, d)),
            5 => of(ArithOp::Add, self.expr(ty, d), self.expr(ty, d)),
            6 => of(ArithOp::Sub, self.expr(ty, d), self.expr(ty, d)),
            _ => self.of_one(ty, d).unwrap_or_else(|| self.leaf(ty)),
        }
    }

    /// The functions of points in time with a result of this type, and the types of their operands.
    fn moments(&mut self, ty: Type, field: Field) -> Vec<(Named, Vec<Type>)> {
        use Named::*;
        let (zone, interval) = (Type::Text, Type::Interval);
        let point = if self.chance(0.5) { Type::Timestamp } else { Type::TimestampTz };
        let local = if self.chance(0.5) { Type::Date } else { Type::Timestamp };
        let moved = |zoned: bool| match zoned {
            true => vec![Type::TimestampTz, interval, zone],
            false => vec![Type::Timestamp, interval],
        };
        let parts = vec![Type::Int32; 6].into_iter().chain([Type::Float64]).collect();
        match ty {
            Type::Int32 => vec![(ZoneOffset, vec![Type::TimestampTz, zone])],
            Type::Float64 => vec![(DatePart(field), vec![interval]), (DatePart(Field::Epoch), vec![point])],
            Type::Decimal64 { .. } => vec![(Extract(field), vec![interval]), (Extract(Field::Epoch), vec![point])],
            Type::Decimal128 { scale: 6 } => vec![(Span, vec![interval])],
            Type::Interval => vec![
                (MakeInterval, parts),
                (Age, vec![Type::Timestamp; 2]),
                (AgeIn, vec![Type::TimestampTz, Type::TimestampTz, zone]),
            ],
            Type::Timestamp => vec![
                (LocalTime, vec![Type::TimestampTz, zone]),
                (ToTimestamp, vec![Type::TimestampTz, zone]),
                (Comparable, vec![Type::Date]),
                (PlusInterval, moved(false)),
                (MinusInterval, moved(false)),
                (DateBin, vec![ty, ty, Type::Int64]),
            ],
            Type::TimestampTz => vec![
                (ToTimestampTz, vec![local, zone]),
                (ComparableIn, vec![local, zone]),
                (DateTruncIn(field), vec![ty, zone]),
                (PlusIntervalIn, moved(true)),
                (MinusIntervalIn, moved(true)),
                (DateBin, vec![ty, ty, Type::Int64]),
            ],
            _ => vec![],
        }
    }

    /// A random time zone. Some of its clock changes are near the times in the tables, others far from them.
    pub(super) fn zone(&mut self) -> Expr {
        let cycle = plan::CYCLE;
        let zones = [
            "0 0 0 0 0".to_string(),
            "-17762 -18000 0 0 1 -3600000000 -18000".into(),
            "0 0 0 0 1 0 3600".into(),
            "3600 3600 0 0 2 0 0 900000 -5400".into(),
            format!("1 2 0 1 5 -9000000 7 {} -3601 9000000 7 {} -3601 9000000 7", 9_000_000, cycle - 9_000_000),
            format!("0 0 1 1 3 -86400 3600 9000000 0 {} 3600", cycle - 9_000_000),
        ];
        let value = (!self.chance(0.05)).then(|| Literal::Text(zones.choose(self.rng).unwrap().clone()));
        if self.chance(0.5) {
            return Expr::Literal { ty: Type::Text, value };
        }
        self.case.plan.params.push(Type::Text);
        self.case.params.push(value);
        Expr::Param { index: self.case.params.len() as u16 - 1 }
    }

    fn time_pattern(&mut self) -> Expr {
        let patterns = [
            "YYYY-MM-DD HH24:MI:SS.US",
            "FMMonth FMDD, YYYY BC",
            "Day, DD MON YY",
            "IYYY-\"W\"IW-ID",
            "YYY/Y Q W WW DDD D J",
            "HH12:MI AM FMMS SSSS",
            "FMMM.FMYY day MONTH Dy Month",
            "\"YYYY\" x é",
            "",
        ];
        let value = Some(Literal::Text(patterns.choose(self.rng).unwrap().to_string()));
        Expr::Literal { ty: Type::Text, value }
    }

    pub(super) fn any_text(&mut self, depth: u32) -> Expr {
        let ty = *[Type::Text, Type::Char, Type::Name].choose(self.rng).unwrap();
        self.expr(ty, depth)
    }

    pub(super) fn text(&mut self, depth: u32) -> Expr {
        let ty = Type::Text;
        let text = |this: &mut Self| this.expr(ty, depth);
        let place = |this: &mut Self| {
            let any = [0, 1, 2, 3, -1, -2, -3, 7, i32::MAX as i64, i32::MIN as i64];
            let any = if this.mood == Mood::Wild { &any } else { &any[..8] };
            Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(*any.choose(this.rng).unwrap())) }
        };
        let functions = [
            (Named::Substring, "ti"),
            (Named::Substring, "tii"),
            (Named::Left, "ti"),
            (Named::Right, "ti"),
            (Named::Concat, "tt"),
            (Named::Replace, "ttt"),
            (Named::Trim, "t"),
            (Named::Trim, "tt"),
            (Named::TrimLeft, "tt"),
            (Named::TrimRight, "tt"),
            (Named::PadLeft, "tit"),
            (Named::PadRight, "tit"),
            (Named::Repeat, "ti"),
            (Named::Reverse, "t"),
            (Named::SplitPart, "tti"),
            (Named::Upper, "t"),
            (Named::Lower, "t"),
            (Named::CharToText, "c"),
        ];
        let (function, operands) = *functions.choose(self.rng).unwrap();
        let args = operands.chars().map(|kind| match kind {
            't' => text(self),
            'c' => self.expr(Type::Char, depth),
            _ => place(self),
        });
        let args = args.collect();
        call(function, ty, args)
    }

    pub(super) fn pattern(&mut self) -> Expr {
        let patterns =
            ["", "%", "a%", "%a", "%a%", "_", "__", "%_", "a_%g%", "\\%", "%str%view%", "日_", "%\\a", "a%a", "%s%_w"];
        let value = Some(Literal::Text(patterns.choose(self.rng).unwrap().to_string()));
        if self.chance(0.8) {
            return Expr::Literal { ty: Type::Text, value };
        }
        self.case.plan.params.push(Type::Text);
        self.case.params.push(value);
        Expr::Param { index: self.case.params.len() as u16 - 1 }
    }

    /// An expression that chooses one of several values.
    pub(super) fn choice(&mut self, ty: Type, depth: u32) -> Expr {
        match self.rng.random_range(0..3) {
            0 => {
                let branch = |this: &mut Self| (this.expr(Type::Bool, depth), this.expr(ty, depth));
                let branches = (0..self.rng.random_range(1..4)).map(|_| branch(self)).collect();
                Expr::Case { branches, otherwise: self.expr(ty, depth).into() }
            }
            1 if matches!(ty, Type::Text | Type::Char) && self.chance(0.5) => {
                let function = *[Named::GreatestIn, Named::LeastIn].choose(self.rng).unwrap();
                let mut args = self.several(ty, depth);
                args.push(self.named_locale());
                call(function, ty, args)
            }
            1 if catalogue::result_type(catalogue::Call::Named(Named::Greatest), &[ty]).is_some() => {
                let function = *[Named::Greatest, Named::Least].choose(self.rng).unwrap();
                call(function, ty, self.several(ty, depth))
            }
            _ => Expr::Coalesce(self.several(ty, depth)),
        }
    }

    fn named_locale(&mut self) -> Expr {
        Expr::Literal { ty: Type::Text, value: Some(Literal::Text(self.locale())) }
    }

    pub(super) fn several(&mut self, ty: Type, depth: u32) -> Vec<Expr> {
        (0..self.rng.random_range(1..4)).map(|_| self.expr(ty, depth)).collect()
    }

    pub(super) fn decimal(&mut self, scale: u8, depth: u32) -> Expr {
        let ty = Type::Decimal128 { scale };
        let narrower = |s: u8, rng: &mut StdRng| {
            if rng.random() && s <= 18 { Type::Decimal64 { scale: s } } else { Type::Decimal128 { scale: s } }
        };
        match self.rng.random_range(0..4) {
            0 => Expr::Neg(self.expr(narrower(scale, &mut self.rng.clone()), depth).into()),
            1 => {
                let from = narrower(self.rng.random_range(0..=scale), &mut self.rng.clone());
                cast(ty, self.expr(from, depth))
            }
            n => {
                let op = *[ArithOp::Add, ArithOp::Sub, ArithOp::Mul].choose(self.rng).unwrap();
                let other = self.rng.random_range(0..=scale);
                let (a, b) = if op == ArithOp::Mul { (scale - other, other) } else { (scale, other) };
                let (a, b) = if n == 2 { (a, b) } else { (b, a) };
                let (a, b) = (narrower(a, &mut self.rng.clone()), narrower(b, &mut self.rng.clone()));
                let (left, right) = (self.expr(a, depth).into(), self.expr(b, depth).into());
                Expr::Arith { op, ty, left, right }
            }
        }
    }

    pub(super) fn condition(&mut self, depth: u32) -> Expr {
        match self.rng.random_range(0..11) {
            10 if self.chance(0.3) => {
                call(Named::StartsWith, Type::Bool, vec![self.expr(Type::Text, depth), self.expr(Type::Text, depth)])
            }
            10 if self.chance(0.3) => self.matched(depth),
            10 => call(Named::Like, Type::Bool, vec![self.expr(Type::Text, depth), self.pattern()]),
            0 => Expr::Not(self.expr(Type::Bool, depth).into()),
            1 => {
                let ty = any_type(self.rng);
                Expr::IsNull { arg: self.expr(ty, depth).into(), negated: self.chance(0.5) }
            }
            2 if self.chance(0.5) => self.list(depth),
            2..=4 => {
                let op = if self.chance(0.5) { BoolOp::And } else { BoolOp::Or };
                let args = (0..self.rng.random_range(0..4)).map(|_| self.expr(Type::Bool, depth)).collect();
                Expr::Bool { op, args }
            }
            _ => {
                let ops = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];
                let op = *ops.choose(self.rng).unwrap();
                let left = any_type(self.rng);
                let right = loop {
                    let right = if is_decimal(left) { any_type(self.rng) } else { left };
                    if is_decimal(left) == is_decimal(right) {
                        break right;
                    }
                };
                let (left, right) = (self.expr(left, depth).into(), self.expr(right, depth).into());
                Expr::Cmp { op, left, right }
            }
        }
    }
}

fn is_decimal(ty: Type) -> bool {
    matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. })
}

/// An operand that only tells a decimal type; its value does not matter.
fn shown_like(ty: Type) -> Expr {
    let zero = if matches!(ty, Type::Decimal64 { .. }) { Literal::Int(0) } else { Literal::Decimal(0) };
    Expr::Literal { ty, value: Some(zero) }
}
