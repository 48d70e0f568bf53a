#!/usr/bin/env bash
# Builds the CPython guest with numpy, pandas and matplotlib into guests/build/out/python-data/: python-data.wasm,
# stdlib.zip, build-info.json.
#
#   build.sh           build what is not built yet; the CPython guest first
#   build.sh --lock    download every input of this recipe afresh and rewrite recipe/inputs.lock
#   build.sh --tests   build what tests/run.sh needs as well
#
# BUILD_DIR chooses another folder than guests/build, JOBS the number of compilers at once.
# Needs what guests/python/build.sh needs, and patch. Writes only into BUILD_DIR (and, when told
# to, recipe/), installs nothing.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../python/recipe/lib.sh"
. "$RECIPE_DIR/sources.sh"
. "$RECIPE_DIR/cpython.sh"
. "$RECIPE_DIR/link.sh"
. "$RECIPE_DIR/finish.sh"
. "$RECIPE_DIR/pgo.sh"
. "$GUESTS_DIR/python-data/recipe/lib.sh"
. "$DATA_RECIPE_DIR/sources.sh"
. "$DATA_RECIPE_DIR/numpy.sh"
. "$DATA_RECIPE_DIR/pandas.sh"
. "$DATA_RECIPE_DIR/plots.sh"
. "$DATA_RECIPE_DIR/link.sh"
. "$DATA_RECIPE_DIR/finish.sh"

main() {
    command -v patch >/dev/null || die "missing on this machine: patch"
    case ${1:-build} in
        --lock) relock_data ;;
        build) build_data ;;
        --tests)
            build_data
            link_data_command
            setup_runner
            ;;
        *) die "unknown argument '$1'; see the head of $0" ;;
    esac
}

build_data() {
    BUILD_DIR=$BUILD_DIR JOBS=$JOBS "$PYTHON_GUEST_DIR/build.sh"
    download_data_inputs
    check_data_inputs
    unpack_data_sources
    build_numpy
    build_pandas
    build_plots
    link_data
    finish_data
}

main "$@"
