"""Whatever is wrong is told by a typed error; nothing hangs."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import Make

import belljar
from belljar import (
    AsyncSandbox,
    BackendUnavailableError,
    BinaryNotFoundError,
    ClosedError,
    Engine,
    ExecutionPolicy,
    InvalidRequestError,
    PolicyValidationError,
    PythonSandbox,
    SandboxError,
    SandboxExecutionError,
    SessionError,
    Snapshot,
    UnenforceableError,
    VersionMismatchError,
    create_sandbox,
    load_policy,
)


@pytest.mark.parametrize(
    "options",
    [
        {"policy": 5},
        {"workspace": 5},
        {"logger": print},
        {"tools": "add"},
        {"tools": [5]},
        {"tools": {5: print}},
        {"on_stdout": "print"},
        {"backend": 7},
        {"session_id": 7},
        {"deferred_tools": "approve"},
        {"wasm_binary_path": 7},
    ],
)
def test_wrong_types_are_type_errors(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        create_sandbox(**options)


def test_unknown_options_are_named() -> None:
    makers: list[Any] = [create_sandbox, PythonSandbox, AsyncSandbox]
    for made in makers:
        with pytest.raises(TypeError, match=r"no option memory; there are: backend, "):
            made(memory=5)


def test_backends_that_are_unknown_or_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'ruby'; there are: python, javascript"):
        create_sandbox("ruby")
    with pytest.raises(InvalidRequestError, match="unknown variant `vm`, expected one of `wasm`"):
        create_sandbox(backend="vm")
    with pytest.raises(BackendUnavailableError, match="e2b"):
        create_sandbox(backend="e2b")
    env = {**os.environ, "BELLJAR_SOCKET": str(tmp_path / "nobody.sock")}
    with Engine(env=env) as engine, pytest.raises(BackendUnavailableError) as refused:
        create_sandbox(backend="daemon", engine=engine)
    assert "daemon" in refused.value.message and refused.value.hint is not None


def test_a_rule_that_a_backend_cannot_enforce_is_refused() -> None:
    with pytest.raises(UnenforceableError, match="native backend cannot enforce fuel_budget"):
        create_sandbox(backend="native", policy=ExecutionPolicy(fuel_budget=10**9))
    # What nobody has asked for is not in the way.
    try:
        create_sandbox(backend="native", policy=ExecutionPolicy.agent()).destroy()
    except BackendUnavailableError as error:
        pytest.skip(f"the native backend cannot be used here: {error.message}")


def test_a_policy_that_only_the_server_can_judge_is_a_policy_error() -> None:
    policy = ExecutionPolicy(mount_data_dir="/tmp", guest_data_path="/app/data")
    with pytest.raises(PolicyValidationError) as refused:
        create_sandbox(policy=policy)
    assert refused.value.concerns("guest_data_path")


def test_wrong_types_in_a_policy_are_policy_errors(tmp_path: Path) -> None:
    wrong: list[tuple[str, Any]] = [
        ("fuel_budget", "many"),
        ("fuel_budget", 1.5),
        ("fuel_budget", True),
        ("timeout_seconds", math.inf),
        ("timeout_seconds", math.nan),
        ("env", {"A": 1}),
        ("network", "allowed"),
        ("block_imports", "os"),
        ("image", "science"),
    ]
    for field, value in wrong:
        with pytest.raises(PolicyValidationError) as refused:
            ExecutionPolicy(**{field: value})
        assert refused.value.issues[0].field.partition(".")[0] == field
    with pytest.raises(PolicyValidationError):
        create_sandbox(policy={"timeout": 5})
    broken = tmp_path / "policy.toml"
    broken.write_text("fuel_budget = = 1")
    with pytest.raises(PolicyValidationError, match=r"is no TOML: .*policy\.toml"):
        load_policy(broken)
    with pytest.raises(SandboxExecutionError, match="cannot read policy file"):
        load_policy(tmp_path)


def test_code_that_is_no_text_is_refused(make: Make) -> None:
    sandbox = make()
    for code in (None, 5, b"print(1)"):
        with pytest.raises(TypeError, match="code is text"):
            sandbox.execute(code)
        with pytest.raises(TypeError, match="code is text"):
            sandbox.validate_code(code)
    with pytest.raises(InvalidRequestError, match="surrogates not allowed"):
        sandbox.execute("print('\udc80')")
    with pytest.raises(SandboxExecutionError, match="at most 16 MiB are accepted"):
        sandbox.execute("#" * (16 * 1024 * 1024 + 1))
    with pytest.raises(InvalidRequestError, match="a message has at most"):
        sandbox.execute("#" * (64 * 1024 * 1024))
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_a_context_that_json_cannot_carry_is_refused(make: Make) -> None:
    sandbox = make()
    circular: list[Any] = []
    circular.append(circular)
    deep: Any = 0
    for _ in range(70):
        deep = [deep]
    heavy = [{"a": 1}] * 300_000
    for context in ({1, 2}, object(), math.nan, circular, deep, "\ud800", heavy):
        with pytest.raises(InvalidRequestError):
            sandbox.initialize(context)
    for context in ({"fine": [1]}, [{"a": 1}] * 100_000):
        sandbox.initialize(context)
        assert sandbox.execute("len(context)").value == len(context)


def test_what_needs_a_session_says_so(make: Make) -> None:
    sandbox = make()
    for ask in (
        lambda: sandbox.get_variable("x"),
        sandbox.snapshot,
        sandbox.fork,
        lambda: sandbox.resume({1: True}),
    ):
        with pytest.raises(SessionError):
            ask()
    sandbox.initialize()
    with pytest.raises(SessionError, match="does not wait for any answer"):
        sandbox.resume({})


def test_a_damaged_snapshot_is_refused(make: Make) -> None:
    sandbox = make()
    with pytest.raises(SandboxExecutionError, match="snapshot"):
        sandbox.restore(Snapshot(b"not a snapshot"))
    with pytest.raises(SandboxExecutionError, match="snapshot"):
        sandbox.restore(Snapshot(b""))
    with pytest.raises(TypeError):
        sandbox.restore(b"bytes")
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_files_stay_inside(make: Make) -> None:
    sandbox = make()
    for path in ("../x", "/etc/passwd", "", "a/../../x"):
        with pytest.raises(SandboxExecutionError):
            sandbox.write_file(path, b"x")
        with pytest.raises(SandboxExecutionError):
            sandbox.read_file(path)
    with pytest.raises(TypeError):
        sandbox.write_file("x", 5)
    with pytest.raises(TypeError):
        sandbox.read_file(5)


def test_use_after_destroy_is_refused(make: Make) -> None:
    sandbox = make()
    sandbox.destroy()
    sandbox.destroy()
    sandbox.cancel()
    for ask in (lambda: sandbox.execute("1"), sandbox.initialize, sandbox.list_files):
        with pytest.raises(ClosedError, match="the sandbox was destroyed"):
            ask()
    unused = PythonSandbox()
    unused.destroy()
    with pytest.raises(ClosedError):
        unused.execute("1")

    async def use() -> None:
        waiting = AsyncSandbox()
        await waiting.destroy()
        with pytest.raises(ClosedError):
            await waiting.execute("1")

    asyncio.run(use())


def test_a_missing_binary_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BELLJAR_BIN", str(tmp_path / "belljar"))
    with pytest.raises(BinaryNotFoundError, match="BELLJAR_BIN names") as missing:
        create_sandbox(engine=Engine())
    assert isinstance(missing.value, FileNotFoundError)
    assert missing.value.hint is not None
    with pytest.raises(BinaryNotFoundError, match="cannot be started"):
        create_sandbox(engine=Engine(binary=tmp_path / "nothing"))
    monkeypatch.delenv("BELLJAR_BIN")
    monkeypatch.setattr("belljar.binary._bundled", lambda: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinaryNotFoundError, match="neither in this package nor in the PATH"):
        belljar.find_binary()


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_binary_of_another_version_is_told(tmp_path: Path) -> None:
    answer = '{"jsonrpc":"2.0","id":1,"result":{"belljar":"9.9.9","protocol":99,"pid":1}}'
    other = program(
        tmp_path / "other", f"import sys\nsys.stdin.readline()\nprint('{answer}', flush=True)\n"
    )
    with pytest.raises(VersionMismatchError) as refused:
        create_sandbox(engine=Engine(binary=other))
    assert "is belljar 9.9.9 and speaks version 99 of the protocol" in str(refused.value)
    assert "this package speaks version 1" in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "print('hello', flush=True)\nimport time; time.sleep(60)",
        "import sys; sys.stderr.write('out of order'); sys.exit(3)",
        "print('[]', flush=True)\nimport time; time.sleep(60)",
    ],
)
def test_a_program_that_is_no_belljar_is_told(tmp_path: Path, body: str) -> None:
    with pytest.raises(SandboxExecutionError, match="does not serve sandboxes") as refused:
        create_sandbox(engine=Engine(binary=program(tmp_path / "other", body)))
    if "stderr" in body:
        assert "with exit code 3 (out of order)" in str(refused.value)


def test_errors_can_be_pickled() -> None:
    for error in (
        PolicyValidationError([belljar.PolicyIssue("a", "b", "c")]),
        SandboxExecutionError("x", kind="k", hint="h"),
        BinaryNotFoundError("y"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert (str(copy), copy.kind, copy.hint) == (str(error), error.kind, error.hint)


def test_every_error_is_a_sandbox_error() -> None:
    for name in belljar.__all__:
        if name.endswith("Error") and name not in ("GuestError", "ToolError"):
            assert issubclass(getattr(belljar, name), SandboxError), name
