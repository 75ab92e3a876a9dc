# The selftests in a guest: what they are given, and what counts as passed.

# What the tests need to know, and how often the stress tests repeat: the debug kernel under emulation is slow.
environment() {
    case $1 in
    plain) echo "limit=300 SNAP_SWAP=/dev/vda" ;;
    debug) echo "limit=600 SNAP_SWAP=/dev/vda SNAP_SCALE=4 SNAP_LEAK_COUNT=20000" ;;
    esac
}

# run_selftests KIND IMAGE SECONDS PROGRAMS [ARGUMENT...]: runs the programs that match the pattern in a guest of that
# kind. `results` becomes the file with what came out: the tests, the kernel's log, and whether the guest came to its
# end.
run_selftests() {
    local kind=$1 image=$2 seconds=$3 programs=$4 root logs=$store/logs/$1 guest
    shift 4
    results=$logs.results
    root=$(mktemp -d)
    mkdir "$root/selftests"
    (cd "$selftests" && cp $programs "$root/selftests/") || die "no selftest is called $programs"
    cp "$here/guest/selftests" "$root/job"
    printf 'export %s\narguments="%s"\n' "$(environment "$kind")" "$*" >"$root/environment"
    initramfs "$root" "$logs.initramfs"
    rm -r "$root"

    tee "$results" "$logs.console" "$logs.job" </dev/null
    boot "$image" "$logs.initramfs" "$logs" "$seconds" 2048 &
    guest=$!
    tail --quiet --lines=+1 --follow --pid="$guest" "$logs.job" |
        gawk -v results="$results" -f "$here/lib/tap.awk" >&2
    if wait "$guest"; then
        verdict ok guest "ran to its end"
    else
        say "   The guest did not come to its end within $(duration "$seconds"); its last words:"
        tail -n 40 "$logs.console" "$logs.job" >&2
        verdict FAIL guest "did not come to its end"
    fi
    rm "$logs.initramfs"
    if gawk -f "$here/lib/kernel-log.awk" "$logs.console" >&2; then
        verdict ok kernel log
    else
        say "   The whole log is in $logs.console"
        verdict FAIL kernel log
    fi
}

verdict() {
    printf '   %-4s %s %s\n' "$@" >&2
    printf '%s\t%s\t%s\n' "$@" >>"$results"
}

# How many of the results have this outcome.
outcome() { grep -c "^$1"$'\t' "$results" || true; }
