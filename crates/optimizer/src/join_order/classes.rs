//! Classes of expressions that equalities among the filters make equal, directly or transitively.

use plan::{CmpOp, ColumnId, Expr};

/// The relation to which each column belongs.
#[derive(Clone, Debug, Default)]
pub struct Owners(Vec<Option<u16>>);

impl Owners {
    /// Maps each column to its relation. `columns` lists the columns of each relation.
    pub fn new(columns: &[Vec<ColumnId>]) -> Owners {
        let last = columns.iter().flatten().map(|column| column.0).max();
        let mut owners = vec![None; last.map_or(0, |last| last as usize + 1)];
        for (rel, columns) in (0..).zip(columns) {
            columns.iter().for_each(|column| owners[column.0 as usize] = Some(rel));
        }
        Owners(owners)
    }

    /// The relations whose columns an expression reads, without duplicates.
    pub fn of(&self, expr: &Expr) -> Vec<u16> {
        let mut relations: Vec<u16> =
            (expr.columns().iter()).filter_map(|column| self.0.get(column.0 as usize).copied().flatten()).collect();
        relations.sort_unstable();
        relations.dedup();
        relations
    }
}

/// Two expressions that are equal.
pub type Pair<'a> = (&'a Expr, &'a Expr);

/// An expression over one relation, as a member of a class.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub rel: u16,
    pub expr: &'a Expr,
}

#[derive(Debug)]
struct Class<'a> {
    members: Vec<Member<'a>>,
    /// Whether further equalities may extend the class. An expression that can raise an error must be compared only
    /// with the expressions with which the query itself compares it. So a class with such an expression is closed.
    open: bool,
}

/// Classes of equal expressions. Every class has expressions of at least two relations.
#[derive(Debug, Default)]
pub struct Classes<'a>(Vec<Class<'a>>);

impl<'a> Classes<'a> {
    /// Removes the equalities between relations from `filters`, and makes classes of them.
    pub fn extract(filters: &mut Vec<&'a Expr>, owners: &Owners) -> Classes<'a> {
        let mut classes = Classes::default();
        filters.retain(|filter| match sides(filter, owners) {
            Some((left, right)) => {
                classes.add(left, right);
                false
            }
            None => true,
        });
        classes
    }

    fn add(&mut self, left: Member<'a>, right: Member<'a>) {
        let open = !left.expr.can_raise() && !right.expr.can_raise();
        let place = |member: &Member<'a>| {
            let equal = |other: &Member<'a>| other.rel == member.rel && other.expr == member.expr;
            self.0.iter().position(|class| open && class.open && class.members.iter().any(equal))
        };
        match (place(&left), place(&right)) {
            (None, None) => self.0.push(Class { members: vec![left, right], open }),
            (Some(class), None) => self.0[class].members.push(right),
            (None, Some(class)) => self.0[class].members.push(left),
            (Some(one), Some(two)) if one != two => {
                let (kept, merged) = (one.min(two), one.max(two));
                let merged = self.0.remove(merged);
                self.0[kept].members.extend(merged.members);
            }
            _ => {}
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &[Member<'a>]> {
        self.0.iter().map(|class| class.members.as_slice())
    }

    /// Equalities within a relation that hold because both sides equal an expression of another relation.
    pub fn within(&self, rel: u16) -> impl Iterator<Item = Pair<'a>> {
        self.iter().flat_map(move |members| {
            let mut own = members.iter().filter(move |member| member.rel == rel).map(|member| member.expr);
            let first = own.next();
            own.filter_map(move |other| Some((first?, other)))
        })
    }
}

/// The two sides of an equality, if each side reads a single relation, and the relations differ.
fn sides<'a>(filter: &'a Expr, owners: &Owners) -> Option<(Member<'a>, Member<'a>)> {
    let Expr::Cmp { op: CmpOp::Eq, left, right } = filter else { return None };
    let member = |expr| match owners.of(expr)[..] {
        [rel] => Some(Member { rel, expr }),
        _ => None,
    };
    let (left, right) = (member(left)?, member(right)?);
    (left.rel != right.rel).then_some((left, right))
}
