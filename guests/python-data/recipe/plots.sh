# matplotlib for WASI, with Pillow, contourpy, kiwisolver and the libraries they stand on.
#
# None of them needs more of its own build system than a list of sources, so they are compiled here
# directly, and laid out as meson leaves numpy and pandas: archives in the stage, and beside each a
# list of the libraries it wants.
# shellcheck shell=bash

PLOTS=$DATA_BUILD/plots
PLOTS_SITE=$DATA_STAGE/plots/site
# As meson names what it makes for the native Python, and extensions.py looks for it.
EXTENSION_SUFFIX=.cpython-313-x86_64-linux-gnu.so

build_plots() {
    step data-plots "$(<"$STAMPS/data-unpack-plots") $(<"$STAMPS/cpython-profiled") $(hash_of "$DATA_GUEST_DIR/include" "$DATA_RECIPE_DIR"/{compiler.py,plots.sh})" do_build_plots
}

do_build_plots() {
    rm -rf "$PLOTS" "$PLOTS_SITE"
    mkdir -p "$PLOTS" "$PLOTS_SITE"
    build_freetype
    build_text_layout
    build_qhull
    build_jpeg
    build_kiwisolver
    build_contourpy
    build_pillow
    build_matplotlib
}

build_freetype() {
    local src=$DATA_SOURCES/freetype/src
    write_freetype_modules
    compile_into freetype throwing-cc -DFT2_BUILD_LIBRARY "-DFT_CONFIG_MODULES_H=<freetype_modules.h>" -DFT_CONFIG_OPTION_SYSTEM_ZLIB \
        "-I$PLOTS" "-I$DATA_SOURCES/freetype/include" "-I$DEPS/include" -- \
        "$src"/base/{ftbase,ftinit,ftsystem,ftdebug,ftbitmap,ftglyph,ftstroke,ftbbox,ftmm,fttype1,ftfstype,ftsynth}.c \
        "$src"/{truetype/truetype,type1/type1,cff/cff,cid/type1cid,psaux/psaux,psnames/psnames,pshinter/pshinter,sfnt/sfnt}.c \
        "$src"/{smooth/smooth,raster/raster,autofit/autofit,gzip/ftgzip}.c
    library freetype
}

# The formats of fonts that matplotlib knows, and what draws them.
write_freetype_modules() {
    local name
    for name in autofit psaux psnames pshinter sfnt; do printf 'FT_USE_MODULE( FT_Module_Class, %s_module_class )\n' "$name"; done >"$PLOTS/freetype_modules.h"
    for name in tt t1 cff t1cid; do printf 'FT_USE_MODULE( FT_Driver_ClassRec, %s_driver_class )\n' "$name"; done >>"$PLOTS/freetype_modules.h"
    for name in smooth raster1; do printf 'FT_USE_MODULE( FT_Renderer_Class, ft_%s_renderer_class )\n' "$name"; done >>"$PLOTS/freetype_modules.h"
}

# From text to glyphs: raqm asks SheenBidi for directions and HarfBuzz for shapes.
build_text_layout() {
    local bidi=$DATA_SOURCES/sheenbidi raqm=$DATA_SOURCES/raqm version major minor micro
    compile_into raqm throwing-c++ -std=c++17 -fno-exceptions -fno-rtti -DHAVE_FREETYPE -DHB_NO_MT "-I$DATA_SOURCES/freetype/include" -- \
        "$DATA_SOURCES/harfbuzz/src/harfbuzz.cc"
    compile_into raqm throwing-cc -DSB_CONFIG_UNITY "-I$bidi/Headers" "-I$bidi/Source" -- "$bidi/Source/SheenBidi.c"
    version=$(sed -n "/^project(/,/^)/s/^ *version: '\(.*\)',/\1/p" "$raqm/meson.build")
    IFS=. read -r major minor micro <<<"$version"
    sed "s/@RAQM_VERSION_MAJOR@/$major/; s/@RAQM_VERSION_MINOR@/$minor/; s/@RAQM_VERSION_MICRO@/$micro/; s/@RAQM_VERSION@/$version/" \
        "$raqm/src/raqm-version.h.in" >"$PLOTS/raqm-version.h"
    compile_into raqm throwing-cc -DRAQM_SHEENBIDI -DHAVE_FT_GET_TRANSFORM "-I$PLOTS" "-I$bidi/Headers" "-I$bidi/Headers/SheenBidi" \
        "-I$DATA_SOURCES/freetype/include" "-I$DATA_SOURCES/harfbuzz/src" -- "$raqm/src/raqm.c"
    library raqm
}

build_qhull() {
    compile_into qhull throwing-cc "-I$DATA_SOURCES/qhull/src" -- "$DATA_SOURCES"/qhull/src/libqhull_r/*.c
    library qhull
}

build_jpeg() {
    local source=$DATA_SOURCES/libjpeg-turbo file version number years sources
    version=$(sed -n 's/^set(VERSION \(.*\))/\1/p' "$source/CMakeLists.txt")
    years=$(sed -n 's/^set(COPYRIGHT_YEAR "\(.*\)")/\1/p' "$source/CMakeLists.txt")
    # shellcheck disable=SC2046 # three numbers
    number=$(printf '%d%03d%03d' $(tr . ' ' <<<"$version"))
    for file in jconfig jconfigint jversion; do
        sed "/^#cmakedefine/d; s/@JPEG_LIB_VERSION@/62/; s/@VERSION@/$version/; s/@LIBJPEG_TURBO_VERSION_NUMBER@/$number/; s/@BUILD@//; s/@COPYRIGHT_YEAR@/$years/
            s/@HIDDEN@/__attribute__((visibility(\"hidden\")))/; s/@INLINE@/inline/; s/@THREAD_LOCAL@//; s/@SIZE_T@/4/" \
            "$source/src/$file.h.in" >"$PLOTS/$file.h"
    done
    mapfile -t sources < <(sed -n '/^set(JPEG_SOURCES src/,/)/p' "$source/CMakeLists.txt" | grep -o 'src/[^ )]*\.c')
    compile_into jpeg throwing-cc "-I$PLOTS" "-I$source/src" -- "${sources[@]/#/$source/}"
    library jpeg
}

build_kiwisolver() {
    local source=$DATA_SOURCES/kiwisolver
    compile_into kiwisolver throwing-c++ -std=c++17 -include "$DATA_GUEST_DIR/include/one_thread.hpp" "-I$source" "-I$DATA_TOOLS/cppy/include" -- \
        "$source"/py/src/*.cpp
    extension kiwisolver kiwisolver._cext
    cp -r "$source/py/kiwisolver" "$PLOTS_SITE/"
}

build_contourpy() {
    local source=$DATA_SOURCES/contourpy
    compile_into contourpy throwing-c++ -std=c++17 -include "$DATA_GUEST_DIR/include/one_thread.hpp" "-DCONTOURPY_VERSION=$CONTOURPY_VERSION" \
        "-I$DATA_TOOLS/pybind11/include" -- "$source"/src/*.cpp
    extension contourpy contourpy._contourpy
    cp -r "$source/lib/contourpy" "$PLOTS_SITE/"
}

# Without the formats that want more libraries (TIFF with compression, WebP, AVIF, JPEG 2000).
build_pillow() {
    local src=$DATA_SOURCES/pillow/src name
    local flags=("-DPILLOW_VERSION=\"$PILLOW_VERSION\"" -DHAVE_LIBZ -DHAVE_LIBJPEG "-I$src" "-I$src/libImaging" "-I$PLOTS" "-I$DEPS/include"
        "-I$DATA_SOURCES/freetype/include" "-I$DATA_SOURCES/libjpeg-turbo/src")
    compile_into imaging throwing-cc "${flags[@]}" -- "$src"/{_imaging,decode,encode,map,display,outline,path}.c "$src"/libImaging/*.c
    extension imaging PIL._imaging jpeg
    for name in _imagingmath _imagingmorph _imagingft; do
        # A function with keywords is cast to one without, and called as what it is.
        compile_into "$name" throwing-cc "${flags[@]}" -Wno-error=cast-function-type-mismatch -- "$src/$name.c"
        extension "$name" "PIL.$name" freetype
    done
    cp -r "$src/PIL" "$PLOTS_SITE/"
}

build_matplotlib() {
    local source=$DATA_SOURCES/matplotlib name
    local src=$source/src agg=$source/extern/agg24-svn
    local flags=(-std=c++17 -DMPL_FIX_AGG_IMAGE_FILTER_LUT_BUGS -DMPL_FIX_AGG_INTERPOLATION_ENDPOINT_BUG
        '-DFREETYPE_BUILD_TYPE="local"' -DMPL_DEVNULL=/dev/null "-I$src" "-I$agg/include" "-I$PLOTS" "-I$DATA_TOOLS/pybind11/include"
        "-I$DATA_SOURCES/freetype/include" "-I$DATA_SOURCES/raqm/src" "-I$DATA_SOURCES/harfbuzz/src" "-I$DATA_SOURCES/qhull/src")
    compile_into agg throwing-c++ "${flags[@]}" -- \
        "$agg"/src/agg_{bezier_arc,curves,image_filters,trans_affine,vcgen_contour,vcgen_dash,vcgen_stroke,vpgen_segmentator}.cpp
    library agg
    compile_into _backend_agg throwing-c++ "${flags[@]}" -- "$src"/_backend_agg{,_wrapper}.cpp
    compile_into ft2font throwing-c++ "${flags[@]}" -- "$src"/ft2font{,_wrapper}.cpp
    compile_into _image throwing-c++ "${flags[@]}" -- "$src"/{_image_wrapper,py_converters}.cpp
    compile_into _tri throwing-c++ "${flags[@]}" -- "$src"/tri/_tri{,_wrapper}.cpp
    compile_into _c_internal_utils throwing-c++ "${flags[@]}" -- "$src/_c_internal_utils.cpp"
    for name in _path _qhull; do compile_into "$name" throwing-c++ "${flags[@]}" -- "$src/${name}_wrapper.cpp"; done
    cp -r "$source"/lib/{matplotlib,mpl_toolkits,pylab.py} "$PLOTS_SITE/"
    printf 'version = "%s"\n' "$MATPLOTLIB_VERSION" >"$PLOTS_SITE/matplotlib/_version.py"
    extension _backend_agg matplotlib.backends._backend_agg agg
    for name in ft2font _image _tri _c_internal_utils _path _qhull; do extension "$name" "matplotlib.$name" agg raqm freetype qhull; done
}

# compile_into FOLDER COMPILER FLAG… -- SOURCE…: the objects of one library or module, JOBS at once.
compile_into() {
    local folder=$PLOTS/$1 command=("$DATA_BUILD/bin/wasi-$2" -O2 -DNDEBUG)
    shift 2
    while [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    shift
    mkdir -p "$folder"
    printf '%s\0' "$@" | xargs -0 -P "$JOBS" -I SOURCE bash -c 'exec "${@:3}" -c "$2" -o "$1/$(basename "$2").o"' compile "$folder" SOURCE "${command[@]}"
}

library() { "$TOOLS/llvm-ar" crsD "$PLOTS/lib$1.a" "$PLOTS/$1"/*.o; }

# extension FOLDER MODULE LIBRARY…
extension() {
    local folder=$1 archive=$PLOTS_SITE/${2//.//}$EXTENSION_SUFFIX
    shift 2
    mkdir -p "$(dirname "$archive")"
    "$TOOLS/llvm-ar" crsD "$archive" "$PLOTS/$folder"/*.o
    printf '%s\n' "${@/#/$PLOTS/lib}" | sed 's/$/.a/; /^\.a$/d' >"$PLOTS/$(basename "$archive").libs"
}
