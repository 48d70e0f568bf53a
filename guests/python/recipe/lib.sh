# Shared by every step: paths, messages, stamps, locked inputs.
# shellcheck shell=bash

RECIPE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PYTHON_GUEST_DIR=$(dirname "$RECIPE_DIR")
GUESTS_DIR=$(dirname "$PYTHON_GUEST_DIR")
BUILD_DIR=${BUILD_DIR:-$GUESTS_DIR/build}
mkdir -p "$BUILD_DIR"
BUILD_DIR=$(cd "$BUILD_DIR" && pwd)

# shellcheck source=versions.sh
. "$RECIPE_DIR/versions.sh"

LOCK_FILE=$RECIPE_DIR/inputs.lock
DOWNLOADS=$BUILD_DIR/downloads
STAMPS=$BUILD_DIR/stamps
LOGS=$BUILD_DIR/logs
OUT=$BUILD_DIR/out
TOOLCHAIN=$BUILD_DIR/toolchain
TOOLS=$BUILD_DIR/bin
SOURCES=$BUILD_DIR/src
CPYTHON_SRC=$SOURCES/cpython
NATIVE=$BUILD_DIR/native
DEPS=$BUILD_DIR/deps
JOBS=${JOBS:-$(nproc)}
mkdir -p "$DOWNLOADS" "$STAMPS" "$LOGS" "$OUT" "$TOOLS" "$SOURCES"

# Nothing in the result may depend on when, where or by whom it was built.
export SOURCE_DATE_EPOCH=1767225600   # 2026-01-01T00:00:00Z
export PYTHONHASHSEED=0
export LC_ALL=C.UTF-8 TZ=UTC
unset CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS MAKEFLAGS CONFIG_SITE PYTHONPATH PYTHONHOME PYTHONOPTIMIZE
umask 022

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() {
    printf 'build.sh: error: %s\n' "$*" >&2
    exit 1
}

# step NAME KEY COMMAND…: runs COMMAND unless it already ran to its end with the same KEY.
# KEY is what the step depends on (versions, flags, hashes); COMMAND logs to logs/NAME.log.
step() {
    local name=$1 key=$2 began
    shift 2
    if [[ -f $STAMPS/$name && $(<"$STAMPS/$name") == "$key" ]]; then
        return
    fi
    say "$name"
    began=$SECONDS
    # A subshell with its own `set -e`: a function called as a condition would lose it.
    local status=0
    set +e
    (
        set -euo pipefail
        "$@"
    ) >"$LOGS/$name.log" 2>&1
    status=$?
    set -e
    if ((status != 0)); then
        tail -n 40 "$LOGS/$name.log" >&2
        die "step '$name' failed; the whole log is $LOGS/$name.log"
    fi
    printf '%s' "$key" >"$STAMPS/$name"
    say "$name: done in $((SECONDS - began)) s"
}

# One hash over files and/or folders, for step keys.
hash_of() {
    find "$@" -type f ! -name '*.profdata.tmp' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sed "s#$GUESTS_DIR/##" | sha256sum | cut -d' ' -f1
}

# The locked name of the file that a shell pattern stands for.
input() {
    local matches=("$DOWNLOADS"/$1)
    [[ ${#matches[@]} -eq 1 && -f ${matches[0]} ]] || die "expected exactly one download matching '$1', found: ${matches[*]}"
    printf '%s' "${matches[0]}"
}

all_inputs_present() {
    [[ -s $LOCK_FILE ]] && (cd "$DOWNLOADS" && grep -v '^#' "$LOCK_FILE" | sha256sum --check --status --strict 2>/dev/null)
}

check_inputs() {
    [[ -s $LOCK_FILE ]] || die "$LOCK_FILE is missing: run build.sh --lock once and commit the result"
    local sum name bad=0
    while read -r sum name; do
        [[ $sum == \#* ]] && continue
        if [[ ! -f $DOWNLOADS/$name ]]; then
            printf 'missing input: %s\n' "$name" >&2
            bad=1
        elif [[ $(sha256sum "$DOWNLOADS/$name" | cut -d' ' -f1) != "$sum" ]]; then
            printf 'sha256 mismatch: %s\n  locked %s\n  found  %s\n' "$name" "$sum" "$(sha256sum "$DOWNLOADS/$name" | cut -d' ' -f1)" >&2
            bad=1
        fi
    done <"$LOCK_FILE"
    ((bad == 0)) || die "the downloads do not match $LOCK_FILE; if the change is wanted, run build.sh --lock and review the difference"
}

write_lock() {
    {
        echo "# sha256 of every file this recipe downloads. Written by build.sh --lock; checked by every build."
        (cd "$DOWNLOADS" && find . -maxdepth 1 -type f -printf '%f\n' | LC_ALL=C sort | xargs sha256sum)
    } >"$LOCK_FILE"
    say "wrote $LOCK_FILE"
}
