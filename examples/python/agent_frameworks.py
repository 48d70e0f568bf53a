"""A sandbox as a tool of agent frameworks. None of them has to be installed for this."""

from belljar import create_sandbox
from belljar.adapters import AnthropicTool, LangChainTool, OpenAITool, SmolagentsExecutor

with create_sandbox() as sandbox:
    openai = OpenAITool(sandbox)
    print(openai.definition["function"]["name"])
    call = {"id": "call_1", "function": {"arguments": '{"code": "print(6 * 7)"}'}}
    print(openai.handle(call))

    anthropic = AnthropicTool(sandbox)
    print(anthropic.handle({"id": "toolu_1", "input": {"code": "1 / 0"}})["is_error"])

    print(LangChainTool(sandbox).invoke({"code": "sorted('belljar')"}))

executor = SmolagentsExecutor()  # CodeAgent(tools=[...], model=..., executor=executor)
executor.send_variables({"numbers": [1, 2, 3]})
print(executor("sum(numbers)").output)
executor.cleanup()
