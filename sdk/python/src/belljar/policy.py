"""What the caller allows: limits, mounts and environment of a guest."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from .errors import PolicyIssue, PolicyValidationError, SandboxExecutionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Two billion units: about a third of a second of work.
DEFAULT_FUEL_BUDGET = 2_000_000_000

#: So much that the 30-second clock decides.
AGENT_FUEL_BUDGET = 200_000_000_000

#: The whole environment of a guest that is given no other.
DEFAULT_ENV = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_TIB = 1024 * _GIB

Preset = Literal["strict", "agent"]

OutputBytes = Annotated[int, Field(gt=0, le=_GIB)]


class ExecutionPolicy(BaseModel):
    """The limits, mounts and environment of a sandbox.

    The defaults are the preset `strict`; `ExecutionPolicy.agent()` is the same with so much fuel
    that the clock decides. Only what was set explicitly must be enforceable by the backend.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fuel_budget: Annotated[int, Field(gt=0, le=10**18)] = DEFAULT_FUEL_BUDGET
    """Instructions the code may execute, counted the same on every run."""
    memory_bytes: Annotated[int, Field(gt=0, le=4 * _GIB - 64 * 1024)] = 128_000_000
    """Memory of the interpreter."""
    stdout_max_bytes: OutputBytes = 2_000_000
    """Bytes of standard output that are kept."""
    stderr_max_bytes: OutputBytes = 1_000_000
    """Bytes of standard error that are kept."""
    mount_host_dir: str = "workspace"
    """The directory of the host that the code sees read-write, unless a workspace is given."""
    guest_mount_path: str = "/app"
    """Where the code sees it."""
    mount_data_dir: Optional[str] = None
    """A directory of the host that the code sees read-only."""
    guest_data_path: str = "/data"
    """Where the code sees it."""
    argv: list[str] = Field(
        default_factory=lambda: ["python", "/app/user_code.py", "-X", "utf8"], strict=False
    )
    """Arguments, program name first."""
    env: dict[str, str] = Field(default_factory=lambda: dict(DEFAULT_ENV))
    """The whole environment. What is given is added to the defaults."""
    timeout_seconds: Annotated[float, Field(ge=0.001, le=86_400)] = 30.0
    """Wall-clock time of one execution."""
    workspace_max_bytes: Annotated[int, Field(gt=0, le=_TIB)] = 256 * _MIB
    """Bytes one execution may add to the workspace."""
    workspace_max_files: Annotated[int, Field(gt=0, le=10_000_000)] = 10_000
    """Files, directories and links one execution may add."""
    max_processes: Annotated[int, Field(gt=0, le=4096)] = 64
    """Processes, for backends that have any."""
    max_tool_calls: Annotated[int, Field(gt=0, le=10_000_000)] = 1000
    """Calls of tools in one execution."""
    max_tool_bytes: Annotated[int, Field(gt=0, le=_TIB)] = 64 * _MIB
    """Arguments and results of tools in one execution, as JSON."""
    max_rlm_depth: Annotated[int, Field(gt=0, le=16)] = 3
    """How deep `rlm_query` may be nested."""
    idle_timeout_seconds: Annotated[float, Field(ge=1, le=31_622_400)] = 86_400.0
    """How long a saved session may be unused before it may be removed."""
    network: Literal["denied"] = "denied"
    """No backend offers any."""
    deterministic: bool = False
    """A fixed clock and seeded randomness."""
    block_imports: list[str] = Field(default_factory=list, strict=False)
    """Modules whose import is refused before the code runs."""
    image: Literal["auto", "plain", "data"] = "auto"
    """What Python has in it: `data` is with numpy, pandas and matplotlib.

    `auto` has what the code imports.
    """

    _preset: Preset = PrivateAttr(default="strict")

    @classmethod
    def agent(cls, **fields: Any) -> Self:
        """The preset `agent`: fuel for the whole 30 seconds, all else as in `strict`."""
        policy = cls(**fields)
        policy._preset = "agent"
        if "fuel_budget" not in policy.model_fields_set:
            # Not set by the caller: a backend that cannot count fuel may ignore it.
            policy.__dict__["fuel_budget"] = AGENT_FUEL_BUDGET
        return policy

    @property
    def preset(self) -> Preset:
        """What the fields that were not set come from."""
        return self._preset

    def merge(self, **fields: Any) -> Self:
        """The same with other values; `env` is merged variable by variable."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if "env" in given and isinstance(fields.get("env"), dict):
            fields["env"] = {**given["env"], **fields["env"]}
        made = type(self).agent if self._preset == "agent" else type(self)
        return made(**{**given, **fields})

    def explicit(self) -> dict[str, Any]:
        """The fields that were set, as JSON: what a backend has to enforce."""
        return self.model_dump(mode="json", include=self.model_fields_set)

    @field_validator("mount_host_dir", "mount_data_dir", mode="before")
    @classmethod
    def _path_as_text(cls, path: Any) -> Any:
        return os.fspath(path) if isinstance(path, os.PathLike) else path

    @field_validator("env", mode="after")
    @classmethod
    def _added_to_the_defaults(cls, env: dict[str, str]) -> dict[str, str]:
        return {**DEFAULT_ENV, **env}

    @model_validator(mode="wrap")
    @classmethod
    def _every_mistake_at_once(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Self:
        try:
            policy: Self = handler(data)
        except ValidationError as error:
            raise PolicyValidationError([_issue(detail) for detail in error.errors()]) from None
        return policy


#: The policy of sandboxes that are given none.
DEFAULT_POLICY = ExecutionPolicy()


def load_policy(path: Union[str, os.PathLike[str]]) -> ExecutionPolicy:
    """The policy that a TOML file describes; the defaults when there is no such file.

    Raises `PolicyValidationError` with file and line of everything that is wrong.
    """
    name = os.fspath(path)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ExecutionPolicy()
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxExecutionError(
            f"cannot read policy file {name}: {error}; nothing was run", kind="input"
        ) from error
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyValidationError([PolicyIssue("", f"is no TOML: {error}", name)]) from error
    try:
        return ExecutionPolicy(**fields)
    except PolicyValidationError as error:
        raise PolicyValidationError(
            [
                PolicyIssue(issue.field, issue.message, _place(name, text, issue.field))
                for issue in error.issues
            ]
        ) from None


def _place(name: str, text: str, field: str) -> str:
    """Where a field is written. TOML has many ways to write a key; the plain one is found."""
    key = re.escape(field.rpartition(".")[2])
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*[\"']?{key}[\"']?\s*=|\s*\[\s*{key}\s*\]", line):
            return f"{name}, line {number}"
    return name


def _issue(detail: Any) -> PolicyIssue:
    field = ".".join(str(part) for part in detail["loc"])
    given, limits = detail["input"], detail.get("ctx", {})
    shown = json.dumps(given, default=repr)
    shown = shown if len(shown) <= 100 else f"{shown[:100]}…"
    kind = detail["type"]
    if kind == "extra_forbidden":
        return PolicyIssue(field, "there is no such field")
    if kind == "greater_than":
        return PolicyIssue(field, f"must be greater than {limits['gt']}, but is {shown}")
    if kind == "greater_than_equal":
        return PolicyIssue(field, f"must be at least {limits['ge']}, but is {shown}")
    if kind == "less_than_equal":
        return PolicyIssue(field, f"must be at most {limits['le']}, but is {shown}")
    message = detail["msg"]
    return PolicyIssue(field, f"{message[:1].lower()}{message[1:]}, but is {shown}")
