#!/usr/bin/env bash
# PostgreSQL 19, for which the pgrx that Cargo.toml names is too old: docs/internals/versions.md says how far it goes. A
# copy of the source gets a newer pgrx, which asks for a newer Rust. The server comes from Debian's experimental.
#
#   scripts/postgresql-19.sh [--quick] [--filter NAME]      integration tests on it, with arguments of anker-tests

pgrx_of_19=0.19.4
rust_of_19=1.96

# Makes a Debian forky with the packages of experimental.
prepare_19() {
    local store=$cache/versions/19 root mirror script=/usr/share/debootstrap/scripts/forky
    if has_version 19; then return; fi
    [[ $(id -u) == 0 ]] || die "Making a Debian with PostgreSQL 19 needs root."
    install_packages debootstrap
    say "Making a Debian with PostgreSQL 19: some three minutes, once."
    root=$(debian_of 19)
    rm -rf "$store"
    mkdir -p "$store"
    mirror=$(debian_suites | awk -v release="$(installed_release)" '$2 == release { print $1; exit }')
    [[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
    debootstrap --variant=minbase --include="$(IFS=, && printf '%s' "${debian_packages[*]}")" forky "$root" "$mirror" \
        "$script" >"$store/log" || die "No Debian forky, see $store/log"
    printf 'deb %s experimental main\n' "$mirror" >"$root/etc/apt/sources.list.d/experimental.list"
    # apt of this system may work with a proxy or an old archive.
    apt-config dump Acquire::http >"$root/etc/apt/apt.conf.d/as-here"
    apt-config dump Acquire::Check-Valid-Until >>"$root/etc/apt/apt.conf.d/as-here"
    in_debian 19 env -i PATH="$PATH" DEBIAN_FRONTEND=noninteractive sh -ec 'apt-get update -q
        apt-get install -q -y --no-install-recommends -t experimental postgresql-19
        cd /tmp && apt-get download -q -t experimental postgresql-server-dev-19' >>"$store/log" 2>&1 ||
        die "No PostgreSQL 19, see $store/log"
    # The headers without the compilers that their package depends on.
    dpkg-deb -x "$root"/tmp/postgresql-server-dev-*.deb "$root"
    rm "$root"/tmp/postgresql-server-dev-*.deb
    stand_in_for_pg_config 19 >"$store/pg_config"
    chmod +x "$store/pg_config"
    touch "$store/ready"
}

# Sets newer_cargo to a cargo whose compiler is new enough: the usual one, or that of the nightly that ./test --sharing
# uses.
find_newer_cargo() {
    local found
    for newer_cargo in cargo "cargo +nightly"; do
        found=$(${newer_cargo/cargo/rustc} -V 2>/dev/null | cut -d ' ' -f 2) || continue
        if [[ $(printf '%s\n' "$rust_of_19" "${found%%-*}" | sort -V | head -n 1) == "$rust_of_19" ]]; then return; fi
    done
    die "pgrx $pgrx_of_19 needs Rust $rust_of_19: rustup update stable, or rustup toolchain install nightly"
}

# Compiles the extension out of a copy of the source, with the newer pgrx.
build_19() {
    local place=$CARGO_TARGET_DIR/versions/19
    rm -rf "$place/source"
    mkdir -p "$place/source"
    git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory "$place/source"
    perl -pi -e '
        s/^(pgrx = \{ version = "=)[^"]*/${1}'"$pgrx_of_19"'/;
        s/^pg18 = (.*)pg18(.*)\]$/$&\npg19 = $1pg19$2, "since_19"]/' "$place/source/Cargo.toml"
    # Not --locked: cargo replaces pgrx and what comes with it in the copy of Cargo.lock.
    (cd "$place/source" && PGRX_PG_CONFIG_PATH=$cache/versions/19/pg_config CARGO_TARGET_DIR=$place/target \
        $newer_cargo build --release --quiet --package pg_anker --no-default-features --features pg19)
}

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$project/scripts/versions.sh"
prepare
find_newer_cargo
prepare_19
build
build_19
test_library 19 "$CARGO_TARGET_DIR/versions/19/target/release/libpg_anker.so" "$@"
