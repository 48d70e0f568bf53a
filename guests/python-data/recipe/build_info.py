"""Writes build-info.json and copies the licence texts of what this recipe adds.

    python build_info.py CPYTHON_BUILD_INFO LOCK_FILE DATA_BUILD OUT_DIR
"""

import json
import re
import sys
import zipfile
from pathlib import Path

# Downloads that only build or test: nothing of them is in the image.
TOOLS = {
    "meson", "ninja", "cython", "versioneer", "ziglang", "pybind11", "cppy",
    "pytest", "iniconfig", "pluggy", "pygments", "hypothesis", "sortedcontainers", "attrs",
}  # fmt: skip
# Files are not always named as the packages are.
NAMES = {"python_dateutil": "python-dateutil", "pyyaml": "PyYAML", "jinja2": "Jinja2", "markupsafe": "MarkupSafe"}
SDIST_MODULES = {
    "numpy": ["numpy"], "pandas": ["pandas"], "pyyaml": ["yaml"], "markupsafe": ["markupsafe"], "matplotlib": ["matplotlib", "mpl_toolkits", "pylab"],
    "pillow": ["PIL"], "contourpy": ["contourpy"], "kiwisolver": ["kiwisolver"], "fonttools": ["fontTools"],
}  # fmt: skip
# Texts below DATA_BUILD; the wheels carry their own.
LICENCES = {
    "numpy": "src/numpy/LICENSE.txt",
    "numpy-incorporated": "src/numpy/numpy/**/*LICENSE*",
    "pandas": "src/pandas/LICENSE",
    "pandas-incorporated": "src/pandas/LICENSES/*",
    "fast_float": "src/pandas/subprojects/fast_float-*/LICENSE-MIT",
    "xsimd": "src/pandas/subprojects/xsimd-*/LICENSE",
    "pyyaml": "src/pyyaml/LICENSE",
    "markupsafe": "src/markupsafe/LICENSE.txt",
    "libcxx": "cxx/usr/share/doc/libc++-19-dev-wasm32/copyright",
    "libunwind": "tools/ziglang/lib/libunwind/LICENSE.TXT",
    "matplotlib": "src/matplotlib/LICENSE/LICENSE*",
    "agg": "src/matplotlib/extern/agg24-svn/src/copying",
    "pillow": "src/pillow/LICENSE",
    "contourpy": "src/contourpy/LICENSE",
    "kiwisolver": "src/kiwisolver/LICENSE",
    "fonttools": "src/fonttools/LICENSE*",
    "pybind11": "tools/pybind11-*.dist-info/licenses/LICENSE",
    "cppy": "tools/cppy-*.dist-info/LICENSE",
    "freetype": "src/freetype/docs/FTL.TXT",
    "harfbuzz": "src/harfbuzz/COPYING",
    "raqm": "src/raqm/COPYING",
    "sheenbidi": "src/sheenbidi/LICENSE",
    "qhull": "src/qhull/COPYING.txt",
    "libjpeg-turbo": "src/libjpeg-turbo/LICENSE.md",
    "ijg": "src/libjpeg-turbo/README.ijg",
}


def main(cpython_info, lock_file, data_build, out_dir):
    build, out = Path(data_build), Path(out_dir)
    info = json.loads(Path(cpython_info).read_text("utf-8"))
    inputs = locked_inputs(lock_file)
    info["inputs"].update(inputs)
    info["packages"] = packages(inputs, build / "downloads")
    write_licences(build, out / "licences")
    (out / "build-info.json").write_text(json.dumps(info, indent=2, sort_keys=True) + "\n", "utf-8")


def locked_inputs(lock_file):
    lines = Path(lock_file).read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split(None, 1) for line in lines if not line.startswith("#"))}


def packages(inputs, downloads):
    """What is in the image: the name one would install, the version, and what one imports."""
    found = []
    for file in inputs:
        match = re.match(r"(\w+)-(\d[\w.]*?)(?:\.tar\.gz$|-)", file)
        if match and file.endswith((".whl", ".tar.gz")) and match[1] not in TOOLS:
            name = NAMES.get(match[1], match[1])
            modules = wheel_modules(downloads / file) if file.endswith(".whl") else SDIST_MODULES[match[1]]
            found.append({"name": name, "version": match[2], "modules": modules})
    return sorted(found, key=lambda package: package["name"].lower())


def wheel_modules(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist() if name.endswith(".py")}
    return sorted(top.removesuffix(".py") for top in tops)


def write_licences(build, target):
    target.mkdir(parents=True, exist_ok=True)
    for component, pattern in LICENCES.items():
        texts = [titled(path) for path in sorted(build.glob(pattern))]
        (target / f"{component}.txt").write_text("\n".join(texts) or sys.exit(f"no licence text: {pattern}"), "utf-8")
    for wheel in sorted((build / "downloads").glob("*.whl")):
        name = wheel.name.partition("-")[0]
        if name in TOOLS:
            continue
        with zipfile.ZipFile(wheel) as archive:
            texts = [archive.read(n).decode("utf-8", "replace") for n in archive.namelist() if re.search(r"dist-info/.*LICEN[CS]E", n)]
        (target / f"{name}.txt").write_text("\n".join(texts) or sys.exit(f"{name} has no licence file"), "utf-8")


def titled(path):
    """Its text, below the folder and the name it has among the sources."""
    return f"{path.parent.name}/{path.name}\n\n{path.read_text('utf-8', 'replace')}"


if __name__ == "__main__":
    main(*sys.argv[1:])
