# A server that checks itself: Debian's PostgreSQL source, built with its assertions on.

source "$project/scripts/debian.sh"

assertions_packages=(make bzip2 dpkg-dev libicu-dev zlib1g-dev)

# Builds the server once, outside the tree, and sets assertions_pg_config.
prepare_assertions() {
    local store=$cache/assertions archives
    assertions_pg_config=$store/pgsql/bin/pg_config
    if [[ -x $assertions_pg_config ]]; then return; fi
    install_packages "${assertions_packages[@]}"
    say "Building PostgreSQL $postgresql with assertions: some ten minutes of CPU time, once."
    rm -rf "$store"
    mkdir -p "$store/source"
    from_debian deb-src "$(installed_release)" "$store" source --download-only "postgresql-$postgresql"
    archives=("$store/postgresql-${postgresql}_"*.orig.tar.*)
    tar -xf "${archives[0]}" -C "$store/source" --strip-components 1
    # Installed into a place of its own and moved when complete, so that an interrupted build is not taken for one.
    # A test copies the server from here to a place of its own, so no paths are built in.
    (
        cd "$store/source"
        ./configure --quiet --prefix="$store/pgsql" --enable-cassert --enable-debug --disable-rpath --with-icu \
            --without-readline CFLAGS='-O1 -fno-omit-frame-pointer'
        make --silent -j "$(nproc)" -C src
        make --silent -C src install DESTDIR="$store/staged"
    ) &>"$store/log" || { tail -n 30 "$store/log" >&2; die "PostgreSQL could not be built, see $store/log"; }
    mv "$store/staged$store/pgsql" "$store/pgsql"
    rm -r "$store/source" "$store/staged"
}

# Runs the integration tests with arguments of anker-tests. Only the extension knows the server's headers; engine and
# tests are those of the ordinary build.
test_assertions() {
    local target=$CARGO_TARGET_DIR/assertions run=$CARGO_TARGET_DIR/assertions/run
    PGRX_PG_CONFIG_PATH=$assertions_pg_config CARGO_TARGET_DIR=$target \
        cargo build --release --locked --quiet --package pg_anker "${for_postgresql[@]}" || return
    mkdir -p "$run"
    ln -sf "$target/release/libpg_anker.so" "$release/pg_anker_engine" "$run/"
    # A test finds what it installs beside its executable.
    cp "$release/anker-tests" "$run/"
    PGRX_PG_CONFIG_PATH=$assertions_pg_config "$run/anker-tests" "$@"
}
