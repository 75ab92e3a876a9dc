\echo Use "CREATE EXTENSION pg_anker" to load this file. \quit

-- The tables that are mirrored. Written by anker.mirror() and anker.unmirror(), followed by the capture worker.
CREATE TABLE anker.mirrored (
    relation regclass PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);
-- DROP TABLE also deletes the row of a mirrored table, unless another session has the list locked.
SELECT pg_catalog.pg_extension_config_dump('anker.mirrored',
    'WHERE relation::pg_catalog.oid IN (SELECT oid FROM pg_catalog.pg_class)');

-- Tables whose parts (partitions, children) are mirrored, including those that come later.
CREATE TABLE anker.mirrored_parents (
    relation regclass PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);
SELECT pg_catalog.pg_extension_config_dump('anker.mirrored_parents',
    'WHERE relation::pg_catalog.oid IN (SELECT oid FROM pg_catalog.pg_class)');

-- Flagging

CREATE FUNCTION anker.olap() RETURNS boolean
    LANGUAGE c STABLE PARALLEL SAFE COST 1
    AS 'MODULE_PATHNAME', 'olap_wrapper';
COMMENT ON FUNCTION anker.olap() IS 'always true; a query that calls it runs in the columnar engine if that can answer it exactly';

CREATE FUNCTION anker.engine_result() RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'engine_result_wrapper';
COMMENT ON FUNCTION anker.engine_result() IS 'placeholder that the planner uses; not to be called';
REVOKE ALL ON FUNCTION anker.engine_result() FROM PUBLIC;

-- Mirroring

CREATE FUNCTION anker.mirror(relation regclass) RETURNS void
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'mirror_wrapper';
COMMENT ON FUNCTION anker.mirror(regclass) IS 'keep a columnar mirror of a table';
-- A mirror costs memory and CPU of the whole server, so a user may not even mirror tables of their own.
REVOKE ALL ON FUNCTION anker.mirror(regclass) FROM PUBLIC;

CREATE FUNCTION anker.unmirror(relation regclass) RETURNS void
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'unmirror_wrapper';
COMMENT ON FUNCTION anker.unmirror(regclass) IS 'drop the columnar mirror of a table';
REVOKE ALL ON FUNCTION anker.unmirror(regclass) FROM PUBLIC;

CREATE FUNCTION anker.wait_for_mirror(relation regclass, timeout interval DEFAULT '1 minute') RETURNS boolean
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'wait_for_mirror_wrapper';
COMMENT ON FUNCTION anker.wait_for_mirror(regclass, interval) IS 'wait until the mirror of a table serves queries; false if the time is over first';

CREATE FUNCTION anker.verify(relation regclass) RETURNS TABLE (side text, row_data text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'verify_wrapper';
COMMENT ON FUNCTION anker.verify(regclass) IS 'rows in which heap and mirror differ under one snapshot; none if they are equal';

CREATE FUNCTION anker.calibrate(max_rows bigint DEFAULT 1000000)
    RETURNS TABLE (setting text, current double precision, measured double precision, statement text)
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'calibrate_wrapper';
COMMENT ON FUNCTION anker.calibrate(bigint) IS 'what anker.route = auto should reckon with here: runs queries of several kinds on mirrored tables, in the engine and on the heap';
-- Calibration keeps all processors busy for seconds.
REVOKE ALL ON FUNCTION anker.calibrate(bigint) FROM PUBLIC;

CREATE FUNCTION anker.mirrored_changed() RETURNS trigger
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'mirrored_changed_wrapper';
REVOKE ALL ON FUNCTION anker.mirrored_changed() FROM PUBLIC;
CREATE TRIGGER wake AFTER INSERT OR DELETE OR TRUNCATE ON anker.mirrored
    FOR EACH STATEMENT EXECUTE FUNCTION anker.mirrored_changed();
-- The trigger also fires under session_replication_role = replica, which tools that restore rows set.
ALTER TABLE anker.mirrored ENABLE ALWAYS TRIGGER wake;

-- Views

CREATE FUNCTION anker.tables_info(
    OUT relation regclass, OUT state text, OUT rows bigint, OUT bytes bigint, OUT index_bytes bigint,
    OUT undo_bytes bigint, OUT generation bigint,
    OUT rebuilds bigint, OUT errors bigint, OUT reason text, OUT excluded_columns text[]
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'tables_info_wrapper';

CREATE VIEW anker.tables AS
    SELECT * FROM anker.tables_info() WHERE relation::oid IN (SELECT oid FROM pg_catalog.pg_class);
COMMENT ON VIEW anker.tables IS 'mirrored tables of this database';

CREATE FUNCTION anker.table_columns(
    relation regclass,
    OUT column_name text, OUT data_type text, OUT codings jsonb, OUT bytes bigint, OUT rows bigint, OUT nulls bigint,
    OUT distinct_values bigint, OUT min text, OUT max text, OUT reason text
) RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED ROWS 20
    AS 'MODULE_PATHNAME', 'table_columns_wrapper';
COMMENT ON FUNCTION anker.table_columns(regclass) IS 'columns of a mirrored table in the engine';

-- Each table is one request to the engine. With a condition on the table, only that table is asked for.
CREATE VIEW anker.columns AS
    SELECT mirrored.relation, columns.*
    FROM anker.mirrored CROSS JOIN LATERAL anker.table_columns(mirrored.relation) AS columns;
COMMENT ON VIEW anker.columns IS 'columns of the mirrored tables of this database';

CREATE FUNCTION anker.chunks(
    relation regclass,
    OUT chunk bigint, OUT column_name text, OUT coding text, OUT bytes bigint, OUT slots bigint, OUT rows bigint,
    OUT nulls bigint, OUT distinct_values bigint, OUT min text, OUT max text
) RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'chunks_wrapper';
COMMENT ON FUNCTION anker.chunks(regclass) IS 'columns of a mirrored table in the engine, chunk by chunk';

CREATE FUNCTION anker.engine_info(
    OUT database text, OUT worker_pid integer, OUT engine_pid integer, OUT state text, OUT reason text,
    OUT mechanism text, OUT memory_bytes bigint, OUT memory_limit_bytes bigint, OUT undo_bytes bigint,
    OUT undo_transactions bigint, OUT pending_transactions bigint, OUT live_snapshots bigint, OUT copied_bytes bigint,
    OUT lsn bigint, OUT lag_bytes bigint, OUT transactions_applied bigint, OUT changes_applied bigint,
    OUT queries_running bigint, OUT queries_served bigint, OUT queries_refused bigint, OUT queries_failed bigint,
    OUT queries_cancelled bigint, OUT spilled_bytes bigint, OUT fallbacks bigint, OUT fallback_reasons jsonb,
    OUT restarts bigint, OUT commit_to_applied_us jsonb, OUT request_to_ready_us jsonb
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'engine_info_wrapper';

CREATE VIEW anker.engine AS
    SELECT database, worker_pid, engine_pid, state, reason, mechanism, memory_bytes, memory_limit_bytes, undo_bytes,
        undo_transactions, pending_transactions, live_snapshots, copied_bytes, pg_lsn '0/0' + lsn AS lsn, lag_bytes,
        transactions_applied, changes_applied, queries_running, queries_served, queries_refused, queries_failed,
        queries_cancelled, spilled_bytes, fallbacks, fallback_reasons, restarts, commit_to_applied_us,
        request_to_ready_us
    FROM anker.engine_info();
COMMENT ON VIEW anker.engine IS 'the columnar engine of this database';

CREATE FUNCTION anker.latest_delays(
    OUT transactions_applied bigint, OUT commit_to_applied_us bigint[], OUT request_to_ready_us bigint[]
) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 1
    AS 'MODULE_PATHNAME', 'latest_delays_wrapper';
COMMENT ON FUNCTION anker.latest_delays() IS 'the delays that percentiles in anker.engine are of, newest last';

GRANT USAGE ON SCHEMA anker TO PUBLIC;
GRANT SELECT ON anker.tables, anker.columns, anker.engine, anker.mirrored, anker.mirrored_parents TO PUBLIC;
