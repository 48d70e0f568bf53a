"""Runs the packages' own tests in the guest, a process for each file, and prints totals; or one of our scripts.

    run.py BUILD_DIR COMMAND.wasm RECIPE_RUNNER numpy|pandas [FILE…]
    run.py BUILD_DIR COMMAND.wasm RECIPE_RUNNER smoke|hostile|speed

Needs the folders that run.sh prepares.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Only on other machines, or only about building and typing: nothing to learn here.
LEFT_OUT = ("numpy/f2py", "numpy/typing", "numpy/distutils", "numpy/_pyinstaller", "test_simd", "test_cpu_", "numpy/tests/test_public_api", "test_cython", "test_limited_api")
# A part of pandas' tests that is representative and ends within the hour.
PANDAS = (
    "arithmetic", "apply", "arrays", "base", "copy_view", "dtypes", "extension", "frame", "groupby", "indexes", "indexing",
    "io/formats", "io/json", "io/parser", "libs", "reductions", "resample", "reshape", "scalar", "series",
    "strings", "tools", "tseries", "tslibs", "util", "window",
)  # fmt: skip
# Ours, in this folder.
SCRIPTS = ("smoke", "hostile", "speed")
# A file that takes longer is counted as failed.
SECONDS = int(os.environ.get("SECONDS_PER_FILE", "1800"))
JOBS = int(os.environ.get("JOBS", "1"))


def main(build, command, runner, package, *files):
    build = Path(build)
    if package in SCRIPTS:
        slot = build / "data/tests"
        slot.mkdir(parents=True, exist_ok=True)
        line = command_line(build, command, runner, slot, f"{package}.py")
        sys.exit(subprocess.run(line).returncode)
    site = build / "data/stage" / package / "site"
    wanted = list(files) or sorted(test_files(site, package))
    work = build / "data/tests" / package
    work.mkdir(parents=True, exist_ok=True)
    totals = {"passed": 0, "failed": {}, "skipped": 0, "expected": 0, "missing": {}}
    with ThreadPoolExecutor(JOBS) as pool:
        for file, result in zip(wanted, pool.map(lambda file: run(build, command, runner, work, package, file), wanted)):
            for name, value in result.items():
                if name == "status":
                    continue
                if isinstance(value, dict):
                    # pytest names tests from its own root on, which is not the same everywhere.
                    totals[name].update({f"{file}::{test.rpartition('.py')[2].lstrip(':')}": why for test, why in value.items()})
                else:
                    totals[name] += value
            print(f"{file}: {result['passed']} passed, {len(result['failed'])} failed, {len(result['missing'])} cannot run", flush=True)
    report(totals)
    (work / "failures.json").write_text(json.dumps(totals, indent=1))


def test_files(site, package):
    for path in site.joinpath(package).rglob("test_*.py"):
        name = path.relative_to(site).as_posix()
        if any(part in name for part in LEFT_OUT):
            continue
        if package == "pandas" and not name.removeprefix("pandas/tests/").startswith(PANDAS):
            continue
        yield name


def run(build, command, runner, work, package, file):
    slot = work / file.replace("/", ".")
    slot.mkdir(exist_ok=True)
    result = slot / "result.json"
    result.unlink(missing_ok=True)
    line = command_line(build, command, runner, slot, "inside.py", "/results/result.json", f"/{package}/{file}")
    line += ["-c", {"numpy": "/src/numpy/pytest.ini", "pandas": "/src/pandas/pyproject.toml"}[package]]
    with open(slot / "log", "w") as log:
        try:
            subprocess.run(line, stdout=log, stderr=log, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            pass
    if result.exists():
        return json.loads(result.read_text())
    last = (slot / "log").read_text(errors="replace").strip().splitlines()[-1:]
    return {"passed": 0, "failed": {f"{file} (did not end)": " ".join(last)[:300]}, "skipped": 0, "expected": 0, "missing": {}}


def command_line(build, command, runner, slot, script, *arguments):
    """A script of this folder in the guest, with `slot` as the place it may write to."""
    data = build / "data"
    folders = {
        build / "out": "/lib", data / "stage/numpy/site": "/numpy", data / "stage/pandas/site": "/pandas",
        data / "test-packages": "/pure", Path(__file__).parent: "/tests", data / "src": "/src", slot: "/results",
    }  # fmt: skip
    mounts = [argument for host, guest in folders.items() for argument in ("--dir", f"{host}::{guest}")]
    start = START.format(search="/lib/stdlib.zip:/numpy:/pandas:/pure", script=f"/tests/{script}")
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
