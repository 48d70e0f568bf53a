"""What all adapters share: code from a model in, text for a model out."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Union

from ..errors import SandboxError
from ..models import RuntimeType, SandboxResult
from ..sandbox import Sandbox

#: Text beyond this would push the rest of the conversation out of a model's sight.
MAX_TEXT = 10_000

_TRUNCATED = "\n... (output truncated)"


class CodeTool:
    """A sandbox as a tool: a name, a description, one argument `code`.

    The sandbox stays the caller's: its policy, its tools, and whether it keeps a session.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        name: Optional[str] = None,
        description: Optional[str] = None,
        max_text: int = MAX_TEXT,
    ) -> None:
        language = "Python" if sandbox.runtime is RuntimeType.PYTHON else "JavaScript"
        self.sandbox = sandbox
        self.name = name or f"run_{sandbox.runtime.value}"
        self.description = description or _description(language, sandbox.tool_descriptions)
        self.max_text = max_text
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"code": {"type": "string", "description": f"The {language} code"}},
            "required": ["code"],
            "additionalProperties": False,
        }

    def run(self, code: str) -> str:
        """Runs code and says what happened, in words for a model. Never raises."""
        return self.told(self.attempt({"code": code}))

    def as_function(self) -> Callable[[str], str]:
        """A plain function with name, docstring and types, for frameworks that read those."""

        def run(code: str) -> str:
            return self.run(code)

        run.__name__ = run.__qualname__ = self.name
        run.__doc__ = self.description
        run.__annotations__ = {"code": str, "return": str}
        return run

    def attempt(self, arguments: Any) -> Union[SandboxResult, str]:
        """The result for a model's arguments (JSON or already read), or why there is none."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError as error:
                return f"Error: the arguments are no JSON: {error}"
        code = arguments.get("code") if isinstance(arguments, dict) else None
        if not isinstance(code, str):
            return 'Error: the arguments have to be {"code": "..."}'
        try:
            return self.sandbox.execute(code)
        except SandboxError as error:
            return f"Error: {error}"

    def told(self, outcome: Union[SandboxResult, str]) -> str:
        """An outcome as text, cut to what a model should see."""
        if isinstance(outcome, str):
            text = outcome
        else:
            text = outcome.text
            written = outcome.files_created + outcome.files_modified
            if written:
                text += f"\n[files written: {', '.join(written)}]"
        if len(text) <= self.max_text:
            return text
        return text[: self.max_text - len(_TRUNCATED)] + _TRUNCATED


def _description(language: str, tools: str) -> str:
    text = (
        f"Runs {language} code in a sandbox without network and gives what it printed, the value "
        "of its last expression, or the error."
    )
    return f"{text} The code may call:\n\n{tools}" if tools else text


def field(thing: Any, *names: str) -> Any:
    """A field of something that is an object of a client library, or the same as dictionaries."""
    for name in names:
        thing = thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)
    return thing
