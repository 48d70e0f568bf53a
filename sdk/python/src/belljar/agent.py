"""The tool an agent is given: code in, text out. It never raises.

Everything about it is configured by variables: `belljar tool variables` lists them.
"""

from __future__ import annotations

import subprocess
from typing import Any, Optional

from .binary import find_binary
from .errors import SandboxError


def run_python_code(code: str, timeout: Optional[float] = None) -> str:
    """Executes Python code in the sandbox that `SANDBOX_TYPE` names, and gives text.

    Args:
        code: the source
        timeout: seconds it may take; `SANDBOX_TIMEOUT_SEC`, else 30, when absent

    Returns:
        What was printed, or what went wrong and what to do about it. Never raises.
    """
    return _answer(["run-python"], code, timeout)


def run_code(code: str, language: str = "python", timeout: Optional[float] = None) -> str:
    """The same for any language that `SANDBOX_SUPPORTED_LANGUAGES` allows."""
    return _answer(["run-code", "--language", str(language)], code, timeout)


def _answer(command: list[str], code: Any, timeout: Any) -> str:
    if not isinstance(code, str):
        return f"Error: code is text, not {type(code).__name__}\n"
    if timeout is not None:
        command = [*command, f"--timeout={timeout}"]
    try:
        told = subprocess.run(
            [str(find_binary()), "tool", *command, "-"],
            input=code.encode("utf-8"),
            capture_output=True,
            check=False,
        )
    except (SandboxError, OSError, ValueError) as error:
        return f"Error: {error}\n"
    text = told.stdout.decode("utf-8", "replace")
    if text:
        return text
    return f"Error: {told.stderr.decode('utf-8', 'replace').strip() or 'no answer'}\n"
