"""Project Context: what the package is to look like, and the security tests it names."""

from __future__ import annotations

import inspect
import json
import typing
from pathlib import Path

import pydantic

import belljar
from belljar import (
    BaseSandbox,
    ExecutionPolicy,
    JavaScriptSandbox,
    PythonSandbox,
    RuntimeType,
    SandboxResult,
    Status,
    create_sandbox,
)

SOURCES = sorted(Path(belljar.__file__).parent.rglob("*.py"))


# ## Code style


def test_type_hints_required() -> None:
    for name in belljar.__all__:
        thing = getattr(belljar, name)
        if inspect.isfunction(thing):
            assert "return" in typing.get_type_hints(thing), name
    assert (Path(belljar.__file__).parent / "py.typed").exists()


def test_future_annotations() -> None:
    for path in SOURCES:
        if path.name != "__init__.py":
            assert "from __future__ import annotations" in path.read_text(), path.name


def test_pydantic_models() -> None:
    for model in (ExecutionPolicy, SandboxResult):
        assert issubclass(model, pydantic.BaseModel)


# ## Architecture patterns


def test_factory_pattern() -> None:
    policy = ExecutionPolicy(fuel_budget=1_000_000_000, memory_bytes=64 * 1024 * 1024)
    sandbox = create_sandbox(runtime=RuntimeType.PYTHON, policy=policy)
    assert isinstance(sandbox, PythonSandbox) and isinstance(sandbox, BaseSandbox)
    result = sandbox.execute("print('from the factory')")
    assert isinstance(result, SandboxResult) and result.stdout == "from the factory\n"
    assert result.meta.resource_limits.fuel_budget == 1_000_000_000
    assert result.meta.resource_limits.memory_bytes == 64 * 1024 * 1024
    sandbox.destroy()


def test_supported_runtimes() -> None:
    with create_sandbox(RuntimeType.JAVASCRIPT) as sandbox:
        assert isinstance(sandbox, JavaScriptSandbox)
        assert sandbox.execute("console.log([1, 2].length)").stdout == "2\n"
        assert sandbox.validate_code("let x = 1") and not sandbox.validate_code("let x =")
    with create_sandbox("python") as python:
        version = python.execute("import sys; print(sys.implementation.name)").stdout
        assert version == "cpython\n"


# ## Testing strategy: the security tests it names


def test_infinite_loop() -> None:
    with create_sandbox(policy=ExecutionPolicy(fuel_budget=50_000_000)) as sandbox:
        result = sandbox.execute("while True: pass")
    assert result.status is Status.OUT_OF_FUEL and "OutOfFuel" in result.stderr


def test_fs_escape(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("none of yours")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path / "secret")
    with create_sandbox(workspace=workspace) as sandbox:
        for path in (
            "/etc/passwd",
            "../secret",
            "/app/../secret",
            "link",
            str(tmp_path / "secret"),
        ):
            result = sandbox.execute(f"print(open({path!r}).read())")
            assert not result.success, path
            assert "none of yours" not in result.stdout + result.stderr


def test_memory_blowup() -> None:
    with create_sandbox(policy=ExecutionPolicy(memory_bytes=64_000_000)) as sandbox:
        result = sandbox.execute("x = []\nwhile True: x.append(' ' * 1_000_000 + str(len(x)))")
    assert result.status is Status.OUT_OF_MEMORY


# ## Security constraints


def test_no_network_access() -> None:
    with create_sandbox() as sandbox:
        code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
        assert not sandbox.execute(code).success
        assert sandbox.execute("1").meta.resource_limits.network == "denied"


def test_env_var_whitelist() -> None:
    with create_sandbox(policy=ExecutionPolicy(env={"SEEN": "yes"})) as sandbox:
        result = sandbox.execute("import os, json; print(json.dumps(sorted(os.environ)))")
    assert json.loads(result.stdout) == ["LC_ALL", "PYTHONIOENCODING", "PYTHONUTF8", "SEEN"]
