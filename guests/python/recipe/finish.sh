# What goes beside python.wasm: the standard library, licences and build-info.json.
# shellcheck shell=bash

pack_stdlib() {
    local cross=$1
    step stdlib "$(hash_of "$RECIPE_DIR/stdlib.py" "$RECIPE_DIR/native.sh") $cross $(<"$STAMPS/cpython-$cross")" do_pack_stdlib "$cross" "$OUT/stdlib.zip"
}

do_pack_stdlib() {
    local cross=$BUILD_DIR/$1 out=$2
    # -I -B: the packer sees only the native build's own library and leaves no .pyc behind.
    "$NATIVE/python" -I -B "$RECIPE_DIR/stdlib.py" "$CPYTHON_SRC/Lib" "$cross/$(<"$cross/pybuilddir.txt")" \
        "$SOURCES/tzdata" "$BUILD_DIR" "$out"
}

describe_build() {
    "$NATIVE/python" -I -B "$RECIPE_DIR/build_info.py" "$CPYTHON_VERSION" "$LOCK_FILE" "$BUILD_DIR" "$OUT" \
        clang="$LLVM_PACKAGE_VERSION" lld="$LLVM_PACKAGE_VERSION" compiler-rt="$LLVM_PACKAGE_VERSION" \
        wasi-libc="$WASI_LIBC_VERSION"
}

# The module must not say where it was built.
refuse_host_paths() {
    if grep -aFq -e "$BUILD_DIR" -e "$GUESTS_DIR" "$@"; then
        die "a build path is inside one of: $*"
    fi
}
