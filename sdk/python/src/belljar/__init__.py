"""Runs code a language model wrote in a fresh sandbox and tells exactly what happened."""

from importlib import metadata as _metadata

from .agent import run_code, run_python_code
from .aio import AsyncExecutionStream, AsyncSandbox
from .base import BaseSandbox
from .binary import find_binary
from .engine import Engine, default_engine
from .errors import (
    ArtifactNotFoundError,
    BackendUnavailableError,
    BinaryNotFoundError,
    BusyError,
    CallbackError,
    ClosedError,
    ConnectionLostError,
    InvalidRequestError,
    PolicyIssue,
    PolicyValidationError,
    SandboxError,
    SandboxExecutionError,
    SessionError,
    UnenforceableError,
    VersionMismatchError,
)
from .logger import SandboxLogger
from .models import (
    CellValue,
    ExecutionResult,
    FileEntry,
    GuestError,
    Meta,
    OpaqueValue,
    ResourceLimits,
    RuntimeType,
    SandboxResult,
    Status,
    ToolCall,
    ToolUsage,
)
from .options import SandboxOptions
from .policy import DEFAULT_POLICY, ExecutionPolicy, load_policy
from .sandbox import ExecutionStream, JavaScriptSandbox, PythonSandbox, Sandbox, create_sandbox
from .snapshot import Snapshot
from .stream import OutputLine
from .tools import ToolError

__version__ = _metadata.version("belljar")

__all__ = [
    "DEFAULT_POLICY",
    "ArtifactNotFoundError",
    "AsyncExecutionStream",
    "AsyncSandbox",
    "BackendUnavailableError",
    "BaseSandbox",
    "BinaryNotFoundError",
    "BusyError",
    "CallbackError",
    "CellValue",
    "ClosedError",
    "ConnectionLostError",
    "Engine",
    "ExecutionPolicy",
    "ExecutionResult",
    "ExecutionStream",
    "FileEntry",
    "GuestError",
    "InvalidRequestError",
    "JavaScriptSandbox",
    "Meta",
    "OpaqueValue",
    "OutputLine",
    "PolicyIssue",
    "PolicyValidationError",
    "PythonSandbox",
    "ResourceLimits",
    "RuntimeType",
    "Sandbox",
    "SandboxError",
    "SandboxExecutionError",
    "SandboxLogger",
    "SandboxOptions",
    "SandboxResult",
    "SessionError",
    "Snapshot",
    "Status",
    "ToolCall",
    "ToolError",
    "ToolUsage",
    "UnenforceableError",
    "VersionMismatchError",
    "create_sandbox",
    "default_engine",
    "find_binary",
    "load_policy",
    "run_code",
    "run_python_code",
]
