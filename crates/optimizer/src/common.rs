//! Finds subplans that occur several times in a plan, so that each can be computed only once. Examples are a view or
//! WITH query that is read twice, rows that unnesting has copied, and a join whose rows are both grouped and totalled.
//!
//! Candidates are groups, windows, first rows, and whole inner joins. The rows of all other operators are so cheap to
//! compute that keeping them does not pay.

use std::collections::HashMap;
use std::marker::PhantomData;

use plan::{ColumnId, Expr, JoinKind, Plan, Rel, Relation};

/// Operators that have an equal operator elsewhere in the plan. If an operator is listed, the operators below it are
/// not.
#[derive(Debug, Default)]
pub struct Common<'a> {
    members: HashMap<*const Rel, Member>,
    of: PhantomData<&'a Plan>,
}

/// An operator that has an equal operator elsewhere.
#[derive(Debug)]
struct Member {
    class: usize,
    /// The columns that are read above this operator, or above an operator equal to it.
    read: Vec<ColumnId>,
}

impl<'a> Common<'a> {
    /// Finds the operators. `is_kept` tells whether the rows of an operator with an equal operator would be kept for
    /// both, rather than computed again.
    pub fn of(plan: &'a Plan, is_kept: &dyn Fn(&Rel) -> bool) -> Common<'a> {
        let mut sizes = HashMap::new();
        plan.root.visit(&mut |rel| {
            if is_candidate(rel) {
                *sizes.entry(size(rel)).or_insert(0) += 1;
            }
        });
        let (found, classes) = (HashMap::new(), Vec::new());
        let mut finder = Finder { relations: &plan.relations, is_kept, sizes, found, classes };
        finder.look_at(&plan.root, Above::default());
        let several = finder.classes.into_iter().filter(|members| members.len() > 1);
        let classes: Vec<Class> = several.map(Class::of).collect();
        let of =
            classes.iter().enumerate().flat_map(|(number, class)| class.members.iter().map(move |&rel| (rel, number)));
        let of = of.map(|(rel, number)| (std::ptr::from_ref(rel), number)).collect();
        let mut reading = Reading { has_grown: !classes.is_empty(), classes, of };
        let output: Vec<ColumnId> = plan.output.iter().flat_map(Expr::columns).collect();
        while std::mem::take(&mut reading.has_grown) {
            reading.look_at(&plan.root, &output);
        }
        let members = reading.classes.iter().enumerate().flat_map(|(number, class)| {
            let member =
                move |rel: &&Rel| (std::ptr::from_ref(*rel), Member { class: number, read: class.read_of(rel) });
            class.members.iter().map(member)
        });
        Common { members: members.collect(), of: PhantomData }
    }

    /// The number of an operator's class, and the columns of its rows that are read above any operator of the class.
    /// All operators of a class have the same rows, and list corresponding columns.
    pub fn class(&self, rel: &'a Rel) -> Option<(usize, &[ColumnId])> {
        self.members.get(&std::ptr::from_ref(rel)).map(|member| (member.class, &member.read[..]))
    }
}

fn is_candidate(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate { .. } | Rel::GroupingSets { .. } | Rel::Top { .. } | Rel::Window { .. } => true,
        Rel::Join { .. } | Rel::Filter { .. } => joins_inner(rel),
        Rel::Scan { .. } | Rel::Row | Rel::Map { .. } | Rel::Union { .. } => false,
        Rel::Unfold { .. } | Rel::Apply { .. } => false,
    }
}

/// Whether this is an inner join, with or without a filter above it.
fn joins_inner(rel: &Rel) -> bool {
    match rel {
        Rel::Filter { input, .. } => joins_inner(input),
        Rel::Join { kind, .. } => *kind == JoinKind::Inner,
        _ => false,
    }
}

/// The number of operators in the subplan, which is the same for equal operators.
fn size(rel: &Rel) -> usize {
    let mut size = 0;
    rel.visit(&mut |_| size += 1);
    size
}

/// The kinds of operators that stand above a given operator.
#[derive(Clone, Copy, Default)]
struct Above {
    /// Whether the next operator above is a filter or an inner join. Then the given operator belongs to a block, whose
    /// relations can be joined in any order.
    is_block: bool,
    /// Whether a join above may filter these rows by its keys. That would be impossible if the rows were also read
    /// elsewhere.
    is_join: bool,
}

impl Above {
    fn below(self, rel: &Rel) -> Above {
        let is_join = match rel {
            Rel::Join { .. } | Rel::Apply { .. } => true,
            Rel::Filter { .. } | Rel::Map { .. } => self.is_join,
            _ => false,
        };
        Above { is_block: rel.is_block(), is_join }
    }
}

struct Finder<'a, 'f> {
    relations: &'a [Relation],
    is_kept: &'f dyn Fn(&Rel) -> bool,
    /// For each size of a subplan, the number of subplans of that size.
    sizes: HashMap<usize, usize>,
    /// The class of each subplan, by the bytes that [`Finder::look_of`] returns.
    found: HashMap<Vec<u8>, usize>,
    /// The classes of equal operators.
    classes: Vec<Vec<&'a Rel>>,
}

impl<'a> Finder<'a, '_> {
    fn look_at(&mut self, rel: &'a Rel, above: Above) {
        if self.is_common(rel, above) {
            return;
        }
        let below = above.below(rel);
        rel.inputs().into_iter().for_each(|input| self.look_at(input, below));
    }

    /// Visits an operator. Returns whether it is equal to one that was visited before.
    fn is_common(&mut self, rel: &'a Rel, above: Above) -> bool {
        let is_whole = !joins_inner(rel) || !(above.is_block || above.is_join);
        if !is_candidate(rel) || !is_whole || self.sizes[&size(rel)] < 2 {
            return false;
        }
        let number = *self.found.entry(self.look_of(rel)).or_insert(self.classes.len());
        match self.classes.get_mut(number) {
            None => self.classes.push(vec![rel]),
            Some(_) if !(self.is_kept)(rel) => {}
            Some(members) => {
                members.push(rel);
                return true;
            }
        }
        false
    }

    /// The operator as bytes, which are the same for equal operators. Columns are renumbered by their first occurrence.
    /// A relation gets the number of the first relation with the same content.
    fn look_of(&self, rel: &Rel) -> Vec<u8> {
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
                // Rows that the backend sends belong to a single relation, so no other relation has the same content.
                let same = self.relations.iter().position(|other| other == own && !own.tables().is_empty());
                *relation = same.map_or(*relation, |first| first as u16);
            }
        });
        postcard::to_stdvec(&renamed).expect("plain data serialises")
    }
}

/// Several equal operators.
struct Class<'a> {
    members: Vec<&'a Rel>,
    /// For each column of these operators, whether it is read above any of them.
    read: Vec<bool>,
}

impl<'a> Class<'a> {
    fn of(members: Vec<&'a Rel>) -> Class<'a> {
        Class { read: vec![false; members[0].columns().len()], members }
    }

    fn read_of(&self, member: &Rel) -> Vec<ColumnId> {
        let columns = member.columns().into_iter().zip(&self.read);
        columns.filter(|(_, is_read)| **is_read).map(|(id, _)| id).collect()
    }
}

/// Finds the columns of the classes that are read. If a column of any member is read, the operators below the class's
/// first member must provide it. Those operators may belong to a class that was already visited, so passes are repeated
/// until nothing new is found.
struct Reading<'a> {
    classes: Vec<Class<'a>>,
    /// The number of an operator's class.
    of: HashMap<*const Rel, usize>,
    has_grown: bool,
}

impl<'a> Reading<'a> {
    fn look_at(&mut self, rel: &'a Rel, above: &[ColumnId]) {
        let mut read: Vec<ColumnId> = rel.expressions().into_iter().flat_map(Expr::columns).collect();
        match self.of.get(&std::ptr::from_ref(rel)) {
            None => read.extend(above),
            Some(&number) => {
                let class = &mut self.classes[number];
                for (id, is_read) in rel.columns().iter().zip(&mut class.read) {
                    self.has_grown |= !*is_read && above.contains(id);
                    *is_read |= above.contains(id);
                }
                if !std::ptr::eq(class.members[0], rel) {
                    return;
                }
                read.extend(class.read_of(rel));
            }
        }
        rel.inputs().into_iter().for_each(|input| self.look_at(input, &read));
    }
}

#[cfg(test)]
mod tests {
    use plan::{Agg, Aggregation, Computed, JoinKind, RelationColumn, Type};

    use super::*;

    const COLUMN: RelationColumn = RelationColumn { attnum: 1, ty: Type::Int64 };

    /// `select key, sum(value) from relation group by key`. Its columns are numbered from `first` on.
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

    fn class<'a>(common: &Common<'a>, rel: &'a Rel) -> Option<usize> {
        common.class(rel).map(|(class, _)| class)
    }

    fn are_common(left: Rel, right: Rel) -> bool {
        let plan = joined(left, right);
        let common = Common::of(&plan, &|_| true);
        let inputs = plan.root.inputs();
        let classes = [class(&common, inputs[0]), class(&common, inputs[1])];
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
        let common = Common::of(&plan, &|_| true);
        let [left, right] = plan.root.inputs()[..] else { panic!() };
        assert!(class(&common, left).is_some());
        assert_eq!(class(&common, left), class(&common, right));
        assert_eq!(class(&common, left.inputs()[0]), None);
        assert_eq!(class(&common, right.inputs()[0]), None);
    }

    /// The groups of two joined tables, by the first column of each. Columns are numbered from `first` on.
    fn groups_of_joined(first: u16) -> Rel {
        let id = |at: u16| Expr::column(ColumnId(first + at));
        let scan =
            |relation, at: u16| Rel::Scan { relation, columns: vec![ColumnId(first + at), ColumnId(first + at + 1)] };
        let aggregation = Aggregation { columns: vec![ColumnId(first + 5)], agg: Agg::Sum(id(1)), distinct: false };
        Rel::Aggregate {
            input: Box::new(scan(0, 0).join(JoinKind::Inner, scan(2, 2), vec![Expr::equal(id(0), id(2))])),
            keys: vec![Computed { column: ColumnId(first + 4), expr: id(0) }],
            aggregates: vec![aggregation],
        }
    }

    #[test]
    fn equal_joins_are_kept_for_all_that_read_them() {
        let (left, mut right) = (groups_of_joined(0), groups_of_joined(8));
        if let Rel::Aggregate { keys, aggregates, .. } = &mut right {
            keys.clear();
            aggregates[0].agg = Agg::Sum(Expr::column(ColumnId(11)));
        }
        let plan = joined(left, right);
        let [left, right] = plan.root.inputs()[..] else { panic!() };
        let [left, right] = [left.inputs()[0], right.inputs()[0]];
        let common = Common::of(&plan, &|_| true);
        // The left plan reads the group and one sum, and the right plan the other sum, so the class has all three
        // columns.
        let [(one, of_left), (other, of_right)] = [left, right].map(|rel| common.class(rel).unwrap());
        assert_eq!(one, other);
        assert_eq!((of_left, of_right), (&[0, 1, 3].map(ColumnId)[..], &[8, 9, 11].map(ColumnId)[..]));
        let none = Common::of(&plan, &|_| false);
        assert_eq!((none.class(left), none.class(right)), (None, None));
    }

    #[test]
    fn what_is_read_of_equal_ones_is_read_of_what_they_are_made_of() {
        let pair = |first: u16| groups(0, first).join(JoinKind::Inner, groups(2, first + 4), vec![]);
        let sum = |rel: Rel, of: u16, id: u16| {
            let sum =
                Aggregation { columns: vec![ColumnId(id)], agg: Agg::Sum(Expr::column(ColumnId(of))), distinct: false };
            Rel::Aggregate { input: Box::new(rel), keys: vec![], aggregates: vec![sum] }
        };
        // The plan has sums over the sums of one pair, and over the keys of another pair. The groups of the pairs occur
        // once more, before or after these sums.
        for is_before in [false, true] {
            let sums = sum(pair(0), 3, 8).join(JoinKind::Inner, sum(pair(9), 11, 17), vec![]);
            let plan = if is_before { joined(groups(0, 18), sums) } else { joined(sums, groups(0, 18)) };
            let common = Common::of(&plan, &|_| true);
            let [left, right] = plan.root.inputs()[..] else { panic!() };
            let (sums, alone) = if is_before { (right, left) } else { (left, right) };
            let pair = sums.inputs()[0].inputs()[0];
            assert_eq!(common.class(pair).unwrap().1, [2, 3].map(ColumnId));
            let (within, columns) = common.class(pair.inputs()[0]).unwrap();
            assert_eq!(columns, [2, 3].map(ColumnId));
            assert_eq!(common.class(alone), Some((within, &[20, 21].map(ColumnId)[..])));
        }
    }

    #[test]
    fn joins_that_are_joined_stay_in_one_block() {
        let part = |first| match groups_of_joined(first) {
            Rel::Aggregate { input, .. } => *input,
            _ => unreachable!(),
        };
        let plan = joined(part(0), part(8));
        let common = Common::of(&plan, &|_| true);
        assert!(plan.root.inputs().into_iter().all(|input| common.class(input).is_none()));
    }
}
