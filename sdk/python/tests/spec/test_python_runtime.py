"""Capability: Python Runtime. One test for each scenario of the specification, in its order.

`print(sys.path)` there means `import sys; print(sys.path)`.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from belljar import (
    BaseSandbox,
    Engine,
    ExecutionPolicy,
    PythonSandbox,
    SandboxExecutionError,
    SandboxLogger,
    SandboxResult,
    Status,
    find_binary,
)


class Minimal(BaseSandbox):
    """The smallest subclass: all goes well, and code ending in `+` does not compile."""

    def execute(self, code: str) -> SandboxResult:
        return SandboxResult(success=True, status=Status.OK, stdout=code)

    def validate_code(self, code: str) -> bool:
        return not code.endswith("+")


@pytest.fixture
def sandbox(tmp_path: Path) -> Any:
    with PythonSandbox(ExecutionPolicy(), tmp_path) as made:
        yield made


def captured() -> tuple[SandboxLogger, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    return SandboxLogger(events.append), events


def run(code: str, **policy: Any) -> SandboxResult:
    with PythonSandbox(ExecutionPolicy(**policy)) as sandbox:
        return sandbox.execute(code)


# ## Requirement: Base Sandbox Abstraction


def test_define_abstract_execute_method() -> None:
    class Without(BaseSandbox):
        def validate_code(self, code: str) -> bool:
            return True

    with pytest.raises(TypeError, match="execute"):
        Without()  # type: ignore[abstract]
    result = Minimal().execute("x")
    assert isinstance(result, SandboxResult) and result.stdout == "x"


def test_define_abstract_validate_code_method(sandbox: PythonSandbox) -> None:
    class Without(BaseSandbox):
        def execute(self, code: str) -> SandboxResult:
            return SandboxResult(success=True, status=Status.OK)

    with pytest.raises(TypeError, match="validate_code"):
        Without()  # type: ignore[abstract]
    assert Minimal().validate_code("x = 1") is True
    assert Minimal().validate_code("x = 1 +") is False
    assert sandbox.validate_code("open('/app/ran', 'w')") is True
    assert not (sandbox.workspace / "ran").exists()


def test_provide_shared_initialization() -> None:
    policy, (logger, _) = ExecutionPolicy(fuel_budget=12_345), captured()
    given = Minimal(policy, Path("/tmp/w"), logger)
    assert given.policy is policy
    assert given.workspace == Path("/tmp/w")
    assert given.logger is logger
    assert isinstance(Minimal().logger, SandboxLogger)
    assert Minimal().policy == ExecutionPolicy()


def test_provide_log_helper_method() -> None:
    told: list[SandboxResult] = []

    class Listening(SandboxLogger):
        def log_execution_complete(self, result: SandboxResult) -> None:
            told.append(result)

    sandbox = Minimal(logger=Listening())
    result = sandbox.execute("x")
    sandbox._log_execution_metrics(result)
    assert told == [result]


# ## Requirement: Python Sandbox Implementation


def test_execute_python_code_successfully(sandbox: PythonSandbox) -> None:
    result = sandbox.execute("print('Hello')")
    assert result.success is True
    assert result.stdout == "Hello\n"
    assert isinstance(result.fuel_consumed, int) and result.fuel_consumed > 0


def test_execute_with_injected_setup_code(packages: Engine) -> None:
    with PythonSandbox(engine=packages) as sandbox:
        assert sandbox.execute("import urllib3; print('OK')").stdout == "OK\n"
        path = sandbox.execute("import sys; print(sys.path)").stdout
        assert path == "['/lib/python3.13', '/app', '/app/site-packages']\n"


def test_execute_without_injected_setup(packages: Engine) -> None:
    with PythonSandbox(engine=packages) as sandbox:
        result = sandbox.execute("import sys; print(sys.path)", inject_setup=False)
        assert result.stdout == "['/lib/python3.13']\n"
        missing = sandbox.execute("import urllib3", inject_setup=False)
    assert missing.error is not None
    assert missing.error.message == "No module named 'urllib3'"


def test_handle_execution_errors_gracefully(sandbox: PythonSandbox) -> None:
    result = sandbox.execute("raise ValueError('test')")
    assert result.success is False
    assert result.stderr.endswith("ValueError: test\n")
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_reuse_existing_host_layer_logic(sandbox: PythonSandbox, tmp_path: Path) -> None:
    """The host layer is the `belljar` program: what it runs itself behaves the same."""
    binary = str(find_binary())
    for code in (
        "import os, sys; print(os.getcwd(), os.listdir('/'), dict(os.environ), sys.argv)",
        "open('/etc/passwd')",
        "x = 'a' * 200_000_000",
    ):
        command = [binary, "run", "--preset", "strict", "--json", "-c", code]
        said = subprocess.run(
            [*command, "--workspace", str(tmp_path)], capture_output=True, check=False
        )
        direct, delegated = json.loads(said.stdout), sandbox.execute(code)
        for field in ("status", "exit_code", "stdout", "stderr", "files_created"):
            assert json.loads(delegated.model_dump_json())[field] == direct[field]
        assert delegated.meta.isolation == direct["meta"]["isolation"]


# ## Requirement: Python Code Validation


def test_validate_syntactically_correct_code(sandbox: PythonSandbox) -> None:
    assert sandbox.validate_code("x = 1 + 2") is True


def test_reject_syntactically_invalid_code(sandbox: PythonSandbox) -> None:
    assert sandbox.validate_code("x = 1 +") is False


def test_validation_does_not_execute_code(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("still here")
    logger, events = captured()
    with PythonSandbox(ExecutionPolicy(), tmp_path, logger) as sandbox:
        assert sandbox.validate_code("import os; os.system('rm -rf /')") is True
        code = "import os\nos.remove('/app/precious.txt')\nopen('/app/new', 'w')\nprint(1)"
        assert sandbox.validate_code(code) is True
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
    assert (tmp_path / "precious.txt").read_text() == "still here"
    assert events == []


def test_use_python_compile_for_validation(sandbox: PythonSandbox) -> None:
    error = sandbox.check_code("x = 1 +")
    assert error is not None
    assert (error.name, error.message) == ("SyntaxError", "invalid syntax (<sandbox>, line 1)")
    # Found by the compiler after parsing, as only compile() does.
    assert sandbox.validate_code("return 5") is False
    assert sandbox.validate_code("def f():\n  x = 1\n  nonlocal x") is False
    # The grammar that will run: the guest's, however new.
    assert sandbox.validate_code("type X = int\nmatch 1:\n  case _: pass") is True


# ## Requirement: File Delta Detection


def test_detect_created_files(sandbox: PythonSandbox) -> None:
    result = sandbox.execute("open('/app/output.txt', 'w').write('data')")
    assert result.files_created == ["output.txt"]
    assert (sandbox.workspace / "output.txt").read_text() == "data"


def test_detect_modified_files(sandbox: PythonSandbox) -> None:
    (sandbox.workspace / "input.txt").write_text("some")
    result = sandbox.execute("with open('/app/input.txt', 'a') as f: f.write('more')")
    assert result.files_modified == ["input.txt"]
    assert (sandbox.workspace / "input.txt").read_text() == "somemore"


def test_exclude_user_code_py_from_delta(sandbox: PythonSandbox) -> None:
    result = sandbox.execute("open('/app/other.py', 'w').write('x = 1')")
    assert result.files_created == ["other.py"]
    assert not (sandbox.workspace / "user_code.py").exists()


def test_provide_relative_paths(sandbox: PythonSandbox) -> None:
    assert sandbox.workspace.is_absolute()
    code = "import os\nos.mkdir('/app/subdir')\nopen('/app/subdir/file.txt', 'w').close()"
    assert sandbox.execute(code).files_created == ["subdir/file.txt"]


# ## Requirement: Execution Metrics


def test_measure_execution_duration(sandbox: PythonSandbox) -> None:
    sandbox.execute("")
    started = time.perf_counter()
    result = sandbox.execute("import time; time.sleep(0.1)")
    outside = time.perf_counter() - started
    assert 100 <= result.duration_ms < 400
    assert result.duration == result.duration_ms / 1000 <= outside
    quick = sandbox.execute("")
    assert quick.duration_ms > 0 and quick.duration_ms % 1 != 0


def test_capture_fuel_consumption(sandbox: PythonSandbox) -> None:
    assert sandbox.policy.fuel_budget == 2_000_000_000

    def fuel_of(iterations: int) -> int:
        fuel = sandbox.execute(f"for _ in range({iterations}): pass").fuel_consumed
        assert fuel is not None
        return fuel

    one, two = fuel_of(1000), fuel_of(2000)
    iterations = 1000 + (1_000_000 - one) // ((two - one) // 1000)
    assert 950_000 < fuel_of(iterations) < 1_050_000


def test_capture_memory_usage(sandbox: PythonSandbox) -> None:
    result = sandbox.execute("x = bytearray(10_000_000)")
    assert result.memory_used_bytes is not None and result.memory_used_bytes >= 10_000_000


def test_set_workspace_path(tmp_path: Path) -> None:
    workspace = tmp_path / "sandbox-123"
    workspace.mkdir()
    with PythonSandbox(workspace=workspace) as sandbox:
        assert sandbox.execute("").workspace_path == str(workspace)
        assert sandbox.workspace == workspace


# ## Requirement: Security Boundary Preservation


def test_enforce_wasi_filesystem_isolation(sandbox: PythonSandbox) -> None:
    result = sandbox.execute('open("/etc/passwd")')
    assert result.success is False
    assert result.error is not None
    assert result.error.name == "PermissionError"
    assert result.error.message == "[Errno 63] Operation not permitted: '/etc/passwd'"


def test_enforce_fuel_limits() -> None:
    result = run("while True: pass", fuel_budget=100_000)
    assert result.status is Status.OUT_OF_FUEL
    assert result.fuel_consumed == 100_000
    assert "OutOfFuel" in result.stderr


def test_enforce_memory_limits() -> None:
    with PythonSandbox(ExecutionPolicy(memory_bytes=64_000_000)) as sandbox:
        result = sandbox.execute("x = 'a' * 100_000_000")
        assert result.status is Status.OUT_OF_MEMORY
        assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_enforce_output_capping() -> None:
    result = run("print('x' * 10_000)", stdout_max_bytes=1000)
    assert len(result.stdout.encode()) <= 1000
    assert result.stdout.endswith("... (output truncated)")
    assert result.meta.truncated is True


# ## Requirement: Logging Integration


def test_log_execution_start(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    entered, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        go_on.wait(10)

    policy = ExecutionPolicy(fuel_budget=123_456_789, memory_bytes=64_000_000)
    logger = SandboxLogger(events.append)
    with PythonSandbox(policy, tmp_path, logger, tools=[wait]) as sandbox:
        thread = threading.Thread(target=sandbox.execute, args=("wait()",))
        thread.start()
        assert entered.wait(20)
        # The code runs, and nothing but its start was logged.
        assert len(events) == 1
        go_on.set()
        thread.join()
    start = events[0]
    assert start["event"] == "execution_start"
    assert start["runtime"] == "python"
    assert (start["fuel_budget"], start["memory_bytes"]) == (123_456_789, 64_000_000)


def test_log_execution_completion() -> None:
    logger, events = captured()
    with PythonSandbox(logger=logger) as sandbox:
        result = sandbox.execute("print('secret output')")
    assert [event["event"] for event in events] == ["execution_start", "execution_complete"]
    assert events[1]["success"] is True
    assert events[1]["duration_ms"] == result.duration_ms
    assert events[1]["fuel_consumed"] == result.fuel_consumed
    assert "secret" not in json.dumps(events)


def test_log_security_violations() -> None:
    logger, events = captured()
    with PythonSandbox(ExecutionPolicy(fuel_budget=100_000), logger=logger) as sandbox:
        sandbox.execute("while True: pass")
    security = [event for event in events if event["event"] == "security"]
    assert [event["event_type"] for event in security] == ["fuel_exhaustion"]
    assert security[0]["level"] == "WARNING"


# ## Requirement: WASM Binary Configuration


def test_use_default_wasm_binary(tmp_path: Path) -> None:
    """`bin/python.wasm` of Belljar's home, when it is there; else the embedded interpreter."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python.wasm").write_bytes(b"not wasm at all")
    with Engine(env={**os.environ, "BELLJAR_HOME": str(home)}) as engine:
        with PythonSandbox(engine=engine) as sandbox:
            with pytest.raises(SandboxExecutionError, match=r"bin/python\.wasm"):
                sandbox.execute("print(1)")
    assert run("print(1)").stdout == "1\n"


def test_use_custom_wasm_binary(custom_python: Path) -> None:
    with PythonSandbox(ExecutionPolicy.agent(), wasm_binary_path=custom_python) as sandbox:
        result = sandbox.execute("import sys; print(sys.version_info[:2])")
        assert result.stdout == "(3, 12)\n", result.stderr


def test_validate_wasm_binary_exists() -> None:
    with PythonSandbox(wasm_binary_path="/nowhere/python.wasm") as sandbox:
        with pytest.raises(FileNotFoundError) as missing:
            sandbox.execute("print(1)")
    assert "/nowhere/python.wasm: no such file; nothing was run" in str(missing.value)
