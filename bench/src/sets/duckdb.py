# Answers queries in DuckDB, in memory. The argument is a file that says which rows to load. When they are loaded, and for
# each query that comes on a line, it prints a line of JSON.
import json, sys, time
import duckdb

asked = json.load(open(sys.argv[1]))
db = duckdb.connect()
db.execute(f"SET threads = {asked['threads']}")
db.execute("SET enable_progress_bar = false")
for table in asked["tables"]:
    db.execute(f"CREATE TABLE {table['name']} ({table['columns']})")
    db.execute(f"COPY {table['name']} FROM '{table['file']}' (FORMAT csv, HEADER false)")
print(json.dumps({"version": duckdb.__version__}), flush=True)
for line in sys.stdin:
    try:
        start = time.perf_counter()
        rows = db.execute(json.loads(line)).fetchall()
        found = {"ms": (time.perf_counter() - start) * 1e3, "rows": len(rows)}
    except duckdb.Error as error:
        found = {"error": str(error)}
    print(json.dumps(found), flush=True)
