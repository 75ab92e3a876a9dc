//! What a block consists of: its relations, and what compares them.

use optimizer::join_order::{Classes, Owners};
use plan::{Expr, JoinKind, Rel};

/// What is joined, and by what.
pub struct Parts<'a> {
    pub relations: Vec<&'a Rel>,
    /// Those of several relations are equalities only where they are not in `classes`.
    pub conditions: Vec<&'a Expr>,
    pub classes: Classes<'a>,
    pub owners: Owners,
}

impl<'a> Parts<'a> {
    pub fn of(rel: &'a Rel) -> Parts<'a> {
        let (mut relations, mut conditions) = (Vec::new(), Vec::new());
        gather(rel, &mut relations, &mut conditions);
        let owners = Owners::new(&relations.iter().map(|rel| rel.columns()).collect::<Vec<_>>());
        let classes = Classes::extract(&mut conditions, &owners);
        Parts { relations, conditions, classes, owners }
    }
}

fn gather<'a>(rel: &'a Rel, relations: &mut Vec<&'a Rel>, all: &mut Vec<&'a Expr>) {
    match rel {
        Rel::Filter { input, conditions } => {
            all.extend(conditions);
            gather(input, relations, all);
        }
        Rel::Join { kind: JoinKind::Inner, left, right, conditions } => {
            all.extend(conditions);
            gather(left, relations, all);
            gather(right, relations, all);
        }
        other => relations.push(other),
    }
}
