/*
 * A test library that plans queries beside pg_anker, in the way of Citus and
 * TimescaleDB. Its planner hook sets a state that its other planning hooks
 * need. If a query is planned, started or run without calling all hooks, the
 * library ends the session with FATAL. Real libraries would follow a null
 * pointer then, or return no rows.
 *
 * If there is a table NAME_elsewhere, the library reads the rows of table NAME
 * from it. The plan of such a query has a node of the library on top, which is
 * prepared in the library's ExecutorRun hook.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

void _PG_init(void);

/*
 * The numbers of queries that are being planned, and of statements that are
 * being started, within calls of this library's hooks.
 */
static int planning = 0;
static int starting = 0;

static planner_hook_type previous_planner;
static set_rel_pathlist_hook_type previous_relation;
static set_join_pathlist_hook_type previous_join;
static create_upper_paths_hook_type previous_upper;
static ExecutorStart_hook_type previous_start;
static ExecutorRun_hook_type previous_run;
static ExecutorCheckPerms_hook_type previous_rights;

/* The library's node, on top of a plan that reads a table NAME_elsewhere. */
typedef struct Elsewhere
{
	CustomScanState scan;
	bool		is_prepared;
} Elsewhere;

static Node *create_elsewhere(CustomScan *scan);
static void begin_elsewhere(CustomScanState *state, EState *estate, int flags);
static TupleTableSlot *next_elsewhere(CustomScanState *state);
static void end_elsewhere(CustomScanState *state);
static void rescan_elsewhere(CustomScanState *state);

static const CustomScanMethods elsewhere = {"Elsewhere", create_elsewhere};
static const CustomExecMethods running_elsewhere = {
	.CustomName = "Elsewhere",
	.BeginCustomScan = begin_elsewhere,
	.ExecCustomScan = next_elsewhere,
	.EndCustomScan = end_elsewhere,
	.ReScanCustomScan = rescan_elsewhere,
};

static void
expect(int depth, const char *what)
{
	if (depth == 0)
		elog(FATAL, "%s past the hooks", what);
}

static Node *
create_elsewhere(CustomScan *scan)
{
	Elsewhere  *state = (Elsewhere *) newNode(sizeof(Elsewhere), T_CustomScanState);

	state->scan.methods = &running_elsewhere;
	return (Node *) state;
}

static void
begin_elsewhere(CustomScanState *state, EState *estate, int flags)
{
	CustomScan *scan = (CustomScan *) state->ss.ps.plan;

	state->custom_ps = list_make1(ExecInitNode(linitial(scan->custom_plans), estate, flags));
	/* This node returns the slots of the node below, whatever their kind. */
	state->ss.ps.resultopsfixed = false;
}

static TupleTableSlot *
next_elsewhere(CustomScanState *state)
{
	expect(((Elsewhere *) state)->is_prepared, "a node is run");
	return ExecProcNode(linitial(state->custom_ps));
}

static void
end_elsewhere(CustomScanState *state)
{
	ExecEndNode(linitial(state->custom_ps));
}

static void
rescan_elsewhere(CustomScanState *state)
{
	ExecReScan(linitial(state->custom_ps));
}

/*
 * Replaces each table NAME in a query by NAME_elsewhere, if that exists. Sets
 * `is_elsewhere` if any table was replaced.
 */
static bool
look_elsewhere(Node *node, bool *is_elsewhere)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *entry = (RangeTblEntry *) node;
		Oid			other = InvalidOid;

		if (entry->rtekind == RTE_RELATION)
			other = get_relname_relid(psprintf("%s_elsewhere", get_rel_name(entry->relid)),
									  get_rel_namespace(entry->relid));
		if (OidIsValid(other))
		{
			LockRelationOid(other, entry->rellockmode);
			entry->relid = other;
			*is_elsewhere = true;
		}
		return false;
	}
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		bool		stopped = query_tree_walker(query, look_elsewhere, is_elsewhere, QTW_EXAMINE_RTES_BEFORE);

#if PG_VERSION_NUM >= 160000
		ListCell   *cell;

		/* The permissions name the table once more. The table has been replaced, so nothing is asked for. */
		foreach(cell, query->rtable)
		{
			RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
			RTEPermissionInfo *asked;

			if (entry->perminfoindex == 0)
				continue;
			asked = list_nth_node(RTEPermissionInfo, query->rteperminfos, entry->perminfoindex - 1);
			if (asked->relid != entry->relid)
			{
				asked->relid = entry->relid;
				asked->requiredPerms = 0;
			}
		}
#endif
		return stopped;
	}
	return expression_tree_walker(node, look_elsewhere, is_elsewhere);
}

/* Puts the library's node on top of a plan. */
static Plan *
on_top(Plan *below)
{
	CustomScan *scan = makeNode(CustomScan);
	ListCell   *cell;

	scan->scan.plan.startup_cost = below->startup_cost;
	scan->scan.plan.total_cost = below->total_cost;
	scan->scan.plan.plan_rows = below->plan_rows;
	scan->scan.plan.plan_width = below->plan_width;
	scan->scan.plan.plan_node_id = 1 << 20;
	scan->custom_plans = list_make1(below);
	scan->methods = &elsewhere;
	foreach(cell, below->targetlist)
	{
		TargetEntry *column = flatCopyTargetEntry(lfirst(cell));
		Node	   *value = (Node *) column->expr;
		Oid			type = exprType(value);

		column->expr = (Expr *) makeVar(INDEX_VAR, column->resno, type, exprTypmod(value), exprCollation(value), 0);
		scan->scan.plan.targetlist = lappend(scan->scan.plan.targetlist, column);
		column = flatCopyTargetEntry(column);
		column->expr = (Expr *) makeNullConst(type, exprTypmod(value), exprCollation(value));
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist, column);
	}
	return (Plan *) scan;
}

static PlannedStmt *
plan(Query *query, const char *source, int options, ParamListInfo params)
{
	PlannedStmt *statement;
	bool		is_elsewhere = false;

	look_elsewhere((Node *) query, &is_elsewhere);
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
	if (is_elsewhere)
		statement->planTree = on_top(statement->planTree);
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

static bool
prepare(PlanState *state, void *context)
{
	if (state == NULL)
		return false;
	if (IsA(state, CustomScanState) && ((CustomScanState *) state)->methods == &running_elsewhere)
		((Elsewhere *) state)->is_prepared = true;
	return planstate_tree_walker(state, prepare, context);
}

#if PG_VERSION_NUM >= 180000
#define RUN QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_GIVEN query, direction, count
#else
#define RUN QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define RUN_GIVEN query, direction, count, once
#endif

static void
run(RUN)
{
	prepare(query->planstate, NULL);
	if (previous_run)
		previous_run(RUN_GIVEN);
	else
		standard_ExecutorRun(RUN_GIVEN);
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
	RegisterCustomScanMethods(&elsewhere);
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
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	previous_rights = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_rights;
}
