# Downloads every input into $DOWNLOADS and checks it against inputs.lock.
# shellcheck shell=bash
# shellcheck source=apt.sh
. "$RECIPE_DIR/apt.sh"

download_inputs() {
    if all_inputs_present; then
        return
    fi
    rm -f "$STAMPS"/download-* # something is missing or wrong, whatever an earlier run thought
    setup_private_apt
    step apt-update "$(hash_of "$RECIPE_DIR/apt.sh" "$RECIPE_DIR/versions.sh")" private_apt apt-get -q update
    step download-packages "$(hash_of "$RECIPE_DIR/versions.sh")" download_packages
    step download-crates "$LIBSQLITE3_SYS_VERSION $MINICOV_VERSION" download_crates
    step download-wheels "$TZDATA_VERSION" download_wheels
}

# Throws away what was downloaded, so that --lock records what the mirror serves today.
forget_inputs() {
    rm -rf "$DOWNLOADS" "$APT_DIR" "$STAMPS"/apt-update "$STAMPS"/download-*
    mkdir -p "$DOWNLOADS"
}

download_packages() {
    cd "$DOWNLOADS"
    local name version entry
    for entry in "${TOOLCHAIN_PACKAGES[@]}"; do
        read -r name version <<<"$entry"
        private_apt apt-get -q download "$name=$version" || not_offered "$name" "$version"
    done
    for entry in "${SOURCE_PACKAGES[@]}"; do
        read -r name version <<<"$entry"
        private_apt apt-get -q source --download-only --tar-only "$name=$version" || not_offered "$name" "$version"
    done
    rm -f ./*.asc
}

not_offered() {
    printf 'The mirror does not serve %s %s any more. It offers:\n' "$1" "$2" >&2
    private_apt apt-cache showsrc "$1" 2>/dev/null | grep '^Version:' >&2 || true
    private_apt apt-cache policy "$1" >&2 || true
    die "put the file listed in inputs.lock into $DOWNLOADS by hand, or choose another version in recipe/versions.sh and run build.sh --lock"
}

# Only C sources inside the crates are used; cargo serves as the downloader, because it
# knows which registry this machine uses. Its home is private, like apt's.
download_crates() {
    local work=$BUILD_DIR/crates machine_config=${CARGO_HOME:-$HOME/.cargo}/config.toml
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
libsqlite3-sys = "=$LIBSQLITE3_SYS_VERSION"
minicov = "=$MINICOV_VERSION"
TOML
    (cd "$work" && CARGO_HOME=$BUILD_DIR/cargo cargo "${config[@]}" fetch)
    cp "$BUILD_DIR"/cargo/registry/cache/*/{libsqlite3-sys-"$LIBSQLITE3_SYS_VERSION",minicov-"$MINICOV_VERSION"}.crate "$DOWNLOADS/"
}

download_wheels() {
    python3 -m pip download --quiet --no-deps --no-cache-dir --only-binary :all: --dest "$DOWNLOADS" "tzdata==$TZDATA_VERSION"
}

# What every build from these sources depends on.
sources_key() { hash_of "$LOCK_FILE" "$RECIPE_DIR/patch_cpython.py"; }

unpack_sources() {
    step unpack-sources "$(sources_key)" do_unpack_sources
}

do_unpack_sources() {
    rm -rf "$SOURCES"
    mkdir -p "$SOURCES"
    unpack_tar "python3.13_*.orig.tar.*" cpython
    python3 "$RECIPE_DIR/patch_cpython.py" "$CPYTHON_SRC"
    unpack_tar "zlib_*.orig.tar.*" zlib
    unpack_tar "bzip2_*.orig.tar.*" bzip2
    unpack_tar "xz-utils_*.orig.tar.*" xz
    unpack_tar "libsqlite3-sys-*.crate" libsqlite3-sys
    unpack_tar "minicov-*.crate" minicov
    mkdir -p "$SOURCES/tzdata"
    python3 -m zipfile -e "$(input 'tzdata-*.whl')" "$SOURCES/tzdata"
}

unpack_tar() {
    mkdir -p "$SOURCES/$2"
    tar --extract --file "$(input "$1")" --directory "$SOURCES/$2" --strip-components 1 --no-same-owner
}
