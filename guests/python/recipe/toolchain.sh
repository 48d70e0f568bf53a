# clang, lld and wasi-libc, unpacked from Debian packages into $TOOLCHAIN, with wrappers in $TOOLS.
# shellcheck shell=bash

TARGET=wasm32-wasip1

unpack_toolchain() {
    step toolchain "$(hash_of "$LOCK_FILE" "$RECIPE_DIR/toolchain.sh") $BUILD_DIR" do_unpack_toolchain
}

do_unpack_toolchain() {
    rm -rf "$TOOLCHAIN" "$TOOLS"
    mkdir -p "$TOOLCHAIN" "$TOOLS"
    local deb
    for deb in "$DOWNLOADS"/*.deb; do
        dpkg -x "$deb" "$TOOLCHAIN"
    done
    link_builtins
    local tool
    for tool in llvm-ar llvm-ranlib llvm-nm llvm-strip llvm-objcopy llvm-profdata llvm-readobj wasm-ld; do
        write_wrapper "$tool" "\$LLVM/bin/$tool \"\$@\""
    done
    # clang looks for its linker beside itself and on PATH; the wrapper makes it find ours,
    # with the library path that ours needs.
    write_wrapper "wasm-ld-$LLVM_MAJOR" "\$LLVM/bin/wasm-ld \"\$@\""
    # The prefix maps keep build paths out of __FILE__, assertions and debug data.
    write_wrapper wasi-clang "\$LLVM/bin/clang --target=$TARGET --sysroot=\$ROOT/usr -ffile-prefix-map=\$BUILD=/build -no-canonical-prefixes \"\$@\""
    printf 'int main(void) { return 0; }\n' | "$TOOLS/wasi-clang" -x c - -o "$BUILD_DIR/toolchain-check.wasm"
    rm "$BUILD_DIR/toolchain-check.wasm"
}

# Debian puts compiler-rt's builtins where clang looks for "wasi", not for "wasip1".
link_builtins() {
    local found lib=$TOOLCHAIN/usr/lib/llvm-$LLVM_MAJOR/lib/clang/$LLVM_MAJOR/lib triple
    found=$(find "$TOOLCHAIN" -name 'libclang_rt.builtins*wasm32*.a' | head -n 1)
    [[ -n $found ]] || die "libclang-rt for wasm32 is not where it was expected"
    for triple in "$TARGET" wasm32-unknown-wasip1; do
        mkdir -p "$lib/$triple"
        ln -sf "$found" "$lib/$triple/libclang_rt.builtins.a"
    done
}

write_wrapper() {
    cat >"$TOOLS/$1" <<WRAPPER
#!/bin/sh
BUILD='$BUILD_DIR'
ROOT=\$BUILD/toolchain
LLVM=\$ROOT/usr/lib/llvm-$LLVM_MAJOR
export LD_LIBRARY_PATH=\$LLVM/lib:\$ROOT/usr/lib/x86_64-linux-gnu
export PATH=\$BUILD/bin:\$PATH
exec $2
WRAPPER
    chmod +x "$TOOLS/$1"
}
