# Every version the recipe pins, in one place. After a change run `build.sh --lock`.
# shellcheck shell=bash disable=SC2034

# Source packages, "name version". The exact files and their sha256 are in inputs.lock.
CPYTHON_VERSION=3.13.15
CPYTHON_SERIES=3.13
SOURCE_PACKAGES=(
    "python3.13 3.13.15-1"
    "zlib 1:1.3.dfsg+really1.3.2-3"
    "bzip2 1.0.8-6"
    "xz-utils 5.8.3-1"
)

# Binary packages, unpacked into a folder and never installed.
LLVM_MAJOR=19
LLVM_PACKAGE_VERSION=1:19.1.7-3~deb12u1
WASI_LIBC_VERSION=0.0~git20241209.574b88d-2
TOOLCHAIN_PACKAGES=(
    "clang-19 $LLVM_PACKAGE_VERSION"
    "libclang-cpp19 $LLVM_PACKAGE_VERSION"
    "libclang-common-19-dev $LLVM_PACKAGE_VERSION"
    "libllvm19 $LLVM_PACKAGE_VERSION"
    "lld-19 $LLVM_PACKAGE_VERSION"
    "llvm-19 $LLVM_PACKAGE_VERSION"
    "libclang-rt-19-dev-wasm32 $LLVM_PACKAGE_VERSION"
    "wasi-libc $WASI_LIBC_VERSION"
    # Shared libraries that libLLVM needs and that a small Debian 12 may lack.
    "libedit2 3.1-20221030-2"
    "libbsd0 0.11.7-2"
    "libmd0 1.0.4-2"
    "libz3-4 4.8.12-3.1"
    "libxml2 2.9.14+dfsg-1.3~deb12u6"
    "libicu72 72.1-3+deb12u1"
    "libffi8 3.4.4-1"
)

# From the Rust and Python package registries that cargo and pip are set up for.
LIBSQLITE3_SYS_VERSION=0.39.1   # carries the SQLite amalgamation
MINICOV_VERSION=0.3.7           # carries LLVM's profile runtime (raw version 10, as clang 19)
TZDATA_VERSION=2026.6
# Only for --train and --check, never part of the result, and so not in inputs.lock.
WASMTIME_PY_VERSION=48.0.0
WASMTIME_PY_SHA256=58544d539053dff7bd4cf30c40d7a540862d683013c0dfa6ba46a063f5b682f7
