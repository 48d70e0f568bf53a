"""Packs stdlib.zip once more, with numpy, pandas, matplotlib and the pure-Python packages beside them.

Run by the native build of the same CPython version:
    python pack.py STDLIB_RECIPE STDLIB_ZIP BUILD_DIR PRELOAD OUT_ZIP SOURCE…

A source is a folder, a wheel, or the PKG-INFO of an sdist.
"""

import importlib.util
import sys
import zipfile
from pathlib import Path

# Never of use in a guest: compiling Fortran, making programs and documents; and the packages' own tests.
LEFT_OUT = {"__pycache__", "f2py", "_pyinstaller", "tests", "sphinxext"}
# pytz carries its own copy of what tzdata has. Windows with buttons there are none.
DROPPED_PREFIXES = ("pytz/zoneinfo/", "matplotlib/mpl-data/images/", "matplotlib/mpl-data/sample_data/", "matplotlib/backends/web_backend/")
EDITS = {
    "pytz/__init__.py": ("files(__name__).joinpath('zoneinfo'", "files('tzdata').joinpath('zoneinfo'"),
    # The image has no files: templates are read from the archive.
    "pandas/io/formats/style_render.py": (
        "loader = jinja2.FileSystemLoader(template_dir)",
        "from importlib.resources import files\n"
        "    loader = jinja2.DictLoader({it.name: it.read_text() for it in files(__package__).joinpath('templates').iterdir()})",
    ),
}


def main(stdlib_recipe, stdlib_zip, build_dir, preload, out, *sources):
    stdlib = load(stdlib_recipe)
    with zipfile.ZipFile(stdlib_zip) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for source in sources:
        for name, data in files(Path(source)):
            if wanted(name):
                add(stdlib, entries, name, data.replace(build_dir.encode(), b"/build"))
    entries["preload.txt"] = Path(preload).read_bytes()
    stdlib.write_zip(out, entries)
    print(f"{len(entries)} files, {sum(map(len, entries.values()))} bytes")


def load(path):
    spec = importlib.util.spec_from_file_location("stdlib", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(source):
    if source.name == "PKG-INFO":
        # What an sdist says about itself is what importlib.metadata tells of the package.
        about = source.read_bytes()
        headers = dict(line.split(": ", 1) for line in about.decode().splitlines()[1:3])
        yield f"{headers['Name']}-{headers['Version']}.dist-info/METADATA", about
    elif source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.is_file():
                yield path.relative_to(source).as_posix(), path.read_bytes()
    else:
        with zipfile.ZipFile(source) as wheel:
            for name in sorted(wheel.namelist()):
                if not name.endswith("/"):
                    yield name, wheel.read(name)


def wanted(name):
    parts = name.split("/")
    if parts[0].endswith((".dist-info", ".egg-info")):
        return parts[1:] == ["METADATA"]
    if parts[0].endswith(".data") or name.startswith(DROPPED_PREFIXES):
        return False
    # Data: templates of pandas' HTML output, matplotlib's fonts, styles and settings. Not wanted: type stubs, C headers, archives.
    return LEFT_OUT.isdisjoint(parts[1:-1]) and name.endswith((".py", ".tpl", ".ttf", ".afm", ".mplstyle", "/matplotlibrc"))


def add(stdlib, entries, name, data):
    if not name.endswith(".py"):
        entries[name] = data
        return
    source = data.decode("utf-8")
    if name in EDITS:
        old, new = EDITS[name]
        if source.count(old) != 1:
            sys.exit(f"{name} has changed: expected exactly one {old}")
        source = source.replace(old, new)
    entries[f"{name}c"] = stdlib.pyc(name, source)


if __name__ == "__main__":
    main(*sys.argv[1:])
