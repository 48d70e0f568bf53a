# numpy for WASI: its extension modules as archives, its Python files in the stage.
# shellcheck shell=bash

# No run-time dispatch: there is one target. The universal intrinsics of numpy do not know
# WebAssembly; clang vectorises plain loops, and ../blas sees to matrix products.
NUMPY_OPTIONS=(
    -Doptimization=2
    # The meter looks at every turn of a loop: fewer turns, less of that.
    -Dc_args=-funroll-loops -Dcpp_args=-funroll-loops
    -Dblas=none -Dlapack=none -Dallow-noblas=true
    -Ddisable-optimization=true -Dcpu-baseline=none -Dcpu-dispatch=none
    -Ddisable-threading=true
)

build_numpy() {
    step data-numpy "${NUMPY_OPTIONS[*]} $(<"$STAMPS/data-unpack") $(<"$STAMPS/cpython-profiled") $(hash_of "$DATA_GUEST_DIR/include" "$DATA_RECIPE_DIR"/{compiler.py,numpy.sh})" do_build_numpy
}

do_build_numpy() {
    build_with_meson numpy "$DATA_SOURCES/numpy/vendored-meson/meson/meson.py" "${NUMPY_OPTIONS[@]}"
}
