//! Expressions that the filters make equal, transitively.

use plan::{CmpOp, Expr};

/// Two expressions that are equal.
pub type Pair<'a> = (&'a Expr, &'a Expr);

/// An expression over one relation.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub rel: u16,
    pub expr: &'a Expr,
}

#[derive(Debug)]
struct Class<'a> {
    members: Vec<Member<'a>>,
    /// Further equalities may add to it. An expression that can raise an error is compared with what the query compares it
    /// with, and nothing else.
    open: bool,
}

/// Every class has members of at least two relations.
#[derive(Debug, Default)]
pub struct Classes<'a>(Vec<Class<'a>>);

impl<'a> Classes<'a> {
    /// Takes the equalities between relations out of `filters`; what is left are conditions of other kinds.
    pub fn extract(filters: &mut Vec<&'a Expr>) -> Classes<'a> {
        let mut classes = Classes::default();
        filters.retain(|filter| match sides(filter) {
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

    /// What is equal within a relation because something in another is equal to both.
    pub fn within(&self, rel: u16) -> impl Iterator<Item = Pair<'a>> {
        self.iter().flat_map(move |members| {
            let mut own = members.iter().filter(move |member| member.rel == rel).map(|member| member.expr);
            let first = own.next();
            own.filter_map(move |other| Some((first?, other)))
        })
    }
}

/// The sides of an equality, if each is about one relation and these differ.
fn sides(filter: &Expr) -> Option<(Member<'_>, Member<'_>)> {
    let Expr::Cmp { op: CmpOp::Eq, left, right } = filter else { return None };
    let member = |expr| match relations_of(expr)[..] {
        [rel] => Some(Member { rel, expr }),
        _ => None,
    };
    let (left, right) = (member(left)?, member(right)?);
    (left.rel != right.rel).then_some((left, right))
}

/// Each once.
pub fn relations_of(expr: &Expr) -> Vec<u16> {
    let mut relations = Vec::new();
    expr.visit(&mut |e| {
        if let Expr::Column { rel, .. } = e
            && !relations.contains(rel)
        {
            relations.push(*rel);
        }
    });
    relations
}
