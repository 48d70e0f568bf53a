"""Capability: Sandbox Code Execution. One test for each scenario, in its order.

"Local" is the native backend: a subprocess, and a jail around it. `run_python_code` is the tool of
the specification; what it says about `ExecutionResult` is seen through `create_sandbox`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from belljar import (
    BackendUnavailableError,
    ExecutionPolicy,
    SandboxResult,
    Status,
    create_sandbox,
    run_code,
    run_python_code,
)

#: What starting an interpreter and a busy machine may add, in seconds.
SLOWNESS = 20.0


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test is a project of its own, with nothing configured."""
    for name in list(os.environ):
        if name.startswith(("SANDBOX_", "DOCKER_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def local(code: str, **policy: Any) -> SandboxResult:
    try:
        with create_sandbox(backend="local", policy=ExecutionPolicy(**policy)) as sandbox:
            return sandbox.execute(code)
    except BackendUnavailableError as error:
        pytest.skip(f"the local backend cannot be used here: {error.message}")


def needs_local() -> None:
    local("1")


def fields(result: SandboxResult) -> set[str]:
    def walk(prefix: str, value: Any) -> set[str]:
        if not isinstance(value, dict):
            return set()
        names = {f"{prefix}.{name}" for name in value}
        return names.union(*(walk(f"{prefix}.{name}", item) for name, item in value.items()))

    return walk("", json.loads(result.model_dump_json()))


def test_scenario_1_local_execution() -> None:
    result = local("print('Hello')")
    assert (result.stdout, result.exit_code, result.meta.runtime) == ("Hello\n", 0, "local")
    assert 0 < result.duration < 1
    assert run_python_code("print('Hello')") == "Hello\n"


def test_scenario_2_docker_execution(
    docker_engine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in docker_engine.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SANDBOX_TYPE", "docker")
    assert "nodename='belljar'" in run_python_code("import os; print(os.uname())")
    code = "import socket; print([name for _, name in socket.if_nameindex()])"
    assert run_python_code(code) == "['lo']\n"


def test_scenario_3_timeout_enforcement() -> None:
    code = "while True:\n    pass"
    result = local(code, timeout_seconds=5)
    assert (result.status, result.exit_code) == (Status.TIMEOUT, -1)
    assert result.meta.timed_out and "timed out" in result.stderr
    assert 5 <= result.duration < 5 + SLOWNESS
    assert run_python_code(code, timeout=1).startswith("Error: timed out after 1 s\n")


def test_scenario_4_output_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_local()
    code = 'for i in range(100000):\n    print(f"Line {i}: " + "X" * 100)'
    text = run_python_code(code)
    assert len(text.rstrip("\n")) <= 10 * 1024
    assert text.rstrip("\n").endswith("... (output truncated)")
    monkeypatch.setenv("SANDBOX_MAX_OUTPUT_KB", "3")
    assert len(run_python_code(code).rstrip("\n")) <= 3 * 1024
    result = local(code, stdout_max_bytes=10 * 1024)
    assert result.meta.truncated and result.stdout.endswith("... (output truncated)")


def test_scenario_5_non_zero_exit_code() -> None:
    code = 'raise ValueError("Something went wrong")'
    result = local(code)
    assert (result.exit_code, result.success) == (1, False)
    assert result.stderr == (
        'Traceback (most recent call last):\n  File "<sandbox>", line 1, in <module>\n'
        f"    {code}\nValueError: Something went wrong\n"
    )
    assert run_python_code(code).startswith("Error: ValueError: Something went wrong\nTraceback")
    assert local("import sys; sys.exit(3)").exit_code == 3


def test_scenario_6_dangerous_import_blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_local()
    code = 'import subprocess\nsubprocess.run(["rm", "-rf", "/"])'
    monkeypatch.setenv("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true")
    text = run_python_code(code)
    assert text.startswith("Error: blocked import: subprocess\n")
    assert "\nSuggestion: " in text
    for module in ("os", "shutil", "socket"):
        assert run_python_code(f"import {module}").startswith(f"Error: blocked import: {module}\n")
    monkeypatch.delenv("SANDBOX_BLOCK_DANGEROUS_IMPORTS")
    blocked = local(code, block_imports=["subprocess"])
    assert blocked.status is Status.BLOCKED
    assert blocked.meta.blocked_imports == ["subprocess"]
    assert run_python_code("import subprocess; print('allowed')") == "allowed\n"


def test_scenario_7_missing_docker_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_TYPE", "docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    text = run_python_code("print('Hello')")
    assert text.startswith("Error: ")
    assert "Docker daemon not available" in text
    assert "Set SANDBOX_TYPE=local or start Docker daemon" in text


def test_scenario_8_working_directory_isolation(project: Path) -> None:
    needs_local()
    code = 'with open("test.txt", "w") as f:\n    f.write("data")\nprint(open("test.txt").read())'
    assert run_python_code(code) == "data\n"
    assert list(project.iterdir()) == []
    with create_sandbox(backend="local") as sandbox:
        result = sandbox.execute(code)
        assert result.files_created == ["test.txt"]
        workspace = Path(result.workspace_path)
        assert (workspace / "test.txt").read_text() == "data"
    assert not workspace.exists()


@pytest.mark.parametrize(
    ("policy", "after_good", "after_bad"), [("on_error", 0, 1), ("always", 1, 2), ("never", 0, 0)]
)
def test_scenario_9_execution_artifact_storage(
    project: Path, monkeypatch: pytest.MonkeyPatch, policy: str, after_good: int, after_bad: int
) -> None:
    needs_local()
    monkeypatch.setenv("SANDBOX_STORE_CODE", policy)

    def kept() -> list[Path]:
        return sorted((project / "artifacts" / "executions").glob("*.json"))

    assert run_python_code("print('fine')") == "fine\n"
    assert len(kept()) == after_good
    run_python_code("print('so far'); 1 / 0")
    assert len(kept()) == after_bad
    for path in kept()[-1:]:
        assert re.fullmatch(r"20\d{6}T\d{6}\.\d+Z_[0-9a-f]{12,}\.json", path.name)
        artifact = json.loads(path.read_text())
        assert artifact["code"] == "print('so far'); 1 / 0"
        assert artifact["result"]["error"]["name"] == "ZeroDivisionError"
        assert artifact["timestamp"].endswith("Z") and artifact["metadata"]["execution_id"]


def test_scenario_10_multi_language_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_SUPPORTED_LANGUAGES", "python,javascript")
    monkeypatch.setenv("SANDBOX_TYPE", "wasm")
    assert run_code("console.log('Hi')", language="javascript") == "Hi\n"
    with create_sandbox("javascript") as script, create_sandbox("python") as python:
        said, printed = script.execute("console.log('Hi')"), python.execute("print('Hi')")
    assert said.stdout == printed.stdout == "Hi\n"
    assert fields(said) == fields(printed)
    monkeypatch.setenv("SANDBOX_SUPPORTED_LANGUAGES", "python")
    refused = run_code("console.log('Hi')", language="javascript")
    assert "javascript is not among the languages that are offered" in refused


def test_the_tool_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interface of the tool: all errors are returned as strings."""
    assert run_python_code(None).startswith("Error: code is text")  # type: ignore[arg-type]
    assert run_python_code("\udc80").startswith("Error: ")
    assert run_code("1", language="ruby").startswith("Error: ")
    assert run_python_code("1", timeout=-1).startswith("Error: ")
    monkeypatch.setenv("BELLJAR_BIN", "/nowhere/belljar")
    assert run_python_code("1").startswith("Error: BELLJAR_BIN names /nowhere/belljar")
