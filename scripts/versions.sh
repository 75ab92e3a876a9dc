# Other versions of PostgreSQL, each in a Debian of its own. The Debian is made once and kept in the cache. Making it, and
# running something in it, needs root. PostgreSQL 16 is in no release of Debian: its programs come out of a wheel.

source "$project/scripts/debian.sh"
source "$project/scripts/wheel.sh"

known_versions=(15 16 17 18)
declare -A debian_release=([15]=bookworm [17]=trixie [18]=forky)
# The other packages of a Debian: a compiler for test libraries, and the sources of locales.
debian_packages=(gcc libc6-dev locales)

debian_of() { printf '%s' "$cache/versions/$1/root"; }

# Whether a version's programs and headers are in the cache.
has_version() { [[ -e $cache/versions/$1/ready ]]; }

# Puts a version's programs and headers into the cache.
prepare_version() {
    if [[ $1 == 16 ]]; then prepare_wheel; else prepare_debian "$1"; fi
}

# Makes the Debian of a version.
prepare_debian() {
    local version=$1 store=$cache/versions/$1 release=${debian_release[$1]:-} root script included
    [[ $release ]] || die "PostgreSQL $version is in no Debian that is known here; known: ${!debian_release[*]}"
    if has_version "$version"; then return; fi
    [[ $(id -u) == 0 ]] || die "Making a Debian with PostgreSQL $version needs root."
    install_packages debootstrap
    say "Making a Debian $release with PostgreSQL $version: some three minutes, once."
    root=$(debian_of "$version")
    rm -rf "$store"
    mkdir -p "$store"
    # A release that is newer than debootstrap is installed in the same way as unstable.
    script=/usr/share/debootstrap/scripts/$release
    [[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
    included=$(IFS=, && printf '%s' "postgresql-$version,${debian_packages[*]}")
    debootstrap --variant=minbase --include="$included" "$release" "$root" \
        "$(debian_suites | awk -v release="$(installed_release)" '$2 == release { print $1; exit }')" \
        "$script" >"$store/log" || die "No Debian $release, see $store/log"
    # The headers without the compilers that their package depends on.
    from_debian deb "$release" "$store" download "postgresql-server-dev-$version"
    dpkg-deb -x "$store"/postgresql-server-dev-*.deb "$root"
    rm "$store"/*.deb
    stand_in_for_pg_config "$version" >"$store/pg_config"
    chmod +x "$store/pg_config"
    touch "$store/ready"
}

# A script that answers like the version's pg_config, whose own program may need a newer C library than this system's.
stand_in_for_pg_config() {
    local version=$1 root
    root=$(debian_of "$version")
    cat <<END
#!/bin/sh
case \$1 in
--version) echo "PostgreSQL $(sed -nE 's/^#define PG_VERSION "(.*)"/\1/p' "$root/usr/include/postgresql/$version/server/pg_config.h")" ;;
--includedir-server) echo $root/usr/include/postgresql/$version/server ;;
--pkgincludedir) echo $root/usr/include/postgresql ;;
--bindir) echo $root/usr/lib/postgresql/$version/bin ;;
--libdir | --pkglibdir) echo $root/usr/lib/postgresql/$version/lib ;;
--sharedir) echo $root/usr/share/postgresql/$version ;;
--cppflags) echo -D_GNU_SOURCE ;;
--configure) echo "'--with-openssl'" ;;
*) echo "not known here: \$1" >&2; exit 1 ;;
esac
END
}

# The directory with the programs for a version.
built_for() {
    if [[ $1 == "$postgresql" ]]; then printf '%s' "$release"; else printf '%s' "$CARGO_TARGET_DIR/versions/$1/release"; fi
}

# for_version VERSION COMMAND ...: runs a cargo command with the extension for that version. Only the extension and pgrx
# know the server's headers, so all else is shared with the ordinary build. The programs get a directory of their own.
# The extension itself is compiled again at each change of the version: Cargo keeps one file for it, and one for each
# version of all else.
for_version() {
    local version=$1 shared=$CARGO_TARGET_DIR
    shift
    announce_first_build
    PGRX_PG_CONFIG_PATH=$cache/versions/$version/pg_config \
        CARGO_BUILD_BUILD_DIR=$shared CARGO_TARGET_DIR=$shared/versions/$version \
        cargo "$1" --release --locked --quiet "${shared_packages[@]/#/--package=}" \
        --no-default-features --features "pg_anker/pg$version" "${@:2}"
}

# Runs a command in the Debian of a version, with the project and the build results at their usual places. The mounts
# end with the command.
in_debian() {
    local version=$1 root
    shift
    root=$(debian_of "$version")
    # shellcheck disable=SC2016 # The inner shell expands these.
    unshare --mount --propagation private sh -ec '
        root=$1 && shift
        while [ "$1" != -- ]; do
            mkdir -p "$root$1"
            mount --bind "$1" "$root$1"
            shift
        done
        shift
        mount -t proc proc "$root/proc"
        mkdir -p "$root/dev/shm"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        exec chroot "$root" "$@"' sh "$root" "$project" "$CARGO_TARGET_DIR" /sys -- "$@"
}

# Runs the integration tests, with arguments of anker-tests, on that version. Engine and tests are those of the ordinary
# build.
test_version() {
    local version=$1
    shift
    prepare_version "$version"
    for_version "$version" build || return
    test_library "$version" "$(built_for "$version")/libpg_anker.so" "$@"
}

# test_library VERSION LIBRARY ...: runs the integration tests on a version, with a library for it.
test_library() {
    local version=$1 library=$2 run=$CARGO_TARGET_DIR/versions/$1
    shift 2
    mkdir -p "$run"
    # A test finds what it installs beside its executable. Another build may write to that directory meanwhile.
    cp "$library" "$release"/{pg_anker_engine,anker-tests} "$run/"
    if [[ $version == 16 ]]; then
        PGRX_PG_CONFIG_PATH=$cache/versions/16/pg_config "$run/anker-tests" "$@"
        return
    fi
    in_debian "$version" env -i PATH="$PATH" LC_ALL=C.UTF-8 HOME=/root ${CI:+CI="$CI"} \
        ${POSTGRESQL_TESTS:+POSTGRESQL_TESTS="$POSTGRESQL_TESTS"} \
        ${PG_ANKER_OLDER:+PG_ANKER_OLDER="$PG_ANKER_OLDER" LD_LIBRARY_PATH="$PG_ANKER_OLDER/lib"} \
        PGRX_PG_CONFIG_PATH="/usr/lib/postgresql/$version/bin/pg_config" "$run/anker-tests" "$@"
}
