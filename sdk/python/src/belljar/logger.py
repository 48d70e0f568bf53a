"""Structured events about executions. Code and output are not logged unless asked for."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any, Callable, Optional

from .models import RuntimeType, SandboxResult, Status
from .policy import ExecutionPolicy

Event = dict[str, Any]

#: The events that stand for a limit or a rule that stopped the code.
SECURITY_EVENTS = {
    Status.OUT_OF_FUEL: "fuel_exhaustion",
    Status.OUT_OF_MEMORY: "memory_limit",
    Status.TIMEOUT: "timeout",
    Status.OUTPUT_LIMIT: "output_limit",
    Status.QUOTA: "quota",
    Status.BLOCKED: "blocked_import",
}


_log = logging.getLogger("belljar")
# Without it, Python prints warnings of programs that have set no logging up.
_log.addHandler(logging.NullHandler())


class SandboxLogger:
    """Tells `sink` each event as a dictionary.

    Without a sink, events go to the logger `belljar` of Python's `logging`, as one line of JSON
    with the dictionary in the record's attribute `event`.
    """

    def __init__(
        self,
        sink: Optional[Callable[[Event], None]] = None,
        *,
        log_code: bool = False,
        log_output: bool = False,
    ) -> None:
        self._sink = sink
        self._log_code = log_code
        self._log_output = log_output

    def log_execution_start(self, runtime: RuntimeType, policy: ExecutionPolicy, code: str) -> None:
        """An execution is about to start."""
        if not self._is_heard(logging.INFO):
            return
        event: Event = {
            "event": "execution_start",
            "runtime": runtime.value,
            "fuel_budget": policy.fuel_budget,
            "memory_bytes": policy.memory_bytes,
            "timeout_seconds": policy.timeout_seconds,
            "code_length": len(code),
        }
        if self._log_code:
            event["code"] = code
        self._emit(logging.INFO, event)

    def log_execution_complete(self, result: SandboxResult) -> None:
        """An execution has ended."""
        if self._is_heard(logging.INFO):
            self._emit(logging.INFO, self._completed(result))
        violated = SECURITY_EVENTS.get(result.status)
        if violated is not None:
            self.log_security_event(violated, f"the code ended with {result.status.value}")

    def log_security_event(self, event_type: str, detail: str) -> None:
        """A guest met a limit. The detail is the host's own words, never the guest's."""
        if self._is_heard(logging.WARNING):
            event = {"event": "security", "event_type": event_type, "detail": detail}
            self._emit(logging.WARNING, event)

    def _completed(self, result: SandboxResult) -> Event:
        event: Event = {
            "event": "execution_complete",
            "execution_id": result.meta.execution_id,
            "runtime": result.meta.language.value,
            "backend": result.meta.runtime,
            "success": result.success,
            "status": result.status.value,
            "exit_code": result.exit_code,
            "duration_ms": result.duration_ms,
            "fuel_consumed": result.fuel_consumed,
            "memory_used_bytes": result.memory_used_bytes,
            "truncated": result.meta.truncated,
            "files_created": len(result.files_created),
            "files_modified": len(result.files_modified),
            "files_deleted": len(result.files_deleted),
        }
        if self._log_output:
            event["stdout"], event["stderr"] = result.stdout, result.stderr
        return event

    def _is_heard(self, level: int) -> bool:
        return self._sink is not None or _log.isEnabledFor(level)

    def _emit(self, level: int, event: Event) -> None:
        if self._sink is None:
            _log.log(level, json.dumps(event), extra={"event": event})
            return
        now = datetime.now(timezone.utc).isoformat()
        self._sink({"timestamp": now, "level": logging.getLevelName(level), **event})
