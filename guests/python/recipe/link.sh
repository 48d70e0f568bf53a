# Links shim, modules, CPython and libraries into one reactor module.
# shellcheck shell=bash

# The shadow stack stands first in memory, so that overflowing it traps instead of
# running into data. 4 MiB matches CPython's recursion limits for WASI.
SHADOW_STACK=$((4 * 1024 * 1024))
# All of CPython as one object; only a profiled build has it (pgo.sh).
WHOLE_PROGRAM=python-whole.o
GUEST_CFLAGS=(-O3 -DNDEBUG -DPy_BUILD_CORE=1 -std=c11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-macro-redefined
    -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_MMAN)

# Everything of ours that a link depends on, for step keys.
own_sources_hash() { hash_of "$GUESTS_DIR/abi.h" "$PYTHON_GUEST_DIR"/{shim,modules} "$RECIPE_DIR/link.sh"; }

# link_guest CROSS OUT: the reactor that is shipped, against the build in $BUILD_DIR/CROSS.
link_guest() {
    local cross=$1 out=$2
    compile_own "$cross" reactor "$PYTHON_GUEST_DIR"/shim/*.c "$PYTHON_GUEST_DIR"/modules/*.c
    link_objects "$cross" reactor "$out.unstripped" -mexec-model=reactor -Wl,--export=__stack_pointer
    # Exports, imports and data stay; names and the linker's notes go.
    "$TOOLS/llvm-strip" --strip-all -o "$out" "$out.unstripped"
    mv "$out.unstripped" "$BUILD_DIR/$cross/"
    chmod 644 "$out"
}

# link_command CROSS OUT [FLAG-OR-OBJECT…]: a `python` command for training, checks and benchmarks.
link_command() {
    local cross=$1 out=$2
    shift 2
    compile_own "$cross" command "$@" "$RECIPE_DIR"/pgo/command.c "$PYTHON_GUEST_DIR"/modules/*.c
    link_objects "$cross" command "$out" "$@"
}

# compile_own CROSS KIND FLAGS-AND-FILES…: compiles our C files into guest-objects/CROSS-KIND.
compile_own() {
    local objects=$BUILD_DIR/guest-objects/$1-$2 cross=$1 argument flags=()
    shift 2
    rm -rf "$objects"
    mkdir -p "$objects"
    for argument in "$@"; do
        case $argument in
            *.c) ;;
            *.o) continue ;; # for the linker only
            *) flags+=("$argument") && continue ;;
        esac
        # Our sources lie outside $BUILD_DIR, so they need a prefix map of their own.
        "$TOOLS/wasi-clang" "${GUEST_CFLAGS[@]}" -ffile-prefix-map="$GUESTS_DIR"=/belljar \
            -I"$GUESTS_DIR" -I"$CPYTHON_SRC/Include" -I"$CPYTHON_SRC/Include/internal" -I"$BUILD_DIR/$cross" \
            -I"$CPYTHON_SRC/Modules/_hacl" -I"$CPYTHON_SRC/Modules/_hacl/include" \
            ${flags[@]+"${flags[@]}"} -c "$argument" -o "$objects/$(basename "$(dirname "$argument")")-$(basename "$argument" .c).o"
    done
}

# link_objects CROSS KIND OUT FLAG…
link_objects() {
    local cross=$1 kind=$2 out=$3
    shift 3
    local cpython=("libpython$CPYTHON_SERIES.a" "${STATIC_LIBRARIES[@]}")
    [[ -f $BUILD_DIR/$cross/$WHOLE_PROGRAM ]] && cpython=("$WHOLE_PROGRAM")
    "$TOOLS/wasi-clang" -O3 -Wl,-z,stack-size=$SHADOW_STACK -Wl,--stack-first -Wl,--gc-sections "$@" \
        "$BUILD_DIR/guest-objects/$cross-$kind"/*.o \
        "${cpython[@]/#/$BUILD_DIR/$cross/}" \
        -L"$DEPS/lib" -lz -lbz2 -llzma -lsqlite3 \
        -ldl -lwasi-emulated-signal -lwasi-emulated-getpid -lwasi-emulated-process-clocks -lwasi-emulated-mman -lm \
        -o "$out"
}
