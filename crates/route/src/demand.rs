//! The work that a plan needs per row, in the units of [`Work`].

use std::collections::BTreeSet;

use plan::{ColumnId, Expr, Physical, Plan, Rel, Type};

use crate::{Flow, Work};

/// The work for one pair of rows in a nested loop, in values ([`Work`]). The factor comes from a measurement with two
/// threads, in which a pair with two conditions took two nanoseconds.
const VALUES_OF_PAIR: f64 = 4.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    reads: Vec<Reads>,
    /// The work for each row that is grouped: computing its aggregates, and the expressions in these.
    per_grouped: f64,
    per_returned: f64,
    /// Whether the engine returns only as many rows as the query needs.
    pub is_limited: bool,
    /// Whether the engine sorts the rows that it returns.
    pub is_sorted: bool,
}

/// The reads of one relation.
#[derive(Clone, Debug, PartialEq)]
struct Reads {
    tables: Vec<u32>,
    /// The work for each row of the relation: reading its columns, and testing the conditions that read only this
    /// relation.
    per_row: f64,
}

/// The work for a value of this type, in values of eight bytes.
pub fn weight(ty: Type) -> f64 {
    match ty.physical() {
        Physical::Bit | Physical::Int16 | Physical::Int32 | Physical::Int64 | Physical::Float64 => 1.0,
        Physical::Int128 => 2.0,
        Physical::Text | Physical::Bytes => 4.0,
    }
}

impl Demand {
    pub fn of(plan: &Plan) -> Demand {
        let read = |relation: &plan::Relation| Reads {
            tables: relation.tables().iter().map(|table| table.relid).collect(),
            per_row: 0.0,
        };
        let mut demand = Demand {
            reads: plan.relations.iter().map(read).collect(),
            per_grouped: 0.0,
            per_returned: 1.0 + plan.output_types().into_iter().map(weight).sum::<f64>(),
            is_limited: matches!(&plan.root, Rel::Top { range, .. } if range.count.is_some()),
            is_sorted: plan.order().is_some(),
        };
        let origins = origins(plan);
        for (id, relation) in read_columns(plan).into_iter().filter_map(|id| Some((id, origins[id.0 as usize]?))) {
            demand.reads[relation].per_row += weight(plan.columns[id.0 as usize]);
        }
        plan.root.visit(&mut |rel| {
            if let Rel::Filter { conditions, .. } | Rel::Join { conditions, .. } | Rel::Apply { conditions, .. } = rel {
                for condition in conditions {
                    if let Some(relation) = only_relation(condition, &origins) {
                        demand.reads[relation].per_row += operations(condition);
                    }
                }
            }
            let arguments = rel.aggregates().iter().flat_map(|aggregation| aggregation.agg.arguments());
            demand.per_grouped += rel.aggregates().len() as f64 + arguments.map(operations).sum::<f64>();
        });
        demand
    }

    /// The engine's work for the plan. `rows_of` returns the number of rows in a table.
    pub fn work(&self, mut rows_of: impl FnMut(u32) -> f64, flow: Flow) -> Work {
        let read = |reads: &Reads| reads.per_row * reads.tables.iter().map(|table| rows_of(*table)).sum::<f64>();
        Work {
            values: self.reads.iter().map(read).sum::<f64>()
                + self.per_grouped * flow.grouped
                + VALUES_OF_PAIR * flow.paired,
            rows: flow.joined + flow.grouped,
            results: self.per_returned * flow.returned,
        }
    }
}

/// For each column of the plan, the relation whose scan makes it.
fn origins(plan: &Plan) -> Vec<Option<usize>> {
    let mut origins = vec![None; plan.columns.len()];
    plan.root.visit(&mut |rel| {
        if let Rel::Scan { relation, columns } = rel {
            columns.iter().for_each(|ColumnId(column)| origins[*column as usize] = Some(*relation as usize));
        }
    });
    origins
}

/// The columns that the expressions of the plan read.
fn read_columns(plan: &Plan) -> BTreeSet<ColumnId> {
    let mut read: BTreeSet<ColumnId> = plan.output.iter().flat_map(Expr::columns).collect();
    plan.root.visit(&mut |rel| read.extend(rel.expressions().into_iter().flat_map(Expr::columns)));
    read
}

/// The relation that a condition reads, if it reads only one.
fn only_relation(condition: &Expr, origins: &[Option<usize>]) -> Option<usize> {
    let mut relations = condition.columns().into_iter().map(|ColumnId(column)| origins[column as usize]);
    let first = relations.next()??;
    relations.all(|relation| relation == Some(first)).then_some(first)
}

fn operations(expr: &Expr) -> f64 {
    let mut operations = 0;
    expr.visit(&mut |e| operations += usize::from(!e.children().is_empty()));
    operations as f64
}

#[cfg(test)]
mod tests {
    use plan::{Agg, Aggregation, ArithOp, JoinKind, Literal, Relation, RelationColumn};

    use super::*;

    fn column(id: u32) -> Expr {
        Expr::column(ColumnId(id as _))
    }

    fn scan(relation: u16, columns: &[u32]) -> Rel {
        Rel::Scan { relation, columns: columns.iter().map(|id| ColumnId(*id as _)).collect() }
    }

    fn relation(relid: u32, types: &[Type]) -> Relation {
        let columns = types.iter().enumerate().map(|(at, ty)| RelationColumn { attnum: at as i16 + 1, ty: *ty });
        Relation::of_table(relid, &columns.collect::<Vec<_>>())
    }

    /// The plan of: select sum(a.y * 2) from a join b on a.x = b.x where b.t = 'u' and a.x = b.x
    fn joined() -> Plan {
        let text = Expr::Literal { ty: Type::Text, value: Some(Literal::Text("u".into())) };
        let two = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(2)) };
        let twice = Expr::Arith { op: ArithOp::Mul, ty: Type::Int64, left: Box::new(column(1)), right: Box::new(two) };
        let root = Rel::Aggregate {
            input: Box::new(
                scan(0, &[0, 1])
                    .join(JoinKind::Inner, scan(1, &[2, 3]), vec![Expr::equal(column(0), column(2))])
                    .filter(vec![Expr::equal(column(3), text)]),
            ),
            keys: Vec::new(),
            aggregates: vec![Aggregation { columns: vec![ColumnId(4)], agg: Agg::Sum(twice), distinct: false }],
        };
        let int = Type::Int64;
        Plan {
            relations: vec![relation(7, &[int, int]), relation(8, &[int, Type::Text])],
            columns: vec![int, int, int, Type::Text, Type::Decimal128 { scale: 0 }],
            params: Vec::new(),
            root,
            output: vec![column(4)],
        }
    }

    #[test]
    fn columns_and_conditions_count_for_each_row_of_their_table() {
        let rows_of = |relid| if relid == 7 { 1000.0 } else { 10.0 };
        let work = Demand::of(&joined()).work(rows_of, Flow::default());
        // 1000 rows of table a, with two columns, and 10 rows of table b, with a column, a text and a condition. The
        // join's own condition is not counted as a value.
        assert_eq!(work.values, 2.0 * 1000.0 + (1.0 + 4.0 + 1.0) * 10.0);
        assert_eq!(work.rows, 0.0);
    }

    #[test]
    fn what_flows_counts_by_the_rows_that_are_expected() {
        let flow = Flow { joined: 300.0, grouped: 100.0, returned: 1.0, ..Flow::default() };
        let work = Demand::of(&joined()).work(|_| 0.0, flow);
        // For each grouped row, the aggregate, the multiplication, and the row itself count.
        assert_eq!(work, Work { values: 200.0, rows: 400.0, results: 3.0 });
    }

    #[test]
    fn pairs_count_though_none_of_them_may_come_out() {
        let flow = Flow { paired: 1e6, ..Flow::default() };
        assert_eq!(Demand::of(&joined()).work(|_| 0.0, flow).values, VALUES_OF_PAIR * 1e6);
    }

    #[test]
    fn only_a_count_makes_it_limited() {
        let mut plan = joined();
        let range = |count| Box::new(plan::Range { offset: None, count, ties: false });
        let top = |input, count| Rel::Top { input: Box::new(input), keys: vec![], order: vec![], range: range(count) };
        plan.root = top(plan.root, None);
        assert!(!Demand::of(&plan).is_limited);
        plan.root = top(plan.root, Some(Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(5)) }));
        assert!(Demand::of(&plan).is_limited);
    }
}
