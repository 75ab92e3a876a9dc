#!/bin/bash
# The demo, installed from packages on a system without Rust. Runs as root in a fresh Debian with /packages, in which
# there is also a copy of the source tree.
#
#   demo.sh VERSION-OF-POSTGRESQL

set -euo pipefail
source "$(dirname "$0")/common.sh"

step "install the demo beside the extension"
install_package /packages/"postgresql-$version-pg-anker_"*-1_*.deb /packages/pg-anker-demo_*-1_*.deb

step "run it"
pg_anker_demo --quick --html /tmp/demo.html >/tmp/demo.txt 2>&1 || { cat /tmp/demo.txt; false; }
[[ -s /tmp/demo.html ]]

step "./demo of a source tree runs the package's program"
cp -R /packages/tree /tmp/tree
before=$SECONDS
/tmp/tree/demo --html /tmp/tree.html >/tmp/demo.txt 2>&1 || { cat /tmp/demo.txt; false; }
printf '   it took %s seconds\n' "$((SECONDS - before))"
[[ -s /tmp/tree.html && ! -e /usr/bin/cargo ]]
