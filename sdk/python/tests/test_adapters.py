"""Adapters, with the frameworks they are for where those are installed."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from helpers import Make

from belljar import ExecutionPolicy, InvalidRequestError
from belljar.adapters import (
    AnthropicTool,
    CodeTool,
    LangChainTool,
    OpenAITool,
    SmolagentsExecutor,
)


def lookup(key: str) -> str:
    """Looks something up."""
    return {"answer": "42"}[key]


@pytest.fixture
def sandbox(make: Make) -> Any:
    return make(tools=[lookup])


def test_a_tool_says_what_happened_and_never_raises(sandbox: Any) -> None:
    tool = CodeTool(sandbox)
    assert tool.name == "run_python"
    assert "lookup(key: str) -> str\n    Looks something up." in tool.description
    assert tool.run("print(lookup('answer'))") == "42\n".rstrip("\n")
    assert tool.run("1 / 0").endswith("ZeroDivisionError: division by zero")
    assert tool.run("open('made', 'w').close()") == "(no output)\n[files written: made]"
    assert tool.run(None).startswith("Error: the arguments")  # type: ignore[arg-type]
    long = CodeTool(sandbox, max_text=100).run("print('x' * 1000)")
    assert len(long) == 100 and long.endswith("... (output truncated)")
    function = tool.as_function()
    assert (function.__name__, function("6 * 7")) == ("run_python", "42")
    sandbox.destroy()
    assert tool.run("1") == "Error: the sandbox was destroyed\nhint: make a new one"


def test_openai_definitions_and_answers(sandbox: Any) -> None:
    tool = OpenAITool(sandbox)
    call = {"id": "c1", "type": "function", "function": {"arguments": '{"code": "print(1)"}'}}
    assert tool.handle(call) == {"role": "tool", "tool_call_id": "c1", "content": "1"}
    item = {"type": "function_call", "call_id": "c2", "arguments": '{"code": "2"}'}
    assert tool.handle(item) == {"type": "function_call_output", "call_id": "c2", "output": "2"}
    for wrong in ("{", "[]", "{}", '{"code": 5}', None):
        call["function"] = {"arguments": wrong}
        assert tool.handle(call)["content"].startswith("Error: the arguments ")


def test_openai_definitions_are_what_its_client_takes(sandbox: Any) -> None:
    pytest.importorskip("openai", reason="openai is not installed")
    from openai.types.chat import ChatCompletionMessageToolCall
    from openai.types.responses import ResponseFunctionToolCall
    from openai.types.responses.function_tool import FunctionTool
    from openai.types.shared import FunctionDefinition

    tool = OpenAITool(sandbox)
    FunctionDefinition.model_validate(tool.definition["function"])
    FunctionTool.model_validate(tool.responses_definition)
    call = ChatCompletionMessageToolCall.model_validate(
        {
            "id": "c1",
            "type": "function",
            "function": {"name": tool.name, "arguments": json.dumps({"code": "print(3)"})},
        }
    )
    assert tool.handle(call)["content"] == "3"
    item = ResponseFunctionToolCall(
        type="function_call", call_id="c2", name=tool.name, arguments='{"code": "print(4)"}'
    )
    assert tool.handle(item) == {"type": "function_call_output", "call_id": "c2", "output": "4"}


def test_anthropic_definitions_and_answers(sandbox: Any) -> None:
    tool = AnthropicTool(sandbox)
    assert set(tool.definition) == {"name", "description", "input_schema"}
    answer = tool.handle({"type": "tool_use", "id": "t1", "input": {"code": "print(1)"}})
    assert answer == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "1"}],
        "is_error": False,
    }
    assert tool.handle({"id": "t2", "input": {"code": "1 / 0"}})["is_error"] is True
    assert tool.handle({"id": "t3", "input": {}})["is_error"] is True
    picture = base64.b64encode(b"\x89PNG").decode()
    code = (
        "import base64\n"
        f"class Picture:\n    def _repr_png_(self): return base64.b64decode('{picture}')\n"
        "Picture()"
    )
    shown = tool.handle({"id": "t4", "input": {"code": code}})["content"][1]
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    assert shown == {"type": "image", "source": source}


def test_anthropic_definitions_are_what_its_client_takes(sandbox: Any) -> None:
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
    from pydantic import TypeAdapter

    tool = AnthropicTool(sandbox)
    TypeAdapter(ToolParam).validate_python(tool.definition)
    block = ToolUseBlock(id="t1", type="tool_use", name=tool.name, input={"code": "print(1)"})
    answer = tool.handle(block)
    TypeAdapter(ToolResultBlockParam).validate_python(answer)
    assert answer["tool_use_id"] == "t1"


def test_a_langchain_style_tool(sandbox: Any) -> None:
    tool = LangChainTool(sandbox)
    assert tool.invoke({"code": "print(1)"}) == tool.invoke("print(1)") == "1"
    call = {"type": "tool_call", "id": "c1", "name": tool.name, "args": {"code": "print(2)"}}
    assert tool.invoke(call)["content"] == "2"
    assert asyncio.run(tool.ainvoke("print(3)")) == "3"
    assert tool.args_schema.model_json_schema()["required"] == ["code"]


def test_langchain_takes_it(sandbox: Any) -> None:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from langchain_core.tools import tool as as_tool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    real = LangChainTool(sandbox).to_langchain()
    assert real.invoke({"code": "print(6 * 7)"}) == "42"
    message = real.invoke(
        {"type": "tool_call", "id": "c1", "name": real.name, "args": {"code": "print(1)"}}
    )
    assert (message.content, message.tool_call_id) == ("1", "c1")
    described = convert_to_openai_tool(real)["function"]
    assert described["name"] == "run_python"
    assert described["parameters"]["required"] == ["code"]
    assert as_tool(LangChainTool(sandbox).as_function()).invoke({"code": "2"}) == "2"


def test_a_smolagents_style_executor() -> None:
    executor = SmolagentsExecutor()
    executor.send_variables({"start": [1, 2]})
    output = executor("start.append(3)\nprint('said')\nsum(start)")
    assert (output.output, output.logs, output.is_final_answer) == (6, "said\n", False)
    executor.send_tools({"lookup": lookup, "final_answer": lambda answer: answer})
    # Variables outlive a change of tools.
    final = executor("print(len(start))\nfinal_answer(lookup('answer'))\nprint('not reached')")
    assert (final.output, final.logs, final.is_final_answer) == ("42", "3\n", True)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        executor("1 / 0")
    assert executor("None").output is None
    assert executor("{1}").output == "{1}"
    with pytest.raises(InvalidRequestError):
        executor.send_variables({"x": object()})
    with pytest.raises(InvalidRequestError):
        SmolagentsExecutor(tools=[lookup])
    executor.cleanup()
    executor.cleanup()


@pytest.mark.filterwarnings("ignore")
def test_smolagents_takes_it() -> None:
    pytest.importorskip("smolagents", reason="smolagents is not installed")
    from smolagents import CodeAgent, Tool
    from smolagents.models import ChatMessage, MessageRole, Model

    class Lookup(Tool):  # type: ignore[misc, unused-ignore]
        name = "lookup"
        description = "Looks something up."
        inputs = {"key": {"type": "string", "description": "what"}}  # noqa: RUF012
        output_type = "string"

        def forward(self, key: str) -> str:
            return lookup(key)

    cells = iter(
        [
            "<code>\nfound = lookup(key='answer')\nprint(found)\n</code>",
            "<code>\n1 / 0\n</code>",
            "<code>\nfinal_answer(int(found) + 1)\n</code>",
        ]
    )

    class Scripted(Model):  # type: ignore[misc, unused-ignore]
        def generate(self, messages: Any, **_: Any) -> Any:
            return ChatMessage(role=MessageRole.ASSISTANT, content=next(cells))

    executor = SmolagentsExecutor(ExecutionPolicy.agent())
    agent = CodeAgent(tools=[Lookup()], model=Scripted(), executor=executor, verbosity_level=0)
    assert agent.run("What is it?") == 43
    errors = [step.error for step in agent.memory.steps if getattr(step, "error", None)]
    assert len(errors) == 1 and "ZeroDivisionError" in str(errors[0])
    executor.cleanup()
