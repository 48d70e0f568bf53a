"""The compiler that meson is given for numpy and pandas. The recipe fills in the paths.

    compiler.py cc|c++|throwing-cc|throwing-c++ ARGUMENT…

The throwing ones are for matplotlib and what it stands on: C++ that throws, and C that jumps.

A guest has no shared libraries. So where meson links an extension module, this makes an archive
of its objects, which the recipe links into the guest as a built-in module.
"""

import os
import shlex
import sys

TOOLS, CXX, INCLUDE, GUESTS = "@TOOLS@", "@CXX@", "@INCLUDE@", "@GUESTS@"
CROSS, CPYTHON = "@CROSS@", "@CPYTHON@"
TOOLCHAIN, BUILD = "@TOOLCHAIN@", "@BUILD@"

# Meant for the loader and the linker of an ordinary system.
DROPPED = {
    "-fPIC", "-pthread", "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", "-Wl,-O1", "-Wl,--no-undefined",
    "-Wl,--start-group", "-Wl,--end-group", "-Werror=unguarded-availability-new",
}  # fmt: skip
FLAGS = [
    "-msimd128", "-mnontrapping-fptoint", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_PROCESS_CLOCKS", "-D_WASI_EMULATED_MMAN",
    f"-ffile-prefix-map={GUESTS}=/belljar",
    # Before any other: the headers of the guest's CPython, not of this machine's.
    f"-I{CROSS}", f"-I{CPYTHON}/Include",
    # Before the C library's, for fenv.h; after libc++'s, which wraps it.
    f"-isystem{INCLUDE}",
]  # fmt: skip
CXX_FLAGS = ["-nostdinc++", f"-isystem{CXX}/usr/lib/llvm-19/include/wasm32-wasi/c++/v1"]
# Small and fast, and nothing in there is to be caught: see shim/exceptions.cpp.
NOT_THROWING = ["-fignore-exceptions"]
# As the CPython recipe's wasi-clang, with another clang: 19 writes exceptions only in a form that
# WebAssembly has given up.
THROWING = [
    f"{BUILD}/tools/ziglang/zig", "clang", "--target=wasm32-wasip1", f"--sysroot={TOOLCHAIN}/usr", "-resource-dir", f"{BUILD}/clang",
    "-no-canonical-prefixes", "-fwasm-exceptions", "-mllvm", "-wasm-use-legacy-eh=false", "-mllvm", "-wasm-enable-sjlj",
    # Of all that could be said of other people's code, what would trap: a call through a pointer of another type.
    "-Wno-everything", "-Werror=cast-function-type-mismatch",
]  # fmt: skip
# Where pandas spends its time. The rest of it is glue, which -O1 (recipe/pandas.sh) keeps small.
HOT = {"algos", "groupby", "hashtable", "join", "lib", "parsers", "tokenizer", "ultrajsondec", "ultrajsonenc", "aggregations"}


def main(language, *arguments):
    arguments = list(expanded(arguments))
    if any(a.endswith(".c") and os.path.basename(a).partition(".")[0] in HOT for a in arguments):
        arguments = ["-O2" if a == "-O1" else a for a in arguments]
    if "-shared" in arguments:
        return archive(arguments)
    throwing = language.startswith("throwing-")
    flags = list(FLAGS)
    if language.endswith("c++"):
        flags = CXX_FLAGS + flags + ["--driver-mode=g++"] + ([] if throwing else NOT_THROWING)
        if "-c" not in arguments:
            flags += [f"-L{CXX}/usr/lib/wasm32-wasi"]
    if "-DNP_RANDOM_LEGACY=1" in arguments:
        flags += ["-include", f"{INCLUDE}/legacy_random.h"]
    if any("pandas_datetime.cpython" in argument for argument in arguments):
        flags += ["-include", f"{INCLUDE}/pandas_datetime.h"]
    program = THROWING if throwing else [f"{TOOLS}/wasi-clang"]
    run(*program, *flags, *(a for a in arguments if a not in DROPPED))


def expanded(arguments):
    """Response files, written out."""
    for argument in arguments:
        if argument.startswith("@") and os.path.exists(argument[1:]):
            yield from shlex.split(open(argument[1:]).read())
        else:
            yield argument


def archive(arguments):
    out = arguments[arguments.index("-o") + 1]
    if os.path.exists(out):
        os.unlink(out)
    # Libraries of the project itself, which the guest is linked with as well.
    with open(f"{out}.libs", "w") as libraries:
        libraries.writelines(f"{os.path.abspath(a)}\n" for a in arguments if a.endswith(".a"))
    run(f"{TOOLS}/llvm-ar", "crsD", out, *(a for a in arguments if a.endswith(".o")))


def run(*command):
    os.execv(command[0], command)


main(*sys.argv[1:])
