# pandas for WASI, against the numpy that was just built.
# shellcheck shell=bash

# Most of pandas is glue that Cython generates; -O1 halves its size. compiler.py knows the hot files.
PANDAS_OPTIONS=(-Doptimization=1)

build_pandas() {
    step data-pandas "${PANDAS_OPTIONS[*]} $(<"$STAMPS/data-numpy") $(hash_of "$DATA_RECIPE_DIR/pandas.sh")" do_build_pandas
}

do_build_pandas() {
    write_numpy_headers
    DATA_PYTHONPATH=$DATA_BUILD/headers build_with_meson pandas "-m mesonbuild.mesonmain" "${PANDAS_OPTIONS[@]}"
}

# The build asks numpy where its headers are and Cython reads its declarations. The guest's
# numpy cannot run here, so a stand-in answers.
write_numpy_headers() {
    local package=$DATA_BUILD/headers/numpy installed=$DATA_STAGE/numpy/site/numpy
    rm -rf "$DATA_BUILD/headers"
    mkdir -p "$package/random"
    cp "$installed"/*.pxd "$package/"
    cp "$installed"/random/*.pxd "$package/random/"
    printf 'def get_include():\n    return "%s/_core/include"\n' "$installed" >"$package/__init__.py"
}
