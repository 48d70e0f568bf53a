# Downloads the toolchain, as the CPython guest's recipe does, and QuickJS-NG.
# shellcheck shell=bash

QUICKJS_LOCK=$JAVASCRIPT_RECIPE_DIR/inputs.lock
QUICKJS_CRATE=rquickjs-sys-$RQUICKJS_SYS_VERSION.crate

# Of the shared lock file only the toolchain is wanted: its packages are the .deb files.
toolchain_lock() { grep '\.deb$' "$LOCK_FILE"; }

present() { (cd "$DOWNLOADS" && sha256sum --check --status --strict 2>/dev/null); }

download_guest_inputs() {
    if ! toolchain_lock | present; then
        setup_private_apt
        rm -f "$STAMPS"/download-toolchain
        step apt-update "$(hash_of "$RECIPE_DIR/apt.sh" "$RECIPE_DIR/versions.sh")" private_apt apt-get -q update
        step download-toolchain "$(hash_of "$RECIPE_DIR/versions.sh")" download_toolchain
        toolchain_lock | present || die "the toolchain's packages do not match $LOCK_FILE"
    fi
    if ! grep -v '^#' "$QUICKJS_LOCK" | present; then
        rm -f "$STAMPS"/download-quickjs
        step download-quickjs "$RQUICKJS_SYS_VERSION" download_quickjs
        grep -v '^#' "$QUICKJS_LOCK" | present || die "QuickJS does not match $QUICKJS_LOCK; if the change is wanted, run build.sh --lock"
    fi
}

download_toolchain() {
    local SOURCE_PACKAGES=()
    download_packages
}

# cargo serves as the downloader, because it knows which registry this machine uses.
download_quickjs() {
    local work=$BUILD_DIR/crates-javascript machine_config=${CARGO_HOME:-$HOME/.cargo}/config.toml
    local config=()
    [[ -f $machine_config ]] && config=(--config "$machine_config")
    rm -rf "$work"
    mkdir -p "$work/src"
    : >"$work/src/lib.rs"
    cat >"$work/Cargo.toml" <<TOML
[package]
name = "guest-inputs"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
rquickjs-sys = "=$RQUICKJS_SYS_VERSION"
TOML
    (cd "$work" && CARGO_HOME=$BUILD_DIR/cargo cargo "${config[@]}" fetch)
    cp "$BUILD_DIR"/cargo/registry/cache/*/"$QUICKJS_CRATE" "$DOWNLOADS/"
}

relock_quickjs() {
    rm -f "$DOWNLOADS/$QUICKJS_CRATE"
    download_quickjs
    {
        echo "# sha256 of what this recipe downloads beside the toolchain. Written by build.sh --lock; checked by every build."
        (cd "$DOWNLOADS" && sha256sum "$QUICKJS_CRATE")
    } >"$QUICKJS_LOCK"
    say "wrote $QUICKJS_LOCK"
}
