# Links the CPython guest once more, with numpy, pandas and matplotlib.
# shellcheck shell=bash

link_data() {
    step data-link "$(own_sources_hash) $(<"$STAMPS/link") $(<"$STAMPS/data-pandas") $(<"$STAMPS/data-plots") $(hash_of "$DATA_GUEST_DIR"/{blas,kernels,shim,include} "$DATA_RECIPE_DIR"/{link.sh,extensions.py})" \
        do_link_data "$DATA_OUT/python-data.wasm"
}

# A `python` command with the same modules and those that only the packages' tests use.
link_data_command() {
    step data-command "$(<"$STAMPS/data-link")" do_link_data_command "$DATA_BUILD/command.wasm"
}

do_link_data_command() {
    data_objects with-tests "$DATA_BUILD/objects/command"
    compile_own profiled data-command "-I$DATA_BUILD/objects/command" "-isystem$DATA_GUEST_DIR/include" \
        "$RECIPE_DIR/pgo/command.c" "$PYTHON_GUEST_DIR"/modules/*.c "$DATA_GUEST_DIR"/shim/*.c
    link_objects profiled data-command "$1" "${DATA_LINK[@]}"
}

do_link_data() {
    local out=$1
    data_objects without-tests "$DATA_BUILD/objects/guest"
    compile_own profiled data "-I$DATA_BUILD/objects/guest" "-isystem$DATA_GUEST_DIR/include" \
        "$PYTHON_GUEST_DIR"/shim/*.c "$PYTHON_GUEST_DIR"/modules/*.c "$DATA_GUEST_DIR"/shim/*.c
    link_objects profiled data "$out.unstripped" -mexec-model=reactor -Wl,--export=__stack_pointer "${DATA_LINK[@]}"
    "$TOOLS/llvm-strip" --strip-all -o "$out" "$out.unstripped"
    mv "$out.unstripped" "$DATA_BUILD/"
    chmod 644 "$out"
}

# data_objects with-tests|without-tests FOLDER: what both are linked with besides the CPython guest
# itself, as linker arguments in DATA_LINK.
data_objects() {
    local tests=$1 objects=$2 file projects=()
    rm -rf "$objects"
    mkdir -p "$objects"
    for file in numpy pandas plots; do projects+=("$DATA_BUILD/$file=$DATA_STAGE/$file/site"); done
    "$NATIVE/python" -I -B "$DATA_RECIPE_DIR/extensions.py" "$objects" "$tests" "${projects[@]}"
    compile_exceptions "$objects"
    "$DATA_BUILD/bin/wasi-cc" -O3 -mrelaxed-simd -c "$DATA_GUEST_DIR/blas/blas.c" -o "$objects/blas.o"
    for file in "$DATA_GUEST_DIR"/kernels/*.c; do
        "$DATA_BUILD/bin/wasi-cc" -O3 -mrelaxed-simd -c "$file" -o "$objects/$(basename "$file" .c).o"
    done
    # numpy prints and reads long double, which wasi-libc does only with a library of its own.
    DATA_LINK=("$objects"/*.o "@$objects/archives" "-L$DATA_CXX/usr/lib/wasm32-wasi" -lc++ -lc++abi -lsetjmp -lc-printscan-long-double)
}

# compile_exceptions FOLDER: what Debian's C++ library for WASI leaves out, from the newer one that zig carries.
compile_exceptions() {
    local file zig=$DATA_TOOLS/ziglang/lib
    local flags=(-O2 -DNDEBUG "-I$zig/libunwind/include")
    for file in cxa_exception cxa_personality; do
        "$DATA_BUILD/bin/wasi-throwing-c++" "${flags[@]}" -std=c++23 -D_LIBCXXABI_BUILDING_LIBRARY -D_LIBCPP_BUILDING_LIBRARY -DLIBCXX_BUILDING_LIBCXXABI \
            -D_LIBCXXABI_HAS_NO_THREADS "-I$zig/libcxxabi/src" "-I$zig/libcxxabi/include" "-I$zig/libcxx/src" -c "$zig/libcxxabi/src/$file.cpp" -o "$1/$file.o"
    done
    "$DATA_BUILD/bin/wasi-throwing-cc" "${flags[@]}" -std=c23 -D_LIBUNWIND_HIDE_SYMBOLS "-I$zig/libunwind/src" -c "$zig/libunwind/src/Unwind-wasm.c" -o "$1/unwind.o"
    "$DATA_BUILD/bin/wasi-throwing-cc" -c "$DATA_GUEST_DIR/shim/exception_tag.s" -o "$1/exception_tag.o"
    "$DATA_BUILD/bin/wasi-throwing-c++" "${flags[@]}" -std=c++17 -c "$DATA_GUEST_DIR/shim/exceptions.cpp" -o "$1/exceptions.o"
}
