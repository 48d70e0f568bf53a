"""Sandboxes as tools of agent frameworks. None of these needs the framework to be installed."""

from .anthropic import AnthropicTool
from .code_tool import CodeTool
from .langchain import LangChainTool
from .openai import OpenAITool
from .smolagents import CodeOutput, SmolagentsExecutor

__all__ = [
    "AnthropicTool",
    "CodeOutput",
    "CodeTool",
    "LangChainTool",
    "OpenAITool",
    "SmolagentsExecutor",
]
