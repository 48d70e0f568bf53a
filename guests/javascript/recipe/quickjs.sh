# Compiles QuickJS and the shim into one reactor module.
# shellcheck shell=bash

QUICKJS_SRC=$BUILD_DIR/src-quickjs
QUICKJS_OBJECTS=$BUILD_DIR/quickjs-objects
QUICKJS_OUT=$OUT/javascript

# The stack in linear memory stands first, so that overflowing it traps instead of running
# into data. JavaScript gets an error well before (shim/belljar.c).
QUICKJS_STACK=$((2 * 1024 * 1024))
QUICKJS_CFLAGS=(-O2 -flto -DNDEBUG -D_GNU_SOURCE -std=gnu11 -fvisibility=hidden
    -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_SIGNAL)
SHIM_WARNINGS=(-Wall -Wextra -Wno-unused-parameter -Wno-cast-function-type -Wno-unused-function)

unpack_quickjs() {
    step unpack-quickjs "$(hash_of "$QUICKJS_LOCK" "$JAVASCRIPT_RECIPE_DIR/patch_quickjs.py")" do_unpack_quickjs
}

do_unpack_quickjs() {
    rm -rf "$QUICKJS_SRC"
    mkdir -p "$QUICKJS_SRC"
    tar --extract --file "$(input "$QUICKJS_CRATE")" --directory "$QUICKJS_SRC" --strip-components 1 --no-same-owner
    python3 "$JAVASCRIPT_RECIPE_DIR/patch_quickjs.py" "$QUICKJS_SRC/quickjs"
}

build_quickjs() {
    step quickjs "$(hash_of "$JAVASCRIPT_GUEST_DIR/shim" "$GUESTS_DIR/abi.h" "$JAVASCRIPT_RECIPE_DIR/quickjs.sh") $(<"$STAMPS/unpack-quickjs") $(<"$STAMPS/toolchain")" do_build_quickjs
}

do_build_quickjs() {
    rm -rf "$QUICKJS_OBJECTS"
    mkdir -p "$QUICKJS_OBJECTS" "$QUICKJS_OUT"
    local file
    for file in "$QUICKJS_SRC"/quickjs/{libregexp,libunicode,dtoa}.c; do
        compile_for_guest "$file" -w &
    done
    for file in "$JAVASCRIPT_GUEST_DIR"/shim/*.c; do
        compile_for_guest "$file" "${SHIM_WARNINGS[@]}" &
    done
    wait_for_all
    "$TOOLS/wasi-clang" -O2 -flto -mexec-model=reactor -Wl,-z,stack-size=$QUICKJS_STACK -Wl,--stack-first -Wl,--gc-sections \
        -Wl,--export=__stack_pointer "$QUICKJS_OBJECTS"/*.o \
        -lwasi-emulated-process-clocks -lwasi-emulated-signal -lm -o "$QUICKJS_OBJECTS/javascript.unstripped.wasm"
    # Exports, imports and data stay; names and the linker's notes go.
    "$TOOLS/llvm-strip" --strip-all -o "$QUICKJS_OUT/javascript.wasm" "$QUICKJS_OBJECTS/javascript.unstripped.wasm"
    chmod 644 "$QUICKJS_OUT/javascript.wasm"
    if grep -aFq -e "$BUILD_DIR" -e "$GUESTS_DIR" "$QUICKJS_OUT/javascript.wasm"; then
        die "a build path is inside javascript.wasm"
    fi
}

compile_for_guest() {
    local file=$1
    shift
    "$TOOLS/wasi-clang" "${QUICKJS_CFLAGS[@]}" "$@" -ffile-prefix-map="$GUESTS_DIR"=/belljar \
        -I"$QUICKJS_SRC/quickjs" -I"$GUESTS_DIR" -I"$JAVASCRIPT_GUEST_DIR/shim" \
        -c "$file" -o "$QUICKJS_OBJECTS/$(basename "$file" .c).o"
}

wait_for_all() {
    local job failed=0
    for job in $(jobs -p); do wait "$job" || failed=1; done
    ((failed == 0)) || die "a file did not compile"
}

describe_quickjs_build() {
    python3 "$JAVASCRIPT_RECIPE_DIR/build_info.py" "$QUICKJS_SRC" "$QUICKJS_OUT" "$LOCK_FILE" "$QUICKJS_LOCK" \
        clang="$LLVM_PACKAGE_VERSION" lld="$LLVM_PACKAGE_VERSION" compiler-rt="$LLVM_PACKAGE_VERSION" \
        wasi-libc="$WASI_LIBC_VERSION"
}
