# The kernel's source: Debian's package, unpacked once, and a tree beside it that carries the patches.

release=trixie
source_package=linux-source-6.12
tested_version=6.12.107

# apt with a source list and state of its own, so that the system's own stay unchanged.
own_apt() {
    local command=$1
    shift
    "$command" -q -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Acquire::Languages=none \
        -o APT::Sandbox::User= "$@"
}

# The newer release comes from the same place as this system's Debian.
debian_mirrors() {
    local installed
    installed=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$installed" '$2 == release && $3 == "main" { print $1 }' | sort -u
}

download_source() {
    local apt=$store/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror mirrors
    mirrors=$(debian_mirrors)
    [[ $mirrors ]] || die "No Debian mirror is in this system's apt sources; the kernel's source is in Debian $release."
    mkdir -p "$apt"/{lists,cache/archives}/partial
    for mirror in $mirrors; do
        printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$release" >"$apt/sources.list"
        if own_apt apt-get update >"$apt/log" 2>&1 &&
            (cd "$apt" && own_apt apt-get download "$source_package") >>"$apt/log" 2>&1; then
            mv "$apt/${source_package}"_*.deb "$store/"
            rm -r "$apt"
            return
        fi
    done
    cat "$apt/log" >&2
    die "$source_package could not be downloaded."
}

# Sets source_version, and `pristine` to the unpacked source.
fetch_source() {
    local packages=("$store/${source_package}"_*_all.deb) unpacking
    if [[ ! -e ${packages[0]} ]]; then
        step "downloading $source_package"
        download_source
        packages=("$store/${source_package}"_*_all.deb)
    fi
    source_version=${packages[-1]##*/"${source_package}"_}
    source_version=${source_version%_all.deb}
    [[ ${source_version%%-*} == "$tested_version" ]] ||
        say "Note: the source is $source_version; the patches were made for $tested_version."
    pristine=$store/source-$source_version
    if [[ ! -d $pristine ]]; then
        step "unpacking $source_package $source_version"
        unpacking=$(mktemp -d "$store/unpacking.XXXXXX")
        dpkg-deb --fsys-tarfile "${packages[-1]}" | tar -xO "./usr/src/$source_package.tar.xz" | tar -xJ -C "$unpacking"
        mv "$unpacking/$source_package" "$pristine"
        rmdir "$unpacking"
    fi
}

# patched_tree PATCH...: sets `tree` to the source with these patches. Files change only where their content
# does, so that make rebuilds no more than it must from one series to the next.
patched_tree() {
    local stage file patch
    tree=$store/tree-$source_version
    if [[ ! -d $tree ]]; then
        rm -rf "$tree.new"
        cp -al "$pristine" "$tree.new"
        mv "$tree.new" "$tree"
    fi
    touch "$store/patched-files"
    stage=$(mktemp -d "$store/stage.XXXXXX")
    sed -nE 's#^(---|\+\+\+) [ab]/([^\t]*).*#\2#p' "$@" | cat - "$store/patched-files" | sort -u >"$stage.files"
    while read -r file; do
        mkdir -p "$stage/$(dirname "$file")"
        if [[ -e $pristine/$file ]]; then cp -p "$pristine/$file" "$stage/$file"; fi
    done <"$stage.files"
    for patch in "$@"; do
        patch -d "$stage" -p1 --no-backup-if-mismatch --silent <"$patch" >&2 ||
            die "${patch##*/} does not apply to $source_version."
    done
    cp "$stage.files" "$store/patched-files"
    while read -r file; do
        if [[ ! -e $stage/$file ]]; then
            rm -f "$tree/$file"
        elif ! cmp -s "$stage/$file" "$tree/$file"; then
            mkdir -p "$tree/$(dirname "$file")"
            rm -f "$tree/$file"
            cp "$stage/$file" "$tree/$file"
        fi
    done <"$stage.files"
    rm -r "$stage" "$stage.files"
}
