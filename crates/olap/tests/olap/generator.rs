//! Random tables and random plans over them.

use std::sync::Arc;

use colstore::TableView;
use plan::catalogue::{BitAgg, FloatAgg, PairAgg, Spread};
use plan::{
    Agg, Aggregation, ArithOp, BoolOp, Bound, CmpOp, ColumnId, Computed, Exclude, Expr, Field, Frame, GroupingSets,
    JoinKind, Literal, Named, Over, Part, Plan, Range, Rel, SortKey, Type, Unit, WindowCall, WindowFunction, catalogue,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::build::{call, cast};
use crate::level::relation;
use crate::table::{Row, TestView, Value, chunk};

pub struct Case {
    pub plan: Plan,
    pub params: Vec<Value>,
    pub tables: Vec<Vec<Row>>,
    pub views: Vec<Arc<dyn TableView>>,
}

const INTEGERS: [Type; 3] = [Type::Int16, Type::Int32, Type::Int64];

/// How wild the values are.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// Few values: they meet in joins and groups, and hardly anything raises.
    Calm,
    /// Ends of ranges, infinities, NaN.
    Wild,
}

pub fn case(rng: &mut StdRng) -> Case {
    let mood = if rng.random_bool(0.6) { Mood::Calm } else { Mood::Wild };
    let tables = *[1, 1, 1, 2, 2, 3].choose(rng).unwrap();
    let plan = Plan {
        relations: vec![],
        columns: vec![],
        params: vec![],
        root: Rel::Scan { relation: 0, columns: vec![] },
        output: vec![],
    };
    let most = [60, 14, 8][tables - 1];
    let case = Case { plan, params: vec![], tables: vec![], views: vec![] };
    let mut generator = Generator { rng, mood, case, most, visible: vec![], around: vec![], is_last: false };
    generator.fill(tables);
    generator.case
}

fn any_type(rng: &mut StdRng) -> Type {
    let scale = *[0, 2, 2, 5].choose(rng).unwrap();
    let wide = *[0, 2, 5, 20].choose(rng).unwrap();
    *[
        Type::Bool,
        Type::Int16,
        Type::Int32,
        Type::Int64,
        Type::Float64,
        Type::Decimal64 { scale },
        Type::Decimal64 { scale },
        Type::Decimal128 { scale: wide },
        Type::Date,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Text,
        Type::Char,
    ]
    .choose(rng)
    .unwrap()
}

/// A table in chunks of random size, some with rows that are not there.
fn table(rng: &mut StdRng, mood: Mood, types: &[Type], rows: usize) -> (Vec<Row>, Arc<dyn TableView>) {
    let nulls = *[0.0, 0.1, 0.5].choose(rng).unwrap();
    let (mut all, mut chunks) = (Vec::new(), Vec::new());
    while all.len() < rows {
        let masked = rng.random_bool(0.4);
        let slots = rng.random_range(1..=4);
        let mut slot = |ty: &Type| if rng.random_bool(nulls) { None } else { Some(value(rng, mood, *ty)) };
        let slots: Vec<Row> = (0..slots).map(|_| types.iter().map(&mut slot).collect()).collect();
        let live: Vec<bool> = slots.iter().map(|_| !masked || rng.random_bool(0.6)).collect();
        chunks.push(chunk(types, &slots, masked.then(|| live.clone())));
        let wall = all.len();
        all.extend(slots.into_iter().zip(live).filter(|(_, live)| *live).map(|(row, _)| row));
        if all.len() == wall && rng.random_bool(0.2) {
            break;
        }
    }
    (all, TestView::of_chunks(types.to_vec(), chunks))
}

fn value(rng: &mut StdRng, mood: Mood, ty: Type) -> Literal {
    let extreme = mood == Mood::Wild && rng.random_bool(0.25);
    let small = rng.random_range(-3..=3i64);
    let int = |rng: &mut StdRng, min: i64, max: i64| {
        Literal::Int(if extreme { *[min, max, min + 1, max - 1, max / 2].choose(rng).unwrap() } else { small })
    };
    match ty {
        Type::Bool => Literal::Bool(rng.random()),
        Type::Int16 => int(rng, i16::MIN as i64, i16::MAX as i64),
        Type::Int32 => int(rng, i32::MIN as i64, i32::MAX as i64),
        Type::Date if extreme => Literal::Int(
            *[i32::MIN as i64, i32::MAX as i64, -2_451_545, 2_145_031_948, 106_751_983].choose(rng).unwrap(),
        ),
        Type::Date => Literal::Int(small),
        Type::Timestamp if extreme => Literal::Int(
            *[i64::MIN, i64::MAX, -211_813_488_000_000_000, 9_223_371_331_199_999_999, -1, 762_435_123_456_789]
                .choose(rng)
                .unwrap(),
        ),
        Type::Int64 | Type::Timestamp | Type::TimestampTz => int(rng, i64::MIN, i64::MAX),
        Type::Decimal64 { scale } => match int(rng, i64::MIN, i64::MAX) {
            Literal::Int(i) if !extreme && rng.random_bool(0.7) => Literal::Int(i * 10i64.pow(scale as u32)),
            other => other,
        },
        Type::Decimal128 { scale } => {
            let limit = 10i128.pow(38) - 1;
            let raw = small as i128;
            Literal::Decimal(if extreme {
                *[i128::MIN, i128::MAX, limit, -limit, limit / 10, i64::MAX as i128 + 1].choose(rng).unwrap()
            } else if rng.random_bool(0.7) {
                raw * 10i128.pow(scale as u32)
            } else {
                raw
            })
        }
        Type::Float64 if rng.random_bool(if mood == Mood::Wild { 0.5 } else { 0.1 }) => {
            let negative_nan = f64::from_bits(0xfff8_0000_0000_0001);
            let special = [0.0, -0.0, f64::NAN, negative_nan, f64::INFINITY, f64::NEG_INFINITY];
            let finite = [f64::MAX, f64::MIN, 5e-324, 1e-200, 1e200];
            Literal::Float(*[special.as_slice(), &finite].concat().choose(rng).unwrap())
        }
        Type::Float64 => Literal::Float(small as f64 / 2.0),
        Type::Text | Type::Char => Literal::Text(
            [
                "",
                "a",
                "b",
                "B",
                "ä",
                "aa",
                " a  ",
                "a%b_\\",
                "日本",
                "a string that is longer than a view",
                "a string that is longer too",
            ]
            .choose(rng)
            .unwrap()
            .to_string(),
        ),
    }
}

struct Generator<'a> {
    rng: &'a mut StdRng,
    mood: Mood,
    case: Case,
    /// Rows of a table.
    most: usize,
    /// What expressions may read.
    visible: Vec<ColumnId>,
    /// What they may read besides: the columns of the rows around a subquery.
    around: Vec<ColumnId>,
    /// Nothing is computed of what comes now, so that it may differ in its last digits.
    is_last: bool,
}

impl Generator<'_> {
    fn chance(&mut self, p: f64) -> bool {
        self.rng.random_bool(p)
    }

    /// A plan over so many tables.
    fn fill(&mut self, tables: usize) {
        let mut root = self.rel(tables, 3);
        self.visible = root.columns();
        if self.chance(0.5) {
            self.is_last = self.chance(0.5);
            root = self.group(root);
        }
        self.case.plan.output = match self.is_last || self.chance(0.5) {
            true => root.columns().into_iter().map(Expr::column).collect(),
            false => (0..self.rng.random_range(0..4)).map(|_| self.any_expr()).collect(),
        };
        self.case.plan.root = root;
    }

    /// Some operator over so many tables, with others above it.
    fn rel(&mut self, tables: usize, depth: u32) -> Rel {
        let mut rel = match tables {
            1 if self.chance(0.05) => Rel::Row,
            1 => self.scan(),
            _ if self.chance(0.15) => self.union(tables, depth),
            _ => self.join(tables, depth),
        };
        while depth > 0 && self.chance(0.4) {
            self.visible = rel.columns();
            rel = match self.rng.random_range(0..7) {
                0 | 1 => {
                    let conditions = (0..self.rng.random_range(1..3)).map(|_| self.expr(Type::Bool, 3)).collect();
                    rel.filter(conditions)
                }
                2 | 3 => {
                    let computed = (0..self.rng.random_range(1..3)).map(|_| self.computed()).collect();
                    rel.map(computed)
                }
                4 => self.top(rel),
                5 => self.window(rel),
                _ => self.group(rel),
            };
        }
        self.visible = rel.columns();
        rel
    }

    fn scan(&mut self) -> Rel {
        let number = self.case.tables.len();
        let types: Vec<Type> = if number > 0 && self.chance(0.3) {
            // The first table once more.
            self.case.tables.push(self.case.tables[0].clone());
            self.case.views.push(self.case.views[0].clone());
            self.case.plan.relations[0].columns.iter().map(|c| c.ty).collect()
        } else {
            let types: Vec<Type> = (0..self.rng.random_range(0..6)).map(|_| any_type(self.rng)).collect();
            let rows = if self.chance(0.1) { 0 } else { self.rng.random_range(0..self.most) };
            let (table, view) = table(self.rng, self.mood, &types, rows);
            self.case.tables.push(table);
            self.case.views.push(view);
            types
        };
        self.case.plan.relations.push(relation(number, &types));
        Rel::Scan { relation: number as u16, columns: types.into_iter().map(|ty| self.column(ty)).collect() }
    }

    fn join(&mut self, tables: usize, depth: u32) -> Rel {
        let on_the_left = self.rng.random_range(1..tables);
        let depth = depth.saturating_sub(1);
        if self.chance(0.3) {
            return self.apply(on_the_left, tables - on_the_left, depth);
        }
        let (left, right) = (self.rel(on_the_left, depth), self.rel(tables - on_the_left, depth));
        let mut conditions = Vec::new();
        for _ in 0..self.rng.random_range(0..3) {
            conditions.extend(self.equality(&left.columns(), &right.columns()));
        }
        self.visible = [left.columns(), right.columns()].concat();
        if self.chance(0.3) {
            conditions.push(self.expr(Type::Bool, 2));
        }
        use JoinKind::*;
        let kind = *[Inner, Inner, Inner, Inner, Left, Left, Full, Semi, Anti].choose(self.rng).unwrap();
        let kind = if self.chance(0.1) { Mark(self.column(Type::Bool)) } else { kind };
        left.join(kind, right, conditions)
    }

    /// A join whose right side reads columns of the left one.
    fn apply(&mut self, left: usize, right: usize, depth: u32) -> Rel {
        let left = self.rel(left, depth);
        let wall = self.around.len();
        // Which of two zeros a subquery is given is open.
        let readable = left.columns().into_iter().filter(|id| self.type_of(*id) != Type::Float64);
        self.around.extend(readable.collect::<Vec<_>>());
        let mut rows = self.rel(right, depth);
        let mut conditions = Vec::new();
        for _ in 0..self.rng.random_range(0..3) {
            conditions.extend(self.equality(&left.columns(), &rows.columns()));
        }
        self.visible = rows.columns();
        if self.chance(0.2) {
            conditions.push(self.expr(Type::Bool, 2));
        }
        rows = rows.filter(conditions);
        match self.rng.random_range(0..5) {
            0 => rows = self.total(rows),
            1 => rows = self.group(rows),
            2 => rows = rows.map(vec![self.computed()]),
            _ => {}
        }
        self.around.truncate(wall);
        self.visible = [left.columns(), rows.columns()].concat();
        let conditions = if self.chance(0.2) { vec![self.expr(Type::Bool, 2)] } else { vec![] };
        use JoinKind::*;
        let kind = *[Inner, Inner, Left, Semi, Anti].choose(self.rng).unwrap();
        let kind = if self.chance(0.2) { Mark(self.column(Type::Bool)) } else { kind };
        left.apply(kind, rows, conditions)
    }

    /// All rows as one group, with what may be asked of it above.
    fn total(&mut self, input: Rel) -> Rel {
        let aggregates = self.aggregates();
        let mut rel = Rel::Aggregate { input: Box::new(input), keys: vec![], aggregates };
        self.visible = rel.columns();
        if self.chance(0.5) {
            rel = rel.map(vec![self.computed()]);
        }
        if self.chance(0.2) {
            rel = rel.filter(vec![self.expr(Type::Bool, 2)]);
        }
        rel
    }

    fn union(&mut self, tables: usize, depth: u32) -> Rel {
        let first = self.rng.random_range(1..tables);
        let types: Vec<Type> = (0..self.rng.random_range(0..4)).map(|_| any_type(self.rng)).collect();
        let mut inputs = Vec::new();
        for tables in [first, tables - first] {
            let rel = self.rel(tables, depth.saturating_sub(1));
            inputs.push(Part { rel, exprs: types.iter().map(|ty| self.expr(*ty, 1)).collect() });
        }
        Rel::Union { columns: types.into_iter().map(|ty| self.column(ty)).collect(), inputs }
    }

    fn group(&mut self, input: Rel) -> Rel {
        let keys = (0..self.rng.random_range(0..3)).map(|_| self.computed()).collect();
        let aggregates = self.aggregates();
        if self.chance(0.3) {
            let keys: Vec<Computed> = keys;
            let all = keys.len() as u16;
            let sets =
                (0..self.rng.random_range(1..4)).map(|_| (0..all).filter(|_| self.chance(0.5)).collect()).collect();
            let grouping = Box::new(GroupingSets { keys, sets, number: self.column(Type::Int32), aggregates });
            let grouped = Rel::GroupingSets { input: Box::new(input), grouping };
            self.visible = grouped.columns();
            return grouped;
        }
        let grouped = Rel::Aggregate { input: Box::new(input), keys, aggregates };
        self.visible = grouped.columns();
        grouped
    }

    fn aggregates(&mut self) -> Vec<Aggregation> {
        let mut aggregates = Vec::new();
        for _ in 0..self.rng.random_range(0..4) {
            let agg = self.aggregate();
            let argument = agg.argument().map_or(Type::Int64, |e| self.case.plan.type_of(e));
            let types: Vec<Type> = agg.aggregate().row().output_types(argument).collect();
            let columns = types.into_iter().map(|ty| self.column(ty)).collect();
            let distinct = agg.arguments().len() == 1 && self.chance(0.2);
            aggregates.push(Aggregation { columns, agg, distinct });
        }
        aggregates
    }

    /// The first rows in an order that leaves none but equal rows in any order; or so many rows, of which only the number
    /// is looked at.
    fn top(&mut self, input: Rel) -> Rel {
        let range = Range { offset: self.number_of_rows(0.5), count: self.number_of_rows(0.9), ties: self.chance(0.3) };
        if self.chance(0.15) {
            let range = Box::new(Range { ties: false, ..range });
            let input = Rel::Top { input: Box::new(input), keys: vec![], order: vec![], range };
            let columns = vec![self.column(Type::Int64)];
            let count = Aggregation { columns, agg: Agg::CountStar, distinct: false };
            return Rel::Aggregate { input: Box::new(input), keys: vec![], aggregates: vec![count] };
        }
        let mut by: Vec<Expr> = (0..self.rng.random_range(0..3)).map(|_| self.any_expr()).collect();
        let whole = !range.ties || self.chance(0.5);
        by.extend(input.columns().into_iter().filter(|_| whole).map(Expr::column));
        let order: Vec<SortKey> = by.into_iter().map(|expr| self.sort_key(expr)).collect();
        // Cut off between rows that differ, the choice would be free.
        let range = Range { offset: range.offset.filter(|_| whole), ..range };
        let keys =
            if self.chance(0.4) { (0..self.rng.random_range(1..3)).map(|_| self.any_expr()).collect() } else { vec![] };
        Rel::Top { input: Box::new(input), keys, order, range: Box::new(range) }
    }

    /// Window functions over rows that nothing but equal ones leaves in any order.
    fn window(&mut self, input: Rel) -> Rel {
        let partition = (0..self.rng.random_range(0..3)).map(|_| self.any_expr()).collect();
        let order: Vec<Expr> = (0..self.rng.random_range(0..3)).map(|_| self.any_expr()).collect();
        let order = order.into_iter().map(|expr| self.sort_key(expr)).collect();
        let ties = input.columns().into_iter().map(|id| self.sort_key(Expr::column(id))).collect();
        let calls = (0..self.rng.random_range(1..4)).map(|_| self.window_call()).collect();
        Rel::Window { input: Box::new(input), over: Box::new(Over { partition, order, ties }), calls }
    }

    fn window_call(&mut self) -> WindowCall {
        use WindowFunction::*;
        let number = self.rng.random_range(1..5);
        let function = match self.rng.random_range(0..14) {
            0 => RowNumber,
            1 => Rank,
            2 => DenseRank,
            3 => PercentRank,
            4 => CumeDist,
            5 => Ntile(number),
            6 | 7 => {
                let ty = any_type(self.rng);
                let otherwise = if self.chance(0.5) { Some(self.expr(ty, 1)) } else { None };
                Shifted { value: self.expr(ty, 1), by: self.rng.random_range(-3..=3), otherwise }
            }
            8 => First(self.any_expr()),
            9 => Last(self.any_expr()),
            10 => Nth(self.any_expr(), number),
            _ => loop {
                match self.aggregate() {
                    agg if agg.is_windowed() => break Aggregate(agg),
                    _ => {}
                }
            },
        };
        let bound = |this: &mut Self| {
            let rows = this.rng.random_range(0..4);
            [Bound::Unbounded, Bound::Preceding(rows), Bound::Current, Bound::Following(rows)]
                [this.rng.random_range(0..4)]
        };
        let unit = if self.chance(0.5) { Unit::Rows } else { Unit::Groups };
        let (start, end) = (bound(self), bound(self));
        let exclude = [Exclude::Nothing, Exclude::Current, Exclude::Group, Exclude::Ties][self.rng.random_range(0..4)];
        let types: Vec<Type> = function.arguments().into_iter().map(|e| self.case.plan.type_of(e)).collect();
        let types = function.types(&types).unwrap();
        let columns = types.into_iter().map(|ty| self.column(ty)).collect();
        WindowCall { columns, function, frame: Frame { unit, start, end, exclude } }
    }

    fn sort_key(&mut self, expr: Expr) -> SortKey {
        SortKey { expr, descending: self.chance(0.4), nulls_first: self.chance(0.4) }
    }

    /// For LIMIT or OFFSET: perhaps none, perhaps null.
    fn number_of_rows(&mut self, often: f64) -> Option<Expr> {
        if !self.chance(often) {
            return None;
        }
        let number = *[0, 1, 1, 2, 3, 5, 9, 20, i64::MAX].choose(self.rng).unwrap();
        let number = if self.chance(0.01) { -1 } else { number };
        let value = (!self.chance(0.05)).then_some(Literal::Int(number));
        if self.chance(0.5) {
            return Some(Expr::Literal { ty: Type::Int64, value });
        }
        self.case.plan.params.push(Type::Int64);
        self.case.params.push(value);
        Some(Expr::Param { index: self.case.params.len() as u16 - 1 })
    }

    fn column(&mut self, ty: Type) -> ColumnId {
        self.case.plan.columns.push(ty);
        ColumnId(self.case.plan.columns.len() as u16 - 1)
    }

    fn computed(&mut self) -> Computed {
        let expr = self.any_expr();
        let ty = self.case.plan.type_of(&expr);
        Computed { column: self.column(ty), expr }
    }

    fn type_of(&self, id: ColumnId) -> Type {
        self.case.plan.columns[id.0 as usize]
    }

    /// An equality that joins two sides, if their types allow it.
    fn equality(&mut self, left: &[ColumnId], right: &[ColumnId]) -> Option<Expr> {
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

    fn aggregate(&mut self) -> Agg {
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
        match self.rng.random_range(0..9) {
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
            2 => Agg::Sum(self.number()),
            3 => Agg::Avg(self.number()),
            n => {
                let ty = loop {
                    match any_type(self.rng) {
                        Type::Bool => {}
                        other => break other,
                    }
                };
                let arg = self.expr(ty, 2);
                if n == 4 { Agg::Min(arg) } else { Agg::Max(arg) }
            }
        }
    }

    /// A float that is rarely too large to be summed.
    fn summed_float(&mut self) -> Expr {
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

    /// Integers and decimals.
    fn number(&mut self) -> Expr {
        let ty = loop {
            let ty = any_type(self.rng);
            if is_decimal(ty) || INTEGERS.contains(&ty) {
                break ty;
            }
        };
        self.expr(ty, 2)
    }

    fn any_expr(&mut self) -> Expr {
        let ty = any_type(self.rng);
        self.expr(ty, 2)
    }

    fn leaf(&mut self, ty: Type) -> Expr {
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

    fn expr(&mut self, ty: Type, depth: u32) -> Expr {
        if depth == 0 || self.chance(0.35) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if self.chance(0.2) {
            return self.choice(ty, d);
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
            Type::Decimal128 { scale } => self.decimal(scale, d),
            Type::Date => {
                let (l, r) = (self.expr(Type::Date, d), self.expr(Type::Int32, d));
                arith(sign, ty, l, r)
            }
            Type::Timestamp => cast(ty, self.expr(Type::Date, d)),
            Type::Text => self.text(d),
            Type::TimestampTz | Type::Char => self.leaf(ty),
        }
    }

    /// A function of one number or time, or of two, that gives this type.
    fn of_one(&mut self, ty: Type, depth: u32) -> Option<Expr> {
        use Named::*;
        let scale = *[0, 2, 5].choose(self.rng).unwrap();
        let decimal = if self.chance(0.5) { Type::Decimal64 { scale } } else { Type::Decimal128 { scale } };
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
            Type::Int16 => vec![(ToInt16, vec![Type::Int32]), (ToInt16, vec![Type::Float64]), (ToInt16, vec![decimal])],
            Type::Int32 => vec![
                (ToInt32, vec![Type::Int64]),
                (ToInt32, vec![Type::Float64]),
                (ToInt32, vec![decimal]),
                (ToInt32, vec![Type::Bool]),
            ],
            Type::Int64 => vec![(ToInt64, vec![Type::Float64]), (ToInt64, vec![decimal])],
            Type::Float64 => [Abs, Sign, Round, Ceil, Floor, Trunc, Sqrt]
                .map(|function| (function, vec![ty]))
                .into_iter()
                .chain([(ToFloat, vec![decimal]), (DatePart(field), vec![Type::Timestamp])])
                .collect(),
            Type::Decimal64 { .. } => vec![(Extract(field), vec![time]), (Sign, vec![decimal])],
            Type::Decimal128 { scale: 0 } => {
                [Round, Ceil, Floor, Trunc].map(|function| (function, vec![decimal])).into()
            }
            Type::Decimal128 { scale } if scale <= 18 => {
                vec![(Abs, vec![ty]), (Abs, vec![Type::Decimal64 { scale }])]
            }
            Type::Decimal128 { scale: plan::AVERAGE_SCALE } => vec![(Average, vec![decimal, Type::Int64])],
            Type::Decimal128 { .. } => vec![(Abs, vec![ty])],
            Type::Date => vec![(TimestampToDate, vec![Type::Timestamp])],
            Type::Timestamp => vec![(DateTrunc(field), vec![ty])],
            Type::TimestampTz | Type::Text | Type::Char => vec![],
        };
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
        let (function, operands) = [candidates, bits].concat().choose(self.rng)?.clone();
        let fits = catalogue::result_type(catalogue::Call::Named(function), &operands) == Some(ty);
        let args: Vec<Expr> = operands.into_iter().map(|operand| self.expr(operand, depth)).collect();
        fits.then(|| call(function, ty, args))
    }

    fn any_text(&mut self, depth: u32) -> Expr {
        let ty = *[Type::Text, Type::Char].choose(self.rng).unwrap();
        self.expr(ty, depth)
    }

    fn text(&mut self, depth: u32) -> Expr {
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

    fn pattern(&mut self) -> Expr {
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

    /// One of several values.
    fn choice(&mut self, ty: Type, depth: u32) -> Expr {
        match self.rng.random_range(0..3) {
            0 => {
                let branch = |this: &mut Self| (this.expr(Type::Bool, depth), this.expr(ty, depth));
                let branches = (0..self.rng.random_range(1..4)).map(|_| branch(self)).collect();
                Expr::Case { branches, otherwise: self.expr(ty, depth).into() }
            }
            1 if ty != Type::Bool => {
                let function = *[Named::Greatest, Named::Least].choose(self.rng).unwrap();
                call(function, ty, self.several(ty, depth))
            }
            _ => Expr::Coalesce(self.several(ty, depth)),
        }
    }

    fn several(&mut self, ty: Type, depth: u32) -> Vec<Expr> {
        (0..self.rng.random_range(1..4)).map(|_| self.expr(ty, depth)).collect()
    }

    fn decimal(&mut self, scale: u8, depth: u32) -> Expr {
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

    fn condition(&mut self, depth: u32) -> Expr {
        match self.rng.random_range(0..11) {
            10 if self.chance(0.3) => {
                call(Named::StartsWith, Type::Bool, vec![self.expr(Type::Text, depth), self.expr(Type::Text, depth)])
            }
            10 => call(Named::Like, Type::Bool, vec![self.expr(Type::Text, depth), self.pattern()]),
            0 => Expr::Not(self.expr(Type::Bool, depth).into()),
            1 => {
                let ty = any_type(self.rng);
                Expr::IsNull { arg: self.expr(ty, depth).into(), negated: self.chance(0.5) }
            }
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
