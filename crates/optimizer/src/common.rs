//! What a plan has more than once, and needs to compute only once: a view or WITH query that is read twice, the rows
//! around a subquery that unnesting has copied.
//!
//! Looked for are groups, windows and first rows: what is cheap to read again is not worth to be kept.

use std::collections::HashMap;
use std::marker::PhantomData;

use plan::{ColumnId, Expr, Plan, Rel, Relation};

/// Operators with an equal one elsewhere in the plan. What stands below such an operator counts once.
#[derive(Debug, Default)]
pub struct Common<'a> {
    classes: HashMap<*const Rel, usize>,
    of: PhantomData<&'a Plan>,
}

impl<'a> Common<'a> {
    pub fn of(plan: &'a Plan) -> Common<'a> {
        let mut sizes = HashMap::new();
        plan.root.visit(&mut |rel| {
            if is_worth_keeping(rel) {
                *sizes.entry(size(rel)).or_insert(0) += 1;
            }
        });
        let mut finder = Finder { relations: &plan.relations, sizes, found: HashMap::new(), members: Vec::new() };
        finder.look_at(&plan.root);
        let several = finder.members.into_iter().enumerate().filter(|(_, members)| members.len() > 1);
        let classes = several.flat_map(|(class, members)| members.into_iter().map(move |rel| (rel, class)));
        Common { classes: classes.collect(), of: PhantomData }
    }

    /// Operators of the plan with the same number have the same rows, in columns that correspond one by one.
    pub fn class(&self, rel: &'a Rel) -> Option<usize> {
        self.classes.get(&std::ptr::from_ref(rel)).copied()
    }
}

fn is_worth_keeping(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate { .. } | Rel::GroupingSets { .. } | Rel::Top { .. } | Rel::Window { .. } => true,
        Rel::Scan { .. } | Rel::Row | Rel::Filter { .. } | Rel::Map { .. } | Rel::Union { .. } => false,
        Rel::Unfold { .. } | Rel::Join { .. } | Rel::Apply { .. } => false,
    }
}

/// Equal operators have as many below them.
fn size(rel: &Rel) -> usize {
    let mut size = 0;
    rel.visit(&mut |_| size += 1);
    size
}

struct Finder<'a> {
    relations: &'a [Relation],
    /// How many operators there are of each size.
    sizes: HashMap<usize, usize>,
    /// The class of what looks like this.
    found: HashMap<String, usize>,
    /// Of each class.
    members: Vec<Vec<*const Rel>>,
}

impl Finder<'_> {
    fn look_at(&mut self, rel: &Rel) {
        if is_worth_keeping(rel) && self.sizes[&size(rel)] > 1 {
            let class = *self.found.entry(self.look_of(rel)).or_insert(self.members.len());
            if class < self.members.len() {
                self.members[class].push(rel);
                return;
            }
            self.members.push(vec![rel]);
        }
        rel.inputs().into_iter().for_each(|input| self.look_at(input));
    }

    /// Where columns are called by the order in which they occur, and relations that read the same by the first of them.
    fn look_of(&self, rel: &Rel) -> String {
        let mut numbers: HashMap<ColumnId, ColumnId> = HashMap::new();
        let mut renamed = rel.clone();
        renamed.visit_mut(&mut |rel| {
            let met = rel.made().into_iter().chain(rel.expressions().into_iter().flat_map(Expr::columns));
            for id in met.collect::<Vec<_>>() {
                let next = ColumnId(numbers.len() as u16);
                numbers.entry(id).or_insert(next);
            }
            rel.made_mut().into_iter().for_each(|id| *id = numbers[id]);
            let name = |id: ColumnId| Some(Expr::column(numbers[&id]));
            rel.expressions_mut().into_iter().for_each(|expr| expr.replace_columns(&name));
            if let Rel::Scan { relation, .. } = rel {
                let own = &self.relations[*relation as usize];
                // The rows that come with the request are of this relation alone.
                let same = self.relations.iter().position(|other| other == own && !own.tables().is_empty());
                *relation = same.map_or(*relation, |first| first as u16);
            }
        });
        format!("{renamed:?}")
    }
}

#[cfg(test)]
mod tests {
    use plan::{Agg, Aggregation, Computed, JoinKind, RelationColumn, Type};

    use super::*;

    const COLUMN: RelationColumn = RelationColumn { attnum: 1, ty: Type::Int64 };

    /// select key, sum(value) from relation group by key, with columns from `first` on.
    fn groups(relation: u16, first: u16) -> Rel {
        let id = |at: u16| ColumnId(first + at);
        let aggregation = Aggregation { columns: vec![id(3)], agg: Agg::Sum(Expr::column(id(1))), distinct: false };
        Rel::Aggregate {
            input: Box::new(Rel::Scan { relation, columns: vec![id(0), id(1)] }),
            keys: vec![Computed { column: id(2), expr: Expr::column(id(0)) }],
            aggregates: vec![aggregation],
        }
    }

    fn joined(left: Rel, right: Rel) -> Plan {
        let relation = Relation::of_table(7, &[COLUMN, COLUMN]);
        let other = Relation::of_table(8, &[COLUMN, COLUMN]);
        let sent = Relation { source: plan::Source::Sent, ..other.clone() };
        Plan {
            relations: vec![relation.clone(), relation, other, sent.clone(), sent],
            columns: vec![Type::Int64; 32],
            params: vec![],
            root: left.join(JoinKind::Inner, right, vec![]),
            output: vec![],
        }
    }

    fn are_common(left: Rel, right: Rel) -> bool {
        let plan = joined(left, right);
        let common = Common::of(&plan);
        let inputs = plan.root.inputs();
        let classes = [common.class(inputs[0]), common.class(inputs[1])];
        assert_eq!(classes[0].is_some(), classes[1].is_some());
        classes[0].is_some() && classes[0] == classes[1]
    }

    #[test]
    fn equal_but_for_their_columns_names() {
        assert!(are_common(groups(0, 0), groups(0, 8)));
        assert!(are_common(groups(0, 0), groups(1, 8)), "relations that read the same");
        assert!(!are_common(groups(0, 0), groups(2, 8)), "another table");
        assert!(are_common(groups(3, 0), groups(3, 8)));
        assert!(!are_common(groups(3, 0), groups(4, 8)), "other rows that come with the request");
    }

    #[test]
    fn which_column_is_meant_counts() {
        let mut other = groups(0, 8);
        if let Rel::Aggregate { aggregates, .. } = &mut other {
            aggregates[0].agg = Agg::Sum(Expr::column(ColumnId(8)));
        }
        assert!(!are_common(groups(0, 0), other));
    }

    #[test]
    fn what_is_below_an_equal_one_is_read_once() {
        let outer = |rel: Rel, id: u16| {
            let count = Aggregation { columns: vec![ColumnId(id)], agg: Agg::CountStar, distinct: false };
            Rel::Aggregate { input: Box::new(rel), keys: vec![], aggregates: vec![count] }
        };
        let plan = joined(outer(groups(0, 0), 4), outer(groups(0, 8), 12));
        let common = Common::of(&plan);
        let [left, right] = plan.root.inputs()[..] else { panic!() };
        assert!(common.class(left).is_some());
        assert_eq!(common.class(left), common.class(right));
        assert_eq!(common.class(left.inputs()[0]), None);
        assert_eq!(common.class(right.inputs()[0]), None);
    }
}
