# Profile-guided optimisation: see README.md for why and how.
# shellcheck shell=bash

PROFILE=$RECIPE_DIR/pgo/python.profdata.xz
COMMANDS=$BUILD_DIR/command

# The normal build: one cross build that uses the committed profile.
build_profiled() {
    local profile=$BUILD_DIR/python.profdata
    xz --decompress --stdout "$PROFILE" >"$profile"
    # -flto: with a profile the linker inlines the hot calls between files, which without one
    # gained nothing. -pgso=false: code that training did not reach is still compiled for speed.
    # Functions that training never reached are not worth a warning each.
    cross_build profiled "$PLAIN_OPT -fprofile-use=$profile -flto -mllvm -pgso=false -Wno-profile-instr-unprofiled -Wno-profile-instr-out-of-date" "$(hash_of "$PROFILE")"
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
    run_guest "$cross" "$OUT" --dir "$(mktemp -d "$BUILD_DIR/scratch.XXXX")::/tmp" -- /pgo/check.py
    say "benchmark: this machine's python3, then the guest"
    python3 "$RECIPE_DIR/pgo/bench.py" | tee "$BUILD_DIR/bench-native.json"
    run_guest "$cross" "$OUT" --dir "$BUILD_DIR::/results" -- /pgo/bench.py /results/bench-native.json
}

setup_runner() {
    mkdir -p "$COMMANDS"
    step runner "$WASMTIME_PY_VERSION $BUILD_DIR" do_setup_runner
}

do_setup_runner() {
    python3 -m venv --clear "$BUILD_DIR/runner"
    "$BUILD_DIR/runner/bin/pip" install --quiet --no-cache-dir "wasmtime==$WASMTIME_PY_VERSION"
}

# run_guest NAME LIB [--dir HOST::GUEST]… -- SCRIPT…: LIB is the folder with stdlib.zip.
run_guest() {
    local name=$1 lib=$2
    shift 2
    "$BUILD_DIR/runner/bin/python" "$RECIPE_DIR/pgo/run.py" "$COMMANDS/$name.wasm" \
        --dir "$lib::/lib" --dir "$RECIPE_DIR/pgo::/pgo" "$@"
}
