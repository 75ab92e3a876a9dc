# Shared by demo, test and bench/run: prerequisites, the places of caches, the build.

set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rust_wanted=1.95
source "$project/scripts/env"
packages=("postgresql-$postgresql" "postgresql-client-$postgresql" "postgresql-server-dev-$postgresql"
    gcc make libc6-dev clang libclang-dev pkg-config)
release=$CARGO_TARGET_DIR/release
# The packages of Cargo whose programs a server and the demo need. For them, Cargo chooses the same features of
# dependencies as for the whole workspace, so that nothing is compiled twice. Fewer of them would share hardly anything.
shared_packages=(pg_anker pg_anker_engine anker-bench)

# Downloads live outside the tree, as build results do.
cache=${PG_ANKER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pg_anker}

say() { printf '%s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

check_rust() {
    local found
    found=$(rustc -V 2>/dev/null | cut -d ' ' -f 2) || found=
    if [[ -z $found || $(printf '%s\n' "$rust_wanted" "${found%%-*}" | sort -V | head -n 1) != "$rust_wanted" ]] ||
        ! command -v cargo >/dev/null; then
        die "pg_anker needs Rust $rust_wanted or newer with cargo; found: ${found:-none}." \
            $'\nGet it:    curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh' \
            $'\nUpdate it: rustup update stable'
    fi
}

# Installs the named packages of the system if one is missing and we have the rights.
install_packages() {
    local missing=() package become=()
    if command -v dpkg-query >/dev/null; then
        for package in "$@"; do
            [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
        done
    fi
    if ((${#missing[@]})); then
        if [[ $(id -u) != 0 ]]; then
            if command -v sudo >/dev/null; then
                become=(sudo)
            else
                die "Missing packages: ${missing[*]}. Install them as root: apt-get install ${missing[*]}"
            fi
        fi
        say "Installing ${missing[*]}"
        "${become[@]}" env DEBIAN_FRONTEND=noninteractive sh -ec 'apt-get update -q
            apt-get install -q -y --no-install-recommends "$@"' sh "${missing[@]}" >&2 ||
            die "The packages could not be installed. Debian has them all; PostgreSQL for other systems comes from" \
                "https://wiki.postgresql.org/wiki/Apt"
    fi
}

check_postgresql() {
    [[ -x $PGRX_PG_CONFIG_PATH ]] ||
        die "$PGRX_PG_CONFIG_PATH is not there: install PostgreSQL with its server headers, or set PGRX_PG_CONFIG_PATH."
    case $postgresql in
    15 | 16 | 17 | 18) ;;
    *) die "pg_anker knows PostgreSQL 15 to 18; $PGRX_PG_CONFIG_PATH belongs to ${postgresql:-an unknown version}." ;;
    esac
}

# Prerequisites of a build without PostgreSQL.
prepare_rust() {
    cd "$project"
    check_rust
    install_packages gcc libc6-dev
}

prepare() {
    cd "$project"
    check_rust
    install_packages "${packages[@]}"
    check_postgresql
}

announce_first_build() {
    compgen -G "$release/deps/libdatafusion*" >/dev/null || say "The first build compiles DataFusion: some fifteen minutes of CPU time, once."
}

# Builds the named packages, or everything. All builds share their dependencies.
build() {
    local packages=("${@/#/--package=}")
    announce_first_build
    cargo build --release --locked "${packages[@]:---workspace}" "${for_postgresql[@]}"
}
