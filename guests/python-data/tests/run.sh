#!/usr/bin/env bash
# Runs a package's own tests in the guest: run.sh numpy|pandas|matplotlib [FILE…]
# Runs one of the scripts beside this: run.sh smoke|hostile|speed
#
# FILE is a path as in the package, such as numpy/lib/tests/test_format.py. JOBS processes run at once
# (1 unless said otherwise). Builds what is needed first; see ../build.sh.
set -euo pipefail

PACKAGE=${1:?numpy, pandas, matplotlib, smoke, hostile or speed}
shift
TEST_JOBS=${JOBS:-1}
. "$(dirname "${BASH_SOURCE[0]}")/../build.sh" --tests

rm -rf "$DATA_BUILD/test-packages"
mkdir -p "$DATA_BUILD/test-packages"
for entry in "${TEST_WHEELS[@]}" "${IMAGE_WHEELS[@]}"; do
    python3 -m zipfile -e "$(data_input "$(wheel_pattern "$entry")")" "$DATA_BUILD/test-packages"
done
cp -r "$DATA_SOURCES/pyyaml/lib/yaml" "$DATA_SOURCES/markupsafe/src/markupsafe" "$DATA_SOURCES/fonttools/Lib/fontTools" "$DATA_BUILD/test-packages/"
JOBS=$TEST_JOBS PYTHONPATH=$RUNNER python3 "$DATA_GUEST_DIR/tests/run.py" "$BUILD_DIR" "$DATA_BUILD/command.wasm" "$RECIPE_DIR/pgo/run.py" "$PACKAGE" "$@"
