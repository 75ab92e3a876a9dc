# Kernels and the tests' programs, cached by the hash of their inputs.

# tinyconfig with our fragments on top. An option that Kconfig does not accept is an error.
configure() {
    local output=$1 wish
    shift
    mkdir -p "$output"
    cat "$tree"/kernel/configs/tiny{-base,}.config "$tree/arch/x86/configs/tiny.config" "$@" >"$output/wishes"
    make -s -C "$tree" O="$output" KCONFIG_ALLCONFIG="$output/wishes" allnoconfig >"$output/config.log" 2>&1 ||
        { cat "$output/config.log" >&2; die "The kernel could not be configured."; }
    while read -r wish; do
        grep -qxF -- "$wish" "$output/.config" || die "Kconfig does not grant: $wish"
    done < <(grep -hE '^(CONFIG_|# CONFIG_.* is not set$)' "$@")
}

# Runs make in the background, and shows its progress in a line.
make_with_progress() {
    local log=$1 process started=$SECONDS told=$SECONDS
    shift
    nice make "$@" >"$log" 2>&1 &
    process=$!
    while kill -0 "$process" 2>/dev/null; do
        sleep 1
        if ((SECONDS - told >= 30)); then
            told=$SECONDS
            say "   $(grep -c '^  CC ' "$log") files compiled in $(duration $((told - started)))"
        fi
    done
    wait "$process" || { tail -n 40 "$log" >&2; die "make failed; its output is in $log"; }
}

# build_kernel KIND: `tree` built with the kind's configuration; sets `image`.
build_kernel() {
    local kind=$1 output=$store/build-$1
    image=$output/arch/x86/boot/bzImage
    configure "$output" $(fragments "$kind")
    make_with_progress "$store/build-$kind.log" -C "$tree" O="$output" -j"$(nproc)" bzImage
}

fragments() {
    case $1 in
    plain) echo "$here/config/plain.config" ;;
    debug) echo "$here/config/plain.config" "$here/config/debug.config" ;;
    esac
}

# kernel_inputs KIND PATCH...: everything that a kernel depends on.
kernel_inputs() {
    local kind=$1
    shift
    echo "$source_version"
    gcc --version
    ld --version
    cat "$here/lib/build.sh" $(fragments "$kind") "$@"
}

# kernel KIND PATCH...: sets `image` to the kernel with these patches, built now if it never was.
kernel() {
    local kind=$1 key kept
    shift
    key=$(kernel_inputs "$kind" "$@" | hash)
    kept=$store/kernels/$kind-$key
    if [[ ! -e $kept ]]; then
        step "building the $kind kernel"
        patched_tree "$@"
        build_kernel "$kind"
        mkdir -p "$store/kernels"
        cp "$image" "$kept.new"
        mv "$kept.new" "$kept"
    fi
    touch "$kept"
    image=$kept
}

# selftests PATCH...: sets `selftests` to the directory of their programs.
selftests() {
    local key
    key=$({ gcc --version; cat "$here/lib/build.sh" "$@"; } | hash)
    selftests=$store/selftests/$key
    if [[ ! -d $selftests ]]; then
        step "building the selftests"
        patched_tree "$@"
        rm -rf "$store/selftests/new"
        mkdir -p "$store/selftests/new"
        make -s -C "$tree/tools/testing/selftests/vm_snapshot" -j"$(nproc)" STATIC=1 OUTPUT="$store/selftests/new" \
            >"$store/selftests.log" 2>&1 || { cat "$store/selftests.log" >&2; die "The selftests could not be built."; }
        mv "$store/selftests/new" "$selftests"
    fi
    touch "$selftests"
}

# Entries that were not used for a month are removed.
prune() {
    find "$store"/{kernels,selftests,results} -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2>/dev/null || true
}

hash() { sha256sum | cut -c 1-16; }
