#!/usr/bin/env bash
# Mirrored tables move from an older PostgreSQL to a newer one, by pg_upgrade and by pg_dump (tests/src/moved.rs). Both
# run in the newer version's Debian. This needs root.
#
#   scripts/pg-upgrade.sh [OLD NEW]      15 to 17, 15 to 18 and 17 to 18 by default

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$project/scripts/versions.sh"

# The libraries that the programs and libraries of the older PostgreSQL do not find in the newer version's Debian.
missing_libraries() {
    # shellcheck disable=SC2016 # The inner shell expands this. Scripts have no libraries, so ldd fails for them.
    in_debian "$1" sh -c 'LD_LIBRARY_PATH=$1/lib
        export LD_LIBRARY_PATH
        ldd "$1"/lib/* "$1"/usr/lib/postgresql/*/bin/* "$1"/usr/lib/postgresql/*/lib/*.so 2>/dev/null || true' sh "$older" |
        sed -n 's/^\s*\(.*\) => not found$/\1/p' | sort -u
}

# Copies the older PostgreSQL to a place that the newer version's Debian sees, with the libraries which that Debian
# lacks, and with pg_anker as built for it. Sets older.
prepare_older() {
    local old=$1 new=$2 from=/ built=$release name names found
    older=$CARGO_TARGET_DIR/versions/$new/older-$old
    if [[ $old != "$postgresql" ]]; then
        prepare_debian "$old"
        for_version "$old" build
        from=$(debian_of "$old")
        built=$CARGO_TARGET_DIR/versions/release
    fi
    rm -rf "$older"
    mkdir -p "$older/lib"
    cp "$built/libpg_anker.so" "$release/pg_anker_engine" "$older/"
    (cd "$from" && cp -a --parents "usr/lib/postgresql/$old" "usr/share/postgresql/$old" "$older/")
    ln -s "usr/lib/postgresql/$old/bin/pg_config" "$older/pg_config"
    # The compiler of expressions needs a large library, and PostgreSQL does without it.
    rm -f "$older/usr/lib/postgresql/$old/lib/llvmjit.so"
    while names=$(missing_libraries "$new") && [[ $names ]]; do
        for name in $names; do
            found=$(find "$from"/usr/lib/*-linux-gnu* "$from"/lib/*-linux-gnu* -maxdepth 1 -name "$name" -print -quit)
            cp -L "${found:?"no $name"}" "$older/lib/"
        done
    done
}

prepare
build
pairs=("$@")
(($#)) || pairs=(15 17 15 18 17 18)
status=0
for ((n = 0; n < ${#pairs[@]}; n += 2)); do
    say "== from PostgreSQL ${pairs[n]} to ${pairs[n + 1]}"
    prepare_debian "${pairs[n + 1]}"
    prepare_older "${pairs[n]}" "${pairs[n + 1]}"
    PG_ANKER_OLDER=$older test_version "${pairs[n + 1]}" --filter moved:: || status=1
done
exit "$status"
