"""What can go wrong on Belljar's or the caller's side. A guest's failure is never one of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

#: The code of JSON-RPC errors that mean: the same request may succeed later.
_BUSY = -32001


class SandboxError(Exception):
    """Belljar or the caller failed; the message says what survives.

    `kind` is a word for programs, `hint` says what to do about it.
    """

    kind: str = "error"

    def __init__(
        self, message: str, *, kind: Optional[str] = None, hint: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).kind
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> Any:
        # Errors travel between processes, and have more to carry than one argument.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[SandboxError], args: Any, state: dict[str, Any]) -> SandboxError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@dataclass(frozen=True)
class PolicyIssue:
    """One thing that is wrong with a policy."""

    field: str
    message: str
    #: The file and the line, where it was written in one.
    location: Optional[str] = None

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        return f"{self.field}: {self.message}{where}" if self.field else f"{self.message}{where}"


class PolicyValidationError(SandboxError):
    """A policy is not valid. `issues` has everything that is wrong, field by field."""

    kind = "policy_validation"

    def __init__(self, issues: Sequence[PolicyIssue]) -> None:
        self.issues: list[PolicyIssue] = list(issues)
        listed = "".join(f"\n  {issue}" for issue in self.issues)
        super().__init__(f"the policy is not valid; nothing was run{listed}")

    def concerns(self, field: str) -> bool:
        """Whether something is wrong with that field."""
        return any(issue.field == field for issue in self.issues)


class SandboxExecutionError(SandboxError):
    """The host failed, or was asked for something it cannot do. The code itself may be fine."""

    kind = "execution"


class BackendUnavailableError(SandboxExecutionError):
    """The backend cannot be used here; the message says why, the hint what else there is."""

    kind = "backend_unavailable"


class UnenforceableError(SandboxExecutionError):
    """The policy asks for a rule that the backend cannot enforce. Nothing was run."""

    kind = "unenforceable"


class ArtifactNotFoundError(SandboxExecutionError, FileNotFoundError):
    """A file that is needed to run code is not there, such as a custom interpreter."""

    kind = "artifact_not_found"


class SessionError(SandboxExecutionError):
    """The session is not there, in use elsewhere, or not in a state for what was asked."""

    kind = "session"


class BusyError(SandboxExecutionError):
    """Too much is going on; the same call may succeed later. Nothing was run."""

    kind = "busy"


class InvalidRequestError(SandboxExecutionError):
    """What was asked for makes no sense to Belljar: an unknown option or a wrong type."""

    kind = "invalid_request"


class ClosedError(SandboxExecutionError):
    """The sandbox was destroyed, or belongs to the process this one was forked from."""

    kind = "closed"


class ConnectionLostError(SandboxExecutionError):
    """The process that held the sandbox has ended; the message says what was lost with it."""

    kind = "connection_lost"


class BinaryNotFoundError(SandboxExecutionError, FileNotFoundError):
    """The `belljar` program is nowhere to be found."""

    kind = "binary_not_found"


class VersionMismatchError(SandboxExecutionError):
    """The `belljar` program speaks another version of the protocol."""

    kind = "version_mismatch"


class CallbackError(SandboxExecutionError):
    """A callback of the caller's raised; the code was cancelled.

    The exception is the cause of this one.
    """

    kind = "callback"


_BY_KIND: dict[str, type[SandboxError]] = {
    error.kind: error
    for error in (
        SandboxExecutionError,
        BackendUnavailableError,
        UnenforceableError,
        ArtifactNotFoundError,
        SessionError,
        ConnectionLostError,
    )
}
_BY_KIND.update(
    dict.fromkeys(
        ("session_not_found", "session_busy", "not_in_session", "suspended", "not_suspended"),
        SessionError,
    )
)


def from_wire(error: Any) -> SandboxError:
    """The error that a JSON-RPC error stands for."""
    fields = error if isinstance(error, dict) else {}
    data = fields.get("data")
    data = data if isinstance(data, dict) else {}
    message = str(fields.get("message", error))
    kind, hint = data.get("kind"), data.get("hint")
    if kind == PolicyValidationError.kind and isinstance(data.get("issues"), list):
        return PolicyValidationError([_issue(issue) for issue in data["issues"]])
    if kind in _BY_KIND:
        return _BY_KIND[kind](message, kind=kind, hint=hint)
    if kind is not None:
        return SandboxExecutionError(message, kind=str(kind), hint=hint)
    if fields.get("code") == _BUSY:
        return BusyError(message, hint="try again when some of it has ended")
    return InvalidRequestError(message)


def _issue(issue: Any) -> PolicyIssue:
    fields = issue if isinstance(issue, dict) else {"message": issue}
    return PolicyIssue(str(fields.get("field", "")), str(fields.get("message")))
