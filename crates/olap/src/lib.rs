//! Runs a [`plan::Plan`] over store views on DataFusion, with PostgreSQL's semantics.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use colstore::TableView;
use datafusion::execution::SendableRecordBatchStream;
use plan::{Literal, Plan};
use protocol::request::{Failure, FailureKind};

/// Shared by all queries: memory pool, functions, settings.
pub struct Runtime {}

#[derive(Clone, Copy, Debug)]
pub struct RuntimeOptions {
    pub memory_bytes: u64,
    pub threads: u32,
}

/// A query ready to run: the result's schema (columns `c0`, `c1`, … in the Arrow form of `Plan::output_types`) and its
/// batches. Dropping the stream cancels the query.
pub struct Running {
    pub schema: SchemaRef,
    pub batches: SendableRecordBatchStream,
}

#[allow(unused_variables, clippy::todo)]
impl Runtime {
    pub fn new(options: RuntimeOptions) -> Runtime {
        todo!()
    }
    /// Plans and starts a query; must be called within a tokio runtime. `views` belong to `plan.relations`, column by
    /// column. A plan that is not well-formed is `Failure { kind: Internal }`, never a panic.
    pub async fn start(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
    ) -> Result<Running, Failure> {
        todo!()
    }
    /// What an error of the stream means.
    pub fn failure(error: &datafusion::error::DataFusionError) -> Failure {
        Failure { kind: FailureKind::Internal, message: error.to_string() }
    }
}
