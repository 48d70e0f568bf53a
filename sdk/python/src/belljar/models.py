"""What one execution gave, in one shape for every backend."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from . import display


class RuntimeType(str, Enum):
    """The language of a guest."""

    PYTHON = "python"
    JAVASCRIPT = "javascript"


class Status(str, Enum):
    """How an execution ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_FUEL = "out_of_fuel"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    QUOTA = "quota"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    CRASHED = "crashed"


class _Part(BaseModel):
    # A newer binary may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class GuestError(_Part):
    """An uncaught error of the guest."""

    name: str
    message: str
    traceback: str


# No model, because pydantic's models have a method of the name `json`.
@dataclass(frozen=True)
class CellValue:
    """The value of the last expression."""

    text: str
    """As the interpreter would print it."""
    json: Any = None
    """As JSON, where it can be."""
    mime: dict[str, str] = Field(default_factory=dict)
    """Rich forms by MIME type; binary ones in base64."""


class ToolCall(_Part):
    """A call that a suspended execution waits for."""

    id: int
    name: str
    args: list[Any] = Field(default_factory=list)
    kwargs: dict[str, Any] = Field(default_factory=dict)


class ToolUsage(_Part):
    """What an execution used of its tools."""

    calls: int = 0
    bytes: int = 0
    depth: int = 0


class ResourceLimits(_Part):
    """The limits that held. None where the backend cannot enforce one."""

    fuel_budget: Optional[int] = None
    memory_bytes: Optional[int] = None
    timeout_seconds: float = 0.0
    stdout_max_bytes: int = 0
    stderr_max_bytes: int = 0
    workspace_max_bytes: Optional[int] = None
    workspace_max_files: Optional[int] = None
    max_processes: Optional[int] = None
    max_tool_calls: Optional[int] = None
    max_tool_bytes: Optional[int] = None
    max_rlm_depth: Optional[int] = None
    network: Optional[str] = None


class Meta(_Part):
    """Facts about an execution that are not its outcome."""

    runtime: str = ""
    """The backend: `wasm`, `local`, `docker` and so on."""
    language: RuntimeType = RuntimeType.PYTHON
    language_version: Optional[str] = None
    session_id: Optional[str] = None
    execution_id: str = ""
    truncated: bool = False
    timed_out: bool = False
    blocked_imports: list[str] = Field(default_factory=list)
    resource_limits: ResourceLimits = Field(default_factory=ResourceLimits)
    isolation: list[str] = Field(default_factory=list)
    """The layers of isolation that really held."""
    state: Optional[Literal["kept", "rolled_back", "lost"]] = None
    """What became of the session's state; None outside sessions."""
    fallback_from: Optional[str] = None
    image: Optional[Literal["plain", "data"]] = None
    """The image of the interpreter, where it is not the plain one."""
    tools: ToolUsage = Field(default_factory=ToolUsage)


class SandboxResult(_Part):
    """What one execution gave. A notebook shows it as a page shows output: safely."""

    success: bool
    """True only when the code ran to its end without an uncaught error."""
    status: Status
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    """0 ok, 1 error, the code's own when it exited, -1 when it was stopped."""
    error: Optional[GuestError] = None
    result: Optional[CellValue] = None
    """The value of the last expression."""
    duration_ms: float = 0.0
    fuel_consumed: Optional[int] = None
    memory_used_bytes: Optional[int] = None
    files_created: list[str] = Field(default_factory=list)
    files_modified: list[str] = Field(default_factory=list)
    files_deleted: list[str] = Field(default_factory=list)
    workspace_path: str = ""
    pending_calls: list[ToolCall] = Field(default_factory=list)
    """The calls a suspended execution waits for."""
    meta: Meta = Field(default_factory=Meta)

    @property
    def duration(self) -> float:
        """Wall-clock seconds."""
        return self.duration_ms / 1000

    @property
    def value(self) -> Any:
        """The value of the last expression, where JSON can carry it; else None."""
        return None if self.result is None else self.result.json

    @property
    def text(self) -> str:
        """What a person would see: output, the last value, and what went wrong."""
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return display.bundle(self)


#: What the specification calls it.
ExecutionResult = SandboxResult


class FileEntry(_Part):
    """Something in a workspace."""

    path: str
    kind: Literal["file", "directory", "link"]
    bytes: int


class OpaqueValue(_Part):
    """A variable whose value JSON cannot carry."""

    type_name: str
    text: str
    """As the interpreter would print it."""
