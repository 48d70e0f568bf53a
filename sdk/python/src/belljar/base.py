"""What every sandbox has, whatever runs it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Optional, Union

from .logger import SandboxLogger
from .models import SandboxResult
from .policy import ExecutionPolicy


class BaseSandbox(ABC):
    """The contract of all sandboxes: run untrusted code, or look at its syntax only."""

    def __init__(
        self,
        policy: Optional[ExecutionPolicy] = None,
        workspace: Union[str, os.PathLike[str], None] = None,
        logger: Optional[SandboxLogger] = None,
    ) -> None:
        self.policy = ExecutionPolicy() if policy is None else policy
        self._workspace = None if workspace is None else Path(workspace)
        self.logger = SandboxLogger() if logger is None else logger

    @property
    def workspace(self) -> Path:
        """The directory that the code sees read-write."""
        if self._workspace is None:
            return Path(self.policy.mount_host_dir)
        return self._workspace

    @abstractmethod
    def execute(self, code: str) -> SandboxResult:
        """Runs untrusted code. Whatever the code does, the answer is a result."""

    @abstractmethod
    def validate_code(self, code: str) -> bool:
        """Whether the code compiles. Executes nothing."""

    def _log_execution_metrics(self, result: SandboxResult) -> None:
        self.logger.log_execution_complete(result)
