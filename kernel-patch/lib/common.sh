# Shared by run and mutate: paths, prerequisites, and messages about progress.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$here/../scripts/lib.sh"
source "$here/lib/beside.sh"
source "$here/lib/source.sh"
source "$here/lib/build.sh"
source "$here/lib/guest.sh"
source "$here/lib/kept.sh"
source "$here/lib/programs.sh"
source "$here/lib/selftests.sh"
source "$here/lib/snapmem.sh"
source "$here/lib/server.sh"

store=$cache/kernel
kernel_packages=(gcc libc6-dev make patch flex bison bc cpio gawk xz-utils kmod libelf-dev libssl-dev busybox-static
    qemu-system-x86 ca-certificates debian-archive-keyring)

# No process that was started outlives the script.
trap 'end_beside || true; kill $(jobs -p) 2>/dev/null || true' EXIT

step() { say "== $(duration "$SECONDS") $*"; }
duration() { printf '%d:%02d' "$(($1 / 60))" "$(($1 % 60))"; }

# One run at a time works in the cache.
prepare_kernel() {
    [[ $(uname -m) == x86_64 ]] || die "kernel-patch/run builds and boots x86-64 kernels only."
    install_packages "${kernel_packages[@]}"
    mkdir -p "$store/logs"
    exec {lock}>"$store/lock"
    flock --nonblock "$lock" || { say "Waiting for another run to end."; flock "$lock"; }
    prune
    fetch_source
}
