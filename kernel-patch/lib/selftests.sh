# The kernel's selftests, which the patches bring along.

leaks=4000

# What they are told, and how often the stress tests repeat: the debug kernel under emulation is slow.
environment() {
    case $1 in
    plain) echo "limit=600 SNAP_SWAP=/dev/vda" ;;
    debug) echo "limit=$((900 + leaks / 20)) SNAP_SWAP=/dev/vda SNAP_SCALE=4 SNAP_LEAK_COUNT=$leaks" ;;
    esac
}

# run_selftests KIND IMAGE SECONDS PROGRAMS [ARGUMENT...]: runs the selftests that match the pattern.
run_selftests() {
    local kind=$1 image=$2 seconds=$3 programs=$4 root
    shift 4
    root=$(mktemp -d)
    mkdir "$root/programs"
    (cd "$selftests" && cp $programs "$root/programs/") || die "There is no selftest $programs."
    run_programs "$kind" "$image" "$seconds" 2048 "$root" "$(environment "$kind")" "$@"
    rm -r "$root"
}

# check_selftests KIND IMAGE PROGRAMS: the same, unless it has been done and nothing was different.
check_selftests() {
    local kind=$1 image=$2 programs=$3 key
    key=selftests-$kind-$({ cat "$image" "$selftests"/*; guest_inputs; environment "$kind"; echo "$programs"; } | hash)
    if ! known "$key"; then
        run_selftests "$kind" "$image" $((3600 + leaks / 20)) "$programs"
        keep_unless_failed "$key"
    fi
}
