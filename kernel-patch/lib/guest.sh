# A guest under QEMU, in software emulation: it runs one job and powers off.

swap_size=512M

# run_job NAME IMAGE SECONDS MEMORY ROOT READER [QEMU OPTION...]: boots a guest whose root directory is ROOT with
# busybox and our init, which runs ROOT/job. The command READER reads the job's output. `results` becomes a file
# with the outcomes "ok|FAIL|skip <tab> program <tab> test": the reader's, and ours on the guest, which must come to its
# end, and on the kernel's log, which must be clean.
run_job() {
    local name=$1 image=$2 seconds=$3 memory=$4 root=$5 reader=$6 logs=$store/logs/$1 guest
    shift 6
    results=$logs.results
    tee "$results" "$logs.console" "$logs.job" </dev/null
    initramfs "$root" "$logs.initramfs"
    boot "$image" "$logs.initramfs" "$logs" "$seconds" "$memory" "$@" &
    guest=$!
    tail --quiet --lines=+1 --follow --pid="$guest" "$logs.job" | "$reader" >&2
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

# The files that every guest depends on, and those that read its output.
guest_inputs() { cat "$here"/guest/* "$here"/lib/{guest.sh,programs.sh,tsc-khz.c,kernel-log.awk,results.awk}; }

verdict() {
    printf '   %-4s %s %s\n' "$@" >&2
    printf '%s\t%s\t%s\n' "$@" >>"$results"
}

# The number of results with this outcome.
outcome() { grep -c "^$1"$'\t' "$results" || true; }

initramfs() {
    local root=$1 output=$2
    mkdir -p "$root/bin"
    cp "$(command -v busybox)" "$root/bin/busybox"
    install -m 755 "$here/guest/init" "$root/init"
    (cd "$root" && find . -print0 | sort -z | cpio --null --create --format=newc --quiet --owner=0:0) >"$output"
}

# The kernel's log becomes LOGS.console, the job's output LOGS.job. Fails unless the job ends well in that time. A
# guest that does not even come to its init has said nothing about the patches: on a loaded host the kernel may find
# that its emulated timers are not to be trusted. It is started again, twice.
boot() {
    local logs=$3 attempt
    for attempt in 1 2 3; do
        if emulate "$@"; then return; fi
        [[ ! -s $logs.job ]] || return 1
        say "   The guest did not boot."
    done
    return 1
}

boot_seconds=300

# The kernels are built without ACPI, for that is a fifth of all files. Instead, they find their processors in the MP
# table, which names one per socket, and are told to make two nodes of their memory, and how fast their clock runs.
emulate() {
    local image=$1 initramfs=$2 logs=$3 limit=$4 memory=$5 swap=$3.swap parameters qemu status=0 waited
    shift 5
    parameters="console=ttyS0 loglevel=7 panic=-1 oops=panic softlockup_panic=1 no_timer_check numa=fake=2"
    rm -f "$swap"
    truncate -s "$swap_size" "$swap"
    timeout --kill-after=10 "$limit" nice qemu-system-x86_64 \
        -machine q35 -accel tcg,thread=multi -cpu max -nodefaults -no-user-config -display none -no-reboot \
        -smp 4,sockets=4 -m "$memory" \
        -kernel "$image" -initrd "$initramfs" \
        -append "$parameters $(clock "$logs.clock")" \
        -serial "file:$logs.console" -serial "file:$logs.job" \
        -drive "file=$swap,format=raw,if=virtio,cache=unsafe" "$@" &
    qemu=$!
    trap 'kill "$qemu"; exit 1' TERM
    for ((waited = 0; waited < boot_seconds; waited++)); do
        if [[ -s $logs.job ]] || ! kill -0 "$qemu" 2>/dev/null; then break; fi
        sleep 1
    done
    [[ -s $logs.job ]] || kill "$qemu" 2>/dev/null || true
    wait "$qemu" || status=$?
    rm -f "$swap"
    ((status == 0)) && grep -q '^@ job ended with 0' "$logs.job"
}

# The guest reads the time stamp counter of this machine.
clock() {
    local program=$1
    gcc -O2 -o "$program" "$here/lib/tsc-khz.c"
    echo "tsc=reliable tsc_early_khz=$("$program")"
    rm "$program"
}
