# snapmem in a guest: its tests, and its experiments with the patched kernel's calls beside the other mechanisms.

# The experiments need room for 50 columns and their copies. A column has so many pages that the cost of a call
# apart from them is small, and Table 1, which takes the longest, still ends within minutes.
experiment_memory=6144
experiment=(--quick --minutes 20 --columns 50 --column-mb 16 --only table1 --only sequence --only turns
    --mechanism vm_snapshot --mechanism mremap_cow --mechanism rewired --mechanism scoot --mechanism fork_columns
    --mechanism frames)

# lay ROOT NAME PROGRAM: puts a program into a guest's root directory as programs/NAME, with its libraries.
lay() {
    local root=$1 name=$2 program=$3 library
    mkdir -p "$root/programs"
    strip --strip-debug -o "$root/programs/$name" "$program"
    while read -r library; do
        install -D "$library" "$root$library"
    done < <(ldd "$program" | grep -o '/[^ ]*')
}

# test_snapmem IMAGE: snapmem's tests, on a kernel that lacks no mechanism.
test_snapmem() {
    local image=$1 root program name key
    root=$(mktemp -d)
    while read -r program; do
        name=${program##*/}
        lay "$root" "${name%-*}" "$program"
    done < <(cargo test --release --locked -p anker-snapmem --no-run 2>&1 | tee /dev/stderr |
        sed -n 's/^ *Executable .* (\(.*\))$/\1/p')
    [[ -d $root/programs ]] || die "snapmem's tests could not be built."
    key=tests-$({ cat "$image" "$root"/programs/*; guest_inputs; } | hash)
    if ! known "$key"; then
        run_programs snapmem "$image" 3000 4096 "$root" "limit=2400 RUST_TEST_THREADS=4 SNAPMEM_SCALE=0.1"
        keep_unless_failed "$key"
    fi
    rm -r "$root"
}

# measure_snapmem IMAGE: Table 1 and Figure 4 of the AnKer paper in the guest, and the time of the calls in turns with
# others. Sets `found` to the directory with the report, as json and html.
measure_snapmem() {
    local image=$1 root disk=$store/logs/experiment.disk key
    cargo build --release --locked -p anker-bench-snapshot
    root=$(mktemp -d)
    lay "$root" snapshot-bench "$release/snapshot-bench"
    cp "$here/guest/experiment" "$root/job"
    printf 'arguments="%s"\n' "${experiment[*]}" >"$root/environment"
    key=experiment-$({
        cat "$image" "$root"/programs/*
        guest_inputs
        echo "${experiment[*]} $experiment_memory"
    } | hash)
    found=$store/results/$key.found
    if ! known "$key"; then
        rm -rf "$disk" "$found"
        mkdir -p "$found"
        truncate -s 64M "$disk"
        run_job experiment "$image" 3000 "$experiment_memory" "$root" cat -drive "file=$disk,format=raw,if=virtio"
        tar -xf "$disk" -C "$found" 2>/dev/null || true
        rm "$disk"
        require_rows create_1_of_n vm_snapshot mremap_cow
        require_rows sequence_create rewired vm_snapshot mremap_cow
        require_rows times_vm_snapshot fork rewired vm_snapshot mremap_cow
        keep_unless_failed "$key"
    fi
    rm -r "$root"
}

# require_rows FIGURE MECHANISM...: the report must have this figure of each mechanism.
require_rows() {
    local figure=$1 mechanism
    shift
    for mechanism; do
        if grep -qE "\"figure\":\"$figure\".*\"(mechanism|config)\":\"$mechanism\"" "$found/json" 2>/dev/null; then
            verdict ok experiment "$figure of $mechanism"
        else
            verdict FAIL experiment "$figure of $mechanism"
        fi
    done
}
