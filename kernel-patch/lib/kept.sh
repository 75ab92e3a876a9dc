# Guests take minutes under emulation, so their results are kept under a hash of all inputs, and valid until an input
# changes.

again=

# known KEY: whether this has been run before; if so, sets `results` to the kept ones.
known() {
    results=$store/results/$1
    [[ ! $again && -e $results ]] || return 1
    touch "$results"*
    say "   Nothing has changed since $(cat "$results.when"):" \
        "$(outcome ok) passed, $(outcome FAIL) failed, $(outcome skip) skipped"
}

# keep KEY: remembers the results.
keep() {
    mkdir -p "$store/results"
    date '+%F %H:%M' >"$store/results/$1.when"
    cp "$results" "$store/results/$1"
}

keep_unless_failed() { (($(outcome FAIL) > 0)) || keep "$1"; }
