//! The relations that inner joins combine, and the conditions that compare them.

use optimizer::join_order::{Classes, Owners};
use plan::{Expr, JoinKind, Rel};

/// The relations that inner joins combine in any order (a block), and the conditions that join them.
pub struct Parts<'a> {
    pub relations: Vec<&'a Rel>,
    /// The conditions, without the equalities between relations that `classes` contains.
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
