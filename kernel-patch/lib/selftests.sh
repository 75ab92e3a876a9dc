# The kernel's selftests, which the patches bring along.

# The number of snapshots in which each way is searched for leaks, if set.
leaks=

# Their arguments, and the number of repetitions of stress tests: the debug kernel under emulation is slow.
environment() {
    local environment="SNAP_SWAP=/dev/vda limit=$((900 + leaks / 10))"
    [[ $1 != debug ]] || environment+=" SNAP_SCALE=4 SNAP_LEAK_COUNT=1000"
    [[ ! $leaks ]] || environment+=" SNAP_LEAK_COUNT=$leaks SNAP_LEAK_OTHERS=$leaks"
    echo "$environment"
}

# run_selftests NAME KIND IMAGE SECONDS PROGRAMS [ARGUMENT...]: runs the selftests that match the pattern.
run_selftests() {
    local name=$1 kind=$2 image=$3 seconds=$4 programs=$5 root
    shift 5
    root=$(mktemp -d)
    mkdir "$root/programs"
    (cd "$selftests" && cp $programs "$root/programs/") || die "There is no selftest $programs."
    run_programs "$name" "$image" "$seconds" 2048 "$root" "$(environment "$kind")" "$@"
    rm -r "$root"
}

# The tests that they skip: on the slow kernel those of the third way to take a snapshot, unless all look for leaks.
# Tests of the place, in which it differs from the second, are not affected.
arguments() { [[ $1 != debug || $leaks ]] || echo -V mremap_cow_fixed; }

# check_selftests NAME KIND IMAGE PROGRAMS: runs them, unless that has been done and nothing was different.
check_selftests() {
    local name=$1 kind=$2 image=$3 programs=$4 told key
    told="$(environment "$kind") $(arguments "$kind")"
    key=selftests-$kind-$({ cat "$image" "$selftests"/*; guest_inputs; echo "$told $programs"; } | hash)
    if ! known "$key"; then
        run_selftests "$name" "$kind" "$image" $((3600 + leaks / 10)) "$programs" $(arguments "$kind")
        keep_unless_failed "$key"
    fi
}
