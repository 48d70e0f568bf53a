# Downloads, checks and unpacks everything that is not already part of the CPython guest.
# shellcheck shell=bash

download_data_inputs() {
    LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS all_inputs_present && return
    rm -f "$STAMPS/data-download"
    step data-download "$(hash_of "$DATA_RECIPE_DIR"/{versions.sh,fetch.py,sources.sh})" do_download_data_inputs
}

do_download_data_inputs() {
    rm -f "$DATA_DOWNLOADS"/*
    python3 "$DATA_RECIPE_DIR/fetch.py" "$DATA_DOWNLOADS" sdist "numpy==$NUMPY_VERSION" "pandas==$PANDAS_VERSION" "PyYAML==$PYYAML_VERSION" \
        "matplotlib==$MATPLOTLIB_VERSION" "pillow==$PILLOW_VERSION" "contourpy==$CONTOURPY_VERSION" "kiwisolver==$KIWISOLVER_VERSION" \
        "fonttools==$FONTTOOLS_VERSION" "MarkupSafe==$MARKUPSAFE_VERSION"
    python3 "$DATA_RECIPE_DIR/fetch.py" "$DATA_DOWNLOADS" wheel "${IMAGE_WHEELS[@]}" "${TOOL_WHEELS[@]}" "${TEST_WHEELS[@]}"
    setup_private_apt
    [[ -s $STAMPS/apt-update ]] || private_apt apt-get -q update
    cd "$DATA_DOWNLOADS"
    local entry name version
    for entry in "${CXX_PACKAGES[@]}"; do
        read -r name version <<<"$entry"
        private_apt apt-get -q download "$name=$version" || not_offered "$name" "$version"
    done
    for entry in "${PLOT_SOURCES[@]}"; do
        read -r name version <<<"$entry"
        private_apt apt-get -q source --download-only --tar-only "$name=$version" || not_offered "$name" "$version"
    done
    # Signatures; FreeType's documents and demonstrations.
    rm -f ./*.asc ./*.orig-ft2*.tar.*
}

check_data_inputs() { LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS check_inputs; }

relock_data() {
    rm -f "$DATA_LOCK_FILE" "$STAMPS/data-download"
    download_data_inputs
    LOCK_FILE=$DATA_LOCK_FILE DOWNLOADS=$DATA_DOWNLOADS write_lock
}

# matplotlib's side by itself: numpy need not be built again for a patch of it.
unpack_data_sources() {
    local patches=$DATA_GUEST_DIR/patches key
    key="$(hash_of "$DATA_LOCK_FILE" "$DATA_RECIPE_DIR"/{sources.sh,compiler.py})"
    step data-unpack "$key $(hash_of "$patches"/{numpy,pandas})" do_unpack_data_sources
    step data-unpack-plots "$key $(hash_of "$patches"/{matplotlib,pillow,kiwisolver})" do_unpack_plot_sources
}

do_unpack_data_sources() {
    rm -rf "$DATA_TOOLS" "$DATA_CXX"
    mkdir -p "$DATA_TOOLS"
    unpack_sdist "numpy-$NUMPY_VERSION" numpy
    unpack_sdist "pandas-$PANDAS_VERSION" pandas
    unpack_sdist "pyyaml-$PYYAML_VERSION" pyyaml
    unpack_sdist "markupsafe-$MARKUPSAFE_VERSION" markupsafe
    local deb wheel entry
    for deb in "$DATA_DOWNLOADS"/*.deb; do dpkg -x "$deb" "$DATA_CXX"; done
    for entry in "${TOOL_WHEELS[@]}"; do
        wheel=$(data_input "$(wheel_pattern "$entry")")
        python3 -m zipfile -e "$wheel" "$DATA_TOOLS"
        # Wheels keep programs in a folder of their own.
        find "$DATA_TOOLS" -path '*.data/scripts' -exec cp -r {} "$DATA_TOOLS/bin" \;
    done
    chmod -R +x "$DATA_TOOLS/bin" "$DATA_TOOLS/ziglang/zig"
    write_data_tools
}

do_unpack_plot_sources() {
    local entry
    unpack_sdist "matplotlib-$MATPLOTLIB_VERSION" matplotlib
    unpack_sdist "pillow-$PILLOW_VERSION" pillow
    unpack_sdist "contourpy-$CONTOURPY_VERSION" contourpy
    unpack_sdist "kiwisolver-$KIWISOLVER_VERSION" kiwisolver
    unpack_sdist "fonttools-$FONTTOOLS_VERSION" fonttools
    for entry in "${PLOT_SOURCES[@]}"; do unpack_data_tar "${entry%% *}_*.orig.tar.*" "${entry%% *}"; done
}

# unpack_sdist NAME FOLDER: and applies our patches to it, in the order of their names.
unpack_sdist() {
    local patch
    unpack_data_tar "$1.tar.gz" "$2"
    for patch in "$DATA_GUEST_DIR/patches/$2"/*.patch; do
        [[ -f $patch ]] || continue
        patch --directory "$DATA_SOURCES/$2" --strip 1 --forward --fuzz 0 --no-backup-if-mismatch <"$patch"
    done
}

# unpack_data_tar PATTERN FOLDER
unpack_data_tar() {
    rm -rf "${DATA_SOURCES:?}/$2"
    mkdir -p "$DATA_SOURCES/$2"
    tar --extract --file "$(data_input "$1")" --directory "$DATA_SOURCES/$2" --strip-components 1 --no-same-owner
}

# The commands that meson and plots.sh call.
write_data_tools() {
    local name
    mkdir -p "$DATA_BUILD/bin" "$DATA_BUILD/clang"
    # Where a clang looks for its own headers.
    ln -sfn "$DATA_TOOLS/ziglang/lib/include" "$DATA_BUILD/clang/include"
    for name in cc c++ throwing-cc throwing-c++; do
        printf '#!/bin/sh\nexec "%s" -I "%s" %s "$@"\n' "$(command -v python3)" "$DATA_BUILD/bin/compiler.py" "$name" >"$DATA_BUILD/bin/wasi-$name"
    done
    sed -e "s#@TOOLS@#$TOOLS#; s#@TOOLCHAIN@#$TOOLCHAIN#; s#@BUILD@#$DATA_BUILD#; s#@CXX@#$DATA_CXX#; s#@INCLUDE@#$DATA_GUEST_DIR/include#; s#@GUESTS@#$GUESTS_DIR#; s#@CROSS@#$DATA_CROSS#; s#@CPYTHON@#$CPYTHON_SRC#" \
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
