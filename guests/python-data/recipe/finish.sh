# What goes beside python-data.wasm: the library with all packages, and what the build was made of.
# shellcheck shell=bash

finish_data() {
    step data-pack "$(<"$STAMPS/stdlib") $(<"$STAMPS/data-pandas") $(<"$STAMPS/data-plots") $(hash_of "$DATA_GUEST_DIR/packages" "$DATA_RECIPE_DIR"/{pack.py,preload.txt,finish.sh})" \
        do_pack_data "$DATA_OUT/stdlib.zip"
    "$NATIVE/python" -I -B "$DATA_RECIPE_DIR/build_info.py" "$OUT/build-info.json" "$DATA_LOCK_FILE" "$DATA_BUILD" "$DATA_OUT"
    refuse_host_paths "$DATA_OUT/python-data.wasm" "$DATA_OUT/stdlib.zip"
    say "ready in $DATA_OUT: $(cd "$DATA_OUT" && sha256sum python-data.wasm stdlib.zip | tr '\n' ' ')"
}

do_pack_data() {
    local out=$1 entry wheels=() sdists=(numpy pandas pyyaml markupsafe matplotlib pillow contourpy kiwisolver fonttools)
    sdists=("${sdists[@]/#/$DATA_SOURCES/}")
    for entry in "${IMAGE_WHEELS[@]}"; do
        wheels+=("$(data_input "$(wheel_pattern "$entry")")")
    done
    # -I -B: the packer sees only the native build's own library and leaves no .pyc behind.
    "$NATIVE/python" -I -B "$DATA_RECIPE_DIR/pack.py" "$RECIPE_DIR/stdlib.py" "$OUT/stdlib.zip" "$BUILD_DIR" "$DATA_RECIPE_DIR/preload.txt" "$out" \
        "$DATA_STAGE/numpy/site" "$DATA_STAGE/pandas/site" "$PLOTS_SITE" "$DATA_SOURCES/pyyaml/lib" "$DATA_SOURCES/markupsafe/src" "$DATA_SOURCES/fonttools/Lib" \
        "$DATA_GUEST_DIR/packages" "${sdists[@]/%//PKG-INFO}" "${wheels[@]}"
}
