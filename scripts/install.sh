# Putting the files of the extension where a server finds them. Shared by scripts/make and package.

# The versions that Debian has.
supported_versions=(15 17 18)

# The release's number, from Cargo.toml.
release_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$project/Cargo.toml"; }

# place LIBRARY ENGINE PKGLIBDIR EXTENSIONDIR: puts the files of the extension into two directories, which it makes.
# Files are replaced by new ones and never written over, because running servers have mapped them.
place() {
    local library=$1 engine=$2 to=$3 extension=$4
    install -d -m 755 "$to" "$extension"
    install -m 644 "$library" "$to/pg_anker.so"
    install -m 755 "$engine" "$to/pg_anker_engine"
    install -m 644 "$project"/pgrx-config/pg_anker.control "$project"/pgrx-config/pg_anker--*.sql "$extension/"
}
