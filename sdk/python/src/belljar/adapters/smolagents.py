"""A sandbox as the executor of smolagents' `CodeAgent`: `CodeAgent(executor=SmolagentsExecutor())`.

The agent's tools stay in this program; code in the sandbox calls them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from typing_extensions import Unpack

from ..errors import InvalidRequestError
from ..models import SandboxResult
from ..options import SandboxOptions
from ..policy import ExecutionPolicy
from ..sandbox import PythonSandbox
from ..tools import ToolError

#: The tool by which an agent says that it is done.
_FINAL = "final_answer"


@dataclass
class CodeOutput:
    """What smolagents wants to know about an execution."""

    output: Any
    logs: str
    is_final_answer: bool


class SmolagentsExecutor:
    """Runs an agent's code in one session. Takes what a `PythonSandbox` takes, tools excepted."""

    def __init__(
        self,
        policy: Union[ExecutionPolicy, Mapping[str, Any], None] = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        if "tools" in options:
            raise InvalidRequestError("the tools are those of the agent")
        self._policy = ExecutionPolicy.agent() if policy is None else policy
        self._options = options
        self._tools: dict[str, Callable[..., Any]] = {}
        #: What the code that runs has given as the final answer.
        self._answers: list[Any] = []
        self._sandbox: Optional[PythonSandbox] = None

    def send_tools(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        """The functions that code may call from now on. Variables stay."""
        is_new = set(tools) != set(self._tools)
        self._tools = dict(tools)
        if is_new and self._sandbox is not None:
            before, self._sandbox = self._sandbox, None
            snapshot = before.snapshot()
            before.destroy()
            self._session().restore(snapshot)

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Sets variables of the session; JSON has to be able to carry them."""
        if not variables:
            return
        try:
            text = json.dumps(dict(variables), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidRequestError(f"JSON cannot carry the variables: {error}") from error
        code = f"import json as _json\nglobals().update(_json.loads({text!r}))\ndel _json"
        self._value(self._session().execute(code))

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs code. Raises what the agent should see when it fails."""
        self._answers.clear()
        result = self._session().execute(code_action)
        if self._answers:
            return CodeOutput(self._answers[0], result.stdout, is_final_answer=True)
        return CodeOutput(self._value(result), result.stdout, is_final_answer=False)

    def cleanup(self) -> None:
        """Ends the session."""
        if self._sandbox is not None:
            self._sandbox.destroy()
            self._sandbox = None

    def _session(self) -> PythonSandbox:
        if self._sandbox is None:
            tools = {name: self._caller(name) for name in self._tools}
            options: SandboxOptions = {**self._options, "tools": tools}
            self._sandbox = PythonSandbox(self._policy, **options)
            self._sandbox.initialize()
        return self._sandbox

    def _caller(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = self._tools[name](*args, **kwargs)
            if name == _FINAL:
                self._answers.append(value)
                # Nothing after it counts.
                raise ToolError("the final answer was given")
            return value

        call.__name__, call.__doc__ = name, getattr(self._tools[name], "description", None)
        return call

    def _value(self, result: SandboxResult) -> Any:
        if not result.success:
            raise RuntimeError(result.text)
        if result.result is None:
            return None
        is_none = result.result.text == "None"
        return result.result.text if result.value is None and not is_none else result.value
