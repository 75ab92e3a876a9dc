# Packages and sources out of Debian's archive, of this release or another, without touching the system's apt.

# apt with a source list and state of its own below `apt`.
own_apt() {
    local command=$1
    shift
    "$command" -q -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Acquire::Languages=none \
        -o APT::Sandbox::User= "$@"
}

installed_release() { (. /etc/os-release && printf '%s' "$VERSION_CODENAME"); }

# Lines of mirror and suite. Other releases come from the same place as this system's Debian.
debian_suites() {
    local installed
    installed=$(installed_release)
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$installed" '($2 == release || index($2, release "-") == 1) && $3 == "main" { print $1, $2 }' |
        sort -u
}

# from_debian deb|deb-src RELEASE DIRECTORY ARGUMENTS...: apt-get with these arguments, run in the directory. Suites are
# asked one after the other: not every mirror has all of them, or their sources.
from_debian() {
    local type=$1 release=$2 directory=$3 apt=$3/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    local installed mirror suite
    shift 3
    installed=$(installed_release)
    mkdir -p "$apt"/{lists,cache/archives}/partial
    while read -r mirror suite; do
        printf '%s [signed-by=%s] %s %s main\n' "$type" "$keyring" "$mirror" "${suite/#$installed/$release}" >"$apt/sources.list"
        if own_apt apt-get update &>>"$apt/log" && (cd "$directory" && own_apt apt-get "$@") &>>"$apt/log"; then
            rm -r "$apt"
            return
        fi
    done < <(debian_suites)
    cat "$apt/log" >&2
    die "Debian $release from this system's mirrors: apt-get $* did not work."
}
