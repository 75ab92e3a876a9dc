#!/bin/bash
# The life of the package on one system: installed, used, upgraded under a running server, removed. Runs as root in a
# fresh Debian whose directory /packages holds two packages with the same programs, as revisions 1 and 2.
#
#   life.sh VERSION-OF-POSTGRESQL

set -euo pipefail
source "$(dirname "$0")/common.sh"

name=postgresql-$version-pg-anker
package() { echo "/packages/${name}_"*"-$1_"*.deb; }

step "install with apt, which brings the server"
[[ ! -e /usr/lib/postgresql ]]
install_package "$(package 1)"
[[ -x $bin/postgres && -x /usr/lib/postgresql/$version/lib/pg_anker_engine ]]
(cd / && md5sum --quiet -c "/var/lib/dpkg/info/$name.md5sums")

step "without the setting, CREATE EXTENSION says what to do"
pg_ctlcluster "$version" main start
contains "shared_preload_libraries" "$(sql 'CREATE EXTENSION pg_anker' 2>&1 || true)"

step "two settings and a restart"
printf '%s\n' "shared_preload_libraries = 'pg_anker'" "wal_level = logical" >"$conf/conf.d/pg_anker.conf"
pg_ctlcluster "$version" main restart

step "an extension of the first release, whose query the engine answers"
make_table
sql "CREATE EXTENSION pg_anker VERSION '${OLDEST:?}'"
mirror
answered_by_engine

step "an upgrade leaves the running engine alone"
install_package "$(package 2)"
[[ $(dpkg-query -W -f '${Version}' "$name") == *-2 ]]
answered_by_engine

step "until the restart, another engine is not started, and the heap answers"
kill -KILL "$(sql 'SELECT engine_pid FROM anker.engine')"
wait_for "restart the server" side
same
contains "restart the server" "$(sql 'SELECT reason FROM anker.engine')"
contains "restart the server" "$(cat "$log")"

step "the restart brings the engine back"
pg_ctlcluster "$version" main restart
sql "SELECT anker.wait_for_mirror('t')" >/dev/null
answered_by_engine

step "ALTER EXTENSION UPDATE leads to this release"
sql "ALTER EXTENSION pg_anker UPDATE"
[[ $(sql "SELECT extversion FROM pg_extension WHERE extname = 'pg_anker'") == "${RELEASE:?}" ]]
sql "SELECT anker.wait_for_mirror('t')" >/dev/null
answered_by_engine

step "no process of the server has crashed"
no_crash

step "removal: the extension, the setting, the package"
sql "DROP EXTENSION pg_anker"
# The worker removes its checkpoints a moment later.
for _ in {1..120}; do
    [[ $(ls -A "/var/lib/postgresql/$version/main/pgsql_tmp_anker") ]] || break
    sleep 0.5
done
rm "$conf/conf.d/pg_anker.conf"
pg_ctlcluster "$version" main restart
apt-get purge -qq "$name" >/dev/null
pg_ctlcluster "$version" main restart
# Two things stay in the data directory, which docs/guides/remove.md mentions.
rmdir "/var/lib/postgresql/$version/main/pgsql_tmp_anker"
rm "/var/lib/postgresql/$version/main/pg_stat/pg_anker.stat"
left=$(find / -xdev -path /packages -prune -o ! -path /etc/apt/apt.conf.d/pg_anker -iname '*anker*' -print)
[[ -z $left ]] || { echo "left behind: $left"; false; }
[[ $(sql "SELECT count(*) FROM t") == 1000 && $(sql "SELECT count(*) FROM pg_replication_slots") == 0 ]]
pg_ctlcluster "$version" main stop
