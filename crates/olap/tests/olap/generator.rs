//! Makes random tables, and random plans over them.

mod conversions;
mod expressions;
mod lists;
mod values;

use std::sync::Arc;

use colstore::TableView;
use plan::catalogue::{BitAgg, Extreme, FloatAgg, PairAgg, Spread};
use plan::{
    Agg, Aggregation, ArithOp, BoolOp, Bound, CmpOp, ColumnId, Computed, Element, Exclude, Expr, Field, Frame,
    GroupingSets, JoinKind, List, Listed, Listing, Literal, Named, Over, Part, Plan, Range, Reach, Rel, SortKey, Type,
    Unfold, Unit, WindowCall, WindowFunction, catalogue,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::build::{call, cast};
use crate::intervals;
use crate::level::relation;
use crate::locales;
use crate::numerics;
use crate::table::{Row, TestView, Value, chunk};

use self::values::{any_type, table, value};

pub struct Case {
    pub plan: Plan,
    pub params: Vec<Value>,
    pub tables: Vec<Vec<Row>>,
    pub views: Vec<Arc<dyn TableView>>,
}

const INTEGERS: [Type; 3] = [Type::Int16, Type::Int32, Type::Int64];

/// The kind of values that the tables of a case have.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// Few distinct values. They often match in joins and groups, and seldom raise errors.
    Calm,
    /// Extreme values, such as ends of ranges, infinities and NaN.
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

struct Generator<'a> {
    rng: &'a mut StdRng,
    mood: Mood,
    case: Case,
    /// The greatest number of rows that a table of this case may have.
    most: usize,
    /// The columns that expressions may read.
    visible: Vec<ColumnId>,
    /// The columns of the outer rows, within a subquery. Expressions may read these columns, too.
    around: Vec<ColumnId>,
    /// Whether no further operator reads the next value. Then its last digits need not be exact.
    is_last: bool,
}

impl Generator<'_> {
    fn chance(&mut self, p: f64) -> bool {
        self.rng.random_bool(p)
    }

    /// Makes a plan over `tables` tables.
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
        if self.chance(0.2) {
            root = self.in_order(root);
        }
        self.case.plan.root = root;
    }

    /// Sorts the rows by some of their columns.
    fn in_order(&mut self, input: Rel) -> Rel {
        let columns = input.columns();
        let by: Vec<Expr> = columns.choose_multiple(self.rng, 3).map(|id| Expr::column(*id)).collect();
        let order = by.into_iter().map(|expr| self.sort_key(expr)).collect();
        Rel::Top { input: Box::new(input), keys: vec![], order, range: Box::default() }
    }

    /// A random tree of operators over `tables` tables.
    fn rel(&mut self, tables: usize, depth: u32) -> Rel {
        let mut rel = match tables {
            1 if self.chance(0.05) => Rel::Row,
            1 => self.scan(),
            _ if self.chance(0.15) => self.union(tables, depth),
            _ => self.join(tables, depth),
        };
        while depth > 0 && self.chance(0.4) {
            self.visible = rel.columns();
            rel = match self.rng.random_range(0..8) {
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
                6 => self.unfold(rel),
                _ => self.group(rel),
            };
        }
        self.visible = rel.columns();
        rel
    }

    fn scan(&mut self) -> Rel {
        let number = self.case.tables.len();
        let types: Vec<Type> = if number > 0 && self.chance(0.3) {
            // The first table is read a second time, as another relation.
            self.case.tables.push(self.case.tables[0].clone());
            self.case.views.push(self.case.views[0].clone());
            self.case.plan.relations[0].columns.clone()
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

    /// A join whose right side reads columns of the left side.
    fn apply(&mut self, left: usize, right: usize, depth: u32) -> Rel {
        let left = self.rel(left, depth);
        let wall = self.around.len();
        // Floats are excluded, because 0 and -0 are one value of the domain, and the engine may pass either to the
        // subquery.
        let readable = left.columns().into_iter().filter(|id| !self.type_of(*id).is_float());
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

    /// Groups all rows into one group, and adds operators that may stand above such a group.
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
            let distinct = (agg.arguments().len() == 1 || agg.aggregate().row().shows_row_order) && self.chance(0.2);
            aggregates.push(Aggregation { columns, agg, distinct });
        }
        aggregates
    }

    /// The first rows in an order. If some rows are equal in the order, they are equal in all columns; otherwise, only
    /// the number of rows is used.
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
        // If different rows are equal in the order, an offset could skip any of them. So there is no offset in this
        // case, and the count includes ties.
        let range = Range { offset: range.offset.filter(|_| whole), ..range };
        let keys =
            if self.chance(0.4) { (0..self.rng.random_range(1..3)).map(|_| self.any_expr()).collect() } else { vec![] };
        Rel::Top { input: Box::new(input), keys, order, range: Box::new(range) }
    }

    /// Unfolds a short list for each row.
    fn unfold(&mut self, input: Rel) -> Rel {
        let (list, arguments, ty) = if self.chance(0.5) {
            let ty = *[Type::Int32, Type::Int64].choose(self.rng).unwrap();
            let number = |n| Expr::Literal { ty, value: Some(Literal::Int(n)) };
            let bounded =
                |e: Expr| call(Named::Least, ty, vec![call(Named::Greatest, ty, vec![e, number(-3)]), number(3)]);
            let (from, to) = (bounded(self.expr(ty, 1)), bounded(self.expr(ty, 1)));
            (List::Series, vec![from, to, number(*[1, 1, 2, -1].choose(self.rng).unwrap())], ty)
        } else {
            let delimiter = *[" ", "a", "%", "ab"].choose(self.rng).unwrap();
            let delimiter = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(delimiter.into())) };
            (List::Fields, vec![self.expr(Type::Text, 1), delimiter], Type::Text)
        };
        let (column, number) = (self.column(ty), self.chance(0.5).then(|| self.column(Type::Int64)));
        let unfold = Box::new(Unfold { list, arguments, column, number, outer: self.chance(0.3) });
        Rel::Unfold { input: Box::new(input), unfold }
    }

    /// Adds window functions. Rows that are equal in the window's order are equal in all columns.
    fn window(&mut self, input: Rel) -> Rel {
        let partition = (0..self.rng.random_range(0..3)).map(|_| self.any_expr()).collect();
        let order: Vec<Expr> = (0..self.rng.random_range(0..3)).map(|_| self.any_expr()).collect();
        let order = order.into_iter().map(|expr| self.sort_key(expr)).collect();
        let ties = input.columns().into_iter().map(|id| self.sort_key(Expr::column(id))).collect();
        let order: Vec<SortKey> = order;
        let calls = (0..self.rng.random_range(1..4)).map(|_| self.window_call(&order)).collect();
        Rel::Window { input: Box::new(input), over: Box::new(Over { partition, order, ties }), calls }
    }

    fn window_call(&mut self, order: &[SortKey]) -> WindowCall {
        use WindowFunction::*;
        let number = Some(Literal::Int(self.rng.random_range(1..5))).filter(|_| !self.chance(0.1));
        let number = Expr::Literal { ty: Type::Int32, value: number };
        let function = match self.rng.random_range(0..15) {
            0 => RowNumber,
            1 => Rank,
            2 => DenseRank,
            3 => PercentRank,
            4 => CumeDist,
            5 => Ntile(number),
            6 | 7 => {
                let ty = any_type(self.rng);
                let otherwise = if self.chance(0.5) { Some(self.expr(ty, 1)) } else { None };
                let by = match self.chance(0.5) {
                    true => Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(self.rng.random_range(-3..=3))) },
                    false => self.expr(Type::Int32, 1),
                };
                Shifted { value: self.expr(ty, 1), by, back: self.chance(0.5), otherwise }
            }
            8 => First(self.any_expr()),
            9 => Last(self.any_expr()),
            10 => Nth(self.any_expr(), number),
            11 => SumOfReals(self.expr(Type::Float32, 1)),
            _ => loop {
                let agg = self.aggregate();
                let types: Vec<Type> = agg.arguments().iter().map(|e| self.case.plan.type_of(e)).collect();
                if Aggregate(agg.clone()).types(&types).is_some() {
                    break Aggregate(agg);
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
        let frame = Frame { unit, start, end, exclude };
        match order {
            [key] if function.reads_frame() && self.chance(0.5) => {
                self.of_values(key, WindowCall { columns, function, frame, reach: None })
            }
            _ => WindowCall { columns, function, frame, reach: None },
        }
    }

    /// Gives a call of a window function a frame of values. The edges of the frame may be any expressions.
    fn of_values(&mut self, key: &SortKey, call: WindowCall) -> WindowCall {
        let ty = self.case.plan.type_of(&key.expr);
        let edge = |this: &mut Self, bound: Bound| match bound {
            Bound::Preceding(_) | Bound::Following(_) => (Bound::Edge, Some(this.expr(ty, 1))),
            bound => (bound, None),
        };
        let (start, first) = edge(self, call.frame.start);
        let (end, last) = edge(self, call.frame.end);
        let reach = Some(Box::new(Reach { value: key.expr.clone(), start: first, end: last }));
        WindowCall { frame: Frame { unit: Unit::Values, start, end, ..call.frame }, reach, ..call }
    }

    fn sort_key(&mut self, expr: Expr) -> SortKey {
        let locale = (self.case.plan.type_of(&expr).is_text() && self.chance(0.6)).then(|| self.locale());
        SortKey { expr, locale, descending: self.chance(0.4), nulls_first: self.chance(0.4) }
    }

    fn locale(&mut self) -> String {
        let known = locales::known();
        (*known.choose(self.rng).unwrap()).to_owned()
    }

    /// A number for LIMIT or OFFSET; sometimes null, or absent.
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
}
