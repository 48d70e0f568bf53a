#!/usr/bin/env bash
# Builds the QuickJS guest into guests/build/out/javascript/: javascript.wasm, build-info.json, licences/.
#
#   build.sh           build what is not built yet
#   build.sh --lock    download QuickJS afresh and rewrite recipe/inputs.lock
#
# BUILD_DIR chooses another folder than guests/build. Needs Debian 12 on x86-64 with python3 and
# cargo. Reads the network, writes only into BUILD_DIR (and, when told to, recipe/), installs
# nothing. The toolchain is the CPython guest's, and so is the recipe for it.
set -euo pipefail

JAVASCRIPT_GUEST_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
JAVASCRIPT_RECIPE_DIR=$JAVASCRIPT_GUEST_DIR/recipe
. "$JAVASCRIPT_GUEST_DIR/../python/recipe/lib.sh"
. "$RECIPE_DIR/sources.sh"
. "$RECIPE_DIR/toolchain.sh"
. "$JAVASCRIPT_RECIPE_DIR/versions.sh"
. "$JAVASCRIPT_RECIPE_DIR/inputs.sh"
. "$JAVASCRIPT_RECIPE_DIR/quickjs.sh"

main() {
    check_machine
    case ${1:-build} in
        --lock) relock_quickjs ;;
        build) build ;;
        *) die "unknown argument '$1'; see the head of $0" ;;
    esac
}

check_machine() {
    local tool missing=()
    for tool in python3 cargo apt-get apt-config apt-cache dpkg tar xz sha256sum; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    ((${#missing[@]} == 0)) || die "missing on this machine: ${missing[*]}"
    [[ $(uname -m) == x86_64 ]] || die "the locked toolchain is for x86-64, this machine is $(uname -m)"
}

build() {
    download_guest_inputs
    unpack_toolchain
    unpack_quickjs
    build_quickjs
    describe_quickjs_build
    say "ready in $QUICKJS_OUT: $(cd "$QUICKJS_OUT" && sha256sum javascript.wasm)"
}

main "$@"
