# What the recipe pins beside the toolchain, which ../../python/recipe/versions.sh pins.
# After a change run `build.sh --lock`.
# shellcheck shell=bash disable=SC2034

# From the Rust package registry that cargo is set up for; carries QuickJS-NG's C sources.
RQUICKJS_SYS_VERSION=0.14.0
