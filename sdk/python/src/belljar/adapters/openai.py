"""A sandbox as a function tool of OpenAI's interfaces, and of all that speak them."""

from __future__ import annotations

from typing import Any

from .code_tool import CodeTool, field


class OpenAITool(CodeTool):
    """Definitions for `tools=[...]`, and answers to the calls that come back."""

    @property
    def definition(self) -> dict[str, Any]:
        """For chat completions."""
        return {"type": "function", "function": self._function()}

    @property
    def responses_definition(self) -> dict[str, Any]:
        """For the responses interface."""
        return {"type": "function", **self._function()}

    def handle(self, call: Any) -> dict[str, Any]:
        """The message that answers a call: one of `message.tool_calls`, or a `function_call` item.

        Never raises: what is wrong with the call is told to the model.
        """
        if field(call, "type") == "function_call":
            text = self.told(self.attempt(field(call, "arguments")))
            return {
                "type": "function_call_output",
                "call_id": field(call, "call_id"),
                "output": text,
            }
        text = self.told(self.attempt(field(call, "function", "arguments")))
        return {"role": "tool", "tool_call_id": field(call, "id"), "content": text}

    def _function(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": True,
        }
