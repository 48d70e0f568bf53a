# The C libraries that CPython's extension modules use, cross-compiled into $DEPS.
# shellcheck shell=bash

LIBRARY_CFLAGS="-O3 -DNDEBUG -ffunction-sections -fdata-sections"

build_dependencies() {
    step dependencies "$(hash_of "$LOCK_FILE" "$RECIPE_DIR"/{dependencies.sh,sqlite_locks.c,toolchain.sh}) $BUILD_DIR" do_build_dependencies
}

do_build_dependencies() {
    rm -rf "$DEPS" "$BUILD_DIR/deps-objects"
    mkdir -p "$DEPS/include" "$DEPS/lib"
    build_zlib
    build_bzip2
    build_lzma
    build_sqlite
}

# archive NAME FLAGS FILE…: compiles the files and puts them into lib/libNAME.a.
archive() {
    local name=$1 flags=$2 file objects=()
    shift 2
    mkdir -p "$BUILD_DIR/deps-objects/$name"
    cd "$BUILD_DIR/deps-objects/$name"
    for file in "$@"; do
        # shellcheck disable=SC2086 # flags are words
        "$TOOLS/wasi-clang" $LIBRARY_CFLAGS $flags -c "$file" -o "$(basename "$file" .c).o"
        objects+=("$(basename "$file" .c).o")
    done
    # "D": no dates, owners or modes in the archive.
    "$TOOLS/llvm-ar" rcsD "$DEPS/lib/lib$name.a" "${objects[@]}"
}

build_zlib() {
    local src=$SOURCES/zlib
    archive z "-DHAVE_HIDDEN -DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=0" \
        "$src"/{adler32,compress,crc32,deflate,gzclose,gzlib,gzread,gzwrite,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c
    cp "$src/zlib.h" "$src/zconf.h" "$DEPS/include/"
}

build_bzip2() {
    local src=$SOURCES/bzip2
    archive bz2 "" "$src"/{blocksort,bzlib,compress,crctable,decompress,huffman,randtable}.c
    cp "$src/bzlib.h" "$DEPS/include/"
}

build_lzma() {
    local build=$BUILD_DIR/deps-objects/lzma
    mkdir -p "$build"
    cd "$build"
    # Only liblzma: every program, script and translation is switched off.
    ../../src/xz/configure --quiet --host=wasm32-wasi --prefix="$DEPS" --disable-shared --enable-static \
        --disable-threads --disable-nls --disable-doc --disable-scripts --disable-xz --disable-xzdec \
        --disable-lzmadec --disable-lzmainfo --disable-lzma-links --enable-sandbox=no \
        CC="$TOOLS/wasi-clang" AR="$TOOLS/llvm-ar" RANLIB="$TOOLS/llvm-ranlib" NM="$TOOLS/llvm-nm" ARFLAGS=crD CFLAGS="$LIBRARY_CFLAGS"
    make -j"$JOBS" --silent -C src/liblzma install
}

build_sqlite() {
    local src=$SOURCES/libsqlite3-sys/sqlite3
    # Ordinary locking, with sqlite_locks.c in the place of fcntl: see there.
    local locks="-DF_RDLCK=0 -DF_WRLCK=1 -DF_UNLCK=2 -DF_GETLK=12 -DF_SETLK=13 -DF_SETLKW=14"
    locks+=' -DSQLITE_DEFAULT_UNIX_VFS="unix"'
    # One thread and no shared libraries in a guest. Temporary tables stay in memory, since a
    # guest may have no writable folder. The rest is what Debian's sqlite3 offers.
    archive sqlite3 "-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_TEMP_STORE=2 \
        -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS3 \
        -DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS3_TOKENIZER -DSQLITE_ENABLE_FTS4 \
        -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_RTREE \
        -DSQLITE_MAX_VARIABLE_NUMBER=250000 \
        -DLONGDOUBLE_TYPE=double -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_GETPID \
        -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_PROCESS_CLOCKS $locks -Dfcntl=belljar_sqlite_fcntl" "$src/sqlite3.c"
    archive sqlite3 "$locks" "$RECIPE_DIR/sqlite_locks.c"
    cp "$src/sqlite3.h" "$src/sqlite3ext.h" "$DEPS/include/"
}
