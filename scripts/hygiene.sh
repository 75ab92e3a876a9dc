# Checks of ./test that need no build: shell scripts, and spelling. Both programs work offline.

hygiene_packages=(shellcheck codespell)

# Each script that can be run, with the files that it sources: whether a variable is known depends on the script.
lint_scripts() {
    local file scripts=() sourced=()
    while IFS= read -r -d '' file; do
        case $(head -c 40 "$file" | tr -d '\0' | head -n 1) in
        '#!'*sh) scripts+=("$file") ;;
        *) [[ $file != kernel-patch/guest/* ]] || sourced+=("$file") ;;
        esac
    done < <(git ls-files -z)
    shellcheck --external-sources --check-sourced --source-path=SCRIPTDIR:. "${scripts[@]}" &&
        # The guest's init sources them. ShellCheck does not know what the shell of busybox has that dash lacks.
        shellcheck --shell=dash --exclude=SC1091,SC2154,SC2162,SC3045 "${sourced[@]}"
}

# Our own words that look like misspelt ones: a crate, names in PostgreSQL's source, a conference.
check_spelling() {
    git ls-files -z | grep -zvE '\.(svg|gz|html|patch)$|^Cargo\.lock$|^expected/' |
        xargs -0 codespell --ignore-words-list=crate,atleast,upto,larg,inh,infinit,damon,pres,debians
}
