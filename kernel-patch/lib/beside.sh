# A command that runs in the background, since one guest alone does not keep two processors busy. It has a process group
# of its own, so that all of it can be ended.

beside=

# start_beside COMMAND [ARGUMENT...]: starts a command that sets `results`.
start_beside() {
    rm -f "$store/logs/beside.results"
    set -m
    {
        "$@"
        cp "$results" "$store/logs/beside.results"
    } </dev/null >"$store/logs/beside.log" 2>&1 &
    set +m
    beside=$!
}

# finish_beside: prints its output until it ends, and sets `results` to its results.
finish_beside() {
    local status=0
    tail --lines=+1 --follow --pid="$beside" "$store/logs/beside.log" >&2
    wait "$beside" || status=$?
    beside=
    results=$store/logs/beside.results
    ((status == 0)) && [[ -e $results ]] || die "What ran beside the other tests broke off."
}

end_beside() { [[ ! $beside ]] || kill -- "-$beside" 2>/dev/null; }
