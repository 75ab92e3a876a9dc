#!/usr/bin/env bash
# Mirrored tables move from an older PostgreSQL to a newer one, by pg_upgrade and by pg_dump (tests/src/moved.rs). Both
# run in the newer version's Debian. The older PostgreSQL is that of its own Debian. This needs root.
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
    local old=$1 new=$2 from name names found
    from=$(debian_of "$old")
    older=$CARGO_TARGET_DIR/versions/$new/older-$old
    rm -rf "$older"
    mkdir -p "$older/lib"
    cp "$(built_for "$old")/libpg_anker.so" "$release/pg_anker_engine" "$older/"
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
for version in $(printf '%s\n' "${pairs[@]}" | sort -u); do
    prepare_debian "$version"
    [[ $version == "$postgresql" ]] || for_version "$version" build
done
status=0
for ((n = 0; n < ${#pairs[@]}; n += 2)); do
    old=${pairs[n]} new=${pairs[n + 1]}
    say "== from PostgreSQL $old to $new"
    prepare_older "$old" "$new"
    PG_ANKER_OLDER=$older test_library "$new" "$(built_for "$new")/libpg_anker.so" --filter moved:: || status=1
done
exit "$status"
