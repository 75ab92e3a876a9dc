# Newer versions of PostgreSQL, out of newer releases of Debian: the headers are enough to compile the extension.

source "$project/scripts/debian.sh"

declare -A debian_release=([17]=trixie [18]=forky)

# Sets version_pg_config to a stand-in for the version's pg_config, which may need a newer C library than this system's.
prepare_version() {
    local version=$1 store=$cache/versions/$1 package
    version_pg_config=$store/pg_config
    if [[ -x $version_pg_config ]]; then return; fi
    rm -rf "$store"
    mkdir -p "$store"
    from_debian deb "${debian_release[$version]}" "$store" download "postgresql-server-dev-$version"
    package=("$store"/*.deb)
    dpkg-deb -x "${package[0]}" "$store"
    cat >"$store/pg_config.new" <<END
#!/bin/sh
case \$1 in
--version) echo "PostgreSQL $(sed -nE 's/^#define PG_VERSION "(.*)"/\1/p' "$store/usr/include/postgresql/$version/server/pg_config.h")" ;;
--includedir-server) echo $store/usr/include/postgresql/$version/server ;;
--pkgincludedir) echo $store/usr/include/postgresql ;;
--bindir) echo $store/usr/lib/postgresql/$version/bin ;;
--libdir | --pkglibdir) echo $store/usr/lib/postgresql/$version/lib ;;
--sharedir) echo $store/usr/share/postgresql/$version ;;
--cppflags) echo -D_GNU_SOURCE ;;
--configure) echo "'--with-openssl'" ;;
*) echo "not known here: \$1" >&2; exit 1 ;;
esac
END
    chmod +x "$store/pg_config.new"
    mv "$store/pg_config.new" "$version_pg_config"
}

# Runs tests/versions/ in a Debian of that version's release, whose programs need a newer C library. This needs root.
smoke_version() {
    local version=$1 root=$cache/versions/$1/root target=$CARGO_TARGET_DIR/versions bin=/usr/lib/postgresql/$1/bin engine script status=0
    prepare_version "$version"
    PGRX_PG_CONFIG_PATH=$version_pg_config CARGO_TARGET_DIR=$target \
        cargo build --release --locked --quiet --package pg_anker --no-default-features --features "pg$version" || return
    if [[ ! -x $root$bin/postgres ]]; then
        install_packages debootstrap
        rm -rf "$root"
        # A release that is newer than debootstrap is installed in the same way as unstable.
        script=/usr/share/debootstrap/scripts/${debian_release[$version]}
        [[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid
        debootstrap --variant=minbase --include="postgresql-$version" "${debian_release[$version]}" "$root" \
            "$(debian_suites | awk -v release="$(installed_release)" '$2 == release { print $1; exit }')" \
            "$script" >"$root.log" ||
            die "No Debian ${debian_release[$version]}, see $root.log"
    fi
    cp "$target/release/libpg_anker.so" "$root/usr/lib/postgresql/$version/lib/pg_anker.so"
    cp "$release/pg_anker_engine" "$root/usr/lib/postgresql/$version/lib/"
    cp "$project"/pgrx-config/* "$root/usr/share/postgresql/$version/extension/"
    rm -rf "$root/tmp/"*
    cp "$project"/tests/versions/*.sql "$root/tmp/"
    mkdir -p "$root/dev/shm" && chmod 1777 "$root/dev/shm"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    inside() { chroot --userspec=postgres:postgres "$root" env LC_ALL=C.UTF-8 HOME=/tmp "$@"; }
    query() { inside "$bin/psql" -h /tmp -d postgres -XqAt -v ON_ERROR_STOP=1 "$@"; }
    inside "$bin/initdb" -D /tmp/data -A trust -N >/dev/null
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '/tmp'" "shared_preload_libraries = 'pg_stat_statements, pg_anker'" \
        "wal_level = logical" >>"$root/tmp/data/postgresql.conf"
    inside "$bin/pg_ctl" -D /tmp/data -l /tmp/log -w -s start || status=1
    query -f /tmp/smoke.sql >"$root/tmp/out" || status=1
    engine=$(query -c "SELECT engine_pid FROM anker.engine") && kill -KILL "$engine" || status=1
    query -f /tmp/smoke-after.sql >>"$root/tmp/out" || status=1
    inside "$bin/pg_ctl" -D /tmp/data -m fast -s stop || status=1
    umount "$root/proc"
    # Eighteen comparisons, an engine that answered, no process that died.
    if [[ $(grep -cx t "$root/tmp/out") != 18 ]] || grep -qx f "$root/tmp/out" || ! grep -q 'Anker: engine' "$root/tmp/out" ||
        grep -E 'PANIC|terminated by signal' "$root/tmp/log"; then
        status=1
    fi
    ((status == 0)) || cat "$root/tmp/out" "$root/tmp/log" >&2
    return "$status"
}
