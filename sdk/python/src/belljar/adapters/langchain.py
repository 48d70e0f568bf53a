"""A sandbox in the shape of LangChain's tools."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, Field

from .code_tool import CodeTool


class CodeInput(BaseModel):
    """The arguments of the tool."""

    code: str = Field(description="The code to run")


class LangChainTool(CodeTool):
    """Has what a tool of LangChain has: `name`, `description`, `args_schema`, `invoke`, `ainvoke`.

    `to_langchain()` gives a real one, where LangChain is installed.
    """

    args_schema = CodeInput

    def invoke(self, given: Any, config: Any = None, **_: Any) -> Any:
        """Runs the code of `{"code": ...}`, of plain text, or of a model's tool call.

        A tool call is answered by a dictionary with its id, anything else by text.
        """
        del config
        if isinstance(given, dict) and given.get("type") == "tool_call":
            text = self.told(self.attempt(given.get("args")))
            return {
                "role": "tool",
                "name": self.name,
                "tool_call_id": given.get("id"),
                "content": text,
            }
        if isinstance(given, str):
            return self.run(given)
        return self.told(self.attempt(given))

    async def ainvoke(self, given: Any, config: Any = None, **_: Any) -> Any:
        """The same without holding the event loop up."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: self.invoke(given, config))

    def to_langchain(self) -> Any:
        """A `StructuredTool` of `langchain-core`, which has to be installed for this."""
        from langchain_core.tools import StructuredTool

        return StructuredTool.from_function(
            func=self.run,
            name=self.name,
            description=self.description,
            args_schema=self.args_schema,
        )
