# Paths of this recipe. Sourced after the CPython recipe's lib.sh.
# shellcheck shell=bash

DATA_GUEST_DIR=$GUESTS_DIR/python-data
DATA_RECIPE_DIR=$DATA_GUEST_DIR/recipe
DATA_LOCK_FILE=$DATA_RECIPE_DIR/inputs.lock
DATA_BUILD=$BUILD_DIR/data
DATA_DOWNLOADS=$DATA_BUILD/downloads
DATA_SOURCES=$DATA_BUILD/src
DATA_TOOLS=$DATA_BUILD/tools
DATA_CXX=$DATA_BUILD/cxx
DATA_STAGE=$DATA_BUILD/stage
DATA_OUT=$OUT/python-data
# The headers of the CPython that all this is compiled against and linked with.
DATA_CROSS=$BUILD_DIR/profiled
mkdir -p "$DATA_DOWNLOADS" "$DATA_SOURCES" "$DATA_OUT"

# shellcheck source=versions.sh
. "$DATA_RECIPE_DIR/versions.sh"

# data_input PATTERN: the one download that a shell pattern stands for.
data_input() { DOWNLOADS=$DATA_DOWNLOADS input "$1"; }

# wheel_pattern NAME==VERSION: wheels write a hyphen in a name as an underscore.
wheel_pattern() {
    local name=${1%%==*}
    printf '%s-%s-*.whl' "${name//-/_}" "${1##*==}"
}

# The native CPython with the build tools, and with nothing from this machine.
build_python() {
    PYTHONPATH=${DATA_PYTHONPATH:+$DATA_PYTHONPATH:}$DATA_TOOLS PATH=$DATA_BUILD/bin:$DATA_TOOLS/bin:$PATH PYTHONDONTWRITEBYTECODE=1 "$@"
}
