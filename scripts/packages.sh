#!/usr/bin/env bash
# The packages on fresh systems: each in the Debian release that has its PostgreSQL. This needs root.
#
#   scripts/packages.sh [15] [17] [18]       or, in a script that has prepared a build: test_packages [15] [17] [18]

# shellcheck disable=SC1091 # ./test has sourced it.
[[ ${BASH_SOURCE[0]} != "$0" ]] || source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$project/scripts/versions.sh"
source "$project/scripts/install.sh"

# A fresh Debian with PostgreSQL's packages in apt's cache.
fresh_of() { printf '%s' "$cache/packages-tested/$1/root"; }

has_fresh() { [[ -e $(fresh_of "$1") ]]; }

# Makes the fresh Debian of a version.
prepare_fresh() {
    local version=$1 store=$cache/packages-tested/$1 release mirror script
    if has_fresh "$version"; then return; fi
    [[ $(id -u) == 0 ]] || die "A fresh Debian needs root."
    release=${debian_release[$version]}
    install_packages debootstrap
    rm -rf "$store"
    mkdir -p "$store"
    # A release that is newer than debootstrap is installed in the same way as unstable.
    script=/usr/share/debootstrap/scripts/$release
    [[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
    mirror=$(debian_suites | awk -v release="$(installed_release)" '$2 == release { print $1; exit }')
    debootstrap --variant=minbase "$release" "$store/new" "$mirror" "$script" >"$store/log" || die "No Debian $release, see $store/log"
    cp /etc/resolv.conf "$store/new/etc/"
    # No package starts a server.
    printf '#!/bin/sh\nexit 101\n' >"$store/new/usr/sbin/policy-rc.d"
    chmod +x "$store/new/usr/sbin/policy-rc.d"
    # Index files of testing are valid for some days only, and a mirror may be older.
    printf '%s\n' 'Binary::apt::APT::Keep-Downloaded-Packages "true";' 'Acquire::Check-Valid-Until "false";' \
        >"$store/new/etc/apt/apt.conf.d/pg_anker"
    chroot "$store/new" apt-get update -qq &>>"$store/log"
    chroot "$store/new" apt-get install -qq --download-only --no-install-recommends "postgresql-$version" &>>"$store/log" ||
        die "No PostgreSQL $version in Debian $release, see $store/log"
    mv "$store/new" "$(fresh_of "$version")"
}

# on_fresh VERSION SCRIPT FROM AT: runs a script of tests/packages on a copy of a fresh Debian, where the directory FROM
# is mounted read-only at AT. Its processes and mounts end with it.
on_fresh() {
    local version=$1 script=$2 from=$3 at=$4 copy=$work/root status=0
    prepare_fresh "$version"
    cp -a --reflink=auto "$(fresh_of "$version")" "$copy"
    mkdir -p "$copy$at" "$copy/tests" "$copy/dev/shm"
    cp "$project"/tests/packages/*.sh "$copy/tests/"
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        copy=$1 from=$2 at=$3 script=$4 version=$5
        mount -t proc proc "$copy/proc"
        mount -t tmpfs -o mode=1777 tmpfs "$copy/dev/shm"
        mount --bind "$from" "$copy$at"
        mount -o remount,bind,ro "$copy$at"
        exec chroot "$copy" "/tests/$script" "$version"' bash "$copy" "$from" "$at" "$script" "$version" || status=$?
    rm -rf --one-file-system "$copy"
    return "$status"
}

# A stand-in for the pg_config of a version that is not supported.
refuses_other_versions() {
    local answer
    printf '#!/bin/sh\necho PostgreSQL 14.9\n' >"$work/pg_config"
    chmod +x "$work/pg_config"
    ! answer=$(make --silent -C "$project" PG_CONFIG="$work/pg_config" 2>&1) && [[ $answer == *"pg_anker knows PostgreSQL 15 to 18; "*" belongs to 14."* ]]
}

# `make` puts the same files into a server's directories as the package.
installs_by_make() {
    local root=$work/made debs=$1
    make --silent -C "$project" PG_CONFIG="$PGRX_PG_CONFIG_PATH" || return
    make --silent -C "$project" install PG_CONFIG="$PGRX_PG_CONFIG_PATH" DESTDIR="$root" || return
    dpkg-deb -x "$debs/postgresql-$postgresql-pg-anker_"*-1_*.deb "$work/packaged"
    rm -r "$work/packaged/usr/share/doc"
    diff <(cd "$root" && find . -type f | sort) <(cd "$work/packaged" && find . -type f | sort) || return
    make --silent -C "$project" uninstall PG_CONFIG="$PGRX_PG_CONFIG_PATH" DESTDIR="$root" || return
    [[ -z $(find "$root" -type f) ]]
}

# Revision 2 of the packages in a directory, with the same programs.
make_second_revisions() {
    local deb tree=$work/second
    for deb in "$1"/postgresql-*-pg-anker_*-1_*.deb; do
        dpkg-deb --raw-extract "$deb" "$tree"
        sed -i '/^Version: /s/-1$/-2/' "$tree/DEBIAN/control"
        dpkg-deb --root-owner-group -Zgzip -z1 --build "$tree" "${deb/-1_/-2_}" >/dev/null
        rm -r "$tree"
    done
}

# The whole test: test_packages [VERSION...]
test_packages() {
    local work debs version status=0
    (($#)) || set -- "${supported_versions[@]}"
    work=$(mktemp -d /var/tmp/pg_anker-packages.XXXXXX)
    debs=$work/debs
    if ! "$project/package" --quick --out "$debs" --postgres "$(IFS=, && echo "$*")" >/dev/null || ! make_second_revisions "$debs"; then
        rm -rf "$work"
        return 1
    fi
    export RELEASE OLDEST
    RELEASE=$(release_version)
    OLDEST=$(cd "$project/pgrx-config" && printf '%s\n' pg_anker--[0-9]*.sql | sed -nE 's/^pg_anker--([0-9.]+)\.sql$/\1/p' | sort -V | head -n 1)
    say "-- make and make install"
    refuses_other_versions || { say "FAILED: a version that is not supported is not refused"; status=1; }
    # Compared with the package for this system's PostgreSQL.
    if [[ " $* " == *" $postgresql "* ]]; then installs_by_make "$debs" || { say "FAILED: make install"; status=1; }; fi
    for version in "$@"; do
        say "-- PostgreSQL $version in Debian ${debian_release[$version]}: the life of a package"
        on_fresh "$version" life.sh "$debs" /packages || status=1
    done
    say "-- PostgreSQL $1: the demo"
    mkdir "$debs/tree"
    git ls-files -z --cached --others --exclude-standard |
        tar --null --files-from=- --create | tar --extract --directory "$debs/tree"
    on_fresh "$1" demo.sh "$debs" /packages || status=1
    if [[ " $* " == *" 18 "* ]]; then
        say "-- PostgreSQL 18: the files of an extension image"
        on_fresh 18 image.sh "$debs/extension-image-18" /extensions/pg-anker || status=1
    fi
    rm -rf --one-file-system "$work"
    return "$status"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    prepare
    test_packages "$@"
fi
