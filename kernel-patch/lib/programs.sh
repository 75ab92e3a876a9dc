# Test programs in a guest, one after the other.

# run_programs NAME IMAGE SECONDS MEMORY ROOT ENVIRONMENT [ARGUMENT...]: runs the programs in ROOT/programs with these
# arguments in this environment.
run_programs() {
    local name=$1 image=$2 seconds=$3 memory=$4 root=$5 environment=$6
    shift 6
    cp "$here/guest/programs" "$root/job"
    printf 'export %s\narguments="%s"\n' "$environment" "$*" >"$root/environment"
    run_job "$name" "$image" "$seconds" "$memory" "$root" read_results
}

read_results() { gawk -v results="$results" -f "$here/lib/results.awk"; }
