"""Belljar's MCP server as the official Python client sees it.

    client.py stdio PROGRAM MODE      MODE: auto (the newest lifecycle) or legacy (initialize)
    client.py http URL TOKEN

The client itself checks every structured content against the schema of its tool. Each check prints
its name; the first that fails ends the program.
"""

import asyncio
import base64
import os
import pathlib
import sys
import time
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = [
    "run_python_code", "execute_code", "create_session", "fork_session", "destroy_session",
    "list_sessions", "get_variable", "read_file", "write_file", "list_files", "cancel_execution",
    "list_runtimes", "validate_code",
]

LOOKS = {"list_sessions", "get_variable", "read_file", "list_files", "list_runtimes", "validate_code"}

# A picture of one pixel, and what shows it.
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
PICTURE = f"""
class Picture:
    def _repr_png_(self): return __import__('base64').b64decode({PNG!r})
    def _repr_svg_(self): return '<svg/>'
Picture()
"""


@asynccontextmanager
async def connected():
    if sys.argv[1] == "stdio":
        env = {name: os.environ[name] for name in ("BELLJAR_HOME", "PATH", "SANDBOX_ARTIFACTS_DIR") if name in os.environ}
        server = StdioServerParameters(command=sys.argv[2], args=["mcp"], env=env)
        async with Client(server, mode=sys.argv[3]) as client:
            yield client
    else:
        headers = {"Authorization": f"Bearer {sys.argv[3]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
            async with Client(streamable_http_client(sys.argv[2], http_client=http)) as client:
                yield client


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def good(client, tool, **arguments):
    """A call that works; its structured content."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, arguments, text(result))
    return result.structured_content


async def bad(client, tool, **arguments):
    """A call that is an error of the tool; its text."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, arguments, text(result))
    return text(result)


async def the_server_says_who_it_is(client):
    assert client.server_info.name == "belljar", client.server_info
    assert client.server_info.version
    assert "create_session" in client.instructions
    if sys.argv[1] == "stdio" and sys.argv[3] == "auto":
        assert client.protocol_version >= "2026-07-28", client.protocol_version
    else:
        assert client.protocol_version == "2025-11-25", client.protocol_version


async def every_tool_is_described(client):
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS, [tool.name for tool in tools]
    for tool in tools:
        assert tool.description and tool.title, tool
        assert tool.output_schema["type"] == "object", tool.name
        for name, field in tool.input_schema["properties"].items():
            assert field["description"], (tool.name, name)
        hints = tool.annotations
        assert hints.open_world_hint is False
        assert hints.read_only_hint is (tool.name in LOOKS), tool.name
        assert None not in (hints.destructive_hint, hints.idempotent_hint)


async def code_is_run(client):
    ran = await good(client, "run_python_code", code="print(sum(range(10)))")
    assert ran == {"success": True, "status": "ok", "output": "45\n"}, ran
    result = await good(client, "execute_code", code="print('hi')\n6 * 7")
    assert (result["stdout"], result["result"]["json"]) == ("hi\n", 42), result
    assert result["meta"]["runtime"] == "wasm" and result["meta"]["isolation"], result
    result = await good(client, "execute_code", code="[1, 2].map(x => x * 2)", language="javascript")
    assert result["result"]["json"] == [2, 4], result


async def failures_of_code_are_results(client):
    result = await client.call_tool("execute_code", {"code": "print('before')\n1 / 0"})
    assert result.is_error
    told = result.structured_content
    assert (told["status"], told["exit_code"], told["stdout"]) == ("error", 1, "before\n"), told
    assert told["error"]["name"] == "ZeroDivisionError", told
    assert "before" in text(result) and "ZeroDivisionError" in text(result), text(result)
    await client.session.validate_tool_result("execute_code", result)
    result = await client.call_tool("run_python_code", {"code": "raise ValueError('no')"})
    assert result.is_error and "ValueError: no" in text(result), text(result)
    assert text(result).count("Traceback") == 1, text(result)


async def time_is_limited(client):
    begun = time.monotonic()
    result = await client.call_tool("execute_code", {"code": "while True: pass", "timeout": 0.5})
    told = result.structured_content
    assert result.is_error and (told["status"], told["meta"]["timed_out"]) == ("timeout", True), told
    session = (await good(client, "create_session"))["session_id"]
    await good(client, "execute_code", session_id=session, code="x = 1")
    for code in ["while True: pass", "import time; time.sleep(60)"]:
        arguments = {"session_id": session, "code": code, "timeout": 0.5}
        result = await client.call_tool("execute_code", arguments)
        told = result.structured_content
        assert (told["status"], told["meta"]["timed_out"]) == ("timeout", True), told
        assert told["meta"]["resource_limits"]["timeout_seconds"] == 0.5, told
        assert "timed out after 0.5 s" in text(result), text(result)
    assert time.monotonic() - begun < 15
    # The session is as it was, and has its whole time again.
    assert (await good(client, "execute_code", session_id=session, code="x"))["result"]["json"] == 1
    for timeout in [0, -1, 601]:
        assert "timeout" in await bad(client, "execute_code", code="1", timeout=timeout)
    await good(client, "destroy_session", session_id=session)


async def sessions_live_on(client):
    made = await good(client, "create_session", session_id="work")
    assert (made["session_id"], made["language"], made["executions"]) == ("work", "python", 0), made
    await good(client, "execute_code", session_id="work", code="x = {'a': [1, 2]}\nopen('f', 'w').write('1')")
    result = await good(client, "execute_code", session_id="work", code="x['a'].append(3)\nx")
    assert result["result"]["json"] == {"a": [1, 2, 3]}, result
    assert result["meta"]["session_id"] == "work", result
    variable = (await good(client, "get_variable", session_id="work", name="x"))["variable"]
    assert (variable["type_name"], variable["json"]) == ("dict", {"a": [1, 2, 3]}), variable
    assert (await good(client, "get_variable", session_id="work", name="y"))["variable"] is None

    fork = (await good(client, "fork_session", session_id="work"))["session_id"]
    await good(client, "execute_code", session_id=fork, code="x = 'changed'\nopen('f', 'w').write('2')")
    assert (await good(client, "execute_code", session_id="work", code="x"))["result"]["json"] == {"a": [1, 2, 3]}
    assert (await good(client, "read_file", session_id="work", path="f"))["content"] == "1"
    assert (await good(client, "read_file", session_id=fork, path="f"))["content"] == "2"

    listed = (await good(client, "list_sessions"))["sessions"]
    assert {one["session_id"] for one in listed} >= {"work", fork}, listed
    assert "already" in await bad(client, "create_session", session_id="work")
    await good(client, "destroy_session", session_id="work")
    assert "no session" in await bad(client, "execute_code", session_id="work", code="1")
    assert (await good(client, "execute_code", session_id=fork, code="x"))["result"]["json"] == "changed"
    await good(client, "destroy_session", session_id=fork)

    script = (await good(client, "create_session", language="javascript"))["session_id"]
    await good(client, "execute_code", session_id=script, code="let n = 20")
    result = await good(client, "execute_code", session_id=script, language="javascript", code="n + 1")
    assert result["result"]["json"] == 21, result
    assert "javascript" in await bad(client, "execute_code", session_id=script, language="python", code="1")
    await good(client, "destroy_session", session_id=script)


async def files_go_in_and_out(client):
    session = (await good(client, "create_session"))["session_id"]
    assert (await good(client, "list_files", session_id=session)) == {"files": [], "total": 0}
    written = await good(client, "write_file", session_id=session, path="data/t.csv", content="a,b\n1,é\n")
    assert written == {"path": "data/t.csv", "bytes": 9}, written
    raw = bytes(range(256))
    await good(client, "write_file", session_id=session, path="raw", content=base64.b64encode(raw).decode(), encoding="base64")
    code = "open('data/t.csv', encoding='utf-8').read(), len(open('raw', 'rb').read())"
    result = await good(client, "execute_code", session_id=session, code=code)
    assert result["result"]["json"] == ["a,b\n1,é\n", 256], result
    read = await good(client, "read_file", session_id=session, path="raw")
    assert (read["encoding"], base64.b64decode(read["content"])) == ("base64", raw), read
    read = await good(client, "read_file", session_id=session, path="data/t.csv")
    assert (read["encoding"], read["content"], read["next_offset"]) == ("utf-8", "a,b\n1,é\n", None), read
    files = (await good(client, "list_files", session_id=session))["files"]
    assert [(file["path"], file["kind"]) for file in files] == [
        ("data", "directory"), ("data/t.csv", "file"), ("raw", "file")], files

    # More than one call gives, with a character across the border.
    part, most = 256 * 1024, 4 * 1024 * 1024
    code = f"open('big', 'w', encoding='utf-8').write('x' * ({part} - 1) + 'é' + 'end')"
    await good(client, "execute_code", session_id=session, code=code)
    first = await good(client, "read_file", session_id=session, path="big")
    assert (first["next_offset"], first["bytes"]) == (part - 1, part + 4), first["next_offset"]
    rest = await good(client, "read_file", session_id=session, path="big", offset=first["next_offset"])
    assert (rest["content"], rest["next_offset"]) == ("éend", None), rest
    few = await good(client, "read_file", session_id=session, path="big", offset=1, length=2)
    assert (few["content"], few["next_offset"]) == ("xx", 3), few
    if sys.argv[1] == "stdio":
        # Over HTTP this client takes no more than 1 MiB in one message.
        code = f"open('huge', 'w').write('x' * ({most} + 1))"
        await good(client, "execute_code", session_id=session, code=code)
        read = await good(client, "read_file", session_id=session, path="huge", length=most * 2)
        assert (len(read["content"]), read["next_offset"]) == (most, most), read["next_offset"]

    too_much = "x" * (most + 1)
    assert "at most" in await bad(client, "write_file", session_id=session, path="much", content=too_much)
    assert "base64" in await bad(client, "write_file", session_id=session, path="f", content="?", encoding="base64")
    for path in ["../up", "/etc/passwd", "data/../../up", "", "."]:
        await bad(client, "read_file", session_id=session, path=path)
        await bad(client, "write_file", session_id=session, path=path, content="x")
    code = "import os\ntry: os.symlink('/etc', 'link')\nexcept OSError: pass\nos.symlink('data', 'inside')"
    await client.call_tool("execute_code", {"session_id": session, "code": code})
    await bad(client, "read_file", session_id=session, path="link/passwd")
    await bad(client, "read_file", session_id=session, path="nowhere")
    await good(client, "destroy_session", session_id=session)


async def images_are_images(client):
    result = await client.call_tool("execute_code", {"code": PICTURE})
    assert not result.is_error, text(result)
    images = [(block.mime_type, block.data) for block in result.content if block.type == "image"]
    svg = base64.b64encode(b"<svg/>").decode()
    assert sorted(images) == [("image/png", PNG), ("image/svg+xml", svg)], images
    assert "image/png" not in result.structured_content["result"]["mime"]


async def progress_is_told(client):
    told = []

    async def progress(value, total, message):
        told.append((value, message))

    session = (await good(client, "create_session"))["session_id"]
    fork = (await good(client, "fork_session", session_id=session))["session_id"]
    code = "import time\nfor i in range(8):\n    print('line', i, flush=True)\n    time.sleep(0.1)"
    for arguments in [{}, {"session_id": session}, {"session_id": fork}]:
        told.clear()
        arguments = {"code": code, **arguments}
        result = await client.call_tool("execute_code", arguments, progress_callback=progress)
        assert not result.is_error and "line 7" in result.structured_content["stdout"]
        assert len(told) >= 2, (arguments, told)
        assert "line" in told[0][1], told
        values = [value for value, _ in told]
        assert values == sorted(set(values)), values
    # Many lines are told in few messages.
    told.clear()
    code = "import time\nfor i in range(3000):\n    print(i)\n    time.sleep(0.0003)"
    await client.call_tool("execute_code", {"code": code}, progress_callback=progress)
    assert len(told) < 100, len(told)
    for one in (session, fork):
        await good(client, "destroy_session", session_id=one)


async def execution_can_be_cancelled(client):
    session = (await good(client, "create_session"))["session_id"]
    await good(client, "execute_code", session_id=session, code="x = 5")
    arguments = {"session_id": session, "code": "while True: pass"}

    # By the tool.
    running = asyncio.create_task(client.call_tool("execute_code", arguments))
    for _ in range(100):
        stopped = (await good(client, "cancel_execution", session_id=session))["cancelled"]
        if stopped:
            break
        await asyncio.sleep(0.02)
    result = await asyncio.wait_for(running, 10)
    assert result.is_error
    # Told at once, it may not even have begun.
    if result.structured_content:
        assert result.structured_content["status"] == "cancelled", result.structured_content
    assert (await good(client, "cancel_execution"))["cancelled"] == 0

    # By the protocol: whoever asked has gone, and the session is free again.
    begun = time.monotonic()
    running = asyncio.create_task(client.call_tool("execute_code", arguments))
    await asyncio.sleep(0.5)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass
    result = await good(client, "execute_code", session_id=session, code="x")
    assert result["result"]["json"] == 5, result
    assert time.monotonic() - begun < 10
    # And so does one whose client does not want to wait any longer.
    try:
        await client.call_tool("execute_code", arguments, read_timeout_seconds=0.5)
        raise AssertionError("that ends by itself")
    except MCPError:
        pass
    assert (await good(client, "execute_code", session_id=session, code="x"))["result"]["json"] == 5
    assert time.monotonic() - begun < 20

    # Destroying a session stops what runs in it.
    running = asyncio.create_task(client.call_tool("execute_code", arguments))
    await asyncio.sleep(0.3)
    await good(client, "destroy_session", session_id=session)
    assert (await asyncio.wait_for(running, 10)).is_error


async def calls_run_at_the_same_time(client):
    session = (await good(client, "create_session"))["session_id"]
    await good(client, "execute_code", session_id=session, code="n = 0")
    # In one session one after the other, beside others.
    step = {"session_id": session, "code": "n += 1\nn"}
    calls = [client.call_tool("execute_code", step) for _ in range(10)]
    calls += [client.call_tool("run_python_code", {"code": f"print({i})"}) for i in range(10)]
    results = await asyncio.gather(*calls)
    assert sorted(one.structured_content["result"]["json"] for one in results[:10]) == list(range(1, 11))
    assert [text(one) for one in results[10:]] == [f"{i}\n" for i in range(10)]
    # More than may wait are refused, and nothing else breaks.
    slow = [client.call_tool("execute_code", {"code": "import time; time.sleep(0.5)"}) for _ in range(80)]
    results = await asyncio.gather(*slow)
    busy = [text(one) for one in results if one.is_error]
    assert busy and all("busy" in one for one in busy), busy[:1]
    assert len(busy) <= 80 - 64
    await good(client, "destroy_session", session_id=session)


async def sessions_are_counted(client):
    made = []
    while True:
        result = await client.call_tool("create_session", {})
        if result.is_error:
            break
        made.append(result.structured_content["session_id"])
        assert len(made) <= 64
    assert len(made) == 64 and "no more" in text(result), (len(made), text(result))
    for one in made:
        await good(client, "destroy_session", session_id=one)


async def languages_and_syntax(client):
    runtimes = (await good(client, "list_runtimes"))["runtimes"]
    assert [(one["language"], one["available"]) for one in runtimes] == [
        ("python", True), ("javascript", True)], runtimes
    assert all(one["version"] and "wasm" in one["isolation"] for one in runtimes), runtimes
    assert await good(client, "validate_code", code="def f(): return 1") == {"valid": True, "error": None}
    checked = await good(client, "validate_code", code="def f(:")
    assert checked["valid"] is False and checked["error"]["name"] == "SyntaxError", checked
    checked = await good(client, "validate_code", code="let x = ;", language="javascript")
    assert checked["valid"] is False, checked


async def the_data_image_has_what_is_imported(client):
    python = (await good(client, "list_runtimes"))["runtimes"][0]
    assert [image["name"] for image in python["images"]] == ["plain", "data"], python
    packages = {one["name"] for one in python["images"][1]["packages"]}
    assert {"numpy", "pandas"} <= packages, packages
    ran = await good(client, "execute_code", code="import numpy as np\nint(np.arange(5).sum())")
    assert (ran["result"]["json"], ran["meta"]["image"]) == (10, "data"), ran
    example = pathlib.Path(__file__).parents[2] / "examples/data"
    session = (await good(client, "create_session", image="data"))["session_id"]
    await good(client, "write_file", session_id=session, path="sales.csv", content=(example / "sales.csv").read_text())
    shown = await client.call_tool("execute_code", {"session_id": session, "code": (example / "report.py").read_text()})
    assert not shown.is_error, text(shown)
    pictures = [block for block in shown.content if block.type == "image"]
    assert any(block.mime_type == "image/png" for block in pictures), shown.content
    files = {entry["path"] for entry in (await good(client, "list_files", session_id=session))["files"]}
    assert {"revenue.csv", "revenue.png"} <= files, files
    await good(client, "destroy_session", session_id=session)
    session = (await good(client, "create_session", image="plain"))["session_id"]
    told = await bad(client, "execute_code", session_id=session, code="import pandas")
    assert "MissingModule: pandas is in the image data" in told, told
    told = await bad(client, "execute_code", session_id=session, code="1", image="data")
    assert "has its image already" in told, told
    told = await bad(client, "create_session", language="javascript", image="data")
    assert "cannot enforce image" in told, told
    await good(client, "destroy_session", session_id=session)


async def wrong_calls_are_told_what_is_wrong(client):
    try:
        await client.call_tool("no_such_tool", {})
        raise AssertionError("there is no such tool")
    except MCPError as error:
        assert error.code == -32602 and "no_such_tool" in error.message, error
    assert "`code`" in await bad(client, "execute_code")
    wrong = await bad(client, "execute_code", code=5)
    assert "`code`" in wrong and "hint:" in wrong, wrong
    assert "`languag`" in await bad(client, "execute_code", code="1", languag="python")
    assert "perl" in await bad(client, "execute_code", code="1", language="perl")
    told = await bad(client, "execute_code", code="1", session_id="nobody's")
    assert "no session" in told and "hint: make one with create_session" in told, told
    for name in ["", "-x", "a/b", "x" * 65, "é"]:
        await bad(client, "create_session", session_id=name)
    for tool in ["fork_session", "destroy_session", "list_files"]:
        assert "no session" in await bad(client, tool, session_id="nobody's")
    assert "no session" in await bad(client, "get_variable", session_id="nobody's", name="x")
    assert "no session" in await bad(client, "cancel_execution", session_id="nobody's")
    huge = "#" * (17 * 1024 * 1024)
    assert "at most" in await bad(client, "execute_code", code=huge)
    # A value that is deeper than messages may be is told as text only.
    session = (await good(client, "create_session"))["session_id"]
    deep = "x = []\nfor _ in range(61): x = [x]\nx"
    told = (await good(client, "execute_code", session_id=session, code=deep))["result"]
    assert told["json"] is None and told["text"] == "[" * 62 + "]" * 62, told
    assert (await good(client, "execute_code", session_id=session, code="len(x)"))["result"]["json"] == 1
    await good(client, "destroy_session", session_id=session)


async def clients_do_not_see_each_other(client):
    await good(client, "create_session", session_id="mine")
    await good(client, "execute_code", session_id="mine", code="secret = 1")
    async with connected() as other:
        assert (await good(other, "list_sessions"))["sessions"] == []
        assert "no session" in await bad(other, "execute_code", session_id="mine", code="secret")
        assert (await good(other, "cancel_execution"))["cancelled"] == 0
        await good(other, "create_session", session_id="mine")
        told = await bad(other, "execute_code", session_id="mine", code="secret")
        assert "NameError" in told, told
        await good(other, "destroy_session", session_id="mine")
    variable = (await good(client, "get_variable", session_id="mine", name="secret"))["variable"]
    assert variable["json"] == 1, variable
    await good(client, "destroy_session", session_id="mine")


CHECKS = [
    the_server_says_who_it_is, every_tool_is_described, code_is_run, failures_of_code_are_results,
    time_is_limited, sessions_live_on, files_go_in_and_out, images_are_images, progress_is_told,
    execution_can_be_cancelled, calls_run_at_the_same_time, sessions_are_counted,
    languages_and_syntax, the_data_image_has_what_is_imported, wrong_calls_are_told_what_is_wrong, clients_do_not_see_each_other,
]


async def main():
    for check in CHECKS:
        async with connected() as client:
            await asyncio.wait_for(check(client), 120)
        print("ok", check.__name__, flush=True)


asyncio.run(main())
