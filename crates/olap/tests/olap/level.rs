//! A plan of a single SELECT level, the most frequent kind: tables in inner joins, conditions, and perhaps groups.

use std::borrow::Cow;

use plan::{Agg, Aggregation, ColumnId, Computed, Expr, JoinKind, Plan, Rel, Relation, RelationColumn, Type};

/// The number of column ids that each table gets. No table of these tests has more columns. The id of a column follows
/// from the number of its table and its own number.
const WIDTH: usize = 16;

#[derive(Clone, Debug, Default)]
pub struct Level {
    pub tables: Vec<Vec<Type>>,
    pub filters: Vec<Expr>,
    pub grouping: Option<Grouping>,
    pub output: Vec<Expr>,
    pub params: Vec<Type>,
}

#[derive(Clone, Debug)]
pub struct Grouping {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Agg>,
}

pub trait AsPlan {
    fn plan(&self) -> Cow<'_, Plan>;
}

impl AsPlan for Plan {
    fn plan(&self) -> Cow<'_, Plan> {
        Cow::Borrowed(self)
    }
}

pub fn id(rel: u16, col: u16) -> ColumnId {
    ColumnId(rel * WIDTH as u16 + col)
}

pub fn relation(number: usize, types: &[Type]) -> Relation {
    let columns: Vec<_> = (1..).zip(types).map(|(attnum, ty)| RelationColumn { attnum, ty: *ty }).collect();
    Relation::of_table(100 + number as u32, &columns)
}

impl AsPlan for Level {
    fn plan(&self) -> Cow<'_, Plan> {
        let mut columns = vec![Type::Bool; self.tables.len() * WIDTH];
        let mut root: Option<Rel> = None;
        for (rel, types) in self.tables.iter().enumerate() {
            columns[rel * WIDTH..rel * WIDTH + types.len()].copy_from_slice(types);
            let ids = (0..types.len()).map(|col| id(rel as u16, col as u16));
            let scan = Rel::Scan { relation: rel as u16, columns: ids.collect() };
            root = Some(match root {
                None => scan,
                Some(others) => others.join(JoinKind::Inner, scan, vec![]),
            });
        }
        let mut plan = Plan {
            relations: self.tables.iter().enumerate().map(|(i, types)| relation(i, types)).collect(),
            columns,
            params: self.params.clone(),
            root: root.unwrap().filter(self.filters.clone()),
            output: self.output.clone(),
        };
        if let Some(grouping) = &self.grouping {
            group(&mut plan, grouping);
        }
        Cow::Owned(plan)
    }
}

/// Adds a grouping to the plan, which then returns the columns of the groups.
fn group(plan: &mut Plan, grouping: &Grouping) {
    let typed = plan.clone();
    let mut new = |types: &[Type]| -> Vec<ColumnId> {
        let first = plan.columns.len();
        plan.columns.extend(types);
        (first..plan.columns.len()).map(|at| ColumnId(at as u16)).collect()
    };
    let keys = grouping.keys.iter().map(|key| Computed { column: new(&[typed.type_of(key)])[0], expr: key.clone() });
    let keys: Vec<Computed> = keys.collect();
    let aggregation = |agg: &Agg| {
        let argument = agg.argument().map_or(Type::Int64, |e| typed.type_of(e));
        let columns = new(&agg.aggregate().row().output_types(argument).collect::<Vec<_>>());
        Aggregation { columns, agg: agg.clone(), distinct: false }
    };
    let aggregates = grouping.aggregates.iter().map(aggregation).collect();
    plan.root = Rel::Aggregate { input: Box::new(typed.root), keys, aggregates };
    plan.output = plan.root.columns().into_iter().map(Expr::column).collect();
}
