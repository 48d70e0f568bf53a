"""Packs the standard library into stdlib.zip: .pyc files only, in a fixed order, without dates.

Run by the native build of the same CPython version:
    python stdlib.py LIB_DIR SYSCONFIG_DIR TZDATA_DIR BUILD_DIR OUT_ZIP
"""

import importlib.util
import sys
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
from pathlib import Path

# What a guest without a screen, a terminal or child processes can never use.
LEFT_OUT = {
    "__phello__", "__pycache__", "_pyrepl", "curses", "ensurepip", "idlelib", "lib2to3",
    "site-packages", "test", "tests", "tkinter", "turtle.py", "turtledemo", "venv",
    "_aix_support.py", "_apple_support.py", "_android_support.py", "_ios_support.py",
    "_osx_support.py",
}  # fmt: skip
# pydoc takes its pager from the interactive shell, which is otherwise of no use here.
KEPT = {"_pyrepl/__init__.py", "_pyrepl/pager.py"}
GUEST_LIB = "/lib/python3.13"

# hashlib takes its key derivation functions from OpenSSL, which a guest has not. The
# built-in module _belljar_kdf offers the same two functions.
HASHLIB_PATCHES = [
    (
        "    from _hashlib import pbkdf2_hmac\n    __all__ += ('pbkdf2_hmac',)\nexcept ImportError:\n    pass\n",
        "    from _belljar_kdf import pbkdf2_hmac\n    __all__ += ('pbkdf2_hmac',)\nexcept ImportError:\n    pass\n",
    ),
    ("    from _hashlib import scrypt\n", "    from _belljar_kdf import scrypt\n"),
]


def main(lib_dir, sysconfig_dir, tzdata_dir, build_dir, out):
    lib = Path(lib_dir)
    entries = {}
    for path in sorted(lib.rglob("*.py")):
        relative = path.relative_to(lib)
        if LEFT_OUT.isdisjoint(relative.parts) or relative.as_posix() in KEPT:
            entries[f"{relative.as_posix()}c"] = pyc(relative.as_posix(), path.read_text("utf-8"))

    for path in sorted(Path(sysconfig_dir).glob("_sysconfigdata*.py")):
        entries[f"{path.name}c"] = pyc(path.name, sysconfig_source(path, build_dir))

    tzdata = Path(tzdata_dir)
    for path in sorted(tzdata.rglob("*")):
        relative = path.relative_to(tzdata)
        if not path.is_file() or "__pycache__" in relative.parts:
            continue
        name = relative.as_posix()
        if relative.parts[0] == "tzdata":
            if path.suffix == ".py":
                entries[f"{name}c"] = pyc(name, path.read_text("utf-8"))
            else:
                entries[name] = path.read_bytes()
        elif path.name == "METADATA":
            entries[name] = path.read_bytes()  # importlib.metadata.version("tzdata")

    write_zip(out, entries)
    print(f"{len(entries)} files, {sum(map(len, entries.values()))} bytes")


def sysconfig_source(path, build_dir):
    """The build's variables, without what depends on the machine: its folders and its tools.

    Written anew rather than edited, because the original wraps lines according to the length
    of the paths, and line numbers are part of a .pyc.
    """
    namespace = {}
    exec(path.read_text("utf-8"), namespace)
    lines = []
    for name, value in sorted(namespace["build_time_vars"].items()):
        if isinstance(value, str):
            if name.startswith(("INSTALL", "MKDIR_P", "LLVM_PROF", "PYTHON_FOR_", "TESTPYTHON", "TESTRUNNER")):
                continue
            value = value.replace(build_dir, "/build")
        lines.append(f"    {name!r}: {value!r},\n")
    return "# System configuration of the guest.\nbuild_time_vars = {\n" + "".join(lines) + "}\n"


def pyc(relative, source):
    if relative == "hashlib.py":
        for old, new in HASHLIB_PATCHES:
            if source.count(old) != 1:
                sys.exit(f"hashlib.py has changed: expected exactly one\n{old}")
            source = source.replace(old, new)
    data = source.encode("utf-8")
    code = compile(data, f"{GUEST_LIB}/{relative}", "exec", dont_inherit=True, optimize=0)
    # "Unchecked hash": the importer never looks for a source file or its date.
    return _code_to_hash_pyc(code, importlib.util.source_hash(data), False)


def write_zip(out, entries):
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, entries[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
