"""Writes build-info.json and copies the licence texts that are not the CPython guest's as well.

    python build_info.py SOURCE_DIR OUT_DIR TOOLCHAIN_LOCK LOCK NAME=VERSION…
"""

import json
import re
import shutil
import sys
from pathlib import Path


def main(source_dir, out_dir, toolchain_lock, lock, *toolchain):
    source, out = Path(source_dir), Path(out_dir)
    info = {
        "version": quickjs_version(source / "quickjs/quickjs.h"),
        "toolchain": dict(item.split("=", 1) for item in toolchain),
        "inputs": locked(toolchain_lock, ".deb") | locked(lock, ""),
    }
    (out / "build-info.json").write_text(json.dumps(info, indent=2, sort_keys=True) + "\n", "utf-8")
    (out / "licences").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "quickjs/LICENSE", out / "licences/quickjs.txt")


def quickjs_version(header):
    text = header.read_text("utf-8")
    return ".".join(re.search(rf"QJS_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def locked(lock, end):
    lines = Path(lock).read_text("utf-8").splitlines()
    pairs = (line.split(None, 1) for line in lines if not line.startswith("#") and line.endswith(end))
    return {name: digest for digest, name in pairs}


if __name__ == "__main__":
    main(*sys.argv[1:])
