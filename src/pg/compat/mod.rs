//! Differences between PostgreSQL's versions. Only this room asks which version the extension is compiled for.
//!
//! Features like `since_16` say from which version on code applies. Cargo.toml derives them
//! from the version. So a new version takes the newest code of each function, until the compiler objects.
//!
//! - `catalog`: operators, collations, descriptors of rows, keys
//! - `client`: values on their way to the client
//! - `computed`: columns that stand for expressions, the meaning of functions
//! - `decoding`: WAL records, changed rows, the slot
//! - `executor`: running statements
//! - `explained`: an option of EXPLAIN
//! - `nodes`: the fields of the nodes that the planner translates
//! - `permissions`: who may read, own and call what
//! - `planner`: PostgreSQL's planner, and the hook that replaces it
//! - `process`: this process, and the list of all processes
//! - `queries`: trees of queries, and their walkers
//! - `rows`: rows of tables, tables in shared memory
//! - `waits`: names of what processes wait for
//! - `zone`: names of time zones

use pgrx::prelude::*;

mod catalog;
mod client;
mod computed;
mod decoding;
mod executor;
mod explained;
mod nodes;
mod permissions;
mod planner;
mod process;
mod queries;
mod rows;
mod waits;
mod zone;

pub use self::catalog::{
    MeaningOfOperator, NOT_EQUAL, POWER_OF_NUMERICS, SORTS_FOR_AGGREGATES, meanings_of_operator, ordered_by_bytes,
    strategy,
};
pub(super) use self::catalog::{first_attribute, primary_key_index};
pub(super) use self::client::put_counted_text;
pub use self::computed::{
    HAS_GROUP_ENTRY, HAS_VIRTUAL_COLUMNS, QUARTERS_HAVE_SIGNS, generation_expression, group_keys,
    without_virtual_columns,
};
pub use self::decoding::{LEVEL_FOR_DECODING, changed_rows, create_temporary_slot, log_message};
pub(super) use self::decoding::{begin_decoding, commit_time, database_of_block, file_of_block};
pub(super) use self::executor::{AroundRun, run_around, run_hooks_alone};
pub use self::executor::{is_always_read, query_id, range_table_relation, rows_processed, run_statement};
pub use self::explained::add_explain_option;
pub(super) use self::permissions::without_rights;
pub use self::permissions::{
    append_range_table, are_permitted, ask_no_permissions, may_execute, owns_database, owns_relation, selects,
    set_permissions, with_permissions_of, without_checks,
};
pub use self::planner::{Asking, Plan, Planner, plan_by, previous_planner};
pub(super) use self::planner::{others_have_planners, outermost_planner};
pub(super) use self::process::{backend_status, handle_signals, no_owner};
pub use self::process::{end_process, oldest_running, own_process_number};
pub use self::queries::{
    expression_tree_mutator, expression_tree_walker, flatten_join_columns, ignores_nulls, inlined_body,
    query_tree_mutator, query_tree_walker, replace_columns, without_group_entry,
};
pub use self::rows::shared_table;
pub(super) use self::rows::{begin_scan, begin_scan_alone, delete_row};
pub use self::waits::WaitFor;
pub(super) use self::waits::wait_event;
pub(super) use self::zone::{ZoneName, zone_named};

/// The newest version whose headers agree with what we declare ourselves: the functions of `symbols` and of this room,
/// and the beginnings of PostgreSQL's structures. The compiler cannot compare them.
const NEWEST: u32 = 19;
/// The version of the server for which the extension is compiled.
pub const MAJOR_VERSION: u32 = pg_sys::PG_MAJORVERSION_NUM;
const _: () = assert!(MAJOR_VERSION <= NEWEST, "compare them with this version's headers first");
