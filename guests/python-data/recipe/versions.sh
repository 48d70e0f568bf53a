# Every version this recipe pins. After a change run `build.sh --lock`.
# shellcheck shell=bash disable=SC2034

NUMPY_VERSION=2.5.4
PANDAS_VERSION=3.1.1
MATPLOTLIB_VERSION=3.11.2
PILLOW_VERSION=13.0.0
CONTOURPY_VERSION=1.3.3
KIWISOLVER_VERSION=1.5.1
# The wheels of these hold the compiled form; the sdists have the pure one.
PYYAML_VERSION=6.0.3
FONTTOOLS_VERSION=4.68.0
MARKUPSAFE_VERSION=3.0.4

# Pure-Python wheels that go into the image.
IMAGE_WHEELS=(
    "python-dateutil==4.0.0"
    "six==1.17.0"
    "pytz==2026.6"
    "tabulate==0.10.0"
    "openpyxl==3.1.5"
    "et_xmlfile==2.0.0"
    "jinja2==3.1.6"
    "cycler==0.12.1"
    "packaging==26.3"
    "pyparsing==3.3.3"
)

# What builds all this on this machine. Of ziglang, its C++ run-time goes into the image; of pybind11
# and cppy, their headers; nothing of the others.
TOOL_WHEELS=(
    "meson==1.12.1"
    "ninja==1.13.2"
    "cython==3.3.1"
    "versioneer==0.29"
    "ziglang==0.17.0" # carries clang 22
    "pybind11==3.0.1"
    "cppy==1.3.1"
)

# What runs their tests inside a guest; never part of the image.
TEST_WHEELS=(
    "pytest==9.2.0"
    "iniconfig==2.3.1"
    "pluggy==1.7.0"
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

# What matplotlib draws text and triangles with, and JPEG: source packages, as in the CPython recipe.
PLOT_SOURCES=(
    "freetype 2.14.3+dfsg-3"
    "harfbuzz 12.3.2-2"
    "raqm 0.10.5-1"
    "sheenbidi 3.0.0-1"
    "qhull 2020.2-9"
    "libjpeg-turbo 1:3.1.3-4"
)
