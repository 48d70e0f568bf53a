# Every version this recipe pins. After a change run `build.sh --lock`.
# shellcheck shell=bash disable=SC2034

NUMPY_VERSION=2.5.4
PANDAS_VERSION=3.1.1
PYYAML_VERSION=6.0.3 # its wheels hold the compiled form; the sdist has the pure one

# Pure-Python wheels that go into the image.
IMAGE_WHEELS=(
    "python-dateutil==4.0.0"
    "six==1.17.0"
    "pytz==2026.6"
    "tabulate==0.10.0"
    "openpyxl==3.1.5"
    "et_xmlfile==2.0.0"
)

# What builds numpy and pandas on this machine; nothing of it goes into the image.
TOOL_WHEELS=(
    "meson==1.12.1"
    "ninja==1.13.2"
    "cython==3.3.1"
    "versioneer==0.29"
)

# What runs their tests inside a guest; never part of the image.
TEST_WHEELS=(
    "pytest==9.2.0"
    "iniconfig==2.3.1"
    "pluggy==1.7.0"
    "packaging==26.3"
    "pygments==2.21.0"
    "hypothesis==6.135.26" # later ones are compiled
    "sortedcontainers==2.4.0"
    "attrs==26.1.0"
)

# libc++ for WASI, unpacked beside the toolchain of the CPython guest.
CXX_PACKAGES=(
    "libc++-19-dev-wasm32 $LLVM_PACKAGE_VERSION"
    "libc++abi-19-dev-wasm32 $LLVM_PACKAGE_VERSION"
)
