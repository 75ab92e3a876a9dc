# Something that runs in the background, for one guest alone does not keep two processors busy. It is in a process group
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

# finish_beside: waits for it, tells what it said, and sets `results` to its own.
finish_beside() {
    local status=0
    wait "$beside" || status=$?
    beside=
    cat "$store/logs/beside.log" >&2
    results=$store/logs/beside.results
    ((status == 0)) && [[ -e $results ]] || die "What ran beside the other tests broke off."
}

end_beside() { [[ ! $beside ]] || kill -- "-$beside" 2>/dev/null; }
