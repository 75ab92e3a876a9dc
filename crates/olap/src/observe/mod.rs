//! Observation for EXPLAIN: the work of each operator, with its measured figures.
//!
//! ```text
//!   Filter                       Observed(Filter)
//!     ViewScan          ->         FilterExec
//!                                    Observed(Scan)
//!                                      ViewScan
//! ```
//!
//! Only if the query is explained, `Observed` operators with a meter are put around its own operators. EXPLAIN does not
//! show some operators, such as exchanges and partial aggregation. Their work counts for the shown operator above them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use plan::{ColumnId, Meaning};
use protocol::tree::{Actual, Chunks, EnginePlan, Method, Operator, Step};

use crate::operators::join::JoinExec;
use crate::operators::scan::{Direct, ViewScan};
use crate::spill::Meter;

/// Whether the query that is being built is observed.
#[derive(Clone, Copy, Debug)]
pub struct Observer(pub bool);

impl Observer {
    /// Observes an operator that EXPLAIN shows. `about` is the step that it performs, and the expected number of rows.
    pub fn operator(
        self,
        plan: Arc<dyn ExecutionPlan>,
        about: impl FnOnce() -> (Step, Option<f64>),
    ) -> Arc<dyn ExecutionPlan> {
        self.around(plan, || {
            let (step, expected_rows) = about();
            Role::Operator { step, expected_rows }
        })
    }

    /// Observes an operator that is not shown. Its work counts for the shown operator above it.
    pub fn part(self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        self.around(plan, || Role::Part)
    }

    /// Observes a projection, which is not shown. Its work counts for the operator whose rows it projects.
    pub fn output(self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        self.around(plan, || Role::Output)
    }

    fn around(self, plan: Arc<dyn ExecutionPlan>, role: impl FnOnce() -> Role) -> Arc<dyn ExecutionPlan> {
        match self.0 {
            true => Arc::new(Observed { plan, role: role(), meter: Arc::default() }),
            false => plan,
        }
    }
}

#[derive(Debug)]
enum Role {
    Operator { step: Step, expected_rows: Option<f64> },
    Part,
    Output,
}

#[derive(Debug)]
struct Observed {
    plan: Arc<dyn ExecutionPlan>,
    role: Role,
    meter: Arc<Meter>,
}

impl ExecutionPlan for Observed {
    fn name(&self) -> &str {
        "Observed"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// Not called, because plans are not rewritten after they are built.
    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(children.remove(0))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let context = match self.role {
            Role::Operator { .. } => self.meter.context(&context),
            Role::Part | Role::Output => context,
        };
        Ok(self.meter.measured(self.plan.execute(partition, context)?))
    }
}

impl DisplayAs for Observed {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observed")
    }
}

/// The scan, if `plan` is a scan, for an operator that reads the scan's chunks itself.
pub fn direct(plan: &Arc<dyn ExecutionPlan>) -> Option<Direct> {
    match plan.downcast_ref::<Observed>() {
        Some(Observed { plan, meter, .. }) => Some(Direct::new(plan.downcast_ref()?, Some(meter.clone()))),
        None => Some(Direct::new(plan.downcast_ref()?, None)),
    }
}

/// The observed plan of a query.
pub struct Observation {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<(ColumnId, Meaning)>,
}

impl Observation {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, columns: Vec<(ColumnId, Meaning)>) -> Observation {
        Observation { plan, columns }
    }

    /// The plan as EXPLAIN shows it. With `ran`, it contains the figures that were measured so far.
    pub fn plan(self, ran: bool) -> Option<EnginePlan> {
        let mut top = Below::default();
        top.gather(&self.plan, ran);
        let nanoseconds = top.nanoseconds;
        let mut root = top.operators.pop()?;
        take_longer(&mut root, nanoseconds);
        Some(EnginePlan { root, columns: self.columns })
    }
}

/// The shown operators below an operator, and the work that counts for that operator.
#[derive(Default)]
struct Below {
    operators: Vec<Operator>,
    /// The time of all operators that are not shown and work for the operator.
    nanoseconds: u64,
    chunks: Option<Chunks>,
    without_partner: u64,
}

fn take_longer(operator: &mut Operator, more: u64) {
    if let Some(Actual { nanoseconds: Some(own), .. }) = &mut operator.actual {
        *own += more;
    }
}

impl Below {
    fn gather(&mut self, plan: &Arc<dyn ExecutionPlan>, ran: bool) {
        let Some(Observed { plan, role, meter }) = plan.downcast_ref::<Observed>() else {
            self.take_metrics(plan, ran);
            return plan.children().into_iter().for_each(|child| self.gather(child, ran));
        };
        let nanoseconds = meter.nanoseconds();
        match role {
            Role::Part => {
                self.nanoseconds += nanoseconds;
                self.gather(plan, ran);
            }
            Role::Output => {
                let before = self.operators.len();
                self.gather(plan, ran);
                match self.operators.get_mut(before) {
                    Some(operator) => take_longer(operator, nanoseconds),
                    None => self.nanoseconds += nanoseconds,
                }
            }
            Role::Operator { step, expected_rows } => {
                let mut below = Below::default();
                below.gather(plan, ran);
                let actual = ran.then(|| Actual {
                    rows: meter.rows(),
                    nanoseconds: Some(nanoseconds + below.nanoseconds),
                    memory_bytes: meter.most_memory(),
                    disk_bytes: meter.most_disk(),
                    chunks: below.chunks,
                    without_partner: below.without_partner,
                });
                let (step, expected_rows) = (step.clone(), *expected_rows);
                let operator = Operator { step, expected_rows, actual, inputs: below.operators };
                self.operators.push(arranged(operator));
            }
        }
    }

    fn take_metrics(&mut self, plan: &Arc<dyn ExecutionPlan>, ran: bool) {
        if let Some(scan) = plan.downcast_ref::<ViewScan>() {
            match scan.below_filter(ran) {
                Some(below) => self.operators.push(below),
                None => self.chunks = Some(scan.chunks()),
            }
            self.without_partner = scan.without_partner();
        }
        if let Some(join) = plan.downcast_ref::<JoinExec>() {
            self.nanoseconds += join.nanoseconds();
        }
        // The time of an exchange, which runs in separate tasks that no meter measures.
        let spent = plan.metrics().and_then(|metrics| metrics.sum_by_name("repartition_time"));
        self.nanoseconds += spent.map_or(0, |time| time.as_usize() as u64);
    }
}

/// The operator with its inputs in the order in which EXPLAIN shows them.
fn arranged(mut operator: Operator) -> Operator {
    match &operator.step {
        // Each input returns only one of the listed rows, so EXPLAIN shows no inputs.
        Step::Values { .. } => operator.inputs.clear(),
        Step::Join(join) if operator.inputs.len() == 2 => {
            let is_hashed = join.method == Method::Hash;
            // The plan has the build side first, but EXPLAIN shows it last.
            operator.inputs.reverse();
            if let Some(build) = operator.inputs.pop_if(|_| is_hashed) {
                let memory_bytes =
                    operator.actual.as_mut().map_or(0, |actual| std::mem::take(&mut actual.memory_bytes));
                let rows = build.actual.as_ref().map(|actual| actual.rows);
                operator.inputs.push(Operator {
                    step: Step::Hash,
                    expected_rows: build.expected_rows,
                    actual: rows.map(|rows| Actual { rows, memory_bytes, ..Actual::default() }),
                    inputs: vec![build],
                });
            }
        }
        _ => {}
    }
    operator
}
