# The cross build: CPython for WASI as static libraries.
# shellcheck shell=bash

PLAIN_OPT="-DNDEBUG -O3 -Wall"
# Built beside libpython from sources that CPython carries.
STATIC_LIBRARIES=(Modules/_hacl/libHacl_Hash_SHA2.a Modules/_decimal/libmpdec/libmpdec.a Modules/expat/libexpat.a)

# cross_build NAME OPT [KEY]: configures and makes CPython in $BUILD_DIR/NAME with the given OPT
# flags. KEY stands for the contents of a file that OPT only names.
cross_build() {
    local name=$1 opt=$2 key=${3:-}
    step "cpython-$name" "$opt $key $(sources_key) $(hash_of "$RECIPE_DIR"/{cpython,toolchain}.sh) $BUILD_DIR" do_cross_build "$name" "$opt"
}

do_cross_build() {
    local name=$1 opt=$2 library
    rm -rf "${BUILD_DIR:?}/$name"
    mkdir -p "$BUILD_DIR/$name"
    cd "$BUILD_DIR/$name"
    # configure is called by a relative path because that path ends up in the result (VPATH).
    # HOSTRUNNER=true: nothing of the cross build is run while it is being built.
    local environment=(
        CONFIG_SITE="$CPYTHON_SRC/Tools/wasm/config.site-wasm32-wasi"
        HOSTRUNNER=true
        CC="$TOOLS/wasi-clang" CXX=false CPP="$TOOLS/wasi-clang -E"
        AR="$TOOLS/llvm-ar" ARFLAGS=rcsD RANLIB="$TOOLS/llvm-ranlib -D"
        PKG_CONFIG=false
        OPT="$opt"
    )
    for library in ZLIB:z BZIP2:bz2 LIBLZMA:lzma LIBSQLITE3:sqlite3; do
        environment+=("${library%:*}_CFLAGS=-I$DEPS/include" "${library%:*}_LIBS=-L$DEPS/lib -l${library#*:}")
    done
    env "${environment[@]}" ../src/cpython/configure --quiet \
        --host=wasm32-unknown-wasip1 --build=x86_64-pc-linux-gnu \
        --with-build-python="$NATIVE/python" --with-ensurepip=no --disable-test-modules \
        --with-pymalloc --prefix=/usr
    # The interpreter loop is slower with a profile than without (5 % over the benchmark). So
    # ceval.o is always built plainly, first, and make then finds it up to date.
    make -j"$JOBS" --silent OPT="$PLAIN_OPT" Python/ceval.o
    # Not "all": that would also link CPython's own python.wasm, which nobody needs and
    # which an instrumented build cannot link. pybuilddir.txt brings _sysconfigdata along.
    make -j"$JOBS" --silent "libpython$CPYTHON_SERIES.a" "${STATIC_LIBRARIES[@]}" pybuilddir.txt
}
