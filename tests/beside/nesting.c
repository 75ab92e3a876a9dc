/*
 * A library that stands in for others which plan queries beside pg_anker, as
 * Citus and TimescaleDB do. Its planner hook makes a state on which its hooks
 * within planning rely. What is planned or started past the chain of hooks
 * ends the session here, where others would follow a null pointer.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"

PG_MODULE_MAGIC;

void _PG_init(void);

/* Queries that are being planned, and statements that are being started. */
static int planning = 0;
static int starting = 0;

static planner_hook_type previous_planner;
static set_rel_pathlist_hook_type previous_relation;
static set_join_pathlist_hook_type previous_join;
static create_upper_paths_hook_type previous_upper;
static ExecutorStart_hook_type previous_start;
static ExecutorCheckPerms_hook_type previous_rights;

static void
expect(int depth, const char *what)
{
	if (depth == 0)
		elog(FATAL, "%s past the hooks", what);
}

static PlannedStmt *
plan(Query *query, const char *source, int options, ParamListInfo params)
{
	PlannedStmt *statement;

	planning++;
	PG_TRY();
	{
		statement = (previous_planner ? previous_planner : standard_planner) (query, source, options, params);
	}
	PG_FINALLY();
	{
		planning--;
	}
	PG_END_TRY();
	return statement;
}

static void
plan_relation(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *entry)
{
	expect(planning, "a relation is planned");
	if (previous_relation)
		previous_relation(root, rel, index, entry);
}

static void
plan_join(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	expect(planning, "a join is planned");
	if (previous_join)
		previous_join(root, join, outer, inner, type, extra);
}

static void
plan_upper(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output, void *extra)
{
	expect(planning, "grouping or order is planned");
	if (previous_upper)
		previous_upper(root, stage, input, output, extra);
}

static void
start(QueryDesc *query, int flags)
{
	starting++;
	PG_TRY();
	{
		if (previous_start)
			previous_start(query, flags);
		else
			standard_ExecutorStart(query, flags);
	}
	PG_FINALLY();
	{
		starting--;
	}
	PG_END_TRY();
}

#if PG_VERSION_NUM >= 160000
#define PERMISSIONS List *entries, List *permissions, bool raise
#define GIVEN entries, permissions, raise
#else
#define PERMISSIONS List *entries, bool raise
#define GIVEN entries, raise
#endif

static bool
check_rights(PERMISSIONS)
{
	expect(starting, "a statement is started");
	return previous_rights ? previous_rights(GIVEN) : true;
}

void
_PG_init(void)
{
	previous_planner = planner_hook;
	planner_hook = plan;
	previous_relation = set_rel_pathlist_hook;
	set_rel_pathlist_hook = plan_relation;
	previous_join = set_join_pathlist_hook;
	set_join_pathlist_hook = plan_join;
	previous_upper = create_upper_paths_hook;
	create_upper_paths_hook = plan_upper;
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	previous_rights = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_rights;
}
