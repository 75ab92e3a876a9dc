//! Converts a join of the plan, with its inputs' columns, into the operator.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use datafusion_common::error::Result;
use datafusion_common::{JoinSide, JoinType};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::utils::JoinFilter;

use super::exec::JoinExec;
use super::layout::Layout;
use super::ranks::Ranked;
use super::shape::{First, Given, Inequality, Key, Residual, Shape};

/// A join, whose left side is the build side.
pub struct Join {
    pub kind: JoinType,
    /// The keys of build and probe side that must be equal.
    pub on: Vec<Key>,
    /// Limits by which partners are looked up, in addition to keys or instead of them. The filter contains the limits'
    /// conditions, too.
    pub limits: Vec<Limit>,
    /// For an inner join: present if only the first partners of each row are needed.
    pub first: Option<First>,
    pub filter: Option<JoinFilter>,
    /// The output columns, by their positions in the inputs.
    pub output: Vec<Given>,
    /// The name of the column that tells whether there is a partner.
    pub mark: Option<String>,
}

/// A bound on the rank of the build side's value, given the rank of the probe side's value.
pub struct Limit {
    pub bound: Inequality,
    pub build: Ranked,
    pub probe: Ranked,
}

impl Join {
    pub fn of(self, build: Arc<dyn ExecutionPlan>, probe: Arc<dyn ExecutionPlan>) -> Result<JoinExec> {
        let filtered: Vec<Given> = self.filter.iter().flat_map(|filter| filter.column_indices()).map(given).collect();
        let read = |of: fn(Given) -> Option<usize>| {
            let mut read: Vec<usize> = self.output.iter().chain(&filtered).copied().filter_map(of).collect();
            read.sort_unstable();
            read.dedup();
            read
        };
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = self.on.iter().cloned().unzip();
        let ranked = |limit: &Limit| -> Key { (Arc::new(limit.build.clone()), Arc::new(limit.probe.clone())) };
        let limits: Vec<Key> = self.limits.iter().map(ranked).collect();
        let (build_ranks, probe_ranks): (Vec<_>, Vec<_>) = limits.iter().cloned().unzip();
        let build_read = read(|given| if let Given::Build(at) = given { Some(at) } else { None });
        let probe_read = read(|given| if let Given::Probe(at) = given { Some(at) } else { None });
        let (build_schema, probe_schema) = (build.schema(), probe.schema());
        let field = |given: &Given| match given {
            Given::Build(at) => build_schema.field(*at).clone().with_nullable(true),
            Given::Probe(at) => probe_schema.field(*at).clone().with_nullable(true),
            Given::Mark => Field::new(self.mark.as_deref().unwrap_or("mark"), DataType::Boolean, true),
        };
        let schema = Schema::new(self.output.iter().map(field).collect::<Vec<_>>());
        let build_layout = Layout::new(&build_schema, build_read, &build_keys, &build_ranks)?;
        let probe_layout = Layout::new(&probe_schema, probe_read, &probe_keys, &probe_ranks)?;
        let place = |given: &Given| match given {
            Given::Build(at) => build_layout.place_of(*at).map(Given::Build),
            Given::Probe(at) => probe_layout.place_of(*at).map(Given::Probe),
            Given::Mark => Some(Given::Mark),
        };
        // Every column here has a position, because the layouts contain all columns that are read.
        let places = |given: &[Given]| given.iter().filter_map(place).collect::<Vec<_>>();
        let residual = self.filter.as_ref().map(|filter| Residual {
            predicate: filter.expression().clone(),
            columns: places(&filtered),
            schema: filter.schema().clone(),
        });
        let output = places(&self.output);
        let (build_side, probe_side) = (build_layout.clone(), probe_layout.clone());
        let bounds = self.limits.iter().map(|limit| limit.bound).collect();
        let (kind, first, schema) = (self.kind, self.first, Arc::new(schema));
        let shape = Shape { kind, build: build_side, probe: probe_side, bounds, first, residual, output, schema };
        Ok(JoinExec::new(shape, self.on, limits, build, probe))
    }
}

fn given(column: &datafusion_physical_plan::joins::utils::ColumnIndex) -> Given {
    match column.side {
        JoinSide::Left => Given::Build(column.index),
        JoinSide::Right => Given::Probe(column.index),
        JoinSide::None => Given::Mark,
    }
}
