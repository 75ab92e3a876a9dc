#!/usr/bin/env bash
# PostgreSQL's own regression and isolation tests, from Debian's source package, on a server with pg_anker and on one
# without. Their output must be the same. Versions other than this system's run in a Debian of their own, as root.
#
#   scripts/postgresql-tests.sh [15] [17] [18]      all of them by default
#
# If the archive lacks the source of its newest package, put an earlier one into ~/.cache/pg_anker/sources, with a name
# like postgresql-17.11.tar.bz2.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$project/scripts/versions.sh"

# Unpacks the tests of a version once, and compiles the library that they load. Sets upstream.
prepare_upstream() {
    local version=$1 new pg_config=$PGRX_PG_CONFIG_PATH archives
    upstream=$CARGO_TARGET_DIR/upstream/$version
    if [[ -e $upstream ]]; then return; fi
    if [[ $version != "$postgresql" ]]; then pg_config=$cache/versions/$version/pg_config; fi
    new=$upstream.new
    rm -rf "$new"
    mkdir -p "$new/lib"
    archives=("$cache/sources/postgresql-$version".*.tar.*)
    if [[ ! -e ${archives[0]} ]]; then
        from_debian deb-src "${debian_release[$version]}" "$new" source --download-only "postgresql-$version"
        archives=("$new"/postgresql-"$version"_*.orig.tar.*)
    fi
    tar -xf "${archives[0]}" -C "$new" --strip-components 1 --wildcards '*/src/test'
    rm -f "$new"/postgresql-"$version"_*
    gcc -O1 -fPIC -shared -D_GNU_SOURCE -I"$("$pg_config" --includedir-server)" \
        -o "$new/lib/regress.so" "$new/src/test/regress/regress.c"
    cp "$("$pg_config" --pkglibdir)"/{refint,autoinc}.so "$new/lib/"
    mv "$new" "$upstream"
}

run_upstream() {
    local version=$1
    if [[ $version == "$postgresql" ]]; then
        prepare_upstream "$version"
        POSTGRESQL_TESTS=$upstream "$release/anker-tests" --filter upstream::
    else
        prepare_debian "$version"
        prepare_upstream "$version"
        POSTGRESQL_TESTS=$upstream test_version "$version" --filter upstream::
    fi
}

(($#)) || set -- 15 17 18
prepare
install_packages bzip2 dpkg-dev
build
status=0
for version in "$@"; do
    say "== PostgreSQL $version"
    run_upstream "$version" || status=1
done
exit "$status"
