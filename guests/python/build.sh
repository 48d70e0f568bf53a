#!/usr/bin/env bash
# Builds the CPython guest into guests/build/out/: python.wasm, stdlib.zip, build-info.json.
#
#   build.sh           build what is not built yet
#   build.sh --lock    download every input afresh and rewrite recipe/inputs.lock
#   build.sh --train   collect a new profile into recipe/pgo/, then build with it
#   build.sh --check   build, then run the checks and the benchmark of recipe/pgo/
#
# BUILD_DIR chooses another folder than guests/build, JOBS the number of compilers at once.
# Needs Debian 12 on x86-64 with gcc, make, python3 (with pip) and cargo. Reads the network,
# writes only into BUILD_DIR (and, when told to, recipe/), installs nothing.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/recipe/lib.sh"
. "$RECIPE_DIR/sources.sh"
. "$RECIPE_DIR/toolchain.sh"
. "$RECIPE_DIR/native.sh"
. "$RECIPE_DIR/dependencies.sh"
. "$RECIPE_DIR/cpython.sh"
. "$RECIPE_DIR/link.sh"
. "$RECIPE_DIR/finish.sh"
. "$RECIPE_DIR/pgo.sh"

main() {
    local mode=${1:-build}
    check_machine
    case $mode in
        --lock) relock ;;
        # Not joined with &&: bash would then ignore `set -e` inside these functions.
        --train) prepare; train; build ;;
        --check) prepare; build; check ;;
        build) prepare; build ;;
        *) die "unknown argument '$mode'; see the head of $0" ;;
    esac
}

check_machine() {
    local tool missing=()
    for tool in gcc make python3 cargo apt-get apt-config apt-cache dpkg tar xz sha256sum; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    ((${#missing[@]} == 0)) || die "missing on this machine: ${missing[*]}"
    python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip module (Debian: python3-pip)"
    [[ $(uname -m) == x86_64 ]] || die "the locked toolchain is for x86-64, this machine is $(uname -m)"
    grep -q '^VERSION_ID="12"' /etc/os-release || say "warning: written for Debian 12; this is something else"
}

relock() {
    forget_inputs
    download_inputs
    write_lock
}

prepare() {
    download_inputs
    check_inputs
    unpack_sources
    unpack_toolchain
    build_native_python
    build_dependencies
}

build() {
    local cross=plain
    if [[ -f $PROFILE ]]; then
        cross=profiled
        build_profiled
    else
        cross_build plain "$PLAIN_OPT"
    fi
    step link "$cross $(own_sources_hash) $(<"$STAMPS/cpython-$cross") $(<"$STAMPS/dependencies")" link_guest "$cross" "$OUT/python.wasm"
    pack_stdlib "$cross"
    describe_build
    refuse_host_paths "$OUT/python.wasm" "$OUT/stdlib.zip"
    say "ready in $OUT: $(cd "$OUT" && sha256sum python.wasm stdlib.zip | tr '\n' ' ')"
}

main "$@"
