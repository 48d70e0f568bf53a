# Profile-guided optimisation: see README.md for why and how.
# shellcheck shell=bash

PROFILE=$RECIPE_DIR/pgo/python.profdata.xz
COMMANDS=$BUILD_DIR/command
RUNNER=$BUILD_DIR/runner
FOR_SPEED="-mllvm -pgso=false"

# The normal build: one cross build that uses the committed profile.
build_profiled() {
    local profile=$BUILD_DIR/python.profdata
    xz --decompress --stdout "$PROFILE" >"$profile"
    # -flto: with a profile the linker inlines the hot calls between files, which without one
    # gained nothing. -pgso=false: code that training did not reach is still compiled for speed.
    # Functions that training never reached are not worth a warning each.
    cross_build profiled "$PLAIN_OPT -fprofile-use=$profile -flto $FOR_SPEED -Wno-profile-instr-unprofiled -Wno-profile-instr-out-of-date" "$(hash_of "$PROFILE")"
    step optimise "$(<"$STAMPS/cpython-profiled")" optimise_whole_program
}

# Link-time optimisation takes minutes and does not depend on our own C files. So all of
# CPython becomes one object here, and linking with the shim takes a second.
optimise_whole_program() {
    cd "$BUILD_DIR/profiled"
    # shellcheck disable=SC2086 # FOR_SPEED is words
    "$TOOLS/wasm-ld" -r --lto-O3 $FOR_SPEED --whole-archive "libpython$CPYTHON_SERIES.a" "${STATIC_LIBRARIES[@]}" -o "$WHOLE_PROGRAM"
}

# Builds an instrumented guest, runs the training on it and replaces the committed profile.
train() {
    cross_build instrumented "$PLAIN_OPT -fprofile-generate=/prof"
    setup_runner
    step train "$(hash_of "$RECIPE_DIR"/pgo/{train.py,command.c,profile.c,run.py}) $(<"$STAMPS/cpython-instrumented")" do_train
}

do_train() {
    local runtime=$SOURCES/minicov/c file objects=$BUILD_DIR/guest-objects/profile-runtime prof=$BUILD_DIR/prof
    rm -rf "$objects" "$prof"
    mkdir -p "$objects" "$prof"
    for file in "$runtime"/InstrProfiling{,Buffer,Internal,Merge,PlatformOther,Value,VersionVar,Writer}.c "$RECIPE_DIR/pgo/profile.c"; do
        "$TOOLS/wasi-clang" -O2 -w -DCOMPILER_RT_HAS_ATOMICS=1 -I"$runtime" -c "$file" -o "$objects/$(basename "$file" .c).o"
    done
    mkdir -p "$BUILD_DIR/training-lib"
    do_pack_stdlib instrumented "$BUILD_DIR/training-lib/stdlib.zip"
    link_command instrumented "$COMMANDS/instrumented.wasm" -DBELLJAR_PROFILE "$objects"/*.o
    run_guest instrumented "$BUILD_DIR/training-lib" --dir "$prof::/prof" -- /pgo/train.py
    "$TOOLS/llvm-profdata" merge --sparse -o "$prof/python.profdata" "$prof/raw.profraw"
    "$TOOLS/llvm-profdata" show --ic-targets "$prof/python.profdata" | tail -n 12
    xz --compress --stdout -9e "$prof/python.profdata" >"$PROFILE"
    ls -l "$PROFILE"
}

# Runs the checks and the benchmark on the guest that `build` made.
check() {
    local cross=plain
    [[ -f $PROFILE ]] && cross=profiled
    setup_runner
    link_command "$cross" "$COMMANDS/$cross.wasm"
    say "checks"
    rm -rf "$BUILD_DIR/check-tmp"
    mkdir -p "$BUILD_DIR/check-tmp"
    run_guest "$cross" "$OUT" --dir "$BUILD_DIR/check-tmp::/tmp" -- /pgo/check.py
    say "benchmark: this machine's python3, then the guest"
    python3 "$RECIPE_DIR/pgo/bench.py" | tee "$BUILD_DIR/bench-native.json"
    run_guest "$cross" "$OUT" --dir "$BUILD_DIR::/results" -- /pgo/bench.py /results/bench-native.json
}

# PyPI's wasmtime in a folder of its own. No venv: Debian keeps that module in another package.
setup_runner() {
    mkdir -p "$COMMANDS"
    step runner "$WASMTIME_PY_VERSION $WASMTIME_PY_SHA256" do_setup_runner
}

do_setup_runner() {
    rm -rf "$RUNNER"
    mkdir -p "$RUNNER"
    printf 'wasmtime==%s --hash=sha256:%s\n' "$WASMTIME_PY_VERSION" "$WASMTIME_PY_SHA256" >"$RUNNER/requirements.txt"
    python3 -m pip install --quiet --no-cache-dir --no-deps --require-hashes --target "$RUNNER" --requirement "$RUNNER/requirements.txt"
}

# run_guest NAME LIB [--dir HOST::GUEST]… -- SCRIPT…: LIB is the folder with stdlib.zip.
run_guest() {
    local name=$1 lib=$2
    shift 2
    PYTHONPATH=$RUNNER python3 "$RECIPE_DIR/pgo/run.py" "$COMMANDS/$name.wasm" \
        --dir "$lib::/lib" --dir "$RECIPE_DIR/pgo::/pgo" "$@"
}
