# Debian packages and the files of an extension image, made of the programs in the directory `built`. The caller sets
# this, out, work, revision and compression, and epoch, the time of all files in the archives.

architecture() { dpkg --print-architecture; }

# Writes the names, versions and licences of all crates in the programs, and the texts of the licences. Each text comes
# once, below the names of the files that contain it.
third_party() {
    local crates name number terms file hash text='' last='' files=()
    crates=$(cargo tree --locked --package pg_anker --package pg_anker_engine --package anker-bench --edges normal,no-proc-macro \
        --prefix none --no-dedupe --format '{p}|{l}' | sed -nE 's/^([^ ]+) v([^ ]+)\|(.*)$/\1 \2 \3/p' | sort -u)
    printf '%s\n\n' "The programs of pg_anker contain these Rust crates. The texts of their licences follow." "$crates"
    while read -r name number terms; do
        for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-$number"/{LICEN[CS]E,COPYING,NOTICE}*; do
            [[ ! -f $file ]] || files+=("$file")
        done
    done <<<"$crates"
    while read -r hash file; do
        if [[ $hash != "$last" ]]; then
            [[ ! $text ]] || cat "$text"
            printf '\n%s\n' "------------------------------------------------------------------------"
            last=$hash text=$file
        fi
        printf '%s\n' "${file#*/registry/src/*/}"
    done < <(sha256sum "${files[@]}" | sort)
    cat "$text"
}

# split FILE STRIPPED DEBUG: parts a program from its debug information, and links the two. Debug information contains the
# directory of the tree, which is replaced. The build's id is a hash of the file, and so computed anew.
split() {
    local file=$work/whole stripped=$2 debug=$3
    cp "$1" "$file"
    debugedit --base-dir "$project" --dest-dir /usr/src/pg_anker --build-id "$file" >/dev/null
    objcopy --only-keep-debug --compress-debug-sections "$file" "$debug"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note -o "$stripped" "$file"
    rm "$file"
    objcopy --add-gnu-debuglink="$debug" "$stripped"
}

# The packages with the C library's symbols that programs need: shared_libraries FILE...
shared_libraries() {
    mkdir -p "$work/shlibs/debian"
    printf 'Source: pg-anker\n\nPackage: pg-anker\nArchitecture: any\n' >"$work/shlibs/debian/control"
    (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# build_deb NAME ROOT FIELDS...: makes a package of the files below a directory.
build_deb() {
    local name=$1 root=$2 doc=$2/usr/share/doc/$1 version date
    shift 2
    version=$(release_version)-$revision
    date=$(date -R -d "@$epoch")
    mkdir -p "$doc" "$root/DEBIAN"
    {
        cat "$project/packaging/copyright"
        sed -n '/^Permission/,$p' "$project/LICENSE" | sed -e 's/^$/./' -e 's/^/ /'
    } >"$doc/copyright"
    printf 'pg-anker (%s) unstable; urgency=medium\n\n  * Release %s: see the commits.\n\n -- %s  %s\n' \
        "$version" "$(release_version)" "$maintainer" "$date" | gzip -9n >"$doc/changelog.Debian.gz"
    if [[ $name != *-dbgsym ]]; then
        [[ -f $work/third-party ]] || third_party >"$work/third-party"
        gzip -9nc "$work/third-party" >"$doc/third-party.gz"
    fi
    # Debian's measure: each file takes whole kilobytes, each directory one.
    local size
    size=$(find "$root" -path "$root/DEBIAN" -prune -o -printf '%y %s\n' |
        awk '{ total += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print total }')
    {
        printf '%s\n' "Package: $name" "Source: pg-anker" "Version: $version" "Architecture: $(architecture)" \
            "Maintainer: $maintainer" "Installed-Size: $size" "Priority: optional" "$@"
    } >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group "${compression[@]}" --build "$root" "$out/${name}_${version}_$(architecture).deb" >/dev/null
}

# Nobody reads mail at this address: names that end with .invalid are reserved for such use. Who gives packages to others
# sets both variables, as for Debian's own tools.
maintainer="${DEBFULLNAME:-pg_anker developers} <${DEBEMAIL:-pg_anker@packages.invalid}>"

# The package for a version, and the package with its debug information.
make_packages() {
    local version=$1 name=postgresql-$1-pg-anker root=$work/$1 debug=$work/$1-debug
    local libraries=/usr/lib/postgresql/$version/lib extension=/usr/share/postgresql/$version/extension
    rm -rf "$root" "$debug"
    mkdir -p "$root" "$debug/usr/lib/debug$libraries"
    split "$built/libpg_anker.so" "$work/pg_anker.so" "$debug/usr/lib/debug$libraries/pg_anker.so.debug"
    split "$built/pg_anker_engine" "$work/pg_anker_engine" "$debug/usr/lib/debug$libraries/pg_anker_engine.debug"
    chmod 644 "$debug/usr/lib/debug$libraries"/*
    place "$work/pg_anker.so" "$work/pg_anker_engine" "$root$libraries" "$root$extension"
    build_deb "$name" "$root" "Section: database" \
        "Depends: postgresql-$version, $(shared_libraries "$work/pg_anker.so" "$work/pg_anker_engine")" \
        "Description: fast analytic queries on a live PostgreSQL $version" \
        " pg_anker keeps a memory-resident columnar mirror of the tables you choose, and" \
        " follows them by logical decoding inside the server. A separate engine process" \
        " answers queries from a snapshot of the mirror, with exactly the rows, types and" \
        " errors that PostgreSQL itself would have returned at that moment." \
        " ." \
        " The server must be configured and restarted before the extension can be used:" \
        " shared_preload_libraries = 'pg_anker' and wal_level = logical. After an upgrade" \
        " of this package, queries run without the engine until the server is restarted."
    build_deb "$name-dbgsym" "$debug" "Section: debug" "Depends: $name (= $(release_version)-$revision)" \
        "Description: debug symbols for $name" \
        " Line tables, with which debuggers and profilers name the lines of pg_anker."
}

# The package with the demo's program, which is the same for all versions of PostgreSQL.
make_demo_package() {
    local root=$work/demo wanted
    split "$built/pg_anker_demo" "$work/demo.stripped" "$work/demo.debug"
    install -D -m 755 "$work/demo.stripped" "$root/usr/bin/pg_anker_demo"
    wanted=$(printf ' | postgresql-%s-pg-anker' "${supported_versions[@]}")
    build_deb pg-anker-demo "$root" "Section: database" "Depends: ${wanted# | }, $(shared_libraries "$root/usr/bin/pg_anker_demo")" \
        "Description: demo of pg_anker on a private PostgreSQL" \
        " The command pg_anker_demo runs transactions and analytic queries side by side on" \
        " a private server, compares heap and mirror, and removes all of it."
}

# The files of an image that CloudNativePG mounts into PostgreSQL 18: libraries in lib, control file and SQL in
# share/extension.
make_image_files() {
    local tree=$out/extension-image-18
    rm -rf "$tree"
    place "$work/pg_anker.so" "$work/pg_anker_engine" "$tree/lib" "$tree/share/extension"
    install -D -m 644 "$project/LICENSE" "$tree/licenses/LICENSE"
    install -m 644 "$work/third-party" "$tree/licenses/third-party"
}
