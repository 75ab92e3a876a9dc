#!/bin/bash
# The demo, installed from packages on a system without Rust. Runs as root in a fresh Debian with /packages.
#
#   demo.sh VERSION-OF-POSTGRESQL

set -euo pipefail
source "$(dirname "$0")/common.sh"

step "install the demo beside the extension"
install_package /packages/"postgresql-$version-pg-anker_"*-1_*.deb /packages/pg-anker-demo_*-1_*.deb

step "run it"
pg_anker_demo --quick --html /tmp/demo.html >/tmp/demo.txt 2>&1 || { cat /tmp/demo.txt; false; }
[[ -s /tmp/demo.html ]]
