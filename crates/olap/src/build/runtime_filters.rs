//! Runtime filters: the scans below a join receive the keys of its build side.
//!
//! A scan below several joins tests the keys of each. An operator that must see all rows of its input, such as an
//! aggregate, gets no filters below it.

use std::sync::Arc;

use optimizer::join_order::Pair;
use plan::catalogue::Kind;
use plan::{ColumnId, Expr, Physical, Plan, Type};

use super::builder::Builder;
use super::stage::Stage;
use crate::operators::join::Key;
use crate::operators::scan::runtime_filter::{GatherKeys, JoinKeys, KeyTest};

/// The keys of a join that a scan on its probe side may test.
#[derive(Default)]
pub struct Partners(Vec<Partner>);

struct Partner {
    /// The position of the key among the join's keys.
    at: usize,
    /// The column of the probe side.
    column: ColumnId,
    keys: Arc<JoinKeys>,
}

/// The column of a probe key that a scan can test against build keys of type `build`. Returns `None` if the key is not
/// such a column, or if the keys are not stored as integers.
pub fn asked_column(plan: &Plan, probe: &Expr, build: Type) -> Option<ColumnId> {
    let is_integer = |ty: Type| ty.kind() == Kind::Integer;
    let ty = plan.type_of(probe);
    let column = match probe {
        Expr::Column { id } if build == ty || is_integer(build) && is_integer(ty) => *id,
        Expr::Cast { to, arg } if is_integer(*to) && is_integer(build) => match &**arg {
            Expr::Column { id } if is_integer(plan.type_of(arg)) => *id,
            _ => return None,
        },
        _ => return None,
    };
    matches!(build.physical(), Physical::Int16 | Physical::Int32 | Physical::Int64).then_some(column)
}

impl Builder<'_> {
    /// The pairs of keys that scans can test, each with its column on the probe side.
    pub fn partners(&self, keys: &[Pair<'_>]) -> Partners {
        let partner = |(at, (build, probe)): (usize, &Pair<'_>)| {
            let column = asked_column(self.plan, probe, self.plan.type_of(build))?;
            Some(Partner { at, column, keys: Arc::default() })
        };
        Partners(keys.iter().enumerate().filter_map(partner).collect())
    }

    /// The runtime filters of the joins above that apply to a scan of these columns.
    pub fn key_tests(&self, columns: &[ColumnId]) -> Vec<KeyTest> {
        let test = |(id, keys): &(ColumnId, Arc<JoinKeys>)| {
            let column = columns.iter().position(|column| column == id)?;
            Some(KeyTest::new(column, keys.clone()))
        };
        self.partners.borrow().iter().filter_map(test).collect()
    }

    /// Calls `of`, which builds an operator. Below it, runtime filters of the joins above may test only these columns.
    pub fn with_partners_of<T>(&self, columns: &[ColumnId], of: impl FnOnce() -> T) -> T {
        let all = self.partners.take();
        self.partners.replace(all.iter().filter(|(id, _)| columns.contains(id)).cloned().collect());
        let result = of();
        self.partners.replace(all);
        result
    }

    /// Calls `of`, which builds the probe side of a join. The join drops rows without a partner, so the scans below may
    /// test its keys, too.
    pub fn below_join<T>(&self, partners: &[(ColumnId, Arc<JoinKeys>)], of: impl FnOnce() -> T) -> T {
        let known = self.partners.borrow().len();
        self.partners.borrow_mut().extend(partners.iter().cloned());
        let result = of();
        self.partners.borrow_mut().truncate(known);
        result
    }
}

impl Partners {
    pub fn of_columns(&self) -> Vec<(ColumnId, Arc<JoinKeys>)> {
        self.0.iter().map(|Partner { column, keys, .. }| (*column, keys.clone())).collect()
    }

    /// Adds an operator to the build side that collects the keys for the scans which test them. `on` are the join's
    /// keys.
    pub fn noted(self, build: Stage, on: &[Key]) -> Stage {
        let wanted = self.0.into_iter().filter(|partner| Arc::strong_count(&partner.keys) > 1);
        let noted = wanted.map(|Partner { at, keys, .. }| (on[at].0.clone(), keys)).collect::<Vec<_>>();
        match noted.is_empty() {
            true => build,
            false => Stage { plan: Arc::new(GatherKeys::new(build.plan, noted)), ..build },
        }
    }
}
