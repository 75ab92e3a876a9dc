# Answers queries in Hyper. The argument is a file that says which rows to load. When they are loaded, and for each
# query that comes on a line, it prints a line of JSON.
import json, os, sys, tempfile, time
import tableauhyperapi as hyper

asked = json.load(open(sys.argv[1]))
directory = tempfile.mkdtemp(dir=os.path.dirname(sys.argv[1]))
limits = {"hard_concurrent_query_thread_limit": str(asked["threads"]), "log_dir": directory}
with hyper.HyperProcess(hyper.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=limits) as process:
    file = os.path.join(directory, "rows.hyper")
    with hyper.Connection(process.endpoint, file, hyper.CreateMode.CREATE_AND_REPLACE) as db:
        for table in asked["tables"]:
            db.execute_command(f"CREATE TABLE {table['name']} ({table['columns']})")
            db.execute_command(f"COPY {table['name']} FROM '{table['file']}' (FORMAT csv)")
        print(json.dumps({"version": hyper.__version__}), flush=True)
        for line in sys.stdin:
            try:
                start = time.perf_counter()
                rows = db.execute_list_query(json.loads(line))
                found = {"ms": (time.perf_counter() - start) * 1e3, "rows": len(rows)}
            except hyper.HyperException as error:
                found = {"error": str(error).splitlines()[0]}
            print(json.dumps(found), flush=True)
