"""The module `belljar` that user code can import."""

from . import __builtins__

import sys
from types import ModuleType

from . import calls, utilities

belljar = ModuleType("belljar", "What the Belljar sandbox offers beyond Python itself.")
tools = ModuleType("belljar.tools", "The host's tools by name.")


def _no_such_tool(name):
    offered = ", ".join(sorted(key for key in tools.__dict__ if not key.startswith("_"))) or "none"
    raise AttributeError(f"the host offers no tool {name!r}; it offers: {offered}", name=name)


def install():
    tools.__getattr__ = _no_such_tool
    belljar.tools = tools
    for thing in (calls.ToolError, calls.ToolLimitError, utilities.chunk_text, utilities.search_context):
        setattr(belljar, thing.__name__, thing)
    belljar.__all__ = ["ToolError", "ToolLimitError", "chunk_text", "search_context", "tools"]
    belljar.__path__ = []
    sys.modules["belljar"], sys.modules["belljar.tools"] = belljar, tools
