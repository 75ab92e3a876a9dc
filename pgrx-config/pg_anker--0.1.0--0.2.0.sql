\echo Use "ALTER EXTENSION pg_anker UPDATE TO '0.2.0'" to load this file. \quit

-- Many tables at once

CREATE FUNCTION anker.mirror_tables(VARIADIC relations regclass[])
    RETURNS TABLE (relation regclass, outcome text, reason text, hint text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'mirror_tables_wrapper';
COMMENT ON FUNCTION anker.mirror_tables(regclass[]) IS 'keep a columnar mirror of each of these tables that can be mirrored';

CREATE FUNCTION anker.unmirror_tables(VARIADIC relations regclass[])
    RETURNS TABLE (relation regclass, outcome text, reason text, hint text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'unmirror_tables_wrapper';
COMMENT ON FUNCTION anker.unmirror_tables(regclass[]) IS 'drop the columnar mirrors of these tables';

CREATE FUNCTION anker.mirror_schema(schema regnamespace, skip regclass[] DEFAULT '{}')
    RETURNS TABLE (relation regclass, outcome text, reason text, hint text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'mirror_schema_wrapper';
COMMENT ON FUNCTION anker.mirror_schema(regnamespace, regclass[]) IS 'keep a columnar mirror of each table of a schema that can be mirrored';

CREATE FUNCTION anker.unmirror_schema(schema regnamespace)
    RETURNS TABLE (relation regclass, outcome text, reason text, hint text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'unmirror_schema_wrapper';
COMMENT ON FUNCTION anker.unmirror_schema(regnamespace) IS 'drop the columnar mirrors of a schema''s tables';

-- A mirror costs memory and CPU of the whole server, as with anker.mirror.
REVOKE ALL ON FUNCTION anker.mirror_tables(regclass[]), anker.unmirror_tables(regclass[]),
    anker.mirror_schema(regnamespace, regclass[]), anker.unmirror_schema(regnamespace) FROM PUBLIC;

-- Comments on objects of version 0.1.0

COMMENT ON TABLE anker.mirrored IS 'the tables that are mirrored; written by anker.mirror() and the like';
COMMENT ON TABLE anker.mirrored_parents IS 'tables whose partitions or children are mirrored, including those that come later';
COMMENT ON FUNCTION anker.mirrored_changed() IS 'trigger that wakes the processes which follow the list of mirrored tables';
COMMENT ON FUNCTION anker.tables_info() IS 'rows of the view anker.tables';
COMMENT ON FUNCTION anker.engine_info() IS 'row of the view anker.engine';

-- Progress of loads

CREATE FUNCTION anker.loads_info(
    OUT pid integer, OUT relation regclass, OUT phase text, OUT started timestamptz, OUT heap_blks_total bigint,
    OUT heap_blks_scanned bigint, OUT tuples_processed bigint, OUT bytes_processed bigint
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 4
    AS 'MODULE_PATHNAME', 'loads_info_wrapper';
COMMENT ON FUNCTION anker.loads_info() IS 'rows of the view anker.loads';

CREATE VIEW anker.loads AS SELECT * FROM anker.loads_info();
COMMENT ON VIEW anker.loads IS 'tables of this database that are being loaded into the mirror';
GRANT SELECT ON anker.loads TO PUBLIC;

-- Checkpoints

-- A sequence, because publications of all tables do not publish it.
CREATE SEQUENCE anker.anchor;
COMMENT ON SEQUENCE anker.anchor IS 'the last checkpoint of the engine''s columns; written by the engine''s worker';

CREATE FUNCTION anker.checkpoint(
    OUT tables bigint, OUT rows bigint, OUT bytes_written bigint, OUT seconds double precision
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'checkpoint_wrapper';
COMMENT ON FUNCTION anker.checkpoint() IS 'write the columns of this database''s mirrored tables to disk now, for example before a restart';
REVOKE ALL ON FUNCTION anker.checkpoint() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION anker.checkpoint() TO pg_checkpoint;

CREATE FUNCTION anker.checkpoint_info(
    OUT started timestamptz, OUT seconds double precision, OUT tables bigint, OUT rows bigint,
    OUT bytes_written bigint, OUT disk_bytes bigint, OUT error text
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1
    AS 'MODULE_PATHNAME', 'checkpoint_info_wrapper';
COMMENT ON FUNCTION anker.checkpoint_info() IS 'rows of the view anker.checkpoints';

CREATE VIEW anker.checkpoints AS SELECT * FROM anker.checkpoint_info();
COMMENT ON VIEW anker.checkpoints IS 'the last checkpoint of this database''s columnar mirror, or the last attempt';
GRANT SELECT ON anker.checkpoints TO PUBLIC;

CREATE FUNCTION anker.origins_info(
    OUT relation regclass, OUT checkpoint_rows bigint, OUT heap_blks_total bigint, OUT heap_blks_changed bigint
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100
    AS 'MODULE_PATHNAME', 'origins_info_wrapper';
COMMENT ON FUNCTION anker.origins_info() IS 'what the loads of mirrored tables took from a checkpoint; part of the view anker.tables';

CREATE OR REPLACE VIEW anker.tables AS
    SELECT t.*, o.checkpoint_rows, o.heap_blks_total, o.heap_blks_changed
    FROM anker.tables_info() AS t LEFT JOIN anker.origins_info() AS o ON o.relation OPERATOR(pg_catalog.=) t.relation
    WHERE t.relation::oid IN (SELECT oid FROM pg_catalog.pg_class);

-- Queries that are running

CREATE FUNCTION anker.activity_info(
    OUT pid integer, OUT usesysid oid, OUT started timestamptz, OUT phase text, OUT rows bigint,
    OUT memory_bytes bigint, OUT disk_bytes bigint, OUT spilled_bytes bigint, OUT threads integer, OUT query_id bigint
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 10
    AS 'MODULE_PATHNAME', 'activity_info_wrapper';
COMMENT ON FUNCTION anker.activity_info() IS 'rows of the view anker.activity';

CREATE VIEW anker.activity AS
    SELECT pg_catalog.current_database() AS datname, a.pid, a.usesysid, r.rolname AS usename, a.started, a.phase,
        a.rows, a.memory_bytes, a.disk_bytes, a.spilled_bytes, a.threads, a.query_id
    FROM anker.activity_info() AS a LEFT JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.usesysid;
COMMENT ON VIEW anker.activity IS 'queries that are open in the columnar engine of this database';
GRANT SELECT ON anker.activity TO PUBLIC;

-- Configuration

CREATE FUNCTION anker.configure(
    OUT setting text, OUT current text, OUT ok boolean, OUT line text, OUT restart boolean, OUT reason text
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 7
    AS 'MODULE_PATHNAME', 'configure_wrapper';
COMMENT ON FUNCTION anker.configure() IS 'settings that pg_anker needs on this server, with the lines that postgresql.conf lacks';
-- Some settings are visible only to roles that may read all settings.
REVOKE ALL ON FUNCTION anker.configure() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION anker.configure() TO pg_monitor;

-- Statements

CREATE FUNCTION anker.statements_counted(
    OUT userid oid, OUT dbid oid, OUT queryid bigint, OUT calls bigint, OUT engine_calls bigint,
    OUT heap_calls bigint, OUT top_heap_reason text, OUT heap_reasons jsonb, OUT last_heap_reason text,
    OUT last_heap_detail text, OUT total_engine_time double precision, OUT min_engine_time double precision,
    OUT max_engine_time double precision, OUT mean_engine_time double precision,
    OUT total_heap_time double precision, OUT min_heap_time double precision, OUT max_heap_time double precision,
    OUT mean_heap_time double precision, OUT rows bigint, OUT total_wait_time double precision,
    OUT total_queue_time double precision, OUT peak_memory_bytes bigint, OUT spilled_bytes bigint,
    OUT stats_since timestamptz
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1000
    AS 'MODULE_PATHNAME', 'statements_counted_wrapper';
COMMENT ON FUNCTION anker.statements_counted() IS 'rows of the view anker.statements';

CREATE VIEW anker.statements AS SELECT * FROM anker.statements_counted();
COMMENT ON VIEW anker.statements IS 'statements that were meant for the columnar engine, and which side answered them';
GRANT SELECT ON anker.statements TO PUBLIC;

CREATE FUNCTION anker.statements_info(OUT dealloc bigint, OUT stats_reset timestamptz)
    RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1
    AS 'MODULE_PATHNAME', 'statements_info_wrapper';
COMMENT ON FUNCTION anker.statements_info() IS 'row of the view anker.statements_info';

CREATE VIEW anker.statements_info AS SELECT * FROM anker.statements_info();
COMMENT ON VIEW anker.statements_info IS 'evictions from anker.statements, and the time of its last full reset';
GRANT SELECT ON anker.statements_info TO PUBLIC;

CREATE FUNCTION anker.statements_reset(userid oid DEFAULT 0, dbid oid DEFAULT 0, queryid bigint DEFAULT 0)
    RETURNS void
    LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'statements_reset_wrapper';
COMMENT ON FUNCTION anker.statements_reset(oid, oid, bigint) IS 'forget what anker.statements has counted of a user, database or statement; 0 stands for all';
REVOKE ALL ON FUNCTION anker.statements_reset(oid, oid, bigint) FROM PUBLIC;
