"""Capability: Core Models. One test for each scenario of the specification, in its order."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from belljar import (
    DEFAULT_POLICY,
    ExecutionPolicy,
    PolicyValidationError,
    RuntimeType,
    SandboxError,
    SandboxExecutionError,
    SandboxResult,
    create_sandbox,
    load_policy,
)


def policy_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config" / "policy.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def run(code: str, **policy: Any) -> SandboxResult:
    with create_sandbox(policy=ExecutionPolicy(**policy)) as sandbox:
        return sandbox.execute(code)


# ## Requirement: Execution Policy Model


def test_create_policy_with_default_values() -> None:
    policy = ExecutionPolicy()
    assert policy.fuel_budget == 2_000_000_000
    assert policy.memory_bytes == 128_000_000
    assert policy.stdout_max_bytes == 2_000_000
    assert policy.stderr_max_bytes == 1_000_000
    assert policy.mount_host_dir == "workspace"
    assert policy.guest_mount_path == "/app"
    utf8 = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}
    assert policy.env == utf8


def test_validate_positive_resource_limits() -> None:
    with pytest.raises(PolicyValidationError) as refused:
        ExecutionPolicy(fuel_budget=-1000)
    assert refused.value.message == (
        "the policy is not valid; nothing was run\n"
        "  fuel_budget: must be greater than 0, but is -1000"
    )
    for field in ("fuel_budget", "memory_bytes", "stdout_max_bytes", "stderr_max_bytes"):
        for value in (-1000, -1, 0):
            with pytest.raises(PolicyValidationError, match=f"{field}: must be greater than 0"):
                ExecutionPolicy.model_validate({field: value})


def test_support_optional_data_mount(tmp_path: Path) -> None:
    assert ExecutionPolicy().mount_data_dir is None
    policy = ExecutionPolicy(mount_data_dir="datasets")
    assert (policy.mount_data_dir, policy.guest_data_path) == ("datasets", "/data")
    (tmp_path / "table.csv").write_text("1,2")
    result = run("print(open('/data/table.csv').read())", mount_data_dir=tmp_path)
    assert result.stdout == "1,2\n"
    code = "print(open('/other/table.csv').read())"
    assert run(code, mount_data_dir=tmp_path, guest_data_path="/other").stdout == "1,2\n"


def test_merge_environment_variables() -> None:
    assert DEFAULT_POLICY.env["PYTHONUTF8"] == "1"
    merged = DEFAULT_POLICY.merge(env={"CUSTOM_VAR": "value"})
    assert merged.env == {**DEFAULT_POLICY.env, "CUSTOM_VAR": "value"}
    again = merged.merge(env={"MORE": "x"}, fuel_budget=5_000_000_000)
    assert again.env == {**merged.env, "MORE": "x"}
    code = "import os; print(os.environ['PYTHONUTF8'], os.environ['CUSTOM_VAR'])"
    assert run(code, env={"CUSTOM_VAR": "value"}).stdout == "1 value\n"


# ## Requirement: Sandbox Result Model


def test_capture_successful_execution_result() -> None:
    result = run("print('captured')")
    assert result.success is True
    assert result.stdout == "captured\n"
    assert result.stderr == ""
    assert result.exit_code == 0
    assert isinstance(result.fuel_consumed, int) and result.fuel_consumed > 0
    assert result.memory_used_bytes is not None and result.memory_used_bytes > 0
    assert result.duration_ms > 0
    warned = run("import warnings; warnings.warn('careful')")
    assert warned.success and "UserWarning: careful" in warned.stderr


def test_capture_failed_execution_result() -> None:
    result = run("while True: pass", fuel_budget=1_000_000)
    assert result.success is False
    assert result.stderr.startswith("OutOfFuel: ")
    assert result.fuel_consumed is not None and result.fuel_consumed >= 1_000_000


def test_track_filesystem_changes(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("before")
    with create_sandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute(
            "open('output.csv', 'w').write('a,b')\nopen('input.txt', 'a').write('after')"
        )
    assert result.files_created == ["output.csv"]
    assert result.files_modified == ["input.txt"]
    for path in result.files_created + result.files_modified:
        assert not Path(path).is_absolute()
        assert (tmp_path / path).is_file()


def test_include_workspace_path(tmp_path: Path) -> None:
    workspace = tmp_path / "sandbox-abc123"
    workspace.mkdir()
    with create_sandbox(workspace=workspace) as sandbox:
        assert sandbox.execute("").workspace_path == str(workspace)


# ## Requirement: Runtime Type Enum


def test_support_python_runtime() -> None:
    assert RuntimeType.PYTHON.value == "python"
    assert RuntimeType("python") is RuntimeType.PYTHON


def test_support_javascript_runtime() -> None:
    assert RuntimeType.JAVASCRIPT.value == "javascript"
    assert RuntimeType("javascript") is RuntimeType.JAVASCRIPT


def test_enum_values_are_strings() -> None:
    for runtime in RuntimeType:
        assert isinstance(runtime, str)
        assert json.dumps(runtime) == f'"{runtime.value}"'


# ## Requirement: Policy Validation Error


def test_raise_validation_error_for_invalid_policy(tmp_path: Path) -> None:
    path = policy_file(tmp_path, "fuel_budget = -1\nstdout_max_bytes = 0\n")
    with pytest.raises(PolicyValidationError) as refused:
        load_policy(path)
    assert [str(issue) for issue in refused.value.issues] == [
        f"fuel_budget: must be greater than 0, but is -1 ({path}, line 1)",
        f"stdout_max_bytes: must be greater than 0, but is 0 ({path}, line 2)",
    ]
    with pytest.raises(PolicyValidationError) as built:
        ExecutionPolicy(memory_bytes=0, no_such_field=1)  # type: ignore[call-arg]
    assert built.value.concerns("memory_bytes") and built.value.concerns("no_such_field")


def test_distinguish_from_execution_errors() -> None:
    assert issubclass(PolicyValidationError, SandboxError)
    assert not issubclass(PolicyValidationError, SandboxExecutionError)
    assert not issubclass(SandboxExecutionError, PolicyValidationError)
    with pytest.raises(PolicyValidationError):
        ExecutionPolicy(fuel_budget=-1)
    with pytest.raises(SandboxExecutionError) as failed:
        create_sandbox(workspace="/nowhere/at/all")
    assert not isinstance(failed.value, PolicyValidationError)


# ## Requirement: Policy Loading with Validation


def test_load_policy_from_toml_file(tmp_path: Path) -> None:
    policy = load_policy(policy_file(tmp_path, "fuel_budget=1000000000"))
    assert isinstance(policy, ExecutionPolicy)
    assert policy.fuel_budget == 1_000_000_000
    assert policy.memory_bytes == ExecutionPolicy().memory_bytes


def test_load_default_policy_when_file_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy("config/policy.toml") == ExecutionPolicy()


def test_validate_toml_fields_at_load_time(tmp_path: Path) -> None:
    with pytest.raises(PolicyValidationError) as refused:
        load_policy(policy_file(tmp_path, "memory_bytes=-1000"))
    assert refused.value.concerns("memory_bytes")
    assert "memory_bytes: must be greater than 0, but is -1000" in str(refused.value)


def test_deep_merge_environment_variables(tmp_path: Path) -> None:
    policy = load_policy(policy_file(tmp_path, '[env]\nCUSTOM = "value"\n'))
    assert policy.env["PYTHONUTF8"] == "1"
    assert policy.env["LC_ALL"] == "C.UTF-8"
    assert policy.env["CUSTOM"] == "value"


# ## Requirement: SandboxResult JSON Serialization


def test_serialize_result_to_json() -> None:
    result = SandboxResult(success=True, status="ok", stdout="Hello", fuel_consumed=1_000_000)  # type: ignore[arg-type]
    value = json.loads(result.model_dump_json())
    assert value["stdout"] == "Hello"
    assert value["fuel_consumed"] == 1_000_000
    assert sorted(value) == [
        "duration_ms",
        "error",
        "exit_code",
        "files_created",
        "files_deleted",
        "files_modified",
        "fuel_consumed",
        "memory_used_bytes",
        "meta",
        "pending_calls",
        "result",
        "status",
        "stderr",
        "stdout",
        "success",
        "workspace_path",
    ]


@pytest.mark.parametrize(
    "code", ["print('x')\n{'a': [1, None]}", "raise ValueError('é')", "while True: print(1)"]
)
def test_deserialize_result_from_json(code: str) -> None:
    original = run(code, fuel_budget=3_000_000)
    read = SandboxResult.model_validate_json(original.model_dump_json())
    assert read == original
    assert pickle.loads(pickle.dumps(original)) == original
