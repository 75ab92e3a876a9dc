# The headers of newer versions of PostgreSQL, out of newer releases of Debian: enough to compile the extension.

source "$project/scripts/debian.sh"

declare -A debian_release=([17]=trixie [18]=forky)

# Sets version_pg_config to a stand-in for the version's pg_config, which wants a newer C library than may be here.
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

# Compiles the extension for a version, as far as the compiler's checks go.
check_version() {
    local version=$1
    prepare_version "$version"
    PGRX_PG_CONFIG_PATH=$version_pg_config CARGO_TARGET_DIR=$CARGO_TARGET_DIR/versions \
        cargo check --locked --quiet --package pg_anker --no-default-features --features "pg$version"
}
