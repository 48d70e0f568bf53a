# A CPython of the same version for this machine: it drives the cross build and compiles
# the standard library. It is never shipped, so it is built quickly rather than well.
# shellcheck shell=bash

build_native_python() {
    step native-python "$(sources_key) $(hash_of "$RECIPE_DIR/native.sh") $BUILD_DIR" do_build_native_python
}

do_build_native_python() {
    rm -rf "$NATIVE"
    mkdir -p "$NATIVE"
    cd "$NATIVE"
    "$CPYTHON_SRC/configure" --quiet --with-ensurepip=no --disable-test-modules OPT="-DNDEBUG -O1"
    make -j"$JOBS" --silent all
    ./python -c 'import math, binascii, _struct'
}
