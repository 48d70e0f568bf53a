"""Other backends, through the same interface, where they can be used here."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Make

from belljar import BackendUnavailableError, Engine, ExecutionPolicy, create_sandbox, find_binary

AGENT = ExecutionPolicy.agent()


@pytest.fixture
def daemon(tmp_path: Path, home: Path) -> Iterator[Engine]:
    """A process that knows of a running daemon."""
    directory = tmp_path / "socket"
    directory.mkdir(mode=0o700)
    env = {
        **os.environ,
        "BELLJAR_HOME": str(home),
        "BELLJAR_SOCKET": str(directory / "daemon.sock"),
    }
    command = [str(find_binary()), "daemon", "start", "--foreground", "--workers", "1"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        try:
            deadline = time.monotonic() + 60
            while not (directory / "daemon.sock").exists():
                if running.poll() is not None or time.monotonic() > deadline:
                    running.kill()
                    said = running.stdout.read().decode() if running.stdout else ""
                    pytest.skip(f"no daemon can be started here: {said.strip()}")
                time.sleep(0.05)
            with Engine(env=env) as engine:
                yield engine
        finally:
            running.terminate()


def test_a_daemon_is_used_when_asked_for(daemon: Engine) -> None:
    name = f"python-{os.getpid()}-{time.monotonic_ns()}"
    tools = {"twice": lambda x: 2 * x}
    with create_sandbox(backend="daemon", engine=daemon, tools=tools, policy=AGENT) as sandbox:
        sandbox.initialize()
        result = sandbox.execute("open('made.txt', 'w').write('x')\ntwice(21)")
        assert (result.value, result.files_created) == (42, ["made.txt"])
        fork = sandbox.fork()
        assert fork.execute("twice(4)").value == 8
        fork.destroy()
    with create_sandbox(backend="daemon", engine=daemon, session_id=name) as sandbox:
        sandbox.execute("x = 1")
    with create_sandbox(backend="daemon", engine=daemon, session_id=name) as sandbox:
        assert sandbox.execute("x").value == 1


def test_native_behaves_the_same(make: Make) -> None:
    lines: list[str] = []
    try:
        sandbox = make(
            backend="native",
            policy=AGENT,
            tools={"twice": lambda x: 2 * x},
            on_stdout=lines.append,
        )
    except BackendUnavailableError as error:
        pytest.skip(f"the native backend cannot be used here: {error.message}")
    sandbox.initialize([1, 2])
    result = sandbox.execute("print('seen')\nx = twice(len(context))\nx")
    assert (result.value, result.meta.runtime, lines) == (4, "local", ["seen\n"])
    assert sandbox.get_variable("x") == 4
    assert sandbox.execute("import inspect; str(inspect.signature(twice))").value == "(x)"


def test_the_variable_names_the_backend(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    monkeypatch.setenv("SANDBOX_TYPE", "e2b")
    with pytest.raises(BackendUnavailableError, match="e2b"):
        make()
    assert make(backend="wasm").execute("1").meta.runtime == "wasm"
