"""Lists the extension modules that meson installed, for shim/extensions.c and for the linker.

    python extensions.py OUT_DIR with-tests|without-tests BUILD_DIR=STAGE_DIR…

Writes OUT_DIR/extensions.inc and OUT_DIR/archives (a response file).
"""

import sys
from pathlib import Path

SUFFIX = ".cpython-313-x86_64-linux-gnu.so"
# Only the packages' own tests need these.
TESTS = {
    "numpy._core._multiarray_tests", "numpy._core._umath_tests", "numpy._core._rational_tests",
    "numpy._core._struct_ufunc_tests", "numpy._core._operand_flag_tests",
}  # fmt: skip
# Tests of instructions that this target does not have.
LEFT_OUT = {"numpy._core._simd"}


def main(out, tests, *projects):
    modules, archives = {}, []
    for project in projects:
        build, stage = map(Path, project.split("="))
        libraries = {path.name: path for path in build.rglob(f"*{SUFFIX}.libs")}
        for archive in sorted(stage.rglob(f"*{SUFFIX}")):
            module = archive.relative_to(stage).as_posix().removesuffix(SUFFIX).replace("/", ".")
            if module in LEFT_OUT or (module in TESTS and tests != "with-tests"):
                continue
            short = module.rpartition(".")[2]
            if short in modules:
                sys.exit(f"{module} and {modules[short]} both define PyInit_{short}")
            modules[short] = module
            archives.append(str(archive))
            archives += libraries[f"{archive.name}.libs"].read_text().split()
    lines = [f'EXTENSION("{module}", {short})\n' for short, module in modules.items()]
    Path(out, "extensions.inc").write_text("".join(lines))
    Path(out, "archives").write_text("\n".join(dict.fromkeys(archives)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
