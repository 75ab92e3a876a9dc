# Building for a version of PostgreSQL, and putting the files where a server finds them. Shared by scripts/make and package.

# The versions that Debian has.
supported_versions=(15 17 18)

# The release's number, from Cargo.toml.
release_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$project/Cargo.toml"; }

# Builds for a version, with the headers that a pg_config names. The same packages are chosen as for the demo, so that
# their dependencies are compiled once. The next build for another version takes the library's place in $release.
build_for() {
    local version=$1 pg_config=$2 for_postgresql=()
    [[ $version == 15 ]] || for_postgresql=(--no-default-features --features "pg_anker/pg$version")
    PGRX_PG_CONFIG_PATH=$pg_config build pg_anker pg_anker_engine anker-bench
}

# place LIBRARY ENGINE PKGLIBDIR EXTENSIONDIR: puts the files of the extension into two directories, which it makes.
# Files are replaced by new ones and never written over, because running servers have mapped them.
place() {
    local library=$1 engine=$2 to=$3 extension=$4
    install -d -m 755 "$to" "$extension"
    install -m 644 "$library" "$to/pg_anker.so"
    install -m 755 "$engine" "$to/pg_anker_engine"
    install -m 644 "$project"/pgrx-config/pg_anker.control "$project"/pgrx-config/pg_anker--*.sql "$extension/"
}
