"""Runs pytest inside the guest and writes what came of it as JSON.

    inside.py RESULT_FILE PYTEST_ARGUMENT…
"""

import json
import os
import sys

WORK = "/results"
os.environ.update(TMPDIR=f"{WORK}/tmp", HOME=f"{WORK}/tmp", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
os.makedirs(f"{WORK}/tmp", exist_ok=True)
os.chdir(WORK)
# pytest goes back to where it began, which is "/" for it; a WASI program has no such place.
os.chdir = lambda path: None
# Its temporary folders must belong to the user; WASI knows no users, and calls them all 0.
os.getuid = lambda: 0
open(f"{WORK}/null", "w").close()
os.devnull = f"{WORK}/null"

import types  # noqa: E402

import numpy  # noqa: E402, F401
import pytest  # noqa: E402


class NoCtypes(types.ModuleType):
    """Whole files of tests import ctypes for the sake of a few."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError("No module named '_ctypes'")


try:
    import pandas  # noqa: F401
except ImportError:
    pass
# It does without ctypes where there is none, and must not meet the stand-in.
import numpy.ctypeslib  # noqa: E402, F401

sys.modules["ctypes"] = NoCtypes("ctypes")

# What a sandbox does not have. A test that fails for want of it says nothing about the package.
MISSING = (
    "can't start new thread", "No module named '_ctypes'", "No module named 'ctypes'", "No module named 'mmap'",
    "No module named '_multiprocessing'", "No module named 'fcntl'", "No module named 'resource'", "No module named 'ssl'",
    "does not support processes", "[Errno 58] Not supported", "module 'os' has no attribute 'dup", "module 'os' has no attribute 'pipe'",
    "module 'os' has no attribute 'fork'", "has no attribute 'chmod'",
    "threads", "Function not implemented", "No module named '_posixsubprocess'", "module 'os' has no attribute 'umask'",
    # What pandas' sdist does not bring along: data files, and a server's fixture.
    "--no-strict-data-files is not set", "fixture 'httpserver' not found",
    "'NoneType' object has no attribute 'c_", "does not offer memory-mapped files", "module 'signal' has no attribute", "No module named '_ssl'", "No module named 'termios'", "No module named 'pwd'",
)  # fmt: skip


class Recorder:
    def __init__(self):
        self.passed = self.skipped = self.expected = 0
        self.failed, self.missing = {}, {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed += 1
        elif hasattr(report, "wasxfail"):
            self.expected += report.when == "call"
        elif report.skipped:
            self.skipped += 1
        elif report.failed:
            self.note(report.nodeid, report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.note(f"{report.nodeid} (collection)", report)

    def note(self, name, report):
        text = str(report.longrepr)
        last = next((line for line in reversed(text.splitlines()) if line.startswith("E ")), text[-200:])
        (self.missing if any(word in text[-4000:] for word in MISSING) else self.failed)[name] = last[:300]


def main(result, *arguments):
    recorder = Recorder()
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--capture=sys", "--tb=short", *arguments]
    status = pytest.main(arguments, plugins=[recorder])
    with open(result, "w") as out:
        json.dump({"status": int(status), **vars(recorder)}, out)


main(*sys.argv[1:])
