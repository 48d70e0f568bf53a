"""Runs the packages' own tests in the guest, a few files in each process, and prints totals; or one of our scripts.

    run.py BUILD_DIR COMMAND.wasm RECIPE_RUNNER numpy|pandas|matplotlib [FILE…]
    run.py BUILD_DIR COMMAND.wasm RECIPE_RUNNER smoke|hostile|speed

Needs the folders that run.sh prepares.
"""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Where the recipe has put each package.
STAGES = {"numpy": "numpy", "pandas": "pandas", "matplotlib": "plots"}
# Only on other machines, or only about building and typing: nothing to learn here.
LEFT_OUT = (
    "numpy/f2py", "numpy/typing", "numpy/distutils", "numpy/_pyinstaller", "test_simd", "test_cpu_", "numpy/tests/test_public_api", "test_cython",
    "test_limited_api", "arrays/arrow",  # pyarrow is not in the image
)  # fmt: skip
# A part of pandas' tests that is representative and ends within the hour.
PANDAS = (
    "arithmetic", "apply", "arrays", "base", "copy_view", "dtypes", "extension", "frame", "groupby", "io/formats/style", "io/json",
    "io/parser", "reductions", "resample", "reshape", "window",
)  # fmt: skip
# What draws, writes files or calls the compiled modules; not what is about windows, LaTeX, animations, documents.
MATPLOTLIB = (
    "agg", "agg_filter", "arrow_patches", "artist", "axes", "axis", "backend_pdf", "backend_ps", "backend_svg", "bbox_tight", "bezier",
    "category", "cbook", "collections", "colorbar", "colors", "constrainedlayout", "container", "contour", "cycles", "dates", "figure",
    "font_manager", "ft2font", "gridspec", "image", "legend", "lines", "marker", "mathtext", "mlab", "offsetbox", "patches", "path",
    "patheffects", "png", "polar", "quiver", "rcparams", "scale", "simplification", "skew", "spines", "streamplot", "style", "subplots",
    "table", "text", "textpath", "ticker", "tightlayout", "transforms", "triangulation", "units",
)  # fmt: skip
# Ours, in this folder.
SCRIPTS = ("smoke", "hostile", "speed")
# Starting takes longer than most files of pandas do. The others' have one process each.
FILES_PER_PROCESS = {"numpy": 1, "pandas": 16, "matplotlib": 1}
# What takes longer is counted as failed.
SECONDS = int(os.environ.get("SECONDS_PER_PROCESS", "1800"))
JOBS = int(os.environ.get("JOBS", "1"))


def main(build, command, runner, package, *files):
    build = Path(build)
    if package in SCRIPTS:
        slot = build / "data/tests"
        slot.mkdir(parents=True, exist_ok=True)
        line = command_line(build, command, runner, slot, f"{package}.py")
        sys.exit(subprocess.run(line).returncode)
    site = build / "data/stage" / STAGES[package] / "site"
    wanted = list(files) or sorted(test_files(site, package))
    work = build / "data/tests" / package
    work.mkdir(parents=True, exist_ok=True)
    totals = {"passed": 0, "failed": {}, "skipped": 0, "expected": 0, "missing": {}}
    with ThreadPoolExecutor(JOBS) as pool:
        groups = list(grouped(wanted, FILES_PER_PROCESS[package]))
        for files, result in zip(groups, pool.map(lambda files: run(build, command, runner, work, package, files), groups)):
            for name, value in result.items():
                if name == "status":
                    continue
                if isinstance(value, dict):
                    totals[name].update(value)
                else:
                    totals[name] += value
            print(f"{' '.join(files)}: {result['passed']} passed, {len(result['failed'])} failed, {len(result['missing'])} cannot run", flush=True)
    report(totals)
    (work / "failures.json").write_text(json.dumps(totals, indent=1))


def test_files(site, package):
    for path in site.joinpath(package).rglob("test_*.py"):
        name = path.relative_to(site).as_posix()
        if any(part in name for part in LEFT_OUT):
            continue
        if package == "pandas" and not name.removeprefix("pandas/tests/").startswith(PANDAS):
            continue
        if package == "matplotlib" and name not in (f"matplotlib/tests/test_{part}.py" for part in MATPLOTLIB):
            continue
        yield name


def grouped(files, most):
    """Files of one folder, some at a time: those of another may want another conftest.py."""
    for _, siblings in itertools.groupby(files, os.path.dirname):
        siblings = list(siblings)
        for begin in range(0, len(siblings), most):
            yield siblings[begin : begin + most]


def run(build, command, runner, work, package, files):
    slot = work / files[0].replace("/", ".")
    slot.mkdir(exist_ok=True)
    result = slot / "result.json"
    result.unlink(missing_ok=True)
    line = command_line(build, command, runner, slot, "inside.py", "/results/result.json", *(f"/{package}/{file}" for file in files))
    line += ["-c", {"numpy": "/src/numpy/pytest.ini"}.get(package, f"/src/{package}/pyproject.toml")]
    with open(slot / "log", "w") as log:
        try:
            subprocess.run(line, stdout=log, stderr=log, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            pass
    if result.exists():
        return json.loads(result.read_text())
    last = (slot / "log").read_text(errors="replace").strip().splitlines()[-1:]
    return {"passed": 0, "failed": {f"{files[0]} and those after it (did not end)": " ".join(last)[:300]}, "skipped": 0, "expected": 0, "missing": {}}


def command_line(build, command, runner, slot, script, *arguments):
    """A script of this folder in the guest, with `slot` as the place it may write to."""
    data = build / "data"
    folders = {
        build / "out": "/lib", **{data / "stage" / stage / "site": f"/{package}" for package, stage in STAGES.items()},
        data / "test-packages": "/pure", Path(__file__).parent: "/tests", data / "src": "/src", slot: "/results",
    }  # fmt: skip
    mounts = [argument for host, guest in folders.items() for argument in ("--dir", f"{host}::{guest}")]
    start = START.format(search="/lib/stdlib.zip:/numpy:/pandas:/matplotlib:/pure", script=f"/tests/{script}")
    return [sys.executable, runner, command, *mounts, "--", "-c", start, *arguments]


# The runner's search path is the standard library alone.
START = """
import os, sys
sys.path[:] = {search!r}.split(":")
sys.argv[0] = {script!r}
os.environ.update(TMPDIR="/results", HOME="/results")
exec(compile(open({script!r}).read(), {script!r}, "exec"))
"""


def report(totals):
    for name, why in sorted(totals["failed"].items()):
        print(f"FAILED {name}\n    {why}")
    ran = totals["passed"] + len(totals["failed"])
    print(
        f"{totals['passed']} passed, {len(totals['failed'])} failed ({100 * totals['passed'] / max(ran, 1):.2f} % passed), "
        f"{totals['skipped']} skipped, {totals['expected']} failed as expected, {len(totals['missing'])} cannot run in a sandbox"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
