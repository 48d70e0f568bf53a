"""Writes build-info.json and copies every licence text.

    python build_info.py CPYTHON_VERSION LOCK_FILE BUILD_DIR OUT_DIR NAME=VERSION…
"""

import json
import re
import shutil
import sys
from pathlib import Path

# component: (SPDX id, licence text below BUILD_DIR)
LICENCES = {
    "cpython": ("PSF-2.0", "src/cpython/LICENSE"),
    "cpython-incorporated": ("LicenseRef-see-text", "src/cpython/Doc/license.rst"),
    "hacl": ("MIT", "src/cpython/Modules/_hacl/Hacl_Hash_SHA2.c"),
    "mpdecimal": ("BSD-2-Clause", "src/cpython/Modules/_decimal/libmpdec/mpdecimal.c"),
    "expat": ("MIT", "src/cpython/Modules/expat/COPYING"),
    "zlib": ("Zlib", "src/zlib/LICENSE"),
    "bzip2": ("bzip2-1.0.6", "src/bzip2/LICENSE"),
    "xz": ("0BSD", "src/xz/COPYING"),
    "sqlite": ("blessing", "src/libsqlite3-sys/sqlite3/sqlite3.h"),
    "tzdata": ("Apache-2.0", "src/tzdata"),
    "wasi-libc": ("Apache-2.0 WITH LLVM-exception AND MIT", "toolchain/usr/share/doc/wasi-libc/copyright"),
    "compiler-rt": ("Apache-2.0 WITH LLVM-exception", "toolchain/usr/share/doc/libclang-rt-19-dev-wasm32/copyright"),
}


def main(cpython, lock_file, build_dir, out_dir, *toolchain):
    build, out = Path(build_dir), Path(out_dir)
    info = {
        "cpython": cpython,
        "toolchain": dict(item.split("=", 1) for item in toolchain),
        "libraries": library_versions(build / "src"),
        "inputs": locked_inputs(lock_file),
        "licences": copy_licences(build, out / "licences"),
    }
    (out / "build-info.json").write_text(json.dumps(info, indent=2, sort_keys=True) + "\n", "utf-8")


def library_versions(src):
    """Read from the sources themselves, so that they cannot drift from what was built."""

    def find(path, pattern):
        match = re.search(pattern, (src / path).read_text("utf-8", "replace"))
        return ".".join(filter(None, match.groups())) if match else sys.exit(f"no version in {path}")

    expat = [find("cpython/Modules/expat/expat.h", rf"XML_{part}_VERSION (\d+)") for part in ("MAJOR", "MINOR", "MICRO")]
    return {
        "bzip2": find("bzip2/bzlib_private.h", r'BZ_VERSION\s+"([\d.]+)'),
        "expat": ".".join(expat),
        "mpdecimal": find("cpython/Modules/_decimal/libmpdec/mpdecimal.h", r'MPD_VERSION "([\d.]+)"'),
        "sqlite": find("libsqlite3-sys/sqlite3/sqlite3.h", r'SQLITE_VERSION\s+"([\d.]+)"'),
        "tzdata": find("tzdata/tzdata/__init__.py", r'__version__ = "([\d.]+)"'),
        "xz": ".".join(
            find("xz/src/liblzma/api/lzma/version.h", rf"LZMA_VERSION_{part} (\d+)") for part in ("MAJOR", "MINOR", "PATCH")
        ),
        "zlib": find("zlib/zlib.h", r'ZLIB_VERSION "([\d.]+)'),
    }


def locked_inputs(lock_file):
    lines = Path(lock_file).read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split(None, 1) for line in lines if not line.startswith("#"))}


def copy_licences(build, target):
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    result = {}
    for component, (spdx, path) in sorted(LICENCES.items()):
        source = build / path
        if component == "tzdata":
            texts = [p.read_text("utf-8") for p in sorted(source.glob("*.dist-info/**/LICENSE*")) if p.is_file()]
            text = "\n".join(texts) or sys.exit("tzdata has no licence file")
        else:
            text = source.read_text("utf-8", "replace")
            if source.suffix in (".c", ".h"):
                text = text[: text.index("*/") + 3]  # the comment at the top is the licence
        (target / f"{component}.txt").write_text(text, "utf-8")
        result[component] = {"spdx": spdx, "text": f"licences/{component}.txt"}
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
