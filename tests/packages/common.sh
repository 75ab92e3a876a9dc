# Shared by life.sh, image.sh and demo.sh, which run inside a Debian of their own.

version=$1
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
bin=/usr/lib/postgresql/$version/bin
conf=/etc/postgresql/$version/main
log=/var/log/postgresql/postgresql-$version-main.log

step() { current=$* && printf '   %s\n' "$current"; }
failed() {
    printf 'FAILED: %s (%s)\n' "$current" "$BASH_COMMAND"
    tail -n 30 "$log" 2>/dev/null
}
trap failed ERR
set -E

install_package() { apt-get install -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; false; }; }

sql() { runuser -u postgres -- psql -XqAt -v ON_ERROR_STOP=1 -c "$1"; }

contains() {
    [[ $2 == *"$1"* ]] || { printf 'not %s in: %s\n' "$1" "$2"; false; }
}

# wait_for TEXT COMMAND...: until the command's output contains the text, for up to a minute.
wait_for() {
    local wanted=$1 found
    shift
    for _ in {1..120}; do
        found=$("$@")
        [[ $found != *"$wanted"* ]] || return 0
        sleep 0.5
    done
    contains "$wanted" "$found"
}

query='SELECT g, count(*), sum(n), avg(n), min(x COLLATE "C") FROM t'

make_table() {
    sql "CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), x text)"
    sql "INSERT INTO t SELECT i, i % 5, i / 4.0, 'x' || i FROM generate_series(1, 1000) i"
}

mirror() {
    sql "SELECT anker.mirror('t')" >/dev/null
    [[ $(sql "SELECT anker.wait_for_mirror('t')") == t ]]
}

# The side that answers the flagged query.
side() { sql "EXPLAIN (ANALYZE, COSTS OFF) $query WHERE anker.olap() GROUP BY g" | sed -n 's/^ *Anker: //p'; }

# The flagged query has the heap's answer.
same() { [[ $(sql "$query WHERE anker.olap() GROUP BY g ORDER BY g") == "$(sql "$query GROUP BY g ORDER BY g")" ]]; }

answered_by_engine() {
    same
    contains engine "$(side)"
    [[ $(side) == engine ]]
}

no_crash() {
    if grep -E 'PANIC|was terminated by signal|terminating any other active server processes' "$log"; then return 1; fi
}
