"""A sandbox as a tool of Anthropic's messages interface."""

from __future__ import annotations

from typing import Any

from ..models import SandboxResult
from .code_tool import CodeTool, field

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class AnthropicTool(CodeTool):
    """The definition for `tools=[...]`, and answers to `tool_use` blocks."""

    @property
    def definition(self) -> dict[str, Any]:
        """For `messages.create(tools=[...])`."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.parameters,
        }

    def handle(self, block: Any) -> dict[str, Any]:
        """The `tool_result` block that answers a `tool_use` block, pictures included.

        Never raises: what is wrong with the call is told to the model.
        """
        outcome = self.attempt(field(block, "input"))
        content: list[dict[str, Any]] = [{"type": "text", "text": self.told(outcome)}]
        failed = not isinstance(outcome, SandboxResult) or not outcome.success
        if isinstance(outcome, SandboxResult) and outcome.result is not None:
            content += [
                {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
                for kind, data in outcome.result.mime.items()
                if kind in _PICTURES
            ]
        return {
            "type": "tool_result",
            "tool_use_id": field(block, "id"),
            "content": content,
            "is_error": failed,
        }
