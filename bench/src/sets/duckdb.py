# Times queries in DuckDB, in memory. The argument is a file that says what on which rows; the answer is a line of JSON.
import json, sys, time
import duckdb

asked = json.load(open(sys.argv[1]))
db = duckdb.connect()
db.execute(f"SET threads = {asked['threads']}")
db.execute("SET enable_progress_bar = false")
for table in asked["tables"]:
    db.execute(f"CREATE TABLE {table['name']} ({table['columns']})")
    db.execute(f"COPY {table['name']} FROM '{table['file']}' (FORMAT csv, HEADER false)")
found = {}
for query in asked["queries"]:
    try:
        times = []
        for _ in range(asked["runs"]):
            start = time.perf_counter()
            rows = db.execute(query["sql"]).fetchall()
            times.append(time.perf_counter() - start)
        found[query["name"]] = {"ms": min(times) * 1e3, "rows": len(rows)}
    except duckdb.Error as error:
        found[query["name"]] = {"error": str(error)}
print(json.dumps({"version": duckdb.__version__, "queries": found}))
