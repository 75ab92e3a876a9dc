#!/bin/bash
# The files of an extension image, mounted read-only as CloudNativePG mounts them: the server finds control file, library
# and engine outside its own directories. Runs as root in a fresh Debian.
#
#   image.sh VERSION-OF-POSTGRESQL

set -euo pipefail
source "$(dirname "$0")/common.sh"

step "a server without the package"
install_package "postgresql-$version"
[[ -z $(find /usr -name '*pg_anker*') && -x /extensions/pg-anker/lib/pg_anker_engine ]]

step "the settings that CloudNativePG makes"
printf '%s\n' "shared_preload_libraries = 'pg_anker'" "wal_level = logical" \
    "dynamic_library_path = '\$libdir:/extensions/pg-anker/lib'" \
    "extension_control_path = '\$system:/extensions/pg-anker/share'" >"$conf/conf.d/pg_anker.conf"
pg_ctlcluster "$version" main start

step "a query that the engine answers"
make_table
sql "CREATE EXTENSION pg_anker"
mirror
answered_by_engine
[[ $(readlink "/proc/$(sql 'SELECT engine_pid FROM anker.engine')/exe") == /extensions/pg-anker/lib/pg_anker_engine ]]

step "the engine comes back after its end"
kill -KILL "$(sql 'SELECT engine_pid FROM anker.engine')"
same
wait_for engine side
sql "SELECT anker.wait_for_mirror('t')" >/dev/null
answered_by_engine
no_crash
pg_ctlcluster "$version" main stop
