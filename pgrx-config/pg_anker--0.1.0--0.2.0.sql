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
