# Downloads, checks and unpacks everything that is not already part of the CPython guest.
# shellcheck shell=bash

download_data_inputs() {
    LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS all_inputs_present && return
    rm -f "$STAMPS/data-download"
    step data-download "$(hash_of "$DATA_RECIPE_DIR"/{versions.sh,fetch.py,sources.sh})" do_download_data_inputs
}

do_download_data_inputs() {
    rm -f "$DATA_DOWNLOADS"/*
    python3 "$DATA_RECIPE_DIR/fetch.py" "$DATA_DOWNLOADS" sdist "numpy==$NUMPY_VERSION" "pandas==$PANDAS_VERSION" "PyYAML==$PYYAML_VERSION"
    python3 "$DATA_RECIPE_DIR/fetch.py" "$DATA_DOWNLOADS" wheel "${IMAGE_WHEELS[@]}" "${TOOL_WHEELS[@]}" "${TEST_WHEELS[@]}"
    setup_private_apt
    [[ -s $STAMPS/apt-update ]] || private_apt apt-get -q update
    cd "$DATA_DOWNLOADS"
    local entry name version
    for entry in "${CXX_PACKAGES[@]}"; do
        read -r name version <<<"$entry"
        private_apt apt-get -q download "$name=$version" || not_offered "$name" "$version"
    done
}

check_data_inputs() { LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS check_inputs; }

relock_data() {
    rm -f "$DATA_LOCK_FILE" "$STAMPS/data-download"
    download_data_inputs
    LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS write_lock
}

unpack_data_sources() {
    step data-unpack "$(hash_of "$DATA_LOCK_FILE" "$DATA_GUEST_DIR/patches" "$DATA_RECIPE_DIR"/{sources.sh,compiler.py})" do_unpack_data_sources
}

do_unpack_data_sources() {
    rm -rf "$DATA_SOURCES" "$DATA_TOOLS" "$DATA_CXX"
    mkdir -p "$DATA_SOURCES" "$DATA_TOOLS"
    unpack_sdist "numpy-$NUMPY_VERSION" numpy
    unpack_sdist "pandas-$PANDAS_VERSION" pandas
    unpack_sdist "pyyaml-$PYYAML_VERSION" pyyaml
    local deb wheel entry
    for deb in "$DATA_DOWNLOADS"/*.deb; do dpkg -x "$deb" "$DATA_CXX"; done
    for entry in "${TOOL_WHEELS[@]}"; do
        wheel=$(data_input "$(wheel_pattern "$entry")")
        python3 -m zipfile -e "$wheel" "$DATA_TOOLS"
        # Wheels keep programs in a folder of their own.
        find "$DATA_TOOLS" -path '*.data/scripts' -exec cp -r {} "$DATA_TOOLS/bin" \;
    done
    chmod -R +x "$DATA_TOOLS/bin"
    write_data_tools
}

# unpack_sdist NAME FOLDER: and applies our patches to it, in the order of their names.
unpack_sdist() {
    local into=$DATA_SOURCES/$2 patch
    mkdir -p "$into"
    tar --extract --file "$(data_input "$1.tar.gz")" --directory "$into" --strip-components 1 --no-same-owner
    for patch in "$DATA_GUEST_DIR/patches/$2"/*.patch; do
        [[ -f $patch ]] || continue
        patch --directory "$into" --strip 1 --forward --fuzz 0 --no-backup-if-mismatch <"$patch"
    done
}

# The commands that meson calls.
write_data_tools() {
    local name
    mkdir -p "$DATA_BUILD/bin"
    for name in cc c++; do
        printf '#!/bin/sh\nexec "%s" -I "%s" %s "$@"\n' "$(command -v python3)" "$DATA_BUILD/bin/compiler.py" "$name" >"$DATA_BUILD/bin/wasi-$name"
    done
    sed -e "s#@TOOLS@#$TOOLS#; s#@CXX@#$DATA_CXX#; s#@INCLUDE@#$DATA_GUEST_DIR/include#; s#@GUESTS@#$GUESTS_DIR#; s#@CROSS@#$DATA_CROSS#; s#@CPYTHON@#$CPYTHON_SRC#" \
        "$DATA_RECIPE_DIR/compiler.py" >"$DATA_BUILD/bin/compiler.py"
    printf '#!/bin/sh\nexec "%s" -c "from Cython.Compiler.Main import setuptools_main as m; m()" "$@"\n' "$NATIVE/python" >"$DATA_BUILD/bin/cython"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$NATIVE/python" >"$DATA_BUILD/bin/python3"
    chmod +x "$DATA_BUILD"/bin/*
}

# write_cross_file: what meson must know about the target.
write_cross_file() {
    cat >"$DATA_BUILD/cross.ini" <<INI
[binaries]
c = '$DATA_BUILD/bin/wasi-cc'
cpp = '$DATA_BUILD/bin/wasi-c++'
ar = '$TOOLS/llvm-ar'
ranlib = '$TOOLS/llvm-ranlib'
strip = 'true'
cython = '$DATA_BUILD/bin/cython'
python = '$DATA_BUILD/bin/python3'
python3 = '$DATA_BUILD/bin/python3'
pkg-config = 'false'
[properties]
needs_exe_wrapper = true
longdouble_format = 'IEEE_QUAD_LE'
[built-in options]
python.purelibdir = '/site'
python.platlibdir = '/site'
[host_machine]
system = 'wasi'
cpu_family = 'wasm32'
cpu = 'wasm32'
endian = 'little'
INI
}

# build_with_meson NAME MESON SETUP-ARGUMENT…: configures, compiles and installs into the stage.
build_with_meson() {
    local name=$1 meson=$2
    shift 2
    rm -rf "$DATA_BUILD/$name"
    write_cross_file
    cd "$DATA_SOURCES/$name"
    build_python "$NATIVE/python" $meson setup "$DATA_BUILD/$name" --cross-file "$DATA_BUILD/cross.ini" \
        -Dbuildtype=release -Db_ndebug=true -Ddebug=false "$@"
    build_python ninja -C "$DATA_BUILD/$name" -j "$JOBS"
    rm -rf "${DATA_STAGE:?}/$name"
    build_python "$NATIVE/python" $meson install -C "$DATA_BUILD/$name" --no-rebuild --quiet --destdir "$DATA_STAGE/$name"
}
