# PostgreSQL with pg_anker in a guest: the integration tests that need the patched kernel's calls, the cost of a query's
# snapshots by every mechanism, and AnKer's figures with transactions and queries side by side.

# The names of the tests begin with this; on other kernels they are skipped.
server_tests=patched_kernel::
server_memory=4096
# For one query's snapshot: a table so wide that the whole process is much more than a column.
phases=(phases --quick --rows 200000 --columns 150)
# Figures 6, 7, 8 and Table 2: the call beside a stock kernel's best mechanism and a fork.
sides=(htap --quick --seconds 12 --warehouses 1,3 --streams 1,3 --levels read-committed
    --mechanisms epochs,vm_snapshot,fork)

# copy ROOT FILE...: the same files at the same places of a guest's root directory.
copy() {
    local root=$1
    shift
    tar --create --absolute-names --dereference "$@" | tar --extract --absolute-names --transform "s#^#$root#"
}

# libraries_of ROOT PROGRAM...: the libraries that the programs are linked with.
libraries_of() {
    local root=$1 libraries
    shift
    # The loader itself is named without an arrow.
    mapfile -t libraries < <(ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" { print $3 } $1 ~ "^/.*/ld-" { print $1 }' | sort -u)
    copy "$root" "${libraries[@]}"
}

# lay_server ROOT: the installed PostgreSQL without its compiler, the extension beside the programs that were built, and
# the parts of a system that PostgreSQL needs: its user, a locale, time zones.
lay_server() {
    local root=$1 bin lib share built program
    bin=$("$PGRX_PG_CONFIG_PATH" --bindir) lib=$("$PGRX_PG_CONFIG_PATH" --pkglibdir) share=$("$PGRX_PG_CONFIG_PATH" --sharedir)
    copy "$root" "$bin" "$share" /usr/share/zoneinfo /usr/lib/locale/C.utf8
    copy "$root" --exclude=bitcode --exclude=pgxs --exclude='llvmjit*' --exclude='*.a' "$lib"
    built=$root/built
    mkdir -p "$built" "$root/programs" "$root/etc" "$root/usr/sbin" "$root/var/tmp"
    for program in anker-tests anker-bench pg_anker_engine libpg_anker.so; do
        strip --strip-debug -o "$built/$program" "$release/$program"
    done
    # The tests install from where the project was when they were built.
    mkdir -p "$root$project/bench"
    copy "$root" "$project/pgrx-config"
    libraries_of "$root" "$bin/postgres" "$bin/psql" "$bin/initdb" "$lib"/{plpgsql,dict_snowball,libpqwalreceiver}.so \
        "$built"/* "$(command -v setpriv)" "$(command -v cp)"
    # busybox has a program of that name that does something else, and a cp of its own, which does not replace this one.
    install -m 755 "$(command -v setpriv)" "$root/usr/lib/setpriv"
    install -D -m 755 "$(command -v cp)" "$root/bin/cp"
    chmod 755 "$root"
    chmod 1777 "$root/var/tmp"
    printf '%s\n' 'root:x:0:0:root:/:/bin/sh' 'postgres:x:100:100:postgres:/var/tmp:/bin/sh' >"$root/etc/passwd"
    printf '%s\n' 'root:x:0:' 'postgres:x:100:' >"$root/etc/group"
    install -m 755 "$here/guest/runuser" "$root/usr/sbin/runuser"
}

# measure_server IMAGE NAME EXPERIMENT...: runs a benchmark there. Sets `found` to the directory with its report, as
# json and html, and `fresh` unless it was there already; then the caller says what must be in it, and keeps it by `key`.
measure_server() {
    local image=$1 name=$2 root disk=$store/logs/$2.disk
    shift 2
    root=$(mktemp -d)
    lay_server "$root"
    cp "$here/guest/server-experiment" "$root/job"
    printf 'arguments="%s"\nexport PGRX_PG_CONFIG_PATH=%s\n' "$*" "$PGRX_PG_CONFIG_PATH" >"$root/environment"
    key=$name-$({
        cat "$image" "$root"/built/* "$here/lib/server.sh"
        guest_inputs
        echo "$* $server_memory"
    } | hash)
    found=$store/results/$key.found fresh=
    if ! known "$key"; then
        fresh=yes
        rm -rf "$disk" "$found"
        mkdir -p "$found"
        truncate -s 64M "$disk"
        run_job "$name" "$image" 4800 "$server_memory" "$root" cat -drive "file=$disk,format=raw,if=virtio"
        tar -xf "$disk" -C "$found" 2>/dev/null || true
        rm "$disk"
    fi
    rm -r "$root"
}

# measure_phases IMAGE: a snapshot by every mechanism.
measure_phases() {
    measure_server "$1" server-experiment "${phases[@]}"
    [[ $fresh ]] || return 0
    require_rows snapshot vm_snapshot mremap_cow rewired scoot physical frames epochs fork
    keep_unless_failed "$key"
}

# measure_sides IMAGE: transactions and queries side by side.
measure_sides() {
    measure_server "$1" sides "${sides[@]}"
    [[ $fresh ]] || return 0
    require_rows snapshot {vm_snapshot,epochs,fork}", read committed"
    require_rows throughput "no queries" "heap, serializable" {vm_snapshot,epochs,fork}", read committed"
    keep_unless_failed "$key"
}

# test_server IMAGE: the tests of PostgreSQL with pg_anker, on a kernel that lacks no mechanism.
test_server() {
    local image=$1 root key
    root=$(mktemp -d)
    lay_server "$root"
    install -m 755 "$here/guest/server-tests" "$root/programs/pg_anker"
    key=server-$({
        cat "$image" "$root"/built/* "$here/lib/server.sh"
        guest_inputs
    } | hash)
    if ! known "$key"; then
        run_programs server "$image" 4800 "$server_memory" "$root" "limit=4500 PGRX_PG_CONFIG_PATH=$PGRX_PG_CONFIG_PATH" \
            "$server_tests"
        keep_unless_failed "$key"
    fi
    rm -r "$root"
}
