# A guest under QEMU, in software emulation: it runs one job and powers off.

swap_size=512M

# initramfs DIRECTORY OUTPUT: busybox, our init, and what the caller laid into the directory.
initramfs() {
    local root=$1 output=$2
    mkdir -p "$root/bin"
    cp "$(command -v busybox)" "$root/bin/busybox"
    install -m 755 "$here/guest/init" "$root/init"
    (cd "$root" && find . -print0 | sort -z | cpio --null --create --format=newc --quiet --owner=0:0) >"$output"
}

# boot IMAGE INITRAMFS LOGS SECONDS MEMORY [QEMU OPTION...]: runs the guest; its two logs are LOGS.console and
# LOGS.job. Fails if it has not powered off by itself in that time.
boot() {
    local image=$1 initramfs=$2 logs=$3 limit=$4 memory=$5 swap status=0
    shift 5
    swap=$logs.swap
    rm -f "$swap"
    truncate -s "$swap_size" "$swap"
    timeout --foreground --kill-after=10 "$limit" nice qemu-system-x86_64 -accel tcg,thread=multi -cpu max \
        -nodefaults -no-user-config -display none -no-reboot \
        -smp 4,sockets=2 -m "$memory" \
        -object memory-backend-ram,id=low,size="$((memory / 2))M" -numa node,memdev=low,cpus=0-1 \
        -object memory-backend-ram,id=high,size="$((memory / 2))M" -numa node,memdev=high,cpus=2-3 \
        -kernel "$image" -initrd "$initramfs" \
        -append "console=ttyS0 loglevel=7 panic=-1 oops=panic softlockup_panic=1" \
        -serial "file:$logs.console" -serial "file:$logs.job" \
        -drive "file=$swap,format=raw,if=virtio,cache=unsafe" "$@" || status=$?
    rm -f "$swap"
    ((status == 0)) && grep -q '^@ job ended with 0' "$logs.job"
}
