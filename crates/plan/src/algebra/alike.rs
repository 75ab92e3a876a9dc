//! Makes inner joins of the same tables scan the same columns in the same order, even if one of the joins does not need
//! all of them. Equal subplans then look the same, so that they are recognised as equal and computed once.
//!
//! ```text
//!   SELECT part, sum(cost) FROM a JOIN b … GROUP BY part        a: part, cost, key     a: part, cost, key
//!     HAVING sum(cost) > (SELECT sum(cost) FROM a JOIN b …)     a: cost, key           a: part, cost, key
//! ```

use std::collections::BTreeMap;

use crate::algebra::plan::{Plan, Relation};
use crate::algebra::rel::Rel;
use crate::base::ops::ColumnId;
use crate::base::types::Type;

/// A column of a relation: the attribute number that it has in each of the relation's tables, and its type.
type Column = (Vec<i16>, Type);

impl Plan {
    pub fn scan_alike(&mut self) {
        // For each block, the tables of its joined relations. A relation's list of tables is empty in two cases: it is
        // not scanned from mirrored tables, or the user may not see some of its rows.
        let mut blocks: BTreeMap<Vec<Vec<u32>>, Vec<Vec<u16>>> = BTreeMap::new();
        each_block(&self.root, false, &mut |joined| {
            let scanned = joined.iter().map(|rel| match rel {
                Rel::Scan { relation, .. } => Some((*relation, tables(&self.relations[*relation as usize])?)),
                _ => None,
            });
            let (relations, tables): (Vec<u16>, Vec<_>) = scanned.map(Option::unwrap_or_default).unzip();
            if tables.len() > 1 {
                blocks.entry(tables).or_default().push(relations);
            }
        });
        for (tables, same) in blocks.into_iter().filter(|(_, same)| same.len() > 1) {
            for at in (0..tables.len()).filter(|at| !tables[*at].is_empty()) {
                self.align(&same.iter().map(|relations| relations[at]).collect::<Vec<_>>());
            }
        }
    }

    /// Makes relations of the same tables read the union of their columns, in the same order.
    fn align(&mut self, relations: &[u16]) {
        let mut union: Vec<Column> = Vec::new();
        for relation in relations {
            for column in columns(&self.relations[*relation as usize]) {
                if !union.contains(&column) {
                    union.push(column);
                }
            }
        }
        let more = relations.len() * union.len();
        if self.columns.len() + more <= usize::from(u16::MAX) {
            relations.iter().for_each(|relation| self.widen(*relation, &union));
        }
    }

    fn widen(&mut self, number: u16, union: &[Column]) {
        let relation = &mut self.relations[usize::from(number)];
        let before = columns(relation);
        let places: Vec<_> = union.iter().map(|column| before.iter().position(|known| known == column)).collect();
        relation.columns = union.iter().map(|(_, ty)| *ty).collect();
        for (at, table) in relation.tables_mut().iter_mut().enumerate() {
            table.attnums = union.iter().map(|(attnums, _)| attnums[at]).collect();
        }
        let types = &mut self.columns;
        self.root.visit_mut(&mut |rel| {
            let Rel::Scan { relation, columns } = rel else { return };
            if *relation == number {
                let mut added = |ty: Type| {
                    types.push(ty);
                    ColumnId(types.len() as u16 - 1)
                };
                let column =
                    |(place, (_, ty)): (&Option<usize>, &Column)| place.map_or_else(|| added(*ty), |at| columns[at]);
                *columns = places.iter().zip(union).map(column).collect();
            }
        });
    }
}

fn tables(relation: &Relation) -> Option<Vec<u32>> {
    relation.visible_if.is_empty().then(|| relation.tables().iter().map(|table| table.relid).collect())
}

fn columns(relation: &Relation) -> Vec<Column> {
    let called = |at: usize| relation.tables().iter().map(|table| table.attnums[at]).collect();
    relation.columns.iter().enumerate().map(|(at, ty)| (called(at), *ty)).collect()
}

/// Calls `f` for each block, that is, each tree of inner joins and filters, with the block's relations.
fn each_block<'a>(rel: &'a Rel, within: bool, f: &mut impl FnMut(Vec<&'a Rel>)) {
    let is_block = rel.is_block();
    if is_block && !within {
        let mut joined = Vec::new();
        gather(rel, &mut joined);
        f(joined);
    }
    rel.inputs().into_iter().for_each(|input| each_block(input, is_block, f));
}

fn gather<'a>(rel: &'a Rel, joined: &mut Vec<&'a Rel>) {
    match rel.is_block() {
        true => rel.inputs().into_iter().for_each(|input| gather(input, joined)),
        false => joined.push(rel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::expr::Expr;
    use crate::algebra::plan::RelationColumn;
    use crate::algebra::rel::JoinKind;
    use crate::base::ops::CmpOp;

    fn column(attnum: i16, ty: Type) -> RelationColumn {
        RelationColumn { attnum, ty }
    }

    fn scan(relation: u16, ids: &[u16]) -> Rel {
        Rel::Scan { relation, columns: ids.iter().copied().map(ColumnId).collect() }
    }

    fn joined(left: Rel, right: Rel, on: [u16; 2]) -> Rel {
        let [a, b] = on.map(|id| Expr::column(ColumnId(id)));
        left.join(JoinKind::Inner, right, vec![Expr::Cmp { op: CmpOp::Eq, left: a.into(), right: b.into() }])
    }

    /// A plan of two joins of tables 7 and 8, which read different columns of table 7.
    fn plan(second: u32) -> Plan {
        let [int, text] = [Type::Int64, Type::Text];
        Plan {
            relations: vec![
                Relation::of_table(7, &[column(1, int), column(2, text)]),
                Relation::of_table(8, &[column(1, int)]),
                Relation::of_table(7, &[column(3, text), column(1, int)]),
                Relation::of_table(second, &[column(1, int)]),
            ],
            columns: vec![int, text, int, text, int, int],
            params: vec![],
            root: joined(scan(0, &[0, 1]), scan(1, &[2]), [0, 2]).join(
                JoinKind::Left,
                joined(scan(2, &[3, 4]), scan(3, &[5]), [4, 5]),
                vec![],
            ),
            output: vec![Expr::column(ColumnId(1)), Expr::column(ColumnId(3))],
        }
    }

    #[test]
    fn equal_joins_scan_what_any_of_them_scans() {
        let mut plan = plan(8);
        plan.scan_alike();
        plan.check().unwrap();
        assert_eq!(plan.relations[0], plan.relations[2]);
        let attnums = &plan.relations[0].tables()[0].attnums;
        assert_eq!((attnums, &plan.relations[0].columns), (&vec![1, 2, 3], &vec![Type::Int64, Type::Text, Type::Text]));
        let mut scans = Vec::new();
        plan.root.visit(&mut |rel| {
            if let Rel::Scan { columns, .. } = rel {
                scans.push(columns.iter().map(|id| id.0).collect::<Vec<_>>());
            }
        });
        assert_eq!(scans, [vec![0, 1, 6], vec![2], vec![4, 7, 3], vec![5]]);
        assert_eq!(plan.columns[6..], [Type::Text, Type::Text]);
    }

    #[test]
    fn others_stay_as_they_are() {
        let mut other = plan(9);
        other.scan_alike();
        assert_eq!(other, plan(9), "joins of other tables");
        let mut hidden = plan(8);
        hidden.relations[2].visible_if = vec![Expr::column(ColumnId(4))];
        let before = hidden.clone();
        hidden.scan_alike();
        assert_eq!(hidden, before, "a table of which the user may see a part");
        let mut full = plan(8);
        full.columns.resize(usize::from(u16::MAX) - 1, Type::Int64);
        let before = full.clone();
        full.scan_alike();
        assert_eq!(full, before, "no room for more columns");
    }
}
